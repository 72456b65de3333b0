//! What "Using TCP Flow-Aggregation to Enhance Data Experience of Cellular Wireless Users" measured: Figures 1 to 4 (the
//! link and the problem), 9 to 12 (the proxy), and the same proxy on links of today.
//!
//! Reading order: this file (which scenarios, how they are run), `measures` (numbers out of
//! runs), `findings` (what the paper states, beside ours), `figures`, `modern` (links of today, in the simulator and live).
mod figures;
mod findings;
mod measures;
mod modern;

use crate::error::{Result, While};
use crate::experiment::{all_sound, records, study};
use crate::{All, Found, Paper, PaperError, fidelity};
use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::{EngineName, Finding, RunRecord, Store};
use shorthaul_report::{Console, Manifest, Page, make_directory, write_file};
use shorthaul_sim::Simulator;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How often, and where the results go.
#[derive(clap::Args)]
pub struct Aggregation {
    /// The directory for results and figures
    #[arg(long, default_value = "reproduce-aggregation")]
    out: PathBuf,
    /// How many seeds each point is run with, instead of the scenarios' own numbers
    #[arg(long)]
    repeats: Option<u32>,
    /// Only scenarios whose name contains this, such as `fig11` or `modern`; repeat for several
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Also between this machine's kernels, in real time. Each run is kept in DIRECTORY/live when it is done; runs that are
    /// there are not done again
    #[arg(long)]
    live: bool,
    /// How many live runs over GPRS at once: they take an hour one after the other, and hardly any processor time
    #[arg(long, default_value_t = 12, requires = "live")]
    jobs: usize,
    /// Recorded links, too: a directory with pairs of NAME.down and NAME.up in mahimahi's format
    #[arg(long, value_name = "DIRECTORY")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    bounds: Bounds,
}

/// Every scenario over GPRS, by name.
const SCENARIOS: [(&str, &str); 26] = [
    ("fig1", include_str!("../../../../papers/aggregation/fig1.toml")),
    ("fig1-directions", include_str!("../../../../papers/aggregation/fig1-directions.toml")),
    ("fig1-rates", include_str!("../../../../papers/aggregation/fig1-rates.toml")),
    ("fig2", include_str!("../../../../papers/aggregation/fig2.toml")),
    ("fig2-bunching", include_str!("../../../../papers/aggregation/fig2-bunching.toml")),
    ("fig2-quick", include_str!("../../../../papers/aggregation/fig2-quick.toml")),
    ("fig3", include_str!("../../../../papers/aggregation/fig3.toml")),
    ("fig3-drain", include_str!("../../../../papers/aggregation/fig3-drain.toml")),
    ("fig3-sack", include_str!("../../../../papers/aggregation/fig3-sack.toml")),
    ("fig4", include_str!("../../../../papers/aggregation/fig4.toml")),
    ("fig4-joins", include_str!("../../../../papers/aggregation/fig4-joins.toml")),
    ("fig5-classes", include_str!("../../../../papers/aggregation/fig5-classes.toml")),
    ("fig9", include_str!("../../../../papers/aggregation/fig9.toml")),
    ("fig9-mss", include_str!("../../../../papers/aggregation/fig9-mss.toml")),
    ("fig9-persistent", include_str!("../../../../papers/aggregation/fig9-persistent.toml")),
    ("fig9-window", include_str!("../../../../papers/aggregation/fig9-window.toml")),
    ("fig10", include_str!("../../../../papers/aggregation/fig10.toml")),
    ("fig10-auto", include_str!("../../../../papers/aggregation/fig10-auto.toml")),
    ("fig11", include_str!("../../../../papers/aggregation/fig11.toml")),
    ("fig11-delays", include_str!("../../../../papers/aggregation/fig11-delays.toml")),
    ("fig11-direct", include_str!("../../../../papers/aggregation/fig11-direct.toml")),
    ("fig12", include_str!("../../../../papers/aggregation/fig12.toml")),
    ("fig12-causes", include_str!("../../../../papers/aggregation/fig12-causes.toml")),
    ("fig12-lengths", include_str!("../../../../papers/aggregation/fig12-lengths.toml")),
    ("fig12-uplink", include_str!("../../../../papers/aggregation/fig12-uplink.toml")),
    ("fig12-uplink-beside", include_str!("../../../../papers/aggregation/fig12-uplink-beside.toml")),
];

