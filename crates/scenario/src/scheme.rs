//! How a host or relay speaks TCP.
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use shorthaul_tcp::{ProfilePatch, SenderProfile};
use shorthaul_types::serde_beside::{self, OtherKeys};
use shorthaul_types::{Bytes, schema, written_as};
use std::fmt;

/// Whose TCP a live host speaks; in simulations it is always our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// The kernel's.
    #[default]
    Kernel,
    /// Ours, in user space: the very machine that simulations drive.
    Own,
}

/// How a host or relay speaks TCP, and what it has for it: `"newreno"`, or
/// `{ profile = "newreno", ack = "immediate", receive_buffer = "64 kB" }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// The named profile with what is different from it.
    pub profile: SenderProfile,
    /// Whose TCP live runs use; `None` for the kernel's, or for that of the host where this is a flow's scheme.
    pub stack: Option<Stack>,
    /// What the application may write ahead.
    pub send_buffer: Bytes,
    /// What is received ahead of the application's reading.
    pub receive_buffer: Bytes,
    /// What the receiver offers first, if that is less than its buffer: it grows by twice what arrives, as in Linux 2.4.
    pub first_window: Option<Bytes>,
    /// The largest segment to announce, options included; by the MTU of the host's links if `None`.
    pub mss: Option<u32>,
}

impl Default for Scheme {
    /// NewReno as the profile has it, with buffers that bound nothing on ordinary paths.
    fn default() -> Self {
        Scheme {
            profile: SenderProfile::NEWRENO,
            stack: None,
            send_buffer: Bytes(16 << 20),
            receive_buffer: Bytes(16 << 20),
            first_window: None,
            mss: None,
        }
    }
}

impl<'de> Deserialize<'de> for Scheme {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Scheme;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scheme such as \"newreno\" or { profile = \"newreno\", ack = \"immediate\" }")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Scheme, E> {
                let profile = SenderProfile::named(name).map_err(E::custom)?;
                Ok(Scheme { profile, ..Scheme::default() })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Scheme, A::Error> {
                let mut beside = Beside::default();
                let patch: ProfilePatch = serde_beside::from_map(map, &mut beside)?;
                let usual = Scheme::default();
                Ok(Scheme {
                    profile: beside.profile.map_or(usual.profile, |named| named.0).patched(&patch),
                    stack: beside.stack,
                    send_buffer: beside.send_buffer.map_or(usual.send_buffer, |buffer| buffer.0),
                    receive_buffer: beside.receive_buffer.map_or(usual.receive_buffer, |buffer| buffer.0),
                    first_window: beside.first_window.map(|first| first.0),
                    mss: beside.mss.map(|size| size.0),
                })
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// What stands in a scheme beside the keys of a profile.
#[derive(Default, JsonSchema)]
struct Beside {
    /// The profile that the other keys change.
    profile: Option<Named>,
    /// Whose TCP live runs use.
    stack: Option<Stack>,
    /// What the application may write ahead.
    send_buffer: Option<Buffer>,
    /// What is received ahead of the application's reading.
    receive_buffer: Option<Buffer>,
    /// What the receiver offers first, if that is less than its buffer: it grows by twice what arrives, as in Linux 2.4. Simulated only.
    first_window: Option<Buffer>,
    /// The largest segment to announce, options included, in bytes; by the MTU of the host's links if left out.
    mss: Option<SegmentSize>,
}

impl<'de> OtherKeys<'de> for Beside {
    const KEYS: &'static [&'static str] =
        &["profile", "stack", "send_buffer", "receive_buffer", "first_window", "mss"];

    fn take<A: de::MapAccess<'de>>(&mut self, key: &'static str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "profile" => self.profile = Some(map.next_value()?),
            "stack" => self.stack = Some(map.next_value()?),
            "send_buffer" => self.send_buffer = Some(map.next_value()?),
            "receive_buffer" => self.receive_buffer = Some(map.next_value()?),
            "first_window" => self.first_window = Some(map.next_value()?),
            _ => self.mss = Some(map.next_value()?),
        }
        Ok(())
    }
}

written_as!(Scheme, "Scheme", |generator| schema::any_of([
    generator.subschema_for::<Named>(),
    schema::beside::<ProfilePatch, Beside>(generator, |_| false),
]));

/// A profile by its name.
struct Named(SenderProfile);

written_as!(Named, "Profile", |_| schema::words(SenderProfile::names()));

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        SenderProfile::named(&String::deserialize(d)?).map(Named).map_err(de::Error::custom)
    }
}

/// At least a byte.
#[derive(JsonSchema)]
#[schemars(transparent, inline)]
struct Buffer(Bytes);

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Bytes::deserialize(d)? {
            Bytes(0) => Err(de::Error::custom(
                "a buffer of nothing lets nothing through: write a size such as \"1 MB\"",
            )),
            size => Ok(Buffer(size)),
        }
    }
}

#[derive(JsonSchema)]
#[schemars(transparent, inline)]
struct SegmentSize(#[schemars(range(min = 88, max = 65495))] u32);

impl<'de> Deserialize<'de> for SegmentSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match u32::deserialize(d)? {
            size @ 88..=65_495 => Ok(SegmentSize(size)),
            _ => Err(de::Error::custom("`mss` is a number of bytes from 88 to 65495, such as 1460")),
        }
    }
}
