//! What a relay costs: ours, HAProxy, socat and tokio's `copy_bidirectional`, by turns in one run on
//! this host's loopback. `make bench-relay` runs it; docs/relay.md has figures. Arguments: `quick`; `plain` or `tls` for that alone; the names of
//! those to compare, if not all; and `NAME=PATH` for another build of this very program, to compare two of ours.
mod idle;
mod load;
mod relays;
mod tls;

use load::{Compared, FLOWS, Figures};
use relays::Candidate;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, kind, config] = &args[..]
        && first == "serve"
    {
        return if kind == "tls" { tls::serve(config) } else { relays::serve(kind, config) };
    }
    if let [first, asked, count] = &args[..]
        && first == "idle"
    {
        return idle::share(asked, count);
    }
    let quick = args.iter().any(|arg| arg == "quick");
    let (with_tls, only_tls) = (!args.iter().any(|arg| arg == "plain"), args.iter().any(|arg| arg == "tls"));
    let is_name = |arg: &&str| !["quick", "plain", "tls"].contains(arg);
    let asked: Vec<&str> = args.iter().map(String::as_str).filter(is_name).collect();
    let (rounds, spell) = if quick { (3, Duration::from_secs(1)) } else { (9, Duration::from_secs(2)) };
    let sessions = if quick { 2_000 } else { 50_000 };
    let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    println!("congestion control of all connections: {}", control.trim());
    if only_tls {
        println!("{{{}}}", tls::compare(rounds, spell)?.join(","));
        return Ok(());
    }
    let servers = load::Servers::start()?;
    let mut relays = Vec::new();
    for candidate in relays::candidates(&asked) {
        match relays::Running::start(&candidate, &servers)? {
            Some(relay) => relays.push((candidate, relay, Vec::new())),
            None => println!("{}: not installed, left out", candidate.name),
        }
    }
    let order: Vec<String> = relays.iter().map(|(candidate, ..)| candidate.name.clone()).collect();
    // One after the other, several times: a machine is not equally fast at all times, and it is chance which
    // of its processors a thread is on.
    for round in 0..rounds {
        // Who comes first has what the one before left behind.
        if round > 0 {
            relays.rotate_left(1);
        }
        for (candidate, relay, measured) in &mut relays {
            let name = &candidate.name;
            let mut figures = load::measure(relay, spell, if quick { 1_000 } else { 10_000 })?;
            if relay.holds_many && round + 1 == rounds {
                figures.idle_kib = idle::idle(candidate, sessions)?;
            }
            println!("{round} {name:<20} {figures}");
            measured.push(figures);
        }
    }
    let address =
        |name: &str| relays.iter().find(|(one, ..)| one.name == name).map(|(_, relay, _)| relay.echo);
    let pairs = if quick { 20 } else { 100 };
    let added = match (address("direct"), address("shorthaul")) {
        (Some(direct), Some(ours)) => load::Added::measure(direct, ours, pairs, 500)?,
        _ => None,
    };
    relays.sort_by_key(|(candidate, ..)| order.iter().position(|name| *name == candidate.name));
    println!("\nmedians of {rounds}:");
    let mut rows: Vec<(&str, Figures)> = Vec::new();
    for (Candidate { name, .. }, _, measured) in &relays {
        let figures = Figures::median(measured);
        println!("{name:<20} {figures}");
        rows.push((name, figures));
    }
    let of =
        |name: &str| relays.iter().find(|(one, ..)| one.name == name).map(|(.., measured)| &measured[..]);
    let mut line: Vec<String> = Vec::new();
    if let Some(ours) = of("shorthaul") {
        println!(
            "\nours and theirs, round by round, the middle one and its interval (docs/relay.md says what they mean):"
        );
        let mut compare =
            |of_what: &str, other: &str, bound: f64, is_least, what: &dyn Fn(&Figures) -> Option<f64>| {
                let Some(compared) = of(other).and_then(|theirs| Compared::of(ours, theirs, what)) else {
                    return;
                };
                let sign = if is_least { ">=" } else { "<=" };
                println!(
                    "  {of_what} / {other}'s {sign} {bound}: {compared}: {}",
                    compared.against(bound, is_least)
                );
                line.push(format!("\"{of_what} / {other}\":{}", compared.to_json()));
            };
        for (at, flows) in FLOWS.into_iter().enumerate() {
            compare(&format!("throughput {flows}"), "haproxy", 1.0, true, &|one| Some(one.gbit_per_s[at]));
            compare(&format!("s per GB {flows}"), "haproxy", 1.0, false, &|one| one.cpu_s_per_gb[at]);
            compare(&format!("s per GB {flows}"), "copy_bidirectional", 0.5, false, &|one| {
                one.cpu_s_per_gb[at]
            });
        }
        if let Some(added) = &added {
            let load::Added { mean, within } = added;
            println!(
                "  added latency <= 15 us: {mean:.1} ± {within:.1} of {pairs} pairs: {}",
                added.against(15.0)
            );
        }
        let ours = Figures::median(ours);
        println!("  user memory of an idle session <= 4 KiB: {:.1}", ours.idle_kib.unwrap_or(f64::NAN));
        println!("  set-ups >= 20000 /s: {:.0}", ours.set_ups_per_s);
    }
    let figures = rows.iter().map(|(name, figures)| format!("\"{name}\":{}", figures.to_json()));
    let mut line: Vec<String> = figures.chain(line).collect();
    line.extend(added.map(|load::Added { mean, within }| {
        format!("\"added_us\":{mean:.2},\"added_within_us\":{within:.2},\"pairs\":{pairs}")
    }));
    drop(relays);
    if with_tls && asked.is_empty() {
        line.extend(tls::compare(rounds, spell)?);
    }
    println!("{{{}}}", line.join(","));
    Ok(())
}
