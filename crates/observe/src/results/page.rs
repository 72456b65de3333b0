//! The results as one HTML page.
use crate::RunRecord;
use shorthaul_report::plot::Figure;
use shorthaul_report::{Manifest, Page, Unit};

use super::figures::too_few_runs;
use super::{buffer_table, failure_sentences, table, unended_sentences};

/// What a page says of a study beside its results.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The scenario's name.
    pub title: &'a str,
    /// What it is about, in its author's words.
    pub about: &'a str,
    /// The text of the scenario file; empty if it is not known.
    pub text: &'a str,
    /// What else a reader should know.
    pub remarks: &'a [String],
}

pub fn page(
    manifest: &Manifest,
    about: &About<'_>,
    records: &[RunRecord],
    figures: &[(&'static str, Figure)],
) -> Page {
    let mut page = Page::new(about.title, manifest);
    if !about.about.is_empty() {
        page.text(about.about);
    }
    let mut seeds: Vec<u64> = records.iter().map(|record| record.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let shown: Vec<String> = seeds.iter().take(50).map(u64::to_string).collect();
    let more = if seeds.len() > shown.len() {
        format!(" and {} more", seeds.len() - shown.len())
    } else {
        String::new()
    };
    page.text(&format!("{} runs, with the seeds {}{more}.", records.len(), shown.join(", ")));
    let remarks: Vec<String> = about.remarks.iter().cloned().chain(fidelity(records)).collect();
    let unsure = too_few_runs(records);
    let failures = failure_sentences(records);
    if !failures.is_empty() {
        page.heading("What failed, or is not to be trusted").remarks(&failures);
    }
    page.heading("Results");
    page.remarks(unended_sentences(records)).remarks(&unsure);
    for (_, figure) in figures {
        page.figure(figure);
    }
    page.table(
        "Means with half the width of the 95 % confidence interval of the mean (Student's t), and what single runs came to: standard deviation and percentiles",
        &table(records),
    );
    if let Some(buffers) = buffer_table(records) {
        page.heading("Which leg binds").table(
            "How long the buffers between legs were empty though the leg behind could have carried more (drought), and full, so that the leg \
             before might not send (overflow), of the time from the first byte until the source ended. The leg that binds is kept waiting least. \
             A larger buffer mends what both legs lose; what one alone loses, it loses because the other is slower.",
            &buffers,
        );
    }
    if !remarks.is_empty() {
        page.heading("Remarks").remarks(&remarks);
    }
    if !about.text.is_empty() {
        page.heading("Scenario").source("The scenario file", about.text);
    }
    page
}

/// How true the live runs were, in a sentence; nothing if there were none.
fn fidelity(records: &[RunRecord]) -> Option<String> {
    let all: Vec<_> =
        records.iter().filter_map(|record| record.outcome.as_ref()?.fidelity.as_ref()).collect();
    if all.is_empty() {
        return None;
    }
    let worst = |of: fn(&crate::Fidelity) -> f64| all.iter().map(|f| of(f)).fold(0.0, f64::max);
    let dropped: u64 = all.iter().map(|fidelity| fidelity.dropped).sum();
    Some(format!(
        "Of the {} live runs, in the worst case: 1 % of the packets late by more than {}, the processors busy for {} \
         of the time, a program waiting for a processor for {} of its time. The emulator itself dropped {dropped} packets in all.",
        all.len(),
        Unit::Seconds.format(worst(|fidelity| fidelity.late_p99)),
        Unit::Percent.format(worst(|fidelity| fidelity.busy)),
        Unit::Percent.format(worst(|fidelity| fidelity.starved)),
    ))
}
