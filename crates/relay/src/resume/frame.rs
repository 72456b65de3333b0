//! The frames of a session that can move: a length of four bytes, a kind, and a body. Numbers are big-endian.
//!
//! | kind | body | means |
//! |---|---|---|
//! | 0 `DATA` | offset (8), bytes | these bytes of the stream, from this offset on |
//! | 1 `ACK` | received (8), limit (8) | all below `received` is here and need not be kept; up to `limit` may be sent |
//! | 2 `END` | offset (8) | the stream ends there |
//! | 3 `DONE` | offset (8) | all up to the end has been delivered |
//! | 4 `PING` | | say something |
//! | 5 `BREAK` | | the application's side broke: so does this session, and no way mends it |

/// Length and kind.
const PREFIX: usize = 5;
/// What stands before the bytes of a `DATA` frame.
pub const DATA_HEAD: usize = PREFIX + 8;
/// The most bytes in a `DATA` frame.
pub const MOST_DATA: usize = 64 << 10;
/// What a sender may send before the receiver has said anything.
pub const FIRST_LIMIT: u64 = 256 << 10;
/// The longest head of a frame: what is not bytes of the stream.
const LONGEST_HEAD: usize = PREFIX + 16;

/// What the other end must not say: the session is broken, and counted by this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Violation {
    /// A kind of frame that there is not, or a length that the kind does not have.
    #[error("a frame of a kind or length that there is not")]
    Frame,
    /// Bytes that are not the next ones of the stream.
    #[error("data at another offset than the next one")]
    Offset,
    /// Bytes beyond the limit.
    #[error("data beyond the limit")]
    Limit,
    /// Bytes, or another end, behind the end.
    #[error("data, or another end, behind the end of the stream")]
    BehindEnd,
    /// An acknowledgment of what was not sent, or of less than before.
    #[error("an acknowledgment of what was not sent, or of less than before")]
    Acknowledged,
    /// The stream is said to be delivered, and it has not ended there.
    #[error("a stream is said to be delivered that has not ended there")]
    Done,
}

impl Violation {
    /// As logs and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Violation::Frame => "frame",
            Violation::Offset => "offset",
            Violation::Limit => "limit",
            Violation::BehindEnd => "behind_end",
            Violation::Acknowledged => "acknowledged",
            Violation::Done => "done",
        }
    }
}

/// A frame, or a piece of one that carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes of the stream.
    Data {
        /// Where they belong.
        offset: u64,
        /// They themselves.
        bytes: &'a [u8],
    },
    /// All below is here.
    Ack {
        /// Below which.
        received: u64,
        /// Up to where may be sent.
        limit: u64,
    },
    /// The stream ends.
    End(u64),
    /// All of the stream has been delivered.
    Done(u64),
    /// Say something.
    Ping,
    /// The application's side broke.
    Break,
}

impl Frame<'_> {
    /// Appends the frame to some bytes.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut frame = |kind: u8, numbers: &[u64], bytes: &[u8]| {
            let len = 8 * numbers.len() + bytes.len();
            to.extend((len as u32).to_be_bytes());
            to.push(kind);
            numbers.iter().for_each(|number| to.extend(number.to_be_bytes()));
            to.extend_from_slice(bytes);
        };
        match *self {
            Frame::Data { offset, bytes } => frame(0, &[offset], bytes),
            Frame::Ack { received, limit } => frame(1, &[received, limit], &[]),
            Frame::End(at) => frame(2, &[at], &[]),
            Frame::Done(at) => frame(3, &[at], &[]),
            Frame::Ping => frame(4, &[], &[]),
            Frame::Break => frame(5, &[], &[]),
        }
    }
}

/// Writes the head of a `DATA` frame of `len` bytes into `head`.
pub fn write_data_head(head: &mut [u8], offset: u64, len: usize) {
    head[..4].copy_from_slice(&(8 + len as u32).to_be_bytes());
    head[4] = 0;
    head[PREFIX..DATA_HEAD].copy_from_slice(&offset.to_be_bytes());
}

/// Takes bytes as they come, and makes frames of them. Nothing of a frame's data is kept.
#[derive(Debug, Default)]
pub struct Reader {
    head: [u8; LONGEST_HEAD],
    have: usize,
    /// Where the next byte of the data belongs that are being read, and how many are to come.
    data: Option<(u64, usize)>,
}

