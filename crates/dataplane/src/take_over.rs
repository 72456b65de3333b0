//! One gateway goes on in the place of another, and no packet need be lost.
//!
//! The new one prepares all that it can, and copies what is held, while the running one goes on (`Former::copy_ahead`). Then it asks that on
//! its control socket. The running one ends its round, by which all flows stand in the journal, and hands over its two devices (of each
//! worker, where there are several, its queues of them) and its lock, with a line that says what they are for, and then since when nobody reads packets, and what each flow does at the moment
//! ([`FlowMomentum`]): what is under way, what came out of order, windows and round trips. The new one takes the flows over from the
//! journal with that, for which it copies what came since, and says so; the old one ends and takes nothing with it. What comes meanwhile
//! waits in the devices. If the new one does not say so, or says nothing for a while, the old one goes on.
//!
//! The packets are whose claim it is ([`Claim`]), which the new one gets with the first bytes of what its flows do, and takes when it is ready, before it
//! changes anything that the old one has need of. The old one takes it when it has waited long enough. So one of them has it, however
//! late the other one wakes.
use crate::control::control_path;
use crate::request::{ANNOUNCE, TAKE_OVER};
use crate::{Config, Interception, Way};
use shorthaul_os::handover::Claim;
use shorthaul_os::{Tun, handover};
use shorthaul_proxy::{FlowMomentum, Inherited};
use shorthaul_types::Time;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the new one says when it has taken over.
const TAKEN: &[u8; 6] = b"taken\n";
/// The longest line.
const LONGEST: usize = 4_096;
/// How many bytes of what flows do come with the claim.
const BEGIN: usize = 8;
/// More than this is nothing that a gateway says: what came out of order is within its memory.
const MOST: u64 = 1 << 34;
/// In front of a flow that has no room in the journal; no first byte of a [`FlowMomentum`].
const WHOLE: u8 = b'W';
/// In front of why nothing is handed over.
const REFUSED: &str = "refused: ";
/// What it says meanwhile, to whoever has handed it a claim: that it gets on.
const ALIVE: u8 = b'.';
/// How often it says so.
const SAYS_ALIVE: Duration = Duration::from_millis(50);
/// How long the new one may take, and the old one to answer; and what for each byte that is handed over.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
const FOR_BYTE: Duration = Duration::from_nanos(10);
/// For how long the new one may do nothing that is seen: packets wait. And how much longer for each flow.
const STANDS: Duration = Duration::from_millis(500);
const FOR_FLOW: Duration = Duration::from_micros(10);

/// What a running gateway has handed over.
pub(crate) struct HandedOver {
    /// Of each worker.
    pub devices: Vec<[Tun; 2]>,
    /// The lock on its name. It goes with the descriptor.
    pub lock: File,
    /// Whom to tell that all is taken over.
    pub stream: UnixStream,
    /// Whose the packets are. A gateway of before does not hand it over.
    pub claim: Option<Claim>,
    /// To be told that this process gets on.
    pub alive: Alive,
    /// What each worker was doing.
    pub lasts: Vec<Last>,
}

/// What a running gateway says of itself last.
#[derive(Debug, Default, PartialEq)]
pub struct Last {
    /// Since when nobody reads packets, by the clock that both processes have.
    pub stopped: Time,
    /// What its flows do at the moment, by the numbers of their records.
    pub momenta: HashMap<u64, FlowMomentum>,
    /// Flows of which the journal had no room for all bytes.
    pub unkept: Vec<Inherited>,
}

impl Last {
    /// Completes what stood in the journal: with the bytes that had no room there, and what the flows were doing.
    pub fn complete(&mut self, left: &mut [Inherited]) {
        let mut unkept: HashMap<u64, Inherited> =
            self.unkept.drain(..).map(|flow| (flow.record.serial, flow)).collect();
        for inherited in left {
            if let Some(whole) = unkept.remove(&inherited.record.serial) {
                *inherited = whole;
            }
            inherited.momentum = self.momenta.remove(&inherited.record.serial).map(Box::new);
        }
    }
}

/// Tells a running gateway that whoever takes over from it gets on.
#[derive(Clone, Debug, Default)]
pub struct Alive(Option<Arc<(UnixStream, Mutex<Instant>)>>);

impl Alive {
    fn to(stream: &UnixStream) -> io::Result<Self> {
        Ok(Alive(Some(Arc::new((stream.try_clone()?, Mutex::new(Instant::now()))))))
    }

    /// Something was done.
    pub fn say(&self) {
        let Some((stream, said)) = self.0.as_deref() else { return };
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() >= SAYS_ALIVE {
            *said = Instant::now();
            // It may be gone.
            let mut stream = stream;
            let _ = stream.write(&[ALIVE]);
        }
    }
}

