use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Directory, DirectoryError, Listed, addresses};

/// A file with a section for each relay:
///
/// ```toml
/// [[relay]]
/// name = "frankfurt"
/// session = "fra.example.net:7001"
/// # where its responder is asked, unless at port 7007 of the same host
/// probe = "fra.example.net:7007"
/// ```
///
/// It is read anew each time, so that it can be changed while a client runs.
#[derive(Clone, Debug)]
pub struct List {
    path: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    relay: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    name: String,
    session: String,
    probe: Option<String>,
}

impl List {
    /// The list in a file.
    pub fn new(path: &Path) -> Self {
        List { path: path.into() }
    }
}

impl Directory for List {
    fn name(&self) -> String {
        format!("list of relays {}", self.path.display())
    }

    fn relays(&self) -> Result<Vec<Listed>, DirectoryError> {
        let wrong = |problem| DirectoryError { directory: self.name(), problem };
        let text = std::fs::read_to_string(&self.path).map_err(|error| wrong(error.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let mut relays = Vec::new();
        for section in file.relay {
            let (session, probe) = addresses(&section.session, section.probe.as_deref()).map_err(wrong)?;
            relays.push(Listed { name: section.name, session, probe, load: None });
        }
        Ok(relays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_its_mistakes_are_named() {
        let path = std::env::temp_dir().join(format!("shorthaul-list-{}.toml", std::process::id()));
        let list = List::new(&path);
        std::fs::write(
            &path,
            "[[relay]]\nname = \"a\"\nsession = \"192.0.2.1:7001\"\n\n[[relay]]\nsession = \"[2001:db8::1]:80\"\nprobe = \"192.0.2.2:9\"\n",
        )
        .unwrap();
        let relays = list.relays().unwrap();
        assert_eq!((relays[0].name.as_str(), relays[0].probe), ("a", "192.0.2.1:7007".parse().unwrap()));
        assert_eq!(relays[1].session, "[2001:db8::1]:80".parse().unwrap());
        assert_eq!(relays[1].probe, "192.0.2.2:9".parse().unwrap());
        for (text, word) in [
            ("[[relay]]\nsession = \"192.0.2.1\"\n", "host:port"),
            ("[[relay]]\nsesion = \"192.0.2.1:1\"\n", "sesion"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = list.relays().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(list.relays().is_err());
    }
}
