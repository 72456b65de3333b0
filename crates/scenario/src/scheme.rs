//! How a host or relay speaks TCP.
use serde::{Deserialize, Deserializer, de};
use shorthaul_tcp::{ProfilePatch, SenderProfile};
use shorthaul_types::Bytes;
use shorthaul_types::serde_beside::{self, OtherKeys};
use std::fmt;

/// Whose TCP a live host speaks; in simulations it is always our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
                let mut scheme = Scheme::default();
                let patch: ProfilePatch = serde_beside::from_map(map, &mut scheme)?;
                scheme.profile = scheme.profile.patched(&patch);
                Ok(scheme)
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// What stands in a scheme beside the keys of a profile.
impl<'de> OtherKeys<'de> for Scheme {
    const KEYS: &'static [&'static str] = &["profile", "stack", "send_buffer", "receive_buffer", "mss"];

    fn take<A: de::MapAccess<'de>>(&mut self, key: &'static str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "profile" => self.profile = map.next_value::<Named>()?.0,
            "stack" => self.stack = Some(map.next_value()?),
            "send_buffer" => self.send_buffer = map.next_value::<Buffer>()?.0,
            "receive_buffer" => self.receive_buffer = map.next_value::<Buffer>()?.0,
            _ => self.mss = Some(map.next_value::<SegmentSize>()?.0),
        }
        Ok(())
    }
}

/// A profile by its name.
struct Named(SenderProfile);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        SenderProfile::named(&String::deserialize(d)?).map(Named).map_err(de::Error::custom)
    }
}

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

struct SegmentSize(u32);

impl<'de> Deserialize<'de> for SegmentSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match u32::deserialize(d)? {
            size @ 88..=65_495 => Ok(SegmentSize(size)),
            _ => Err(de::Error::custom("`mss` is a number of bytes from 88 to 65495, such as 1460")),
        }
    }
}
