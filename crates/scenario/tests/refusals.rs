//! What has another effect than it seems to have, or none, is refused, with what to write instead.
use shorthaul_scenario::Study;

const PATH: &str = r#"
duration = "5 s"
hosts = { client = {}, server = {} }
gateways.gw = { access = "client" }

[[links]]
between = ["client", "gw"]
link = { rate = "10 Mbit/s", delay = "20 ms" }

[[links]]
between = ["gw", "server"]
link = { delay = "1 ms" }

[[flows]]
from = "server"
to = "client"
bulk = "1 MB"
"#;

/// The study with something else in its text.
fn with(from: &str, to: &str) -> Result<Study, String> {
    assert!(PATH.contains(from), "`{from}` is not in the example");
    Study::from_toml("s.toml", &PATH.replace(from, to)).map_err(|error| error.to_string())
}

/// The study with something added at its end.
fn and(more: &str) -> Result<Study, String> {
    Study::from_toml("s.toml", &format!("{PATH}{more}")).map_err(|error| error.to_string())
}

/// The error has all of these.
fn says(study: Result<Study, String>, parts: &[&str]) {
    let error = study.expect_err("this is refused");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn a_link_between_a_gateway_and_its_access_side_has_its_downlink_toward_that() {
    let link = |between: &str, keys: &str| {
        with(
            "between = [\"client\", \"gw\"]\nlink = { rate = \"10 Mbit/s\", delay = \"20 ms\" }",
            &format!("between = {between}\nlink = {{ delay = \"20 ms\", {keys} }}"),
        )
    };
    for keys in [
        "rate = \"10 Mbit/s\", up = { rate = \"2 Mbit/s\" }",
        "rate = \"2 Mbit/s\", down = { rate = \"10 Mbit/s\" }",
        "up = { rate = \"2 Mbit/s\" }",
        "preset = \"starlink\"",
    ] {
        let parts =
            ["line 4: `gateways.gw", "the link `gw-client`", "between = [\"client\", \"gw\"]", "exchange"];
        says(link("[\"gw\", \"client\"]", keys), &parts);
        assert!(link("[\"client\", \"gw\"]", keys).is_ok(), "{keys}");
    }
    // What says nothing of up and down may stand either way: `up` is from the first to the second.
    for keys in [
        "rate = \"1 Mbit/s\"",
        "rate = \"1 Mbit/s\", up = { loss = \"1 %\" }",
        "rate = \"1 Mbit/s\", up = { rate = \"2 Mbit/s\" }",
    ] {
        assert!(link("[\"gw\", \"client\"]", keys).is_ok(), "{keys}");
    }
    let shaper =
        PATH.replace("gateways.gw", "shapers.gw").replace("[\"client\", \"gw\"]", "[\"gw\", \"client\"]");
    let shaper = shaper.replace("\"20 ms\"", "\"20 ms\", up = { rate = \"2 Mbit/s\" }");
    let shaper = Study::from_toml("s.toml", &shaper).map_err(|error| error.to_string());
    says(shaper, &["the access side of `gw`", "the link `gw-client`"]);
}
