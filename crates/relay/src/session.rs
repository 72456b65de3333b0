use crate::relay::Forwarding;
use crate::sys::{self, Pipe};
use std::fs::File;
use std::io::{self, Seek};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a pipe between two sockets holds. The kernel lets an ordinary user have no more.
const PIPE: usize = 1 << 20;

/// Why one direction ended early.
enum Broken {
    /// The side that sends.
    Source(io::Error),
    /// The side that receives.
    Sink(io::Error),
}

/// Moves bytes between two connections, both ways, until both directions are closed or one of the
/// connections breaks; then the other is reset, so that a broken transfer never looks complete.
/// Bytes moved are added to `moved`.
pub fn relay(near: &TcpStream, far: &TcpStream, forwarding: Forwarding, moved: &AtomicU64) -> io::Result<()> {
    // Whatever ends this process, what is open then ends with a reset, not with a FIN.
    let sockets = [near, far].map(socket2::SockRef::from);
    for socket in &sockets {
        socket.set_linger(Some(Duration::ZERO))?;
        socket.set_tcp_nodelay(true)?;
    }
    let outcomes = thread::scope(|scope| {
        let back = scope.spawn(|| direction(far, near, forwarding, moved));
        let there = direction(near, far, forwarding, moved);
        [there, back.join().unwrap_or_else(|_| Err(io::Error::other("the other direction panicked")))]
    });
    let [there, back] = outcomes;
    there.and(back)?;
    for socket in &sockets {
        socket.set_linger(None)?;
    }
    Ok(())
}

/// Sends back what comes, until it ends.
pub fn echo(socket: &TcpStream, forwarding: Forwarding, moved: &AtomicU64) -> io::Result<()> {
    direction(socket, socket, forwarding, moved)
}

/// One direction, to the end of its stream. If it breaks, so does the other.
fn direction(from: &TcpStream, to: &TcpStream, forwarding: Forwarding, moved: &AtomicU64) -> io::Result<()> {
    let done = match forwarding {
        Forwarding::Pipelined { wait_windows } => {
            let waited =
                if wait_windows > 0 { wait(from, wait_windows).map_err(Broken::Source) } else { Ok(()) };
            waited.and_then(|()| pump(from, to, moved))
        }
        Forwarding::Store => store(from, to, moved),
    };
    match done {
        // The stream ended; the other direction goes on (RFC 9293 §3.6, half-close).
        Ok(()) => to.shutdown(Shutdown::Write).or_else(|error| match error.kind() {
            io::ErrorKind::NotConnected => Ok(()), // it has closed both ways
            _ => Err(error),
        }),
        Err(Broken::Source(error) | Broken::Sink(error)) => {
            // Neither may look as if it had ended well. Failures are of no use to anybody here.
            let _ = (sys::abort(from), sys::abort(to));
            Err(error)
        }
    }
}

fn pump(from: &TcpStream, to: &TcpStream, moved: &AtomicU64) -> Result<(), Broken> {
    let pipe = Pipe::new(PIPE).map_err(Broken::Source)?;
    loop {
        let mut held = pipe.fill(from).map_err(Broken::Source)?;
        if held == 0 {
            return Ok(());
        }
        while held > 0 {
            let passed = pipe.empty(to, held).map_err(Broken::Sink)?;
            moved.fetch_add(passed as u64, Ordering::Relaxed);
            held -= passed;
        }
    }
}

/// Takes everything first, into a file that has no name.
fn store(from: &TcpStream, to: &TcpStream, moved: &AtomicU64) -> Result<(), Broken> {
    let mut file = spool().map_err(Broken::Sink)?;
    io::copy(&mut &*from, &mut file).map_err(Broken::Source)?;
    file.rewind().map_err(Broken::Sink)?;
    let passed = io::copy(&mut file, &mut &*to).map_err(Broken::Sink)?;
    moved.fetch_add(passed, Ordering::Relaxed);
    Ok(())
}

fn spool() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(std::env::temp_dir())
}

/// Waits so many round-trip times of the connection that data come by, or until it has closed or
/// nothing more fits into its buffer: there is nothing more to wait for then.
fn wait(from: &TcpStream, windows: u32) -> io::Result<()> {
    let buffer = socket2::SockRef::from(from).recv_buffer_size()?;
    let mut data_since = None;
    loop {
        let rtt = sys::tcp_info(&from.as_fd())?.rtt.max(Duration::from_millis(1));
        let held = sys::readable(&from.as_fd())?;
        if held > 0 {
            data_since.get_or_insert_with(Instant::now);
        }
        // The kernel charges a buffer with more than the bytes in it: half full is full.
        let over = data_since.is_some_and(|since| since.elapsed() >= rtt * windows) || held >= buffer / 2;
        if over || sys::wait_for_end(&from.as_fd(), rtt / 4)? {
            return Ok(());
        }
    }
}
