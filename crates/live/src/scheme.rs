//! A scheme in the kernel's terms.
use std::collections::BTreeMap;

use crate::error::LiveError;
use shorthaul_congestion::{Algorithm, RttConfig};
use shorthaul_scenario::{Scheme, Stack};
use shorthaul_tcp::{Discrimination, LossDetection, Profile};

/// How a kernel's TCP is told to work like a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelScheme {
    /// The congestion control by the kernel's name.
    pub congestion: &'static str,
    /// Whether bursts are spread over the round trip.
    pub paced: bool,
    /// What is set for the whole host.
    pub settings: BTreeMap<String, String>,
    /// The initial window of the whole host, in segments.
    pub initial_window: u32,
}

/// The congestion controls of this machine's kernel.
pub fn available() -> Result<Vec<String>, LiveError> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(FILE).map_err(LiveError::io(format!("cannot read {FILE}")))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

impl KernelScheme {
    /// # Errors
    /// What of the scheme a kernel with these congestion controls does not have, in sentences.
    pub fn of(scheme: &Scheme, available: &[String]) -> Result<KernelScheme, Vec<String>> {
        let profile = Profile::named(&scheme.profile).map_err(|error| vec![error.to_string()])?;
        let mut lacking = Vec::new();
        if scheme.stack == Some(Stack::Own) {
            lacking.push("only hosts, and both hosts of a flow, can have `stack = \"own\"`".to_owned());
        }
        if profile.recovery != LossDetection::RACK_TLP {
            lacking.push(format!(
                "there is no `{}` in Linux, which always repairs losses with selective acknowledgments and RACK; \
                 `sack-reno` exists in both engines",
                profile.name
            ));
        }
        let control = scheme.congestion.unwrap_or(profile.control);
        let congestion = match control {
            Algorithm::Bbr3 => {
                lacking.push("the kernel's `bbr` is version 1, and there is no bbr3: write `bbr`".into());
                ""
            }
            Algorithm::Fixed(_) => {
                lacking.push("no congestion control of Linux keeps a fixed window".into());
                ""
            }
            named => named.name(),
        };
        if !congestion.is_empty() && !available.iter().any(|name| name == congestion) {
            let available = available.join(", ");
            lacking.push(format!(
                "this kernel has no congestion control `{congestion}` (it has {available}); try `modprobe tcp_{congestion}`"
            ));
        }
        if scheme.arbiter.unwrap_or(profile.arbiter) != Discrimination::EveryLoss {
            lacking.push("to Linux every loss is congestion: leave `arbiter` out".into());
        }
        if scheme.ack.is_some() {
            lacking.push("Linux itself decides when to acknowledge: leave `ack` out".into());
        }
        if scheme.rto.is_some_and(|rto| rto != RttConfig::LINUX) {
            lacking.push("the kernel's retransmission timer is \"linux\" and no other".into());
        }
        if scheme.mss.is_some() {
            lacking.push("segments are as long as the links' `mtu` allows: leave `mss` out".into());
        }
        if !lacking.is_empty() {
            return Err(lacking);
        }
        // A kernel's buffer holds about half of its size in payload; the rest is what it takes to keep it.
        let buffer = |size: u64, default: u64| {
            let most = size.saturating_mul(2).max(4096);
            format!("4096 {} {most}", default.min(most))
        };
        let switch = |on: bool| String::from(if on { "1" } else { "0" });
        let settings = [
            ("tcp_sack", switch(scheme.sack.unwrap_or(profile.sack))),
            ("tcp_timestamps", switch(scheme.timestamps.unwrap_or(profile.timestamps))),
            ("tcp_window_scaling", switch(scheme.window_scaling.unwrap_or(profile.window_scaling))),
            ("tcp_ecn", switch(scheme.ecn.unwrap_or(profile.ecn))),
            // 2 is the kernel's own value for "on"
            ("tcp_frto", String::from(if scheme.f_rto.unwrap_or(profile.f_rto) { "2" } else { "0" })),
            ("tcp_slow_start_after_idle", switch(scheme.idle_restart.unwrap_or(profile.idle_restart))),
            ("tcp_wmem", buffer(scheme.send_buffer.0, 16_384)),
            ("tcp_rmem", buffer(scheme.receive_buffer.0, 131_072)),
        ];
        Ok(KernelScheme {
            congestion,
            paced: scheme.pacing.unwrap_or(profile.pacing),
            initial_window: scheme.initial_window.unwrap_or(profile.initial_window),
            settings: settings.map(|(key, value)| (format!("net.ipv4.{key}"), value)).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::Bytes;

    fn kernel() -> Vec<String> {
        ["reno", "cubic"].map(str::to_owned).to_vec()
    }

    fn profile(name: &str) -> Scheme {
        Scheme { profile: name.into(), ..Scheme::default() }
    }

    #[test]
    fn a_profile_is_set_in_the_kernels_words() {
        let scheme = Scheme {
            pacing: Some(false),
            sack: Some(false),
            f_rto: Some(false),
            initial_window: Some(2),
            receive_buffer: Bytes(50_000),
            ..profile("sack-reno")
        };
        let made = KernelScheme::of(&scheme, &kernel()).unwrap();
        assert_eq!((made.congestion, made.paced, made.initial_window), ("reno", false, 2));
        assert_eq!(made.settings["net.ipv4.tcp_sack"], "0");
        assert_eq!(made.settings["net.ipv4.tcp_timestamps"], "1");
        assert_eq!(made.settings["net.ipv4.tcp_frto"], "0");
        assert_eq!(made.settings["net.ipv4.tcp_rmem"], "4096 100000 100000");
        assert!(KernelScheme::of(&profile("cubic"), &kernel()).unwrap().paced);
    }

    #[test]
    fn what_linux_lacks_is_said_all_at_once() {
        let scheme = Scheme { mss: Some(1000), rto: Some(RttConfig::RFC6298), ..profile("newreno") };
        let lacking = KernelScheme::of(&scheme, &kernel()).unwrap_err().join("\n");
        for word in ["`newreno`", "`sack-reno`", "`mss`", "retransmission timer"] {
            assert!(lacking.contains(word), "{word}: {lacking}");
        }
        let lacking = KernelScheme::of(&profile("vegas"), &kernel()).unwrap_err().join("\n");
        assert!(lacking.contains("`vegas`") && lacking.contains("reno, cubic"), "{lacking}");
    }
}
