use crate::checksum::{self, Sum};
use crate::emit::{ChecksumMode, HEADERS_MAX};
use crate::parse::{TCP, TCP_CHECKSUM, TCP_HEADER_MIN};
use crate::{Datagram, Offload, PartialChecksum, Payload, TcpFlags, be};
use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// One packet as software segmentation makes it: headers of its own, and a slice of the payload
/// that it was cut from. It can wait in a queue at little cost.
///
/// A datagram that needed no change has no header bytes here: all of it is the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The headers, or the part of the packet that had to be changed.
    pub header: ArrayVec<u8, HEADERS_MAX>,
    /// The bytes behind.
    pub payload: Payload,
    /// What is left to the device.
    pub offload: Offload,
}

impl Cut {
    /// The length of the packet in bytes, from its IP header on.
    pub fn len(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet in a buffer of its own, copied.
    pub fn to_datagram(&self) -> Datagram {
        let mut bytes = Vec::with_capacity(self.len());
        bytes.extend_from_slice(&self.header);
        bytes.extend_from_slice(self.payload.as_slice());
        Datagram { bytes: Payload::copy_of(&bytes), offload: self.offload }
    }
}

/// Cuts a TCP super-segment into the packets that it stands for, as a device with segmentation
/// offload does: lengths and checksums are those of each piece, IPv4 identification and sequence
/// number advance, FIN and PSH stay on the last piece only and CWR on the first.
///
/// With [`ChecksumMode::Full`] checksums that were left undone are completed, with
/// [`ChecksumMode::Partial`] those of the pieces are left undone in turn.
///
/// A datagram that is no super-segment comes out as the only piece, and so does one whose offload
/// does not fit its bytes, which keeps it. Where the payload fits into one segment, there is one
/// piece, which is no super-segment any more.
pub fn cut(datagram: &Datagram, mode: ChecksumMode) -> Cuts {
    let state = match Template::of(datagram) {
        Some(template) => State::Pieces { template, mode, taken: 0, index: 0 },
        None => State::Whole(mode),
    };
    Cuts { datagram: datagram.clone(), state: Some(state) }
}

/// The pieces of a datagram; see [`cut`].
#[derive(Clone, Debug)]
pub struct Cuts {
    datagram: Datagram,
    /// `None` after the last piece.
    state: Option<State>,
}

#[derive(Clone, Debug)]
enum State {
    Whole(ChecksumMode),
    Pieces {
        template: Template,
        mode: ChecksumMode,
        /// Payload bytes that are in earlier pieces.
        taken: usize,
        /// The number of this piece.
        index: u16,
    },
}

impl Iterator for Cuts {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        match self.state.take()? {
            State::Whole(mode) => Some(whole(&self.datagram, mode)),
            State::Pieces { template, mode, taken, index } => {
                let left = self.datagram.bytes.len() - template.header_len - taken;
                let len = left.min(template.size);
                let piece = Piece { taken, len, index, last: len == left };
                let cut = template.cut(&self.datagram, &piece, mode);
                if !piece.last {
                    let index = index.wrapping_add(1);
                    self.state = Some(State::Pieces { template, mode, taken: taken + len, index });
                }
                Some(cut)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.state {
            None => 0,
            Some(State::Whole(_)) => 1,
            Some(State::Pieces { template, taken, .. }) => {
                (self.datagram.bytes.len() - template.header_len - taken).div_ceil(template.size).max(1)
            }
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Cuts {}

/// A datagram that is not to be cut.
fn whole(datagram: &Datagram, mode: ChecksumMode) -> Cut {
    if let (ChecksumMode::Full, Some(partial)) = (mode, datagram.offload.partial_checksum)
        && let Some(cut) = completed(datagram, partial)
    {
        return cut;
    }
    Cut { header: ArrayVec::new(), payload: datagram.bytes.clone(), offload: datagram.offload }
}

/// A datagram with its checksum completed, of which only the bytes up to the checksum are copied.
/// `None` if that is further behind than any header reaches.
fn completed(datagram: &Datagram, partial: PartialChecksum) -> Option<Cut> {
    let bytes = datagram.bytes.as_slice();
    let start = usize::from(partial.start);
    let field = start + usize::from(partial.offset);
    let mut header = ArrayVec::new();
    header.try_extend_from_slice(bytes.get(..field + 2)?).ok()?;
    let checksum = checksum::of(&bytes[start..]);
    be::put_u16(&mut header, field, checksum::complete(checksum, partial));
    let offload = Offload { partial_checksum: None, ..datagram.offload };
    Some(Cut { header, payload: datagram.bytes.slice(field + 2..bytes.len()), offload })
}

/// What all pieces of one super-segment share.
#[derive(Clone, Debug)]
struct Template {
    /// The length of the IP header: where the TCP header begins.
    tcp_at: usize,
    /// The length of both headers.
    header_len: usize,
    /// Payload bytes of each piece but the last.
    size: usize,
    /// The sum of the pseudo-header, without the length.
    pseudo: Sum,
}

/// Which part of the payload a piece has.
struct Piece {
    taken: usize,
    len: usize,
    index: u16,
    last: bool,
}

impl Template {
    /// `None` if the datagram is no TCP super-segment with sound headers.
    fn of(datagram: &Datagram) -> Option<Self> {
        let bytes = datagram.bytes.as_slice();
        let size = usize::from(datagram.offload.gso?.size.get());
        let (addresses, ip_len, protocol) = match bytes.first()? >> 4 {
            4 => (12..20, usize::from(bytes[0] & 0xf) * 4, *bytes.get(9)?),
            6 => (8..40, 40, *bytes.get(6)?),
            _ => return None,
        };
        let tcp_at = match datagram.offload.partial_checksum {
            // The device knows where TCP begins, also behind IPv6 extension headers.
            Some(partial) if partial.offset == TCP_CHECKSUM => usize::from(partial.start),
            Some(_) => return None,
            None if protocol == TCP => ip_len,
            None => return None,
        };
        let tcp = bytes.get(tcp_at..)?.first_chunk::<TCP_HEADER_MIN>()?;
        let tcp_len = usize::from(tcp[12] >> 4) * 4;
        let header_len = tcp_at + tcp_len;
        let sound = match bytes[0] >> 4 {
            4 => ip_len >= 20 && tcp_at == ip_len,
            _ => tcp_at >= ip_len,
        };
        let fits = header_len <= HEADERS_MAX
            && header_len <= bytes.len()
            && header_len + size.min(bytes.len() - header_len) <= usize::from(u16::MAX);
        if !sound || tcp_len < TCP_HEADER_MIN || !fits {
            return None;
        }
        let mut pseudo = Sum::new();
        pseudo.add(bytes.get(addresses)?);
        pseudo.add_u16(u16::from(TCP));
        Some(Template { tcp_at, header_len, size, pseudo })
    }

    fn cut(&self, datagram: &Datagram, piece: &Piece, mode: ChecksumMode) -> Cut {
        let bytes = datagram.bytes.as_slice();
        let mut header: ArrayVec<u8, HEADERS_MAX> = bytes[..self.header_len].iter().copied().collect();
        let begin = self.header_len + piece.taken;
        let payload = datagram.bytes.slice(begin..begin + piece.len);
        self.set_ip(&mut header, piece);

        let tcp = &mut header[self.tcp_at..];
        let seq = be::u32(tcp, 4);
        be::put_u32(tcp, 4, seq.wrapping_add(piece.taken as u32));
        let mut cleared = TcpFlags::default();
        if !piece.last {
            cleared |= TcpFlags::FIN | TcpFlags::PSH;
        }
        if piece.index > 0 {
            cleared |= TcpFlags::CWR;
        }
        let flags = be::u16(tcp, 12);
        be::put_u16(tcp, 12, flags & !cleared.0);

        let mut sum = self.pseudo;
        sum.add(&((tcp.len() + piece.len) as u32).to_be_bytes());
        let mut offload = Offload { gso: None, ..datagram.offload };
        let partial = PartialChecksum { start: self.tcp_at as u16, offset: TCP_CHECKSUM };
        match mode {
            ChecksumMode::Partial => {
                be::put_u16(tcp, usize::from(TCP_CHECKSUM), sum.folded());
                offload.partial_checksum = Some(partial);
            }
            ChecksumMode::Full => {
                be::put_u16(tcp, usize::from(TCP_CHECKSUM), 0);
                sum.add(tcp);
                sum.add(payload.as_slice());
                be::put_u16(tcp, usize::from(TCP_CHECKSUM), sum.checksum());
                offload.partial_checksum = None;
            }
        }
        Cut { header, payload, offload }
    }

    /// Sets the length, and for IPv4 the identification and the checksum.
    fn set_ip(&self, header: &mut [u8], piece: &Piece) {
        let total = (self.header_len + piece.len) as u16; // as `Template::of` made sure
        if header[0] >> 4 == 6 {
            be::put_u16(header, 4, total - 40);
            return;
        }
        let ip = &mut header[..self.tcp_at];
        let id = be::u16(ip, 4);
        be::put_u16(ip, 2, total);
        be::put_u16(ip, 4, id.wrapping_add(piece.index));
        be::put_u16(ip, 10, 0);
        let checksum = checksum::of(ip);
        be::put_u16(ip, 10, checksum);
    }
}
