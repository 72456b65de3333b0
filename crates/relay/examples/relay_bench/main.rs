//! What a relay costs: ours, HAProxy, socat and tokio's `copy_bidirectional`, one after the other in one
//! run on this host's loopback. `make bench-relay` runs it; docs/relay.md has figures.
mod load;
mod relays;

use load::Figures;
use relays::Kind;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let first = args.next();
    if let (Some("serve"), Some(kind), Some(config)) = (first.as_deref(), args.next(), args.next()) {
        return relays::serve(&kind, &config);
    }
    let quick = first.as_deref() == Some("quick");
    let spell = Duration::from_secs(if quick { 2 } else { 8 });
    let idle = if quick { 2_000 } else { 50_000 };
    let servers = load::Servers::start()?;
    let mut rows: Vec<(&str, Figures)> = Vec::new();
    for kind in Kind::ALL {
        let Some(relay) = relays::Running::start(kind, &servers)? else {
            println!("{}: not installed, left out", kind.name());
            continue;
        };
        let mut figures = Figures::default();
        for (at, flows) in [1usize, 64].into_iter().enumerate() {
            let before = relay.cpu();
            let bytes = load::throughput(relay.bulk, flows, spell)?;
            figures.gbit_per_s[at] = bytes as f64 * 8.0 / spell.as_secs_f64() / 1e9;
            let cpu = relay.cpu().zip(before).map(|(after, before)| (after - before).as_secs_f64());
            figures.cpu_s_per_gb[at] = cpu.map(|cpu| cpu / (bytes as f64 / 1e9));
        }
        figures.echo_us = load::echo(relay.echo, if quick { 2_000 } else { 20_000 })?;
        figures.set_ups_per_s = load::set_ups(&relay.set_up, spell)?;
        if relay.holds_many {
            figures.idle_kib = load::idle(&relay, idle)?;
        }
        println!("{:<20} {figures}", kind.name());
        rows.push((kind.name(), figures));
    }
    let of = |name: &str| rows.iter().find(|(row, _)| *row == name).map(|(_, figures)| figures);
    if let (Some(ours), Some(direct)) = (of("shorthaul"), of("direct")) {
        println!("\nask and measured (docs/relay.md says what they mean):");
        let best = |figures: &Figures| figures.gbit_per_s[0].max(figures.gbit_per_s[1]);
        if let Some(haproxy) = of("haproxy") {
            println!("  throughput / HAProxy's best >= 1.3: {:.2}", best(ours) / best(haproxy));
        }
        if let Some(copy) = of("copy_bidirectional") {
            for (at, flows) in ["1 flow", "64 flows"].into_iter().enumerate() {
                if let (Some(ours), Some(copy)) = (ours.cpu_s_per_gb[at], copy.cpu_s_per_gb[at]) {
                    println!("  CPU / copy_bidirectional's <= 0.5, {flows}: {:.2}", ours / copy);
                }
            }
        }
        println!("  added latency <= 15 us: {:.1}", ours.echo_us - direct.echo_us);
        println!("  user memory of an idle session <= 16 KiB: {:.1}", ours.idle_kib.unwrap_or(f64::NAN));
        println!("  set-ups >= 20000 /s: {:.0}", ours.set_ups_per_s);
    }
    let line: Vec<String> =
        rows.iter().map(|(name, figures)| format!("\"{name}\":{}", figures.to_json())).collect();
    println!("{{{}}}", line.join(","));
    Ok(())
}
