//! The form in which people write policies, in TOML.
use super::registry::{sender_control, sender_controls};
use super::{Parameters, PartError, SenderControl};
use alloc::string::{String, ToString};
use serde::{Deserialize, Deserializer, Serialize};
use shorthaul_types::Bytes;

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
        if let Some(ack) = &control.ack {
            ack.check(flow_buffer).map_err(|why| PartError::Wrong(why.to_string()))?;
        }
        Ok(control)
    }
}

/// Prefixes such as `10.1.0.0/16`, or addresses.
pub(super) mod prefixes {
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
        let ack = tail.unwrap().ack.unwrap();
        let link = ack.emulated_link().unwrap();
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
