//! One gateway goes on in the place of another, and no packet need be lost.
//!
//! The new one prepares all that it can, and then asks the running one on its control socket. That ends its round, by which all flows
//! stand in the journal, and hands over its two devices and its lock, with a line that says what they are for, and then what each
//! flow does at the moment ([`FlowMomentum`]): what is under way, what came out of order, windows and round trips. The new one takes
//! the flows over from the journal with that and says so; the old one ends and takes nothing with it. What comes meanwhile waits in
//! the devices. If the new one does not say so, the old one goes on.
use crate::control::{TAKE_OVER, control_path};
use crate::{Config, Interception};
use shorthaul_os::{Tun, handover};
use shorthaul_proxy::{FlowMomentum, Inherited};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What the new one says when it has taken over.
const TAKEN: &[u8; 6] = b"taken\n";
/// The longest line.
const LONGEST: usize = 4_096;
/// More than this is nothing that a gateway says: what came out of order is within its memory.
const MOST: u64 = 1 << 34;
/// How long the new one may take, and the old one to answer.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a running gateway has handed over.
pub(crate) struct HandedOver {
    pub devices: [Tun; 2],
    /// The lock on its name. It goes with the descriptor.
    pub lock: File,
    /// Whom to tell that all is taken over.
    pub stream: UnixStream,
    /// What its flows do at the moment, by the numbers of their records.
    pub momenta: HashMap<u64, FlowMomentum>,
}

impl HandedOver {
    /// Tells flows that stood in the journal what they were doing.
    pub fn complete(&mut self, left: &mut [Inherited]) {
        for inherited in left {
            inherited.momentum = self.momenta.remove(&inherited.record.serial).map(Box::new);
        }
    }
}

/// What the devices are for: whoever takes them over must want the same.
fn purpose(interception: &Interception) -> String {
    let Interception { interfaces: [access, wan], devices, tables, .. } = interception;
    format!("{} {} {} {}", access.join(","), wan.join(","), devices.join(","), tables[0])
}

/// Comes to the gateway of this name, which goes on until it is [asked](ask).
pub(crate) fn connect(config: &Config) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(control_path(&config.run_dir, &config.name.to_string()))?;
    stream.set_read_timeout(Some(HANDOVER_TIMEOUT))?;
    stream.set_write_timeout(Some(HANDOVER_TIMEOUT))?;
    Ok(stream)
}

/// Asks the running gateway for all that it has.
pub(crate) fn ask(mut stream: UnixStream, interception: &Interception) -> io::Result<HandedOver> {
    stream.write_all(TAKE_OVER.as_bytes())?;
    let (text, descriptors) = handover::receive(&stream, LONGEST)?;
    let (theirs, ours) = (String::from_utf8_lossy(&text), purpose(interception));
    if theirs != ours {
        let why = format!(
            "it runs between other interfaces or with another table (`{theirs}`, not `{ours}`): end it first"
        );
        return Err(io::Error::other(why));
    }
    let [access, wan, lock] = <[_; 3]>::try_from(descriptors)
        .map_err(|_| io::Error::other("it handed over something else than two devices and a lock"))?;
    let momenta = read_momenta(&mut stream)?;
    Ok(HandedOver { devices: [access, wan].map(Tun::handed_over), lock: File::from(lock), stream, momenta })
}

/// Tells the old one that all is taken over, and that it may end.
pub(crate) fn say_taken(mut stream: &UnixStream) -> io::Result<()> {
    stream.write_all(TAKEN)
}

/// Hands all over to whoever asked, and waits until it has taken over.
///
/// # Errors
/// It has not: go on.
pub(crate) fn hand_over(
    mut stream: &UnixStream,
    interception: &Interception,
    (devices, momenta): (&[Tun; 2], Vec<(u64, FlowMomentum)>),
    lock: &File,
) -> io::Result<()> {
    stream.set_read_timeout(Some(HANDOVER_TIMEOUT))?;
    stream.set_write_timeout(Some(HANDOVER_TIMEOUT))?;
    let descriptors = [devices[0].as_fd(), devices[1].as_fd(), lock.as_fd()];
    handover::send(stream, purpose(interception).as_bytes(), &descriptors)?;
    write_momenta(&mut stream, momenta)?;
    let mut said = [0; TAKEN.len()];
    stream.read_exact(&mut said)?;
    if said == *TAKEN { Ok(()) } else { Err(io::Error::other("it said something else")) }
}

/// The number of bytes that follow; then of each flow the number of its record, the number of its bytes, and these.
fn write_momenta(stream: &mut impl io::Write, momenta: Vec<(u64, FlowMomentum)>) -> io::Result<()> {
    let mut all = vec![0; 8];
    for (serial, momentum) in momenta {
        let bytes = momentum.encode();
        all.extend(serial.to_be_bytes());
        all.extend((bytes.len() as u64).to_be_bytes());
        all.extend(bytes);
    }
    let length = all.len() as u64 - 8;
    all[..8].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&all)
}

/// What [`write_momenta`] wrote. Of a flow of which another version said something else, nothing is known: it goes on as after a crash.
fn read_momenta(stream: &mut impl io::Read) -> io::Result<HashMap<u64, FlowMomentum>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    let garbled = || io::Error::other("what it says of its flows makes no sense");
    if length > MOST {
        return Err(garbled());
    }
    let mut all = Vec::new();
    if stream.take(length).read_to_end(&mut all)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut momenta = HashMap::new();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let (serial, after) = rest.split_first_chunk().ok_or_else(garbled)?;
        let (length, after) = after.split_first_chunk().ok_or_else(garbled)?;
        let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| garbled())?;
        let (bytes, after) = after.split_at_checked(length).ok_or_else(garbled)?;
        momenta.extend(FlowMomentum::decode(bytes).map(|momentum| (u64::from_be_bytes(*serial), momentum)));
        rest = after;
    }
    Ok(momenta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_flows_is_read_whole_or_refused() {
        let momenta = vec![(7, FlowMomentum::default()), (1 << 40, FlowMomentum::default())];
        let mut bytes = Vec::new();
        write_momenta(&mut bytes, momenta.clone()).unwrap();
        assert_eq!(read_momenta(&mut &bytes[..]).unwrap(), momenta.into_iter().collect());
        for length in 0..bytes.len() {
            assert!(read_momenta(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(read_momenta(&mut &[0xff; 100][..]).is_err(), "more than can be");
        let mut other = bytes.clone();
        other[8 + 16] ^= 1;
        assert_eq!(read_momenta(&mut &other[..]).unwrap().len(), 1, "the first is of another version");
    }
}
