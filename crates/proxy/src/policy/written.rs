//! The form in which people write policies, in TOML.
use super::registry::find;
use super::registry::{part_schema, sender_control, sender_control_schema, sender_controls};
use super::{FlowMatch, Mode, Parameters, PartError, Policy, PolicyError, Row, SenderControl, Setting};
use crate::{ACK_RELEASES, AggregateConfig, INTERCEPTORS, LegConfig, LegSpec, WINDOW_LIMITS};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use shorthaul_congestion::Algorithm;
use shorthaul_tcp::ProfilePatch;
use shorthaul_types::{Bytes, schema, written_as};

/// How senders in the wide area network are kept to the rate of the access link, by a name and its parameters: those of the
/// part, or parts, that the name picks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SenderSpec {
    /// `split`, `path-tail`, `clamp`, …
    pub policy: Option<String>,
    /// Its parameters.
    #[serde(flatten)]
    pub parameters: Parameters,
}

written_as!(SenderSpec, "SenderControl", sender_control_schema);

impl<'de> Deserialize<'de> for SenderSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut parameters = Parameters::deserialize(deserializer)?;
        let policy = match parameters.remove("policy") {
            None | Some(serde_json::Value::Null) => None,
            Some(serde_json::Value::String(name)) => Some(name),
            Some(other) => {
                return Err(serde::de::Error::custom(alloc::format!(
                    "policy: `{other}` is no name: write one such as \"path-tail\""
                )));
            }
        };
        let spec = SenderSpec { policy, parameters };
        match spec.parts() {
            // The rest may come from elsewhere.
            Err(PartError::Wrong(why)) if spec.policy.is_some() => Err(serde::de::Error::custom(why)),
            _ => Ok(spec),
        }
    }
}

impl SenderSpec {
    /// The names of all policies.
    pub fn policies() -> impl Iterator<Item = &'static str> {
        sender_controls()
    }

    /// Gives a parameter another value.
    ///
    /// # Panics
    /// If the value cannot be written as JSON.
    pub fn set(&mut self, key: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).expect("a parameter is a plain value");
        self.parameters.insert(key.to_string(), value);
    }

    fn parts(&self) -> Result<SenderControl, PartError> {
        sender_control(self.policy.as_deref().unwrap_or("split"), &self.parameters)
    }

    /// What it means, checked, for a gateway that holds `flow_buffer` of each direction of a flow.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn resolve(&self, flow_buffer: Bytes) -> Result<SenderControl, PartError> {
        let control = self.parts()?;
        control.check(&Setting { flow_buffer, aggregate: None }).map_err(PartError::Wrong)?;
        Ok(control)
    }
}

/// A part as it is written: its kind by name, or a table with that and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSpec {
    /// The name of its kind.
    pub kind: String,
    /// Its parameters.
    pub parameters: Parameters,
}

impl Serialize for PartSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = self.parameters.clone();
        table.insert("kind".into(), self.kind.clone().into());
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PartSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        use serde_json::Value;
        match Value::deserialize(deserializer)? {
            Value::String(kind) => Ok(PartSpec { kind, parameters: Parameters::new() }),
            Value::Object(mut parameters) => match parameters.remove("kind") {
                Some(Value::String(kind)) => Ok(PartSpec { kind, parameters }),
                _ => Err(D::Error::custom("kind: a part is picked by its name: write kind = \"...\"")),
            },
            other => Err(D::Error::custom(alloc::format!(
                "`{other}` is no part: write a name, or a table such as {{ kind = \"clamp\", window = \"12 kB\" }}"
            ))),
        }
    }
}

impl PartSpec {
    fn part<K: ?Sized>(&self, rows: &[Row<K>]) -> Result<Arc<K>, PartError> {
        find(rows, &self.kind)?.part(&self.parameters)
    }

    /// Reads parts of one registry, so that what is wrong is said where it stands.
    fn checked<'de, K: ?Sized, T: Deserialize<'de> + AsRef<[PartSpec]>, D: Deserializer<'de>>(
        deserializer: D,
        rows: &[Row<K>],
    ) -> Result<T, D::Error> {
        let parts = T::deserialize(deserializer)?;
        for part in parts.as_ref() {
            part.part(rows).map_err(serde::de::Error::custom)?;
        }
        Ok(parts)
    }
}

