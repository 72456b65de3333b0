//! Many hosts behind one bottleneck, and traffic that is not split beside traffic that is.
use crate::outcomes::run;
use crate::shared_link::{SharedLink, jain};
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Series, Study};
use shorthaul_sim::simulate_watching;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const BOTTLENECK: &str = "[[gateways.gateway.bottleneck]]\nname = \"backhaul\"\n";
/// For this long the scenarios run.
const SECONDS: f64 = 40.0;

/// A backhaul of 30 Mbit/s and 30 ms, whose queue holds 120 ms, to a host for each of `flows`, which has that many downloads; `delays`
/// are those of the hosts behind it.
fn backhaul(gateway: &str, flows: &[u32], delays: &[&str]) -> String {
    let mut text = format!(
        "duration = \"{SECONDS} s\"\nrouters = [\"cell\"]\n[hosts.server]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"cell\"\n{gateway}\n\
         [[links]]\nbetween = [\"cell\", \"gateway\"]\nlink = {{ rate = \"30 Mbit/s\", delay = \"15 ms\", queue = \"450 kB\" }}\n\
         [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"5 ms\" }}\n\
         [measure]\nseries = [\"queue-delay\"]\nevery = \"20 ms\"\n"
    );
    for (host, count) in flows.iter().enumerate() {
        let delay = delays[host % delays.len()];
        let _ = write!(
            text,
            "[hosts.h{host}]\nscheme = \"cubic\"\n\
             [[links]]\nbetween = [\"h{host}\", \"cell\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"{delay}\" }}\n\
             [[flows]]\nname = \"h{host}\"\nfrom = \"server\"\nto = \"h{host}\"\nopened_by = \"h{host}\"\n\
             unlimited = \"{SECONDS} s\"\ncount = {count}\nstart = \"{} ms\"\nspacing = \"exponential 300 ms\"\n",
            host * 137 % 1000
        );
    }
    text
}

