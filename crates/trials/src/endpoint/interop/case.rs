//! One transfer, drawn from a seed.
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use shorthaul_link::{FrameAggregation, LinkConfig, LossModel, QueueLimit, Rate, Reordering};
use shorthaul_tcp::{ConnectionConfig, SenderProfile};
use shorthaul_types::{BitRate, Bytes, Seed, format_duration};

use super::script::{Exchange, HalfClose, Stream};
use crate::endpoint::place::{GUEST, Path};

/// The port of whoever listens.
pub const PORT: u16 = 4711;

/// Which end of the connection our endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// Whether an option is in use, and if not, who does not want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    Both,
    KernelOnly,
    EndpointOnly,
}

impl Offer {
    /// Both ends offer it.
    pub fn agreed(self) -> bool {
        self == Offer::Both
    }

    fn by_endpoint(self) -> bool {
        self != Offer::KernelOnly
    }

    fn by_kernel(self) -> bool {
        self != Offer::EndpointOnly
    }
}

/// What the path does to packets beyond carrying them at its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Nothing.
    Nothing,
    /// Shares of the packets are lost in the two directions.
    Loss { up: f64, down: f64 },
    /// A share of the packets comes late, and none is lost.
    Reordering { share: f64, by: Duration },
    /// A share of the packets comes twice, and none is lost.
    Duplication { share: f64 },
    /// A share of the acknowledgments is lost, and no data.
    AckLoss { share: f64 },
    /// Acknowledgments come in groups.
    Aggregation { size: usize, wait: Duration },
    /// Loss, reordering, duplication and aggregation at once.
    Everything { loss: f64, share: f64 },
}

impl Trouble {
    /// Its kind.
    pub fn kind(self) -> &'static str {
        match self {
            Trouble::Nothing => "none",
            Trouble::Loss { .. } => "loss",
            Trouble::Reordering { .. } => "reordering",
            Trouble::Duplication { .. } => "duplication",
            Trouble::AckLoss { .. } => "ACK loss",
            Trouble::Aggregation { .. } => "ACK aggregation",
            Trouble::Everything { .. } => "everything",
        }
    }

    /// The share of data packets that is lost.
    fn loss(self) -> f64 {
        match self {
            Trouble::Loss { up, down } => up.max(down),
            Trouble::Everything { loss, .. } => loss,
            _ => 0.0,
        }
    }
}

/// One transfer: everything about it follows from its seed.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its number in the series.
    pub number: u64,
    /// What it is drawn from.
    pub seed: Seed,
    pub role: Role,
    pub v6: bool,
    pub profile: &'static str,
    /// The kernel's congestion control.
    pub kernel_control: &'static str,
    pub sack: Offer,
    pub timestamps: Offer,
    /// The shift of our windows; `None`: no window scaling is offered.
    pub shift: Option<u8>,
    /// The shift of the kernel's windows; `None`: no window scaling is offered.
    pub kernel_shift: Option<u8>,
    /// The segment size that we announce, and send at most, without options.
    pub mss: u32,
    pub super_segments: bool,
    pub autotuning: bool,
    pub rate: BitRate,
    /// One way.
    pub delay: Duration,
    pub trouble: Trouble,
    pub stream: Stream,
    pub half_close: bool,
    /// Of the large stream, or of each of the two.
    pub bytes: u64,
}

/// The most that is lost of what carries data, at random.
const MOST_LOSS: f64 = 0.05;

/// Draws by name, so that a new draw does not change the others.
struct Draw(Seed);

impl Draw {
    fn bits(&self, name: &str) -> u64 {
        self.0.derive(name).0
    }

