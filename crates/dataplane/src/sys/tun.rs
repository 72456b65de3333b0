//! A TUN device with virtio headers: super-segments and unfinished checksums pass as they are.
use super::{check, check_len};
use shorthaul_wire::{Chunk, Gso, Offload, PartialChecksum, Payload, PayloadList};
use std::fs::File;
use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Length of `struct virtio_net_hdr`, in front of every packet.
const VNET_HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Set beside the kind where the first segment carries CWR, which does not matter for cutting.
const GSO_ECN: u8 = 0x80;

/// A TUN device without packet information and with virtio headers. It vanishes with this value.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes a device `name` in the calling thread's network namespace, to be read without blocking.
    ///
    /// It takes TCP super-segments and unfinished checksums from the host's kernel as they are.
    pub fn create(name: &str) -> io::Result<Self> {
        let fd =
            File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interface name is too long"));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq through the pointer.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
        let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })?;
        Ok(Tun(fd.into()))
    }

    /// Reads a packet that the host sends into the empty `chunk`; `None` if there is none. The chunk has
    /// to have room for 65,535 bytes.
    pub fn receive(&self, chunk: &mut Chunk) -> io::Result<Option<Offload>> {
        let mut header = [0u8; VNET_HEADER];
        let space = chunk.spare_mut();
        let parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
            libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() },
        ];
        // SAFETY: both parts describe memory that is valid for writing until the call returns.
        match check_len(unsafe { libc::readv(self.0.as_raw_fd(), parts.as_ptr(), 2) }) {
            Ok(len) => {
                chunk.advance(len.saturating_sub(VNET_HEADER));
                Ok(Some(read_header(&header)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands the host a packet, as if it came in by the device: `headers`, then `slices`, of which
    /// there may be as many as a segment can gather.
    pub fn send(&self, headers: &[u8], slices: &[Payload], offload: &Offload) -> io::Result<()> {
        let first = headers.first().or_else(|| slices.first()?.as_slice().first());
        let header = write_header(offload, first.is_some_and(|byte| byte >> 4 == 6));
        let part =
            |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut parts = [part(&[]); PayloadList::MAX_SLICES + 2];
        parts[0] = part(&header);
        parts[1] = part(headers);
        for (to, slice) in parts[2..].iter_mut().zip(slices) {
            *to = part(slice.as_slice());
        }
        let count = 2 + slices.len().min(PayloadList::MAX_SLICES);
        // SAFETY: the first `count` parts describe memory that is valid until the call returns, and
        // that the kernel only reads.
        check_len(unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), count as libc::c_int) }).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn read_header(header: &[u8; VNET_HEADER]) -> Offload {
    let [flags, kind, header_len @ .., s0, s1, c0, c1, o0, o1] = *header;
    let partial_checksum = (flags & NEEDS_CHECKSUM != 0).then(|| PartialChecksum {
        start: u16::from_ne_bytes([c0, c1]),
        offset: u16::from_ne_bytes([o0, o1]),
    });
    let gso = match kind & !GSO_ECN {
        GSO_NONE => None,
        _ => NonZeroU16::new(u16::from_ne_bytes([s0, s1]))
            .map(|size| Gso { size, header_len: u16::from_ne_bytes(header_len) }),
    };
    Offload { partial_checksum, gso, checksum_verified: flags & DATA_VALID != 0 }
}

fn write_header(offload: &Offload, is_v6: bool) -> [u8; VNET_HEADER] {
    let mut header = [0; VNET_HEADER];
    match offload.partial_checksum {
        Some(partial) => {
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&partial.start.to_ne_bytes());
            header[8..10].copy_from_slice(&partial.offset.to_ne_bytes());
        }
        None if offload.checksum_verified => header[0] = DATA_VALID,
        None => {}
    }
    if let Some(gso) = offload.gso {
        header[1] = if is_v6 { GSO_TCPV6 } else { GSO_TCPV4 };
        header[2..4].copy_from_slice(&gso.header_len.to_ne_bytes());
        header[4..6].copy_from_slice(&gso.size.get().to_ne_bytes());
    }
    header
}
