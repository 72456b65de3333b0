//! A scheme in the kernel's terms.
use std::collections::BTreeMap;

use crate::error::LiveError;
use shorthaul_congestion::Algorithm;
use shorthaul_scenario::{Scheme, Stack};
use shorthaul_tcp::SenderProfile;

/// How a kernel's TCP is told to work like a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelScheme {
    /// The congestion control by the kernel's name.
    pub congestion: &'static str,
    /// Whether bursts are spread over the round trip.
    pub paced: bool,
    /// Whether small segments leave at once.
    pub nodelay: bool,
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
        // Without `..`: what a kernel is not asked about would be dropped.
        let SenderProfile {
            name,
            congestion,
            loss_detection,
            discriminator,
            f_rto,
            undo,
            persist_on_shrink,
            rttm,
            black_hole_probing,
            pacing,
            ack,
            rate_report,
            rto,
            sack,
            timestamps,
            window_scaling,
            ecn,
            initial_window,
            initial_ssthresh,
            window_validation,
            idle_restart,
            start,
            nagle,
        } = scheme.profile;
        let mut lacking = Vec::new();
        if scheme.stack == Some(Stack::Own) {
            lacking.push("only hosts, and both hosts of a flow, can have `stack = \"own\"`".to_owned());
        }
        let linux = SenderProfile::default();
        if loss_detection != linux.loss_detection {
            lacking.push(format!(
                "the profile `{name}` has `loss_detection = \"{loss_detection}\"`, but Linux always finds losses by selective \
                 acknowledgments and RACK; `sack-reno` exists in both engines"
            ));
        } else {
            // A profile of other times has these, too; one reason is enough there.
            if ack != linux.ack {
                lacking.push(format!(
                    "Linux itself decides when to acknowledge: leave `ack` out, or write `ack = \"{}\"`",
                    linux.ack
                ));
            }
            if rto != linux.rto {
                lacking.push(format!(
                    "the kernel's retransmission timer is \"{}\" and no other: leave `rto` out, or write that",
                    linux.rto
                ));
            }
        }
        let control = match congestion {
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
        if !control.is_empty() && !available.iter().any(|name| name == control) {
            let available = available.join(", ");
            lacking.push(format!(
                "this kernel has no congestion control `{control}` (it has {available}); try `modprobe tcp_{control}`"
            ));
        }
        if discriminator != linux.discriminator {
            lacking.push("to Linux every loss is congestion: leave `discriminator` out".into());
        }
        if let Some(segments) = initial_ssthresh {
            lacking.push(format!(
                "Linux's slow start begins without a threshold: leave `initial_ssthresh = {segments}` out"
            ));
        }
        if !window_validation {
            lacking.push("Linux enlarges no window that is not filled: leave `window_validation` out".into());
        }
        if !undo {
            lacking
                .push("Linux takes back what turns out to be no answer to a loss: leave `undo` out".into());
        }
        if persist_on_shrink {
            lacking.push(
                "Linux retransmits into a window that has shrunk: leave `persist_on_shrink` out, or have `stack = \"own\"` at both hosts"
                    .into(),
            );
        }
        if rttm {
            lacking.push(
                "Linux measures round trips by its own clock first: leave `rttm` out, or have `stack = \"own\"` at both hosts"
                    .into(),
            );
        }
        if start != linux.start {
            lacking.push(format!(
                "Linux begins with the initial window: leave `start = \"{start}\"` out, or have `stack = \"own\"` at both hosts"
            ));
        }
        if rate_report != linux.rate_report {
            lacking.push(format!("Linux reports no rates: leave `rate_report = \"{rate_report}\"` out, or have `stack = \"own\"` at both hosts"));
        }
        if scheme.first_window.is_some() {
            lacking.push("what a kernel offers first is its own affair: leave `first_window` out".into());
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
            ("tcp_sack", switch(sack)),
            ("tcp_timestamps", switch(timestamps)),
            ("tcp_window_scaling", switch(window_scaling)),
            ("tcp_ecn", switch(ecn)),
            // 2 is the kernel's own value for "on"
            ("tcp_frto", String::from(if f_rto { "2" } else { "0" })),
            ("tcp_slow_start_after_idle", switch(idle_restart)),
            ("tcp_mtu_probing", switch(black_hole_probing)),
            ("tcp_wmem", buffer(scheme.send_buffer.0, 16_384)),
            ("tcp_rmem", buffer(scheme.receive_buffer.0, 131_072)),
        ];
        Ok(KernelScheme {
            congestion: control,
            paced: pacing,
            nodelay: !nagle,
            initial_window,
            settings: settings.map(|(key, value)| (format!("net.ipv4.{key}"), value)).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_congestion::RttConfig;
    use shorthaul_tcp::{AckPolicy, Discrimination, LossDetection, ProfilePatch};
    use shorthaul_types::Bytes;
    use std::time::Duration;

    fn kernel() -> Vec<String> {
        ["reno", "cubic"].map(str::to_owned).to_vec()
    }

    fn scheme(name: &str, patch: ProfilePatch) -> Scheme {
        Scheme { profile: SenderProfile::named(name).unwrap().patched(&patch), ..Scheme::default() }
    }

    fn profile(name: &str) -> Scheme {
        scheme(name, ProfilePatch::default())
    }

    #[test]
    fn a_profile_is_set_in_the_kernels_words() {
        let patch = ProfilePatch {
            pacing: Some(false),
            sack: Some(false),
            f_rto: Some(false),
            black_hole_probing: Some(false),
            nagle: Some(true),
            initial_window: Some(2),
            ..ProfilePatch::default()
        };
        let made = Scheme { receive_buffer: Bytes(50_000), ..scheme("sack-reno", patch) };
        let made = KernelScheme::of(&made, &kernel()).unwrap();
        assert_eq!((made.congestion, made.paced, made.initial_window), ("reno", false, 2));
        assert!(!made.nodelay);
        assert_eq!(made.settings["net.ipv4.tcp_sack"], "0");
        assert_eq!(made.settings["net.ipv4.tcp_timestamps"], "1");
        assert_eq!(made.settings["net.ipv4.tcp_frto"], "0");
        assert_eq!(made.settings["net.ipv4.tcp_mtu_probing"], "0");
        assert_eq!(made.settings["net.ipv4.tcp_rmem"], "4096 100000 100000");
        let made = KernelScheme::of(&profile("cubic"), &kernel()).unwrap();
        assert!(made.paced && made.nodelay);
        assert_eq!(made.settings["net.ipv4.tcp_mtu_probing"], "1");
    }

    #[test]
    fn what_linux_lacks_is_said_all_at_once() {
        let lacking = |scheme: &Scheme| KernelScheme::of(scheme, &kernel()).unwrap_err().join("\n");
        assert!(
            lacking(&Scheme { first_window: Some(Bytes(5392)), ..profile("newreno") })
                .contains("first_window")
        );
        let said = lacking(&Scheme { mss: Some(1000), ..profile("newreno") });
        for word in ["`newreno`", "`sack-reno`", "`mss`"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(!said.contains("`ack`"), "what belongs to such a profile is not listed: {said}");
        let said = lacking(&profile("vegas"));
        assert!(said.contains("`vegas`") && said.contains("reno, cubic"), "{said}");
    }

    #[test]
    fn every_part_that_no_kernel_has_is_refused_by_its_key() {
        let ack = Some(AckPolicy::Immediate);
        let tahoe = Some(LossDetection::TAHOE);
        let discriminator = Some(Discrimination::RENO_PROBING);
        let rto = Some(RttConfig::at_least(Duration::from_secs(2)));
        for (key, patch) in [
            ("`ack`", ProfilePatch { ack, ..ProfilePatch::default() }),
            ("`loss_detection =", ProfilePatch { loss_detection: tahoe, ..ProfilePatch::default() }),
            ("`discriminator`", ProfilePatch { discriminator, ..ProfilePatch::default() }),
            ("`rto`", ProfilePatch { rto, ..ProfilePatch::default() }),
        ] {
            let lacking = KernelScheme::of(&scheme("cubic", patch), &kernel()).unwrap_err();
            assert!(lacking.len() == 1 && lacking[0].contains(key), "{key}: {lacking:?}");
        }
        // Written out, what Linux does is no reason.
        let linux = SenderProfile::default();
        let patch = ProfilePatch { ack: Some(linux.ack), rto: Some(linux.rto), ..ProfilePatch::default() };
        assert!(KernelScheme::of(&scheme("cubic", patch), &kernel()).is_ok());
    }
}
