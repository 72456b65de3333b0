//! The application on our endpoint.
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use shorthaul_dataplane::HostLoop;
use shorthaul_tcp::{Addresses, Agreed, ConnectionConfig, ConnectionId, Event, Host, State, WindowShifts};
use shorthaul_types::Time;
use shorthaul_wire::Payload;

use super::script::{Closing, Script};
use crate::conformance::{CHUNK, Failure, Pattern, Sent, Tape};

/// Our end of the transfer.
pub struct OurEnd {
    script: Script,
    sent: Tape,
    received: Tape,
    id: Option<ConnectionId>,
    closed: bool,
    failure: Option<Failure>,
    agreed: Agreed,
    shifts: WindowShifts,
}

/// What our end did.
pub struct Ours {
    pub sent: Sent,
    pub received: Tape,
    pub agreed: Agreed,
    pub shifts: WindowShifts,
}

/// How long a round may take without a packet or a timer: after this it is seen whether the other
/// end has finished.
const LOOK: Duration = Duration::from_millis(5);

impl OurEnd {
    /// An end that follows `script`.
    pub fn new(script: Script, sends: Pattern, expects: Pattern) -> Self {
        OurEnd {
            script,
            sent: Tape::new(sends),
            received: Tape::new(expects),
            id: None,
            closed: false,
            failure: None,
            agreed: Agreed::default(),
            shifts: WindowShifts::default(),
        }
    }

    /// Connects to `remote` where it is given, and otherwise waits to be connected to; then does the
    /// whole script. Goes on answering until `peer_is_done` too.
    pub fn run(
        mut self,
        endpoint: &mut HostLoop,
        connect: Option<(Addresses, ConnectionConfig)>,
        deadline: Instant,
        peer_is_done: impl Fn() -> bool,
    ) -> Result<Ours, Failure> {
        let mut connect = connect;
        loop {
            let mut done = false;
            let round = endpoint.round(LOOK, |host, now| {
                if let Some((path, config)) = connect.take() {
                    match host.connect(now, path, config) {
                        Ok(id) => self.id = Some(id),
                        Err(error) => self.failure = Some(Failure::new(format!("endpoint: {error}"))),
                    }
                }
                self.serve(host, now);
                done = self.is_done(host);
            });
            round.map_err(|error| Failure::new(format!("endpoint: its device failed: {error}")))?;
            if let Some(failure) = self.failure {
                return Err(failure);
            }
            if done && peer_is_done() {
                let Self { sent, received, agreed, shifts, .. } = self;
                return Ok(Ours { sent: Sent::of("endpoint", &sent), received, agreed, shifts });
            }
            if Instant::now() >= deadline {
                return Err(Failure::new(self.snapshot(endpoint.host())));
            }
        }
    }

    fn serve(&mut self, host: &mut Host, now: Time) {
        if let Some(id) = host.poll_accept() {
            self.id = Some(id);
        }
        while let Some((_, event)) = host.poll_event() {
            if let Event::Failed(failure) = event {
                let (sent, received) = (self.sent.position(), self.received.position());
                let sentence =
                    format!("endpoint: {failure}, after {sent} bytes sent and {received} received");
                self.failure.get_or_insert(Failure::new(sentence));
            }
        }
        let Some(id) = self.id else { return };
        self.read(host, id, now);
        self.write(host, id, now);
    }

    fn read(&mut self, host: &mut Host, id: ConnectionId, now: Time) {
        let Some(connection) = host.connection_mut(id) else { return };
        if connection.state().is_synchronized() {
            (self.agreed, self.shifts) = (connection.agreed(), connection.window_shifts());
        }
        loop {
            let list = connection.read(now, CHUNK);
            if list.is_empty() {
                return;
            }
            for slice in list.slices() {
                if let Err(at) = self.received.check(slice.as_slice()) {
                    let sentence = format!("endpoint: byte {at} of the stream is not what was sent");
                    self.failure.get_or_insert(Failure::new(sentence));
                }
            }
        }
    }

    fn write(&mut self, host: &mut Host, id: ConnectionId, now: Time) {
        let Some(connection) = host.connection_mut(id) else { return };
        let peer_has_ended = connection.peer_has_closed() && connection.readable() == 0;
        let due = if peer_has_ended { self.script.sends() } else { self.script.first };
        while self.sent.position() < due && connection.writable() > 0 {
            let len = (due - self.sent.position()).min(connection.writable()).min(CHUNK as u64);
            let taken = connection.write(Payload::copy_of(self.sent.upcoming(len as usize)));
            self.sent.advance(taken);
        }
        let may_close = match self.script.closing {
            Closing::First => true,
            Closing::Second => peer_has_ended,
            Closing::Complete => self.received.position() >= self.script.expects,
        };
        if !self.closed && may_close && self.sent.position() == self.script.sends() {
            self.closed = connection.state().is_synchronized();
            if self.closed {
                connection.close(now);
            }
        }
    }

    /// Both directions have been closed, and ours acknowledged.
    fn is_done(&self, host: &Host) -> bool {
        let Some(id) = self.id else { return false };
        let state = host.connection(id).map_or(State::Closed, |connection| connection.state());
        self.closed && matches!(state, State::Closed | State::TimeWait)
    }

    /// How it stands, for who has to find out why it stands still.
    fn snapshot(&self, host: &Host) -> String {
        let Script { expects, .. } = self.script;
        let (sent, sends) = (self.sent.position(), self.script.sends());
        let begin = format!(
            "endpoint: at the deadline {sent} of {sends} bytes were written and {} of {expects} read",
            self.received.position()
        );
        let connection = self.id.and_then(|id| host.connection(id));
        let Some(connection) = connection else { return format!("{begin}; there is no connection") };
        let sender = connection.sender();
        format!(
            "{begin}; {:?}, SND.UNA {}, SND.NXT {}, peer's window {}, in flight {}, congestion window {}, \
             {:?}, next deadline {:?} at {:?}",
            connection.state(),
            sender.una(),
            sender.nxt(),
            sender.peer_window(),
            sender.in_flight(),
            sender.control().window(),
            sender.stats(),
            shorthaul_wire::Machine::poll_timeout(connection),
            shorthaul_os::monotonic(),
        )
    }
}

/// The two ends as our endpoint sees them; our port is any that is free.
pub fn toward(local: std::net::IpAddr, remote: SocketAddr) -> Addresses {
    Addresses { local: SocketAddr::new(local, 0), remote }
}
