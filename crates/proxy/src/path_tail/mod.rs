//! Path tail emulation (D. Bosau, "Path Tail Emulation: An Approach to Enable End-to-End Congestion
//! Control for Split Connections and Performance Enhancing Proxies", §3).
//!
//! The mobile network is hidden behind an emulated link that loses nothing but what overflows its queue.
//! A datagram that fits is taken and acknowledged after the time that it would have taken to queue and
//! to be serialized there; one that does not fit is dropped without a word. So the sender meets what it
//! meets behind any router, and its own congestion control does the rest. The advertised window only
//! says what it is for: how much a receiver can take.

mod config;
mod emulated_host;
mod emulated_link;
mod estimate;
#[cfg(feature = "serde")]
mod written;

pub use config::{PathTailCell, PathTailConfig, TailScope};
pub(crate) use emulated_link::{AckToken, Booking, EmulatedLink, Tail};
#[cfg(feature = "serde")]
pub(crate) use written::prefix;
