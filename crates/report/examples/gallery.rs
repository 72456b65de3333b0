//! Draws every kind of plot into a directory, to look at: `cargo run -p shorthaul-report --example gallery -- DIR`.
use std::path::PathBuf;

use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Marker, Panel, Point, Series, Share};
use shorthaul_report::{Manifest, ReportError, Unit};

fn main() -> Result<(), ReportError> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "out/gallery".to_string()));
    let manifest =
        Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(std::env::args().skip(1)).seed(1);
    let mut figure = Figure::new("Direct and split, side by side")
        .subtitle("Kernel TCP across three emulated paths; invented numbers, to look at the typography")
        .caption("Each line is one transfer. Bands and whiskers are 95 % confidence intervals of the mean over ten runs.")
        .columns(3)
        .share_x(Share::Column);
    for (i, path) in ["GPRS", "Half-way, 128 ms", "GEO, 600 ms"].into_iter().enumerate() {
        let rate = [40e3, 32e6, 10e6][i];
        let wave = |gain: f64, step: f64| {
            (0..200).map(move |k| {
                let t = f64::from(k) * 0.05;
                let y = rate * gain * (1.0 - (-t * step).exp()) * (1.0 - 0.2 * ((t * 2.0).fract()));
                Point::new(t, y).within(y * 0.9, y * 1.08)
            })
        };
        figure = figure.panel(
            Panel::new(path)
                .x(Axis::new("time", Unit::Seconds).to(10.0))
                .y(Axis::new("throughput", Unit::BitsPerSecond).to(rate * 1.1))
                .reference("link rate", rate)
                .series(Series::line("direct", Hue::Vermillion).dash(Dash::Dashed).points(wave(0.5, 0.4)))
                .series(Series::step("split", Hue::Blue).points(wave(0.95, 1.5))),
        );
    }
    for (i, path) in ["GPRS", "Half-way", "GEO"].into_iter().enumerate() {
        let bars = |scale: f64| {
            (0..3).map(move |k| {
                let y = [3e4, 2e7, 5e6][i] * scale * (1.0 + 0.2 * f64::from(k));
                Point::new(f64::from(k), y).within(y * 0.9, y * 1.1).text(format!("{:.1} ×", scale * 2.0))
            })
        };
        figure = figure.panel(
            Panel::new(path)
                .x(Axis::categories("congestion control", ["reno", "cubic", "bbr"]))
                .y(Axis::new("goodput", Unit::BitsPerSecond))
                .series(Series::bars("direct", Hue::Vermillion).points(bars(0.5)))
                .series(Series::bars("split", Hue::Blue).points(bars(1.0))),
        );
    }
    for i in 0..3u32 {
        let x = Axis::new("loss", if i == 2 { Unit::None } else { Unit::Percent }).logarithmic();
        let y = Axis::new("queueing delay", Unit::Seconds);
        let y = if i == 1 {
            y.logarithmic()
        } else if i == 2 {
            y.tight()
        } else {
            y
        };
        let mut panel = Panel::new(["Logarithmic x", "Both logarithmic", "Tight"][i as usize]).x(x).y(y);
        for (k, label) in ["reno", "cubic", "bbr", "westwood"].into_iter().enumerate() {
            let marker = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond][k];
            let points = (0..8).map(|n| {
                let x = if i == 2 { 1e-6 * 10f64.powi(n) } else { 1e-4 * 2f64.powi(n) };
                let y = 0.003 * (k as f64 + 1.0) / x.powf(0.3);
                Point::new(x, y).within(y * 0.8, y * 1.25)
            });
            panel = panel.series(
                Series::new(label, shorthaul_report::plot::Mark::LineAndDots, Hue::nth(k))
                    .marker(marker)
                    .points(points),
            );
        }
        figure = figure.panel(panel);
    }
    for file in figure.save(&dir.join("gallery"), &manifest)? {
        println!("{}", file.display());
    }
    Ok(())
}