/// Those that are measured between kernels, too, with so many seeds: after a stall it is luck how far a timer has come when the link is back.
const LIVE: [(&str, u32); 7] =
    [("fig2", 1), ("fig3", 1), ("fig4", 1), ("fig9", 1), ("fig10", 1), ("fig11", 1), ("fig12", 5)];

/// The live engine, whose runs take as long as what they measure: each is kept when it is done.
#[derive(Clone, Debug)]
struct Kept {
    live: Live,
    store: Option<Store>,
}

/// The runs of the scenarios, by name.
type Runs = BTreeMap<&'static str, Vec<RunRecord>>;

impl Paper for Aggregation {
    const TITLE: &'static str = "TCP flow aggregation";

    /// The paper's figures; links of today are none of them.
    fn whole(options: &All) -> Self {
        Aggregation {
            out: options.directory("aggregation"),
            repeats: options.repeats(),
            only: vec!["fig".to_owned()],
            live: options.is_live("aggregation"),
            // Over GPRS they take hardly any processor time, and with twelve an hour.
            jobs: 24,
            traces: None,
            bounds: Bounds::default(),
        }
    }

    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        if self.live {
            // First of all, while the process has a single thread: the kernel asks for that.
            Privilege::obtain()?;
        }
        let simulated = fidelity::store(&self.out)?;
        let store = self.live.then(|| Store::open(&self.out.join("live"))).transpose()?;
        let live = Kept { live: Live { bounds: self.bounds.clone(), jobs: self.jobs }, store };
        let mut runs = BTreeMap::from([("sim", Runs::new()), ("live", Runs::new())]);
        for (name, text) in SCENARIOS.into_iter().filter(|(name, _)| self.wants(name)) {
            let cannot = || format!("{name} cannot be run");
            let records = simulate(name, text, self.repeats, Some(&simulated), console).doing(cannot())?;
            runs.entry("sim").or_default().insert(name, records);
            let seeds = LIVE.iter().find(|(own, _)| self.live && *own == name).map(|(_, seeds)| *seeds);
            if let Some(seeds) = seeds {
                let seeds = self.repeats.unwrap_or(seeds);
                let records = run_live(name, text, seeds, &live, console).doing(cannot())?;
                runs.entry("live").or_default().insert(name, records);
            }
        }
        let modern = self.run_modern(&live, console)?;
        make_directory(&self.out)?;
        self.report(&runs, &modern, console)
    }
}