/// Why whoever wakes late does not take over.
pub(crate) fn given_up() -> io::Error {
    io::Error::other("this took too long, and the running one has gone on: try again")
}

/// What the devices are for: whoever takes them over must want the same.
fn purpose(interception: &Interception, workers: usize) -> String {
    let Interception { interfaces: [access, wan], devices, tables, is_bridge, way, .. } = interception;
    let how = match way {
        _ if *is_bridge => "bridge".to_owned(),
        Way::Interfaces => format!("interface {}", tables[0]),
        Way::Rules(_) => tables[0].to_string(),
    };
    let one = format!("{} {} {} {how}", access.join(","), wan.join(","), devices.join(","));
    if workers == 1 { one } else { format!("{one} {workers} workers") }
}

/// Comes to the gateway of this name, which goes on until it is [asked](ask).
pub(crate) fn connect(config: &Config) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(control_path(&config.run_dir, &config.name.to_string()))?;
    stream.set_read_timeout(Some(HANDOVER_TIMEOUT))?;
    stream.set_write_timeout(Some(HANDOVER_TIMEOUT))?;
    stream.write_all(ANNOUNCE.as_bytes())?;
    Ok(stream)
}

/// Asks the running gateway for all that it has.
pub(crate) fn ask(
    mut stream: UnixStream,
    interception: &Interception,
    workers: usize,
) -> io::Result<HandedOver> {
    stream.write_all(format!("{TAKE_OVER}\n").as_bytes())?;
    let (text, mut descriptors) = handover::receive(&stream, LONGEST)?;
    let (theirs, ours) = (String::from_utf8_lossy(&text), purpose(interception, workers));
    if let Some(why) = theirs.strip_prefix(REFUSED) {
        return Err(io::Error::other(why.to_owned()));
    }
    if theirs != ours {
        let why = format!(
            "it runs between other interfaces, with another table or `attach`, or with another number of workers (`{theirs}`, not `{ours}`): end it first"
        );
        return Err(io::Error::other(why));
    }
    let lock = descriptors.pop().filter(|_| descriptors.len() == 2 * workers).ok_or_else(|| {
        io::Error::other("it handed over something else than two devices for each worker, and a lock")
    })?;
    let mut queues = descriptors.into_iter().map(Tun::handed_over);
    let pair = || Some([queues.next()?, queues.next()?]);
    let devices = std::iter::from_fn(pair).collect();
    let (begin, mut claims) = handover::receive(&stream, BEGIN)?;
    let claim = claims.pop().map(Claim::from);
    let alive = if claim.is_some() { Alive::to(&stream)? } else { Alive::default() };
    let mut said = begin.chain(&mut stream);
    let read = |_| {
        alive.say();
        Last::read(&mut said).map_err(|error| late(error, claim.as_ref()))
    };
    let lasts = (0..workers).map(read).collect::<io::Result<_>>()?;
    Ok(HandedOver { devices, lock: File::from(lock), stream, claim, alive, lasts })
}

/// What it means that nothing more comes.
fn late(error: io::Error, claim: Option<&Claim>) -> io::Error {
    let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
    if is_end && claim.is_some_and(|claim| !claim.take()) { given_up() } else { error }
}

/// Tells the old one that all is taken over, and that it may end.
pub(crate) fn say_taken(mut stream: &UnixStream) -> io::Result<()> {
    stream.write_all(TAKEN)
}

/// Tells whoever asked why it is handed nothing.
pub(crate) fn refuse(stream: &UnixStream, why: &str) {
    // It may be gone.
    let _ = handover::send(stream, format!("{REFUSED}{why}").as_bytes(), &[]);
}

/// Hands all over to whoever asked, and waits until it has taken over.
///
/// # Errors
/// It has not: go on.
pub(crate) fn hand_over(
    (stream, claims): (&UnixStream, bool),
    interception: &Interception,
    devices: &[&[Tun; 2]],
    lasts: &[Last],
    lock: &File,
) -> io::Result<()> {
    let mut all = Vec::new();
    lasts.iter().try_for_each(|last| last.write(&mut all))?;
    let flows = lasts.iter().map(|last| last.momenta.len() + last.unkept.len()).sum::<usize>();
    let patience = Patience {
        stands: match claims {
            true => STANDS + FOR_FLOW * u32::try_from(flows).unwrap_or(u32::MAX),
            // It does not say that it gets on, and would not find out.
            false => HANDOVER_TIMEOUT,
        },
        until: Instant::now() + HANDOVER_TIMEOUT + FOR_BYTE * u32::try_from(all.len()).unwrap_or(u32::MAX),
    };
    let claim = Claim::new()?;
    stream.set_write_timeout(Some(patience.stands))?;
    let queues = devices.iter().flat_map(|pair| pair.iter().map(Tun::as_fd));
    let descriptors: Vec<_> = queues.chain([lock.as_fd()]).collect();
    let (begin, rest) = all.split_at(BEGIN.min(all.len()));
    let handed = handover::send(stream, purpose(interception, devices.len()).as_bytes(), &descriptors)
        .and_then(|()| handover::send(stream, begin, &[claim.as_fd()]))
        .and_then(|()| patience.write(stream, rest))
        .and_then(|()| patience.hear_taken(stream));
    match handed {
        Ok(()) => Ok(()),
        // Nobody is left there who could go on.
        Err(error) if is_gone(&error) => Err(error),
        Err(error) if claim.take() => Err(patience.given_up(error)),
        // It has the packets, and may not have said so yet. It says so, or is gone, or has them all the same.
        Err(_) => match (Patience { stands: HANDOVER_TIMEOUT, ..patience.anew() }).hear_taken(stream) {
            Err(error) if is_gone(&error) => Err(error),
            _ => Ok(()),
        },
    }
}

