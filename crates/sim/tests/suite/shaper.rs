//! CAKE before a slow link, and cake-autorate before one whose rate changes.
use crate::outcomes::run;
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Series, Study};

/// A home behind a link of this kind: downloads to two hosts, a page each second or so, a request of 100 bytes each 100 ms.
fn home(link: &str, router: &str) -> String {
    format!(
        "duration = \"40 s\"\nwarm_up = \"5 s\"\nrouters = [\"operator\"]\n\
         [hosts.server]\nscheme = \"cubic\"\n[hosts.a]\nscheme = \"cubic\"\n[hosts.dns]\n\
         [shapers.router]\naccess = \"a\"\n{router}\n\
         [[links]]\nbetween = [\"router\", \"operator\"]\nlink = {link}\n\
         [[links]]\nbetween = [\"a\", \"router\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
         [[links]]\nbetween = [\"operator\", \"server\"]\nlink = {{ delay = \"4900 us\" }}\n\
         [[links]]\nbetween = [\"operator\", \"dns\"]\nlink = {{ delay = \"1 ms\" }}\n\
         [[flows]]\nname = \"download\"\nfrom = \"server\"\nto = \"a\"\nopened_by = \"a\"\nunlimited = \"40 s\"\n\
         [[flows]]\nname = \"call\"\nfrom = \"server\"\nto = \"a\"\nopened_by = \"a\"\nstart = \"5 s\"\n\
         requests = {{ request = \"100 B\", response = \"100 B\", count = 300, pause = \"100 ms\" }}\n\
         [measure]\nmetrics = [\"queue-delay-95\", \"utilization\", \"goodput\"]\nseries = [\"queue-delay\", \"delivered\"]\nevery = \"20 ms\"\n"
    )
}

/// 20 Mbit/s and 30 ms there and back, with a queue of 200 ms.
const LINK: &str = "{ rate = \"20 Mbit/s\", delay = \"10 ms\", queue = \"500 kB\" }";

fn p95(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() * 95 / 100]
}

/// How long 95 of 100 requests of the call take at most; milliseconds.
fn call(outcome: &Outcome) -> f64 {
    let flow = outcome.flows.iter().find(|flow| flow.name == "call").unwrap();
    assert!(flow.transfers.len() > 100, "{} requests", flow.transfers.len());
    1e3 * p95(&flow.transfers)
}

/// What 95 of 100 packets wait at most in a queue, from this second on; milliseconds.
fn queue(outcome: &Outcome, name: &str, from: f64) -> f64 {
    let series = outcome.series.iter();
    let mut series = series.filter(|series| series.series == Series::QueueDelay && series.subject == name);
    let points = &series.next().unwrap_or_else(|| panic!("no queue {name}")).points;
    1e3 * p95(&points.iter().filter(|(at, _)| *at > from).map(|(_, delay)| *delay).collect::<Vec<_>>())
}

/// What the download had between two seconds, in Mbit/s.
fn rate(outcome: &Outcome, from: f64, to: f64) -> f64 {
    let mut series = outcome.series.iter();
    let of = series.find(|series| series.series == Series::Delivered && series.subject == "download");
    let points = &of.unwrap().points;
    let at = |second: f64| points.iter().rev().find(|(at, _)| *at <= second).map_or(0.0, |(_, bytes)| *bytes);
    (at(to) - at(from)) * 8e-6 / (to - from)
}

