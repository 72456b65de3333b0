//! Draws what each algorithm does on one and the same bottleneck, and prints what came of it and how
//! it fares beside CUBIC:
//! `cargo run -p shorthaul-congestion --example plots -- DIR` writes `DIR/<name>.svg`, by default
//! into `docs/schemes`; a second directory takes the same as PNG. The same program writes the same
//! files.
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/suite/bottleneck.rs"]
mod bottleneck;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bottleneck::{Bottleneck, Link};
use shorthaul_congestion::Algorithm;
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Series, Share};
use shorthaul_report::{Manifest, Unit};
use shorthaul_types::{Seed, Time};

fn algorithms() -> impl Iterator<Item = &'static str> {
    Algorithm::NAMED.iter().map(Algorithm::name).chain(["fixed:80 kB"])
}
/// The numbers are means of runs with these seeds; the pictures show the first.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;
/// From then on segments are lost at random.
const LOSSY_FROM: Time = Time::from_secs(20);
const LOSS: f64 = 0.005;
const END: Time = Time::from_secs(40);
const STEP: Duration = Duration::from_millis(40);

/// What one half of a run came to.
struct Half {
    share: f64,
    queue: f64,
    lost: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs/schemes".to_string()));
    let png_dir = std::env::args().nth(2).map(PathBuf::from);
    for dir in [Some(&dir), png_dir.as_ref()].into_iter().flatten() {
        fs::create_dir_all(dir)?;
    }
    println!("| scheme | of the link | queue | lost | of the link, 0.5 % loss | queue | lost |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for algorithm in algorithms() {
        let runs: Vec<_> = SEEDS.map(|seed| run(algorithm, Seed(seed))).collect();
        let figure = &runs[0].0;
        let name = algorithm.split(':').next().unwrap_or(algorithm);
        let mut manifest =
            Manifest::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).seed(*SEEDS.start());
        manifest.command = "cargo run -p shorthaul-congestion --example plots".to_string();
        fs::write(dir.join(format!("{name}.svg")), figure.to_svg(&manifest))?;
        if let Some(dir) = &png_dir {
            fs::write(dir.join(format!("{name}.png")), figure.to_png(&manifest)?)?;
        }
        print!("| [{name}]({name}.md) |");
        for half in 0..2 {
            let mean = |see: fn(&Half) -> f64| {
                runs.iter().map(|(_, halves)| see(&halves[half])).sum::<f64>() / runs.len() as f64
            };
            let (share, queue, lost) =
                (mean(|half| half.share), mean(|half| half.queue), mean(|half| half.lost));
            print!(" {:.1} % | {:.1} ms | {:.2} % |", 100.0 * share, 1e3 * queue, 100.0 * lost);
        }
        println!();
    }
    println!();
    beside_cubic();
    Ok(())
}

/// Prints which share each algorithm has of what it and one flow of CUBIC deliver together.
fn beside_cubic() {
    println!("| beside cubic | buffer 0.2 | 1 | 4 products |");
    println!("|---|---:|---:|---:|");
    for algorithm in algorithms().filter(|name| !name.starts_with("fixed")) {
        print!("| {algorithm} |");
        for buffer in [0.2, 1.0, 4.0] {
            let shares = SEEDS.map(|seed| {
                let mut path = Bottleneck::new(Link { buffer, seed: Seed(seed), ..Link::new(20, 40) });
                path.add(algorithm, Time::ZERO);
                path.add("cubic", Time::from_millis(500));
                path.run_until(Time::from_secs(20));
                let before = [0, 1].map(|flow: usize| path.flows[flow].delivered);
                path.run_until(Time::from_secs(140));
                let [own, other] = [0, 1].map(|flow| (path.flows[flow].delivered - before[flow]) as f64);
                own / (own + other)
            });
            print!(" {:.0} % |", 100.0 * shares.sum::<f64>() / SEEDS.count() as f64);
        }
        println!();
    }
}

/// Runs one flow of `algorithm` and draws it.
fn run(algorithm: &str, seed: Seed) -> (Figure, [Half; 2]) {
    let link = Link { seed, ..Link::new(10, 50) };
    let mut path = Bottleneck::with(algorithm, link);
    let (mut window, mut in_flight, mut queue) = (Vec::new(), Vec::new(), Vec::new());
    let halves = [(LOSSY_FROM, 0.0), (END, LOSS)].map(|(end, loss)| {
        path.link.loss = loss;
        let (began, delivered, lost) = (path.now, path.flows[0].delivered, path.flows[0].lost);
        let (mut waited, mut samples) = (0.0, 0.0);
        path.watch(end, STEP, |path| {
            let at = path.now.as_secs_f64();
            let waits = path.queue() as f64 * 8.0 / link.rate.bits_per_sec() as f64;
            window.push((at, path.flows[0].control.window() as f64));
            in_flight.push((at, path.flows[0].in_flight() as f64));
            queue.push((at, waits));
            waited += waits;
            samples += 1.0;
        });
        let delivered = (path.flows[0].delivered - delivered) as f64;
        let lost = ((path.flows[0].lost - lost) * bottleneck::MSS) as f64;
        let seconds = end.saturating_since(began).as_secs_f64();
        Half {
            share: delivered * 8.0 / seconds / link.rate.bits_per_sec() as f64,
            queue: waited / samples,
            lost: lost / (delivered + lost),
        }
    });
    let bdp = link.bdp() as f64;
    let time = || Axis::new("time", Unit::Seconds).from(0.0).to(END.as_secs_f64());
    let figure = Figure::new(algorithm)
        .subtitle(
            "One flow over 10 Mbit/s, 50 ms, a drop-tail buffer of 62.5 kB; from 20 s on, 0.5 % random loss",
        )
        .caption("pipe: rate × delay. full: pipe and buffer; what is sent beyond is dropped.")
        .share_x(Share::All)
        .dots_per_inch(150.0)
        .panel(
            Panel::new("What may be and what is in flight")
                .x(time())
                .y(Axis::new("window", Unit::Bytes).from(0.0).to(4.2 * bdp))
                .reference("pipe", bdp)
                .reference("full", 2.0 * bdp)
                .series(Series::line("in flight", Hue::Orange).points(in_flight))
                .series(Series::line("window", Hue::Blue).points(window)),
        )
        .panel(
            Panel::new("What waits in the buffer")
                .x(time())
                .y(Axis::new("queueing delay", Unit::Seconds).from(0.0).to(0.055))
                .reference("full", 0.05)
                .series(Series::line("queue", Hue::Vermillion).points(queue)),
        );
    (figure, halves)
}
