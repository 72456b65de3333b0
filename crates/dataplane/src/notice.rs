//! What a running gateway has to say.
use crate::bandwidth::{BandwidthReport, ParseBandwidthError};
use crate::preflight::LargerMtu;
use crate::priority::Granted;
use shorthaul_os::confine::Confined;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a running gateway has to say.
#[derive(Debug)]
pub enum Notice {
    /// How promptly it is run.
    Priority(Granted),
    /// What it has given up.
    Confined(Confined),
    /// Metrics and the page are served.
    Pages {
        /// Where.
        address: SocketAddr,
    },
    /// An MTU that was written is not taken.
    LargerMtu(LargerMtu),
    /// Packets are intercepted from now on.
    Ready,
    /// It was asked to end, and delivers first what it holds of this many flows.
    Draining {
        /// The flows.
        held_flows: usize,
        /// For this long at most.
        at_most: Duration,
    },
    /// The time for that is over: this many flows were reset at both ends.
    Abandoned {
        /// The flows.
        held_flows: usize,
    },
    /// The access side carries another bandwidth, from a file or the control socket.
    Bandwidth {
        /// What was said, or why it was not understood.
        said: Result<BandwidthReport, ParseBandwidthError>,
        /// Whether there is an emulated link that it is about.
        is_heeded: bool,
    },
    /// The file of bandwidths cannot be read. It is read as soon as it can be.
    NoBandwidthFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It was asked to read its configuration again, and goes on with that.
    Reread {
        /// The keys that changed.
        changed: Vec<String>,
        /// Those that were written differently and cannot change while it runs.
        fixed: Vec<String>,
    },
    /// It was asked to read its configuration again, and goes on with the one that it had.
    NotReread {
        /// Why.
        why: String,
    },
    /// Another process has taken over; this one ends.
    TakenOver,
    /// Another process wanted to take over, and did not.
    NotTakenOver {
        /// Why.
        error: io::Error,
    },
    /// The kernel does not lead packets to their workers: they do that among themselves.
    SortedHere {
        /// Why.
        why: String,
    },
    /// Nobody takes its routing rules back when it is gone.
    NoKeeper {
        /// Why.
        why: String,
    },
    /// Routing rules lead packets here, for programs at the access interfaces cannot.
    ByRules {
        /// Why.
        why: String,
    },
    /// Interfaces that packets were taken at are not there any more, or are others of the same names.
    Vanished {
        /// All of them.
        names: Vec<String>,
    },
    /// Interfaces are no ports of the bridge any more.
    Apart {
        /// The bridge.
        bridge: String,
        /// All of them.
        names: Vec<String>,
    },
    /// Both interfaces are ports of the bridge again, and were the same all the while.
    Joined {
        /// The bridge.
        bridge: String,
    },
    /// The headers of frames do not outlive the process.
    HeadersNotKept {
        /// Why.
        why: io::Error,
    },
    /// What a gateway before has left is not understood.
    OtherVersion {
        /// Where it lies.
        file: PathBuf,
    },
    /// The run directory has no room: a crash from now on loses bytes.
    NotKept,
    /// Nothing more is recorded; the gateway goes on.
    RecordingEnded {
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Priority(granted) => granted.fmt(f),
            Notice::Confined(Confined { capabilities, files, calls, .. }) => {
                let kept: Vec<&str> =
                    [(capabilities, "capabilities"), (files, "files"), (calls, "system calls")]
                        .into_iter()
                        .filter_map(|(given, what)| (!given).then_some(what))
                        .collect();
                match kept.is_empty() {
                    true => f.write_str("confined: it has given up capabilities, files and system calls"),
                    false => write!(f, "not confined: it still has all {}", kept.join(", ")),
                }
            }
            Notice::Pages { address } => {
                write!(f, "page: http://{address}/, metrics: http://{address}/metrics")
            }
            Notice::LargerMtu(larger) => write!(f, "{larger}"),
            Notice::Ready => f.write_str("ready"),
            Notice::Draining { held_flows, .. } => {
                write!(f, "ending: delivering what is held of {held_flows} flows; once more to end at once")
            }
            Notice::Abandoned { held_flows } => {
                write!(f, "the drain timeout is over: {held_flows} flows with undelivered bytes were reset")
            }
            Notice::Bandwidth { said: Ok(report), is_heeded: true } => write!(f, "bandwidth: {report}"),
            Notice::Bandwidth { said: Ok(report), is_heeded: false } => {
                write!(f, "bandwidth: nothing here is `{report}` about; see `senders` in the configuration")
            }
            Notice::NoBandwidthFile { path, error } => write!(
                f,
                "bandwidth: `{}` cannot be read ({error}): the bandwidth is what it was until it can",
                path.display()
            ),
            Notice::Bandwidth { said: Err(error), .. } => write!(f, "bandwidth: {error}"),
            Notice::Reread { changed, fixed } => {
                let changed = if changed.is_empty() { "nothing".into() } else { changed.join(", ") };
                write!(f, "configuration read again; changed: {changed}")?;
                if !fixed.is_empty() {
                    write!(f, "; as before until the gateway is started again: {}", fixed.join(", "))?;
                }
                Ok(())
            }
            Notice::NotReread { why } => {
                write!(f, "configuration read again and not taken, the gateway goes on as it was: {why}")
            }
            Notice::TakenOver => f.write_str("taken over: another process goes on with everything"),
            Notice::NotTakenOver { error } => {
                write!(f, "another process wanted to take over and did not, this one goes on: {error}")
            }
            Notice::SortedHere { why } => {
                write!(
                    f,
                    "the kernel leads packets to workers by what it learns of flows, not by hosts: those that come wrong are handed on, which \
                     costs a copy ({why}; it takes the capability CAP_BPF, outside of user namespaces)"
                )
            }
            Notice::NoKeeper { why } => {
                write!(f, "its routing rules stay if it is killed, and lead nowhere then: {why}")
            }
            Notice::HeadersNotKept { why } => write!(
                f,
                "the headers of frames go with this process ({why}): after a crash, what is held for a connection waits until one of its ends \
                 says something; `mount -t bpf bpf /sys/fs/bpf`, or write `custody = false`"
            ),
            Notice::ByRules { why } => write!(
                f,
                "packets are led here by routing rules ({why}): address translation and rules of a firewall by the names of interfaces may \
                 not go together with that; `shorthaul doctor` looks for them"
            ),
            Notice::Vanished { names } => write!(
                f,
                "{} gone, and was made again perhaps: connections there pass without the gateway until it is started again",
                match names.as_slice() {
                    [name] => format!("`{name}` is"),
                    names => format!("`{}` are", names.join("`, `")),
                }
            ),
            Notice::Apart { bridge, names } => write!(
                f,
                "{} no part of the bridge `{bridge}` any more: what it joined is apart, and nothing passes between. When there is an interface of \
                 that name again the gateway ends, and the next one goes on with the connections",
                match names.as_slice() {
                    [name] => format!("`{name}` is"),
                    names => format!("`{}` are", names.join("`, `")),
                }
            ),
            Notice::Joined { bridge } => {
                write!(f, "both interfaces are parts of the bridge `{bridge}` again, and all passes between")
            }
            Notice::OtherVersion { file } => write!(
                f,
                "`{}` was written by another version of this program: nothing is known of the connections in it, and those of which bytes were held \
                 are lost",
                file.display()
            ),
            Notice::NotKept => f.write_str(
                "the run directory has no room for what is held: were this process killed now, connections would lose bytes and be reset",
            ),
            Notice::RecordingEnded { error } => {
                write!(f, "recording ended, the gateway goes on without: {error}")
            }
        }
    }
}

impl Notice {
    /// What people are shown of it later, as an event.
    pub(crate) fn event(&self) -> Option<String> {
        match self {
            Notice::Priority(_) | Notice::Confined(_) | Notice::Pages { .. } => None,
            other => Some(other.to_string()),
        }
    }
}
