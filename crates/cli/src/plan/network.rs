//! Relays at measured sites.
use std::path::Path;

use anyhow::{Context as _, Result};
use shorthaul_planner::placement::{self, Placement, Placements, Question};
use shorthaul_planner::{Advice, Ends, Forecast, Leg, ThroughputModel};
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Table, Unit};
use shorthaul_types::format_duration;

use super::sites::Sites;
use super::{Answer, Args, Row};

/// Sites that are named in the figure: more names than these are in each other's way.
const NAMED: usize = 6;

/// Plans relays at the sites of `file`.
pub fn answer(args: &Args, file: &Path, model: &dyn ThroughputModel) -> Result<Answer> {
    let sites = Sites::read(file)?;
    let transfer = args.transfer()?;
    let question =
        Question { network: &sites.network, ends: sites.ends, transfer, limits: args.limits(), model };
    let found = placement::place(&question).with_context(|| format!("{}", file.display()))?;
    let direct = found.direct();
    let enough = |placement: &&Placement| placement.relays() >= args.relays.least.max(1);
    let relayed: Vec<&Placement> = found.chains.iter().filter(enough).collect();
    let forecasts: Vec<Forecast> = relayed.iter().map(|placement| placement.forecast.clone()).collect();
    let advice = Advice::new(direct.map(|direct| &direct.forecast), &forecasts, args.policy());
    let rows: Vec<Row> =
        direct.into_iter().chain(relayed.iter().copied()).map(|p| row(&sites, p, direct, &advice)).collect();
    let mut sentences = vec![advice.to_string()];
    if let Some(chosen) = relayed.iter().find(|p| advice.relayed() == Some(&p.forecast)) {
        sentences.push(way(&sites, chosen));
    }
    sentences.push(certificate(&found, args.relays.most));
    let names = |site: usize| sites.network.sites()[site].name.as_str();
    let (from, to) = (names(sites.ends.from), names(sites.ends.to));
    Ok(Answer {
        question: format!(
            "{} from {from} to {to} by way of {} sites with {} measured legs; TCP by the model `{}`.",
            transfer.size,
            sites.network.sites().len() - 2,
            sites.network.connections().count(),
            model.name()
        ),
        table: table(&rows),
        sentences,
        figure: figure(&sites, &question, &rows),
        rows,
        file: Some((file.display().to_string(), sites.text)),
    })
}

fn chain(sites: &Sites, placement: &Placement) -> String {
    let names: Vec<&str> =
        placement.sites.iter().map(|site| sites.network.sites()[*site].name.as_str()).collect();
    names.join(" → ")
}

fn row(sites: &Sites, placement: &Placement, direct: Option<&Placement>, advice: &Advice) -> Row {
    let time = |placement: &Placement| placement.forecast.time.expected.as_secs_f64();
    Row {
        way: chain(sites, placement),
        gain: direct.map(|direct| time(direct) / time(placement)),
        price: Some(placement.price),
        buffers: placement.path.relays.iter().filter_map(|relay| relay.buffer).collect(),
        advised: match advice.relayed() {
            Some(advised) => *advised == placement.forecast,
            None => placement.relays() == 0,
        },
        forecast: placement.forecast.clone(),
    }
}

/// The chain that is advised, with each relay's buffer.
fn way(sites: &Sites, placement: &Placement) -> String {
    let buffers: Vec<String> = placement.sites[1..]
        .iter()
        .zip(&placement.path.relays)
        .filter_map(|(site, relay)| Some(format!("{} {}", sites.network.sites()[*site].name, relay.buffer?)))
        .collect();
    format!("Way: {}. Buffers: {}.", chain(sites, placement), buffers.join(", "))
}

/// How sure it is that there is nothing better.
fn certificate(found: &Placements, most_relays: usize) -> String {
    let relays = match most_relays {
        1 => "one relay".to_string(),
        n => format!("{n} relays"),
    };
    if found.exact {
        return format!("Of all chains of up to {relays} within the limits, none is forecast to be faster.");
    }
    format!(
        "Found by label setting: no chain of up to {relays} within the limits is forecast to be faster than {}, {:.1} % less than the fastest here.",
        format_duration(found.bound),
        100.0 * (1.0 - 1.0 / (1.0 + found.gap())),
    )
}

