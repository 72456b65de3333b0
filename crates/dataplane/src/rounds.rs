//! The rounds of the first worker, which has the signals and is told what all of them are told.
use crate::bandwidth::BandwidthFile;
use crate::crew::{Crew, DRAINING, Draining, IDLE};
use crate::daemon::ReadAgain;
use crate::daemon_error::{DaemonError, system};
use crate::desk::{Controlled, Desk, Told};
use crate::notice::Notice;
use crate::preflight::on_this_host;
use crate::reread::Reread;
use crate::vanished::Vanished;
use crate::{Config, EventLoop, Session, take_over};
use shorthaul_os::monotonic;
use shorthaul_os::signals::{Asked, Signals};
use shorthaul_types::Time;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// What the first worker sees to.
pub(crate) struct Whole<'a> {
    pub session: &'a Session,
    pub signals: &'a Signals,
    pub desk: &'a mut Desk,
    /// The other workers.
    pub crew: &'a Crew,
    /// Interfaces that are not there any more.
    pub vanished: Option<Arc<Vanished>>,
}

/// Why there are no more rounds.
pub(crate) enum Ended {
    /// It was asked to end.
    Over,
    /// Another process wants to take over, and may know claims.
    AskedFor(UnixStream, bool),
}

/// Does rounds until it was asked to end and nothing is held any more, or until it was asked twice; or until another wants to take
/// over.
pub(crate) fn work<M: Controlled>(
    Whole { session, signals, desk, crew, vanished }: Whole<'_>,
    event_loop: &mut EventLoop<M>,
    read_again: &mut ReadAgain<'_>,
    notify: &mut impl FnMut(Notice),
) -> Result<Ended, DaemonError> {
    /// How often a file of bandwidths is looked at.
    const LOOK: Duration = Duration::from_millis(500);
    let mut config = session.config.clone();
    let mut bandwidth_file = config.bandwidth_file.clone().map(BandwidthFile::new);
    let mut look_at = Time::ZERO;
    let (mut end, mut draining) = (None, Draining::default());
    let mut is_short = false;
    loop {
        let longest = if end.is_some() { DRAINING } else { IDLE };
        let others = [signals.as_fd(), desk.as_fd()];
        let [signalled, asked] =
            event_loop.round(others, longest).map_err(system("reading from our own devices"))?;
        if let Some(error) = event_loop.take_recording_error() {
            notify(Notice::RecordingEnded { error });
        }
        for notice in crew.reports()? {
            let is_known = matches!(notice, Notice::NotKept) && std::mem::replace(&mut is_short, true);
            if !is_known {
                notify(notice);
            }
        }
        if let Some(vanished) = &vanished {
            vanished.news().into_iter().for_each(&mut *notify);
            // One that ends already goes on with what it can still deliver.
            if let Some(error) = vanished.end().filter(|_| end.is_none()) {
                return Err(error);
            }
        }
        if !is_short && event_loop.stats().is_short_of_room() {
            is_short = true;
            notify(Notice::NotKept);
        }
        let told = if asked { desk.answer(event_loop.machine(), event_loop.stats()) } else { None };
        let told = match told {
            Some(Told::TakeOver(stream, _)) if end.is_some() => {
                take_over::refuse(&stream, "it is ending: wait for that, and leave out --take-over");
                None
            }
            Some(Told::TakeOver(stream, _)) if !event_loop.has_journal() => {
                let why = "it keeps nothing that another could go on with (`custody = false`, or --forward-only): end it first";
                take_over::refuse(&stream, why);
                None
            }
            Some(Told::TakeOver(stream, claims)) => return Ok(Ended::AskedFor(stream, claims)),
            Some(Told::Bandwidth(report)) => Some(report),
            None => None,
        };
        let written = match &mut bandwidth_file {
            Some(file) if monotonic() >= look_at => {
                look_at = monotonic() + LOOK;
                let written = file.poll();
                if let Some((path, error)) = file.trouble() {
                    notify(Notice::NoBandwidthFile { path, error });
                }
                written
            }
            _ => Vec::new(),
        };
        for said in written.into_iter().chain(told.map(Ok)) {
            let is_heeded = said.as_ref().is_ok_and(|report| {
                crew.set_bandwidth(report);
                event_loop.set_bandwidth(report)
            });
            notify(Notice::Bandwidth { said, is_heeded });
        }
        while signalled && let Some(asked) = signals.arrived() {
            match asked {
                Asked::Reread => {
                    let former = config.bandwidth_file.clone();
                    notify(reread(&mut config, session.hash_seed, (event_loop, crew), read_again));
                    if config.bandwidth_file != former {
                        bandwidth_file = config.bandwidth_file.clone().map(BandwidthFile::new);
                    }
                }
                Asked::End if end.is_some() => return Ok(Ended::Over),
                Asked::End => {
                    let of_others = crew.drain()?;
                    let held_flows = event_loop.machine().held_flows() + of_others;
                    notify(Notice::Draining { held_flows, at_most: config.drain_timeout });
                    event_loop.drain();
                    end = Some(monotonic() + config.drain_timeout);
                }
            }
        }
        if let Some(end) = end {
            if !crew.holds_flows() && !draining.holds_flows(event_loop.machine()) {
                return Ok(Ended::Over);
            }
            if monotonic() >= end {
                let of_others = crew.abandon()?;
                notify(Notice::Abandoned { held_flows: event_loop.abandon() + of_others });
            }
        }
    }
}

/// Reads the configuration again and goes on with what can change of it.
fn reread<M: Controlled>(
    config: &mut Config,
    hash_seed: u64,
    (event_loop, crew): (&mut EventLoop<M>, &Crew),
    read_again: &mut ReadAgain<'_>,
) -> Notice {
    let taken = match read_again() {
        None => return Notice::NotReread { why: "it was started without a configuration file".into() },
        Some(read) => read.map_err(DaemonError::from).and_then(|read| {
            let Reread { config, changed, fixed } = Reread::of(config, on_this_host(&read)?)?;
            event_loop.reconfigure(&config, hash_seed)?;
            crew.reconfigure(&config, hash_seed);
            Ok((config, changed, fixed))
        }),
    };
    match taken {
        Err(error) => Notice::NotReread { why: error.to_string() },
        Ok((taken, changed, fixed)) => {
            *config = taken;
            Notice::Reread { changed, fixed }
        }
    }
}