impl Aggregation {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }

    fn run_modern(&self, live: &Kept, console: &dyn Console) -> Result<Vec<modern::Run>> {
        let mut modern = Vec::new();
        let engines = if self.live { &[EngineName::Sim, EngineName::Live][..] } else { &[EngineName::Sim] };
        for &engine in engines {
            for link in modern::links(self.traces.as_deref(), &self.out)? {
                // Tuning is what the simulator is for.
                if !self.wants(link.name()) || (engine == EngineName::Live && link.is_tuning()) {
                    continue;
                }
                let name = link.name().to_owned();
                let run = link.run(engine, self.repeats, live, console);
                modern.push(run.doing(format!("{name} cannot be run"))?);
            }
        }
        Ok(modern)
    }

    /// Says what came of it, and writes it down.
    fn report(
        &self,
        runs: &BTreeMap<&str, Runs>,
        modern: &[modern::Run],
        console: &dyn Console,
    ) -> Result<Vec<Found>> {
        let manifest = Manifest::of_this_command().seed(1);
        let mut page = Page::new("TCP flow aggregation for mobile hosts", &manifest);
        let mut found = Vec::new();
        for (engine, caption) in [
            (EngineName::Sim, "What the paper states, beside ours (in the simulator)"),
            (EngineName::Live, "What the paper states, beside ours (live, between kernels)"),
        ] {
            let runs = &runs[engine.name()];
            let groups = findings::all(runs);
            let findings: Vec<Finding> = groups.iter().flat_map(|group| group.findings.clone()).collect();
            if findings.is_empty() {
                continue;
            }
            console.say(&format!("\n{caption}:"));
            console.table(&Finding::table(&findings));
            Finding::show(&mut page, caption, &findings);
            // A doubt is about the runs of a finding's own scenario.
            for group in groups {
                found.extend(Found::of_runs(engine, group.findings, &runs[group.scenario]));
            }
        }
        let doubts = doubts(&runs["live"]);
        doubts.iter().for_each(|doubt| console.say(doubt));
        page.remarks(&doubts);
        if !modern.is_empty() {
            let (table, doubts) = (modern::table(modern), modern::doubts(modern));
            console.say("\nLinks of today:");
            console.table(&table);
            doubts.iter().for_each(|doubt| console.say(doubt));
            page.table(
                "Links of today: a bulk transfer, and six parallel downloads of 30 kB beside it",
                &table,
            );
            page.remarks(&doubts);
        }
        self.draw(runs, modern, &manifest, &mut page)?;
        page.heading("Scenario files");
        for (name, text) in SCENARIOS.into_iter().filter(|(name, _)| runs["sim"].contains_key(name)) {
            page.source(name, text);
        }
        for run in modern.iter().filter(|run| run.engine == "sim") {
            page.source(&run.name, &run.text);
        }
        let results = json!({ "manifest": manifest, "findings": found, "runs": runs, "modern": modern });
        write_file(&self.out.join("results.json"), serde_json::to_string(&results)?)?;
        page.save(&self.out.join("report.html"))?;
        console.say(&format!("Results and figures are in {}.", self.out.display()));
        Ok(found)
    }

    fn draw(
        &self,
        runs: &BTreeMap<&str, Runs>,
        modern: &[modern::Run],
        manifest: &Manifest,
        page: &mut Page,
    ) -> Result<()> {
        for (name, figure) in figures::all(&runs["sim"]) {
            page.figure(&figure);
            figure.save(&self.out.join(name), manifest)?;
        }
        for (name, figure) in figures::all(&runs["live"]) {
            let figure = figure.caption("Live, between kernels.");
            page.figure(&figure);
            figure.save(&self.out.join(format!("{name}-live")), manifest)?;
        }
        for (name, figure) in modern::figures(modern) {
            page.figure(&figure);
            figure.save(&self.out.join(name), manifest)?;
        }
        Ok(())
    }
}

fn simulate(
    name: &str,
    text: &str,
    repeats: Option<u32>,
    store: Option<&Store>,
    console: &dyn Console,
) -> Result<Vec<RunRecord>> {
    let study = study(name, text, repeats)?;
    console.say(&format!("{name}: {}", study.about()));
    all_sound(records(&Simulator::default(), &study, store, console)?)
}

/// Between kernels, which decide themselves when to acknowledge.
fn run_live(
    name: &str,
    text: &str,
    seeds: u32,
    live: &Kept,
    console: &dyn Console,
) -> Result<Vec<RunRecord>> {
    let study = study(name, &of_kernels(text), Some(seeds))?;
    console.say(&format!("{name}, live: {}", study.about()));
    records(&live.live, &study, live.store.as_ref(), console)
}

/// The scenario with hosts that kernels can be.
fn of_kernels(text: &str) -> String {
    text.replace("ack = \"delayed 200 ms\", ", "")
}

