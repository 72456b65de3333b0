use core::fmt;

/// The states of RFC 9293 §3.3.2. LISTEN is one of the ports of a [`crate::Host`], not of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// We wait for anybody's SYN.
    Listen,
    /// We sent a SYN.
    SynSent,
    /// We got a SYN and answered it; the answer is not yet acknowledged.
    SynReceived,
    /// Data flows in both directions.
    Established,
    /// We closed; our FIN is not yet acknowledged.
    FinWait1,
    /// We closed, and the peer knows; it may still send.
    FinWait2,
    /// The peer closed; we may still send.
    CloseWait,
    /// Both closed at once; our FIN is not yet acknowledged.
    Closing,
    /// The peer closed, then we did; our FIN is not yet acknowledged.
    LastAck,
    /// Both closed; we wait until nothing of the connection can be on the way any more.
    TimeWait,
    /// There is no connection.
    Closed,
}

impl State {
    /// Whether both ends know each other's sequence numbers and the handshake is complete.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::Listen | State::SynSent | State::SynReceived | State::Closed)
    }

    /// Whether what the owner writes will be sent.
    pub const fn may_write(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }
}

/// What happened to a connection that its owner may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// There is more to read than before.
    Readable,
    /// The peer will send nothing more; what it sent may still be there to read.
    PeerClosed,
    /// A write had filled the buffer, and there is room again.
    Writable,
    /// The connection ended as it should.
    Closed,
    /// The connection ended otherwise.
    Failed(Failure),
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer answered the SYN with a reset.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// We reset the connection.
    Aborted,
    /// The peer did not answer, however often we sent.
    TimedOut,
    /// Data stayed unacknowledged for longer than the user timeout.
    UserTimeout,
    /// The peer did not answer keep-alive probes.
    KeepAlive,
    /// The network said that there is no way to the peer (ICMP), and the peer said nothing.
    Unreachable,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Refused => "the peer refuses connections to this port",
            Failure::Reset => "the peer reset the connection",
            Failure::Aborted => "the connection was aborted on this side",
            Failure::TimedOut => "the peer does not answer; it may be down or the path to it broken",
            Failure::UserTimeout => "data stayed unacknowledged for longer than the user timeout",
            Failure::KeepAlive => "the peer does not answer keep-alive probes",
            Failure::Unreachable => "the network reports that the peer cannot be reached",
        })
    }
}

impl core::error::Error for Failure {}

/// Events that wait for the owner: of each kind at most one, so that they need no queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Events {
    pending: u8,
    failure: Option<Failure>,
}

impl Events {
    const ORDER: [Event; 5] =
        [Event::Connected, Event::Readable, Event::PeerClosed, Event::Writable, Event::Closed];

    pub(super) fn push(&mut self, event: Event) {
        match Self::ORDER.iter().position(|&e| e == event) {
            Some(bit) => self.pending |= 1 << bit,
            None => {
                if let Event::Failed(failure) = event {
                    self.failure = Some(failure);
                }
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        if self.pending == 0 {
            return self.failure.take().map(Event::Failed);
        }
        let bit = self.pending.trailing_zeros();
        self.pending &= !(1 << bit);
        Some(Self::ORDER[bit as usize])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending == 0 && self.failure.is_none()
    }
}
