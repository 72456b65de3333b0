//! An etcd of this machine, for as long as something is measured of it.
use super::costs::on_processor;
use crate::error::{Result, TrialError, While};
use shorthaul_relay::discovery::Load;
use shorthaul_relay::discovery::directory::{Directory, Etcd, EtcdConfig, Registered, Registration};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Until then it answers.
const BEGINS: Duration = Duration::from_secs(30);

/// A cluster of one member, with a folder of its own, that ends with this.
pub struct EtcdServer {
    process: Child,
    folder: PathBuf,
    endpoint: String,
}

impl EtcdServer {
    /// What it says it is; `None` if there is none on this machine.
    pub fn version() -> Option<String> {
        let said = Command::new("etcd").arg("--version").stderr(Stdio::null()).output().ok()?;
        String::from_utf8_lossy(&said.stdout).lines().next().map(|line| line.trim().to_owned())
    }

    /// Begins; writing waits for the disk, as in a cluster that is to last.
    ///
    /// # Errors
    /// It does not begin.
    pub fn start() -> Result<EtcdServer> {
        let port =
            |socket: std::io::Result<TcpListener>| socket.and_then(|socket| Ok(socket.local_addr()?.port()));
        let [client, peer] =
            [port(TcpListener::bind("127.0.0.1:0"))?, port(TcpListener::bind("127.0.0.1:0"))?];
        let folder = std::env::temp_dir().join(format!("shorthaul-etcd-{}-{client}", std::process::id()));
        let [endpoint, peer] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(&folder)
            .args(["--name", "one", "--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("one={peer}"), "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .doing("starting etcd")?;
        let server = EtcdServer { process, folder, endpoint };
        let (begun, client) = (Instant::now(), server.client()?);
        while let Err(error) = client.relays() {
            if begun.elapsed() > BEGINS {
                return Err(TrialError::of(error));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub fn client(&self) -> Result<Etcd> {
        Etcd::new(EtcdConfig::new(&self.endpoint)).map_err(TrialError::of)
    }

    /// Processor time of all its threads so far.
    pub fn time(&self) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))?.flatten() {
            // One that has ended meanwhile had hardly anything to do.
            all += on_processor(&task.path().join("schedstat")).unwrap_or_default();
        }
        Ok(all)
    }

    /// Bytes of its answer to whoever asks for all.
    pub fn bytes_of_all(&self) -> Result<u64> {
        let body = r#"{"key":"AA==","range_end":"AA=="}"#;
        let mut socket = TcpStream::connect(self.endpoint.trim_start_matches("http://"))?;
        let len = body.len();
        write!(socket, "POST /v3/kv/range HTTP/1.0\r\nContent-Length: {len}\r\n\r\n{body}")?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer)?;
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        Ok((answer.len() - head) as u64)
    }

    /// Processor time for each time that a relay writes itself, with a lease that it has already: of so many.
    pub fn writes(&self, count: u32) -> Result<Duration> {
        // What it does by itself is not the relay's.
        let idle = self.time()?;
        std::thread::sleep(Duration::from_secs(1));
        let idle = (self.time()? - idle).as_secs_f64();
        let written = Arc::new(AtomicU32::new(0));
        // Each writes every ten milliseconds; the lease that is granted has a second all the same.
        let writers: Vec<Registered> = (0..10_u16)
            .map(|number| {
                let told = Arc::clone(&written);
                let registration = Registration {
                    name: format!("writer-{number}"),
                    session: SocketAddr::from(([198, 51, 100, 1], 7000 + number)),
                    probe: SocketAddr::from(([198, 51, 100, 1], 7007)),
                    lease: Duration::from_millis(30),
                };
                let load = move || {
                    told.fetch_add(1, Ordering::Relaxed);
                    Load {
                        service_time: Duration::ZERO,
                        buffer: 1,
                        sessions: 0,
                        capacity: None,
                        overloaded: false,
                    }
                };
                let etcd = Arc::new(self.client()?);
                Ok(Registered::start(etcd, registration, load, |_| {})?)
            })
            .collect::<Result<_>>()?;
        let (begun, served, before) = (Instant::now(), self.time()?, written.load(Ordering::Relaxed));
        while written.load(Ordering::Relaxed) - before < count && begun.elapsed() < BEGINS {
            std::thread::sleep(Duration::from_millis(20));
        }
        let (took, served) = (begun.elapsed().as_secs_f64(), (self.time()? - served).as_secs_f64());
        let count = written.load(Ordering::Relaxed) - before;
        drop(writers);
        if count == 0 {
            return Err(TrialError::failed("no relay could write itself into etcd"));
        }
        Ok(Duration::from_secs_f64((served - idle * took).max(0.0) / f64::from(count)))
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