    /// Uniform in [0, 1).
    fn unit(&self, name: &str) -> f64 {
        (self.bits(name) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn happens(&self, name: &str, share: f64) -> bool {
        self.unit(name) < share
    }

    fn one_of<T: Copy>(&self, name: &str, all: &[T]) -> T {
        all[(self.bits(name) % all.len() as u64) as usize]
    }

    fn within(&self, name: &str, low: u64, high: u64) -> u64 {
        low + self.bits(name) % (high - low + 1)
    }

    fn millis(&self, name: &str, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.within(name, low * 1000, high * 1000))
    }
}

impl Case {
    /// The case `number` of the series `seed`, with a kernel that has these congestion controls.
    pub fn draw(seed: Seed, number: u64, controls: &[&'static str]) -> Case {
        let seed = seed.derive("interop").nth(number);
        let draw = Draw(seed);
        let offer = |name| match draw.within(name, 0, 5) {
            0 => Offer::KernelOnly,
            1 => Offer::EndpointOnly,
            _ => Offer::Both,
        };
        let shift = |name: &str| match draw.within(name, 0, 5) {
            0 => None,
            1 => Some(0),
            2 => Some(14),
            _ => Some(draw.within(&format!("{name} between"), 1, 13) as u8),
        };
        let profiles: Vec<&'static str> = SenderProfile::names().collect();
        let trouble = trouble(&draw);
        let mss = match draw.happens("mss known", 0.6) {
            true => draw.one_of("mss", &[536, 1220, 1400, 1460, 4016, 8960]),
            false => draw.within("mss", 536, 8960) as u32,
        };
        let rate = BitRate::from_bits_per_sec(draw.one_of("rate", &[2, 10, 30, 100]) * 1_000_000);
        // A few seconds at most, also with a timeout for every second loss.
        let segments = draw.within("segments", 20, 600) as f64;
        let segments = segments.min(12.0 / trouble.loss().max(1e-3));
        let bytes = (segments * f64::from(mss)) as u64 + draw.within("odd bytes", 0, 999);
        Case {
            number,
            seed,
            role: draw.one_of("role", &[Role::Client, Role::Server]),
            v6: draw.happens("version", 0.3),
            profile: draw.one_of("profile", &profiles),
            kernel_control: draw.one_of("kernel control", controls),
            sack: offer("sack"),
            timestamps: offer("timestamps"),
            shift: shift("shift"),
            kernel_shift: shift("kernel shift"),
            mss,
            super_segments: draw.happens("super segments", 0.5),
            autotuning: draw.happens("autotuning", 0.5),
            rate,
            delay: draw.millis("delay", 1, 40),
            trouble,
            stream: draw.one_of("stream", &[Stream::Upload, Stream::Download, Stream::Both]),
            half_close: draw.happens("half-close", 0.5),
            bytes: bytes.min(rate.bytes_in(Duration::from_millis(1500)).0),
        }
    }

    /// Both agree on window scaling.
    pub fn scales(&self) -> bool {
        self.shift.is_some() && self.kernel_shift.is_some()
    }

    /// Who sends what, and when each side closes.
    pub fn exchange(&self) -> Exchange {
        let closer_is_client = Draw(self.seed).happens("closer", 0.5);
        // The tail travels where the acknowledgments do.
        let tail = if matches!(self.trouble, Trouble::AckLoss { .. }) { 1_000 } else { 20_000 };
        let half_close = self.half_close.then_some(HalfClose { tail, closer_is_client });
        Exchange::new(self.stream, self.bytes, half_close)
    }

    /// Our endpoint's address.
    pub fn endpoint_address(&self) -> IpAddr {
        if self.v6 { GUEST.v6.into() } else { GUEST.v4.into() }
    }

    /// IP and TCP headers without options, in bytes.
    fn headers(&self) -> u32 {
        if self.v6 { 60 } else { 40 }
    }

    /// How our endpoint works.
    pub fn config(&self) -> ConnectionConfig {
        let profile = SenderProfile::named(self.profile).expect("it was drawn from the list of them");
        let receive_buffer =
            Draw(self.seed).one_of("receive buffer", &[64 << 10, 256 << 10, 1 << 20, 6 << 20]);
        ConnectionConfig {
            profile: SenderProfile {
                sack: self.sack.by_endpoint(),
                timestamps: self.timestamps.by_endpoint(),
                window_scaling: self.shift.is_some(),
                ..profile
            },
            receive_buffer: Bytes(receive_buffer),
            autotuning: self.autotuning,
            window_shift: self.shift,
            mss: self.mss,
            mtu: self.mss + self.headers(),
            super_segments: self.super_segments,
            ..ConnectionConfig::default()
        }
    }

    /// The lab.
    pub fn path(&self) -> Path {
        let (up, down) = self.links();
        Path {
            up,
            down,
            // Below that, a link has no IPv6.
            mtu: (self.mss + self.headers()).max(1280),
            sysctl: self.kernel_settings(),
            seed: self.seed.derive("links"),
        }
    }

    /// The kernel chooses its shift by the most memory that a connection may come to have.
    fn kernel_settings(&self) -> BTreeMap<String, String> {
        let flag = |on: bool| if on { "1" } else { "0" }.to_owned();
        let most = 65_535u64 << self.kernel_shift.unwrap_or(7);
        BTreeMap::from([
            ("net.ipv4.tcp_sack".to_owned(), flag(self.sack.by_kernel())),
            ("net.ipv4.tcp_timestamps".to_owned(), flag(self.timestamps.by_kernel())),
            ("net.ipv4.tcp_window_scaling".to_owned(), flag(self.kernel_shift.is_some())),
            ("net.ipv4.tcp_rmem".to_owned(), format!("4096 {} {most}", most.min(131_072))),
        ])
    }

    /// Toward the kernel, and toward our endpoint.
    fn links(&self) -> (LinkConfig, LinkConfig) {
        let bdp = self.rate.bytes_in(2 * self.delay).0;
        let room = bdp.max(20 * u64::from(self.mss + 100));
        let queue = match self.trouble {
            // Nothing is to be lost at all.
            Trouble::Reordering { .. } | Trouble::Duplication { .. } => QueueLimit::Unlimited,
            _ => QueueLimit::Bytes(room),
        };
        let plain =
            LinkConfig { rate: Rate::Fixed(self.rate), delay: self.delay, queue, ..LinkConfig::default() };
        let lossy = |probability| LossModel::Bernoulli { probability };
        // Acknowledgments of the large stream come from the kernel where we send it.
        let we_send = match self.stream {
            Stream::Upload => self.role == Role::Client,
            Stream::Download => self.role == Role::Server,
            Stream::Both => true,
        };
        let with_acks =
            |acks: LinkConfig| if we_send { (plain.clone(), acks) } else { (acks, plain.clone()) };
        match self.trouble {
            Trouble::Nothing => (plain.clone(), plain),
            Trouble::Loss { up, down } => {
                (LinkConfig { loss: lossy(up), ..plain.clone() }, LinkConfig { loss: lossy(down), ..plain })
            }
            Trouble::Reordering { share, by } => {
                let both = LinkConfig { reordering: Some(Reordering { share, by }), ..plain };
                (both.clone(), both)
            }
            Trouble::Duplication { share } => {
                let both = LinkConfig { duplicate: share, ..plain };
                (both.clone(), both)
            }
            Trouble::AckLoss { share } => {
                // Acknowledgments of one stream travel with the data of another where there is one.
                let share = if self.stream == Stream::Both { share.min(MOST_LOSS) } else { share };
                with_acks(LinkConfig { loss: lossy(share), ..plain.clone() })
            }
            Trouble::Aggregation { size, wait } => {
                with_acks(LinkConfig { aggregation: Some(FrameAggregation { size, wait }), ..plain.clone() })
            }
            Trouble::Everything { loss, share } => {
                let wait = Duration::from_millis(8);
                let both = LinkConfig {
                    loss: lossy(loss),
                    duplicate: share,
                    reordering: Some(Reordering { share, by: wait }),
                    aggregation: Some(FrameAggregation { size: 4, wait }),
                    ..plain
                };
                (both.clone(), both)
            }
        }
    }
}

fn trouble(draw: &Draw) -> Trouble {
    // Tenths of a percent.
    let share = |name, high| draw.within(name, 0, high) as f64 / 1000.0;
    match draw.within("trouble", 0, 8) {
        0 => Trouble::Nothing,
        1..=3 => Trouble::Loss { up: share("loss up", 50), down: share("loss down", 50) },
        4 => {
            Trouble::Reordering { share: 0.001 + share("reordered", 49), by: draw.millis("held back", 1, 30) }
        }
        5 => Trouble::Duplication { share: 0.001 + share("duplicated", 99) },
        6 => Trouble::AckLoss { share: 0.01 + share("acks lost", 190) },
        7 => Trouble::Aggregation {
            size: draw.within("bunch", 2, 16) as usize,
            wait: draw.millis("bunch waits", 2, 40),
        },
        _ => Trouble::Everything { loss: share("loss", 50), share: share("share", 30) },
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client => "client",
            Role::Server => "server",
        };
        let shift = |shift: Option<u8>| shift.map_or("off".to_owned(), |shift| shift.to_string());
        write!(
            f,
            "{} as {role} over {}, {} of {}{}, MSS {}, {} one way {}, {:?}, SACK {:?}, timestamps {:?}, \
             window shifts {} and {}, kernel {}",
            self.profile,
            if self.v6 { "IPv6" } else { "IPv4" },
            self.stream.name(),
            Bytes(self.bytes),
            if self.half_close { " and half-close" } else { "" },
            self.mss,
            self.rate,
            format_duration(self.delay),
            self.trouble,
            self.sack,
            self.timestamps,
            shift(self.shift),
            shift(self.kernel_shift),
            self.kernel_control,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Case> {
        (0..500).map(|number| Case::draw(Seed(1), number, &["reno", "cubic"])).collect()
    }

    #[test]
    fn five_hundred_draws_meet_every_value_that_matters() {
        let cases = cases();
        let any = |what: &str, holds: &dyn Fn(&Case) -> bool| assert!(cases.iter().any(holds), "{what}");
        for name in SenderProfile::names() {
            any(name, &|case| case.profile == name);
        }
        for kind in ["none", "loss", "reordering", "duplication", "ACK loss", "ACK aggregation", "everything"]
        {
            any(kind, &|case| case.trouble.kind() == kind);
        }
        for shift in 0..=14 {
            any("shift", &|case| case.shift == Some(shift) && case.scales());
            any("kernel shift", &|case| case.kernel_shift == Some(shift) && case.scales());
        }
        any("smallest segments", &|case| case.mss == 536);
        any("largest segments", &|case| case.mss == 8960);
        for role in [Role::Client, Role::Server] {
            for stream in [Stream::Upload, Stream::Download, Stream::Both] {
                any("half-close", &|case| case.role == role && case.stream == stream && case.half_close);
                any("no half-close", &|case| case.role == role && case.stream == stream && !case.half_close);
            }
        }
        assert!(cases.iter().all(|case| case.trouble.loss() <= MOST_LOSS));
    }

    #[test]
    fn a_case_depends_on_its_number_only() {
        let again = Case::draw(Seed(1), 17, &["reno", "cubic"]);
        assert_eq!(format!("{again:?}"), format!("{:?}", cases()[17]));
        assert_ne!(format!("{again:?}"), format!("{:?}", cases()[18]));
    }

    #[test]
    fn reordering_and_duplication_come_without_loss() {
        for case in cases() {
            let (up, down) = case.links();
            if matches!(case.trouble, Trouble::Reordering { .. } | Trouble::Duplication { .. }) {
                for link in [up, down] {
                    assert_eq!((link.loss, link.queue), (LossModel::None, QueueLimit::Unlimited), "{case}");
                }
            }
        }
    }
}
