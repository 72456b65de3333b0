//! Errors of forecasts, decisions and placements: a table, rows for programs, JSON.
use super::paths::{Case, Compared};
use super::sites::Placed;
use super::{ENDS, Plan};
use crate::error::Result;
use crate::trial::Judgement;
use serde_json::json;
use shorthaul_observe::Summary;
use shorthaul_report::{Column, Console, Csv, Field, Manifest, Table, Unit};

/// A gain that is worth a decision, either way.
const GAIN: f64 = 1.1;
/// How far from the best a placement may be.
const NEAR: f64 = 0.03;

/// What is wrong with a set of forecasts.
struct Errors {
    median: f64,
    ninetieth: f64,
    largest: f64,
}

impl Errors {
    fn of(errors: impl Iterator<Item = f64>) -> Option<Errors> {
        let summary = Summary::of(errors.map(f64::abs))?;
        Some(Errors {
            median: summary.percentile(0.5),
            ninetieth: summary.percentile(0.9),
            largest: summary.percentile(1.0),
        })
    }
}

/// Decisions between relays and the direct way where it matters.
#[derive(Default)]
struct Decisions {
    relays_right: usize,
    relays: usize,
    direct_right: usize,
    direct: usize,
}

impl Decisions {
    fn of<'a>(cases: impl Iterator<Item = &'a Case>, forecast: fn(&Compared) -> f64) -> Decisions {
        let mut found = Decisions::default();
        for case in cases {
            let gain = case.direct.simulated / case.relayed.simulated;
            let forecast = forecast(&case.direct) / forecast(&case.relayed);
            if gain >= GAIN {
                found.relays += 1;
                found.relays_right += usize::from(forecast > 1.0);
            } else if gain <= 1.0 / GAIN {
                found.direct += 1;
                found.direct_right += usize::from(forecast <= 1.0);
            }
        }
        found
    }

    fn share(&self) -> f64 {
        let right = (self.relays_right + self.direct_right) as f64;
        right / ((self.relays + self.direct) as f64).max(1.0)
    }
}

pub(super) fn report(
    args: &Plan,
    cases: &[Case],
    placed: &[Placed],
    console: &dyn Console,
) -> Result<Judgement> {
    let mut table = Table::new(
        [Column::left("ends"), Column::left("model"), Column::left("paths")]
            .into_iter()
            .chain(["forecasts", "median error", "nine of ten below", "largest"].map(Column::right)),
    );
    let mut ends_json = Vec::new();
    for ends in ENDS {
        let of_ends = || cases.iter().filter(move |case| case.ends == ends);
        let mut models = Vec::new();
        for (name, forecast) in
            [(ends.model, (|c: &Compared| c.forecast) as fn(&Compared) -> f64), ("mathis", |c| c.mathis)]
        {
            let direct = || of_ends().map(|case| &case.direct);
            let both = || direct().chain(of_ends().map(|case| &case.relayed));
            let mut kinds = Vec::new();
            for (kind, forecasts) in [
                ("all", both().collect::<Vec<_>>()),
                ("direct", direct().collect()),
                ("relayed", of_ends().map(|case| &case.relayed).collect()),
                // Where a link binds, any model that knows its rate is right.
                ("no link binds", both().filter(|compared| !compared.is_full()).collect()),
            ] {
                let errors = forecasts.iter().map(|compared| compared.error(forecast(compared)));
                let Some(errors) = Errors::of(errors) else { continue };
                table.row([
                    ends.profile.to_owned(),
                    name.to_owned(),
                    kind.to_owned(),
                    forecasts.len().to_string(),
                    percent(errors.median),
                    percent(errors.ninetieth),
                    percent(errors.largest),
                ]);
                kinds.push(json!({ "paths": kind, "count": forecasts.len(), "median": errors.median, "p90": errors.ninetieth, "max": errors.largest }));
            }
            let decisions = Decisions::of(of_ends(), forecast);
            models.push(json!({ "model": name, "errors": kinds, "decisions_right": decisions.share() }));
        }
        ends_json.push(json!({ "ends": ends.profile, "models": models }));
    }
    console.table(&table);
    console.say("");
    tell_decisions(cases, console);
    let slower = Summary::of(placed.iter().map(|placed| placed.slower));
    let near = placed.iter().filter(|placed| placed.slower <= NEAR).count();
    if let Some(slower) = &slower {
        tell_placements(placed, slower, near, console);
    }
    rows(args, cases)?;
    tried(args, placed)?;
    Ok(Judgement::holds(json!({
        "paths": args.paths,
        "repeats": args.repeats,
        "seed": args.seed,
        "ends": ends_json,
        "placement": {
            "instances": placed.len(),
            "within_3_percent": near,
            "mean": slower.as_ref().map(|s| s.mean),
            "p90": slower.as_ref().map(|s| s.percentile(0.9)),
            "max": slower.as_ref().map(|s| s.percentile(1.0)),
        },
    })))
}

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

