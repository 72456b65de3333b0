//! Who sends what, and when each side closes.

/// Where the large stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// From the client to the server.
    Upload,
    /// From the server to the client, on a short request.
    Download,
    /// Both ways at once.
    Both,
}

impl Stream {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Upload => "upload",
            Stream::Download => "download",
            Stream::Both => "both ways",
        }
    }
}

/// When an end sends its FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Behind its last byte, whatever still comes from the other end: a half-close.
    First,
    /// When the other end has closed, behind what is sent then.
    Second,
    /// When all has come that is to come.
    Complete,
}

/// What one end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Bytes sent at once.
    pub first: u64,
    /// Bytes sent when the other end has closed.
    pub after_end: u64,
    /// Bytes that come from the other end.
    pub expects: u64,
    pub closing: Closing,
}

impl Script {
    /// All that it sends.
    pub fn sends(&self) -> u64 {
        self.first + self.after_end
    }
}

/// What the two ends do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub client: Script,
    pub server: Script,
}

/// What a download is asked for with.
const REQUEST: u64 = 200;

/// One end closes while the other still sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfClose {
    /// Bytes that the other end sends then.
    pub tail: u64,
    /// Of two large streams, whose sender closes first; that of a single one always does.
    pub closer_is_client: bool,
}

impl Exchange {
    /// `stream` of `bytes`.
    pub fn new(stream: Stream, bytes: u64, half_close: Option<HalfClose>) -> Self {
        let (up, down, closer_is_client) = match stream {
            Stream::Upload => (bytes, 0, true),
            Stream::Download => (REQUEST, bytes, false),
            Stream::Both => (bytes, bytes, half_close.is_some_and(|h| h.closer_is_client)),
        };
        let tail = half_close.map_or(0, |half_close| half_close.tail);
        let script = |first, others, closer: bool| Script {
            first,
            after_end: if closer { 0 } else { tail },
            expects: if closer { others + tail } else { others },
            closing: match (half_close.is_some(), closer) {
                (false, _) => Closing::Complete,
                (true, true) => Closing::First,
                (true, false) => Closing::Second,
            },
        };
        Exchange { client: script(up, down, closer_is_client), server: script(down, up, !closer_is_client) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_expects_what_the_other_sends_and_somebody_closes_first() {
        for stream in [Stream::Upload, Stream::Download, Stream::Both] {
            let closers =
                [true, false].map(|closer_is_client| Some(HalfClose { tail: 700, closer_is_client }));
            for half_close in [None, closers[0], closers[1]] {
                let Exchange { client, server } = Exchange::new(stream, 5000, half_close);
                assert_eq!((client.expects, server.expects), (server.sends(), client.sends()));
                let first = [client, server].iter().filter(|s| s.closing != Closing::Second).count();
                assert_eq!(first, if half_close.is_some() { 1 } else { 2 }, "{stream:?}");
                assert!(client.expects + server.expects >= 5000);
            }
        }
    }
}
