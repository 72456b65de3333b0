//! `shorthaul routes`: what is known of the ways to destinations.
mod legs;

use crate::route::MemoryArgs;
use anyhow::{Context as _, Result};
use legs::Legs;
use serde_json::{Value, json};
use shorthaul_relay::learning::{Destination, History, Overview, now};
use shorthaul_report::{Column, Table, Terminal};
use shorthaul_types::{Bytes, format_duration};
use std::path::PathBuf;
use std::time::Duration;

/// Show what is known of the ways to destinations, what is expected of each, and what came of it
///
/// `shorthaul proxy` and `shorthaul connect` remember what came of sessions where they choose ways: with --discover, or --choose.
/// The same file is read here.
#[derive(clap::Args)]
pub struct Args {
    /// Only destinations whose name has this in it
    #[arg(value_name = "DESTINATION")]
    destination: Option<String>,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Show which leg binds instead, and what buffer would mend it: from the access logs of the nodes on the way, the one next to the
    /// client first; repeat it for several
    #[arg(long, value_name = "FILE")]
    access_log: Vec<PathBuf>,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if !args.access_log.is_empty() {
        let legs = Legs::read(&args.access_log, args.destination.as_deref())?;
        if args.json {
            println!("{:#}", legs.json());
        } else {
            println!("{}", legs.table().render(Terminal::stdout()));
            println!(
                "drought: of the time from a session's first byte until its source ended, nothing was there to send on, though the leg behind could have \
                 carried it; overflow: there was no room, so that the leg before might not send. A larger buffer mends what both legs lose"
            );
        }
        return Ok(());
    }
    let path = args
        .memory
        .path()
        .context("no file is named, and there is no home to look in: --history names one")?;
    let overview = Overview::new(&History::look(&path)?, now());
    let wanted = |destination: &&Destination| {
        args.destination.as_ref().is_none_or(|part| destination.name.contains(part))
    };
    let shown: Vec<&Destination> = overview.destinations.iter().filter(wanted).collect();
    if args.json {
        println!("{:#}", Value::Array(shown.iter().map(|destination| told(destination)).collect()));
        return Ok(());
    }
    if shown.is_empty() {
        println!(
            "{} knows nothing{} yet: sessions of `shorthaul proxy` or `connect` with --discover or --choose are remembered there",
            path.display(),
            match &args.destination {
                Some(part) => format!(" of {part}"),
                None => String::new(),
            }
        );
        return Ok(());
    }
    let mut table = Table::new([
        Column::left("destination"),
        Column::right("size").unit("predicted"),
        Column::left("way"),
        Column::right("forecast").unit("model"),
        Column::right("expected").unit("corrected"),
        Column::right("measured").unit("middle"),
        Column::right("sessions"),
        Column::left("now"),
    ]);
    for destination in shown {
        for (at, way) in destination.ways.iter().enumerate() {
            let first = at == 0;
            table.row([
                if first { destination.name.clone() } else { String::new() },
                if first { destination.size.to_string() } else { String::new() },
                way.name(),
                seconds(way.known.forecast),
                format!("{} × {:.1}", seconds(way.known.expected), way.known.deviation.exp()),
                way.measured.map_or_else(|| "-".to_owned(), seconds),
                way.known.measured.to_string(),
                way.now().to_owned(),
            ]);
        }
    }
    println!("{}", table.render(Terminal::stdout()));
    println!(
        "measured is what sessions took that tell of their way, each as if it had had the predicted size; expected is within the factor behind it in two cases of three"
    );
    if let Some(error) = overview.median_error {
        println!(
            "forecasts were off by {:.0} % in the middle, of {} sessions that came after ten others to the same destination",
            error * 100.0,
            overview.judged
        );
    }
    Ok(())
}

fn seconds(seconds: f64) -> String {
    format_duration(Duration::from_secs_f64(seconds))
}

fn told(destination: &Destination) -> Value {
    let Bytes(size) = destination.size;
    let ways: Vec<Value> = destination
        .ways
        .iter()
        .map(|way| {
            json!({
                "nodes": way.known.hops.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "forecast_s": way.known.forecast, "expected_s": way.known.expected, "deviation": way.known.deviation,
                "measured_s": way.measured, "sessions": way.known.measured, "why": way.now(),
            })
        })
        .collect();
    json!({ "destination": destination.name, "predicted_bytes": size, "ways": ways })
}
