//! Relays anywhere on one path.
use anyhow::Result;
use shorthaul_planner::{Advice, Forecast, Leg, Path, PlanError, Relay, ThroughputModel, Transfer, kalim};
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Panel, Point, Series};
use shorthaul_report::{Column, Table, Unit};
use shorthaul_types::format_duration;

use super::{Answer, Args, Row};

/// Positions of a single relay that are drawn.
const POSITIONS: usize = 39;

/// Plans relays at equal distances.
pub fn answer(args: &Args, model: &dyn ThroughputModel) -> Result<Answer> {
    let (leg, transfer) = (args.leg()?, args.transfer()?);
    let forecast = |relays| {
        let path = Path::evenly_split(&leg, relays, Relay { buffer: args.buffer });
        path.forecast_as_needed(model, &transfer)
    };
    let direct = forecast(0)?;
    let relayed = (args.relays.least.max(1)..=args.relays.most)
        .map(forecast)
        .collect::<Result<Vec<Forecast>, PlanError>>()?;
    let advice = Advice::new(Some(&direct), &relayed, args.policy());
    let rows: Vec<Row> = std::iter::once(direct.clone())
        .chain(relayed)
        .map(|forecast| Row {
            way: if forecast.legs == 1 { "direct".into() } else { "relays at equal distances".into() },
            gain: Some(direct.time.expected.as_secs_f64() / forecast.time.expected.as_secs_f64()),
            price: None,
            buffers: forecast.relays.iter().map(|relay| args.buffer.unwrap_or(relay.needed)).collect(),
            advised: forecast.legs == advice.relays() + 1,
            forecast,
        })
        .collect();
    Ok(Answer {
        question: format!(
            "{} over {}, round trip {}, loss {} %, {} of queue; TCP by the model `{}`.",
            transfer.size,
            leg.capacity,
            format_duration(leg.rtt),
            three_digits(100.0 * leg.loss),
            times(leg.queue_bdp, "bandwidth-delay product"),
            model.name(),
        ),
        table: table(&rows),
        sentences: std::iter::once(advice.to_string()).chain(buffers(&rows, args)).collect(),
        figure: figure(&leg, &transfer, model, Relay { buffer: args.buffer }, &rows)?,
        rows,
        file: None,
    })
}

/// What the advised relays need.
fn buffers(rows: &[Row], args: &Args) -> Option<String> {
    let needed = rows.iter().find(|row| row.advised)?.buffers.iter().max()?;
    args.buffer.is_none().then(|| format!("Give each relay a buffer of {needed}."))
}

fn times(number: f64, what: &str) -> String {
    if number == 1.0 { format!("one {what}") } else { format!("{} {what}s", three_digits(number)) }
}

/// As short as it can be written with three digits.
fn three_digits(value: f64) -> String {
    let rounded = format!("{value:.2e}").parse::<f64>().unwrap_or(value);
    rounded.to_string()
}

/// What the rows say, for people.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        Column::right("relays"),
        Column::right("time").unit("expected"),
        Column::right("interval").unit("19 of 20"),
        Column::right("throughput"),
        Column::right("gain").unit("direct = 1"),
        Column::right("buffer").unit("each relay"),
        Column::right("drought").unit("of a leg"),
        Column::right("overflow").unit("of a leg"),
        Column::left("what binds"),
    ]);
    for row in rows {
        table.row([
            row.relays().to_string().into(),
            row.time(),
            row.interval(),
            row.throughput(),
            row.gain(),
            row.buffer(),
            row.drought(),
            row.overflow(),
            row.binds(),
        ]);
    }
    table
}

/// Throughput against the number of relays; `most` is what the link lets through.
pub(super) fn numbers(title: &str, rows: &[Row], most: f64) -> Panel {
    let points = rows.iter().map(|row| {
        let (low, high) = row.forecast.throughput_interval();
        let point = Point::new(row.relays() as f64, row.forecast.throughput().bits_per_sec() as f64)
            .within(low.bits_per_sec() as f64, high.bits_per_sec() as f64);
        if row.advised { point.text("advised") } else { point }
    });
    let relays = rows.iter().map(Row::relays).max().unwrap_or(0).max(1);
    Panel::new(title)
        .x(Axis::categories("relays", (0..=relays).map(|n| n.to_string())))
        .y(Axis::new("throughput", Unit::BitsPerSecond).to(1.08 * most))
        .series(
            Series::new("forecast, 19 of 20 cases", shorthaul_report::plot::Mark::LineAndDots, Hue::Blue)
                .points(points),
        )
}

/// Throughput against the number of relays, and against the position of one.
fn figure(
    leg: &Leg,
    transfer: &Transfer,
    model: &dyn ThroughputModel,
    relay: Relay,
    rows: &[Row],
) -> Result<Figure> {
    let ceiling = leg.ceiling().bits_per_sec() as f64;
    let direct = rows[0].forecast.throughput().bits_per_sec() as f64;
    let bits_of_segment = 8.0 * f64::from(leg.framing.mss());
    let most = rows.iter().map(Row::relays).max().unwrap_or(0).max(1);
    let paper = (0..=most as u32).map(|n| {
        let rate = kalim::equal_relays_rate(leg, n) * bits_of_segment;
        // Where it is beyond the link it says nothing.
        Point::new(f64::from(n), if rate <= 1.05 * ceiling { rate } else { f64::NAN })
    });
    let numbers = numbers("Relays at equal distances", rows, ceiling)
        .series(
            Series::line("Mathis × R^3/2 (Cascaded TCP, eq. 8)", Hue::Black).dash(Dash::Dashed).points(paper),
        )
        .reference("link less headers", ceiling);

    let mut by_position = Vec::with_capacity(POSITIONS);
    for i in 1..=POSITIONS {
        let position = i as f64 / (POSITIONS + 1) as f64;
        let forecast = Path::split_at(leg, position, relay)?.forecast_as_needed(model, transfer)?;
        let (low, high) = forecast.throughput_interval();
        by_position.push(
            Point::new(position, forecast.throughput().bits_per_sec() as f64)
                .within(low.bits_per_sec() as f64, high.bits_per_sec() as f64),
        );
    }
    let positions = Panel::new("One relay, anywhere")
        .x(Axis::new("position, from source to destination", Unit::Percent).from(0.0).to(1.0))
        .y(Axis::new("throughput", Unit::BitsPerSecond).to(1.08 * ceiling))
        .series(Series::line("forecast, one relay", Hue::Blue).points(by_position))
        .reference("direct", direct)
        .reference("link less headers", ceiling);

    Ok(Figure::new(&format!("{} over {}: throughput with relays", transfer.size, format_duration(leg.rtt)))
        .subtitle(&format!(
            "{}, loss {} % in all, shared by the legs; {}",
            leg.capacity,
            three_digits(100.0 * leg.loss),
            model.name()
        ))
        .caption(
            "Size over expected time, from the first SYN to the last byte. Intervals hold what the model \
             cannot know and what random losses do to a transfer of this length.",
        )
        .columns(2)
        .panel_height(150.0)
        .panel(numbers)
        .panel(positions))
}
