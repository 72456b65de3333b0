//! Relays as a scenario file has them: its path, its relays, and what its hosts speak.
use crate::ending::asked;
use std::path::Path as File;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shorthaul_planner::scenario::{Planned, family};
use shorthaul_planner::{Advice, Forecast, Forwarding, Transfer};
use shorthaul_report::plot::Figure;
use shorthaul_scenario::{Flow, NodeIndex, Scenario, Study};
use shorthaul_types::format_duration;

use super::{Answer, Args, Row, line};

/// Plans one flow of a scenario: directly, and by way of each set of the relays that the scenario sends it through.
pub fn answer(args: &Args, file: &File) -> Result<Answer> {
    let study = Study::from_file(file)?;
    let points = study.points();
    let number = args.point.unwrap_or(1);
    let point = number.checked_sub(1).and_then(|at| points.get(at));
    let point = point.ok_or_else(|| asked!("--point is a number from 1 to {}", points.len()))?;
    let scenario = study.scenario(point)?;
    let flow = flow(&scenario, args.flow.as_deref())?;
    let planned = Planned { scenario: &scenario, flow, model: args.model.as_deref() };
    let transfer = transfer(args, &planned)?;

    let direct = planned.forecast(&[], &transfer)?;
    let mut relayed: Vec<(Vec<NodeIndex>, Forecast)> = Vec::new();
    for relays in planned.sets() {
        let forecast = planned.forecast(&relays, &transfer)?;
        relayed.push((relays, forecast));
    }
    // The fastest of each number of relays, and all of them: that is the scenario as it stands.
    let best_of = |count: usize| {
        let alike = relayed.iter().filter(|(relays, _)| relays.len() == count);
        alike.min_by_key(|(_, forecast)| forecast.time.expected)
    };
    let best: Vec<&(Vec<NodeIndex>, Forecast)> = (1..=flow.via.len()).filter_map(best_of).collect();
    let forecasts: Vec<Forecast> = best.iter().map(|(_, forecast)| forecast.clone()).collect();
    let advice = Advice::new(Some(&direct), &forecasts, args.policy());
    let name = |index: NodeIndex| scenario.nodes[index.0].name.as_str();
    let way = |relays: &[NodeIndex]| match relays {
        [] => "direct".to_owned(),
        relays => relays.iter().map(|relay| name(*relay)).collect::<Vec<_>>().join(" → "),
    };
    let seconds = |forecast: &Forecast| forecast.time.expected.as_secs_f64();
    let row = |relays: &[NodeIndex], forecast: &Forecast| Row {
        way: way(relays),
        gain: Some(seconds(&direct) / seconds(forecast)),
        price: None,
        buffers: relays.iter().filter_map(|relay| planned.relay(*relay)?.buffer).collect(),
        advised: relays.len() == advice.relays(),
        forecast: forecast.clone(),
    };
    let rows: Vec<Row> = std::iter::once(row(&[], &direct))
        .chain(best.iter().map(|(relays, forecast)| row(relays, forecast)))
        .collect();
    let mut sentences = vec![advice.to_string()];
    sentences.extend(
        best.iter()
            .find(|(relays, _)| relays.len() == advice.relays())
            .map(|(relays, _)| format!("Way: {} → {} → {}.", name(flow.from), way(relays), name(flow.to))),
    );
    let left_out = planned.left_out();
    if !left_out.is_empty() {
        sentences.push(format!("Not in the forecast: {}.", left_out.join("; ")));
    }
    let legs = planned.chain(&[])?.legs;
    let round_trip: Duration = legs.iter().map(|leg| leg.leg.rtt).sum();
    Ok(Answer {
        question: format!(
            "{}: {} from {} to {} ({}), round trip {}; TCP by the model `{}`.",
            scenario.name,
            transfer.size,
            name(flow.from),
            name(flow.to),
            flow.name,
            format_duration(round_trip),
            planned.models(&legs),
        ),
        table: line::table(&rows),
        sentences,
        figure: figure(&scenario, &rows),
        rows,
        file: Some((scenario.name.clone(), study.text().to_owned())),
    })
}

/// Throughput against the number of relays.
fn figure(scenario: &Scenario, rows: &[Row]) -> Figure {
    let most = rows.iter().map(|row| row.forecast.throughput_interval().1.bits_per_sec()).max().unwrap_or(1);
    Figure::new(&format!("{}: throughput with its relays", scenario.name))
        .caption(
            "Size over expected time, from the first SYN to the last byte; of each number of relays the best. Intervals \
             hold what the model cannot know and what random losses do to a transfer of this length.",
        )
        .panel_height(160.0)
        .panel(line::numbers("", rows, most as f64))
}

/// The flow of that name, or the first that moves a known amount.
fn flow<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s Flow> {
    let Some(name) = name else {
        let first = scenario.flows.first();
        return Ok(first.ok_or_else(|| asked!("the scenario has no flow, so there is nothing to plan"))?);
    };
    let names = || scenario.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = scenario.flows.iter().find(|flow| flow.name == name || family(flow) == name);
    Ok(found.ok_or_else(|| asked!("there is no flow `{name}`; there are {}", names()))?)
}

/// What the flow moves, as the arguments want it.
fn transfer(args: &Args, planned: &Planned<'_>) -> Result<Transfer> {
    let own = planned.transfer(args.size).ok_or_else(|| {
        asked!("flow `{}` has no size of its own: say how much it moves with --size", planned.flow.name)
    })?;
    let forwarding = match own.forwarding {
        Forwarding::Pipelined { wait_windows } if !args.store => {
            Forwarding::Pipelined { wait_windows: wait_windows.max(args.wait) }
        }
        _ => Forwarding::Stored,
    };
    let transfer = Transfer { forwarding, streams: own.streams.max(args.streams), ..own };
    transfer.check().context("--size or --streams")?;
    Ok(transfer)
}