/// Whether the other side has closed: it is gone.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// How long the running gateway waits for one that takes over.
struct Patience {
    /// With nothing that is seen.
    stands: Duration,
    /// In all.
    until: Instant,
}

impl Patience {
    fn anew(&self) -> Patience {
        Patience { stands: self.stands, until: Instant::now() + HANDOVER_TIMEOUT }
    }

    /// For how long it waits now.
    fn now(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now()).min(self.stands);
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn write(&self, mut stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            stream.set_write_timeout(Some(self.now()?))?;
            match stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until it says that all is taken over.
    fn hear_taken(&self, mut stream: &UnixStream) -> io::Result<()> {
        let (mut said, mut bytes) = (Vec::new(), [0; 64]);
        loop {
            stream.set_read_timeout(Some(self.now()?))?;
            let length = match stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            said.extend(bytes[..length].iter().filter(|byte| **byte != ALIVE));
            if said == *TAKEN {
                return Ok(());
            }
            if !TAKEN.starts_with(&said) {
                return Err(io::Error::other("it said something else"));
            }
        }
    }

    fn given_up(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let stands = self.stands.as_millis();
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it did nothing for {stands} ms, or took too long in all"),
                )
            }
            _ => error,
        }
    }
}

impl Last {
    /// Since when nobody reads packets, the number of bytes that follow; then of each flow the number of its record, the number of its
    /// bytes, and these. Flows that are handed over whole are among them, with a letter in front.
    fn write(&self, stream: &mut impl io::Write) -> io::Result<()> {
        let mut all = self.stopped.as_nanos().to_be_bytes().to_vec();
        all.extend([0; 8]);
        let momenta = self.momenta.iter().map(|(serial, momentum)| (*serial, momentum.encode()));
        let whole = |flow: &Inherited| (flow.record.serial, [&[WHOLE], &flow.encode()[..]].concat());
        for (serial, bytes) in momenta.chain(self.unkept.iter().map(whole)) {
            all.extend(serial.to_be_bytes());
            all.extend((bytes.len() as u64).to_be_bytes());
            all.extend(bytes);
        }
        let length = all.len() as u64 - 16;
        all[8..16].copy_from_slice(&length.to_be_bytes());
        stream.write_all(&all)
    }

