//! What the connections of one mobile host get that share a window which finds its own size.
use crate::outcomes::run;
use shorthaul_observe::Outcome;

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
