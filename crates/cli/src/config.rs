//! `shorthaul config`: a complete configuration file with comments, made from the types that are read.
use serde_json::{Map, Value};
use shorthaul_dataplane::Config;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Print a complete configuration file of a gateway, with comments and usual values
///
/// `shorthaul config --access wlan0 --wan eth0 > gateway.toml`, and `shorthaul gateway --config gateway.toml --check`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// An interface toward the bad link (repeat for several)
    #[arg(long, value_name = "IF")]
    access: Vec<String>,
    /// An interface toward the rest of the world (repeat for several)
    #[arg(long, value_name = "IF")]
    wan: Vec<String>,
    /// Where metrics and the page are served, a loopback address; 127.0.0.1:7090 if none is given
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7090")]
    metrics: Option<SocketAddr>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    print!("{}", gateway_file(args));
    Ok(())
}

/// Comments have lines of at most this many characters.
const WIDTH: usize = 100;

/// The file, with what is given filled in.
pub fn gateway_file(given: &Args) -> String {
    let schema = serde_json::to_value(Config::schema()).unwrap_or_default();
    let mut text = String::from(
        "# A gateway's configuration. Keys that are commented out have the values that stand there, unless it says `an example`\n\
         # or `left out`. A key below a line such as `#[memory]` needs that line, too.\n\
         # `shorthaul gateway --config FILE --check` says what it would do; docs/gateway.md, of a package in\n\
         # /usr/share/doc/shorthaul, says more.\n\n",
    );
    for (key, interfaces, comment) in [
        ("access", &given.access, "the interfaces toward the bad link, such as [\"wlan0\"]"),
        ("wan", &given.wan, "those toward the rest of the world, such as [\"eth0\"]"),
    ] {
        let line = format!("{key} = {}", toml_value(&interfaces.clone().into()));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line:<27} # {comment}");
    }
    let writer = Writer { definitions: schema["$defs"].as_object().cloned().unwrap_or_default() };
    writer.keys(&mut text, &schema, "", &["access", "wan"]);
    if let Some(address) = given.metrics {
        let written = |line: &str| match line.starts_with("#metrics = ") {
            true => format!("metrics = \"{address}\"\n"),
            false => format!("{line}\n"),
        };
        text = text.lines().map(written).collect();
    }
    text
}

struct Writer {
    definitions: Map<String, Value>,
}

impl Writer {
    /// What a schema says, with what it refers to beneath it.
    fn resolved(&self, schema: &Value) -> Value {
        let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        let Some(Value::Object(target)) = name.and_then(|name| self.definitions.get(name)) else {
            return schema.clone();
        };
        let mut all = target.clone();
        all.extend(schema.as_object().cloned().unwrap_or_default());
        Value::Object(all)
    }

    /// The keys of `schema`: first those of one line, then tables.
    fn keys(&self, text: &mut String, schema: &Value, table: &str, but: &[&str]) {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let all = properties.iter().filter(|(key, _)| !but.contains(&key.as_str()));
        let all: Vec<(&String, Value)> = all.map(|(key, value)| (key, self.resolved(value))).collect();
        let is_table = |schema: &Value| schema["properties"].is_object();
        let is_list_of_tables = |schema: &Value| is_table(&self.resolved(&schema["items"]));
        for (key, schema) in all.iter().filter(|(_, schema)| !is_table(schema) && !is_list_of_tables(schema))
        {
            comment(text, schema);
            // Nothing else is a value that somebody would want: the first word of a list, and the least of a range, are none.
            let usual = schema.get("default").filter(|value| !value.is_null());
            let line = match (usual, schema["examples"].get(0)) {
                (Some(value), _) => format!("#{key} = {}", toml_value(value)),
                (None, Some(example)) => format!("#{key} = {}        # an example", toml_value(example)),
                (None, None) => format!("#{key} =        # left out"),
            };
            let _ = writeln!(text, "{line}");
        }
        for (key, schema) in all.iter().filter(|(_, schema)| is_table(schema)) {
            comment(text, schema);
            let name = if table.is_empty() { (*key).clone() } else { format!("{table}.{key}") };
            let _ = writeln!(text, "#[{name}]");
            self.keys(text, schema, &name, &[]);
        }
        for (key, schema) in all.iter().filter(|(_, schema)| is_list_of_tables(schema)) {
            comment(text, schema);
            let name = if table.is_empty() { (*key).clone() } else { format!("{table}.{key}") };
            let item = self.resolved(&schema["items"]);
            let keys = item["properties"].as_object().map(|keys| keys.keys().cloned().collect::<Vec<_>>());
            let _ =
                writeln!(text, "#[[{name}]]        # with the keys {}", keys.unwrap_or_default().join(", "));
        }
    }
}

/// What a key is, in lines that begin with `#`.
fn comment(text: &mut String, schema: &Value) {
    let mut line = String::from("\n#");
    for word in schema["description"].as_str().unwrap_or_default().split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = "#".into();
        }
        line.push(' ');
        line.push_str(word);
    }
    let words = schema["enum"].as_array().cloned().unwrap_or_default();
    if !words.is_empty() {
        let words: Vec<String> = words.iter().map(toml_value).collect();
        let _ = write!(line, " One of {}.", words.join(", "));
    }
    let _ = writeln!(text, "{line}");
}

/// A value of JSON in TOML.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Object(keys) => {
            let pairs: Vec<String> = keys
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{key} = {}", toml_value(value)))
                .collect();
            if pairs.is_empty() { "{}".into() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_is_what_holds_without_it() {
        let text = gateway_file(&Args::default());
        let read: Config = toml::from_str(&text).unwrap();
        assert_eq!(read, Config::default());
        for key in [
            "#metrics =",
            "#[memory]",
            "#per_flow = ",
            "#[[policy]]",
            "#idle_timeout = \"7440 s\"",
            "#name = \"gw\"",
        ] {
            assert!(text.contains(key), "{key} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 200), "{text}");
    }

    #[test]
    fn what_is_given_is_filled_in() {
        let metrics = ([127, 0, 0, 1], 7091).into();
        let given = Args {
            access: vec!["wlan0".into(), "wlan1".into()],
            wan: vec!["eth0".into()],
            metrics: Some(metrics),
        };
        let read: Config = toml::from_str(&gateway_file(&given)).unwrap();
        let wanted =
            Config { access: given.access, wan: given.wan, metrics: given.metrics, ..Config::default() };
        assert_eq!(read, wanted);
    }

    #[test]
    fn what_is_said_to_hold_is_what_holds() {
        // The top and [memory] have values for all that has one.
        let text = gateway_file(&Args::default());
        for key in ["drain_timeout", "idle_timeout", "name", "priority", "run_dir", "table"] {
            let line = text.lines().find(|line| line.starts_with(&format!("#{key} = "))).unwrap();
            let read: Config = toml::from_str(&line[1..]).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(read, Config::default(), "{line}");
        }
    }

    #[test]
    fn each_line_with_a_value_is_accepted_without_its_hash() {
        let text = gateway_file(&Args::default());
        let (mut section, mut count) = (String::new(), 0);
        for line in text.lines() {
            let Some(line) = line.strip_prefix('#').filter(|line| !line.starts_with(' ')) else { continue };
            if line.starts_with('[') {
                section = line.to_owned();
            } else if !section.starts_with("[[") && !line.ends_with("# left out") {
                let one = format!("{section}\n{line}\n");
                if let Err(error) = toml::from_str::<Config>(&one) {
                    panic!("{one}{error}");
                }
                count += 1;
            }
        }
        assert!(count > 30, "{count}");
    }
}
