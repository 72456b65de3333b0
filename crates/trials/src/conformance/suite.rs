use crate::conformance::case::{Case, Family, Fault, PLAIN, Setting, Tuning};
use crate::conformance::context::Context;
use crate::conformance::failure::Failure;
use crate::conformance::gateway::Gateway;
use crate::conformance::outcome::{CaseVerdict, Outcome, Report};
use crate::conformance::site::Site;
use crate::trial::{Ran, run_all};
use shorthaul_lab::{LabError, Privilege};
use shorthaul_report::{Console, Progress};
use shorthaul_types::Seed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What to run, and against what.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The gateway under test.
    pub gateway: Gateway,
    /// With which faults.
    pub faults: Vec<Fault>,
    /// The cases.
    pub cases: Vec<Case>,
    /// From which all data and all faults are derived.
    pub seed: Seed,
}

/// How many cases run at the same time. Most of them wait most of the time.
const AT_ONCE: usize = 10;

/// A case that does not even notice its own deadline is given up after this.
const GRACE: Duration = Duration::from_secs(20);

/// A case under one fault and over one version of IP.
#[derive(Clone)]
struct Job {
    number: usize,
    case: Case,
    family: Family,
    fault: Fault,
    site: SharedSite,
}

/// A site that is built when the first of its jobs starts, and torn down after the last.
type SharedSite = Arc<Mutex<Option<Arc<Site>>>>;

impl Suite {
    /// Runs everything, and tells the console of each outcome as it comes.
    ///
    /// A program that may be started by a user other than root should call this before it has started
    /// threads, see [`Privilege::obtain`].
    ///
    /// # Errors
    /// If this machine does not let us build a network: what is missing, and what to do about it.
    pub fn run(&self, console: &dyn Console) -> Result<Report, LabError> {
        Privilege::obtain()?;
        let start = Instant::now();
        let jobs = self.jobs();
        let progress = Progress::begin(console, jobs.len());
        let is_alone = |job: &Job| matches!(job.case.setting, Setting::Alone | Setting::OwnAlone);
        let (alone, beside): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_alone);
        let mut outcomes = Vec::new();
        for (jobs, at_once) in [(beside, AT_ONCE), (alone, 1)] {
            outcomes.extend(run_all(&progress, at_once, jobs, |job| {
                let number = job.number;
                let outcome = self.run_job(job);
                Ran { how: outcome.to_string(), warning: None, outcome: (number, outcome) }
            }));
        }
        outcomes.sort_by_key(|(number, _)| *number);
        Ok(Report {
            gateway: self.gateway.name(),
            seed: self.seed.0,
            seconds: start.elapsed().as_secs_f64(),
            outcomes: outcomes.into_iter().map(|(_, outcome)| outcome).collect(),
        })
    }

    fn jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        for case in &self.cases {
            for &family in case.families {
                for &fault in &self.faults {
                    let same_site = |job: &&Job| {
                        job.fault == fault && shared(&job.case).is_some() && shared(&job.case) == shared(case)
                    };
                    let site =
                        jobs.iter().find(same_site).map(|job| Arc::clone(&job.site)).unwrap_or_default();
                    jobs.push(Job { number: jobs.len(), case: *case, family, fault, site });
                }
            }
        }
        jobs
    }

    fn run_job(&self, job: Job) -> Outcome {
        let Job { case, family, fault, site, .. } = job;
        let start = Instant::now();
        let limit = if fault == Fault::Lossy { case.limit * 3 } else { case.limit };
        let seed = self.seed.derive(case.name).derive(if family == Family::V4 { "IPv4" } else { "IPv6" });
        let (result, notes) = match self.site_for(&case, fault, &site, seed) {
            Ok(site) => run_within(case, Context::new(site, fault, family, seed, limit), limit + GRACE),
            Err(failure) => (Err(failure.within("building the site")), Vec::new()),
        };
        Outcome {
            case: case.name,
            about: case.about,
            reference: case.reference,
            family: family.to_string(),
            fault: fault.to_string(),
            verdict: match result {
                Ok(()) => CaseVerdict::Passed,
                Err(failure) => CaseVerdict::Failed { reason: failure.to_string() },
            },
            notes,
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    /// The site for a job: the shared one, with a gateway that runs, or one of its own.
    fn site_for(
        &self,
        case: &Case,
        fault: Fault,
        shared_site: &SharedSite,
        seed: Seed,
    ) -> Result<Arc<Site>, Failure> {
        let Some(name) = shared(case) else {
            return Site::build(&self.gateway, fault, &PLAIN, seed).map(Arc::new);
        };
        let mut slot = shared_site.lock().expect("no holder panics");
        let site = match &*slot {
            Some(site) => Arc::clone(site),
            None => {
                let built = Site::build(&self.gateway, fault, tuning(case), self.seed.derive(name));
                Arc::clone(slot.insert(Arc::new(built?)))
            }
        };
        if let Err(failure) = site.start_gateway() {
            // What it has left behind would hide the reason from the next case.
            *slot = None;
            return Err(failure);
        }
        Ok(site)
    }
}

fn tuning(case: &Case) -> &'static Tuning {
    match case.setting {
        Setting::Shared(tuning) => tuning,
        Setting::Alone | Setting::Own | Setting::OwnAlone => &PLAIN,
    }
}

/// The name of the shared site in which `case` runs.
fn shared(case: &Case) -> Option<&'static str> {
    match case.setting {
        Setting::Shared(tuning) => Some(tuning.name),
        Setting::Alone => Some(PLAIN.name),
        Setting::Own | Setting::OwnAlone => None,
    }
}

/// Runs a case in a thread that is left behind if it does not come back in time.
fn run_within(case: Case, context: Context, limit: Duration) -> (Result<(), Failure>, Vec<String>) {
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let result = (case.run)(&context);
        // In a site of its own the case itself ends the gateway.
        let alive = match case.setting {
            Setting::Shared(_) | Setting::Alone => context.site.check_gateway(),
            Setting::Own | Setting::OwnAlone => Ok(()),
        };
        let result = match (result, alive) {
            (Err(failure), Err(death)) => Err(Failure::new(format!("{failure}; {death}"))),
            (result, alive) => result.and(alive),
        };
        let notes = context.notes();
        // The site, if this was its last user, goes before the next case starts.
        drop(context);
        let _ = tell.send((result, notes));
    });
    match hear.recv_timeout(limit) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => (Err(Failure::new("the case did not come to an end")), Vec::new()),
        Err(RecvTimeoutError::Disconnected) => (Err(Failure::new("the case panicked")), Vec::new()),
    }
}
