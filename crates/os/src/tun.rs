//! A TUN device with virtio headers: super-segments and unfinished checksums pass as they are.
use crate::bpf::Program;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, readv, writev};
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl};
use shorthaul_wire::{Chunk, Gso, Offload, PartialChecksum, Payload, PayloadList};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

const SET_INTERFACE: Opcode = libc::TUNSETIFF as Opcode;
const SET_OFFLOAD: Opcode = libc::TUNSETOFFLOAD as Opcode;
const SET_STEERING: Opcode = libc::TUNSETSTEERINGEBPF as Opcode;

/// Length of `struct virtio_net_hdr`, in front of every packet.
const VNET_HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Set beside the kind where the first segment carries CWR, which does not matter for cutting.
const GSO_ECN: u8 = 0x80;

/// A TUN device without packet information and with virtio headers, or one of its queues. It vanishes with this value, or with the
/// last of them.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes a device `name` in the calling thread's network namespace, to be read without blocking.
    ///
    /// The device takes TCP super-segments and unfinished checksums from the host's kernel as they are.
    pub fn create(name: &str) -> io::Result<Self> {
        let device = Tun::attach(name, 0)?;
        device.take_offloads()?;
        Ok(device)
    }

    /// The same with this many queues, by their numbers. Each packet of the host goes into one of them; by which flow it is of, unless a
    /// [program](Tun::steer_by) says otherwise.
    pub fn create_queues(name: &str, count: usize) -> io::Result<Vec<Self>> {
        // A device of that name that is somebody else's would take another queue.
        let flags =
            |first| if first { libc::IFF_MULTI_QUEUE | libc::IFF_TUN_EXCL } else { libc::IFF_MULTI_QUEUE };
        let queues: Vec<Tun> =
            (0..count).map(|number| Tun::attach(name, flags(number == 0))).collect::<io::Result<_>>()?;
        queues.first().map_or(Ok(()), Tun::take_offloads)?;
        Ok(queues)
    }

    fn attach(name: &str, flags: libc::c_int) -> io::Result<Self> {
        let fd = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interface name is too long"));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | flags;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq.
        unsafe { ioctl(&fd, Updater::<SET_INTERFACE, _>::new(&mut request)) }?;
        Ok(Tun(fd))
    }

    fn take_offloads(&self) -> io::Result<()> {
        let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        unsafe { ioctl(&self.0, IntegerSetter::<SET_OFFLOAD>::new_usize(offloads as usize)) }?;
        Ok(())
    }

    /// Has a program say which queue of this device a packet goes into. It stays with the device.
    pub fn steer_by(&self, program: &Program) -> io::Result<()> {
        let descriptor: libc::c_int = program.as_fd().as_raw_fd();
        // SAFETY: TUNSETSTEERINGEBPF reads the number of a descriptor.
        unsafe { ioctl(&self.0, Setter::<SET_STEERING, libc::c_int>::new(descriptor)) }?;
        Ok(())
    }

    /// The same queue once more: it stays while one of both is there.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Tun(self.0.try_clone()?))
    }

    /// A device that another process has made, and handed over.
    pub fn handed_over(descriptor: OwnedFd) -> Self {
        Tun(descriptor)
    }

    /// Reads a packet that the host sends into the empty `chunk`; `None` if there is none. The chunk has
    /// to have room for 65,535 bytes.
    #[inline]
    pub fn receive(&self, chunk: &mut Chunk) -> io::Result<Option<Offload>> {
        let mut header = [0u8; VNET_HEADER];
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(chunk.spare_mut())];
        match readv(&self.0, &mut parts) {
            Ok(len) => {
                chunk.advance(len.saturating_sub(VNET_HEADER));
                Ok(Some(read_header(&header)))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the host a packet, as if it came in by the device: `headers`, then `slices`, of which
    /// there may be as many as a segment can gather.
    #[inline]
    pub fn send(&self, headers: &[u8], slices: &[Payload], offload: &Offload) -> io::Result<()> {
        let first = headers.first().or_else(|| slices.first()?.as_slice().first());
        let header = write_header(offload, first.is_some_and(|byte| byte >> 4 == 6));
        let mut parts = [IoSlice::new(&[]); PayloadList::MAX_SLICES + 2];
        parts[0] = IoSlice::new(&header);
        parts[1] = IoSlice::new(headers);
        for (to, slice) in parts[2..].iter_mut().zip(slices) {
            *to = IoSlice::new(slice.as_slice());
        }
        let count = 2 + slices.len().min(PayloadList::MAX_SLICES);
        writev(&self.0, &parts[..count])?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_survive_the_virtio_header() {
        let gso = Some(Gso { size: NonZeroU16::new(1448).unwrap(), header_len: 66 });
        let partial = Some(PartialChecksum { start: 20, offset: 16 });
        for (partial_checksum, gso, checksum_verified) in
            [(partial, gso, false), (partial, None, false), (None, None, true), (None, None, false)]
        {
            let offload = Offload { partial_checksum, gso, checksum_verified };
            for is_v6 in [false, true] {
                assert_eq!(read_header(&write_header(&offload, is_v6)), offload);
            }
        }
        let ecn = [NEEDS_CHECKSUM, GSO_TCPV4 | GSO_ECN, 54, 0, 0xa8, 5, 20, 0, 16, 0];
        assert_eq!(read_header(&ecn).gso.map(|gso| gso.size.get()), Some(u16::from_ne_bytes([0xa8, 5])));
    }
}
