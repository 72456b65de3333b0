//! What this project proves, each by trying it out: one [`Trial`] is one module, and one row below.
//!
//! Reading order: `trial` (what all have in common: cases chosen by name, run this many at a time, judged), then the trials:
//! [`conformance`] (what a transparent gateway must not break), `endpoint` (our TCP against the kernel's: interoperability,
//! parity), `agreement` (simulator against kernels), `bench` (forecasts, discovery and set-up against what comes of them),
//! `demo` (what splitting does), `harmless` (what it must not do to anybody).
//!
//! A trial tells a [`Console`] what it finds and prints nothing itself; its [`Judgement`] says
//! whether what it tried out holds.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod agreement;
mod bench;
pub mod conformance;
mod demo;
mod direct_or_split;
mod endpoint;
mod error;
mod harmless;
mod kernel;
mod packets;
mod trial;

pub use error::TrialError;
pub use trial::{Judgement, Trial};

use shorthaul_report::Console;

/// Trials as commands: a row for each, with its name and its options.
macro_rules! trials {
    ($(#[$about:meta])* $group:ident { $($(#[$row:meta])* $name:ident($options:ty)),+ $(,)? }) => {
        $(#[$about])*
        #[derive(clap::Subcommand)]
        #[expect(missing_docs, reason = "a row without words of its own has those of its options")]
        pub enum $group {
            $($(#[$row])* $name($options)),+
        }

        impl Trial for $group {
            fn run(&self, console: &dyn Console) -> Result<Judgement, TrialError> {
                match self {
                    $($group::$name(trial) => trial.run(console)),+
                }
            }
        }
    };
}

trials! {
    /// Every trial.
    Trials {
        Agreement(agreement::Agreement),
        /// Measure how good the program's predictions are
        #[command(subcommand)]
        Bench(Benches),
        Conformance(conformance::Conformance),
        Demo(demo::Demo),
        /// Our TCP as an endpoint in user space, live against the Linux kernel's across emulated links
        #[command(subcommand)]
        Endpoint(Endpoints),
        Harmless(harmless::Harmless),
    }
}

trials! {
    /// Predictions, against what came of them.
    Benches {
        Plan(bench::plan::Plan),
        Discovery(bench::discovery::Discovery),
        Noise(bench::noise::Noise),
        Survive(bench::survive::Survive),
        Outlive(bench::outlive::Outlive),
        Attack(bench::attack::AttackBench),
        Siege(bench::siege::Siege),
        Soak(bench::soak::Soak),
        Scale(bench::scale::Scale),
        Page(bench::page::Page),
        SetUp(bench::set_up::SetUp),
    }
}

trials! {
    /// Our endpoint against the kernel's.
    Endpoints {
        Interop(endpoint::interop::Interop),
        Parity(endpoint::parity::Parity),
    }
}
