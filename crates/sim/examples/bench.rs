//! Runs scenario files and prints what they cost, as one line of JSON: `bench RUNS FILE…`. Of several runs
//! of a file the fastest counts, since everything else on the machine only makes a run slower.
use serde_json::{Value, json};
use shorthaul_scenario::Study;
use shorthaul_sim::{Agenda, Recording, simulate};
use shorthaul_types::{Seed, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// The most memory that this process has had so far, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn measure(file: &str, runs: u32) -> Result<Value, Box<dyn Error>> {
    let study = Study::from_file(Path::new(file))?;
    let scenario = study.scenario(&study.points()[0])?;
    let mut wall = f64::INFINITY;
    let mut last = None;
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        let outcome = simulate(&scenario, 1, Recording::default())?;
        wall = wall.min(start.elapsed().as_secs_f64());
        if let Some(problem) = outcome.problems.first() {
            return Err(format!("{file}: {problem}").into());
        }
        last = Some(outcome);
    }
    let outcome = last.ok_or("nothing was run")?;
    let packet_hops: u64 = outcome.links.iter().map(|link| link.offered).sum();
    Ok(json!({
        "scenario": study.name(), "wall_s": wall, "simulated_s": outcome.ended_at, "events": outcome.events,
        "packet_hops": packet_hops, "ns_per_packet_hop": wall * 1e9 / packet_hops as f64,
        "metrics": outcome.metrics, "peak_memory_bytes": peak_memory(),
        "trace_hash": format!("{:016x}", outcome.trace_hash),
    }))
}

/// Nanoseconds that it takes to find the first of `sources` and to move it, in the agenda and in a binary
/// heap of the standard library.
fn measure_agenda(sources: u32) -> Value {
    const STEPS: u64 = 2_000_000;
    let gap = |step: u64| Seed(7).nth(step).0 % 1_000_000;
    let mut agenda = Agenda::new(sources as usize);
    let mut heap = BinaryHeap::new();
    for source in 0..sources {
        let at = gap(u64::from(source));
        agenda.set(source, Some(Time::from_nanos(at)));
        heap.push(Reverse((at, source)));
    }
    let start = Instant::now();
    let mut end = 0;
    for step in 0..STEPS {
        if let Some((at, source)) = agenda.first() {
            end = at.as_nanos();
            agenda.set(source, Some(Time::from_nanos(end + 1 + gap(step))));
        }
    }
    let ours = start.elapsed();
    let start = Instant::now();
    for step in 0..STEPS {
        if let Some(Reverse((at, source))) = heap.pop() {
            heap.push(Reverse((at + 1 + gap(step), source)));
        }
    }
    let theirs = start.elapsed();
    let same = heap.peek().is_some_and(|Reverse((at, _))| *at >= end);
    let nanos = |time: std::time::Duration| time.as_nanos() as f64 / STEPS as f64;
    json!({ "sources": sources, "agenda_ns": nanos(ours), "binary_heap_ns": nanos(theirs), "same_order": same })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let runs = args.next().and_then(|runs| runs.parse().ok()).ok_or("usage: bench RUNS FILE…")?;
    let results: Vec<Value> = args.map(|file| measure(&file, runs)).collect::<Result<_, _>>()?;
    let agenda: Vec<Value> = [24, 200, 5_000].into_iter().map(measure_agenda).collect();
    println!("{}", json!({ "scenarios": results, "agenda": agenda }));
    Ok(())
}
