//! How fast to send: congestion control as a value that is told about acknowledgments and
//! losses and answers with a window and a pacing rate.
//!
//! Reading order:
//!
//! 1. [`Control`], the boundary, with what it is told: [`AckSample`], [`LossSample`] and
//!    [`CongestionEvent`];
//! 2. [`Algorithm`] and [`ControlParams`], which build one;
//! 3. the algorithms that answer loss: [`Reno`] (RFC 5681), [`Cubic`] (RFC 9438, with HyStart++,
//!    RFC 9406), [`WestwoodPlus`] and [`Hybla`]; [`Vegas`], which answers delay; [Illinois](Algorithm::Illinois), which answers loss by as
//!    much as the delay says; [`Bbr`] and [`Bbr3`], which measure bandwidth and delay; and [`Fixed`];
//! 4. what a sender measures and keeps beside it: [`RttEstimator`] (RFC 6298),
//!    [`DeliveryRate`] (draft-cheng-iccrg-delivery-rate-estimation), [`Pacer`], and how late it is woken ([`Lateness`]);
//! 5. what a path carries, from deliveries alone: [`PathEstimate`], and a window that follows
//!    it: [`AutoClamp`]; and how much of a round trip was a queue on the way here: [`HostClock`].
//!
//! An algorithm never sees a packet, a buffer or a clock. All windows are bytes.
//!
//! ```
//! use core::time::Duration;
//! use shorthaul_congestion::{AckSample, Algorithm, ControlParams};
//! use shorthaul_types::Time;
//!
//! let algorithm: Algorithm = "cubic".parse().unwrap();
//! let mut control = algorithm.build(ControlParams::new(1460, Time::ZERO));
//! assert_eq!(control.window(), 14_600);
//!
//! // The first segment of a full window is acknowledged, and slow start adds as much.
//! control.on_ack(&AckSample {
//!     now: Time::from_millis(50),
//!     delivered: 1460,
//!     newly_acked: 1460,
//!     in_flight_before: 14_600,
//!     in_flight: 13_140,
//!     rtt: Some(Duration::from_millis(50)),
//!     waited: None,
//!     reported: None,
//!     rate: None,
//!     cwnd_limited: true,
//!     in_recovery: false,
//! });
//! assert_eq!(control.window(), 16_060);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod ack_aggregation;
mod algorithm;
mod arrival_delay;
mod auto_clamp;
mod congestion_avoidance;
mod control;
mod delivery_rate;
mod draws;
mod full_pipe;
mod hystart;
mod lateness;
mod min_filter;
mod pacer;
mod path_estimate;
mod rate_variation;
mod recent_max;
mod rounds;
mod rto_notation;
mod rtt;
mod snapshot;
mod volume;
mod window;

pub use algorithm::{
    Algorithm, Bbr, Bbr3, Cubic, Fixed, Hybla, ParseAlgorithmError, Reno, Vegas, WestwoodPlus,
};
pub use arrival_delay::{ArrivalDelay, HostClock, Trip, Waited, mean_toward};
pub use auto_clamp::{AutoClamp, AutoClampConfig, EACH, Others};
pub use control::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams, KnownPath, LossSample};
pub use delivery_rate::{DeliveryRate, RateSample, SendState};
pub use lateness::Lateness;
pub use min_filter::MinFilter;
pub use pacer::Pacer;
pub use path_estimate::{Delivery, PathEstimate};
pub use rto_notation::UnknownTimer;
pub use rtt::{Doubling, KnownRtt, MIN_RTT_WINDOW, RtoFloor, RttConfig, RttEstimator};
