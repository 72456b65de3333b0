//! The planner as an engine: closed forms instead of runs.
//!
//! It says what a flow gets, and when. It sees no packets, so it has neither links nor senders to observe.
mod course;
mod refusal;

use crate::scenario::{Planned, family};
use course::{Course, Pick};
use shorthaul_observe::{Engine, EngineError, EngineName, FlowOutcome, Observations};
use shorthaul_scenario::{Flow, Metric, Scenario};

/// The planner's models as an engine. Seeds make no difference: it gives expected values.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelEngine;

/// What the models forecast.
const FORECAST: [Metric; 5] =
    [Metric::Goodput, Metric::Completion, Metric::SetUp, Metric::Fairness, Metric::Unfinished];

impl Engine for ModelEngine {
    fn name(&self) -> EngineName {
        EngineName::Model
    }

    /// A forecast is made in less time than it takes to find a kept one.
    fn version(&self) -> Option<String> {
        None
    }

    fn draws(&self) -> bool {
        false
    }

    fn refusals(&self, scenario: &Scenario) -> Vec<String> {
        refusal::refusals(scenario)
    }

    fn unmeasured(&self, scenario: &Scenario) -> Vec<String> {
        let mut remarks = Vec::new();
        let metrics = scenario.measure.metrics.iter().filter(|metric| !FORECAST.contains(metric));
        let names: Vec<String> = metrics.map(|metric| format!("`{metric}`")).collect();
        if !names.is_empty() {
            remarks.push(format!(
                "the model has no {}: it forecasts what flows get, and when",
                names.join(", ")
            ));
        }
        if !scenario.measure.series.is_empty() {
            let names: Vec<String> =
                scenario.measure.series.iter().map(|series| format!("`{series}`")).collect();
            remarks.push(format!("the model has no values over time: {}", names.join(", ")));
        }
        remarks
    }

    fn run(
        &self,
        scenario: &Scenario,
        _seed: u64,
        reached: &dyn Fn(f64),
    ) -> Result<Observations, EngineError> {
        let reasons = self.refusals(scenario);
        if !reasons.is_empty() {
            return Err(EngineError::Refused { engine: self.name(), reasons });
        }
        let expected = observations(scenario, |time| time.expected, &|share| reached(share / 3.0))?;
        let late = observations(scenario, |time| time.high, &|share| reached((1.0 + share) / 3.0))?;
        let early = observations(scenario, |time| time.low, &|share| reached((2.0 + share) / 3.0))?;
        Ok(Observations { bounds: Some(Box::new([late, early])), ..expected })
    }
}

/// What comes of a scenario, if times are as `pick` takes them from an estimate.
fn observations(scenario: &Scenario, pick: Pick, reached: &dyn Fn(f64)) -> Result<Observations, EngineError> {
    let mut flows: Vec<FlowOutcome> = Vec::new();
    let mut ended_at = 0.0_f64;
    for flow in &scenario.flows {
        // Flows alike share a way, and get the same.
        let alike = scenario.flows[..flows.len()].iter().position(|other| family(other) == family(flow));
        let outcome = match alike {
            Some(first) => FlowOutcome { name: flow.name.clone(), ..flows[first].clone() },
            None => forecast(scenario, flow, pick, &mut ended_at)?,
        };
        flows.push(outcome);
        reached(flows.len() as f64 / scenario.flows.len() as f64);
    }
    Ok(Observations { flows, ended_at, ..Observations::default() })
}

