//! Whether a host of which nothing is split is found to share a neighbour's link, and only then: `neighbours [FIRST..END]`. Each number is two links that nobody
//! chose, once shared and once apart; docs/whole-link.md has what comes of it.
use shorthaul_observe::Outcome;
use shorthaul_scenario::Study;
use shorthaul_sim::simulate_watching;
use shorthaul_types::Seed;
use std::error::Error;
use std::fmt::Write as _;

/// For this long, in seconds.
const SECONDS: u64 = 30;

/// What is drawn from a seed by name.
fn pick<T: Copy>(seed: u64, name: &str, from: &[T]) -> T {
    from[(Seed(seed).derive(name).0 % from.len() as u64) as usize]
}

/// A download that is split to one host, and one that is not to another.
fn scenario(seed: u64, is_shared: bool, splits: bool) -> String {
    let link = |name: &str| {
        let pick = |what: &str, from: &[u64]| pick(seed, &format!("{name} {what}"), from);
        let (rate, queue) = (pick("rate", &[5, 10, 20, 50, 100]), pick("queue", &[40, 80, 150]));
        format!(
            "link = {{ rate = \"{rate} Mbit/s\", delay = \"{} ms\", queue = \"{} B\" }}\n",
            pick("delay", &[5, 10, 20, 40]),
            rate * 125 * queue
        )
    };
    let gateway = match splits {
        true => {
            "traffic = \"all\"\n[[gateways.gateway.policy]]\nmatch = { servers = [\"10.0.0.1\"] }\nmode = \"pass\""
        }
        false => "split = false",
    };
    // The first host by name has the first address.
    let other = pick(seed, "other", &["cubic", "bbr", "bbr3", "reno"]);
    let mut text = format!(
        "duration = \"{SECONDS} s\"\nrouters = [\"cell\", \"hub\", \"own\"]\n\
         [hosts.0other]\nscheme = \"{other}\"\n[hosts.server]\nscheme = \"cubic\"\n\
         [gateways.gateway]\naccess = \"hub\"\n{gateway}\n\
         [[links]]\nbetween = [\"cell\", \"hub\"]\n{}[[links]]\nbetween = [\"own\", \"hub\"]\n{}\
         [[links]]\nbetween = [\"hub\", \"gateway\"]\nlink = {{ rate = \"10 Gbit/s\", delay = \"0 ms\" }}\n\
         [measure]\nmetrics = [\"goodput\"]\n",
        link("cell"),
        link("own"),
    );
    let ends = [("split", "server", "cell"), ("whole", "0other", if is_shared { "cell" } else { "own" })];
    for (name, server, at) in ends {
        let far = pick(seed, &format!("{name} far"), &[1, 5, 20]);
        let start = pick(seed, &format!("{name} start"), &[0, 400, 1500]);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "[hosts.{name}]\nscheme = \"cubic\"\n\
             [[links]]\nbetween = [\"gateway\", \"{server}\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"{far} ms\" }}\n\
             [[links]]\nbetween = [\"{name}\", \"{at}\"]\nlink = {{ rate = \"1 Gbit/s\", delay = \"100 us\" }}\n\
             [[flows]]\nname = \"{name}\"\nfrom = \"{server}\"\nto = \"{name}\"\nopened_by = \"{name}\"\n\
             unlimited = \"{SECONDS} s\"\nstart = \"{start} ms\"\n\
             [[flows]]\nname = \"page-{name}\"\nfrom = \"{server}\"\nto = \"{name}\"\nopened_by = \"{name}\"\nstart = \"3 s\"\n\
             downloads = {{ size = \"60 kB\", repeats = 1000, pause = \"exponential 1 s\" }}\n"
        );
    }
    text
}

/// What both downloads had in Mbit/s, and when both hosts were first served together, in seconds.
fn run(seed: u64, is_shared: bool, splits: bool) -> Result<([f64; 2], Option<f64>), Box<dyn Error>> {
    let study = Study::from_toml("neighbours.toml", &scenario(seed, is_shared, splits))?;
    let mut found = None;
    let outcome: Outcome =
        simulate_watching(&study.scenario(&study.points()[0])?, seed, &mut |at, hosts| {
            // Of a host of which nothing is split nothing is known otherwise.
            if found.is_none() && hosts.len() == 2 {
                found = Some(at.as_nanos() as f64 * 1e-9);
            }
        })?;
    let rate = |name: &str| {
        let flows = outcome.flows.iter().filter(|flow| flow.name == name);
        flows.map(|flow| flow.delivered as f64 * 8e-6 / SECONDS as f64).sum()
    };
    match outcome.problems.first() {
        Some(problem) => Err(problem.clone().into()),
        None => Ok((["split", "whole"].map(rate), found)),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let range = std::env::args().nth(1).unwrap_or_else(|| "0..40".to_owned());
    let ends: Vec<u64> = range.split("..").map(str::parse).collect::<Result<_, _>>()?;
    let [first, end] = ends[..] else { return Err("a range, such as 0..40".into()) };
    let (mut found, mut soon, mut harmed, mut wrong, mut lost) = (0, 0, 0, 0, 0.0_f64);
    println!(
        "{:>4} {:>24} {:>24} {:>7} {:>24} {:>7}",
        "", "shared: direct", "gateway", "found", "apart: whole", "found"
    );
    for seed in first..end {
        let (direct, _) = run(seed, true, false)?;
        let (shared, at) = run(seed, true, true)?;
        let (apart, _) = run(seed, false, false)?;
        let (own, wrongly) = run(seed, false, true)?;
        let seconds = |at: Option<f64>| at.map_or("-".to_owned(), |at| format!("{at:.1} s"));
        println!(
            "{seed:4} {:11.2} {:11.2}  {:11.2} {:11.2}  {:>7} {:11.2} {:11.2}  {:>7}",
            direct[0],
            direct[1],
            shared[0],
            shared[1],
            seconds(at),
            apart[1],
            own[1],
            seconds(wrongly)
        );
        let due = direct[0].min(direct.iter().sum::<f64>() / 2.0);
        found += u64::from(at.is_some());
        soon += u64::from(at.is_some_and(|at| at < 10.0));
        harmed += u64::from(shared[0] < 0.95 * due);
        wrong += u64::from(wrongly.is_some());
        lost = lost.max(1.0 - own[1] / apart[1]);
    }
    println!(
        "of {}: {found} found, {soon} within 10 s; {harmed} where the split one has less than 0.95 of direct's or of half; {wrong} wrongly found, and at most {:.1} % lost where each has its own link",
        end - first,
        100.0 * lost
    );
    Ok(())
}
