//! Sessions through relays that are killed and started again: what becomes of downloads.
use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use shorthaul_os::ProcessorTime;
use shorthaul_report::{Console, Progress};
use shorthaul_types::{Bytes, Seed};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nobody waits longer for a byte.
const TIMEOUT: Duration = Duration::from_secs(120);
/// What a server writes at once.
const BLOCK: usize = 64 << 10;

/// What becomes of downloads through three relays while the first two are killed (`kill -9`) and started again at random
///
/// Relays and clients are processes of this program on this host's loopback; every download's SHA-256 is compared. It holds if
/// all come to their end through a proxy whose sessions move, and if of those through one with `--no-moves` each comes
/// to its end or is reset. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Outlive {
    /// Downloads by sessions that move
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    downloads: u64,
    /// Downloads by plain connections
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    plain: u64,
    /// How much is downloaded each time
    #[arg(long, value_name = "SIZE", default_value = "10 MB")]
    size: Bytes,
    /// How many at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    at_once: u64,
    /// The fastest that each goes
    #[arg(long, value_name = "SIZE", default_value = "10 MB")]
    per_second: Bytes,
    /// How often a relay is killed
    #[arg(long, value_name = "TIME", default_value = "6 s", value_parser = shorthaul_types::parse_duration)]
    every: Duration,
    /// What is between relays: `tls` or `plain`
    #[arg(long, value_name = "KIND", default_value = "tls")]
    links: String,
    /// What is drawn: which relay is killed, when, and for how long it is gone
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A process of this program, killed when this is dropped.
struct Process(Child);

impl Process {
    /// Starts it; it says `ready` when it is.
    fn start(args: &[String]) -> Result<Process> {
        let program = std::env::current_exe().doing("looking for this program")?;
        let child = Command::new(program).args(args).stdout(Stdio::piped()).spawn();
        let mut child = child.doing("starting a process")?;
        let mut said = String::new();
        if let Some(out) = child.stdout.as_mut() {
            io::BufRead::read_line(&mut io::BufReader::new(out), &mut said)
                .doing("listening to a process")?;
        }
        let process = Process(child);
        if said.starts_with("ready") {
            Ok(process)
        } else {
            Err(TrialError::Failed(format!("`shorthaul {}` did not start", args.join(" "))))
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A folder of its own, that vanishes.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What downloads came to.
#[derive(Default)]
struct Tally {
    whole: AtomicU64,
    reset: AtomicU64,
    /// A clean end, and not all was there; or other bytes.
    wrong: AtomicU64,
    longest_ms: AtomicU64,
}

/// The bytes of a download, and how many words of them there were.
struct Content(Seed, u64);

impl Content {
    fn of(number: u64) -> Content {
        Content(Seed(number), 0)
    }

    fn fill(&mut self, block: &mut [u8]) {
        for eight in block.chunks_mut(8) {
            self.1 += 1;
            eight.copy_from_slice(&self.0.nth(self.1).0.to_le_bytes()[..eight.len()]);
        }
    }
}

impl Outlive {
    /// Sends what is asked for by its number, no faster than it may.
    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        let mut number = [0; 8];
        socket.read_exact(&mut number)?;
        let mut content = Content::of(u64::from_be_bytes(number));
        let (mut block, began, mut sent) = (vec![0; BLOCK], Instant::now(), 0);
        while sent < self.size.0 {
            let len = (self.size.0 - sent).min(BLOCK as u64) as usize;
            content.fill(&mut block[..len]);
            socket.write_all(&block[..len])?;
            sent += len as u64;
            let due = Duration::from_secs_f64(sent as f64 / self.per_second.0.max(1) as f64);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        Ok(())
    }

    fn download(&self, port: SocketAddr, number: u64, tally: &Tally) {
        let mut content = Content::of(number);
        let (mut expected, mut block, mut left) = (Sha256::new(), vec![0; BLOCK], self.size.0);
        while left > 0 {
            let len = left.min(BLOCK as u64) as usize;
            content.fill(&mut block[..len]);
            expected.update(&block[..len]);
            left -= len as u64;
        }
        let began = Instant::now();
        let downloaded = || -> io::Result<bool> {
            let mut socket = TcpStream::connect(port)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            socket.write_all(&number.to_be_bytes())?;
            let (mut hash, mut block) = (Sha256::new(), vec![0; BLOCK]);
            loop {
                match socket.read(&mut block)? {
                    0 => return Ok(hash.finalize() == expected.clone().finalize()),
                    len => hash.update(&block[..len]),
                }
            }
        };
        let counter = match downloaded() {
            Ok(true) => &tally.whole,
            Ok(false) => &tally.wrong,
            Err(_) => &tally.reset,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tally.longest_ms.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn node(&self, at: usize, ports: &[SocketAddr], secret: &Path) -> Vec<String> {
        let text = |text: &str| text.to_owned();
        let mut args = vec![text("node"), text("--listen"), ports[at].to_string()];
        args.extend([text("--secret"), secret.display().to_string(), text("--name"), format!("node{at}")]);
        args.extend([text("--allow-destination"), text("127.0.0.0/8"), text("--keep-privileges")]);
        args.extend([text("--links"), self.links.clone()]);
        args
    }

    /// One after the other, so many at the same time, while relays are killed; how often that was.
    fn under_fire(
        &self,
        console: &dyn Console,
        (what, count): (&str, u64),
        port: SocketAddr,
        nodes: &mut [Option<Process>],
        (ports, secret): (&[SocketAddr], &Path),
    ) -> Result<(Tally, u64)> {
        let (tally, next) = (Tally::default(), AtomicU64::new(0));
        let progress = Progress::begin(console, count as usize);
        let mut told = 0;
        let killed = std::thread::scope(|scope| -> Result<u64> {
            let clients: Vec<_> = (0..self.at_once)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            if number >= count {
                                return;
                            }
                            self.download(port, number, &tally);
                        }
                    })
                })
                .collect();
            let (seed, mut drawn) = (Seed(self.seed).derive(what), 0);
            let mut draw = || {
                drawn += 1;
                (seed.nth(drawn).0 >> 11) as f64 / (1u64 << 53) as f64
            };
            let mut killed = 0;
            while !clients.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                // Half of it to one and a half of it, and gone for a quarter of it at most.
                let until = Instant::now() + self.every.mul_f64(0.5 + draw());
                while Instant::now() < until && !clients.iter().all(|client| client.is_finished()) {
                    std::thread::sleep(Duration::from_millis(20));
                    let done =
                        [&tally.whole, &tally.reset, &tally.wrong].map(|of| of.load(Ordering::Relaxed));
                    while told < done.iter().sum::<u64>() {
                        told += 1;
                        progress.step(what);
                    }
                }
                let at = usize::from(draw() < 0.5);
                nodes[at] = None;
                killed += 1;
                std::thread::sleep(self.every.mul_f64(draw() / 4.0));
                nodes[at] = Some(Process::start(&self.node(at, ports, secret))?);
            }
            Ok(killed)
        })?;
        Ok((tally, killed))
    }
}