#[test]
fn with_the_rate_known_cake_keeps_the_operators_queue_empty_and_a_call_short() {
    let [nothing, cake] =
        ["", "down = { rate = \"19 Mbit/s\", ingress = true }\nup = { rate = \"19 Mbit/s\" }"]
            .map(|router| run(&home(LINK, router)));
    assert!(queue(&nothing, "operator>router", 5.0) > 150.0 && call(&nothing) > 150.0, "{}", call(&nothing));
    assert!(queue(&cake, "operator>router", 5.0) < 5.0, "{}", queue(&cake, "operator>router", 5.0));
    // In its queue a download waits for what controlled delay leaves it.
    let own = queue(&cake, "router:down", 5.0);
    assert!((1.0..40.0).contains(&own), "{own} ms");
    // 30 ms without any queue; those of a call that come again after 100 ms are sparse.
    assert!((30.0..34.0).contains(&call(&cake)), "{} ms", call(&cake));
    assert!(rate(&cake, 5.0, 40.0) > 0.88 * 19.0, "{}", rate(&cake, 5.0, 40.0));
    let all = cake.metrics[&Metric::QueueDelay95];
    assert!(1e3 * all >= own && 1e3 * all < own + 6.0, "links and shaper together: {all}");
    assert_eq!(
        cake.trace_hash,
        run(&home(LINK, "down = { rate = \"19 Mbit/s\", ingress = true }\nup = { rate = \"19 Mbit/s\" }"))
            .trace_hash
    );
}

const AUTORATE: &str = "autorate = { reflectors = [\"dns\"], down = { min = \"2 Mbit/s\", base = \"10 Mbit/s\", max = \"50 Mbit/s\" }, \
                        up = { min = \"5 Mbit/s\", base = \"10 Mbit/s\", max = \"20 Mbit/s\" } }";

#[test]
fn cake_autorate_finds_a_rate_and_follows_when_it_falls() {
    let falls = "{ rate = { schedule = [{ lasts = \"20 s\", rate = \"20 Mbit/s\" }, { lasts = \"60 s\", rate = \"5 Mbit/s\" }] }, \
                 delay = \"10 ms\", queue = \"500 kB\" }";
    let outcome = run(&home(falls, AUTORATE));
    assert!(rate(&outcome, 10.0, 20.0) > 13.0, "from 10 Mbit/s up: {}", rate(&outcome, 10.0, 20.0));
    assert!(rate(&outcome, 30.0, 40.0) < 5.0);
    // It has come down with the link; without it the queue of 500 kB takes 800 ms.
    assert!(queue(&outcome, "operator>router", 30.0) < 150.0, "{}", queue(&outcome, "operator>router", 30.0));
    assert!(queue(&run(&home(falls, "")), "operator>router", 30.0) > 500.0);
    // Asked not to adjust anything it does not even ask.
    let off = AUTORATE.replace("{ reflectors", "{ adjust = false, reflectors");
    assert_eq!(run(&home(falls, &off)).trace_hash, run(&home(falls, "")).trace_hash);
}

#[test]
fn the_use_of_a_link_whose_rate_changes_is_a_share_of_what_it_could_have_carried() {
    let changes = "{ rate = { schedule = [{ lasts = \"2 s\", rate = \"20 Mbit/s\" }, { lasts = \"2 s\", rate = \"10 Mbit/s\" }], repeats = true }, \
                   delay = \"10 ms\", queue = \"500 kB\" }";
    let used = run(&home(changes, "")).metrics[&Metric::Utilization];
    assert!((96.0..=100.0).contains(&used), "{used} %");
}

#[test]
fn a_shaper_that_makes_no_sense_is_refused() {
    for (router, said) in [
        ("down = { rate = \"0 Mbit/s\" }", "no rate of a shaper"),
        ("down = { rate = \"19\" }", "no rate of a shaper"),
        (&*AUTORATE.replace("\"dns\"", "\"operator\""), "no host"),
        (&*AUTORATE.replace("[\"dns\"]", "[]"), "names nobody"),
        (
            &*AUTORATE.replace("base = \"10 Mbit/s\", max = \"50", "base = \"60 Mbit/s\", max = \"50"),
            "`base` not below",
        ),
    ] {
        let error =
            Study::from_toml("test.toml", &home(LINK, router)).err().unwrap_or_else(|| panic!("{router}"));
        assert!(error.to_string().contains(said), "{error}");
    }
    let error =
        Study::from_toml("test.toml", &home(LINK, "").replace("access = \"a\"", "access = \"server\""))
            .unwrap_err();
    assert!(error.to_string().contains("`router` has no link to `server`"), "{error}");
}
