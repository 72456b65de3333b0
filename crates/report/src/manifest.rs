use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// What produced a report: enough to run it again.
///
/// It stands at the top of every report: as `# key: value` comments in CSV, as an object in JSON,
/// as metadata in SVG and PNG. It holds no time of day, so the same run writes the same file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The program, `"shorthaul"`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The command line, quoted so that a shell reads it back as it was.
    pub command: String,
    /// The seed from which every random draw came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The scenarios that were run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
    /// Other things that matter to this run, such as the kernel's release.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// A scenario by name and content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// The name, as in its file's name.
    pub name: String,
    /// SHA-256 of its text, in hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// A manifest of `program` at `version`, without arguments, seed or scenario.
    pub fn new(program: &str, version: &str) -> Self {
        Manifest {
            program: program.to_string(),
            version: version.to_string(),
            command: program.to_string(),
            seed: None,
            scenarios: Vec::new(),
            facts: BTreeMap::new(),
        }
    }

    /// The manifest of this process: `shorthaul`, its version and its command line.
    pub fn of_this_command() -> Self {
        let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
        Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(arguments)
    }

    /// Adds what of this machine matters to a live run: the kernel's release, and how many cores there are.
    #[must_use]
    pub fn with_machine(mut self) -> Self {
        if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
            self = self.fact("kernel", kernel.trim());
        }
        if let Ok(cores) = std::thread::available_parallelism() {
            self = self.fact("cores", &cores.to_string());
        }
        self
    }

    /// Sets the command line from the program's arguments, the program itself not among them.
    #[must_use]
    pub fn arguments<S: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.clone_from(&self.program);
        for argument in arguments {
            self.command.push(' ');
            self.command.push_str(&shell_quoted(argument.as_ref()));
        }
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds a scenario by its name and its text, of which the hash is kept.
    #[must_use]
    pub fn scenario(mut self, name: &str, text: &str) -> Self {
        let mut sha256 = String::with_capacity(64);
        for byte in Sha256::digest(text.as_bytes()) {
            sha256.push_str(&format!("{byte:02x}"));
        }
        self.scenarios.push(Scenario { name: name.to_string(), sha256 });
        self
    }

    /// Adds another thing worth knowing, such as `("kernel", "6.18.5")`.
    #[must_use]
    pub fn fact(mut self, key: &str, value: &str) -> Self {
        self.facts.insert(key.to_string(), value.to_string());
        self
    }

    /// The manifest as one line of JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with string keys: nothing that serialization can refuse.
        serde_json::to_string(self).expect("a manifest is plain data")
    }

    /// The manifest as lines for people, `key: value`, one fact a line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{} {}", self.program, self.version), format!("command: {}", self.command)];
        lines.extend(self.seed.map(|seed| format!("seed: {seed}")));
        lines.extend(self.scenarios.iter().map(|s| format!("scenario: {} (sha256 {})", s.name, s.sha256)));
        lines.extend(self.facts.iter().map(|(key, value)| format!("{key}: {value}")));
        // A line break inside a value would end the comment that the line becomes.
        lines.into_iter().map(|line| line.replace(['\n', '\r'], " ")).collect()
    }
}

/// `argument` as a POSIX shell would have to be given it.
fn shell_quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_string()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest::new("shorthaul", "0.1.0")
            .arguments(["demo", "--out", "my dir", "it's"])
            .seed(7)
            .scenario("geo", "abc")
            .fact("kernel", "6.18.5\nhost")
    }

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        assert_eq!(manifest().command, r"shorthaul demo --out 'my dir' 'it'\''s'");
        assert_eq!(Manifest::new("p", "1").arguments([""]).command, "p ''");
    }

    #[test]
    fn json_and_lines_hold_the_same_facts() {
        let json: serde_json::Value = serde_json::from_str(&manifest().to_json()).unwrap();
        assert_eq!(json["seed"], 7);
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(json["scenarios"][0]["sha256"], abc);
        let lines = manifest().lines();
        assert!(lines.contains(&"seed: 7".to_string()));
        assert!(lines.contains(&format!("scenario: geo (sha256 {abc})")));
        assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
    }
}
