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

#[test]
fn what_is_the_studys_as_a_whole_does_not_vary() {
    for (path, values, instead) in [
        ("seed", "[1, 2]", "--seed"),
        ("repeats", "[1, 20]", "`repeats = 10`"),
        ("name", "[\"a\", \"b\"]", "[cases.NAME]"),
        ("about", "[\"a\", \"b\"]", "[cases.NAME]"),
        ("sweep.duration", "[[\"1 s\"]]", "beside it"),
        ("cases.a.duration", "[\"1 s\"]", "beside it"),
    ] {
        // There to be replaced, as far as a file can have it.
        let head = "duration = \"5 s\"";
        let with_them = format!("{head}\nseed = 1\nrepeats = 1\nname = \"x\"\nabout = \"x\"");
        let text = PATH.replace(head, &with_them);
        let read = |text: String| Study::from_toml("s.toml", &text).map_err(|error| error.to_string());
        says(
            read(format!("{text}[sweep]\n\"{path}\" = {values}\n")),
            &["line 23", &format!("`{path}` does not vary"), instead],
        );
        if !path.contains('.') {
            let case = format!("{text}[cases.one]\n\"{path}\" = 1\n");
            says(read(case), &["line 23", &format!("`{path}` does not vary"), instead]);
        }
    }
}

#[test]
fn what_has_no_name_is_found_by_the_one_that_results_give_it() {
    let cross = "[[cross]]\nname = \"own\"\nfrom = \"server\"\nto = \"gw\"\nrate = \"1 Mbit/s\"\n\
                 [[cross]]\nfrom = \"server\"\nto = \"gw\"\nrate = \"1 Mbit/s\"\n";
    let sweep = "[sweep]\n\"flows.flow1.bulk\" = [\"2 MB\"]\n\"cross.cross2.rate\" = [\"3 Mbit/s\"]\n";
    let study = and(&format!("{cross}{sweep}")).unwrap_or_else(|error| panic!("{error}"));
    let scenario = study.scenario(&study.points()[0]).unwrap();
    assert_eq!(scenario.flows[0].workload.to_string(), "2 MB");
    assert_eq!((scenario.flows[0].name.as_str(), scenario.cross[1].name.as_str()), ("flow1", "cross2"));
    assert_eq!(
        [&scenario.cross[0], &scenario.cross[1]].map(|cross| cross.rate.to_string()),
        ["1 Mbit/s", "3 Mbit/s"]
    );
    // One with a name is not called by its place.
    says(
        and(&format!("{cross}[sweep]\n\"cross.cross1.rate\" = [\"3 Mbit/s\"]\n")),
        &["no `cross.cross1.rate`", "flows.flow1.bulk"],
    );
}

#[test]
fn a_name_is_that_of_one_flow_cell_or_source_of_datagrams() {
    let flow =
        |keys: &str| format!("[[flows]]\nfrom = \"server\"\nto = \"client\"\nbulk = \"1 MB\"\n{keys}\n");
    let cross =
        |keys: &str| format!("[[cross]]\nfrom = \"server\"\nto = \"client\"\nrate = \"1 Mbit/s\"\n{keys}\n");
    for (sections, name) in [
        ([flow("name = \"f.2\""), flow("name = \"f\"\ncount = 2")], "f.2"),
        ([flow("name = \"f\"\ncount = 2"), flow("name = \"f.2\"")], "f.2"),
        ([flow("name = \"f\"\ncount = 2"), flow("name = \"f\"")], "f"),
        ([flow("name = \"f\""), flow("name = \"f\"\ncount = 2")], "f"),
        ([flow(""), flow("name = \"flow2\"")], "flow2"),
        ([cross("name = \"c\""), cross("name = \"c\"")], "c"),
        ([cross("name = \"cross2\""), cross("")], "cross2"),
    ] {
        says(and(&sections.concat()), &["line ", &format!("are called `{name}`"), "another name"]);
    }
    for sections in [
        [flow("name = \"f\"\ncount = 2"), flow("name = \"f.3\"")],
        // A flow may have the name of what it competes with.
        [flow("name = \"c\""), cross("name = \"c\"")],
        [cross(""), cross("")],
    ] {
        assert!(and(&sections.concat()).is_ok(), "{sections:?}");
    }
}

#[test]
fn two_cells_have_two_names() {
    let text = |second: &str| {
        let mut text =
            "duration = \"5 s\"\nrouters = [\"mast\"]\nhosts = { server = {}, a = {}, b = {} }\n".to_owned();
        for host in ["server", "a", "b"] {
            text += &format!("[[links]]\nbetween = [\"{host}\", \"mast\"]\nlink = {{ delay = \"1 ms\" }}\n");
        }
        for (user, name) in [("a", "one"), ("b", second)] {
            text += &format!(
                "[[cells]]\nname = \"{name}\"\nfrom = \"mast\"\nusers = [\"{user}\"]\nchannel = {{ network = \"umts\" }}\n"
            );
        }
        text + "[[flows]]\nfrom = \"server\"\nto = \"a\"\nbulk = \"1 MB\"\n"
    };
    let read = |second: &str| Study::from_toml("s.toml", &text(second)).map_err(|error| error.to_string());
    says(read("one"), &["line ", "two `[[cells]]` that are called `one`"]);
    assert!(read("other").is_ok(), "{:?}", read("other").err());
}

