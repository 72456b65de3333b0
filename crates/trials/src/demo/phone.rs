//! What people have today: a phone on a 5G link that downloads an update while it loads pages, direct and through the gateway.
use crate::direct_or_split::DirectOrSplit;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use shorthaul_dataplane::Config;
use shorthaul_lab::workload::{Amount, Ends, Sender, Transfer, TransferError};
use shorthaul_lab::{GatewayProcess, Lab, Look, Topology, watch};
use shorthaul_observe::Summary;
use shorthaul_proxy::AggregateConfig;
use shorthaul_report::plot::{Axis, Panel, Series};
use shorthaul_report::{Column, Progress, Table, TableCell, Tone, Unit};
use shorthaul_types::{Bytes, Seed};

use super::figures::series;
use super::live::Links;
use super::outcome::Queueing;
use crate::error::Result;

/// A 5G cell with blockage: 100 Mbit/s, and for half a second of four only 8; round trip 36 ms.
pub const LINKS: &str = r#"
[hosts.client]
[hosts.gateway]
[hosts.server]
[[links]]
between = ["client", "gateway"]
link = { rate = { schedule = [{ lasts = "3500 ms", rate = "100 Mbit/s" }, { lasts = "500 ms", rate = "8 Mbit/s" }], repeats = true }, delay = "8 ms", queue = "4 MB", up = { rate = "25 Mbit/s" } }
[[links]]
between = ["gateway", "server"]
link = { rate = "1 Gbit/s", delay = "10 ms" }
"#;
/// The congestion controls of the servers.
pub const SERVERS: [&str; 2] = ["cubic", "bbr"];
/// What a page moves.
const PAGE: Bytes = Bytes(200_000);
/// How long its reader rests before the next page.
const REST: Duration = Duration::from_millis(300);
/// A page that takes longer is given up.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the update runs alone, so that its queue is there.
const AHEAD: Duration = Duration::from_secs(2);
/// How often the links are asked for their queues.
const LOOK: Duration = Duration::from_millis(50);
/// 1 % of the packets may come this much later than the links say, before the run says nothing: a seventh of the round trip.
const LATE: f64 = 0.005;
/// What is nearer to one is no difference.
const NOTABLE: f64 = 1.15;

/// What one way saw.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// How long each page took, in seconds, in ascending order; those given up count as that long.
    pub pages: Vec<f64>,
    /// How many were given up.
    pub given_up: u32,
    /// How many failed otherwise, which nothing should make them: the first with why.
    pub failed: Option<(u32, String)>,
    /// What the update received, in bits a second.
    pub update: f64,
    /// How long a packet waited in the queue toward the phone, over time.
    pub queueing: Vec<Queueing>,
    /// The 99th percentile of how late the emulated links delivered, in seconds.
    pub late_s: f64,
    /// Packets that this machine lost because it was too slow to emulate the links.
    pub missed: u64,
}

/// Direct and through the gateway, with the same server.
#[derive(Clone, Debug, Serialize)]
pub struct Phone {
    pub server: &'static str,
    pub direct: Seen,
    pub split: Seen,
}

impl Seen {
    fn page(&self, share: f64) -> f64 {
        Summary::of(self.pages.iter().copied()).map_or(f64::NAN, |pages| pages.percentile(share))
    }

    fn wait(&self) -> f64 {
        let waits = self.queueing.iter().filter(|look| look.seconds > AHEAD.as_secs_f64());
        Summary::of(waits.map(|look| look.delay_s)).map_or(f64::NAN, |waits| waits.percentile(0.5))
    }
}

impl Phone {
    pub fn way(&self, way: DirectOrSplit) -> &Seen {
        if way == DirectOrSplit::Direct { &self.direct } else { &self.split }
    }

    /// Why nothing is concluded from it, if the machine was too slow for it.
    pub fn doubt(&self) -> Option<String> {
        let late = self.direct.late_s.max(self.split.late_s);
        let missed = self.direct.missed + self.split.missed;
        if self.direct.pages.is_empty() || self.split.pages.is_empty() {
            return Some("no page was loaded".to_owned());
        }
        if missed > 0 {
            return Some(format!("this machine cannot show it: it was too slow for {missed} packets"));
        }
        (late > LATE).then(|| {
            let [late, bound] = [late, LATE].map(|time| Unit::Seconds.format(time));
            format!(
                "this machine cannot show it: 1 % of the packets came more than {late} late (bound {bound})"
            )
        })
    }

    /// Within what time half of the pages were there, in seconds, direct and split.
    pub fn half_within(&self) -> [f64; 2] {
        DirectOrSplit::ALL.map(|way| self.way(way).page(0.5))
    }