fn table(rows: &[Row]) -> Table {
    let priced = rows.iter().any(|row| row.price.is_some_and(|price| price > 0.0));
    let mut columns = vec![
        Column::right("relays"),
        Column::left("way"),
        Column::right("time").unit("expected"),
        Column::right("interval").unit("19 of 20"),
        Column::right("throughput"),
        Column::right("gain").unit("direct = 1"),
        Column::right("buffer").unit("largest"),
        Column::left("what binds"),
    ];
    if priced {
        columns.push(Column::right("price"));
    }
    let mut table = Table::new(columns);
    for row in rows {
        let mut cells = vec![
            row.relays().to_string().into(),
            row.way.clone().into(),
            row.time(),
            row.interval(),
            row.throughput(),
            row.gain(),
            row.buffer(),
            row.binds(),
        ];
        if priced {
            cells.push(format!("{:.2}", row.price.unwrap_or(0.0)).into());
        }
        table.row(cells);
    }
    table
}

/// Throughput of the best chain with this many relays, and of each site as the only relay.
fn figure(sites: &Sites, question: &Question<'_>, rows: &[Row]) -> Figure {
    let bits = |forecast: &Forecast| forecast.throughput().bits_per_sec() as f64;
    let best = rows.iter().map(|row| {
        let (low, high) = row.forecast.throughput_interval();
        let point = Point::new(row.relays() as f64, bits(&row.forecast))
            .within(low.bits_per_sec() as f64, high.bits_per_sec() as f64);
        if row.advised { point.text("advised") } else { point }
    });
    let most = rows.iter().map(Row::relays).max().unwrap_or(0).max(1);
    let numbers = Panel::new("The best chain with so many relays")
        .x(Axis::categories("relays", (0..=most).map(|n| n.to_string())))
        .y(Axis::new("throughput", Unit::BitsPerSecond))
        .series(Series::dots("forecast, 19 of 20 cases", Hue::Blue).points(best));

    let mut alone = single_relays(question);
    alone.sort_by(|a, b| b.2.total_cmp(&a.2));
    let points = alone.iter().enumerate().map(|(rank, (site, position, throughput))| {
        let point = Point::new(*position, *throughput);
        if rank < NAMED { point.text(sites.network.sites()[*site].name.as_str()) } else { point }
    });
    let mut positions = Panel::new("Each site as the only relay")
        .x(Axis::new("share of the round trip before the relay", Unit::Percent).from(0.0).to(1.0))
        .y(Axis::new("throughput", Unit::BitsPerSecond))
        .series(Series::dots("", Hue::Blue).points(points));
    if let Some(direct) = rows.iter().find(|row| row.relays() == 0) {
        positions = positions.reference("direct", bits(&direct.forecast));
    }
    let name = |site: usize| sites.network.sites()[site].name.as_str();
    let figure = Figure::new(&format!(
        "{} from {} to {}: throughput with relays",
        question.transfer.size,
        name(sites.ends.from),
        name(sites.ends.to)
    ))
    .subtitle(&format!("{} candidate sites; {}", sites.network.sites().len() - 2, question.model.name()))
    .caption(
        "Size over expected time, from the first SYN to the last byte. Intervals hold what the model \
         cannot know and what random losses do to a transfer of this length.",
    )
    .columns(2)
    .panel_height(150.0)
    .panel(numbers);
    // Without a site that is measured to both ends there is nothing to show.
    if alone.is_empty() { figure } else { figure.panel(positions) }
}

/// Site, position and throughput of each relay that is measured to both ends.
fn single_relays(question: &Question<'_>) -> Vec<(usize, f64, f64)> {
    let Ends { from, to } = question.ends;
    let leg = |ends: Ends| -> Option<Leg> { Some(question.network.connection(ends)?.leg) };
    let mut found = Vec::new();
    for site in (0..question.network.sites().len()).filter(|site| *site != from && *site != to) {
        let (Some(first), Some(second)) = (leg(Ends { from, to: site }), leg(Ends { from: site, to })) else {
            continue;
        };
        let Ok(placement) = placement::evaluate(question, &[from, site, to]) else { continue };
        let (before, after) = (first.rtt.as_secs_f64(), second.rtt.as_secs_f64());
        let throughput = placement.forecast.throughput().bits_per_sec() as f64;
        found.push((site, before / (before + after), throughput));
    }
    found
}
