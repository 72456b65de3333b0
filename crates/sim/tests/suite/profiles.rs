//! What a profile says is what senders do, at hosts and at gateways.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::{Recording, simulate};

fn run(text: &str) -> Outcome {
    let study = Study::from_toml("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).expect("it was checked");
    let outcome = simulate(&scenario, 3, Recording::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.problems.is_empty(), "{:?}\n{text}", outcome.problems);
    outcome
}

/// 60 kB over a link of 600 ms, from a host with `scheme`.
fn over_satellite(scheme: &str) -> f64 {
    let text = format!(
        r#"
        duration = "100 s"
        hosts = {{ server = {{ scheme = {scheme} }}, client = {{ scheme = "cubic" }} }}
        links = [{{ between = ["server", "client"], link = {{ rate = "20 Mbit/s", delay = "300 ms" }} }}]
        flows = [{{ from = "server", to = "client", bulk = "60 kB" }}]
        "#
    );
    run(&text).metrics[&Metric::Completion]
}

#[test]
fn an_endpoint_begins_with_the_initial_window_that_it_is_given() {
    // Set-up takes 1.5 round trips up to the first byte's arrival; 60 kB are 42 segments: 10, 20, 12, or all at
    // once. More would not fit into the window of a SYN-ACK.
    let (usual, ten, hundred) = (
        over_satellite("{ profile = \"cubic\", pacing = false }"),
        over_satellite("{ profile = \"cubic\", pacing = false, initial_window = 10 }"),
        over_satellite("{ profile = \"cubic\", pacing = false, initial_window = 100 }"),
    );
    assert_eq!(usual, ten);
    assert!((0.9..1.1).contains(&hundred), "one round trip and a half: {hundred} s");
    assert!(ten - hundred > 1.1, "two round trips more: {ten} s");
}

/// 20 kB five times, over 200 ms, from a server that begins so: the time of the first, and the mean of the others.
fn again(start: &str, flow: &str) -> (f64, f64) {
    let outcome = run(&format!(
        r#"
        duration = "100 s"
        [hosts.server]
        scheme = {{ profile = "sack-reno", pacing = false, initial_window = 2, start = "{start}" }}
        [hosts.client]
        scheme = "sack-reno"
        [[links]]
        between = ["server", "client"]
        link = {{ rate = "2 Mbit/s", delay = "100 ms", queue = "50 packets" }}
        [[flows]]
        from = "server"
        to = "client"
        {flow}
        "#
    ));
    let transfers = &outcome.flows[0].transfers;
    (transfers[0], transfers[1..].iter().sum::<f64>() / (transfers.len() - 1) as f64)
}

/// TCP fast start: what the last connection to a host knew, or the same one before it paused.
#[test]
fn a_sender_that_remembers_a_path_begins_with_what_it_carried() {
    for flow in [
        "downloads = { size = \"20 kB\", repeats = 5, pause = \"5 s\" }",
        "requests = { request = \"300 B\", response = \"20 kB\", count = 5, pause = \"5 s\" }",
    ] {
        let ((first, slow), (as_first, fast)) = (again("slow", flow), again("fast", flow));
        assert_eq!(first, as_first, "nothing is known at first: {flow}");
        // What is safe to begin with grows from one transfer to the next: half a round trip less on average.
        assert!(fast < slow - 0.1, "{fast} and {slow} s: {flow}");
    }
}

/// A server, a gateway and a client, whose link may lose packets; the gateway with these keys.
fn through_gateway(keys: &str, loss: &str, flow: &str) -> Outcome {
    run(&format!(
        r#"
        duration = "200 s"
        hosts = {{ server = {{ scheme = "cubic" }}, client = {{ scheme = "cubic" }} }}
        gateways = {{ gw = {{ access = "client", mode = "split", {keys} }} }}
        links = [
            {{ between = ["server", "gw"], link = {{ rate = "20 Mbit/s", delay = "10 ms" }} }},
            {{ between = ["gw", "client"], link = {{ rate = "10 Mbit/s", delay = "50 ms", loss = "{loss}", queue = "500 packets" }} }},
        ]
        flows = [{{ from = "server", to = "client", {flow} }}]
        measure = {{ metrics = ["completion", "goodput", "timeouts", "retransmitted"] }}
        "#
    ))
}

#[test]
fn a_gateway_begins_with_the_initial_window_of_its_leg() {
    let time = |keys: &str| through_gateway(keys, "0 %", "bulk = \"60 kB\"").metrics[&Metric::Completion];
    let (usual, more) = (
        time("to_access = { pacing = false }"),
        time("to_access = { pacing = false, initial_window = 100 }"),
    );
    assert!(usual - more > 0.15, "{usual} s, {more} s");
}

#[test]
fn a_gateway_finds_losses_as_its_leg_says() {
    let goodput = |keys: &str| through_gateway(keys, "1 %", "unlimited = \"60 s\"").metrics[&Metric::Goodput];
    let usual = goodput("to_access = {}");
    assert_eq!(usual, goodput("to_access = { loss_detection = \"rack\" }"));
    assert_eq!(usual, goodput("to_wan = { loss_detection = \"tahoe\" }"), "nothing is sent that way");
    let tahoe = goodput("to_access = { loss_detection = \"tahoe\" }");
    assert!(tahoe < 0.9 * usual, "beginning anew at each loss costs much: {tahoe} and {usual} bit/s");
    for old_name in ["to_access = { recovery = \"tahoe\" }", "to_edge = { loss_detection = \"tahoe\" }"] {
        assert_eq!(goodput(old_name), tahoe);
    }
}

#[test]
fn a_gateway_acknowledges_as_the_leg_says_from_which_data_comes() {
    let packets = |keys: &str| {
        let outcome = through_gateway(keys, "0 %", "bulk = \"2 MB\"");
        let to_server = outcome.links.iter().find(|link| link.name == "gw>server").expect("a link");
        to_server.offered
    };
    let (usual, each) = (packets("to_wan = {}"), packets("to_wan = { ack = \"immediate\" }"));
    assert!(each as f64 > 1.5 * usual as f64, "{each} and {usual} acknowledgments");
}