    /// What is seen, from the numbers that were measured.
    pub fn sentence(&self) -> String {
        let server = self.server;
        if let Some(doubt) = self.doubt() {
            return format!("{server} server: {doubt}, so nothing is concluded.");
        }
        let time = |value: f64| Unit::Seconds.format(value);
        let (direct, split) = (self.direct.page(0.5), self.split.page(0.5));
        let pages = format!(
            "half of the pages within {} instead of {}, nine of ten within {} instead of {}",
            time(split),
            time(direct),
            time(self.split.page(0.9)),
            time(self.direct.page(0.9))
        );
        let waits = [self.split.wait(), self.direct.wait()];
        let cause = if waits[0] * NOTABLE < waits[1] && split * NOTABLE < direct {
            format!(
                ", because a packet waits {} behind the update instead of {}",
                time(waits[0]),
                time(waits[1])
            )
        } else {
            format!("; a packet waits {} behind the update, directly {}", time(waits[0]), time(waits[1]))
        };
        let [of_split, of_direct] =
            [&self.split, &self.direct].map(|seen| Unit::BitsPerSecond.format(seen.update));
        let failed = DirectOrSplit::ALL.map(|way| match &self.way(way).failed {
            Some((pages, why)) => format!(" {pages} pages failed ({way}): {why}."),
            None => String::new(),
        });
        format!(
            "{server} server: {pages}{cause}. The update has {of_split}, directly {of_direct}.{}",
            failed.concat()
        )
    }
}

/// Each server's update and pages, direct and through the gateway; all at once, or one after the other.
pub fn run(time: Duration, at_once: bool, seed: Seed, progress: &Progress<'_>) -> Result<Vec<Phone>> {
    let one = |server: &'static str| -> Result<Phone> {
        let ways = thread::scope(|scope| {
            DirectOrSplit::ALL
                .map(|way| scope.spawn(move || run_way(server, way, time, seed)))
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let [direct, split] = ways;
        let phone = Phone { server, direct: direct?, split: split? };
        progress.step(&format!("phone    {}", phone.sentence()));
        Ok(phone)
    };
    let lanes = if at_once { SERVERS.len() } else { 1 };
    crate::trial::in_lanes(lanes, SERVERS, one).into_iter().collect()
}

fn run_way(server: &str, way: DirectOrSplit, time: Duration, seed: Seed) -> Result<Seen> {
    let mut topology = Topology::from_toml("phone", LINKS)?;
    topology.seed = seed.derive("phone");
    let lab = Lab::start(&topology)?;
    let _gateway = match way {
        DirectOrSplit::Direct => None,
        DirectOrSplit::Split => Some(GatewayProcess::start(lab.host("gateway"), gateway())?),
    };
    let download = |amount, limit, seed: Seed| Transfer {
        sender: Sender::Server,
        amount,
        congestion: Ends { client: server.into(), server: server.into() },
        limit,
        seed,
        ..Transfer::default()
    };
    let mut seen = Seen::default();
    let (update, looks) = thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let watching = scope.spawn({
            let lab = &lab;
            move || watch(lab, LOOK, &ended)
        });
        let update = download(Amount::Time(time), time + PAGE_TIMEOUT, seed.derive("update"));
        let lab = &lab;
        let update = scope.spawn(move || update.run(lab.host("client"), lab.host("server")));
        let end = Instant::now() + time;
        thread::sleep(AHEAD);
        for number in 0.. {
            if Instant::now() >= end {
                break;
            }
            let page = download(Amount::Bytes(PAGE), PAGE_TIMEOUT, seed.derive("page").nth(number));
            match page.run(lab.host("client"), lab.host("server")) {
                // What ends after the update has not had to share with it.
                Ok(report) if Instant::now() < end => seen.pages.push(report.completed.as_secs_f64()),
                Err(TransferError::Late { .. }) => {
                    seen.given_up += 1;
                    seen.pages.push(PAGE_TIMEOUT.as_secs_f64());
                }
                Ok(_) => {}
                Err(error) => {
                    seen.pages.push(PAGE_TIMEOUT.as_secs_f64());
                    seen.failed.get_or_insert_with(|| (0, error.to_string())).0 += 1;
                }
            }
            thread::sleep(REST);
        }
        let update = update.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        drop(done);
        (update, watching.join().unwrap_or_default())
    });
    seen.update = update?.throughput().bits_per_sec() as f64;
    seen.pages.sort_by(f64::total_cmp);
    seen.queueing = looks
        .iter()
        .map(|look| Queueing { seconds: look.seconds, delay_s: Links::of(&lab, look).queue_delay_s })
        .collect();
    if let Some(after) = Look::take(&lab).map(|look| Links::of(&lab, &look)) {
        (seen.late_s, seen.missed) = (after.late_s, after.missed);
    }
    Ok(seen)
}

