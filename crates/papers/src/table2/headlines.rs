//! The headlines of the systems' own papers: what each claims first, as a scenario and a judgement that can fail.
use super::rows::row;
use crate::error::{Result, While};
use crate::experiment::{all_sound, records, study};
use shorthaul_observe::{Finding, Outcome, RunRecord, Store, Summary};
use shorthaul_report::{Console, Unit, write_file};
use shorthaul_scenario::Metric;
use shorthaul_sim::Simulator;
use std::path::Path;

/// How far a number may be off one that is stated.
const NEAR: f64 = 0.15;

/// A headline.
pub(super) struct Headline {
    /// The system that it is of, by the name of its row.
    pub row: &'static str,
    /// The scenario's name, and its text.
    pub scenario: &'static str,
    text: &'static str,
    /// What comes of it; nothing where the runs say nothing.
    judge: fn(&Tried) -> Option<Vec<Claim>>,
}

/// What is claimed, beside what came out.
struct Claim {
    what: &'static str,
    stated: &'static str,
    ours: String,
    holds: bool,
}

macro_rules! scenario {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))
    };
}

/// Every headline that is run.
pub(super) fn all() -> Vec<Headline> {
    let of = |row, (scenario, text), judge| Headline { row, scenario, text, judge };
    vec![
        of("fast-start", scenario!("fast-start"), fast_start),
        of("fast-start", scenario!("fast-start-stale"), fast_start_stale),
        of("snoop", scenario!("snoop-ber"), snoop),
        of("delayed-duplicates", scenario!("delayed-duplicates"), delayed_duplicates),
        of("fda", scenario!("fda"), fda),
        of("freeze-tcp", scenario!("freeze-tcp"), freeze_tcp),
        of("m-tcp", scenario!("m-tcp"), m_tcp),
        of("w-tcp", scenario!("w-tcp"), w_tcp),
        of("wtcp", scenario!("wtcp"), wtcp),
        of("wtcp", scenario!("wtcp-shares"), wtcp_shares),
        of("ack-regulator", scenario!("ack-regulator"), ack_regulator),
        of("queue-price", scenario!("clamp"), clamp),
        of("westwood", scenario!("westwood"), westwood),
    ]
}

/// The runs of a scenario.
struct Tried<'a>(&'a [RunRecord]);

impl Tried<'_> {
    /// The mean over the seeds of what these runs have: of a case, and with these values of what is swept.
    fn mean(&self, case: &str, values: &[(&str, &str)], of: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        let is_meant = |record: &&RunRecord| {
            let has = |(path, wanted): &(&str, &str)| {
                record.values.iter().any(|(own, value)| own == path && value.trim_matches('"') == *wanted)
            };
            record.case.as_deref().unwrap_or_default() == case && values.iter().all(has)
        };
        let all = self.0.iter().filter(is_meant).filter_map(|record| of(record.outcome.as_ref()?));
        Some(Summary::of(all)?.mean)
    }

    fn metric(&self, case: &str, values: &[(&str, &str)], metric: Metric) -> Option<f64> {
        self.mean(case, values, |outcome| outcome.metrics.get(&metric).copied())
    }
}

