//! The file of measured sites.
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use shorthaul_link::parse_probability;
use shorthaul_planner::{Connection, Ends, Leg, Network, Site};
use shorthaul_types::{BitRate, Bytes};
use toml::Spanned;

/// Measured sites, and between which of them data are to be moved.
#[derive(Debug)]
pub struct Sites {
    pub network: Network,
    pub ends: Ends,
    /// The file's text, for the report.
    pub text: String,
}

/// Why a file of sites could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SitesError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// The file is not what it should be; the message shows file, line, key and what would be right.
    #[error("{path}: {error}")]
    Malformed { path: PathBuf, error: toml::de::Error },
    /// What it says makes no sense.
    #[error("{0}")]
    Senseless(Senseless),
}

/// Where a file makes no sense, what stands there, and what would be right.
#[derive(Debug)]
pub struct Senseless {
    path: PathBuf,
    line: usize,
    written: String,
    problem: String,
}

impl fmt::Display for Senseless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Senseless { path, line, written, problem } = self;
        write!(f, "{}, line {line}: `{written}`: {problem}", path.display())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    from: Spanned<String>,
    to: Spanned<String>,
    #[serde(default)]
    site: Vec<SiteSection>,
    #[serde(default)]
    leg: Vec<Spanned<LegSection>>,
}

/// A place for a relay. The ends need no section.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteSection {
    name: Spanned<String>,
    #[serde(default, deserialize_with = "price")]
    price_per_gb: f64,
    memory: Option<Bytes>,
}

/// What was measured between two sites, in both directions unless `one_way` is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LegSection {
    from: Spanned<String>,
    to: Spanned<String>,
    #[serde(with = "shorthaul_types::serde_duration")]
    rtt: Duration,
    #[serde(deserialize_with = "probability")]
    loss: f64,
    rate: BitRate,
    #[serde(default = "one")]
    queue: f64,
    window: Option<Bytes>,
    #[serde(default, deserialize_with = "price")]
    price_per_gb: f64,
    #[serde(default)]
    one_way: bool,
}

fn one() -> f64 {
    1.0
}

fn probability<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    parse_probability(&String::deserialize(d)?).map_err(serde::de::Error::custom)
}

fn price<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    match f64::deserialize(d)? {
        price if price >= 0.0 && price.is_finite() => Ok(price),
        price => Err(serde::de::Error::custom(format!(
            "a price of {price} makes no sense; write what a gigabyte costs, such as 0.02"
        ))),
    }
}