/// A download that is split beside one that is not, from `other` servers, over 20 Mbit/s and 30 ms; the first host loads pages, too.
fn beside(gateway: &str, other: &str) -> String {
    let mut text = format!(
        "duration = \"{SECONDS} s\"\nrouters = [\"cell\"]\n\
         [hosts.0quic]\nscheme = \"{other}\"\n[hosts.phone]\nscheme = \"cubic\"\n[hosts.server]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"cell\"\n{gateway}\n\
         [[links]]\nbetween = [\"cell\", \"gateway\"]\nlink = {{ rate = \"20 Mbit/s\", delay = \"15 ms\", queue = \"150 kB\" }}\n\
         [[links]]\nbetween = [\"phone\", \"cell\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
         [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
         [[links]]\nbetween = [\"gateway\", \"0quic\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
         [measure]\nseries = [\"queue-delay\"]\nevery = \"20 ms\"\n"
    );
    for (name, from) in [("split", "server"), ("whole", "0quic")] {
        let _ = write!(
            text,
            "[[flows]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"phone\"\nopened_by = \"phone\"\nunlimited = \"{SECONDS} s\"\n"
        );
    }
    for (page, from) in ["server", "0quic"].into_iter().cycle().take(16).enumerate() {
        let start = 3000 + page * 2000;
        let _ = write!(
            text,
            "[[flows]]\nname = \"page-{page}\"\nfrom = \"{from}\"\nto = \"phone\"\nopened_by = \"phone\"\n\
             start = \"{start} ms\"\ncount = 4\ndownloads = {{ size = \"60 kB\" }}\n"
        );
    }
    text
}

/// The same scenario without its pages, which are the last of its flows.
fn without_pages(text: &str) -> String {
    text.split("[[flows]]\nname = \"page").next().unwrap_or_default().to_owned()
}

/// What is said to a gateway that does not split what the first host of a scenario sends.
fn not_split(traffic: &str) -> String {
    format!(
        "{traffic}\n[[gateways.gateway.policy]]\nmatch = {{ servers = [\"10.0.0.1\"] }}\nmode = \"pass\"\n"
    )
}

/// What the flows whose names begin so had, in Mbit/s.
fn rate(outcome: &Outcome, name: &str) -> f64 {
    let flows = outcome.flows.iter().filter(|flow| flow.name.split('.').next() == Some(name));
    flows.map(|flow| flow.delivered as f64 * 8e-6 / SECONDS).sum()
}

/// What 95 of 100 packets wait at most for the bottleneck, once the start is over; milliseconds.
fn queue_p95(outcome: &Outcome) -> f64 {
    queue_p95_after(outcome, 3.0)
}

/// The same of what comes later than this many seconds.
fn queue_p95_after(outcome: &Outcome, from: f64) -> f64 {
    let series = outcome.series.iter().find(|series| {
        series.series == Series::QueueDelay
            && ["gateway>cell", "hub>cell"].iter().any(|link| series.subject.contains(link))
    });
    let points = &series.expect("there is such a link").points;
    let mut delays: Vec<f64> =
        points.iter().filter(|(at, _)| *at > from).map(|(_, delay)| delay * 1e3).collect();
    delays.sort_by(f64::total_cmp);
    delays[delays.len() * 95 / 100]
}

fn mean_page(outcome: &Outcome) -> f64 {
    let pages = outcome.flows.iter().filter(|flow| flow.name.starts_with("page"));
    let times: Vec<f64> = pages.map(|flow| flow.transfers.first().copied().unwrap_or(SECONDS)).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

const FLOWS: [u32; 6] = [3, 2, 1, 1, 1, 1];

fn hosts(outcome: &Outcome, count: usize) -> Vec<f64> {
    (0..count).map(|host| rate(outcome, &format!("h{host}"))).collect()
}

#[test]
fn hosts_behind_a_bottleneck_share_one_short_queue_fairly() {
    let direct = run(&backhaul("split = false", &FLOWS, &["100 us"]));
    // The nearest and the farthest host differ by more than the queue.
    for delays in [&["100 us"][..], &["100 us", "5 ms", "20 ms"]] {
        let shared = run(&backhaul(BOTTLENECK, &FLOWS, delays));
        let hosts = hosts(&shared, 6);
        assert!(jain(&hosts) >= 0.99, "{delays:?}: {hosts:?}");
        let [queue, usual] = [&shared, &direct].map(queue_p95);
        assert!(usual > 90.0 && queue <= 0.25 * usual, "{delays:?}: {queue} ms, and {usual} ms directly");
        // 1448 of 1500 bytes of a packet are payload.
        let used: f64 = hosts.iter().sum::<f64>() / 30.0 * 1500.0 / 1448.0;
        assert!(used >= 0.97, "{delays:?}: {used} of the link");
    }
}

#[test]
fn a_host_by_itself_is_as_it_was_behind_a_bottleneck_of_its_own() {
    let [alone, group] = ["", BOTTLENECK].map(|gateway| run(&backhaul(gateway, &[2], &["100 us"])));
    assert_eq!(alone.trace_hash, group.trace_hash);
}

#[test]
fn a_rate_that_is_known_leaves_no_queue_and_weights_are_shares() {
    let known =
        format!("{BOTTLENECK}rate = \"29 Mbit/s\"\nweights = [{{ hosts = [\"10.0.0.2\"], weight = 3 }}]\n");
    // Addresses are given in the order of names: h1 has the second.
    let outcome = run(&backhaul(&known, &[1, 4, 1], &["100 us"]));
    let hosts = hosts(&outcome, 3);
    let of_all = hosts[1] / hosts.iter().sum::<f64>();
    assert!((0.55..0.65).contains(&of_all), "three of five shares: {hosts:?}");
    assert!(queue_p95(&outcome) <= 2.0, "{} ms", queue_p95(&outcome));
    assert!(hosts.iter().sum::<f64>() >= 29.0 * 0.95, "{hosts:?}");
}

/// Headers are a tenth of the wire where segments are short, and who came first says nothing of the others.
#[test]
fn a_rate_that_is_known_is_that_of_the_wire_whatever_the_segments() {
    for small in [0, 1] {
        let known = format!("{BOTTLENECK}rate = \"20 Mbit/s\"\n");
        let host = format!("[hosts.h{small}]\nscheme = ");
        let text = backhaul(&known, &[1, 1], &["100 us"])
            .replace(&format!("{host}\"cubic\""), &format!("{host}{{ profile = \"cubic\", mss = 536 }}"));
        let outcome = run(&text);
        let hosts = hosts(&outcome, 2);
        let on_wire = |host: usize| {
            let payload = if host == small { 524.0 } else { 1448.0 };
            hosts[host] * (payload + 52.0) / payload
        };
        let wire = on_wire(0) + on_wire(1);
        assert!(
            (0.97..1.005).contains(&(wire / 20.0)),
            "{wire} Mbit/s; h{small} has short segments: {hosts:?}"
        );
    }
}

#[test]
fn what_is_not_split_shares_the_link_and_the_short_queue() {
    for other in ["cubic", "bbr"] {
        let direct = run(&beside("split = false", other));
        let yields = run(&beside(&not_split("aggregate = { compete = false }"), other));
        let all = run(&beside(&not_split("traffic = \"all\""), other));
        let [split, whole] = ["split", "whole"].map(|name| rate(&all, name));
        assert!(jain(&[split, whole]) >= 0.98, "{other}: {split} beside {whole} Mbit/s");
        assert!(
            whole >= 0.9 * (split + whole) / 2.0,
            "{other}: pages go first, and cost it a little: {whole}"
        );
        assert!(split >= 0.95 * rate(&direct, "split"), "{other}: {split}");
        let alone = run(&without_pages(&beside(&not_split("traffic = \"all\""), other)));
        let [split_alone, whole] = ["split", "whole"].map(|name| rate(&alone, name));
        assert!(whole >= 0.95 * (split_alone + whole) / 2.0, "{other}: {whole} beside {split_alone} Mbit/s");
        let (yielding, waiting) = (rate(&yields, "split"), queue_p95(&yields));
        assert!(waiting >= 2.0 * queue_p95(&all), "{other}: without, the queue is {waiting} ms");
        assert!(
            other == "cubic" || split >= 1.2 * yielding,
            "{other}: {split} Mbit/s, and {yielding} without: it yields"
        );
        let usual = queue_p95(&direct);
        for (run, bound) in [(&alone, 0.25), (&all, 0.6)] {
            let queue = queue_p95(run);
            assert!(queue <= bound * usual, "{other}: {queue} ms, and {usual} ms directly");
        }
        let [page, usual] = [&all, &direct].map(mean_page);
        assert!(page <= usual, "{other}: {page} s a page, and {usual} s directly");
        let used = all.flows.iter().map(|flow| flow.delivered as f64 * 8e-6 / SECONDS).sum::<f64>() / 20.0;
        assert!(used * 1500.0 / 1448.0 >= 0.97, "{other}: {used} of the link");
    }
}

/// A host has a download that is split, another one that is not: over one link, or each over one of its own. `rate` in Mbit/s.
fn neighbours(gateway: &str, (other, rate, seconds): (&str, u64, u64), is_shared: bool) -> String {
    let link = format!(
        "link = {{ rate = \"{rate} Mbit/s\", delay = \"15 ms\", queue = \"{} B\" }}\n",
        rate * 125 * 60
    );
    let mut text = format!(
        "duration = \"{seconds} s\"\nrouters = [\"cell\", \"hub\", \"other\"]\n\
         [hosts.0quic]\nscheme = \"{other}\"\n[hosts.server]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"hub\"\n{gateway}\n\
         [[links]]\nbetween = [\"cell\", \"hub\"]\n{link}\
         [[links]]\nbetween = [\"other\", \"hub\"]\n{link}\
         [[links]]\nbetween = [\"hub\", \"gateway\"]\nlink = {{ rate = \"10 Gbit/s\", delay = \"0 ms\" }}\n\
         [measure]\nseries = [\"queue-delay\"]\nevery = \"20 ms\"\n"
    );
    let ends = [("split", "server", "cell"), ("whole", "0quic", if is_shared { "cell" } else { "other" })];
    for (number, (name, server, at)) in ends.into_iter().enumerate() {
        let _ = write!(
            text,
            "[hosts.{name}]\nscheme = \"cubic\"\n\
             [[links]]\nbetween = [\"gateway\", \"{server}\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
             [[links]]\nbetween = [\"{name}\", \"{at}\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
             [[flows]]\nname = \"{name}\"\nfrom = \"{server}\"\nto = \"{name}\"\nopened_by = \"{name}\"\n\
             unlimited = \"{seconds} s\"\nstart = \"{} ms\"\n",
            number * 700
        );
    }
    text
}

#[test]
fn a_host_of_which_nothing_is_split_shares_a_link_that_it_is_found_to_share() {
    for (other, is_shared) in [("cubic", true), ("bbr", true), ("cubic", false), ("bbr", false)] {
        let way = |gateway: &str| run(&neighbours(gateway, (other, 20, 30), is_shared));
        let [direct, all] = [way("split = false"), way(&not_split("traffic = \"all\""))];
        let [split, whole] = ["split", "whole"].map(|name| rate(&all, name));
        let seen = format!("{other}, shared {is_shared}: {split} beside {whole}, queue {}", queue_p95(&all));
        println!("{seen}");
        if is_shared {
            assert!(jain(&[split, whole]) >= 0.98, "{seen}");
            assert!(queue_p95_after(&all, 10.0) <= 0.3 * queue_p95(&direct), "{seen}");
        } else {
            assert!(whole >= 0.99 * rate(&direct, "whole"), "it is not held for anybody's sake: {seen}");
        }
    }
}

/// Nothing corrects what was found of such a host: so it holds for a minute, and is found again.
#[test]
fn what_was_found_of_a_host_of_which_nothing_is_split_is_found_again() {
    let text = neighbours(&not_split("traffic = \"all\""), ("cubic", 8, 140), true);
    let study = Study::from_toml("neighbours", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let mut together = Vec::new();
    let outcome = simulate_watching(&scenario, 1, &mut |at, hosts| {
        if together.last().is_none_or(|(_, last)| *last != hosts.len()) {
            together.push((at.as_nanos() / 1_000_000_000, hosts.len()));
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let [split, whole] = ["split", "whole"].map(|name| rate(&outcome, name));
    println!("{split} beside {whole} Mbit/s, hosts served: {together:?}");
    assert!(jain(&[split, whole]) >= 0.98, "{split} beside {whole}");
    let found: Vec<u64> = together.iter().filter(|(_, hosts)| *hosts == 2).map(|(at, _)| *at).collect();
    // It is asked while it has half of what the other has.
    assert!(found.len() == 2 && found[0] < 30 && found[1] > found[0] + 60, "{together:?}");
}

/// Others fill a deep queue by a way that the gateway does not hold: a download by the gateway has its part of the link, and pages come soon.
#[test]
fn who_fills_the_queue_elsewhere_leaves_a_download_its_part() {
    let deep = |aggregate: &str| {
        let text = beside(&not_split(aggregate), "cubic").replace("150 kB", "750 kB");
        run(&text)
    };
    let (yields, competes) = (deep("aggregate = { compete = false }"), deep(""));
    let (without, split) = (rate(&yields, "split"), rate(&competes, "split"));
    assert!(without < 5.0, "{without} Mbit/s: nothing to mend");
    assert!(split > 7.0 && split < 13.0, "{split} Mbit/s, and {without} without");
    let pages = (mean_page(&competes), mean_page(&yields));
    assert!(pages.0 < 1.1 * pages.1, "{pages:?} s");
}

#[test]
fn where_nobody_else_is_a_window_that_would_compete_has_the_short_queue() {
    let alone = |aggregate: &str| {
        let text = backhaul(aggregate, &[2], &["100 us"]);
        run(&text)
    };
    let (competes, yields) = (alone(""), alone("aggregate = { compete = false }"));
    let queues = (queue_p95(&competes), queue_p95(&yields));
    assert!(queues.0 < 20.0 && queues.1 < 20.0, "{queues:?} ms");
    assert!(rate(&competes, "h0") > 0.99 * rate(&yields, "h0"));
}

#[test]
fn where_nothing_tells_of_the_bottleneck_what_is_not_split_passes_as_it_came() {
    // The split download is over after a few seconds, and no other comes.
    let text = |traffic: &str| {
        without_pages(&beside(&not_split(traffic), "cubic")).replacen(
            &format!("unlimited = \"{SECONDS} s\""),
            "bulk = \"2 MB\"",
            1,
        )
    };
    let [tcp, all] = ["", "traffic = \"all\""].map(|traffic| rate(&run(&text(traffic)), "whole"));
    assert!(all >= 0.97 * tcp, "{all} Mbit/s, and {tcp} where it is left alone");
}

#[test]
fn hosts_that_are_found_to_share_a_bottleneck_share_it_as_if_it_were_configured() {
    let direct = run(&backhaul("split = false", &FLOWS, &["100 us"]));
    let study =
        Study::from_toml("found", &backhaul("aggregate = { find_bottlenecks = true }", &FLOWS, &["100 us"]));
    let study = study.unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let mut groups = Vec::new();
    let found = simulate_watching(&scenario, 1, &mut |at, hosts| {
        let numbers: BTreeSet<u32> = hosts.iter().map(|host| host.group).collect();
        if groups.last().is_none_or(|(_, last)| *last != numbers.len()) {
            groups.push((at.as_nanos() / 1_000_000, numbers.len()));
        }
    });
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let hosts = hosts(&found, 6);
    let [early, queue] = [3.0, 15.0].map(|from| queue_p95_after(&found, from));
    let usual = queue_p95(&direct);
    let seen = format!("{hosts:?}, {early} and {queue} ms, groups {groups:?}");
    println!("{seen}");
    assert!(jain(&hosts) >= 0.9 && queue <= 0.25 * usual, "{seen}");
}

/// Nobody has seen the path without a queue but the first; least windows of fifty would fill the queue. With nothing configured nobody is worse off for the gateway.
#[test]
fn hosts_that_share_a_link_are_not_harmed_where_nothing_is_configured() {
    for (hosts, rate, seed) in [(2, 10, 1), (6, 10, 1), (6, 30, 1), (50, 10, 1), (50, 10, 2), (50, 30, 1)] {
        let link = SharedLink::new(hosts, rate);
        let [direct, gateway] =
            ["split = false", "control_group = 0.0"].map(|gateway| link.run(gateway, seed));
        let seen = format!("{hosts} hosts, {rate} Mbit/s, seed {seed}, direct {direct:?}, {gateway:?}");
        println!("{seen}");
        assert!(gateway.jain >= direct.jain, "{seen}");
        assert!(gateway.used >= direct.used - 0.01 && gateway.page <= direct.page, "{seen}");
        let groups = gateway.groups.last().map_or(0, |(_, count)| *count);
        if hosts == 50 {
            assert!(groups <= 5, "one window for all, or nearly all: {seen}");
            // They take turns: the queue is short, though two segments of each would fill it.
            assert!(gateway.jain >= 0.97, "{seen}");
            assert!(gateway.queue <= 0.5 * direct.queue && gateway.page <= 0.8 * direct.page, "{seen}");
        } else {
            assert_eq!(groups, hosts as usize, "{seen}");
            assert!(gateway.queue <= 0.6 * direct.queue && gateway.page <= 0.6 * direct.page, "{seen}");
        }
    }
}

#[test]
fn hosts_that_share_a_fast_link_have_pages_without_its_queue() {
    let link = SharedLink::new(6, 300);
    let [direct, gateway] = ["split = false", "control_group = 0.0"].map(|gateway| link.run(gateway, 1));
    let seen = format!("direct {direct:?}, {gateway:?}");
    assert!(gateway.jain >= direct.jain && gateway.used >= direct.used - 0.01, "{seen}");
    assert!(gateway.queue <= 0.25 * direct.queue && gateway.page <= 0.5 * direct.page, "{seen}");
}