fn gateway() -> Config {
    Config {
        access: vec!["to-client".into()],
        wan: vec!["to-server".into()],
        aggregate: Some(AggregateConfig::default()),
        // The one download that is looked at is not to stay whole by chance.
        control_group: Some(0.0),
        ..Config::default()
    }
}

/// Page times and queueing, a line a server.
pub fn table(phones: &[Phone]) -> Table {
    let mut table = Table::new([
        Column::left("server"),
        Column::left("way"),
        Column::right("pages"),
        Column::right("half within"),
        Column::right("nine of ten within"),
        Column::right("queueing").unit("median"),
        Column::right("update"),
    ]);
    for phone in phones {
        for way in DirectOrSplit::ALL {
            let seen = phone.way(way);
            let tone = if phone.doubt().is_some() { Tone::Quiet } else { Tone::Plain };
            let time = |value: f64| TableCell::toned(Unit::Seconds.format(value), tone);
            table.row([
                TableCell::from(phone.server),
                way.name().into(),
                seen.pages.len().to_string().into(),
                time(seen.page(0.5)),
                time(seen.page(0.9)),
                time(seen.wait()),
                Unit::BitsPerSecond.format(seen.update).into(),
            ]);
        }
    }
    table
}

/// The share of pages that were there after a time, and what a packet waited over time: a column a server.
pub fn panels(phones: &[Phone]) -> [Vec<Panel>; 2] {
    let pages = phones.iter().map(|phone| {
        let title = match phone.doubt() {
            None => format!("5G phone, {} server", phone.server),
            Some(_) => format!("5G phone, {} server (not to be trusted)", phone.server),
        };
        let panel = Panel::new(&title).x(Axis::new("page time", Unit::Seconds).from(0.0)).y(Axis::new(
            "share of the pages",
            Unit::Percent,
        )
        .from(0.0));
        DirectOrSplit::ALL.into_iter().fold(panel, |panel, way| {
            let pages = &phone.way(way).pages;
            let count = pages.len().max(1) as f64;
            let points = pages.iter().enumerate().map(|(n, time)| (*time, (n + 1) as f64 / count));
            let points = std::iter::once((0.0, 0.0)).chain(points);
            panel.series(series(way, Series::step).points(points))
        })
    });
    let waits = phones.iter().map(|phone| {
        let panel = Panel::new("")
            .x(Axis::new("time", Unit::Seconds).from(0.0))
            .y(Axis::new("queueing delay", Unit::Seconds));
        DirectOrSplit::ALL.into_iter().fold(panel, |panel, way| {
            let points = phone.way(way).queueing.iter().map(|look| (look.seconds, look.delay_s));
            panel.series(series(way, Series::line).points(points))
        })
    });
    [pages.collect(), waits.collect()]
}

/// All of it for programs.
pub fn json(phones: &[Phone]) -> Value {
    let phone = |phone: &Phone| {
        let mut value = json!(phone);
        value["trusted"] = phone.doubt().is_none().into();
        value["seen"] = phone.sentence().into();
        value
    };
    phones.iter().map(phone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(direct: f64, split: f64, late_s: f64) -> Phone {
        let seen = |page: f64, wait: f64| Seen {
            pages: vec![page; 10],
            update: 50e6,
            queueing: (0..100).map(|n| Queueing { seconds: f64::from(n), delay_s: wait }).collect(),
            late_s,
            ..Seen::default()
        };
        Phone { server: "cubic", direct: seen(direct, direct / 5.0), split: seen(split, split / 5.0) }
    }

    #[test]
    fn it_names_the_queue_where_that_is_the_cause_and_concludes_nothing_from_late_runs() {
        let sentence = phone(2.0, 0.2, 0.001).sentence();
        assert!(sentence.contains("200 ms instead of 2.00 s") && sentence.contains("because"), "{sentence}");
        assert!(!phone(0.2, 0.2, 0.001).sentence().contains("because"));
        let mut broken = phone(2.0, 0.2, 0.001);
        broken.split.failed = Some((2, "it was reset".into()));
        assert!(broken.sentence().contains("2 pages failed (split): it was reset"), "{}", broken.sentence());
        let late = phone(2.0, 0.2, 0.009);
        assert!(late.sentence().contains("cannot show it") && !late.sentence().contains("instead"));
        let json = json(&[late]);
        assert_eq!(json[0]["trusted"], false);
    }
}
