use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use shorthaul_types::Bytes;

/// The window that all connections of one mobile host share (AGG §IV-C).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clamp {
    /// It follows the bandwidth-delay product that is measured.
    #[default]
    Auto,
    /// It stays at this many bytes: about 1.2 times the effective bandwidth-delay product.
    Fixed(Bytes),
}

impl FromStr for Clamp {
    type Err = String;

    /// `auto`, or a size.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "auto" {
            return Ok(Clamp::Auto);
        }
        match text.parse() {
            Ok(Bytes(bytes)) if bytes > 0 => Ok(Clamp::Fixed(Bytes(bytes))),
            _ => Err(format!("`{text}` is no window: write \"auto\", or a size such as \"10 kB\"")),
        }
    }
}

impl fmt::Display for Clamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clamp::Auto => f.pad("auto"),
            // Exactly, so that it is read back as it was.
            Clamp::Fixed(Bytes(bytes)) => f.pad(&format!("{bytes} B")),
        }
    }
}

/// The window that all uploads of one mobile host share: how much they are offered at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UplinkWindow {
    /// It follows the bandwidth-delay product that is measured.
    #[default]
    Auto,
    /// Each upload is offered what there is memory for.
    None,
    /// It stays at this many bytes.
    Fixed(Bytes),
}

impl FromStr for UplinkWindow {
    type Err = String;

    /// `auto`, `none`, or a size.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => return Ok(UplinkWindow::None),
            "auto" => return Ok(UplinkWindow::Auto),
            _ => {}
        }
        match text.parse() {
            Ok(Bytes(bytes)) if bytes > 0 => Ok(UplinkWindow::Fixed(Bytes(bytes))),
            _ => Err(format!(
                "`{text}` is no window for uploads: write \"auto\", \"none\", or a size such as \"10 kB\""
            )),
        }
    }
}

impl fmt::Display for UplinkWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UplinkWindow::Auto => f.pad("auto"),
            UplinkWindow::None => f.pad("none"),
            UplinkWindow::Fixed(Bytes(bytes)) => f.pad(&format!("{bytes} B")),
        }
    }
}

/// A class of connections: a lower one is served only when no higher one has anything to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Class {
    /// Its name, for people.
    pub name: String,
    /// Its place: 0 is served first.
    pub priority: u8,
    /// Its connections' share of what the classes of this priority get, each.
    #[cfg_attr(feature = "serde", serde(default = "serde_parts::one_ticket"))]
    pub tickets: u32,
    /// Connections to or from these ports belong to it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub ports: Vec<u16>,
    /// Connections with these differentiated services codepoints (RFC 2474) belong to it, too.
    #[cfg_attr(
        feature = "serde",
        serde(default, deserialize_with = "crate::policy::codepoints"),
        schemars(inner(range(max = 63)))
    )]
    pub dscp: Vec<u8>,
}

/// The parameters of the window that the wired sender is offered (AGG Table I, equations 1 and 2).
///
/// ```text
/// w' = c·s̄ − f(q)·s        f(q) = a·q − b        a = (b + c) / (surplus · window)
/// ```
/// `s` is the connection's rate over the wireless link, `s̄` the mean of the connections that are active, `q`
/// what all of them have queued here. In equilibrium q = (b + c)/a, which is `surplus` times the shared window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields, default)
)]
pub struct WindowShareConfig {
    /// b, without unit. The larger b + c, the faster the windows follow.
    pub b: f64,
    /// c, without unit: the windows' constant growth µc, in units of the mean rate.
    pub c: f64,
    /// β: the queue aimed at here, in units of the shared window. The paper over-provisions "by more than
    /// 20 % of the effective link BDP".
    pub surplus: f64,
    /// α: the number of segments over which a rate is the mean.
    pub averaged: u32,
    /// While the queue is shorter than this part of the one aimed at, it is not the link that holds connections up: the window
    /// doubles each round trip then. Zero is the paper's law alone.
    pub free_below: f64,
}

impl Default for WindowShareConfig {
    fn default() -> Self {
        WindowShareConfig { b: 0.25, c: 0.25, surplus: 8.0, averaged: 8, free_below: 0.25 }
    }
}

