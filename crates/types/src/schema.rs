//! The formats of files as JSON schemas (draft 2020-12), with which editors complete and check keys.
//!
//! A schema is derived from the very types that are read: their keys, their documentation, their usual values, their ranges.
//! Here is what they share: how quantities are written, and [`document`], which makes the whole of it.
#[doc(hidden)]
pub use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// The schema of files that are read as a `T`.
pub fn document<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(tidy).transform(&mut schema);
    schema
}

/// A text of a certain form: what it is, and what may be written.
pub fn text(about: &str, examples: &[&str]) -> Schema {
    json_schema!({ "type": "string", "description": about, "examples": examples })
}

/// One of these words.
pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    json_schema!({ "enum": words.into_iter().collect::<Vec<_>>() })
}

/// What is written in one of several ways.
pub fn any_of<const N: usize>(ways: [Schema; N]) -> Schema {
    json_schema!({ "anyOf": ways.as_slice() })
}

/// The keys of a `T`, and those of an `O` beside them, as [`serde_beside`](crate::serde_beside) reads them; without those
/// that may not stand there.
pub fn beside<T: JsonSchema, O: JsonSchema>(
    generator: &mut SchemaGenerator,
    is_refused: impl Fn(&str) -> bool,
) -> Schema {
    let keys = |schema: Schema| match schema.get("properties") {
        Some(Value::Object(keys)) => keys.clone(),
        _ => serde_json::Map::new(),
    };
    let mut all = keys(T::json_schema(generator));
    all.retain(|key, _| !is_refused(key));
    all.extend(keys(O::json_schema(generator)));
    json_schema!({ "type": "object", "properties": all, "additionalProperties": false })
}

/// How a type is written, for a type that is read by hand.
#[macro_export]
macro_rules! written_as {
    ($type:ty, $name:literal, $schema:expr) => {
        impl ::schemars::JsonSchema for $type {
            fn schema_name() -> $crate::schema::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let schema: fn(&mut ::schemars::SchemaGenerator) -> ::schemars::Schema = $schema;
                schema(generator)
            }
        }
    };
}

/// The same, where it has to be as this regular expression says.
pub fn pattern(pattern: &str, mut text: Schema) -> Schema {
    text.insert("pattern".to_string(), pattern.into());
    text
}

/// A text that is a number with one of these units.
fn quantity(about: &str, units: &str, examples: &[&str]) -> Schema {
    pattern(&alloc::format!("^\\s*[0-9._]+\\s*({units})\\s*$"), text(about, examples))
}

/// How a [`core::time::Duration`] is written.
#[derive(Debug)]
pub struct Duration;

written_as!(Duration, "Duration", |_| quantity(
    "a time: a number and a unit (ns, us, ms, s, min, h)",
    "ns|us|µs|ms|s|min|h",
    &["64 ms", "1.5 s", "250 us"]
));

written_as!(crate::Bytes, "Bytes", |_| quantity(
    "a size: a number and a unit (B, kB, MB, GB, KiB, MiB, GiB)",
    "B|[kKMG]B|[KMG]iB|",
    &["1500 B", "120 kB", "4 MiB"]
));

written_as!(crate::BitRate, "BitRate", |_| quantity(
    "a rate: a number and a unit (bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s)",
    "[kMG]?bit/s|[kMG]b/s|[kMG]?bps|[kMG]?B/s",
    &["32 Mbit/s", "9600 bit/s", "4.15 kB/s"]
));

/// Takes out what is right in JSON and does not exist in TOML, or is meant for readers of the code.
fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    object.retain(|key, value| !(key == "default" && value.is_null()));
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(ways)) = object.get_mut("anyOf") {
        ways.retain(|way| way.get("type") != Some(&Value::String("null".into())));
        if let [Value::Object(only)] = &ways[..] {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::String(about)) = object.get_mut("description") {
        *about = plain(about);
    }
}

/// Documentation without what links it to the code, a paragraph a line.
fn plain(documentation: &str) -> String {
    let paragraphs = documentation.split("\n\n").take_while(|paragraph| !paragraph.contains("```"));
    let paragraphs: Vec<String> = paragraphs.map(|paragraph| paragraph.replace('\n', " ")).collect();
    let mut text = Cow::from(paragraphs.join("\n"));
    while let Some((before, link)) = text.split_once("[`") {
        let Some((name, mut after)) = link.split_once("`]") else { break };
        if let Some(target) = after.strip_prefix('(') {
            after = target.split_once(')').map_or("", |(_, after)| after);
        }
        text = alloc::format!("{before}`{name}`{after}").into();
    }
    text.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BitRate, Bytes};
    use alloc::boxed::Box;

    /// What a file has.
    ///
    /// See [`Duration`](crate::schema::Duration), of
    /// which there are several.
    #[derive(JsonSchema, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct File {
        /// How much.
        size: Option<Bytes>,
        count: Option<u32>,
        inner: Option<Box<File>>,
        rate: BitRate,
    }

    #[test]
    fn what_may_be_left_out_is_not_null_and_descriptions_are_for_readers_of_files() {
        let schema = document::<File>();
        let text = serde_json::to_string(&schema).unwrap();
        assert!(!text.contains("null"), "{text}");
        let about = schema.pointer("/description").and_then(Value::as_str);
        assert_eq!(about, Some("What a file has.\nSee `Duration`, of which there are several."));
        assert_eq!(schema.pointer("/properties/size/description"), Some(&Value::from("How much.")));
        assert_eq!(schema.pointer("/properties/size/$ref"), Some(&Value::from("#/$defs/Bytes")));
        assert_eq!(schema.pointer("/properties/count/type"), Some(&Value::from("integer")));
        assert_eq!(schema.pointer("/additionalProperties"), Some(&Value::from(false)));
    }
}
