//! Runs scenario files once each and prints what they cost, as one line of JSON.
use serde_json::{Value, json};
use shorthaul_scenario::Study;
use shorthaul_sim::{Recording, simulate};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// The most memory that this process has had so far, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn measure(file: &str) -> Result<Value, Box<dyn Error>> {
    let study = Study::from_file(Path::new(file))?;
    let scenario = study.scenario(&study.points()[0])?;
    let start = Instant::now();
    let outcome = simulate(&scenario, 1, Recording::default())?;
    let wall = start.elapsed().as_secs_f64();
    if let Some(problem) = outcome.problems.first() {
        return Err(format!("{file}: {problem}").into());
    }
    let packet_hops: u64 = outcome.links.iter().map(|link| link.offered).sum();
    Ok(json!({
        "scenario": study.name(), "wall_s": wall, "simulated_s": outcome.ended_at, "events": outcome.events,
        "packet_hops": packet_hops, "ns_per_packet_hop": wall * 1e9 / packet_hops as f64,
        "metrics": outcome.metrics, "peak_memory_bytes": peak_memory(),
        "trace_hash": format!("{:016x}", outcome.trace_hash),
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let results: Vec<Value> =
        std::env::args().skip(1).map(|file| measure(&file)).collect::<Result<_, _>>()?;
    println!("{}", Value::Array(results));
    Ok(())
}