/// How long the transfers of a flow take that come after its first.
fn later(outcome: &Outcome, flow: &str) -> Option<f64> {
    let flow = outcome.flows.iter().find(|own| own.name == flow)?;
    Some(Summary::of(flow.transfers.iter().skip(1).copied())?.mean)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn factor(value: f64) -> String {
    format!("{value:.2} times")
}

fn fast_start(tried: &Tried) -> Option<Vec<Claim>> {
    let sizes = ["5kB", "10kB", "20kB", "40kB", "80kB", "160kB"];
    let gains = |flow: &str| -> Option<Vec<f64>> {
        let time = |case: String| tried.mean(&case, &[], |outcome| later(outcome, flow));
        sizes.iter().map(|size| Some(time(format!("slow-{size}"))? / time(format!("fast-{size}"))?)).collect()
    };
    let claim = |what, flow| {
        let gains = gains(flow)?;
        let best = gains.iter().copied().fold(0.0, f64::max);
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let [low, high] = [2.0 * (1.0 - NEAR), 3.0 * (1.0 + NEAR)];
        let ours = format!("{} at most, {} at least", factor(best), factor(least));
        Some(Claim {
            what,
            stated: "latency is reduced by up to a factor of 2 to 3",
            ours,
            holds: best >= low && best <= high,
        })
    };
    Some(vec![
        claim("short transfers, each on a new connection", "new")?,
        claim("short transfers after a pause", "after-pause")?,
    ])
}

/// The first claim that follows: no harm where what is known is not true any more. Its authors have routers for that, which drop what is sent in fast start first.
fn fast_start_stale(tried: &Tried) -> Option<Vec<Claim>> {
    let mut worst: [f64; 2] = [0.0, f64::INFINITY];
    for bulk in ["1", "3"] {
        let of = |case: &str, flow: fn(&Outcome) -> Option<f64>| {
            tried.mean(case, &[("flows.bulk.count", bulk)], flow)
        };
        let page = |outcome: &Outcome| later(outcome, "page");
        let others = |outcome: &Outcome| {
            let bulk = outcome.flows.iter().filter(|flow| flow.name.starts_with("bulk"));
            Some(bulk.map(|flow| flow.goodput).sum::<f64>())
        };
        worst[0] = worst[0].max(of("fast", page)? / of("slow", page)?);
        worst[1] = worst[1].min(of("fast", others)? / of("slow", others)?);
    }
    let [own, others] = worst;
    Some(vec![
        Claim {
            what: "transfers over a link that others have filled since",
            stated: "no longer than with slow start",
            ours: format!("{own:.2} of the time at most"),
            holds: own <= 1.05,
        },
        Claim {
            what: "the others meanwhile",
            stated: "not harmed (by routers that drop what is sent in fast start first, which none does here)",
            ours: format!("{others:.2} of their goodput at least"),
            holds: others >= 0.95,
        },
    ])
}

fn snoop(tried: &Tried) -> Option<Vec<Claim>> {
    let path = "links.station-phone.link.loss.rate";
    let gain = |rate: &str| {
        let goodput = |case| tried.metric(case, &[(path, rate)], Metric::Goodput);
        Some(goodput("snoop")? / goodput("whole")?)
    };
    // Numbers are written as the file's reader writes them.
    let rates: Vec<&str> = {
        let mut rates: Vec<&str> = tried
            .0
            .iter()
            .flat_map(|record| &record.values)
            .filter(|(own, _)| own == path)
            .map(|(_, rate)| rate.as_str())
            .collect();
        rates.sort_by(|a, b| number(a).total_cmp(&number(b)));
        rates.dedup();
        rates
    };
    if rates.is_empty() {
        return None;
    }
    let few = rates.iter().filter(|rate| number(rate) <= 5e-7).map(|rate| gain(rate));
    let few = few.collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
    let most =
        rates.iter().map(|rate| gain(rate)).collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
    Some(vec![
        Claim {
            what: "throughput over bit errors beside Reno",
            stated: "up to 20 times",
            ours: factor(most),
            holds: (most / 20.0 - 1.0).abs() <= NEAR,
        },
        Claim {
            what: "the same where few bits are wrong, up to 5e-7",
            stated: "no difference",
            ours: factor(few),
            holds: few > 0.0 && (few - 1.0).abs() <= NEAR,
        },
    ])
}

fn number(text: &str) -> f64 {
    text.trim_matches('"').parse().unwrap_or(f64::NAN)
}

fn delayed_duplicates(tried: &Tried) -> Option<Vec<Claim>> {
    // Senders of 1999, which take no answer back.
    let mut senders = tried.0.iter().flat_map(|record| &record.values);
    let (path, then) =
        senders.find(|(path, sender)| path == "hosts.server.scheme" && sender.contains("undo"))?;
    let then = [(path.as_str(), then.trim_matches('"')), ("links.station-phone.link.reorder.share", "0.01")];
    let of = |case| {
        let values = then;
        tried.mean(case, &values, |outcome| outcome.metrics.get(&Metric::Goodput).copied())
    };
    let [whole, snoop, ours] = [of("whole")?, of("snoop")?, of("delayed-duplicates")?];
    let said = |value| Unit::BitsPerSecond.format(value);
    Some(vec![Claim {
        what: "throughput where the link repairs out of order, with senders of 1999",
        stated: "as good as Snoop, better than nothing",
        ours: format!("{}; Snoop {}, nothing {}", said(ours), said(snoop), said(whole)),
        holds: ours >= snoop * (1.0 - NEAR) && ours > whole,
    }])
}

fn fda(tried: &Tried) -> Option<Vec<Claim>> {
    let values =
        [("links.station-phone.link.loss", "0 %"), ("links.station-phone.link.queue", "200 packets")];
    let wait = |case| {
        tried.mean(case, &values, |outcome| {
            let waits = outcome.series.iter().find(|own| own.subject == "station>phone")?;
            Some(Summary::of(waits.points.iter().map(|(_, wait)| *wait))?.mean)
        })
    };
    let goodput = |case| tried.metric(case, &values, Metric::Goodput);
    let [ours, snoop] = [wait("fda")?, wait("snoop")?];
    let used = goodput("fda")? / goodput("snoop")?;
    Some(vec![Claim {
        what: "the queue, beside that of Snoop, on which it stands",
        stated: "no excess queue",
        ours: format!("{:.2} of it, with {used:.2} of its goodput", ours / snoop),
        holds: ours <= 0.5 * snoop && used >= 1.0 - NEAR,
    }])
}

fn freeze_tcp(tried: &Tried) -> Option<Vec<Claim>> {
    let time = |case: &str| tried.metric(case, &[], Metric::Completion);
    let gain =
        |away: &str| Some(1.0 - time(&format!("frozen-250ms-{away}"))? / time(&format!("whole-{away}"))?);
    let gains = [gain("1s")?, gain("4s")?, gain("8s")?];
    let warnings = ["frozen-0ms-1s", "frozen-100ms-1s", "frozen-250ms-1s", "frozen-500ms-1s", "frozen-2s-1s"];
    let times = warnings.iter().map(|case| time(case)).collect::<Option<Vec<f64>>>()?;
    let best = times.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?.0;
    Some(vec![
        Claim {
            what: "the gain, by the time away",
            stated: "grows with it",
            ours: format!("{} at 1, 4 and 8 s", gains.map(percent).join(", ")),
            holds: gains[0] > 0.0 && gains.is_sorted() && gains[2] > gains[0],
        },
        Claim {
            what: "when the warning is best",
            stated: "a round trip before (some 450 ms with the queue)",
            ours: warnings[best].trim_start_matches("frozen-").trim_end_matches("-1s").to_owned(),
            holds: warnings[best] == "frozen-500ms-1s",
        },
    ])
}

fn m_tcp(tried: &Tried) -> Option<Vec<Claim>> {
    let time = |case: String| tried.metric(&case, &[], Metric::Completion);
    let gain =
        |case: &str, away: &str| Some(1.0 - time(format!("{case}-{away}"))? / time(format!("whole-{away}"))?);
    let of = |case: &str| Some([gain(case, "1s")?, gain(case, "4s")?, gain(case, "8s")?]);
    let [ours, persist] = [of("m-tcp")?, of("persist")?];
    let timeouts = tried.metric("persist-8s", &[], Metric::Timeouts)?;
    Some(vec![
        Claim {
            what: "time saved over disconnections of 1, 4 and 8 s",
            stated: "excellent performance where there are disconnections",
            ours: format!(
                "{}; to senders that persist {}",
                ours.map(percent).join(", "),
                persist.map(percent).join(", ")
            ),
            holds: ours.iter().chain(&persist).all(|gain| *gain > 0.0),
        },
        Claim {
            what: "RTOs of a sender that persists, over three disconnections of 8 s",
            stated: "none: it is in persist mode",
            ours: format!("{timeouts:.1}"),
            holds: timeouts < 0.5,
        },
    ])
}

fn w_tcp(tried: &Tried) -> Option<Vec<Claim>> {
    let path = "links.station-phone.link.loss";
    // By the order of the sweep the first sender goes by timestamps.
    let by_echo = |record: &RunRecord| record.values.iter().any(|(_, value)| value.contains("rttm"));
    let own: Vec<RunRecord> = only(tried.0, by_echo);
    let tried = Tried(&own);
    let rtt = |loss| tried.metric("w-tcp", &[(path, loss)], Metric::Rtt);
    let goodput = |case, loss| tried.metric(case, &[(path, loss)], Metric::Goodput);
    let longest = rtt("1 %")?.max(rtt("3 %")?);
    let beside = |loss| Some(goodput("w-tcp", loss)? / goodput("snoop", loss)?);
    let [one, three] = [beside("1 %")?, beside("3 %")?];
    Some(vec![
        Claim {
            what: "the round trip of a sender that takes timestamps",
            stated: "that of the wire, 100 ms",
            ours: Unit::Seconds.format(longest),
            holds: (longest / 0.1 - 1.0).abs() <= NEAR,
        },
        Claim {
            what: "goodput beside Snoop at 1 and 3 % of loss",
            stated: "more",
            ours: format!("{one:.2} and {three:.2} of it"),
            holds: one > 1.0 && three > 1.0,
        },
    ])
}

/// The records of which this holds.
fn only(records: &[RunRecord], which: impl Fn(&RunRecord) -> bool) -> Vec<RunRecord> {
    records.iter().filter(|record| which(record)).cloned().collect()
}

fn wtcp(tried: &Tried) -> Option<Vec<Claim>> {
    let goodput = |case| tried.metric(case, &[("links.station-phone.link.loss", "5 %")], Metric::Goodput);
    let ours = goodput("wtcp")?;
    let gains =
        [ours / goodput("newreno")? - 1.0, ours / goodput("vegas")? - 1.0, ours / goodput("snoop")? - 1.0];
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let clean = tried.metric("wtcp", &[("links.station-phone.link.loss", "0 %")], Metric::Goodput)?;
    let kept = ours / (clean * 0.95);
    Some(vec![
        Claim {
            what: "goodput beside NewReno, Vegas and Snoop at 5 % of loss",
            stated: "20 to 200 % more",
            ours: format!("{} more", gains.map(percent).join(", ")),
            holds: least >= 0.2 * (1.0 - NEAR) && most <= 2.0 * (1.0 + NEAR),
        },
        Claim {
            what: "goodput at 5 % of loss, of what is not lost",
            stated: "random loss does not matter",
            ours: format!("{kept:.2}"),
            holds: kept >= 1.0 - NEAR,
        },
    ])
}

fn wtcp_shares(tried: &Tried) -> Option<Vec<Claim>> {
    let values = [("links.far-station.link.delay", "25 ms"), ("links.station-phone.link.loss", "0 %")];
    let index = tried.metric("wtcp", &values, Metric::Fairness)?;
    Some(vec![Claim {
        what: "Jain's index of a flow and one that joins it",
        stated: "fair",
        ours: format!("{index:.3}"),
        holds: index >= super::aspects::FAIR,
    }])
}

fn ack_regulator(tried: &Tried) -> Option<Vec<Claim>> {
    let of = |sender: &str| {
        let goodput = |case: &str| tried.metric(case, &[("hosts.server.scheme", sender)], Metric::Goodput);
        let rooms = ["regulated-20kB", "regulated-30kB", "regulated-40kB"];
        let best = rooms
            .iter()
            .map(|case| goodput(case))
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .fold(0.0, f64::max);
        Some(best / goodput("whole")? - 1.0)
    };
    let senders = ["reno", "newreno", "sack-reno", "cubic"];
    let gains = senders.iter().map(|sender| Some((of(sender)?, *sender))).collect::<Option<Vec<_>>>()?;
    let best = gains.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let said: Vec<String> =
        gains.iter().map(|(gain, sender)| format!("{sender} {}", percent(*gain))).collect();
    Some(vec![Claim {
        what: "throughput over a rate that varies, told of the best room",
        stated: "up to 40 % more",
        ours: said.join(", "),
        holds: (best.0 / 0.4 - 1.0).abs() <= NEAR,
    }])
}

fn clamp(tried: &Tried) -> Option<Vec<Claim>> {
    // a = 30 kB, b = 1, tau = 500 B, as the scenario has it.
    let off = |count: &str| {
        let held = tried.metric("queue-price", &[("flows.flow.count", count)], Metric::Held)?;
        Some((held / (30e3 + 500.0 * number(count)) - 1.0).abs())
    };
    let counts = ["1", "2", "5", "10"];
    let worst =
        counts.iter().map(|count| off(count)).collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
    Some(vec![Claim {
        what: "the queue, for 1 to 10 flows",
        stated: "(a + n·τ)/b",
        ours: format!("{} off at most", percent(worst)),
        holds: worst <= NEAR,
    }])
}

fn westwood(tried: &Tried) -> Option<Vec<Claim>> {
    let gain = |loss: &str| {
        let goodput = |sender| {
            let values = [("hosts.server.scheme", sender), ("links.server-phone.link.loss", loss)];
            tried.metric("", &values, Metric::Goodput)
        };
        Some(goodput("westwood-2001")? / goodput("sack-reno")?)
    };
    let losses = ["0.5 %", "1 %", "2 %", "5 %"];
    let gains = losses.iter().map(|loss| gain(loss)).collect::<Option<Vec<f64>>>()?;
    let said: Vec<String> = gains.iter().map(|gain| format!("{gain:.2}")).collect();
    Some(vec![Claim {
        what: "throughput over random loss of 0.5, 1, 2 and 5 %, beside Reno",
        stated: "more, the more the more is lost",
        ours: format!("{} times", said.join(", ")),
        holds: gains[0] > 1.0 && gains.is_sorted(),
    }])
}

impl Headline {
    /// What its findings are called before what is claimed.
    fn title(&self) -> String {
        format!("{}, its own headline", row(self.row).map_or(self.row, |row| row.title))
    }

    /// What the runs say of it.
    fn findings(&self, records: &[RunRecord]) -> Vec<Finding> {
        let title = self.title();
        let about = format!("`shorthaul run scenarios/{}.toml`", self.scenario);
        let Some(claims) = (self.judge)(&Tried(records)) else {
            return vec![Finding::shown(title, "", "not measured").because(about)];
        };
        let found = claims.into_iter().map(|claim| {
            let what = format!("{title}: {}", claim.what);
            Finding::judged(what, claim.stated, claim.ours, claim.holds).because(about.clone())
        });
        found.collect()
    }

    /// Runs it, with another number of seeds where one is asked for. The scenario is written where others are.
    pub(super) fn run(
        &self,
        repeats: Option<u32>,
        store: &Store,
        scenarios: &Path,
        console: &dyn Console,
    ) -> Result<Vec<Finding>> {
        let study = study(self.scenario, self.text, repeats)?;
        write_file(&scenarios.join(format!("headline-{}.toml", self.scenario)), study.text())?;
        console.say(study.about());
        let records = records(&Simulator::default(), &study, Some(store), console);
        let records = records.and_then(all_sound).doing(format!("{} cannot be run", self.scenario))?;
        Ok(self.findings(&records))
    }
}

#[cfg(test)]
mod tests;