fn tell_decisions(cases: &[Case], console: &dyn Console) {
    for ends in ENDS {
        let found = Decisions::of(cases.iter().filter(|case| case.ends == ends), |c| c.forecast);
        console.say(&format!(
            "{}: {} of the decisions right where one way is more than 10 % faster ({} of {} for relays, {} of {} for direct).",
            ends.profile,
            percent(found.share()),
            found.relays_right,
            found.relays,
            found.direct_right,
            found.direct,
        ));
    }
}

fn tell_placements(placed: &[Placed], slower: &Summary, near: usize, console: &dyn Console) {
    let direct = Summary::of(placed.iter().map(|placed| placed.direct_slower));
    console.say(&format!(
        "Placement: {near} of {} within 3 % of the best of {} chains; mean {}, nine of ten below {}, worst {} slower; direct is {} slower (median).",
        placed.len(),
        placed[0].tried.len(),
        percent(slower.mean),
        percent(slower.percentile(0.9)),
        percent(slower.percentile(1.0)),
        percent(direct.map_or(0.0, |direct| direct.percentile(0.5))),
    ));
    let surely = placed.iter().filter(|placed| placed.slower - placed.slower_confidence > NEAR).count();
    console.say(&format!("{surely} of them are further off than chance explains:"));
    for placed in placed.iter().filter(|placed| placed.slower > NEAR) {
        let (slower, half) = (percent(placed.slower), percent(placed.slower_confidence));
        console.say(&format!("  one with {} is {slower} ± {half} slower", placed.ends.profile));
    }
}

/// A row for each forecast, to find out where the errors are.
fn rows(args: &Plan, cases: &[Case]) -> Result<()> {
    let manifest = Manifest::of_this_command().seed(args.seed);
    let columns = [
        "path",
        "ends",
        "relays",
        "size [B]",
        "rtt [s]",
        "loss",
        "rate [bit/s]",
        "simulated [s]",
        "forecast [s]",
        "mathis [s]",
        "error",
    ];
    let mut csv = Csv::new(&manifest, &columns);
    for case in cases {
        for compared in [&case.direct, &case.relayed] {
            // Of a chain: the sum, what arrives of what is sent, and the narrowest.
            let legs = &compared.path.legs;
            let arrives: f64 = legs.iter().map(|leg| 1.0 - leg.loss).product();
            let rate = legs.iter().map(|leg| leg.capacity.bits_per_sec()).min().unwrap_or_default();
            csv.row([
                Field::Integer(i128::from(case.number)),
                Field::from(case.ends.profile),
                Field::Integer(compared.path.relays.len() as i128),
                Field::Integer(i128::from(case.size.0)),
                Field::Number(compared.path.round_trip().as_secs_f64()),
                Field::Number(1.0 - arrives),
                Field::Integer(i128::from(rate)),
                Field::Number(compared.simulated),
                Field::Number(compared.forecast),
                Field::Number(compared.mathis),
                Field::Number(compared.error(compared.forecast)),
            ])?;
        }
    }
    Ok(csv.save(&args.out.join("forecasts.csv"))?)
}

/// A row for each chain that was simulated among random sites.
fn tried(args: &Plan, placed: &[Placed]) -> Result<()> {
    let manifest = Manifest::of_this_command().seed(args.seed);
    let columns = [
        "instance",
        "ends",
        "sites",
        "chosen",
        "forecast [s]",
        "simulated [s]",
        "standard error [s]",
        "runs",
    ];
    let mut csv = Csv::new(&manifest, &columns);
    for (number, placed) in placed.iter().enumerate() {
        for tried in &placed.tried {
            let sites: Vec<String> = tried.sites.iter().map(usize::to_string).collect();
            csv.row([
                Field::Integer(number as i128),
                Field::from(placed.ends.profile),
                Field::from(sites.join("-")),
                Field::from(if tried.placed { "yes" } else { "no" }),
                Field::Number(tried.forecast),
                Field::Number(tried.simulated),
                Field::Number(tried.error),
                Field::Integer(i128::from(tried.runs)),
            ])?;
        }
    }
    Ok(csv.save(&args.out.join("placements.csv"))?)
}
