//! A gateway beside CAKE, point by point, before a link whose rate is known: `beside_cake [SEED]`. A table, as docs/whole-link.md has it.
use shorthaul_observe::{Outcome, jain_index};
use shorthaul_scenario::{Series, Study};
use shorthaul_sim::{Recording, simulate};
use std::error::Error;
use std::fmt::Write as _;

/// For this long, in seconds.
const SECONDS: f64 = 40.0;
/// What goes through the link, in Mbit/s: 30, and what CAKE and the gateway are told.
const TOLD: &str = "29.5 Mbit/s";

/// Who queues what.
const WAYS: [(&str, bool, bool, &str); 4] = [
    ("nothing", false, false, ""),
    ("CAKE", true, false, ""),
    (
        "shorthaul, told the rate",
        false,
        true,
        "[[gateways.gateway.bottleneck]]\nname = \"link\"\nrate = \"29.5 Mbit/s\"\n",
    ),
    ("shorthaul", false, true, ""),
];

/// Who loads what over which link.
struct Case {
    name: &'static str,
    /// Of each host: how many downloads, and from which server.
    hosts: &'static [(u32, &'static str)],
    /// There and back beyond the link, in milliseconds.
    far: u32,
    loss: &'static str,
}

const CASES: [Case; 6] = [
    Case { name: "hosts with 8 and 1 downloads", hosts: &[(8, "cubic"), (1, "cubic")], far: 5, loss: "0" },
    Case {
        name: "hosts with 3, 2, 1, 1, 1, 1 downloads",
        hosts: &[(3, "cubic"), (2, "cubic"), (1, "cubic"), (1, "cubic"), (1, "cubic"), (1, "cubic")],
        far: 5,
        loss: "0",
    },
    Case { name: "a host with 4 downloads", hosts: &[(4, "cubic")], far: 5, loss: "0" },
    Case { name: "a CUBIC and a BBR host", hosts: &[(1, "cubic"), (1, "bbr")], far: 5, loss: "0" },
    Case { name: "a server 200 ms away", hosts: &[(1, "cubic")], far: 200, loss: "0" },
    Case { name: "1 % is lost on the link", hosts: &[(1, "cubic")], far: 60, loss: "1 %" },
];

impl Case {
    fn scenario(&self, shapes: bool, splits: bool, gateway: &str) -> String {
        let rate = if shapes { TOLD } else { "unlimited" };
        let mut text = format!(
            "duration = \"{SECONDS} s\"\nrouters = [\"cell\"]\n[hosts.cubic]\nscheme = \"cubic\"\n[hosts.bbr]\nscheme = \"bbr\"\n\
             [gateways.gateway]\naccess = \"box\"\nsplit = {splits}\n{gateway}\
             [shapers.box]\naccess = \"cell\"\ndown = {{ rate = \"{rate}\", isolation = \"dual-dsthost\" }}\n\
             [[links]]\nbetween = [\"cell\", \"box\"]\n\
             link = {{ rate = \"30 Mbit/s\", delay = \"15 ms\", queue = \"450 kB\", loss = \"{}\" }}\n\
             [[links]]\nbetween = [\"box\", \"gateway\"]\nlink = {{ delay = \"0 ms\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"cubic\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"{far} us\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"bbr\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"{far} us\" }}\n\
             [measure]\nmetrics = [\"goodput\"]\nseries = [\"queue-delay\"]\nevery = \"20 ms\"\n",
            self.loss,
            far = self.far * 500,
        );
        for (host, (count, server)) in self.hosts.iter().enumerate() {
            let _ = write!(
                text,
                "[hosts.h{host}]\nscheme = \"{server}\"\n\
                 [[links]]\nbetween = [\"h{host}\", \"cell\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
                 [[flows]]\nname = \"h{host}\"\nfrom = \"{server}\"\nto = \"h{host}\"\nopened_by = \"h{host}\"\n\
                 unlimited = \"{SECONDS} s\"\ncount = {count}\nspacing = \"exponential 300 ms\"\n"
            );
        }
        let _ = write!(
            text,
            "[[flows]]\nname = \"call\"\nfrom = \"cubic\"\nto = \"h0\"\nopened_by = \"h0\"\nstart = \"4 s\"\n\
             requests = {{ request = \"100 B\", response = \"100 B\", count = 10000, pause = \"100 ms\" }}\n"
        );
        let _ = write!(
            text,
            "[[flows]]\nname = \"pages\"\nfrom = \"cubic\"\nto = \"h0\"\nopened_by = \"h0\"\nstart = \"4 s\"\n\
             downloads = {{ size = \"60 kB\", repeats = 10000, pause = \"exponential 1 s\" }}\n"
        );
        text
    }

    fn run(
        &self,
        (_, shapes, splits, gateway): (&str, bool, bool, &str),
        seed: u64,
    ) -> Result<Outcome, Box<dyn Error>> {
        let text = self.scenario(shapes, splits, gateway);
        let study = Study::from_toml("beside.toml", &text)?;
        let outcome = simulate(&study.scenario(&study.points()[0])?, seed, Recording::default())?;
        match outcome.problems.first() {
            Some(problem) => Err(problem.clone().into()),
            None => Ok(outcome),
        }
    }
}

fn p95(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 95 / 100).copied().unwrap_or(f64::NAN)
}

/// The transfers of the flow with this name, in milliseconds.
fn transfers(outcome: &Outcome, name: &str) -> Vec<f64> {
    let flows = outcome.flows.iter().filter(|flow| flow.name == name);
    flows.flat_map(|flow| flow.transfers.iter().map(|time| time * 1e3)).collect()
}

fn row(name: &str, outcome: &Outcome, hosts: usize) {
    let of = |host: usize| {
        let own = format!("h{host}");
        let flows = outcome.flows.iter().filter(move |flow| flow.name.split('.').next() == Some(&own));
        flows.map(|flow| flow.delivered as f64 * 8e-6 / SECONDS).collect::<Vec<f64>>()
    };
    let by_host: Vec<f64> = (0..hosts).map(|host| of(host).iter().sum()).collect();
    let by_flow = jain_index(of(0)).unwrap_or(f64::NAN);
    // What waits before the link and in it, from the fifth second on.
    let queues = outcome.series.iter().filter(|series| {
        series.series == Series::QueueDelay && ["box>cell", "box:down"].contains(&&*series.subject)
    });
    let mut waits: Vec<f64> = Vec::new();
    for series in queues {
        let points = series.points.iter().filter(|(at, _)| *at > 5.0).map(|(_, delay)| delay * 1e3);
        match waits.is_empty() {
            true => waits = points.collect(),
            false => waits.iter_mut().zip(points).for_each(|(wait, delay)| *wait += delay),
        }
    }
    let pages = transfers(outcome, "pages");
    println!(
        "| {name} | {:.1} | {:.3} | {by_flow:.3} | {:.0} ms | {:.0} ms | {:.0} ms |",
        by_host.iter().sum::<f64>(),
        jain_index(by_host.iter().copied()).unwrap_or(f64::NAN),
        p95(waits),
        p95(transfers(outcome, "call")),
        pages.iter().sum::<f64>() / pages.len() as f64,
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |text| text.parse())?;
    println!("| | Mbit/s | Jain, hosts | Jain, flows of the first | queue, 95 % | a call, 95 % | a page |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for case in &CASES {
        println!("| *{}* | | | | | | |", case.name);
        for way in WAYS {
            row(way.0, &case.run(way, seed)?, case.hosts.len());
        }
    }
    Ok(())
}
