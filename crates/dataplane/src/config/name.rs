//! The name of a gateway.
use serde::{Deserialize, Deserializer, Serialize};
use shorthaul_types::{schema, written_as};
use std::fmt;
use std::str::FromStr;

/// The name of a gateway: 1 to 8 letters or digits, since it is part of an interface's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name(String);

impl Default for Name {
    fn default() -> Self {
        Name("gw".into())
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if (1..=8).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Name(name.into()))
        } else {
            Err(format!(
                "`{name}` cannot be a gateway's name: write 1 to 8 letters or digits, such as \"gw\""
            ))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

written_as!(Name, "Name", |_| schema::pattern(
    "^[A-Za-z0-9]{1,8}$",
    schema::text("1 to 8 letters or digits", &["gw"])
));

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}
