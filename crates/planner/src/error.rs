/// Why there is no plan: what was wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A quantity for which the models are not defined.
    #[error("a {quantity} of {found} cannot be planned with; give {wanted}")]
    OutOfRange {
        /// What it is.
        quantity: &'static str,
        /// What was given.
        found: String,
        /// What may be given.
        wanted: &'static str,
    },
    /// A model that does not exist.
    #[error("there is no model `{found}`; there are {names}")]
    NoModel {
        /// What was asked for.
        found: String,
        /// What could have been.
        names: String,
    },
    /// A path without legs, or with a wrong number of relays.
    #[error("a path of {legs} legs needs {} relays between them, not {relays}", .legs.saturating_sub(1))]
    Shape {
        /// How many legs there are.
        legs: usize,
        /// How many relays were given.
        relays: usize,
    },
    /// A map of paths that cannot be used.
    #[error("the map of paths: {0}")]
    Map(String),
    /// A flow of a scenario that has no forecast.
    #[error("flow `{flow}`: {problem}")]
    Flow {
        /// The flow.
        flow: String,
        /// Why not.
        problem: String,
    },
    /// A scheme names a profile that there is not.
    #[error("{0}")]
    Profile(String),
    /// A site that does not exist.
    #[error("there is no site number {site}: the network has {sites}")]
    NoSite {
        /// The number asked for.
        site: usize,
        /// How many there are.
        sites: usize,
    },
    /// A leg from a site to itself.
    #[error("a leg leads from site number {0} to itself; give two different sites")]
    Loop(usize),
    /// No chain of legs within the limits reaches the destination.
    #[error(
        "no path leads from source to destination within the limits; allow more relays, latency, price or memory, or measure more legs"
    )]
    NoPath,
}
