//! The reference as documents, made from the program itself: commands, keys of files, metrics.
//!
//! `shorthaul generate DIR` writes them into `DIR/reference`, `make reference` from there into `docs/reference`; a test says when
//! those there are not what the program would write.
use serde_json::{Map, Value};
use shorthaul_dataplane::Config;
use std::fmt::Write as _;

const MADE: &str = "<!-- Made by `make reference` from the program: change it there. -->\n\n";

/// The documents, with the names of their files.
pub fn documents(command: clap::Command) -> Vec<(&'static str, String)> {
    let gateway = serde_json::to_value(Config::schema()).unwrap_or_default();
    let mut all = vec![
        ("commands.md", commands(command)),
        (
            "gateway.md",
            file(
                "Keys of a gateway's configuration",
                "What `shorthaul gateway --config FILE` reads.",
                &gateway,
            ),
        ),
        ("metrics.md", metrics()),
    ];
    #[cfg(feature = "study")]
    all.push((
        "scenario.md",
        file(
            "Keys of a scenario",
            "What `shorthaul run FILE` reads. Topologies of `shorthaul lab` have the same hosts and links.",
            &serde_json::to_value(shorthaul_scenario::schema()).unwrap_or_default(),
        ),
    ));
    all.iter_mut().for_each(|(_, text)| text.truncate(text.trim_end().len() + 1));
    all
}

/// Every command with its options.
fn commands(mut command: clap::Command) -> String {
    command.build();
    let mut text = format!(
        "{MADE}# All commands\n\nIn groups, with examples and exit statuses: [commands](../commands.md).\n"
    );
    let mut own: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    own.sort_by(|a, b| a.get_name().cmp(b.get_name()));
    own.into_iter().for_each(|command| one_command(&mut text, "shorthaul", command));
    text
}

fn one_command(text: &mut String, above: &str, command: clap::Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{above} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    // Writing to a string does not fail, here and below.
    let _ = write!(text, "\n## {name}\n\n{}\n", paragraphs(&about));
    let arguments: Vec<&clap::Arg> =
        command.get_arguments().filter(|own| !own.is_hide_set() && own.get_id() != "help").collect();
    if !arguments.is_empty() {
        text.push_str("\n| option | what it is |\n|---|---|\n");
    }
    for argument in arguments {
        let values: Vec<String> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let value = value.map(|names| names.iter().map(|name| format!(" <{name}>")).collect::<String>());
        let written = match (argument.get_long(), argument.get_short()) {
            (Some(long), _) => format!("--{long}{}", value.unwrap_or_default()),
            (None, Some(short)) => format!("-{short}{}", value.unwrap_or_default()),
            (None, None) => value.unwrap_or_default().trim().to_owned(),
        };
        let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
        let mut help = cell(&help.unwrap_or_default());
        if !help.is_empty() && !help.ends_with('.') {
            help.push('.');
        }
        if !values.is_empty()
            && argument.get_action().takes_values()
            && !argument.is_hide_possible_values_set()
        {
            let _ = write!(help, " One of {}.", values.join(", "));
        }
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() && argument.get_action().takes_values() {
            let _ = write!(help, " Otherwise `{}`.", defaults.join(" "));
        }
        let _ = writeln!(text, "| `{written}` | {} |", help.trim());
    }
    for own in command.get_subcommands().cloned().collect::<Vec<_>>() {
        one_command(text, &name, own);
    }
}

/// The keys of a file: its own, and then what they are made of, by name.
fn file(title: &str, about: &str, schema: &Value) -> String {
    let mut text = format!("{MADE}# {title}\n\n{about}\n");
    keys(&mut text, schema);
    for (name, schema) in schema["$defs"].as_object().unwrap_or(&Map::new()) {
        let _ = write!(
            text,
            "\n## {name}\n\n{}\n",
            paragraphs(schema["description"].as_str().unwrap_or_default())
        );
        keys(&mut text, schema);
        let ways = ["oneOf", "anyOf"].iter().find_map(|way| schema[way].as_array());
        for way in ways.into_iter().flatten() {
            if way["properties"].is_object() {
                keys(&mut text, way);
                continue;
            }
            let about =
                way["description"].as_str().map(|about| format!(": {}", cell(about))).unwrap_or_default();
            let _ = write!(text, "\n- {}{about}", what(way));
        }
        if ways.is_some() {
            text.push('\n');
        }
        let words: Vec<String> = schema["enum"].as_array().into_iter().flatten().map(code).collect();
        let examples: Vec<String> = schema["examples"].as_array().into_iter().flatten().map(code).collect();
        for (said, list) in [("One of", words), ("Such as", examples)] {
            if !list.is_empty() {
                let _ = write!(text, "\n{said} {}.\n", list.join(", "));
            }
        }
    }
    text
}

/// A table of the keys of a schema; nothing where it has none.
fn keys(text: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    text.push_str("\n| key | is | otherwise | what it means |\n|---|---|---|---|\n");
    for (key, schema) in properties {
        let otherwise = match &schema["default"] {
            _ if required.contains(&key.as_str()) => "must be given".to_owned(),
            Value::Null => String::new(),
            Value::Object(keys) if keys.len() > 2 => "see there".to_owned(),
            value => code(value),
        };
        let about = cell(schema["description"].as_str().unwrap_or_default());
        let _ = writeln!(text, "| `{key}` | {} | {otherwise} | {about} |", what(schema).replace('|', "\\|"));
    }
}