/// What a flow gets; the run ends when the last one does.
fn forecast(
    scenario: &Scenario,
    flow: &Flow,
    pick: Pick,
    ended_at: &mut f64,
) -> Result<FlowOutcome, EngineError> {
    let planned = Planned { scenario, flow, model: None };
    let course = Course::of(&planned, pick).map_err(|error| EngineError::failed(&error))?;
    let left = scenario.duration.saturating_sub(flow.start).as_secs_f64();
    let until = course.ends().filter(|ends| *ends <= left);
    let end = until.unwrap_or(left);
    *ended_at = ended_at.max(flow.start.as_secs_f64() + end);
    let warm_up = scenario.warm_up.saturating_sub(flow.start).as_secs_f64();
    let streams = f64::from(planned.alike());
    let delivered = course.delivered_by(end) / streams;
    let time = end - warm_up;
    Ok(FlowOutcome {
        name: flow.name.clone(),
        delivered: delivered as u64,
        goodput: if time > 0.0 {
            (delivered - course.delivered_by(warm_up) / streams) * 8.0 / time
        } else {
            0.0
        },
        transfers: course.transfers(end),
        set_ups: vec![course.set_up()],
        ended: until.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_scenario::Study;

    fn study(text: &str) -> Study {
        Study::from_toml("test", text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn scenario(text: &str) -> Scenario {
        let study = study(text);
        study.scenario(&study.points()[0]).unwrap()
    }

    const PATH: &str = r#"
duration = "60 s"
[hosts.server]
scheme = { profile = "sack-reno" }
[hosts.client]
scheme = { profile = "sack-reno" }
[[links]]
between = ["server", "client"]
link = { rate = "10 Mbit/s", delay = "20 ms", queue = "50 packets" }
[[flows]]
name = "data"
from = "server"
to = "client"
opened_by = "server"
bulk = "10 MB"
[measure]
metrics = ["completion", "goodput", "set-up", "unfinished"]
"#;

    fn seen(text: &str) -> Observations {
        ModelEngine.run(&scenario(text), 1, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_transfer_over_a_clean_link_takes_its_size_over_the_links_payload_rate() {
        let seen = seen(PATH);
        let completion = seen.metric(Metric::Completion).unwrap();
        // 1448 of 1500 bytes are payload; slow start and set-up cost a few round trips of 40 ms.
        let least = 10e6 * 8.0 / (10e6 * 1448.0 / 1500.0);
        assert!((least..1.1 * least).contains(&completion), "{completion} s, at least {least} s");
        assert!((seen.metric(Metric::SetUp).unwrap() - 0.06).abs() < 0.003, "1.5 round trips");
        assert_eq!(seen.metric(Metric::Unfinished), Some(0.0));
        assert_eq!(seen.metric(Metric::Retransmitted), None);
    }

    #[test]
    fn what_does_not_end_in_time_is_unfinished_and_has_a_goodput() {
        let text = PATH
            .replace("10 MB", "1 GB")
            .replace("duration = \"60 s\"", "duration = \"60 s\"\nwarm_up = \"10 s\"");
        let seen = seen(&text);
        assert_eq!(seen.metric(Metric::Unfinished), Some(1.0));
        assert_eq!(seen.metric(Metric::Completion), None);
        let goodput = seen.metric(Metric::Goodput).unwrap();
        assert!((9.3e6..9.66e6).contains(&goodput), "{goodput}");
    }

    #[test]
    fn flows_alike_share_and_an_unlimited_one_gets_as_much_as_a_long_one() {
        let both = PATH.replace("bulk = \"10 MB\"", "bulk = \"100 MB\"\ncount = 2");
        let shared = seen(&both);
        assert_eq!(shared.flows.len(), 2);
        let goodput = shared.metric(Metric::Goodput).unwrap();
        assert!((8.8e6..9.66e6).contains(&goodput), "{goodput}");
        assert_eq!(shared.metric(Metric::Fairness), Some(1.0));
        let unlimited = seen(&PATH.replace("bulk = \"10 MB\"", "unlimited = \"60 s\""));
        let goodput = unlimited.metric(Metric::Goodput).unwrap();
        assert!((9.3e6..9.66e6).contains(&goodput), "{goodput}");
    }

    #[test]
    fn what_it_cannot_forecast_it_refuses_by_name() {
        let refused = |text: &str| ModelEngine.refusals(&scenario(text)).join("; ");
        assert_eq!(refused(PATH), "");
        for (from, to, words) in [
            (
                "bulk = \"10 MB\"",
                "persistent = { burst = \"10 kB\", idle = \"1 s\", count = 3 }",
                "`persistent`",
            ),
            (
                "{ profile = \"sack-reno\" }\n[hosts.client]",
                "{ profile = \"vegas\" }\n[hosts.client]",
                "`congestion = \"vegas\"`",
            ),
            (
                "{ profile = \"sack-reno\" }\n[hosts.client]",
                "{ profile = \"tahoe\" }\n[hosts.client]",
                "node `server`: there is no model of `loss_detection = \"tahoe\"`",
            ),
            (
                "{ profile = \"sack-reno\" }\n[hosts.client]",
                "{ profile = \"sack-reno\", rto = \"coarse\" }\n[hosts.client]",
                "`rto = \"coarse\"`",
            ),
            (
                "queue = \"50 packets\"",
                "queue = \"50 packets\", outages = { list = [{ at = \"1 s\", lasts = \"1 s\" }], hold = \"0 s\" }",
                "outages",
            ),
            (
                "metrics = [\"completion\", \"goodput\", \"set-up\", \"unfinished\"]",
                "metrics = [\"timeouts\"]",
                "`timeouts`",
            ),
        ] {
            let text = PATH.replacen(from, to, 1);
            assert!(refused(&text).contains(words), "{words}: {}", refused(&text));
        }
        let two = format!(
            "{PATH}\n[[flows]]\nname = \"other\"\nfrom = \"server\"\nto = \"client\"\nbulk = \"1 MB\"\n"
        );
        assert!(refused(&two).contains("`data` and `other`"), "{}", refused(&two));
        let error = ModelEngine.run(&scenario(&two), 1, &|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("model cannot run this"), "{error}");
    }

    #[test]
    fn what_one_end_does_not_offer_the_connection_does_not_have() {
        let model = |text: &str| {
            let scenario = scenario(text);
            let planned = Planned { scenario: &scenario, flow: &scenario.flows[0], model: None };
            let leg = planned.chain(&[]).unwrap().legs.remove(0);
            (leg.model, leg.leg.framing.tcp)
        };
        let both = "{ profile = \"sack-reno\" }";
        assert_eq!(model(PATH), ("reno", 32));
        // Of the server, and then of the client.
        for from in ["[hosts.server]\nscheme = ", "[hosts.client]\nscheme = "] {
            let other = |key: &str| {
                let to = format!("{from}{{ profile = \"sack-reno\", {key} = false }}");
                PATH.replacen(&format!("{from}{both}"), &to, 1)
            };
            assert_eq!(model(&other("sack")), ("newreno", 32), "{from}");
            assert_eq!(model(&other("timestamps")), ("reno", 20), "{from}");
        }
    }

    #[test]
    fn a_forecast_lies_in_its_interval() {
        let scenario = scenario(&PATH.replace("queue", "loss = 0.005, queue"));
        let wanted = [Metric::Completion, Metric::Goodput];
        let outcome = ModelEngine.run(&scenario, 1, &|_| ()).unwrap().outcome(1, &wanted);
        for metric in wanted {
            let ([low, high], value) = (outcome.intervals[&metric], outcome.metrics[&metric]);
            assert!(low < value && value < high, "{metric}: {value} in {low} to {high}");
        }
    }

    #[test]
    fn remarks_name_what_is_not_measured() {
        let text = PATH.replace("\"unfinished\"]", "\"retransmitted\"]\nseries = [\"cwnd\"]");
        let remarks = ModelEngine.unmeasured(&scenario(&text));
        assert!(remarks[0].contains("`retransmitted`") && remarks[1].contains("`cwnd`"), "{remarks:?}");
    }
}