/// What speaks against trusting some of the runs.
fn doubts(runs: &Runs) -> Vec<String> {
    let of = |(name, records): (&&str, &Vec<RunRecord>)| {
        let doubt = |record: &RunRecord| {
            let case = record.case.as_deref().unwrap_or("");
            Some(format!("{name} {case}, live: {}", record.failure.as_ref()?))
        };
        records.iter().filter_map(doubt).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::measures::*;
    use super::*;
    use shorthaul_report::Silence;
    use shorthaul_scenario::Study;

    fn runs(name: &'static str, repeats: u32) -> Vec<RunRecord> {
        let (_, text) = SCENARIOS.into_iter().find(|(known, _)| *known == name).unwrap();
        simulate(name, text, Some(repeats), None, &Silence).unwrap()
    }

    #[test]
    fn kernels_can_be_the_hosts_of_what_is_measured_live() {
        for (name, _) in LIVE {
            let (_, text) = SCENARIOS.into_iter().find(|(own, _)| *own == name).unwrap();
            let text = of_kernels(text);
            assert!(!text.contains(" ack = "), "{name}");
            Study::from_toml(name, &text).unwrap();
        }
    }

    #[test]
    fn every_short_download_is_faster_and_below_18_kb_by_a_quarter() {
        let records = runs("fig9", 1);
        for kb in [5.0, 10.0, 15.0, 17.0, 20.0, 25.0, 30.0] {
            let time = |case| mean(&transfers(&records, case, Some(kb))).unwrap();
            let gain = 1.0 - time("aggregate") / time("direct");
            assert!(gain > 0.0, "{kb} kB: {gain}");
            assert!(kb >= 18.0 || gain >= 0.25, "{kb} kB: {gain}");
        }
    }

    #[test]
    fn a_joining_download_connects_at_once_and_gets_its_half() {
        let records = runs("fig10", 3);
        let set_up = |case, flow| mean(&set_ups(&records, case, flow)).unwrap();
        let (alone, joining) = (set_up("aggregate", "first"), set_up("aggregate", "second"));
        let direct = set_up("direct", "second");
        assert!(
            joining < 2.0 * alone && joining < direct / 2.0,
            "{joining} s; {alone} s alone, {direct} s directly"
        );
        assert!(shared_fairness(&records, "aggregate").unwrap() >= 0.98);
        let [alone, shared] = outstanding_of_first(&records, "aggregate").unwrap();
        assert!((0.4..0.62).contains(&(shared / alone)), "{shared} of {alone}");
    }

    #[test]
    fn above_the_effective_product_the_window_makes_no_difference_but_a_queue() {
        let records = runs("fig11", 1);
        let time = |case| mean(&transfers(&records, case, None)).unwrap();
        let best = ["14kB", "16kB", "20kB", "32kB"].map(time).into_iter().fold(f64::MAX, f64::min);
        for case in ["16kB", "20kB", "32kB"] {
            assert!(time(case) < 1.02 * best, "{case}: {}", time(case));
        }
        assert!(time("7kB") > time("10kB") && time("5kB") > time("7kB"), "below the product it does");
        assert!(rtt(&records, "32kB").unwrap() > 1.5 * rtt(&records, "14kB").unwrap());
        assert!(best / time("auto") >= 0.97, "{} beside {best}", time("auto"));
        // Single seeds differ by more than that.
        let records = runs("fig11", 12);
        let [auto, fixed] = ["auto", "16kB"].map(|case| rtt(&records, case).unwrap());
        assert!(auto < 1.2 * fixed, "{auto} beside {fixed}");
    }

    #[test]
    fn after_a_stall_sending_resumes_within_one_and_a_half_round_trips() {
        let records = runs("fig12", 1);
        for (case, back) in [("aggregate-held", 98.0), ("aggregate-lost", 105.0)] {
            let wait = resumed_after(&records, case, back).unwrap();
            let rtt = rtt_between(&records, case, 60.0, 90.0).unwrap();
            assert!(wait <= 1.5 * rtt, "{case}: {wait} s at the phone, with round trips of {rtt} s");
        }
    }
}
