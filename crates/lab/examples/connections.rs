//! How many connections a second a path carries: each is opened, asked 64 bytes, answered 64 bytes, and closed by the server.
//!
//! `connections serve ADDRESS` answers until it is killed; `connections ask ADDRESS AT_ONCE SECONDS` asks with this many at once,
//! and prints how many a second were answered whole. `bench/gateway.sh` runs both.
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The length of a question, and of an answer, in bytes.
const LENGTH: usize = 64;
/// Who does not answer for this long is not waited for.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads that answer.
const SERVERS: usize = 4;
/// Asking goes on for this long before it counts.
const WARM_UP: Duration = Duration::from_millis(500);

fn serve(address: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    std::thread::scope(|scope| {
        for _ in 0..SERVERS {
            scope.spawn(|| {
                let mut question = [0; LENGTH];
                for stream in listener.incoming().flatten() {
                    // Who asks and goes away is not answered; the next one is.
                    let _ = stream.set_read_timeout(Some(SOCKET_TIMEOUT));
                    let asked = (&stream).read_exact(&mut question);
                    let _ = asked.and_then(|()| (&stream).write_all(&question));
                }
            });
        }
    });
    Ok(())
}

fn ask_once(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, SOCKET_TIMEOUT)?;
    stream.set_read_timeout(Some(SOCKET_TIMEOUT))?;
    stream.write_all(&[7; LENGTH])?;
    let mut answer = Vec::with_capacity(LENGTH);
    stream.read_to_end(&mut answer)?;
    if answer == [7; LENGTH] { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

/// Connections a second, and how many failed.
fn ask(address: SocketAddr, at_once: usize, time: Duration) -> (f64, u64) {
    let (answered, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let begin = Instant::now() + WARM_UP;
    let end = begin + time;
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while Instant::now() < end {
                    let outcome = ask_once(address);
                    let counts = (begin..end).contains(&Instant::now());
                    let counter = if outcome.is_ok() { &answered } else { &failed };
                    counter.fetch_add(u64::from(counts), Ordering::Relaxed);
                }
            });
        }
    });
    (answered.into_inner() as f64 / time.as_secs_f64(), failed.into_inner())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let address = |text: &str| text.parse::<SocketAddr>().map_err(|error| format!("{text}: {error}"));
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
    let done = match words[..] {
        ["serve", at] => address(at).and_then(|at| serve(at).map_err(|error| error.to_string())),
        ["ask", at, at_once, seconds] => (|| {
            let time = Duration::from_secs(u64::from(number(seconds)?));
            let (rate, failed) = ask(address(at)?, number(at_once)? as usize, time);
            println!("{rate:.0}");
            if failed > 0 { Err(format!("{failed} connections failed")) } else { Ok(()) }
        })(),
        _ => Err("usage: connections serve ADDRESS | ask ADDRESS AT_ONCE SECONDS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
