//! `shorthaul measure`: what `shorthaul plan` wants to know of the way to a peer.
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use shorthaul_relay::{MeasureOptions, Measurement, measure};
use shorthaul_report::{Column, Table, Terminal};
use shorthaul_types::{Bytes, format_duration};

/// Measure round trip, loss and rate to peers that run an echo
///
/// A peer runs `shorthaul node --echo ADDRESS`, or any TCP echo service. Few bytes are sent, and
/// checked when they come back. Prints a table and the legs as `shorthaul plan --sites` reads them.
#[derive(clap::Args)]
pub struct Args {
    /// The peers: `host:port`; a name for the plan can precede, as in `frankfurt=10.1.2.3:7000`
    #[arg(required = true, value_name = "PEER")]
    peers: Vec<String>,
    /// What this host is called in the plan
    #[arg(long, value_name = "NAME", default_value = "here")]
    name: String,
    /// How much is sent to each
    #[arg(long, value_name = "SIZE", alias = "amount", default_value = "1MB")]
    size: Bytes,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
    /// Congestion control of the kernel for what is sent; the host's own, if none is named
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// The longest that a peer may be silent
    #[arg(long, alias = "patience", value_name = "TIME", default_value = "10s", value_parser = shorthaul_types::parse_duration)]
    timeout: Duration,
}

/// Runs the command; an error if a peer could not be measured.
pub fn run(args: &Args) -> Result<()> {
    let options = MeasureOptions {
        amount: Bytes(args.size.0.max(1)),
        congestion: args.congestion.clone(),
        timeout: args.timeout,
        ..MeasureOptions::default()
    };
    let mut table = Table::new([
        Column::left("peer"),
        Column::right("round trip").unit("least"),
        Column::right("round trip").unit("median"),
        Column::right("loss").unit("of segments"),
        Column::right("rate").unit("seen"),
    ]);
    let mut legs = String::new();
    let mut found = Vec::new();
    let mut failed = 0;
    for peer in &args.peers {
        let (name, address) = peer.split_once('=').unwrap_or((peer, peer));
        match measure(address, &options) {
            Ok(measured) => {
                table.row(row(name, &measured));
                legs += &leg(&args.name, name, &measured);
                found.push(json!({
                    "peer": name, "rtt_ms": measured.min_rtt.as_secs_f64() * 1e3,
                    "median_rtt_ms": measured.median_rtt.as_secs_f64() * 1e3, "loss": measured.loss,
                    "segments": measured.segments, "rate_bit_per_s": measured.rate.bits_per_sec(),
                }));
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                failed += 1;
            }
        }
    }
    if args.json {
        println!("{:#}", Value::Array(found));
    } else if failed < args.peers.len() {
        println!("{}\n{legs}", table.render(Terminal::stdout()));
    }
    if failed > 0 {
        bail!("{failed} of {} peers could not be measured", args.peers.len());
    }
    Ok(())
}

fn row(name: &str, measured: &Measurement) -> [String; 5] {
    let loss = match measured.loss {
        // Nothing seen in n is less than 3/n, nineteen times of twenty.
        0.0 => format!("< {:.1e}", 3.0 / f64::from(measured.segments)),
        loss => format!("{:.3} %", loss * 100.0),
    };
    [
        name.to_string(),
        format_duration(measured.min_rtt),
        format_duration(measured.median_rtt),
        loss,
        measured.rate.to_string(),
    ]
}

/// A leg as a file of sites has it.
fn leg(from: &str, to: &str, measured: &Measurement) -> String {
    format!(
        "[[leg]]\nfrom = \"{from}\"\nto = \"{to}\"\nrtt = \"{:.3} ms\"\nloss = \"{:.4} %\"\nrate = \"{:.3} Mbit/s\"\n\n",
        measured.min_rtt.as_secs_f64() * 1e3,
        measured.loss * 100.0,
        measured.rate.bits_per_sec() as f64 / 1e6,
    )
}
