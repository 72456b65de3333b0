use shorthaul_types::Time;
use std::io;

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A node is asked for as a host, and is none.
    #[error("`{name}` is no host")]
    NoHost {
        /// The node.
        name: String,
    },
    /// There is no link of this name to record.
    #[error("there is no link `{name}` to record; there are: {}", known.join(", "))]
    NoLink {
        /// The name.
        name: String,
        /// The links that there are.
        known: Vec<String>,
    },
    /// A recording could not be written.
    #[error("the recording cannot be written: {0}")]
    Recording(io::Error),
    /// Somebody wants to be called again and again at one point in time: a mistake in this program.
    #[error(
        "the run does not get beyond {at} s: {who} wants to be called again and again; this is a mistake in shorthaul, please report it with the scenario and the seed"
    )]
    Stuck {
        /// When.
        at: Time,
        /// Who.
        who: String,
    },
}
