use shorthaul_tcp::{ConnectionId, Event, Failure, Host};
use shorthaul_types::Time;
use shorthaul_wire::Payload;

/// The byte at `offset` of the stream number `stream`.
pub fn pattern(stream: u64, offset: u64) -> u8 {
    (offset.wrapping_mul(31).wrapping_add(stream * 7) >> 3) as u8
}

/// What is written at once, in bytes.
const PIECE: u64 = 7_000;

/// The application at one end of a connection: it sends `total` bytes, reads what comes and checks it, and closes when it has
/// sent all.
#[derive(Clone, Debug)]
pub struct App {
    /// Its connection, once it has one.
    pub id: Option<ConnectionId>,
    /// The numbers of the streams that it writes and reads, for [`pattern`].
    pub streams: [u64; 2],
    /// Bytes to send.
    pub total: u64,
    /// Bytes that the connection took.
    pub written: u64,
    /// Bytes that were read.
    pub read: u64,
    /// How much it takes at once, to leave data in the buffer.
    pub appetite: usize,
    /// It does not close when it has sent all: it may be given more to send.
    pub keeps_open: bool,
    /// It has closed.
    pub closed: bool,
    /// What it heard, but for [`Event::Readable`].
    pub events: Vec<Event>,
    /// When it heard that the connection is over, its FIN was acknowledged: all that it wrote has arrived, as far as it knows.
    pub is_sure: bool,
    /// Somebody forges segments of its connection: what is read may be anything.
    pub is_forged: bool,
}

impl App {
    /// Sends `total` bytes of the first stream, and expects the second.
    pub fn new(streams: [u64; 2], total: u64) -> App {
        App {
            id: None,
            streams,
            total,
            written: 0,
            read: 0,
            appetite: usize::MAX,
            keeps_open: false,
            closed: false,
            events: Vec::new(),
            is_sure: false,
            is_forged: false,
        }
    }

    /// Hears of an event of its connection.
    pub fn hear(&mut self, host: &Host, event: Event) {
        let connection = self.id.and_then(|id| host.connection(id));
        self.is_sure = connection.is_some_and(|connection| connection.sender().is_finished());
        if event != Event::Readable {
            self.events.push(event);
        }
    }

    /// Why the connection failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.events.iter().find_map(|event| match event {
            Event::Failed(failure) => Some(*failure),
            _ => None,
        })
    }

    /// The connection is over, one way or the other.
    pub fn is_over(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Closed | Event::Failed(_)))
    }

    /// Does what it can do now.
    ///
    /// # Panics
    /// If it reads a byte that was not sent there.
    pub fn act(&mut self, now: Time, host: &mut Host) {
        let Some(connection) = self.id.and_then(|id| host.connection_mut(id)) else { return };
        loop {
            let list = connection.read(now, self.appetite);
            if list.is_empty() {
                break;
            }
            let mut bytes = vec![0; list.len()];
            list.copy_to(&mut bytes);
            for (i, byte) in bytes.iter().enumerate() {
                let at = self.read + i as u64;
                let expected = pattern(self.streams[1], at);
                assert!(
                    self.is_forged || *byte == expected,
                    "byte {at} of stream {} was read as {byte:#04x} and sent as {expected:#04x}",
                    self.streams[1]
                );
            }
            self.read += bytes.len() as u64;
            if self.appetite != usize::MAX {
                break;
            }
        }
        while self.written < self.total && connection.writable() > 0 {
            let len = (self.total - self.written).min(PIECE);
            let bytes: Vec<u8> = (0..len).map(|i| pattern(self.streams[0], self.written + i)).collect();
            let taken = connection.write(Payload::copy_of(&bytes));
            self.written += taken as u64;
            if taken < bytes.len() {
                break;
            }
        }
        if self.written == self.total
            && !self.keeps_open
            && !self.closed
            && connection.state().is_synchronized()
        {
            self.closed = true;
            connection.close(now);
        }
    }

    /// There is more to read than it takes at once.
    pub fn leaves_unread(&self, host: &Host) -> bool {
        let connection = self.id.and_then(|id| host.connection(id));
        self.appetite > 0 && connection.is_some_and(|connection| connection.readable() > 0)
    }
}
