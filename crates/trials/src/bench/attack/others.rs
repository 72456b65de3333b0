//! The others: whoever loads pages and keeps connections open while somebody attacks.
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The bytes of a page.
const PAGE: usize = 100_000;
/// Nobody waits longer for a byte.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A slow stream sends this much at a time, and this often.
const DROP: usize = 2_000;
const EVERY: Duration = Duration::from_millis(50);
/// A thread that serves needs no more.
const STACK: usize = 64 << 10;

/// The byte at an offset of what a server sends.
fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// Serves whoever comes: a page for `p`, bytes without end for `e`, a slow stream for `s`.
pub fn serve(listener: &TcpListener, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        // Where there is no room for a thread more, whoever asks is sent away.
        let _ = std::thread::Builder::new().stack_size(STACK).spawn(move || serve_one(stream));
    }
}

fn serve_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut asked = [0];
    stream.read_exact(&mut asked)?;
    let mut sent = 0;
    let mut block = |len: usize, stream: &mut TcpStream| {
        let bytes: Vec<u8> = (sent..sent + len).map(byte_at).collect();
        sent += len;
        stream.write_all(&bytes)
    };
    match asked {
        [b'p'] => block(PAGE, &mut stream),
        [b's'] => loop {
            block(DROP, &mut stream)?;
            std::thread::sleep(EVERY);
        },
        _ => loop {
            block(16 << 10, &mut stream)?;
        },
    }
}

/// Loads a page; how long that took. `look` is called with its own address when half of it has come.
pub fn load_page(server: SocketAddr, look: impl FnOnce(SocketAddr)) -> io::Result<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"p")?;
    let mut page = vec![0; PAGE];
    let (half, rest) = page.split_at_mut(PAGE / 2);
    stream.read_exact(half)?;
    look(stream.local_addr()?);
    stream.read_exact(rest)?;
    let took = begun.elapsed();
    if page.iter().enumerate().any(|(at, byte)| *byte != byte_at(at)) {
        return Err(io::Error::other("a page has other bytes than were sent"));
    }
    Ok(took)
}

/// A connection that is open all the while.
pub struct SlowStream {
    stream: TcpStream,
    pub read: AtomicU64,
}

impl SlowStream {
    pub fn open(server: SocketAddr) -> io::Result<SlowStream> {
        let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"s")?;
        Ok(SlowStream { stream, read: AtomicU64::new(0) })
    }

    /// The client's and the server's end.
    pub fn ends(&self) -> io::Result<[SocketAddr; 2]> {
        Ok([self.stream.local_addr()?, self.stream.peer_addr()?])
    }

    /// Reads until it is told to stop.
    pub fn read(&self, stop: &AtomicBool) -> io::Result<()> {
        let (mut at, mut block) = (0, [0; 4 * DROP]);
        while !stop.load(Ordering::Relaxed) {
            let got = (&self.stream).read(&mut block)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if block[..got].iter().enumerate().any(|(i, byte)| *byte != byte_at(at + i)) {
                return Err(io::Error::other("other bytes came than were sent"));
            }
            at += got;
            self.read.store(at as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
