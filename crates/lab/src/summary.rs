//! A link in one line, for people.
use shorthaul_link::{Arq, LinkConfig, LossModel, OutageTimes, QueueLimit, Rate};
use shorthaul_types::{Bytes, format_duration};

/// What a link does to packets, in one line; "nothing" if it does not do anything.
pub fn link_in_words(config: &LinkConfig) -> String {
    // Without `..`: a summary that forgot a part would say "nothing" of it.
    let LinkConfig {
        rate,
        overhead,
        queue,
        delay,
        jitter,
        route_changes,
        loss,
        duplicate,
        arq,
        outages,
        reordering,
        aggregation,
        drx,
    } = config;
    let mut parts = Vec::new();
    match rate {
        Rate::Unlimited => {}
        Rate::Fixed(rate) => parts.push(rate.to_string()),
        Rate::Schedule { phases, .. } => parts.push(format!("a rate schedule of {} phases", phases.len())),
        Rate::Trace(trace) => parts.push(format!("a trace of {} on average", trace.mean_rate())),
    }
    if *overhead != Bytes(0) {
        parts.push(format!("overhead {overhead}"));
    }
    if !delay.is_zero() {
        parts.push(format!("delay {}", format_duration(*delay)));
    }
    if let Some(jitter) = jitter {
        let mean = format_duration(jitter.distribution.mean());
        parts.push(format!(
            "jitter {mean} on average{}",
            if jitter.keeps_order { "" } else { ", reordering" }
        ));
    }
    if let Some(route) = route_changes {
        let (mean, every) = (format_duration(route.delay.mean()), format_duration(route.every));
        parts.push(format!("another path every {every}, with {mean} more on average"));
    }
    match *queue {
        QueueLimit::Unlimited => {}
        QueueLimit::Packets(packets) => parts.push(format!("queue {packets} packets")),
        QueueLimit::Bytes(bytes) => parts.push(format!("queue {}", Bytes(bytes))),
    }
    if *loss != LossModel::None {
        parts.push(loss.to_string());
    }
    if *duplicate > 0.0 {
        parts.push(format!("duplicates {}", percent(*duplicate)));
    }
    if let Some(reordering) = reordering {
        parts.push(format!("holds {} back by {}", percent(reordering.share), format_duration(reordering.by)));
    }
    match arq {
        None => {}
        Some(Arq::Delay { distribution, share }) => {
            parts.push(format!(
                "ARQ delay of {} on average for {}",
                format_duration(distribution.mean()),
                percent(*share)
            ));
        }
        Some(Arq::RadioBlocks { .. }) => parts.push("radio block ARQ".into()),
        Some(Arq::SelectiveRepeat { .. }) => parts.push("ARQ with selective repeat".into()),
    }
    if let Some(aggregation) = aggregation {
        parts.push(format!("packets in aggregates of {}", aggregation.size));
    }
    if let Some(drx) = drx {
        parts.push(format!("DRX wake-up of {} on average", format_duration(drx.penalty.mean())));
    }
    if outages.when != OutageTimes::Never {
        parts.push("outages".into());
    }
    if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_link::RouteChanges;
    use std::time::Duration;

    #[test]
    fn every_part_of_a_link_is_in_its_summary() {
        assert_eq!(link_in_words(&LinkConfig::default()), "nothing");
        let overhead = LinkConfig { overhead: Bytes(38), ..LinkConfig::default() };
        assert_eq!(link_in_words(&overhead), "overhead 38 B");
        let delay = "0 ms to 20 ms".parse().unwrap();
        let route_changes = Some(RouteChanges { every: Duration::from_secs(15), delay });
        let changing = LinkConfig { route_changes, ..LinkConfig::default() };
        assert_eq!(link_in_words(&changing), "another path every 15 s, with 10 ms more on average");
    }
}
