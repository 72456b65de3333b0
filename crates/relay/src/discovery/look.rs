//! A look at the way to a destination, for all who wait for it.
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::prober::{Findings, Found, Prober};
use super::survey::Survey;

/// A look that goes on, on some thread. However many wait for it, it is one.
#[derive(Debug, Default)]
pub(super) struct Look {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// How far the destination is, and since when that is known.
    distance: Option<(Duration, Instant)>,
    /// What was found by now, once that is known.
    so_far: Option<Findings>,
    /// Relays that have answered, each once.
    found: Vec<Found>,
    over: Option<Result<Survey, (io::ErrorKind, String)>>,
}

/// What somebody has who waited for a look.
#[derive(Debug)]
pub(super) enum Waited {
    /// All that it found.
    Whole(io::Result<Survey>),
    /// What it had found when patience was over.
    Part(Survey),
    /// Not even how far the destination is.
    Nothing,
}

impl Look {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        // What it holds is whole whenever the lock is free.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something came.
    pub fn tell(&self, prober: &Prober) {
        let mut progress = self.progress();
        if let Some(rtt) = prober.distance() {
            progress.distance.get_or_insert((rtt, Instant::now()));
            progress.so_far = Some(prober.findings_so_far());
        }
        for found in prober.so_far() {
            let session = found.offer.session;
            if !progress.found.iter().any(|told| told.offer.session == session) {
                progress.found.push(*found);
            }
        }
        drop(progress);
        self.changed.notify_all();
    }

    /// It is over; only the first word counts.
    pub fn end(&self, found: io::Result<Survey>) {
        let found = found.map_err(|error| (error.kind(), error.to_string()));
        self.progress().over.get_or_insert(found);
        self.changed.notify_all();
    }

    /// Waits for the end, for no longer than the `patience` that somebody has with a destination so far away, of which that has been known since so long after
    /// the wait began; or with one of which it is not known yet. Relays that answer meanwhile are told to `early`.
    pub fn wait(
        &self,
        patience: impl Fn(Option<(Duration, Duration)>) -> Duration,
        early: &mut dyn FnMut(&Found),
    ) -> Waited {
        let (began, mut told) = (Instant::now(), 0);
        let mut progress = self.progress();
        loop {
            let news = progress.found[told..].to_vec();
            if !news.is_empty() {
                // Whoever is told may take its time.
                drop(progress);
                news.iter().for_each(&mut *early);
                told += news.len();
                progress = self.progress();
                continue;
            }
            if let Some(over) = progress.over.clone() {
                return Waited::Whole(over.map_err(|(kind, error)| io::Error::new(kind, error)));
            }
            let distance = progress.distance.map(|(rtt, at)| (rtt, at.saturating_duration_since(began)));
            let left = patience(distance).saturating_sub(began.elapsed());
            if left.is_zero() {
                return progress.so_far.as_ref().map_or(Waited::Nothing, |findings| {
                    let mut survey = Survey::default();
                    survey.add(findings);
                    Waited::Part(survey)
                });
            }
            let woken = self.changed.wait_timeout(progress, left);
            progress = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::By;
    use std::sync::Arc;
    use std::thread;

    const LONG: Duration = Duration::from_secs(600);

    fn whole(waited: Waited) -> io::Result<Survey> {
        let Waited::Whole(found) = waited else { panic!("{waited:?}") };
        found
    }

    #[test]
    fn all_who_wait_have_what_one_finds_and_who_has_no_patience_has_nothing() {
        let look = Arc::new(Look::default());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let look = Arc::clone(&look);
                thread::spawn(move || whole(look.wait(|_| LONG, &mut |_| {})).unwrap())
            })
            .collect();
        assert!(matches!(look.wait(|_| Duration::ZERO, &mut |_| {}), Waited::Nothing));
        let found = Survey { rounds: 7, ..Survey::default() };
        look.end(Ok(found.clone()));
        look.end(Err(io::Error::other("too late")));
        for one in waiting {
            assert_eq!(one.join().unwrap(), found);
        }
        assert_eq!(
            whole(look.wait(|_| Duration::ZERO, &mut |_| {})).unwrap(),
            found,
            "no patience is needed"
        );
        let failed = Look::default();
        failed.end(Err(io::Error::new(io::ErrorKind::OutOfMemory, "no socket")));
        let error = whole(failed.wait(|_| LONG, &mut |_| {})).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::OutOfMemory, "no socket".into()));
    }

    #[test]
    fn patience_follows_from_the_distance_when_that_is_known_and_ends_with_what_was_found_by_then() {
        let look = Look::default();
        let rtt = Duration::from_millis(3);
        let findings = Findings {
            rtt: Some(rtt),
            by: Some(By::Handshake),
            relays: Vec::new(),
            silent: Vec::new(),
            cookie: None,
            tries: 1,
        };
        {
            let mut progress = look.progress();
            progress.distance = Some((rtt, Instant::now()));
            progress.so_far = Some(findings);
        }
        let patience = |distance: Option<(Duration, Duration)>| match distance {
            // It was known before anybody waited.
            Some((distance, since)) => distance + since * 1_000_000,
            None => LONG,
        };
        let Waited::Part(survey) = look.wait(patience, &mut |_| {}) else { panic!("it is not over") };
        assert_eq!((survey.rtts, survey.by), (vec![rtt], Some(By::Handshake)));
    }
}
