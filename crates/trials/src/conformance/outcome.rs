use serde::Serialize;
use std::fmt;

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum CaseVerdict {
    /// What must hold, held.
    Passed,
    /// It did not.
    Failed {
        /// What went wrong, in a sentence.
        reason: String,
    },
}

/// The outcome of one case under one fault and over one version of IP.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The case.
    pub case: &'static str,
    /// What must hold.
    pub about: &'static str,
    /// The document that says so.
    pub reference: &'static str,
    /// "IPv4" or "IPv6".
    pub family: String,
    /// "none" or "lossy".
    pub fault: String,
    /// How it went.
    #[serde(flatten)]
    pub verdict: CaseVerdict,
    /// What was measured on the way.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

impl fmt::Display for Outcome {
    /// One line of the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.verdict == CaseVerdict::Passed { "pass" } else { "FAIL" };
        write!(f, "{word}  {:<32} {:<5} {:<6} {:>6.1} s", self.case, self.family, self.fault, self.seconds)?;
        if let CaseVerdict::Failed { reason } = &self.verdict {
            write!(f, "  {reason}")?;
        }
        if !self.notes.is_empty() {
            write!(f, "  ({})", self.notes.join(", "))?;
        }
        Ok(())
    }
}

/// All outcomes of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was tested.
    pub gateway: String,
    /// Reproduces the data and the faults.
    pub seed: u64,
    /// How long everything took.
    pub seconds: f64,
    /// In the order of the cases.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// How many passed.
    pub fn passed(&self) -> usize {
        self.outcomes.iter().filter(|o| o.verdict == CaseVerdict::Passed).count()
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.outcomes.len() - self.passed()
    }

    /// How many passed and failed, in a line for programs.
    pub fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "gateway": self.gateway,
            "seed": self.seed,
            "passed": self.passed(),
            "failed": self.failed(),
            "seconds": self.seconds,
        })
    }

    /// The report for programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and numbers can always be written as JSON")
    }
}

impl fmt::Display for Report {
    /// The table, and then, alone on the last line, how many passed and failed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gateway: {}   seed: {}   {:.0} s", self.gateway, self.seed, self.seconds)?;
        for outcome in &self.outcomes {
            writeln!(f, "{outcome}")?;
        }
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}