    /// Reads what another process wrote. Of a flow of which another version said something else, nothing is known: it goes on as after a
    /// crash.
    ///
    /// # Errors
    /// It makes no sense, or ends too early.
    pub fn read(stream: &mut impl io::Read) -> io::Result<Last> {
        let mut number = [0; 8];
        stream.read_exact(&mut number)?;
        let stopped = Time::from_nanos(u64::from_be_bytes(number));
        stream.read_exact(&mut number)?;
        let length = u64::from_be_bytes(number);
        let garbled = || io::Error::other("what it says of its flows makes no sense");
        if length > MOST {
            return Err(garbled());
        }
        let mut all = Vec::new();
        if stream.take(length).read_to_end(&mut all)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut momenta, mut unkept) = (HashMap::new(), Vec::new());
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (serial, after) = rest.split_first_chunk().ok_or_else(garbled)?;
            let (length, after) = after.split_first_chunk().ok_or_else(garbled)?;
            let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| garbled())?;
            let (bytes, after) = after.split_at_checked(length).ok_or_else(garbled)?;
            match bytes.split_first() {
                Some((&WHOLE, flow)) => unkept.extend(Inherited::decode(flow)),
                _ => momenta.extend(FlowMomentum::decode(bytes).map(|m| (u64::from_be_bytes(*serial), m))),
            }
            rest = after;
        }
        Ok(Last { stopped, momenta, unkept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use shorthaul_proxy::{Gateway, GatewayConfig};
    use shorthaul_tcp::ConnectionConfig;
    use shorthaul_testkit::{Opening, World};
    use std::net::IpAddr;

    /// A flow of whose bytes the journal has none.
    fn short_of_room() -> Inherited {
        let mut world = World::new(1, GatewayConfig::default());
        let stations = [(Gateway::ACCESS, [10, 0, 0, 1]), (Gateway::WAN, [10, 0, 0, 2])]
            .map(|(port, address)| world.add_station(port, IpAddr::from(address)));
        let configs = [ConnectionConfig::default(), ConnectionConfig::default()];
        world.open(Opening { stations, port: 80, configs, totals: [4, 0] });
        world.custody.is_full = true;
        assert!(world.run_until(|world| world.gateway.unkept().next().is_some()));
        let flow = world.gateway.unkept().next().unwrap();
        assert_eq!(flow.held[0].len(), 4);
        flow
    }

    /// What becomes of a hand-over, by what whoever asked does with what it gets. And how long that took.
    fn handed_over_to(next: impl FnOnce(UnixStream, &Interception) + Send) -> (io::Result<()>, Duration) {
        let interception = Interception::of(&Config::default());
        let nothing = || File::open("/dev/null").unwrap();
        let (lock, devices) = (nothing(), [(); 2].map(|()| Tun::handed_over(nothing().into())));
        let (mut old, new) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| next(new, &interception));
            let asked = Request::hear(&mut old, HANDOVER_TIMEOUT).unwrap();
            assert_eq!(asked, Some(Request::TakeOver { claims: true }));
            let begun = Instant::now();
            let handed = hand_over((&old, true), &interception, &[&devices], &[Last::default()], &lock);
            // It has ended, or goes on.
            drop(old);
            (handed, begun.elapsed())
        })
    }

    #[test]
    fn who_is_handed_the_packets_has_them_alone() {
        // In time, however it says that it gets on.
        let (handed, _) = handed_over_to(|stream, interception| {
            let got = ask(stream, interception, 1).unwrap();
            got.alive.say();
            assert!(got.claim.unwrap().take());
            say_taken(&got.stream).unwrap();
        });
        handed.unwrap();
        // Too late.
        let (kept, after) = handed_over_to(|stream, interception| {
            let got = ask(stream, interception, 1).unwrap();
            let mut end = Vec::new();
            (&got.stream).read_to_end(&mut end).unwrap();
            assert!(!got.claim.unwrap().take(), "both have them");
        });
        let why = kept.unwrap_err().to_string();
        assert!(why.contains("did nothing"), "{why}");
        assert!(after >= STANDS && after < HANDOVER_TIMEOUT, "{after:?}");
        // It has them, and says so late.
        let (handed, after) = handed_over_to(|stream, interception| {
            let got = ask(stream, interception, 1).unwrap();
            assert!(got.claim.unwrap().take());
            std::thread::sleep(STANDS * 2);
            say_taken(&got.stream).unwrap();
        });
        handed.unwrap();
        assert!(after >= STANDS * 2);
        // It dies.
        let (kept, _) = handed_over_to(|stream, interception| drop(ask(stream, interception, 1)));
        assert!(kept.is_err());
    }

    #[test]
    fn who_knows_no_claims_asks_as_before() {
        for (said, claims) in
            [("take-over", false), ("take-over\n", true), ("take-over-soontake-over\n", true)]
        {
            assert_eq!(Request::read(said.as_bytes()), Request::TakeOver { claims });
        }
    }

    #[test]
    fn who_gets_on_is_waited_for() {
        let (handed, after) = handed_over_to(|stream, interception| {
            let got = ask(stream, interception, 1).unwrap();
            let begun = Instant::now();
            while begun.elapsed() < STANDS * 3 {
                got.alive.say();
                std::thread::sleep(SAYS_ALIVE);
            }
            assert!(got.claim.unwrap().take());
            say_taken(&got.stream).unwrap();
        });
        handed.unwrap();
        assert!(after >= STANDS * 3);
    }

    #[test]
    fn what_is_said_of_flows_is_read_whole_or_refused() {
        let momenta = [(7, FlowMomentum::default()), (1 << 40, FlowMomentum::default())];
        let last =
            Last { stopped: Time::from_secs(9), momenta: momenta.into(), unkept: vec![short_of_room()] };
        let mut bytes = Vec::new();
        last.write(&mut bytes).unwrap();
        assert_eq!(Last::read(&mut &bytes[..]).unwrap(), last);
        for length in 0..bytes.len() {
            assert!(Last::read(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(Last::read(&mut &[0xff; 100][..]).is_err(), "more than can be");
        let mut other = bytes.clone();
        other[16 + 16] ^= 1;
        assert_eq!(Last::read(&mut &other[..]).unwrap().momenta.len(), 1, "the first is of another version");
    }
}