/// `"early"`, or a release.
fn ack<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PartSpec>, D::Error> {
    let part = PartSpec::deserialize(deserializer)?;
    if part.kind != EARLY {
        part.part(ACK_RELEASES).map_err(serde::de::Error::custom)?;
    }
    Ok(Some(part))
}

fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PartSpec>, D::Error> {
    PartSpec::checked(deserializer, WINDOW_LIMITS)
}

fn intercept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PartSpec>, D::Error> {
    PartSpec::checked(deserializer, INTERCEPTORS)
}

/// How a gateway that knows nothing sends what mobile hosts upload: their own congestion control has no part in it, and must
/// not be missed. This one keeps queues short, and takes no random loss for congestion.
const TO_WAN: Algorithm = Algorithm::Bbr;
/// The share of flows that mode `auto` observes instead of splitting them, to compare with.
const CONTROL_GROUP: f64 = 0.02;
/// What acknowledging as bytes arrive is called.
const EARLY: &str = "early";

/// A policy as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// For which flows it is.
    #[serde(rename = "match")]
    pub matches: FlowMatch,
    /// Whether we stand in them.
    pub mode: Mode,
    /// What is different in sending toward the access side.
    #[serde(alias = "to_edge", skip_serializing_if = "Option::is_none")]
    pub to_access: Option<LegSpec>,
    /// What is different in sending toward the rest of the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_wan: Option<LegSpec>,
    /// When senders in the wide area network are acknowledged, and how much they are offered, by one name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senders: Option<SenderSpec>,
    /// When they are acknowledged.
    #[serde(deserialize_with = "ack", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ack_schema")]
    pub ack: Option<PartSpec>,
    /// How much they are offered.
    #[serde(deserialize_with = "window", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "window_schema")]
    pub window: Vec<PartSpec>,
    /// How the connections to one host are served together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<AggregateConfig>,
    /// What looks into flows that stay whole.
    #[serde(deserialize_with = "intercept", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "intercept_schema")]
    pub intercept: Vec<PartSpec>,
    /// The share of flows that are observed instead of split, to compare with: from 0 (nothing is compared) to 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 0.5))]
    pub control_group: Option<f64>,
}

impl PolicySpec {
    /// The parts that it picks. How we send is left as it usually is.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn parts(&self) -> Result<Policy, PolicyError> {
        let refuse = |key, why: String| PolicyError { policy: None, key, why };
        if self.mode != Mode::Split && (self.to_access.is_some() || self.to_wan.is_some()) {
            let key = if self.to_access.is_some() { "to_access" } else { "to_wan" };
            let why = "nothing is sent in the name of the ends of a flow that stays whole; leave it out, or write mode = \"split\"";
            return Err(refuse(key, why.into()));
        }
        let senders = match &self.senders {
            Some(_) if self.ack.is_some() || !self.window.is_empty() => {
                let why = "it picks what `ack` and `window` say one by one; leave it out, or these";
                return Err(refuse("senders", why.into()));
            }
            Some(spec) => spec.parts().map_err(|error| refuse("senders", error.to_string()))?,
            None => {
                let ack = self.ack.as_ref().filter(|part| part.kind != EARLY);
                let ack = ack.map(|part| part.part(ACK_RELEASES)).transpose();
                let window = self.window.iter().map(|part| part.part(WINDOW_LIMITS)).collect();
                SenderControl {
                    ack: ack.map_err(|error| refuse("ack", error.to_string()))?,
                    window: Result::<_, PartError>::map_err(window, |error| {
                        refuse("window", error.to_string())
                    })?,
                }
            }
        };
        let intercept = self.intercept.iter().map(|part| part.part(INTERCEPTORS)).collect();
        Ok(Policy {
            matches: self.matches.clone(),
            mode: self.mode,
            senders,
            aggregate: self.aggregate.clone().map(Arc::new),
            intercept: Result::<_, PartError>::map_err(intercept, |error| {
                refuse("intercept", error.to_string())
            })?,
            control_group: self.control_group.unwrap_or(0.0),
            ..Policy::default()
        })
    }
}

fn ack_schema(generator: &mut SchemaGenerator) -> Schema {
    part_schema(generator, ACK_RELEASES, &[EARLY])
}

fn window_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": part_schema(generator, WINDOW_LIMITS, &[]) })
}

fn intercept_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": part_schema(generator, INTERCEPTORS, &[]) })
}

/// How a prefix is written.
pub(crate) struct Prefix;

