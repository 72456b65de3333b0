//! The application on the kernel's TCP.
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use shorthaul_lab::Host;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::case::{Case, PORT};
use super::script::{Closing, Script};
use crate::conformance::{End, Failure, Incoming, Outgoing, Pattern, Sent};

/// The kernel's end, not yet connected.
pub struct KernelEnd {
    socket: Socket,
    script: Script,
    deadline: Instant,
}

/// What the kernel's end did.
pub struct Theirs {
    pub sent: Sent,
    pub received: Incoming,
}

impl KernelEnd {
    /// A socket in `host` as the case wants it.
    pub fn new(case: &Case, host: &Host, script: Script, deadline: Instant) -> Result<Self, Failure> {
        let domain = if case.v6 { Domain::IPV6 } else { Domain::IPV4 };
        let make = || {
            let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_tcp_congestion(case.kernel_control.as_bytes())?;
            // The kernel's limit for all sockets promises more: then the socket's own memory decides,
            // half of which becomes window.
            if let Some(shift @ 0..=6) = case.kernel_shift {
                socket.set_recv_buffer_size(40_000 << shift)?;
            }
            Ok(socket)
        };
        let socket = host.run(make).map_err(failed("making a socket"))?;
        Ok(KernelEnd { socket, script, deadline })
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    /// Listens; the address is that of the host.
    pub fn listen(&self, address: SocketAddr) -> Result<SocketAddr, Failure> {
        let listen = || {
            self.socket.bind(&SockAddr::from(address))?;
            self.socket.listen(1)
        };
        listen().map_err(failed("listening"))?;
        Ok(address)
    }

    /// Waits to be connected to, and does the whole script.
    pub fn serve(self, sends: Pattern, expects: Pattern) -> Result<Theirs, Failure> {
        self.socket.set_read_timeout(Some(self.remaining())).map_err(failed("SO_RCVTIMEO"))?;
        let (socket, _) = self.socket.accept().map_err(failed("accepting the connection"))?;
        follow(self.script, End::new("kernel", socket, sends, expects, self.deadline))
    }

    /// Connects, and does the whole script.
    pub fn connect(self, address: SocketAddr, sends: Pattern, expects: Pattern) -> Result<Theirs, Failure> {
        let connected = self.socket.connect_timeout(&SockAddr::from(address), self.remaining());
        connected.map_err(failed("connecting"))?;
        follow(self.script, End::new("kernel", self.socket, sends, expects, self.deadline))
    }
}

/// Where our endpoint listens.
pub fn endpoint(case: &Case) -> SocketAddr {
    SocketAddr::new(case.endpoint_address(), PORT)
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(format!("kernel: {doing}: {error}"))
}

fn follow(script: Script, end: End) -> Result<Theirs, Failure> {
    let End { mut tx, mut rx } = end;
    let (sending, receiving) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_first(script, &mut tx));
        let receiving = receive(script, &mut rx);
        (sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), receiving)
    });
    // Who fails to receive often fails to send for the same reason; what is missing says more.
    receiving.and(sending)?;
    if script.closing != Closing::First {
        tx.send(script.after_end)?;
        tx.finish()?;
    }
    if script.closing == Closing::Complete {
        rx.expect_end()?;
    }
    tx.settle()?;
    Ok(Theirs { sent: tx.sent(), received: rx })
}

fn send_first(script: Script, tx: &mut Outgoing) -> Result<(), Failure> {
    tx.send(script.first)?;
    if script.closing == Closing::First { tx.finish() } else { Ok(()) }
}

fn receive(script: Script, rx: &mut Incoming) -> Result<(), Failure> {
    match script.closing {
        Closing::Complete => rx.receive(script.expects),
        Closing::First | Closing::Second => rx.receive_rest(script.expects),
    }
}
