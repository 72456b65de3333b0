//! What a paper states, beside ours.
use serde::Serialize;
use shorthaul_report::{Column, Page, Table, TableCell, Tone, Unit};
use std::fmt;

/// One statement of a paper, or one thing that is asked, beside what came out; it holds or differs.
///
/// ```
/// use shorthaul_observe::{Finding, Verdict};
/// use shorthaul_report::Unit;
///
/// let found = Finding::number("Figure 3: time with / without", "0.74", 0.71, Unit::None).at_most(0.80);
/// assert_eq!(found.verdict, Verdict::Holds);
/// let found = Finding::judged("the window has peaks", "yes", "no", false).because("the queue is longer");
/// assert_eq!(found.to_string(), "the window has peaks: the paper states yes, ours is no; differs because the queue is longer");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What is looked at, and where the paper says it.
    pub what: String,
    /// What the paper states, in its words or numbers, or what is asked; empty if nothing is.
    pub stated: String,
    /// What came out.
    pub ours: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What is to be known beside it.
    pub reason: String,
    /// Why it differs, with the experiment that shows it; none where that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What the planner's model says, where it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What came out as a number, for bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What is stated as a number, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
}

/// Whether a statement holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Ours is what is stated.
    Holds,
    /// Ours is not what is stated.
    Differs,
    /// Nothing is stated, or nothing that a number could fail: ours is only shown.
    Shown,
}

impl Finding {
    /// Something that was looked at and is only shown.
    pub fn shown(what: impl Into<String>, stated: impl Into<String>, ours: impl Into<String>) -> Self {
        Finding {
            what: what.into(),
            stated: stated.into(),
            ours: ours.into(),
            verdict: Verdict::Shown,
            reason: String::new(),
            cause: None,
            model: None,
            value: None,
            expected: None,
        }
    }

    /// Something of which it is known whether it holds.
    pub fn judged(
        what: impl Into<String>,
        stated: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
    ) -> Self {
        Finding::shown(what, stated, ours).and(holds)
    }

    /// A number, to be bounded with [`at_most`](Self::at_most), [`at_least`](Self::at_least) or
    /// [`within`](Self::within).
    pub fn number(what: impl Into<String>, stated: impl Into<String>, value: f64, unit: Unit) -> Self {
        Finding { value: Some(value), ..Finding::shown(what, stated, unit.format(value)) }
    }

    /// It holds if the number is not above `bound`.
    #[must_use]
    pub fn at_most(self, bound: f64) -> Self {
        let holds = self.value.is_some_and(|value| value <= bound);
        self.and(holds)
    }

    /// It holds if the number is not below `bound`.
    #[must_use]
    pub fn at_least(self, bound: f64) -> Self {
        let holds = self.value.is_some_and(|value| value >= bound);
        self.and(holds)
    }

    /// It holds if the number is off `stated` by no more than this share of it.
    #[must_use]
    pub fn within(self, share: f64, stated: f64) -> Self {
        let holds = self.value.is_some_and(|value| (value - stated).abs() <= share * stated.abs());
        Finding { expected: Some(stated), ..self.and(holds) }
    }

    /// It holds only if this does, too.
    #[must_use]
    pub fn and(self, holds: bool) -> Self {
        let verdict = match (self.verdict, holds) {
            (Verdict::Differs, _) | (_, false) => Verdict::Differs,
            _ => Verdict::Holds,
        };
        Finding { verdict, ..self }
    }

    /// Says why it differs, and which experiment shows that. If the experiment does not show it, the cause stays what it was: open,
    /// or that of another experiment. What holds needs no cause.
    #[must_use]
    pub fn explained(self, cause: impl Into<String>, shown: bool) -> Self {
        match self.verdict == Verdict::Differs && self.cause.is_none() && shown {
            true => Finding { cause: Some(cause.into()), ..self },
            false => self,
        }
    }

    /// What the planner's model says of it.
    #[must_use]
    pub fn model(self, says: impl Into<String>) -> Self {
        Finding { model: Some(says.into()), ..self }
    }

    /// By how much the number is off what is stated, as a share of it; nothing where one of them is no number.
    pub fn difference(&self) -> Option<f64> {
        let (value, expected) = (self.value?, self.expected.filter(|expected| *expected != 0.0)?);
        Some(value / expected - 1.0).filter(|share| share.is_finite())
    }

