//! How the kinds of parts are listed by name: [`ACK_RELEASES`](crate::ACK_RELEASES), [`WINDOW_LIMITS`](crate::WINDOW_LIMITS),
//! [`INTERCEPTORS`](crate::INTERCEPTORS). Tests, fuzzing and random scenarios go through these lists, so that a new row is
//! tested without being listed again.
use alloc::sync::Arc;
#[cfg(feature = "serde")]
pub use reading::{Parameters, PartError};

/// A kind of part.
pub struct Row<K: ?Sized> {
    /// By what name it is picked.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// The parameters that it cannot do without, each with what it is and an example.
    pub wants: &'static [(&'static str, &'static str)],
    /// One with parameters for a link of some Mbit/s, to try it with.
    pub example: fn() -> Arc<K>,
    /// Makes one from its parameters.
    #[cfg(feature = "serde")]
    pub(crate) read: fn(Parameters) -> Result<Arc<K>, PartError>,
    /// How its parameters are written.
    #[cfg(feature = "serde")]
    pub(crate) schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

impl<K: ?Sized> core::fmt::Debug for Row<K> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// A row for a kind, which is read by its own `Deserialize`.
macro_rules! row {
    ($kind:ident as $part:ident, $name:literal, $about:literal, $wants:expr, $example:expr) => {
        $crate::policy::Row {
            name: $name,
            about: $about,
            wants: &$wants,
            example: || ::alloc::sync::Arc::new($example),
            #[cfg(feature = "serde")]
            read: |parameters| {
                let kind: $kind = $crate::policy::read(parameters)?;
                Ok(::alloc::sync::Arc::new(kind) as ::alloc::sync::Arc<dyn $part>)
            },
            #[cfg(feature = "serde")]
            schema: <$kind as ::schemars::JsonSchema>::json_schema,
        }
    };
}
pub(crate) use row;

/// How the parameters of parts are read.
#[cfg(feature = "serde")]
mod reading {
    use super::Row;
    use crate::{ACK_RELEASES, SenderControl, WINDOW_LIMITS};
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use schemars::{Schema, SchemaGenerator, json_schema};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    /// The parameters of a part, as they are written.
    pub type Parameters = serde_json::Map<String, Value>;

    /// What is wrong with a part as it is written, and what to write instead.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum PartError {
        /// What is there is wrong.
        Wrong(String),
        /// Something is missing.
        Missing(String),
    }

