//! Which leg of a chain binds, and what buffer would mend it.
use super::{by_point, label};
use crate::{BufferOutcome, EngineName, Outcome, RunRecord};
use serde::Serialize;
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};
use shorthaul_types::{BufferTimes, binding_leg};

/// What buffers between the legs of a flow came to in the runs of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Buffer {
    /// The point, in words.
    pub point: String,
    /// Who has run it.
    pub engine: EngineName,
    /// The flow.
    pub flow: String,
    /// Who has the buffer.
    pub node: String,
    /// Of how many runs.
    pub runs: usize,
    /// The sum of all runs, and the longest drought and overflow of any.
    pub times: BufferTimes,
    /// In how many runs each leg was the one that binds: of the whole flow.
    pub binds: Vec<usize>,
    /// How much more it would have to hold, in bytes: the middle one of the runs.
    pub more_room: u64,
}

/// Of all points, engines and flows.
pub fn buffers(records: &[RunRecord]) -> Vec<Buffer> {
    let mut all = Vec::new();
    for ((_, case, values), runs) in by_point(records) {
        for (engine, ..) in EngineName::ALL {
            let of_engine = runs.iter().filter(|record| record.engine == engine);
            let outcomes: Vec<&Outcome> = of_engine.filter_map(|record| record.outcome.as_ref()).collect();
            let mut flows: Vec<&str> = Vec::new();
            for buffer in outcomes.iter().flat_map(|outcome| &outcome.buffers) {
                if !flows.contains(&buffer.flow.as_str()) {
                    flows.push(&buffer.flow);
                }
            }
            let point = label(case.as_deref(), &values);
            all.extend(flows.into_iter().flat_map(|flow| of_flow(&point, engine, flow, &outcomes)));
        }
    }
    all
}

fn of_flow(point: &str, engine: EngineName, flow: &str, outcomes: &[&Outcome]) -> Vec<Buffer> {
    let mut all: Vec<(Buffer, Vec<u64>)> = Vec::new();
    for outcome in outcomes {
        let rate =
            outcome.flows.iter().find(|other| other.name == flow).map_or(0.0, |flow| flow.goodput / 8.0);
        let chain: Vec<&BufferOutcome> =
            outcome.buffers.iter().filter(|buffer| buffer.flow == flow).collect();
        let times: Vec<BufferTimes> = chain.iter().map(|buffer| buffer.times).collect();
        for BufferOutcome { node, times: of_run, .. } in chain {
            let at = all.iter().position(|(buffer, _)| buffer.node == *node).unwrap_or_else(|| {
                let times = BufferTimes::default();
                let (point, flow, node) = (point.to_owned(), flow.to_owned(), node.clone());
                let (binds, more_room) = (vec![0; chain_legs(outcomes, &flow)], 0);
                all.push((
                    Buffer { point, engine, flow, node, runs: 0, times, binds, more_room },
                    Vec::new(),
                ));
                all.len() - 1
            });
            let (buffer, rooms) = &mut all[at];
            buffer.runs += 1;
            buffer.times.add(of_run);
            if let Some(count) = buffer.binds.get_mut(binding_leg(&times)) {
                *count += 1;
            }
            rooms.push(of_run.more_room(rate, None).0);
        }
    }
    let middle = |(mut buffer, mut rooms): (Buffer, Vec<u64>)| {
        rooms.sort_unstable();
        buffer.more_room = rooms.get(rooms.len() / 2).copied().unwrap_or_default();
        buffer
    };
    all.into_iter().map(middle).collect()
}

/// How many legs a flow has at most.
fn chain_legs(outcomes: &[&Outcome], flow: &str) -> usize {
    let count = |outcome: &&Outcome| outcome.buffers.iter().filter(|buffer| buffer.flow == flow).count();
    outcomes.iter().map(count).max().unwrap_or_default() + 1
}

/// The same for people; nothing, where no buffers were watched.
pub fn buffer_table(records: &[RunRecord]) -> Option<Table> {
    let all = buffers(records);
    if all.is_empty() {
        return None;
    }
    let has_points = all.iter().any(|buffer| !buffer.point.is_empty());
    let mut columns = if has_points { vec![Column::left("point")] } else { Vec::new() };
    columns.extend([
        Column::left("engine"),
        Column::left("flow"),
        Column::left("buffer of"),
        Column::right("drought").unit("leg behind"),
        Column::right("overflow").unit("leg before"),
        Column::right("longest").unit("drought"),
        Column::right("longest").unit("overflow"),
        Column::left("leg that binds").unit("runs"),
        Column::right("would take").unit("more room"),
    ]);
    let mut table = Table::new(columns);
    for buffer in all {
        let times = &buffer.times;
        let mut cells: Vec<TableCell> =
            if has_points { vec![buffer.point.clone().into()] } else { Vec::new() };
        let legs = buffer.binds.iter().enumerate().filter(|(_, runs)| **runs > 0);
        let binds: Vec<String> = legs.map(|(leg, runs)| format!("{}. in {runs}", leg + 1)).collect();
        cells.extend([
            buffer.engine.name().into(),
            buffer.flow.clone().into(),
            buffer.node.clone().into(),
            TableCell::toned(Unit::Percent.format(times.drought_share()), Tone::Strong),
            TableCell::toned(Unit::Percent.format(times.overflow_share()), Tone::Strong),
            Unit::Seconds.format(times.longest_drought.as_secs_f64()).into(),
            Unit::Seconds.format(times.longest_overflow.as_secs_f64()).into(),
            binds.join(", ").into(),
            match buffer.more_room {
                0 => "nothing to mend".into(),
                room => Unit::Bytes.format(room as f64).into(),
            },
        ]);
        table.row(cells);
    }
    Some(table)
}
