//! The schemas of files: what is shipped is right by them, and they know the keys that their readers know.
use shorthaul_dataplane::Config;
use shorthaul_scenario::Study;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::{Table, Value};

/// A format: how its schema is asked for, and what its reader says of a text.
struct Format {
    schema: boon::Schemas,
    root: boon::SchemaIndex,
    read: fn(&str) -> Result<(), String>,
}

impl Format {
    fn new(command: &[&str], read: fn(&str) -> Result<(), String>) -> Format {
        let output =
            Command::new(env!("CARGO_BIN_EXE_shorthaul")).args(command).output().expect("the program");
        assert!(output.status.success(), "{output:?}");
        let document = serde_json::from_slice(&output.stdout).expect("JSON");
        let (mut schema, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource("schema.json", document).expect("a schema");
        let root = compiler.compile("schema.json", &mut schema).unwrap_or_else(|error| panic!("{error:#}"));
        Format { schema, root, read }
    }

    fn scenario() -> Format {
        Format::new(&["scenario", "schema"], |text| {
            Study::from_toml("s.toml", text).map(|_| ()).map_err(|error| error.to_string())
        })
    }

    fn gateway() -> Format {
        Format::new(&["gateway", "--schema"], |text| {
            toml::from_str::<Config>(text).map(|_| ()).map_err(|error| error.to_string())
        })
    }

    /// What the schema says of a file.
    fn check(&self, file: &Table) -> Result<(), String> {
        let file = serde_json::to_value(file).expect("TOML as JSON");
        self.schema.validate(&file, self.root).map_err(|error| format!("{error:#}"))
    }

    /// A key that nobody knows is refused by schema and reader in each table of a file.
    fn refuses_unknown_keys(&self, name: &str, file: &Table) -> usize {
        let places = tables(file);
        for place in &places {
            let mut wrong = file.clone();
            table_at(&mut wrong, place).insert("no_such_key".into(), Value::from(1));
            let said =
                self.check(&wrong).expect_err(&format!("{name}: the schema takes any key at {place:?}"));
            assert!(said.contains("no_such_key") || said.contains("anyOf"), "{name} {place:?}: {said}");
            let text = toml::to_string(&wrong).expect("TOML");
            let said =
                (self.read)(&text).expect_err(&format!("{name}: the reader takes any key at {place:?}"));
            assert!(said.contains("no_such_key"), "{name} {place:?}: {said}");
        }
        places.len()
    }
}

/// Steps from the whole of a file to a table in it.
type Place = Vec<String>;

/// The tables of a file whose keys the format says: not those of names, nor what varies.
fn tables(file: &Table) -> Vec<Place> {
    fn walk(place: &Place, value: &Value, found: &mut Vec<Place>) {
        let step = |step: &str| place.iter().cloned().chain([step.to_owned()]).collect::<Place>();
        match value {
            Value::Table(table) => {
                let names = ["hosts", "relays", "gateways", "hop"];
                // `hosts` of a `match` is a list.
                if !place.last().is_some_and(|last| names.contains(&last.as_str())) {
                    found.push(place.clone());
                }
                for (key, value) in table {
                    if !["sweep", "cases"].contains(&key.as_str()) {
                        walk(&step(key), value, found);
                    }
                }
            }
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    walk(&step(&index.to_string()), value, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&Vec::new(), &Value::Table(file.clone()), &mut found);
    found
}

fn table_at<'a>(file: &'a mut Table, place: &[String]) -> &'a mut Table {
    let Some((first, rest)) = place.split_first() else { return file };
    let mut value = &mut file[first.as_str()];
    for step in rest {
        value = match value {
            Value::Array(values) => &mut values[step.parse::<usize>().expect("an index")],
            other => &mut other[step.as_str()],
        };
    }
    value.as_table_mut().expect("a table")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below `folder` that end in `.toml`.
fn shipped(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "no scenarios in {folder}");
    files
}

/// The TOML in a page, one after the other.
fn examples(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).expect(page);
    let blocks = text.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_scenario_is_right_by_the_schema_and_an_unknown_key_by_nothing() {
    let format = Format::scenario();
    let mut tables = 0;
    for path in ["scenarios", "papers", "bench/sim"].into_iter().flat_map(shipped) {
        let name = path.display().to_string();
        let file: Table = toml::from_str(&std::fs::read_to_string(&path).expect(&name)).expect(&name);
        format.check(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        if name.contains("/scenarios/") {
            tables += format.refuses_unknown_keys(&name, &file);
        }
    }
    let documented: Table = toml::from_str(&examples("docs/scenarios.md")[0]).expect("TOML");
    format.check(&documented).unwrap_or_else(|error| panic!("docs/scenarios.md: {error}"));
    tables += format.refuses_unknown_keys("docs/scenarios.md", &documented);
    assert!(tables > 100, "{tables}");
}

#[test]
fn every_configuration_is_right_by_the_schema_and_an_unknown_key_by_nothing() {
    let format = Format::gateway();
    let pages = ["docs/gateway.md", "docs/path-tail.md", "docs/schemes/later.md"];
    let mut tables = 0;
    for page in pages {
        for text in examples(page) {
            (format.read)(&text).unwrap_or_else(|error| panic!("{page}: {error}"));
            let file: Table = toml::from_str(&text).expect(page);
            format.check(&file).unwrap_or_else(|error| panic!("{page}: {error}"));
            tables += format.refuses_unknown_keys(page, &file);
        }
    }
    assert!(tables > 20, "{tables}");
}

#[test]
fn schema_and_reader_agree_about_values() {
    let gateway = Format::gateway();
    for (text, right) in [
        ("", true),
        ("to_access = { initial_window = 1000, ack = \"delayed 40 ms\", rto = \"coarse\" }", true),
        ("to_access = { initial_window = 1001 }", false),
        ("to_access = { initial_window = \"10\" }", false),
        ("to_wan = { mtu = 575 }", false),
        ("to_access = { sack = true }", false),
        ("to_access = { congestion = \"fixed:64 kB\" }", true),
        ("to_access = { congestion = \"tornado\" }", false),
        ("to_access = { ack = \"soon\" }", false),
        ("drain_timeout = \"30\"", false),
        ("memory = { per_flow = \"4 parsecs\" }", false),
        ("name = \"much too long\"", false),
        ("table = 0", false),
        ("senders = {}", true),
        ("senders = { policy = \"split\" }", true),
        ("senders = { policy = \"m-tcp\", after = \"1 s\" }", true),
        ("senders = { policy = \"clamp\", queue = \"1 kB\" }", false),
        ("senders = { policy = \"path-tail\" }", true), // the bandwidth may come from elsewhere
        ("senders = { policy = \"pathtail\" }", false),
        ("policy = [{ ack = \"early\" }]", true),
        ("policy = [{ ack = \"delivered\" }]", true),
        ("policy = [{ ack = \"later\" }]", false),
        ("policy = [{ ack = { kind = \"later\" } }]", false),
        ("policy = [{ ack = { kind = \"later\", after = \"20 ms\" } }]", true),
        ("policy = [{ window = [{ kind = \"freeze\", after = \"20 ms\" }] }]", true),
        ("policy = [{ window = [{ kind = \"later\", after = \"20 ms\" }] }]", false),
        ("policy = [{ mode = \"watch\" }]", false),
        ("policy = [{ match = { dscp = [64] } }]", false),
        ("policy = [{ match = { ports = [65536] } }]", false),
        ("aggregate = { window_share = \"buffer\", uplink = \"none\" }", true),
        ("aggregate = { headroom = -1.0 }", false),
        ("aggregate = { clamp = \"much\" }", false),
    ] {
        let file: Table = toml::from_str(text).expect(text);
        let (schema, reader) = (gateway.check(&file), (gateway.read)(text));
        assert_eq!((schema.is_ok(), reader.is_ok()), (right, right), "{text}: {schema:?} {reader:?}");
    }
    let scenario = Format::scenario();
    let whole = |rest: &str| {
        format!(
            "duration = \"1 s\"\nhosts = {{ a = {{}}, b = {{}} }}\nflows = [{{ from = \"a\", to = \"b\", bulk = \"1 kB\" }}]\n{rest}"
        )
    };
    let link = |rest: &str| whole(&format!("links = [{{ between = [\"a\", \"b\"], {rest} }}]"));
    for (text, right) in [
        (link("link = {}"), true),
        (link("link = { loss = 0.1, rate = \"8 kbit/s\", queue = \"3 packets\" }"), true),
        (link("link = { loss = \"1 %\", outages = \"none\", jitter = \"pareto 5 ms\" }"), true),
        (link("link = { loss = { model = \"bit-errors\", rate = 1e-6 } }"), true),
        (link("link = { loss = { model = \"bit-errors\" } }"), false),
        (link("link = { loss = 1.5 }"), false),
        (link("link = { rate = \"8 kbit\" }"), false),
        (link("link = { reorder = 0.1 }"), false),
        (link("link = {}, mtu = 100"), false),
        (whole("links = [{ between = [\"a\"], link = {} }]"), false),
        (whole("repeats = -1"), false),
    ] {
        let file: Table = toml::from_str(&text).expect(&text);
        let (schema, reader) = (scenario.check(&file), (scenario.read)(&text));
        assert_eq!((schema.is_ok(), reader.is_ok()), (right, right), "{text}: {schema:?} {reader:?}");
    }
}