#[test]
fn what_happens_to_a_gateway_happens_within_the_run_and_to_what_it_has() {
    const TAIL: &str = "senders = { policy = \"path-tail\", bandwidth = \"1 Mbit/s\" }";
    const CELLS: &str = "senders = { policy = \"path-tail\", bandwidth = \"1 Mbit/s\", cells = [{ name = \"north\", prefixes = [\"10.0.0.0/8\"] }] }";
    let gateway = |keys: &[&str]| {
        with("access = \"client\" }", &format!("access = \"client\", {} }}", keys.join(", ")))
    };
    for (keys, parts) in [
        (&["killed = [{ at = \"50 s\", gone = \"1 s\" }]"][..], ["`at` is 50 s", "over at 5 s"]),
        (&["taken_over = [{ at = \"1 s\" }, { at = \"77 s\" }]"], ["`at` is 77 s", "take-over"]),
        (
            &[TAIL, "bandwidth_changes = [{ at = \"90 s\", bandwidth = \"1 Mbit/s\" }]"],
            ["`at` is 90 s", "change"],
        ),
        (
            &["bandwidth_changes = [{ at = \"1 s\", bandwidth = \"1 Mbit/s\" }]"],
            ["emulates no link", "path-tail"],
        ),
        (
            &[TAIL, "bandwidth_changes = [{ at = \"1 s\", bandwidth = \"1 Mbit/s\", cell = \"north\" }]"],
            ["no cell `north`", "leave `cell` out"],
        ),
        (
            &[CELLS, "bandwidth_changes = [{ at = \"1 s\", bandwidth = \"1 Mbit/s\", cell = \"south\" }]"],
            ["no cell `south`", "there are: north"],
        ),
        // Also of one that does not split here.
        (&["split = false", "policy = [{ match = { hosts = [\"x\"] } }]"], ["policy", "10.1.0.0/16"]),
        (&["split = false", "killed = [{ at = \"50 s\", gone = \"1 s\" }]"], ["`at` is 50 s", "over at 5 s"]),
        (
            &["split = false", "policy = [{ mode = \"observe\", ack = \"delivered\" }]"],
            ["policy 1: mode:", "leave `ack`"],
        ),
    ] {
        says(gateway(keys), &[&["line 4"], &parts[..]].concat());
    }
    for keys in [
        &["killed = [{ at = \"4 s\", gone = \"9 s\" }]", "taken_over = [{ at = \"1 s\" }]"][..],
        &[TAIL, "bandwidth_changes = [{ at = \"1 s\", bandwidth = \"2 Mbit/s\" }]"],
        &[CELLS, "bandwidth_changes = [{ at = \"1 s\", bandwidth = \"2 Mbit/s\", cell = \"north\" }]"],
    ] {
        assert!(gateway(keys).is_ok(), "{keys:?}: {:?}", gateway(keys).err());
    }
}

#[test]
fn a_study_that_nobody_could_mean_is_refused() {
    let head = "duration = \"5 s\"";
    let headed = |more: &str| with(head, &format!("{head}\n{more}"));
    says(
        headed("repeats = 4000000000"),
        &["`repeats` is 4000000000", "1000000 runs at most", "write 1000000 or less"],
    );
    let swept = |repeats: u32| {
        let text = PATH.replace(head, &format!("{head}\nrepeats = {repeats}"));
        let text = format!("{text}[sweep]\nduration = [\"5 s\", \"6 s\", \"7 s\", \"8 s\"]\n");
        Study::from_toml("s.toml", &text).map_err(|error| error.to_string())
    };
    says(swept(250_001), &["for each of 4 points", "write 250000 or less"]);
    assert_eq!(swept(250_000).unwrap().seeds().count(), 250_000);
    assert!(swept(1).unwrap().with_seeds(0, u32::MAX).too_many_runs().is_some());

    says(
        and("[measure]\nevery = \"1 ns\"\n"),
        &["`measure.every` is 1 ns", "5000000000 samples", "every = \"0.5 us\" or more"],
    );
    assert!(and("[measure]\nevery = \"500 ns\"\n").is_ok());
    says(with("10 Mbit/s", "99999999999999999999 Gbit/s"), &["line 8", "a rate that there can be"]);
    says(with("\"5 s\"", "\"99999999999999 h\""), &["line 2", "a duration that there can be", "5000000 h"]);
    says(with("\"5 s\"", "\"5000000 h\""), &["`measure.every` is 100 ms", "every = \"1800 s\" or more"]);
}
