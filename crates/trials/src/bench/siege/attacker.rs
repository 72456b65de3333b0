//! Who attacks a node: with connections that come to nothing, from a whole /48, and as somebody whom it lets in.
use super::names::{REBIND, SLOW};
use crate::error::{Result, TrialError};
use shorthaul_relay::request::Request;
use shorthaul_relay::{NetworkSecret, Signature};
use shorthaul_types::Seed;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    Silent,
    SlowTls,
    SlowRequest,
    OneNetwork,
    Spool,
    Reserve,
    Resolver,
    Prepare,
    Rebind,
    OwnAddress,
    Replay,
}

impl Attack {
    pub const ALL: [Attack; 11] = [
        Attack::Silent,
        Attack::SlowTls,
        Attack::SlowRequest,
        Attack::OneNetwork,
        Attack::Spool,
        Attack::Reserve,
        Attack::Resolver,
        Attack::Prepare,
        Attack::Rebind,
        Attack::OwnAddress,
        Attack::Replay,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Attack::Silent => "silent",
            Attack::SlowTls => "slow-tls",
            Attack::SlowRequest => "slow-request",
            Attack::OneNetwork => "one-48",
            Attack::Spool => "spool",
            Attack::Reserve => "reserve",
            Attack::Resolver => "resolver",
            Attack::Prepare => "prepare",
            Attack::Rebind => "rebind",
            Attack::OwnAddress => "own-address",
            Attack::Replay => "replay",
        }
    }

    /// What each connection of strangers says, a byte at a time, and how many there are at once; `None` of one whom the node lets in.
    fn of_strangers(self) -> Option<(&'static [u8], usize)> {
        match self {
            Attack::Silent => Some((b"", 1_000)),
            // The beginning of a handshake that announces 512 bytes (RFC 8446 §5.1).
            Attack::SlowTls => Some((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 1_000)),
            Attack::SlowRequest => Some((b"CONNECT server:80 HTTP/1.1\r\nX-Slow: ", 1_000)),
            Attack::OneNetwork => Some((b"", 20_000)),
            _ => None,
        }
    }
}

/// The addresses of strangers: a /48.
pub const NETWORK: Ipv6Addr = Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 0);
/// It does something this often.
const BEAT: Duration = Duration::from_millis(10);
/// What is slow says a byte this often.
const BYTE: Duration = Duration::from_millis(100);
/// Connections that are opened in a second, at most.
const A_SECOND: f64 = 4_000.0;
/// What its line carries in a second, in bytes: a gigabit. Attacker, node and others share the processors of one machine, so that
/// whatever it sends beyond that would take their time before it reaches the node.
const LINE: f64 = 125e6;
/// Sessions that somebody who is let in has at once.
const SESSIONS: usize = 64;
/// Nobody waits longer for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What it knows.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The node, for strangers and for those whose address is enough.
    pub node: [SocketAddr; 2],
    /// Where the node goes for everybody.
    pub server: SocketAddr,
    /// Addresses of the node where something answers `secret` that is for itself alone.
    pub own: Vec<SocketAddr>,
}

pub struct Attacker {
    targets: Targets,
    secret: NetworkSecret,
    seed: Seed,
    drawn: u64,
    /// Connections or requests.
    pub tried: u64,
    /// What it had that it must not have.
    pub had: u64,
}

/// A connection that is slow.
struct Held {
    stream: TcpStream,
    said: usize,
    next: Instant,
}