/// How the connections to one mobile host are served together.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields, default)
)]
pub struct AggregateConfig {
    /// The shared window.
    pub clamp: Clamp,
    /// What a window that follows has in reserve, in units of the square of the link's variation: the more, the less of a link
    /// whose rate jumps is lost, and the longer is the queue when it falls. A steady link has no variation.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "serde_parts::headroom"),
        schemars(range(min = 0.0))
    )]
    pub headroom: f64,
    /// Where somebody else fills the bottleneck's queue on another way into it, and has more than half of the link, a window that follows competes, by
    /// losses, until nobody does any more. Without, it keeps its part of the queue short and yields.
    pub compete: bool,
    /// Find out which hosts share a bottleneck, and serve those together: where a queue stands, a host is held back for a moment, and it is seen whose
    /// queue becomes shorter.
    pub find_bottlenecks: bool,
    /// The former place of what [`HostSpec`](crate::HostSpec) says for all of the gateway. Read for one release.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"), schemars(range(max = 32)))]
    pub prefix_v4: Option<u8>,
    /// The same for IPv6, where a phone has a whole prefix (RFC 7278).
    #[cfg_attr(
        feature = "serde",
        serde(skip_serializing_if = "Option::is_none"),
        schemars(range(max = 128))
    )]
    pub prefix_v6: Option<u8>,
    /// The classes; a connection in none of them has priority 1 and one ticket.
    pub classes: Vec<Class>,
    /// The first this many bytes of each response, after a connection was silent, are interactive: they go
    /// before all classes, and the connection that is there for longer goes first. So what is short ends soon, and what is long
    /// ends hardly later. Zero switches that off.
    pub interactive: Bytes,
    /// Spread bursts over the round trip.
    pub pacing: bool,
    /// What is held of all that is sent to one host at most, and as much of what it sends, but for a segment of each connection that has nothing else: at
    /// least 20 kB.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "serde_parts::host_buffer"))]
    pub host_buffer: Bytes,
    /// The window that senders are offered; `None` offers what the buffer of the flow has room for.
    #[cfg_attr(
        feature = "serde",
        serde(with = "serde_parts::window_share", alias = "invitations"),
        schemars(schema_with = "serde_parts::window_share::schema")
    )]
    pub window_share: Option<WindowShareConfig>,
    /// The window that its uploads share.
    pub uplink: UplinkWindow,
    /// Keep the queue beyond the gateway short, too: where it stands there and not here, senders are offered no more than what
    /// their path carries.
    pub hold_senders: bool,
    /// How long a host without connections is remembered, with its window.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub remember: Duration,
}

/// The priority of what is interactive, before all classes.
pub(super) const INTERACTIVE: u8 = 0;
/// The priority, among those of classes, of connections in no class.
const UNCLASSED: (u8, u32) = (1, 1);

impl Default for AggregateConfig {
    fn default() -> Self {
        AggregateConfig {
            clamp: Clamp::Auto,
            headroom: 15.0,
            compete: true,
            find_bottlenecks: false,
            prefix_v4: None,
            prefix_v6: None,
            classes: Vec::new(),
            interactive: Bytes(64_000),
            pacing: true,
            // A quarter of the usual memory: what two legs of half a second carry at 1 Gbit/s, packet buffers counted.
            host_buffer: Bytes(128 << 20),
            window_share: Some(WindowShareConfig::default()),
            uplink: UplinkWindow::Auto,
            hold_senders: true,
            remember: Duration::from_secs(600),
        }
    }
}

impl AggregateConfig {
    /// Whether each class can have connections, and a share of what these get.
    ///
    /// # Errors
    /// Names the class and the remedy.
    pub(crate) fn check_classes(&self) -> Result<(), String> {
        for (index, class) in self.classes.iter().enumerate() {
            let Class { name, tickets, ports, dscp, .. } = class;
            let before = &self.classes[..index];
            if before.iter().any(|other| other.name == *name) {
                return Err(format!("there are two classes `{name}`; give one of them another name"));
            }
            if *tickets == 0 {
                return Err(format!(
                    "with `tickets = 0` the class `{name}` would get nothing; write 1 or more"
                ));
            }
            if ports.is_empty() && dscp.is_empty() {
                return Err(format!(
                    "no connection is in the class `{name}`: write its ports, such as ports = [443], or codepoints, such as dscp = [46]"
                ));
            }
            let is_taken = |port: &u16| before.iter().any(|other| other.ports.contains(port));
            let is_marked = |point: &u8| before.iter().any(|other| other.dscp.contains(point));
            if ports.iter().all(is_taken) && dscp.iter().all(is_marked) {
                return Err(format!(
                    "no connection is in the class `{name}`: all of its ports and codepoints are those of classes before it, and the first one counts; put it before them, or leave it out"
                ));
            }
        }
        Ok(())
    }

    /// Priority and tickets of a connection with these ports whose packets carry `dscp`.
    pub(crate) fn class_of(&self, ports: [u16; 2], dscp: u8) -> (u8, u32) {
        let is_in = |class: &&Class| {
            class.dscp.contains(&dscp) || class.ports.iter().any(|port| ports.contains(port))
        };
        let (priority, tickets) =
            self.classes.iter().find(is_in).map_or(UNCLASSED, |class| (class.priority, class.tickets.max(1)));
        (priority.saturating_add(INTERACTIVE + 1), tickets)
    }
}

/// How the parts are written in files.
#[cfg(feature = "serde")]
mod serde_parts {
    use super::{Bytes, Clamp, String, UplinkWindow, WindowShareConfig};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use shorthaul_types::{schema, written_as};

    impl Serialize for Clamp {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Clamp {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
        }
    }

    written_as!(Clamp, "Clamp", |generator| schema::any_of([
        schema::words(["auto"]),
        generator.subschema_for::<Bytes>()
    ]));

    written_as!(UplinkWindow, "UplinkWindow", |generator| schema::any_of([
        schema::words(["auto", "none"]),
        generator.subschema_for::<Bytes>()
    ]));

