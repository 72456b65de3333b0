//! Runs a few cases against a gateway of your own:
//! `cargo run -p shorthaul-trials --example try_gateway -- 'my-gateway {access} {wan}' half-close rst`
use shorthaul_report::Silence;
use shorthaul_trials::conformance::{Fault, Gateway, Suite, cases};
use shorthaul_types::Seed;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let gateway = match args.next() {
        None => Gateway::None,
        Some(line) if line == "none" => Gateway::None,
        Some(line) => Gateway::Command { line, ready: None },
    };
    let names: Vec<String> = args.collect();
    let named = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    let cases = cases().into_iter().filter(|case| !case.is_long() && named(case.name)).collect();
    let seed = Seed(std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1));
    let suite = Suite { gateway, faults: vec![Fault::None, Fault::Lossy], cases, seed };
    let report = suite.run(&Silence)?;
    println!("{report}");
    if report.failed() > 0 { Err("not everything passed".into()) } else { Ok(()) }
}