fn free_port() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").doing("looking for a port")?;
    listener.local_addr().doing("looking for a port")
}

impl Trial for Outlive {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        if self.size.0 == 0 || self.at_once == 0 || !["tls", "plain"].contains(&self.links.as_str()) {
            return Err(TrialError::asked(
                "--size and --at-once are more than 0, --links is `tls` or `plain`",
            ));
        }
        let folder = std::env::temp_dir().join(format!("shorthaul-outlive-{}", std::process::id()));
        std::fs::create_dir_all(&folder).doing("making a folder")?;
        let folder = Folder(folder);
        let secret = folder.0.join("net.key");
        let digits: String =
            (0..4).map(|at| format!("{:016x}", Seed(self.seed).derive("secret").nth(at).0)).collect();
        std::fs::write(&secret, digits).doing("writing a secret")?;
        let server = TcpListener::bind("127.0.0.1:0").doing("listening")?;
        let target = server.local_addr().doing("listening")?;
        let ports = [free_port()?, free_port()?, free_port()?];
        let start = |at| Process::start(&self.node(at, &ports, &secret)).map(Some);
        let mut nodes = [start(0)?, start(1)?, start(2)?];
        let via = ports.map(|port| port.to_string()).join(",");
        let entrance = |more: &[&str]| -> Result<(SocketAddr, Process)> {
            let port = free_port()?;
            let secret = secret.display().to_string();
            let forward = format!("{port}={target}");
            let (via, links) = (via.as_str(), self.links.as_str());
            let usual =
                ["proxy", "--via", via, "--secret", &*secret, "--forward", &*forward, "--links", links];
            let args = usual.iter().chain(&["--keep-privileges"]).chain(more).map(|arg| (*arg).to_owned());
            Ok((port, Process::start(&args.collect::<Vec<_>>())?))
        };
        let (moving, _moving) = entrance(&["--patience", "60 s"])?;
        let (plain, _plain) = entrance(&["--no-moves", "--patience", "60 s"])?;
        let before = ProcessorTime::now();
        let began = Instant::now();
        let with = (&ports[..], secret.as_path());
        let is_over = AtomicBool::new(false);
        let (of_moving, of_plain) = std::thread::scope(|scope| {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                for socket in server.incoming() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Ok(socket) = socket {
                        scope.spawn(move || self.serve(socket));
                    }
                }
            });
            let of_moving =
                self.under_fire(console, ("sessions that move", self.downloads), moving, &mut nodes, with);
            let of_plain =
                self.under_fire(console, ("plain connections", self.plain), plain, &mut nodes, with);
            is_over.store(true, Ordering::Relaxed);
            let _ = TcpStream::connect(target);
            (of_moving, of_plain)
        });
        let (took, steal) = (
            began.elapsed(),
            before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now)),
        );
        let mut failures = Vec::new();
        let mut told = Vec::new();
        for (what, of, must_be_whole) in
            [("sessions that move", of_moving?, true), ("plain connections", of_plain?, false)]
        {
            let (tally, killed) = of;
            let [whole, reset, wrong] =
                [&tally.whole, &tally.reset, &tally.wrong].map(|count| count.load(Ordering::Relaxed));
            console.say(&format!(
                "{what}: {killed} relays killed; {whole} whole, {reset} reset, {wrong} with a clean end and not whole"
            ));
            if wrong > 0 || (must_be_whole && reset > 0) {
                failures.push(format!("{what}: {reset} reset, {wrong} wrong"));
            }
            let longest_s = tally.longest_ms.load(Ordering::Relaxed) as f64 / 1000.0;
            told.push(json!({
                "what": what, "killed": killed, "whole": whole, "reset": reset, "wrong": wrong,
                "longest_s": longest_s,
            }));
        }
        let summary = json!({
            "size": self.size.0, "links": self.links, "seconds": took.as_secs_f64(), "steal": steal, "of": told,
        });
        let failure = (!failures.is_empty()).then(|| failures.join("; "));
        Ok(Judgement::holds(summary).unless(failure))
    }
}
