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
pub use trial::{Judgement, Trial, Tried};

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

            fn wants_json(&self) -> bool {
                match self {
                    $($group::$name(trial) => trial.wants_json()),+
                }
            }
        }
    };
}

trials! {
    /// Every trial.
    Trials {
        Agreement(Tried<agreement::Agreement>),
        /// Measure how good the program's predictions are
        #[command(subcommand)]
        Bench(Benches),
        Conformance(Tried<conformance::Conformance>),
        Demo(Tried<demo::Demo>),
        /// Our TCP as an endpoint in user space, live against the Linux kernel's across emulated links
        #[command(subcommand)]
        Endpoint(Endpoints),
        Harmless(Tried<harmless::Harmless>),
    }
}

trials! {
    /// Predictions, against what came of them.
    Benches {
        Plan(Tried<bench::plan::Plan>),
        Discovery(Tried<bench::discovery::Discovery>),
        Noise(Tried<bench::noise::Noise>),
        Survive(Tried<bench::survive::Survive>),
        Outlive(Tried<bench::outlive::Outlive>),
        Attack(Tried<bench::attack::AttackBench>),
        Service(Tried<bench::service::Service>),
        Siege(Tried<bench::siege::Siege>),
        Ways(Tried<bench::ways::Ways>),
        Share(Tried<bench::share::Share>),
        Network(Tried<bench::network::Network>),
        NetworkCosts(Tried<bench::network::costs::NetworkCosts>),
        Soak(Tried<bench::soak::Soak>),
        Scale(Tried<bench::scale::Scale>),
        Page(Tried<bench::page::Page>),
        SetUp(Tried<bench::set_up::SetUp>),
    }
}

trials! {
    /// Our endpoint against the kernel's.
    Endpoints {
        Interop(Tried<endpoint::interop::Interop>),
        Parity(Tried<endpoint::parity::Parity>),
    }
}