    impl core::fmt::Display for PartError {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            let (PartError::Wrong(why) | PartError::Missing(why)) = self;
            f.write_str(why)
        }
    }

    impl core::error::Error for PartError {}

    /// A kind of part from its parameters. What is wrong is said with its key.
    pub(crate) fn read<T: DeserializeOwned>(parameters: Parameters) -> Result<T, PartError> {
        serde_path_to_error::deserialize(Value::Object(parameters)).map_err(|error| {
            let path = error.path().to_string();
            let why = error.inner().to_string();
            // An unknown key is named by the message itself.
            PartError::Wrong(if path == "." || why.contains(&format!("`{path}`")) {
                why
            } else {
                format!("{path}: {why}")
            })
        })
    }

    impl<K: ?Sized> Row<K> {
        /// The part with these parameters.
        ///
        /// # Errors
        /// Names the key and the remedy.
        pub fn part(&self, parameters: &Parameters) -> Result<Arc<K>, PartError> {
            let mut given: Parameters = parameters.clone();
            given.retain(|_, value| !value.is_null());
            let missing = self.wants.iter().find(|(key, _)| !given.contains_key(*key));
            // Whatever is missing, what is there must be right.
            let part = (self.read)(given);
            match (missing, part) {
                (_, Ok(part)) => Ok(part),
                (Some((key, what)), Err(PartError::Wrong(why))) if why.contains("missing field") => {
                    Err(PartError::Missing(format!("{key}: `{}` needs {what}", self.name)))
                }
                (_, Err(error)) => Err(error),
            }
        }
    }

    /// A way to keep senders to the rate of the access link that has a name, but is no single part.
    struct Combination {
        name: &'static str,
        about: &'static str,
        schema: fn(&mut SchemaGenerator) -> Schema,
        parts: fn(&Parameters) -> Result<SenderControl, PartError>,
    }

    const COMBINATIONS: &[Combination] = &[
        Combination {
            name: "split",
            about: "when what they send has come, and as much as there is memory for",
            schema: |_| json_schema!({ "properties": {} }),
            parts: |parameters| match parameters.iter().find(|(_, value)| !value.is_null()) {
                None => Ok(SenderControl::default()),
                Some((key, _)) => Err(PartError::Wrong(format!(
                    "{key}: `split` has no such parameter, it has nothing to set"
                ))),
            },
        },
        Combination {
            name: "m-tcp",
            about: "when delivered, but for the last byte, and nothing while the receiver is silent",
            schema: |generator| {
                let freeze = WINDOW_LIMITS.iter().find(|row| row.name == "freeze");
                freeze.map_or_else(Schema::default, |row| (row.schema)(generator))
            },
            parts: |parameters| {
                let window = find(WINDOW_LIMITS, "freeze")?.part(parameters)?;
                let ack = find(ACK_RELEASES, "delivered")?.part(&Parameters::new())?;
                Ok(SenderControl { ack: Some(ack), window: [window].into() })
            },
        },
    ];

    /// The row with this name.
    ///
    /// # Errors
    /// Says which names there are.
    pub(in crate::policy) fn find<'a, K: ?Sized>(
        rows: &'a [Row<K>],
        name: &str,
    ) -> Result<&'a Row<K>, PartError> {
        rows.iter().find(|row| row.name == name).ok_or_else(|| {
            let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
            PartError::Wrong(format!("`{name}` is none; write one of {}", names.join(", ")))
        })
    }

    /// The names by which a way to keep senders to the rate of the access link is picked.
    pub(in crate::policy) fn sender_controls() -> impl Iterator<Item = &'static str> {
        let combinations = COMBINATIONS.iter().map(|combination| combination.name);
        let parts = ACK_RELEASES.iter().map(|row| row.name).chain(WINDOW_LIMITS.iter().map(|row| row.name));
        combinations.chain(parts)
    }

    /// How a part is written that `key` picks: a table with that and the part's parameters, which may come from elsewhere
    /// if `partly`.
    fn table(key: &str, name: &str, about: &str, parameters: &Schema, partly: bool) -> Value {
        let mut table = parameters.as_object().cloned().unwrap_or_default();
        let of_key = json!({ "const": name, "description": about });
        let keys = table.entry("properties").or_insert_with(|| json!({}));
        keys.as_object_mut().expect("a table has keys").insert(key.to_string(), of_key);
        let required = if partly { None } else { table.remove("required") };
        let mut required = required.and_then(|keys| keys.as_array().cloned()).unwrap_or_default();
        required.push(key.into());
        table.insert("required".into(), required.into());
        table.insert("type".into(), "object".into());
        table.insert("additionalProperties".into(), false.into());
        table.into()
    }

    /// How a part of a registry is written: a table, or its name alone where it has parameters none of which it needs.
    pub(in crate::policy) fn part_schema<K: ?Sized>(
        generator: &mut SchemaGenerator,
        rows: &[Row<K>],
        words: &[&str],
    ) -> Schema {
        let bare = rows.iter().filter(|row| row.wants.is_empty()).map(|row| row.name);
        let bare: Vec<&str> = words.iter().copied().chain(bare).collect();
        let tables =
            rows.iter().map(|row| table("kind", row.name, row.about, &(row.schema)(generator), false));
        let tables: Vec<Value> = tables
            .chain(words.iter().map(|word| table("kind", word, "", &Schema::default(), false)))
            .collect();
        let bare = (!bare.is_empty()).then(|| json!({ "enum": bare }));
        json_schema!({ "anyOf": bare.into_iter().chain(tables).collect::<Vec<_>>() })
    }

    /// How a way to keep senders to the rate of the access link is written.
    pub(in crate::policy) fn sender_control_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut ways = Vec::from([json!({ "type": "object", "additionalProperties": false })]);
        let mut add =
            |name, about, parameters: &Schema| ways.push(table("policy", name, about, parameters, true));
        for combination in COMBINATIONS {
            add(combination.name, combination.about, &(combination.schema)(generator));
        }
        for row in ACK_RELEASES {
            add(row.name, row.about, &(row.schema)(generator));
        }
        for row in WINDOW_LIMITS {
            add(row.name, row.about, &(row.schema)(generator));
        }
        json_schema!({ "anyOf": ways })
    }

    /// The parts that a name picks.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub(in crate::policy) fn sender_control(
        name: &str,
        parameters: &Parameters,
    ) -> Result<SenderControl, PartError> {
        if let Some(combination) = COMBINATIONS.iter().find(|combination| combination.name == name) {
            return (combination.parts)(parameters);
        }
        if let Ok(row) = find(ACK_RELEASES, name) {
            return Ok(SenderControl { ack: Some(row.part(parameters)?), window: Vec::new() });
        }
        if let Ok(row) = find(WINDOW_LIMITS, name) {
            return Ok(SenderControl { ack: None, window: [row.part(parameters)?].into() });
        }
        let names: Vec<&str> = sender_controls().collect();
        Err(PartError::Wrong(format!("policy: `{name}` is none; write one of {}", names.join(", "))))
    }
}
#[cfg(feature = "serde")]
pub(crate) use reading::read;
#[cfg(feature = "serde")]
pub(super) use reading::{find, part_schema, sender_control, sender_control_schema, sender_controls};