impl Attacker {
    pub fn new(targets: Targets, secret: NetworkSecret, seed: Seed) -> Attacker {
        Attacker { targets, secret, seed, drawn: 0, tried: 0, had: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.seed.nth(self.drawn).0
    }

    /// Attacks until then. The calling thread is in the attacker's host.
    pub fn attack(&mut self, attack: Attack, until: Instant) -> Result<()> {
        match attack.of_strangers() {
            Some((words, at_once)) => self.hold(words, at_once, until),
            None if matches!(attack, Attack::Rebind | Attack::OwnAddress) => {
                self.seek(attack, until);
                Ok(())
            }
            None if attack == Attack::Replay => self.replay(until),
            None => {
                self.abuse(attack, until);
                Ok(())
            }
        }
    }

    /// A connection under way, from an address of the network.
    fn stranger(&mut self) -> io::Result<TcpStream> {
        let host = u128::from(self.draw()) | u128::from(self.draw() & 0xffff) << 64;
        let from = Ipv6Addr::from_bits(NETWORK.to_bits() | host);
        let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
        socket.set_freebind_v6(true)?;
        socket.set_linger(Some(Duration::ZERO))?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.set_nonblocking(true)?;
        let _ = socket.connect(&self.targets.node[0].into()); // it is under way
        Ok(socket.into())
    }

    /// Has so many connections open as it can get, and says what there is to say as slowly as it may.
    fn hold(&mut self, words: &[u8], at_once: usize, until: Instant) -> Result<()> {
        let (mut held, begun, before) = (Vec::<Held>::new(), Instant::now(), self.tried);
        let mut looked = begun;
        while Instant::now() < until {
            let now = Instant::now();
            let due = (begun.elapsed().as_secs_f64() * A_SECOND) as u64;
            while self.tried - before < due && held.len() < at_once {
                self.tried += 1;
                // Where there are no descriptors more, it has what it can have.
                let Ok(stream) = self.stranger() else { break };
                held.push(Held { stream, said: 0, next: now + BYTE });
            }
            if now - looked >= BYTE {
                looked = now;
                held.retain_mut(|one| one.goes_on(words, now));
            }
            std::thread::sleep(BEAT);
        }
        Ok(())
    }

    /// Has so many sessions as it can get that cost something, as one whose address is enough.
    fn abuse(&mut self, attack: Attack, until: Instant) {
        let mut open: Vec<TcpStream> = Vec::new();
        let (zeros, begun, mut sent) = (vec![0; 64 << 10], Instant::now(), 0);
        while Instant::now() < until {
            let line = (begun.elapsed().as_secs_f64() * LINE) as usize;
            while open.len() < SESSIONS {
                let Ok(stream) = self.asked(attack) else { break };
                open.push(stream);
            }
            open.retain_mut(|stream| {
                let mut answer = [0; 4096];
                let is_open = match stream.read(&mut answer) {
                    Ok(0) => false,
                    Ok(_) => true,
                    Err(error) => error.kind() == ErrorKind::WouldBlock,
                };
                let more = match attack {
                    Attack::Spool if sent < line => stream.write(&zeros).map(|more| sent += more),
                    Attack::Prepare => {
                        self.tried += 1;
                        self.drawn += 1;
                        let id = u128::from(self.seed.nth(self.drawn).0);
                        let server = self.targets.server;
                        let head =
                            format!("PREPARE {server} HTTP/1.1\r\nShorthaul-Session: {id:032x}\r\n\r\n");
                        stream.write(head.as_bytes()).map(drop)
                    }
                    _ => Ok(()),
                };
                is_open && !more.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
            });
            std::thread::sleep(BEAT);
        }
    }

    /// A request that was sent, and is not answered yet.
    fn asked(&mut self, attack: Attack) -> io::Result<TcpStream> {
        self.tried += 1;
        let (server, number) = (self.targets.server, self.draw());
        let head = match attack {
            Attack::Spool => format!("CONNECT {server} HTTP/1.1\r\nShorthaul-Forward: store\r\n\r\n"),
            Attack::Reserve => format!("CONNECT {server} HTTP/1.1\r\nShorthaul-Buffer: 16777216\r\n\r\n"),
            Attack::Resolver => format!("CONNECT a{number}.{SLOW}:80 HTTP/1.1\r\n\r\n"),
            _ => String::new(), // it says something later
        };
        let mut stream = TcpStream::connect_timeout(&self.targets.node[1], TIMEOUT)?;
        stream.write_all(head.as_bytes())?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Asks for what only the node itself may have.
    fn seek(&mut self, attack: Attack, until: Instant) {
        while Instant::now() < until {
            self.tried += 1;
            let number = self.draw();
            let own = self.targets.own[number as usize % self.targets.own.len()];
            let target = match attack {
                Attack::Rebind => format!("r{number}.{REBIND}:{}", own.port()),
                _ => own.to_string(),
            };
            let had = self.say(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
            self.had += u64::from(had.is_ok_and(|said| said.contains("secret")));
            std::thread::sleep(BEAT);
        }
    }

    /// Sends requests again that were good once.
    fn replay(&mut self, until: Instant) -> Result<()> {
        while Instant::now() < until {
            let head = self.signed();
            let first = self.say(&head)?;
            if !first.starts_with("HTTP/1.1 200") {
                return Err(TrialError::failed(format!("a signed request is answered `{first}`")));
            }
            for _ in 0..20 {
                self.send_again(&head)?;
                std::thread::sleep(BEAT);
            }
        }
        Ok(())
    }

    /// The head of a request for the server, signed as a member of the network.
    pub fn signed(&self) -> String {
        let (request, node) = (Request::connect(self.targets.server.into()), self.targets.node[1]);
        let part = request.signed_part(Some(node));
        let signature = Signature::sign(&self.secret.signing_key(), "", part.as_bytes());
        let head = request.to_head(Some(node), Some(&format!("Shorthaul {signature}")));
        String::from_utf8_lossy(&head).into_owned()
    }

    /// Whether what was good once is still; it must not be.
    pub fn send_again(&mut self, head: &str) -> Result<()> {
        self.tried += 1;
        self.had += u64::from(self.say(head)?.starts_with("HTTP/1.1 200"));
        Ok(())
    }

    /// What the node answers, with what comes right behind it.
    pub fn say(&self, head: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.targets.node[1], TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(head.as_bytes())?;
        let (mut said, mut block) = (Vec::new(), [0; 4096]);
        while !said.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut block)? {
                0 => break,
                length => said.extend(&block[..length]),
            }
        }
        if said.starts_with(b"HTTP/1.1 200") {
            // What is secret is said at once.
            stream.set_read_timeout(Some(Duration::from_millis(100)))?;
            let length = stream.read(&mut block).unwrap_or(0);
            said.extend(&block[..length]);
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

impl Held {
    /// Whether it is there still; says one byte more if it is time.
    fn goes_on(&mut self, words: &[u8], now: Instant) -> bool {
        if matches!(self.stream.read(&mut [0; 256]), Ok(0)) || matches!(self.stream.take_error(), Ok(Some(_)))
        {
            return false;
        }
        if now < self.next || words.is_empty() {
            return true;
        }
        self.next = now + BYTE;
        let byte = words[self.said.min(words.len() - 1)];
        self.said += 1;
        match self.stream.write_all(&[byte]) {
            Ok(()) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected),
        }
    }
}