    /// Says what is to be known beside it.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Finding { reason: reason.into(), ..self }
    }

    /// What it says beside the values: the verdict and the reason.
    pub fn remark(&self) -> String {
        let known = [self.cause.as_deref(), Some(self.reason.as_str()).filter(|reason| !reason.is_empty())];
        let known = known.into_iter().flatten().collect::<Vec<_>>().join("; ");
        match (self.verdict, known.is_empty()) {
            (Verdict::Shown, _) => known,
            (verdict, true) => verdict.to_string(),
            (verdict, false) => format!("{verdict}: {known}"),
        }
    }

    /// The findings as a table for people.
    pub fn table(findings: &[Finding]) -> Table {
        let mut table = Table::new([
            Column::left("what"),
            Column::right("paper, or asked"),
            Column::right("ours"),
            Column::left("verdict"),
        ]);
        for finding in findings {
            let tone = match finding.verdict {
                Verdict::Differs => Tone::Bad,
                Verdict::Holds => Tone::Good,
                Verdict::Shown => Tone::Quiet,
            };
            let cells =
                [&finding.what, &finding.stated, &finding.ours].map(|text| TableCell::from(text.clone()));
            table.row(cells.into_iter().chain([TableCell::toned(finding.remark(), tone)]));
        }
        table
    }

    /// Adds the findings to a page, as a table; nothing if there are none.
    pub fn show(page: &mut Page, caption: &str, findings: &[Finding]) {
        if !findings.is_empty() {
            page.table(caption, &Finding::table(findings));
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::Shown => "shown",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { what, stated, ours, verdict, cause, reason, .. } = self;
        let reason = cause.as_ref().unwrap_or(reason);
        match stated.is_empty() {
            true => write!(f, "{what}: {ours}")?,
            false => write!(f, "{what}: the paper states {stated}, ours is {ours}")?,
        }
        match (verdict, reason.is_empty()) {
            (Verdict::Shown, true) => Ok(()),
            (Verdict::Shown, false) => write!(f, "; {reason}"),
            (_, true) => write!(f, "; {verdict}"),
            (_, false) => write!(f, "; {verdict} because {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_holds_within_its_bounds_and_fails_beyond() {
        let verdict = |value: f64| {
            let found = Finding::number("gain", "about twice", value, Unit::Times);
            [
                found.clone().at_most(2.2).verdict,
                found.clone().at_least(1.8).verdict,
                found.within(0.1, 2.0).verdict,
            ]
        };
        assert_eq!(verdict(2.0), [Verdict::Holds; 3]);
        assert_eq!(verdict(2.5), [Verdict::Differs, Verdict::Holds, Verdict::Differs]);
        assert_eq!(verdict(f64::NAN), [Verdict::Differs; 3]);
    }

    #[test]
    fn what_has_once_failed_does_not_hold_again() {
        let found = Finding::number("gain", "", 3.0, Unit::Times).at_most(2.0).at_least(1.0);
        assert_eq!(found.verdict, Verdict::Differs);
    }

    #[test]
    fn a_cause_counts_only_where_it_is_needed_and_shown() {
        let cause = |value: f64, shown: bool| {
            let found = Finding::number("gain", "2", value, Unit::Times).within(0.1, 2.0);
            found.explained("the queue: experiment 7", shown).explained("another", true).cause
        };
        assert_eq!(cause(2.1, true), None, "what holds needs none");
        assert_eq!(cause(3.0, true).as_deref(), Some("the queue: experiment 7"));
        assert_eq!(
            cause(3.0, false).as_deref(),
            Some("another"),
            "an experiment that does not show it says nothing"
        );
        let found = Finding::number("gain", "2", 3.0, Unit::Times).within(0.1, 2.0);
        assert_eq!((found.difference(), found.cause), (Some(0.5), None));
        assert_eq!(Finding::number("gain", "0", 3.0, Unit::Times).within(0.1, 0.0).difference(), None);
    }

    #[test]
    fn a_finding_is_a_sentence() {
        let shown = Finding::shown("round trips", "", "80 ms");
        assert_eq!((shown.to_string().as_str(), shown.remark().as_str()), ("round trips: 80 ms", ""));
        let judged = Finding::judged("share", "≥ 97 %", "98 %", true);
        assert_eq!(judged.to_string(), "share: the paper states ≥ 97 %, ours is 98 %; holds");
    }
}
