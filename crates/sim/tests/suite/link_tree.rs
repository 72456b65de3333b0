//! Random trees of links behind a gateway, who shares a bottleneck in them, and what the gateway finds of that.
use shorthaul_scenario::Study;
use shorthaul_sim::simulate_watching;
use shorthaul_testkit::Chance;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

/// A host: which cell it is in, how fast its own link is and how long, how many downloads it has, and when they begin.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    cell: usize,
    /// In Mbit/s, where its own link is its bottleneck.
    own: Option<f64>,
    delay_ms: u64,
    downloads: u64,
    start_ms: u64,
}

/// Cells with their rates in Mbit/s and their delays in ms, and the hosts in them.
#[derive(Clone, Debug)]
pub struct LinkTree {
    cells: Vec<(f64, u64)>,
    leaves: Vec<Leaf>,
}

/// What a gateway found in a tree, within ten seconds of the last download's beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// After how many seconds the groups were those of the tree, and stayed so.
    pub right_after: Option<f64>,
    /// How often hosts were in one group that do not share a bottleneck, at looks every 100 ms.
    pub wrong_looks: u32,
    /// The same at the end.
    pub wrong_at_end: bool,
}

/// After the last download has begun.
const SECONDS: u64 = 10;

fn between(chance: &mut Chance, least: u64, most: u64) -> u64 {
    least + chance.below(most - least + 1)
}

impl LinkTree {
    /// Two to eight hosts in one to three cells; every fourth has a bottleneck of its own behind its cell.
    pub fn draw(chance: &mut Chance) -> LinkTree {
        let cells: Vec<_> = (0..between(chance, 1, 3))
            .map(|_| (between(chance, 8, 30) as f64, between(chance, 5, 20)))
            .collect();
        let hosts = between(chance, 2, 8);
        let mut leaves: Vec<Leaf> = (0..hosts)
            .map(|_| Leaf {
                cell: between(chance, 0, cells.len() as u64 - 1) as usize,
                own: None,
                delay_ms: between(chance, 1, 20),
                downloads: between(chance, 1, 3),
                start_ms: between(chance, 0, 2000),
            })
            .collect();
        for leaf in 0..leaves.len() {
            let cell = leaves[leaf].cell;
            let beside = leaves.iter().filter(|other| other.cell == cell).count();
            if chance.once_in(4) {
                leaves[leaf].own = Some(cells[cell].0 / beside as f64 * 0.4);
            }
        }
        LinkTree { cells, leaves }
    }

    /// By host, the number of the bottleneck that it shares with others of that number.
    fn truth(&self) -> Vec<usize> {
        let of = |(place, leaf): (usize, &Leaf)| match leaf.own {
            // Alone in its cell but for those with bottlenecks of their own, it still fills the cell.
            None => leaf.cell,
            Some(_) => self.cells.len() + place,
        };
        self.leaves.iter().enumerate().map(of).collect()
    }

    fn scenario(&self, gateway: &str) -> String {
        let last = self.leaves.iter().map(|leaf| leaf.start_ms).max().unwrap_or(0);
        let lasts = last + SECONDS * 1000;
        let cells: Vec<_> = (0..self.cells.len()).map(|cell| format!("\"cell{cell}\"")).collect();
        let mut text = format!(
            "duration = \"{lasts} ms\"\nrouters = [\"root\", {}]\n[hosts.server]\nscheme = \"cubic\"\n\
             [gateways.gateway]\naccess = \"root\"\n{gateway}\n\
             [[links]]\nbetween = [\"root\", \"gateway\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"5 ms\" }}\n\
             [measure]\nevery = \"100 ms\"\n",
            cells.join(", ")
        );
        // A queue of 120 ms.
        let link = |rate: f64, delay: u64| {
            format!(
                "{{ rate = \"{rate} Mbit/s\", delay = \"{delay} ms\", queue = \"{} B\" }}",
                (rate * 15_000.0) as u64
            )
        };
        for (cell, (rate, delay)) in self.cells.iter().enumerate() {
            let _ = write!(
                text,
                "[[links]]\nbetween = [\"cell{cell}\", \"root\"]\nlink = {}\n",
                link(*rate, *delay)
            );
        }
        for (place, leaf) in self.leaves.iter().enumerate() {
            let _ = write!(
                text,
                "[hosts.h{place}]\nscheme = \"cubic\"\n[[links]]\nbetween = [\"h{place}\", \"cell{}\"]\nlink = {}\n\
                 [[flows]]\nname = \"h{place}\"\nfrom = \"server\"\nto = \"h{place}\"\nopened_by = \"h{place}\"\n\
                 unlimited = \"{} ms\"\ncount = {}\nstart = \"{} ms\"\n",
                leaf.cell,
                link(leaf.own.unwrap_or(1000.0), leaf.delay_ms),
                lasts - leaf.start_ms,
                leaf.downloads,
                leaf.start_ms
            );
        }
        text
    }

    /// Runs it with a gateway that looks for bottlenecks.
    pub fn run(&self) -> Found {
        let text = self.scenario("aggregate = { find_bottlenecks = true }\ncontrol_group = 0.0");
        let study = Study::from_toml("tree.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let scenario = study.scenario(&study.points()[0]).expect("it was checked");
        let truth = self.truth();
        let last = self.leaves.iter().map(|leaf| leaf.start_ms).max().unwrap_or(0) as f64 / 1e3;
        let mut found = Found::default();
        let outcome = simulate_watching(&scenario, 1, &mut |at, hosts| {
            let groups: BTreeMap<IpAddr, u32> = hosts.iter().map(|host| (host.prefix, host.group)).collect();
            // Addresses are given in the order of names: h0 has the first.
            let of = |place: usize| groups.get(&IpAddr::from([10, 0, 0, place as u8 + 1]));
            let (mut same, mut wrong) = (true, false);
            for one in 0..truth.len() {
                for other in 0..one {
                    let (Some(here), Some(there)) = (of(one), of(other)) else {
                        same = false;
                        continue;
                    };
                    same &= (here == there) == (truth[one] == truth[other]);
                    wrong |= here == there && truth[one] != truth[other];
                }
            }
            found.wrong_looks += u32::from(wrong);
            found.wrong_at_end = wrong;
            let now = at.as_nanos() as f64 / 1e9 - last;
            found.right_after = if same { found.right_after.or(Some(now.max(0.0))) } else { None };
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
        found
    }
}
