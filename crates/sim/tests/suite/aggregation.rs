//! What the connections of one mobile host get that share a window which finds its own size.
use crate::outcomes::run;
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Series, Study};
use shorthaul_sim::{Recording, simulate};

/// `count` downloads of 256 kB at once over a link of 100 Mbit/s and `delay` to a phone that keeps the acknowledgment of a
/// single segment for `keeps`.
fn downloads(count: u32, delay: &str, keeps: &str) -> Outcome {
    run(&format!(
        "duration = \"300 s\"\n[hosts.server]\nscheme = \"cubic\"\n\
         [hosts.phone]\nscheme = {{ profile = \"cubic\", ack = \"delayed {keeps}\" }}\n\
         [gateways.proxy]\naccess = \"phone\"\nsplit = true\naggregate = \"auto\"\n\
         [[links]]\nbetween = [\"phone\", \"proxy\"]\nlink = {{ rate = \"100 Mbit/s\", delay = \"{delay}\" }}\n\
         [[links]]\nbetween = [\"proxy\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
         [[flows]]\nname = \"file\"\nfrom = \"server\"\nto = \"phone\"\ncount = {count}\nbulk = \"256 kB\"\n\
         [measure]\nmetrics = [\"completion\", \"goodput\"]\n"
    ))
}

/// On a short path the product is less than a segment for each of many connections. If each had only one on its way, all
/// would wait for acknowledgments that are kept back, and the rate of that would be taken for the link's.
#[test]
fn many_connections_over_a_short_path_do_not_wait_for_delayed_acknowledgments() {
    // 25 · 256 kB take 0.54 s at 100 Mbit/s; with four segments each 40 or 200 ms, it would be 44 or 220 s.
    for (keeps, most) in [("40 ms", 3.0), ("200 ms", 8.0)] {
        let outcome = downloads(25, "50 us", keeps);
        assert!(outcome.ended_at < most, "{keeps}: {} s", outcome.ended_at);
    }
}

/// 600 kB over GPRS, of which an outage of 15 s takes all that is on its way (AGG Fig. 12), with this gateway: when they are there.
fn over_an_outage(gateway: &str) -> f64 {
    let host = "profile = \"sack-reno\", receive_buffer = \"64 kB\"";
    let outcome = run(&format!(
        "duration = \"600 s\"\nseed = 1\n[hosts.server]\nscheme = {{ {host}, pacing = false }}\n\
         [hosts.phone]\nscheme = {{ {host}, ack = \"delayed 200 ms\", window_scaling = false }}\n\
         [gateways.proxy]\naccess = \"phone\"\n{gateway}\n\
         [[links]]\nbetween = [\"phone\", \"proxy\"]\nmtu = 1452\n\
         link = {{ preset = \"gprs\", outages = {{ list = [{{ at = \"90 s\", lasts = \"15 s\" }}], hold = \"0 s\" }} }}\n\
         [[links]]\nbetween = [\"proxy\", \"server\"]\nmtu = 1452\nlink = {{ rate = \"100 Mbit/s\", delay = \"10 ms\" }}\n\
         [[flows]]\nname = \"file\"\nfrom = \"server\"\nto = \"phone\"\nopened_by = \"phone\"\nbulk = \"600 kB\"\n\
         [measure]\nmetrics = [\"completion\"]\n"
    ));
    outcome.ended_at
}

/// What an outage has taken is no sign of a full queue: the window that was found for the link stays what it is.
#[test]
fn an_outage_that_loses_all_leaves_the_window_that_was_found() {
    let (direct, auto) =
        (over_an_outage("split = false"), over_an_outage("split = true\naggregate = \"auto\""));
    assert!(auto < 1.05 * direct, "{auto} s; directly {direct} s");
}

/// Where the uplink alone was away, and has lost the acknowledgments of a whole window, all has arrived: a tail loss probe asks for them long before
/// the timer, which remembers what the queue was. (Without it no data came for 18 to 39.5 s with these seeds, after an outage of 7 s.)
#[test]
fn acknowledgments_that_an_outage_of_the_uplink_has_taken_are_asked_for() {
    let text = include_str!("../../../../papers/aggregation/fig12-uplink.toml");
    let study = Study::from_toml("fig12-uplink.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let auto = study.points().iter().find(|point| point.case.as_deref() == Some("auto")).expect("a case");
    let scenario = study.scenario(auto).expect("it was checked");
    for seed in [26, 223, 247, 252, 491] {
        let outcome =
            simulate(&scenario, seed, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
        let delivered =
            outcome.series.iter().find(|own| own.series == Series::Delivered && own.subject == "file");
        let points = &delivered.expect("it is measured").points;
        let (_, before) = *points.iter().rfind(|(at, _)| *at <= 52.0).expect("it was sampled");
        let (next, _) = *points.iter().find(|(_, sum)| *sum > before).expect("it went on");
        assert!(next - 52.0 < 8.0, "seed {seed}: no data until {next} s");
    }
}

/// How long an upload of 4 MB takes over 2 Mbit/s and 16 ms, which hold four segments, with this gateway.
fn an_upload_over_a_slow_link(gateway: &str) -> f64 {
    let outcome = run(&format!(
        "duration = \"60 s\"\n[hosts.phone]\nscheme = \"sack-reno\"\n[hosts.server]\nscheme = \"sack-reno\"\n\
         [gateways.gateway]\naccess = \"phone\"\n{gateway}\n\
         [[links]]\nbetween = [\"phone\", \"gateway\"]\n\
         link = {{ rate = \"16 Mbit/s\", delay = \"8 ms\", up = {{ rate = \"2 Mbit/s\", queue = \"16 kB\" }} }}\n\
         [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"10 ms\" }}\n\
         [[flows]]\nname = \"file\"\nfrom = \"phone\"\nto = \"server\"\nopened_by = \"phone\"\nbulk = \"4 MB\"\n\
         [measure]\nmetrics = [\"completion\"]\n"
    ));
    outcome.ended_at
}

/// A sender waits until it is offered room for a whole segment. Where the path holds a few of them, a window that has no room for that leaves the link
/// idle. (It took 1.03 times as long.)
#[test]
fn the_window_of_an_upload_leaves_a_slow_link_no_idle_moment() {
    let (direct, auto) = (an_upload_over_a_slow_link("split = false"), an_upload_over_a_slow_link(""));
    assert!(auto < 1.01 * direct, "{auto} s; directly {direct} s");
}