/// What a schema takes, in words.
fn what(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if !schema["const"].is_null() {
        return code(&schema["const"]);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(code).collect::<Vec<_>>().join(" or ");
    }
    for way in ["anyOf", "oneOf"] {
        if let Some(ways) = schema[way].as_array() {
            let ways = ways.iter().filter(|way| way["type"] != "null").map(what);
            return ways.collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(ways) = schema["allOf"].as_array() {
        return ways.iter().map(what).collect::<Vec<_>>().join(" and ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    };
    let range = match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(low), Value::Number(high)) => format!(", {low} to {high}"),
        (Value::Number(low), _) => format!(", {low} or more"),
        _ => String::new(),
    };
    match kind {
        Some("array") => format!("list of {}", what(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("table of names, each {}", what(&schema["additionalProperties"]))
        }
        Some("object") if schema["properties"].is_object() => {
            let keys =
                schema["properties"].as_object().into_iter().flatten().map(|(key, _)| format!("`{key}`"));
            format!("table with {}", keys.collect::<Vec<_>>().join(", "))
        }
        Some("object") => "table".to_owned(),
        Some("integer") => format!("whole number{range}"),
        Some("number") => format!("number{range}"),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("string") => "text".to_owned(),
        Some(other) => other.to_owned(),
        None => "any value".to_owned(),
    }
}

/// What gateways and nodes tell Prometheus.
fn metrics() -> String {
    let mut text = format!(
        "{MADE}# Metrics\n\nOf a gateway with `metrics = \"127.0.0.1:7090\"`, and of a node with `--metrics`. What they mean to an \
         operator: [monitoring](../monitoring.md) and [relays](../relay.md).\n"
    );
    for (title, exposed) in [
        ("Gateway", shorthaul_monitor::metrics_of_everything()),
        ("Node", shorthaul_relay::metrics_of_everything()),
    ] {
        let _ = write!(text, "\n## {title}\n\n| name | kind | labels | what |\n|---|---|---|---|\n");
        let said = |what: &str, name: &str| {
            let start = format!("# {what} {name} ");
            exposed.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
        };
        for line in exposed.lines() {
            let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
            else {
                continue;
            };
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let is_sample = |line: &&str| line.starts_with(&format!("{name}{suffix}{{"));
            let sample = exposed.lines().find(is_sample).unwrap_or_default();
            let inner = sample
                .split_once('{')
                .and_then(|(_, rest)| rest.split_once('}'))
                .map_or("", |(inner, _)| inner);
            let labels = inner
                .split("\",")
                .filter_map(|label| label.split_once('='))
                .map(|(name, _)| format!("`{name}`"));
            let labels: Vec<String> = labels.collect();
            let about = said("HELP", name);
            let _ = writeln!(
                text,
                "| `{name}{suffix}` | {kind} | {} | {} |",
                labels.join(", "),
                cell(about.trim_end_matches('.'))
            );
        }
    }
    text
}

/// A value as it is written in TOML, or nearly.
fn code(value: &Value) -> String {
    format!("`{}`", value.to_string().replace('|', "\\|"))
}

/// A text for a cell of a table: in one line, and without what Markdown takes for its own.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
        .replace('<', "\\<")
        .replace('[', "\\[")
}

/// A text of several paragraphs.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(cell).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::path::Path;

    /// What stands in docs/reference is what this program would write.
    #[cfg(feature = "study")]
    #[test]
    fn the_reference_is_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let stale: Vec<&str> = documents(crate::Cli::command())
            .into_iter()
            .filter(|(name, text)| std::fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text))
            .map(|(name, _)| name)
            .collect();
        assert!(
            stale.is_empty(),
            "docs/reference is not what the program says, in {stale:?}: run `make reference`"
        );
    }

    #[test]
    fn every_command_option_key_and_metric_is_in_it() {
        let documents = documents(crate::Cli::command());
        let of = |wanted: &str| &documents.iter().find(|(name, _)| *name == wanted).expect(wanted).1;
        for wanted in
            ["## shorthaul gateway", "`--access <", "## shorthaul secret", "`--json`", "Otherwise `"]
        {
            assert!(of("commands.md").contains(wanted), "{wanted} is not in\n{}", of("commands.md"));
        }
        assert!(
            !of("commands.md").contains("shorthaul help")
                && !of("commands.md").contains("shorthaul generate")
        );
        for wanted in ["| `access` |", "## Memory", "| `per_flow` | [Bytes](#bytes) |", "- `\"observe\"`: "] {
            assert!(of("gateway.md").contains(wanted), "{wanted} is not in\n{}", of("gateway.md"));
        }
        for wanted in [
            "| `shorthaul_gateway_flows_not_split_total` | counter | `reason` |",
            "| `shorthaul_gateway_gain_ratio` | gauge | `policy`, `access`, `servers`, `direction`, `bytes` |",
            "| `shorthaul_gateway_access_queueing_delay_seconds` | histogram |",
            "| `shorthaul_user_bytes_total` | counter | `user` |",
        ] {
            assert!(of("metrics.md").contains(wanted), "{wanted} is not in\n{}", of("metrics.md"));
        }
    }
}