written_as!(Prefix, "Prefix", |_| schema::text(
    "a prefix of addresses, or one address",
    &["10.1.0.0/16", "fd00:1::/32", "192.0.2.7"]
));

/// Prefixes such as `10.1.0.0/16`, or addresses.
pub(crate) mod prefixes {
    use alloc::string::String;
    use alloc::vec::Vec;
    use ipnet::IpNet;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(prefixes: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
        prefixes.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| crate::path_tail::prefix(text).map_err(serde::de::Error::custom)).collect()
    }
}

/// What a gateway does to the flows that no policy of the list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GatewayMode {
    /// It finds out which side binds, and holds that side: the connections of a host share a window where its link does, and
    /// their senders are held where the bottleneck is beyond the gateway.
    Auto,
    /// Each connection is split, and by itself.
    Split,
}

impl GatewayMode {
    /// All, with their names.
    pub const ALL: [(GatewayMode, &'static str); 2] =
        [(GatewayMode::Auto, "auto"), (GatewayMode::Split, "split")];
}

impl fmt::Display for GatewayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL.iter().find(|(mode, _)| mode == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for GatewayMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text.trim()).map(|(mode, _)| *mode);
        found.ok_or_else(|| alloc::format!("`{text}` is no mode: write \"auto\" or \"split\""))
    }
}

/// What is written of policies: a list for classes of flows, and what stands outside of the list for all others.
#[derive(Clone, Debug)]
pub struct WrittenPolicies<'a> {
    /// The list.
    pub listed: &'a [PolicySpec],
    /// How to send toward the access side; a policy of the list says what is different.
    pub to_access: &'a LegSpec,
    /// The same for the rest of the world.
    pub to_wan: &'a LegSpec,
    /// The mode, if it is written.
    pub mode: Option<GatewayMode>,
    /// How senders are kept to what the access link can carry, outside of the list.
    pub senders: &'a SenderSpec,
    /// How the connections to one host are served together, outside of the list, if it is written.
    pub aggregate: Option<&'a AggregateConfig>,
    /// The share of flows that are observed to compare with, outside of the list, if it is written.
    pub control_group: Option<f64>,
    /// What is held of each direction of a flow.
    pub flow_buffer: Bytes,
}