impl Sites {
    /// Reads the file.
    ///
    /// # Errors
    /// Says which line and key are wrong, and what would be right.
    pub fn read(path: &Path) -> Result<Self, SitesError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| SitesError::Unreadable { path: path.into(), error })?;
        Sites::parse(path, text)
    }

    fn parse(path: &Path, text: String) -> Result<Self, SitesError> {
        let file: File =
            toml::from_str(&text).map_err(|error| SitesError::Malformed { path: path.into(), error })?;
        let wrong = |span: Range<usize>, problem: String| {
            let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
            let written = text[start..].lines().next().unwrap_or_default().trim().to_string();
            let line = 1 + text[..span.start].matches('\n').count();
            SitesError::Senseless(Senseless { path: path.into(), line, written, problem })
        };
        let mut sites: Vec<Site> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for section in &file.site {
            let name = section.name.get_ref();
            if numbers.insert(name.clone(), sites.len()).is_some() {
                return Err(wrong(
                    section.name.span(),
                    format!("there is a site `{name}` already; give each its own name"),
                ));
            }
            sites.push(Site {
                name: name.clone(),
                price_per_gb: section.price_per_gb,
                memory: section.memory,
            });
        }
        for end in [&file.from, &file.to] {
            // An end that is no place for a relay may do without a section.
            numbers.entry(end.get_ref().clone()).or_insert_with(|| {
                sites.push(Site { name: end.get_ref().clone(), ..Site::default() });
                sites.len() - 1
            });
        }
        let number = |name: &Spanned<String>| {
            numbers.get(name.get_ref()).copied().ok_or_else(|| {
                let known: Vec<&str> = numbers.keys().map(String::as_str).collect();
                let known = known.join(", ");
                wrong(
                    name.span(),
                    format!("there is no such site; add a [[site]] of that name, or write one of {known}"),
                )
            })
        };
        let ends = Ends { from: number(&file.from)?, to: number(&file.to)? };
        if ends.from == ends.to {
            return Err(wrong(file.to.span(), "data are there already; `from` and `to` must differ".into()));
        }
        let mut network = Network::new(sites);
        for spanned in &file.leg {
            let section = spanned.get_ref();
            let there = Ends { from: number(&section.from)?, to: number(&section.to)? };
            let back = Ends { from: there.to, to: there.from };
            let leg = Leg {
                queue_bdp: section.queue,
                window_limit: section.window,
                ..Leg::new(section.rtt, section.loss, section.rate)
            };
            let connection = Connection { leg, price_per_gb: section.price_per_gb };
            for ends in if section.one_way { vec![there] } else { vec![there, back] } {
                network
                    .connect(ends, connection)
                    .map_err(|error| wrong(section.from.span(), error.to_string()))?;
            }
        }
        Ok(Sites { network, ends, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"from = "lab"
to = "archive"

[[site]]
name = "frankfurt"
price_per_gb = 0.02
memory = "64 MiB"

[[leg]]
from = "lab"
to = "archive"
rtt = "150 ms"
loss = "0.1 %"
rate = "1 Gbit/s"

[[leg]]
from = "lab"
to = "frankfurt"
rtt = "12 ms"
loss = "0.001 %"
rate = "1 Gbit/s"
one_way = true
"#;

    fn read(text: &str) -> Result<Sites, SitesError> {
        Sites::parse(Path::new("sites.toml"), text.to_string())
    }

    #[test]
    fn a_good_file_is_a_network() {
        let sites = read(GOOD).unwrap();
        let names: Vec<&str> = sites.network.sites().iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["frankfurt", "lab", "archive"]);
        assert_eq!(sites.ends, Ends { from: 1, to: 2 });
        // Both ways from lab to archive, one way to Frankfurt.
        assert_eq!(sites.network.connections().count(), 3);
        assert!(sites.network.connection(Ends { from: 0, to: 1 }).is_none());
        let leg = sites.network.connection(Ends { from: 1, to: 0 }).unwrap().leg;
        assert_eq!((leg.rtt, leg.loss), (Duration::from_millis(12), 1e-5));
        assert_eq!(sites.network.sites()[0].memory, Some(Bytes(64 << 20)));
    }

    #[test]
    fn a_wrong_file_names_file_line_key_and_remedy() {
        for (good, bad, line, words) in [
            ("to = \"archive\"\n\n", "too = \"archive\"\n\n", 2, ["too", "`to`"]),
            ("rtt = \"12 ms\"", "rtt = \"12\"", 19, ["rtt", "64 ms"]),
            ("loss = \"0.001 %\"", "loss = \"101 %\"", 20, ["loss", "%"]),
            ("rate = \"1 Gbit/s\"\none_way", "rate = \"1 Gbit\"\none_way", 21, ["rate", "32 Mbit/s"]),
            ("to = \"frankfurt\"", "to = \"frankfort\"", 18, ["to = \"frankfort\"", "frankfurt"]),
            ("to = \"frankfurt\"", "to = \"lab\"", 17, ["lab", "two different sites"]),
            ("loss = \"0.001 %\"", "loss = \"90 %\"", 17, ["loss", "0 to 0.5"]),
            ("name = \"frankfurt\"", "name = \"lab\"\n[[site]]\nname = \"lab\"", 7, ["name", "its own name"]),
            ("price_per_gb = 0.02", "price_per_gb = -1.0", 6, ["price_per_gb", "0.02"]),
        ] {
            assert!(GOOD.contains(good), "{good}");
            let said = read(&GOOD.replacen(good, bad, 1)).unwrap_err().to_string();
            assert!(said.starts_with("sites.toml"), "{said}");
            assert!(said.contains(&format!("line {line}")), "{line}: {said}");
            assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        }
    }

    #[test]
    fn both_ends_in_one_place_make_no_transfer() {
        let said = read("from = \"lab\"\nto = \"lab\"\n").unwrap_err().to_string();
        assert!(said.contains("line 2") && said.contains("must differ"), "{said}");
    }
}
