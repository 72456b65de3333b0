//! Connections that say nothing.
//!
//! One process may not have descriptors enough: both ends are processes of their own, in pairs, each of this program with a hidden
//! option of `bench scale`.
use crate::error::{Result, TrialError, While};
use shorthaul_lab::Host;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Connections of a pair of processes.
const A_PAIR: u64 = 12_500;
/// Nobody waits longer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What an echo moves each way, in bytes.
const ECHO: usize = 64;

/// Connections that are open until this is dropped.
pub(crate) struct IdleConnections(Vec<[Ends; 2]>);

impl IdleConnections {
    /// Opens so many from `client` to `server`.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) fn open(client: &Host, server: &Host, count: u64) -> Result<Self> {
        let (mut pairs, mut left) = (Vec::new(), count);
        while left > 0 {
            let part = left.min(A_PAIR);
            left -= part;
            let mut serving = Ends::start(server, part, &["--serve"])?;
            let to = format!("{}:{}", server.address_v4(), serving.hear("port")?);
            let mut connecting = Ends::start(client, part, &["--connect", &to])?;
            connecting.hear("open")?;
            // The clients' ends are closed first.
            pairs.push([connecting, serving]);
        }
        Ok(IdleConnections(pairs))
    }

    /// Has each say something once, and be answered.
    ///
    /// # Errors
    /// One is not answered.
    pub(crate) fn echo(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(|[client, _]| {
            client.go_on()?;
            client.hear("echoed").map(drop)
        })
    }
}

/// One of the processes that have ends of connections.
struct Ends {
    child: Child,
    asks: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Ends {
    fn start(host: &Host, count: u64, more: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().doing("looking for this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "scale", "--flows", &count.to_string()]).args(more);
        let mut child =
            host.spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).doing("starting ends")?;
        let says = child.stdout.take().ok_or_else(|| TrialError::Failed("ends do not speak".into()))?;
        Ok(Ends { asks: child.stdin.take(), says: BufReader::new(says), child })
    }

    /// The next line that it says: what was wanted, and what follows.
    fn hear(&mut self, wanted: &str) -> Result<String> {
        let mut line = String::new();
        self.says.read_line(&mut line).doing("listening to ends of connections")?;
        match line.trim().strip_prefix(wanted) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(TrialError::Failed(format!("ends of connections said {line:?} instead of {wanted}"))),
        }
    }

    fn go_on(&mut self) -> Result<()> {
        self.asks.iter_mut().try_for_each(|asks| asks.write_all(b"\n")).doing("asking for echoes")
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // It ends when nobody can ask it any more.
        self.asks = None;
        let _ = self.child.wait();
    }
}

/// Takes a line from the parent; false at its end.
fn is_asked() -> io::Result<bool> {
    let mut line = String::new();
    Ok(io::stdin().lock().read_line(&mut line)? > 0)
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush())
}

/// Takes connections, answers each once, in the order in which they came, and keeps them.
pub(super) fn serve(count: u64) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", 0))?;
    say(&format!("port {}", listener.local_addr()?.port()))?;
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(listener.accept()?.0);
    }
    for stream in &mut streams {
        let mut bytes = [0; ECHO];
        match stream.read_exact(&mut bytes) {
            // Closed, and nobody wanted an echo.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        stream.write_all(&bytes)?;
    }
    while is_asked()? {}
    Ok(())
}

/// Opens connections, asks each once when it is told to, and keeps them.
pub(super) fn connect(count: u64, to: SocketAddr) -> io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    say("open")?;
    if is_asked()? {
        for stream in &mut streams {
            stream.write_all(&[7; ECHO])?;
            stream.read_exact(&mut [0; ECHO])?;
        }
        say("echoed")?;
    }
    while is_asked()? {}
    Ok(())
}
