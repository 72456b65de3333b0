//! `#[serde(with = "shorthaul_types::serde_duration")]`: a `Duration` written as `"64 ms"`.
use core::time::Duration;
use serde::{Deserializer, Serializer};

/// Reads `"64 ms"`.
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    d.deserialize_str(crate::units::DURATION)
}

/// Writes `"64 ms"`, or nanoseconds where that loses something.
pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&crate::exact_duration(*d))
}

/// The same for an optional duration; use with `#[serde(default)]`.
pub mod option {
    use super::*;

    /// Reads `"64 ms"` where the key is present.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        super::deserialize(d).map(Some)
    }

    /// Writes `"64 ms"` or nothing.
    pub fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        match d {
            Some(d) => super::serialize(d, s),
            None => s.serialize_none(),
        }
    }
}
