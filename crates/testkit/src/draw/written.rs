//! The same as people write it, in TOML.
use super::Draw;
use shorthaul_congestion::Algorithm;
use shorthaul_proxy::{ACK_RELEASES, INTERCEPTORS, Mode, Row, WINDOW_LIMITS};
use shorthaul_tcp::{RateReporting, Starting};
use std::fmt::Write as _;

impl Draw {
    /// How an end or a leg sends: the keys of a patch.
    pub fn written_patch(&mut self) -> String {
        let (congestion, detection) = (self.control(), self.detection());
        let (discriminator, pacing) = (self.discrimination(), self.chance.happens(500));
        // Of what is drawn already.
        let place = Algorithm::NAMED.iter().position(|control| *control == congestion).unwrap_or(0);
        let reporting = RateReporting::ALL[place % RateReporting::ALL.len()];
        self.rows.note("rate report", reporting.name());
        let starting = Starting::ALL[place / RateReporting::ALL.len() % Starting::ALL.len()];
        self.rows.note("start", starting.name());
        format!(
            "start = \"{starting}\", rate_report = \"{reporting}\", congestion = \"{congestion}\", loss_detection = \"{detection}\", discriminator = \"{discriminator}\", pacing = {pacing}"
        )
    }

    /// What a gateway does to all flows: a table for `policy`, whose legs are to be written outside. `true` if it stands in
    /// them.
    pub fn written_policy(&mut self) -> (String, bool) {
        let mode = if self.chance.happens(700) { Mode::Split } else { *self.chance.pick(&Mode::ALL) };
        self.rows.note("mode", mode.name());
        let mut text = format!("{{ mode = \"{}\"", mode.name());
        if mode == Mode::Split {
            if self.chance.happens(500) {
                let part = self.written_part("ACK release", ACK_RELEASES);
                let _ = write!(text, ", ack = {part}");
            }
            if self.chance.happens(500) {
                let part = self.written_part("window limit", WINDOW_LIMITS);
                let _ = write!(text, ", window = [{part}]");
            }
        } else if mode != Mode::Observe && self.chance.happens(800) {
            let part = self.written_part("interceptor", INTERCEPTORS);
            let _ = write!(text, ", intercept = [{part}]");
        }
        (text + " }", mode == Mode::Split)
    }

    /// One of the registered parts, with the parameters that its row gives as examples.
    fn written_part<K: ?Sized>(&mut self, registry: &'static str, rows: &[Row<K>]) -> String {
        let row = self.chance.pick(rows);
        self.rows.note(registry, row.name);
        let mut text = format!("{{ kind = \"{}\"", row.name);
        for (key, what) in row.wants {
            let example = what.rsplit_once("such as ").map(|(_, example)| example);
            let example = example.unwrap_or_else(|| panic!("`{key}` of {} has no example: {what}", row.name));
            let _ = write!(text, ", {key} = {example}");
        }
        text + " }"
    }
}