impl Reader {
    /// What the bytes begin with: a frame, or a piece of one, and how many of the bytes were used. Without a frame all were.
    ///
    /// # Errors
    /// It is none.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(Option<Frame<'a>>, usize), Violation> {
        let mut used = 0;
        loop {
            if let Some((offset, left)) = self.data {
                let rest = &bytes[used..];
                let len = left.min(rest.len());
                if len == 0 {
                    return Ok((None, used));
                }
                self.data = (len < left).then_some((offset + len as u64, left - len));
                return Ok((Some(Frame::Data { offset, bytes: &rest[..len] }), used + len));
            }
            let wanted = if self.have < PREFIX { PREFIX } else { PREFIX + self.numbers()? * 8 };
            let len = (wanted - self.have).min(bytes.len() - used);
            self.head[self.have..][..len].copy_from_slice(&bytes[used..][..len]);
            (self.have, used) = (self.have + len, used + len);
            if self.have < wanted {
                return Ok((None, used));
            }
            if self.have == PREFIX && self.numbers()? > 0 {
                continue;
            }
            self.have = 0;
            if let Some(frame) = self.frame()? {
                return Ok((Some(frame), used));
            }
        }
    }

    fn len(&self) -> usize {
        u32::from_be_bytes([self.head[0], self.head[1], self.head[2], self.head[3]]) as usize
    }

    /// How many numbers a frame of this kind has, once kind and length are there.
    fn numbers(&self) -> Result<usize, Violation> {
        match (self.head[4], self.len()) {
            (0, 9..) if self.len() <= 8 + MOST_DATA => Ok(1),
            (1, 16) => Ok(2),
            (2 | 3, 8) => Ok(1),
            (4 | 5, 0) => Ok(0),
            _ => Err(Violation::Frame),
        }
    }

    /// The frame of which the head is there; nothing yet, if it has data.
    fn frame(&mut self) -> Result<Option<Frame<'static>>, Violation> {
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.head[PREFIX + 8 * at..][..8]);
            u64::from_be_bytes(bytes)
        };
        Ok(Some(match self.head[4] {
            0 => {
                let (offset, len) = (number(0), self.len() - 8);
                offset.checked_add(len as u64).ok_or(Violation::Offset)?;
                self.data = Some((offset, len));
                return Ok(None);
            }
            1 => Frame::Ack { received: number(0), limit: number(1) },
            2 => Frame::End(number(0)),
            3 => Frame::Done(number(0)),
            4 => Frame::Ping,
            _ => Frame::Break,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [Frame<'_>; 7] = [
        Frame::Ping,
        Frame::Data { offset: 7, bytes: b"some bytes" },
        Frame::Ack { received: 3, limit: u64::MAX },
        Frame::Data { offset: 17, bytes: b"x" },
        Frame::End(18),
        Frame::Done(0),
        Frame::Break,
    ];

    #[test]
    fn frames_are_read_in_any_pieces() {
        let mut bytes = Vec::new();
        FRAMES.iter().for_each(|frame| frame.write(&mut bytes));
        for piece in 1..=bytes.len() {
            let mut reader = Reader::default();
            let mut read: Vec<(Frame<'_>, Vec<u8>)> = Vec::new();
            for mut chunk in bytes.chunks(piece) {
                while !chunk.is_empty() {
                    let (frame, used) = reader.next(chunk).unwrap();
                    chunk = &chunk[used..];
                    match (frame, read.last_mut()) {
                        (
                            Some(Frame::Data { offset, bytes }),
                            Some((Frame::Data { offset: first, .. }, all)),
                        ) if offset == *first + all.len() as u64 && offset != 17 => {
                            all.extend(bytes);
                        }
                        (Some(frame @ Frame::Data { bytes, .. }), _) => read.push((frame, bytes.to_vec())),
                        (Some(frame), _) => read.push((frame, Vec::new())),
                        (None, _) => assert!(chunk.is_empty()),
                    }
                }
            }
            assert_eq!(read.len(), FRAMES.len(), "in pieces of {piece}");
            for ((frame, all), expected) in read.iter().zip(&FRAMES) {
                match (frame, expected) {
                    (Frame::Data { offset, .. }, Frame::Data { offset: first, bytes }) => {
                        assert_eq!((offset, all.as_slice()), (first, *bytes));
                    }
                    _ => assert_eq!(frame, expected),
                }
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let read = |len: u32, kind: u8, body: &[u8]| {
            let bytes = [&len.to_be_bytes()[..], &[kind], body].concat();
            Reader::default().next(&bytes).map(|(frame, _)| frame.is_some())
        };
        assert_eq!(read(0, 4, &[]), Ok(true));
        for (len, kind) in
            [(1, 4), (0, 6), (8, 0), (u32::MAX, 0), (8 + MOST_DATA as u32 + 1, 0), (8, 1), (9, 2)]
        {
            assert_eq!(read(len, kind, &[0; 32]), Err(Violation::Frame), "{len} {kind}");
        }
        assert_eq!(read(9, 0, &[255; 9]), Err(Violation::Offset), "it ends beyond all numbers");
    }
}