impl WrittenPolicies<'_> {
    /// The mode: `auto`, unless it is written, or something is that is for connections each by itself.
    pub fn mode(&self) -> GatewayMode {
        let by_itself = *self.senders != SenderSpec::default()
            || self.to_access.sender != ProfilePatch::default()
            || self.listed.iter().any(|policy| policy.aggregate.is_some());
        match self.mode {
            Some(mode) => mode,
            None if self.aggregate.is_none() && by_itself => GatewayMode::Split,
            None => GatewayMode::Auto,
        }
    }

    /// What serves the connections of a host together, by the mode.
    fn aggregate(&self) -> Result<Option<AggregateConfig>, PolicyError> {
        match (self.mode(), self.aggregate) {
            (GatewayMode::Auto, written) => Ok(Some(written.cloned().unwrap_or_default())),
            (GatewayMode::Split, None) => Ok(None),
            (GatewayMode::Split, Some(_)) => {
                let why = "mode = \"split\" leaves each connection by itself; leave one of the two out";
                Err(PolicyError { policy: None, key: "aggregate", why: why.into() })
            }
        }
    }

    /// The policies, in the order in which they are tried, where the interfaces toward the access side and toward the rest
    /// of the world take packets of `mtus` bytes.
    ///
    /// # Errors
    /// Names the policy, the key and the remedy.
    pub fn resolve(&self, mtus: [Option<u32>; 2]) -> Result<Vec<Policy>, PolicyError> {
        let senders = self.senders.resolve(self.flow_buffer);
        let senders =
            senders.map_err(|error| PolicyError { policy: None, key: "senders", why: error.to_string() })?;
        let aggregate = self.aggregate()?.map(Arc::new);
        let (access, mut wan) = (self.to_access.resolve(mtus[0]), self.to_wan.resolve(mtus[1]));
        let listed = self.listed.iter().enumerate().map(|(index, spec)| {
            let patched = |leg: &LegConfig, patch: &Option<LegSpec>| {
                patch.as_ref().map_or(leg.clone(), |patch| leg.patched(patch))
            };
            let parts = spec.parts().map_err(|error| PolicyError { policy: Some(index), ..error })?;
            Ok(Policy {
                access: patched(&access, &spec.to_access),
                wan: patched(&wan, &spec.to_wan),
                ..parts
            })
        });
        let listed = listed.collect::<Result<Vec<Policy>, PolicyError>>()?;
        if aggregate.is_some() && self.to_wan.sender.congestion.is_none() {
            wan.sender.congestion = TO_WAN;
        }
        let control_group = match (self.mode(), self.control_group) {
            (_, Some(share)) => share,
            (GatewayMode::Auto, None) => CONTROL_GROUP,
            (GatewayMode::Split, None) => 0.0,
        };
        let is_written = self.aggregate.is_some()
            || *self.senders != SenderSpec::default()
            || self.control_group.is_some_and(|share| share > 0.0);
        let rest = Policy { access, wan, senders, aggregate, control_group, ..Policy::default() };
        Policy::list(listed, rest, is_written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ACK_RELEASES, WINDOW_LIMITS};
    use alloc::format;

    fn resolve(text: &str) -> Result<SenderControl, String> {
        let spec: SenderSpec = toml::from_str(text).map_err(|error| error.to_string())?;
        spec.resolve(Bytes(4 << 20)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_policy_is_a_row_of_parts() {
        for (text, parts) in [
            ("", "SenderControl { ack: None, window: [] }"),
            (
                "policy = \"clamp\"\nwindow = \"12 kB\"",
                "SenderControl { ack: None, window: [ClampedWindow { window: Bytes(12000) }] }",
            ),
            (
                "policy = \"m-tcp\"\nafter = \"1 s\"",
                "SenderControl { ack: Some(Delivered), window: [Freeze { after: 1s }] }",
            ),
        ] {
            assert_eq!(format!("{:?}", resolve(text).unwrap()), parts, "{text}");
        }
        let tail = resolve(
            "policy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\nqueue = \"60 kB\"\ncells = [{ name = \"a\", prefixes = [\"10.0.0.0/8\"] }]",
        );
        let tail = tail.unwrap();
        let link = tail.emulated_link().unwrap();
        assert_eq!((link.queue, link.buffer), (Bytes(60_000), Bytes(310_000)));
        assert!(matches!(&link.scope, crate::TailScope::Cell(cells) if cells.len() == 1));
    }

    #[test]
    fn every_part_says_what_it_cannot_do_without() {
        let rows = ACK_RELEASES.iter().map(|row| (row.name, row.wants));
        for (name, wants) in rows.chain(WINDOW_LIMITS.iter().map(|row| (row.name, row.wants))) {
            let said = resolve(&format!("policy = \"{name}\""));
            match wants.first() {
                None => assert!(said.is_ok(), "{name}: {said:?}"),
                Some((key, what)) => {
                    let said = said.unwrap_err();
                    assert!(said.starts_with(key) && said.contains(what), "{said}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        for (text, words) in [
            ("policy = \"pathtail\"", ["policy", "path-tail"]),
            ("policy = \"path-tail\"", ["bandwidth", "1 Mbit/s"]),
            ("policy = \"clamp\"\nwindow = \"1 kB\"\nqueue = \"1 kB\"", ["queue", "window"]),
            ("policy = \"clamp\"\nwindow = \"much\"", ["window", "1500 B"]),
            ("window = \"1 kB\"", ["window", "nothing"]),
            ("policy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\nbuffer = \"9 MB\"", ["buffer", "half"]),
            (
                "policy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\ncells = [{ name = \"a\", prefixes = [\"x\"] }]",
                ["cells", "10.1.0.0/16"],
            ),
        ] {
            let said = resolve(text).unwrap_err();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn what_is_given_elsewhere_may_be_left_out_and_is_written_as_it_was_read() {
        let mut spec: SenderSpec = toml::from_str("policy = \"path-tail\"\nqueue = \"60 kB\"").unwrap();
        spec.set("bandwidth", shorthaul_types::BitRate::from_bits_per_sec(1_000_000));
        assert!(spec.resolve(Bytes(4 << 20)).is_ok());
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<SenderSpec>(&json).unwrap(), spec);
        // A recording of before says of every parameter that it is not given.
        let old = "{\"policy\":\"clamp\",\"bandwidth\":null,\"window\":\"12000 B\"}";
        assert!(serde_json::from_str::<SenderSpec>(old).unwrap().resolve(Bytes(4 << 20)).is_ok());
    }
}