    impl Serialize for UplinkWindow {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for UplinkWindow {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
        }
    }

    pub(super) fn headroom<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        let value = f64::deserialize(d)?;
        at_least_zero(value, "headroom").map_err(serde::de::Error::custom)
    }

    pub(super) fn host_buffer<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        let value = Bytes::deserialize(d)?;
        if value.0 < 20_000 {
            return Err(serde::de::Error::custom(alloc::format!(
                "`host_buffer` is {value}: less than a few segments keeps connections from going on; write at least \"20 kB\""
            )));
        }
        Ok(value)
    }

    /// `value`, if windows can be computed with it.
    fn at_least_zero(value: f64, name: &str) -> Result<f64, String> {
        match value.is_finite() && value >= 0.0 {
            true => Ok(value),
            false => Err(alloc::format!("`{name}` is {value}: write a number that is not negative")),
        }
    }

    pub(super) fn one_ticket() -> u32 {
        1
    }

    /// `"buffer"`, or a table of parameters.
    pub(super) mod window_share {
        use super::{Deserialize, Deserializer, Serialize, Serializer, WindowShareConfig};
        use core::fmt;
        use serde::de::value::MapAccessDeserializer;
        use serde::de::{Error, MapAccess, Unexpected, Visitor};

        /// What stands for no share.
        const BUFFER: &str = "buffer";

        pub fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
            use shorthaul_types::schema::{any_of, words};
            any_of([words([BUFFER]), generator.subschema_for::<WindowShareConfig>()])
        }

        pub fn serialize<S: Serializer>(value: &Option<WindowShareConfig>, s: S) -> Result<S::Ok, S::Error> {
            match value {
                None => s.serialize_str(BUFFER),
                Some(parameters) => parameters.serialize(s),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<WindowShareConfig>, D::Error> {
            d.deserialize_any(Written)
        }

        /// Reads it by hand, so that what is wrong within the table is said.
        struct Written;

        impl<'de> Visitor<'de> for Written {
            type Value = Option<WindowShareConfig>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"buffer\", or a table such as { b = 0.25, c = 0.25, surplus = 1.2, averaged = 8 }",
                )
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                match word {
                    BUFFER => Ok(None),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let parameters = WindowShareConfig::deserialize(MapAccessDeserializer::new(map))?;
                let WindowShareConfig { b, c, surplus, free_below, .. } = parameters;
                for (value, name) in [(b, "b"), (c, "c"), (surplus, "surplus"), (free_below, "free_below")] {
                    super::at_least_zero(value, name).map_err(Error::custom)?;
                }
                Ok(Some(parameters))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn the_window_of_uploads_is_read_as_it_is_written() {
        for written in ["auto", "none", "10000 B"] {
            assert_eq!(written.parse::<UplinkWindow>().unwrap().to_string(), written);
        }
        assert_eq!(" 10 kB".parse(), Ok(UplinkWindow::Fixed(Bytes(10_000))));
        for wrong in ["0 B", "much"] {
            assert!(wrong.parse::<UplinkWindow>().unwrap_err().contains("\"auto\""), "{wrong}");
        }
    }

    #[test]
    fn a_class_without_connections_or_share_is_refused() {
        let class = |name: &str, tickets, ports: &[u16], dscp: &[u8]| Class {
            name: name.into(),
            priority: 1,
            tickets,
            ports: ports.into(),
            dscp: dscp.into(),
        };
        let check = |classes: Vec<Class>| {
            AggregateConfig { classes, ..AggregateConfig::default() }.check_classes().err()
        };
        let web = || class("web", 3, &[80, 443], &[10]);
        assert_eq!(
            check(vec![web(), class("some", 1, &[80, 22], &[]), class("marked", 1, &[], &[46])]),
            None
        );
        for (second, why) in [
            (class("none", 1, &[], &[]), "ports = [443]"),
            (class("web", 1, &[80], &[]), "two classes `web`"),
            (class("poor", 0, &[22], &[]), "write 1 or more"),
            (class("late", 1, &[443], &[10]), "before them"),
        ] {
            let said = check(vec![web(), second]).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_class_is_found_by_port_or_codepoint_and_the_first_one_counts() {
        let class = |name: &str, priority, tickets, ports: &[u16], dscp: &[u8]| Class {
            name: name.into(),
            priority,
            tickets,
            ports: ports.into(),
            dscp: dscp.into(),
        };
        let config = AggregateConfig {
            classes: vec![
                class("shell", 0, 1, &[22, 23], &[]),
                class("web", 1, 3, &[80], &[10]),
                class("all", 2, 0, &[80], &[]),
            ],
            ..AggregateConfig::default()
        };
        assert_eq!(config.class_of([40_000, 22], 0), (1, 1));
        assert_eq!(config.class_of([80, 40_000], 0), (2, 3));
        assert_eq!(config.class_of([40_000, 9], 10), (2, 3));
        assert_eq!(config.class_of([40_000, 9], 0), (2, 1), "in no class");
    }
}
