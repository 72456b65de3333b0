//! One gateway goes on in the place of another, and no packet need be lost.
//!
//! The new one asks the running one on its control socket. That ends its round, by which all flows stand in the journal, and
//! hands over its two devices and its lock, with a line that says what they are for. The new one takes the flows over from the
//! journal and says so; the old one ends and takes nothing with it. What comes meanwhile waits in the devices. If the new one
//! does not say so, the old one goes on.
use crate::control::{TAKE_OVER, control_path};
use crate::{Config, Interception};
use shorthaul_os::{Tun, handover};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What the new one says when it has taken over.
const TAKEN: &[u8; 6] = b"taken\n";
/// The longest line.
const LONGEST: usize = 4_096;
/// How long the new one may take, and the old one to answer.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a running gateway has handed over.
pub(crate) struct HandedOver {
    pub devices: [Tun; 2],
    /// The lock on its name. It goes with the descriptor.
    pub lock: File,
    /// Whom to tell that all is taken over.
    pub stream: UnixStream,
}

/// What the devices are for: whoever takes them over must want the same.
fn purpose(interception: &Interception) -> String {
    let Interception { interfaces: [access, wan], devices, tables, .. } = interception;
    format!("{} {} {} {}", access.join(","), wan.join(","), devices.join(","), tables[0])
}

/// Asks the gateway of this name for all that it has.
pub(crate) fn ask(config: &Config, interception: &Interception) -> io::Result<HandedOver> {
    let mut stream = UnixStream::connect(control_path(&config.run_dir, &config.name.to_string()))?;
    stream.set_read_timeout(Some(HANDOVER_TIMEOUT))?;
    stream.set_write_timeout(Some(HANDOVER_TIMEOUT))?;
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
    Ok(HandedOver { devices: [access, wan].map(Tun::handed_over), lock: File::from(lock), stream })
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
    devices: &[Tun; 2],
    lock: &File,
) -> io::Result<()> {
    stream.set_read_timeout(Some(HANDOVER_TIMEOUT))?;
    let descriptors = [devices[0].as_fd(), devices[1].as_fd(), lock.as_fd()];
    handover::send(stream, purpose(interception).as_bytes(), &descriptors)?;
    let mut said = [0; TAKEN.len()];
    stream.read_exact(&mut said)?;
    if said == *TAKEN { Ok(()) } else { Err(io::Error::other("it said something else")) }
}
