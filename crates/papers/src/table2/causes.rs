//! Why what came out differs from what the paper claims: for each difference an experiment that takes away what is suspected, and a
//! judgement that can fail. A cause counts only where its experiment shows it. To run the same again takes nothing away.
use super::aspects::{self, FAIR, RESUMED, SPURIOUS, START};
use super::links::{self, GPRS, LINKS, Link};
use super::measures::{Board, Fared};
use super::rows::{ASPECTS, ROWS, Row, UNTOLD, fda, freeze_tcp, intercepted, row, split};
use super::verdict::{self, HARMLESS, NEAR_BEST};
use super::world::{Ends, Place, Work};
use crate::error::Result;
use shorthaul_observe::{Finding, Verdict};
use shorthaul_report::{Column, Table, Unit};

/// An experiment about one finding.
pub(super) struct Experiment {
    /// The finding.
    about: String,
    /// A part of the finding's reason, where it is a cause of that alone.
    where_it_is: &'static str,
    /// What is run, for which systems.
    places: Vec<Place>,
    rows: Vec<&'static Row>,
    /// What it shows.
    judge: Judge,
}

/// Judges by what the board of the finding has, and by what the experiment came to.
type Judge = fn(&Experiment, board: &Board, tried: &Board) -> Option<Shown>;

/// What an experiment came to.
struct Shown {
    /// Whether it shows the cause.
    holds: bool,
    /// The cause, with its numbers.
    cause: String,
}

/// The paper's link, losing packets, with delays that do not vary and acknowledgments that do not come in bunches.
static LOSSY: Link = Link {
    name: "gprs-lossy",
    link: "{ preset = \"gprs\", jitter = \"none\", loss = \"1 %\", up = { aggregation = \"none\" } }",
    download: 1_000_000,
    ..LINKS[0]
};

/// A link with short round trips, and a download that lasts as long as the stalls.
static QUICK: Link = Link {
    name: "quick",
    link: "{ rate = \"2 Mbit/s\", delay = \"20 ms\", queue = \"100 packets\" }",
    download: 25_000_000,
    ..LINKS[1]
};

/// A link with a product of many segments.
static LONG: Link = Link {
    name: "long",
    link: "{ rate = \"2 Mbit/s\", delay = \"150 ms\", queue = \"100 packets\" }",
    round_trip: 0.3,
    ..LINKS[1]
};

/// The paper's link with delays that do not vary, and acknowledgments that do not come in bunches.
static STEADY: Link = Link {
    name: "gprs-steady",
    link: "{ preset = \"gprs\", jitter = \"none\", up = { aggregation = \"none\" } }",
    ..LINKS[0]
};

/// The paper's link, which leaves toward users alone, for 13 to 17 s: acknowledgments under way are not lost. Several lengths, since it is luck how far a
/// timer has come when the link is back.
static LEAVES: [Link; 5] = [
    Link { name: "gprs-down-13", fades: &[(30.0, 13.0)], only_down: true, ..LINKS[0] },
    Link { name: "gprs-down-14", fades: &[(30.0, 14.0)], only_down: true, ..LINKS[0] },
    Link { name: "gprs-down-15", fades: &[(30.0, 15.0)], only_down: true, ..LINKS[0] },
    Link { name: "gprs-down-16", fades: &[(30.0, 16.0)], only_down: true, ..LINKS[0] },
    Link { name: "gprs-down-17", fades: &[(30.0, 17.0)], only_down: true, ..LINKS[0] },
];

/// Bursts of losses as on the board, as often and as long at the link's rate: but they pass with time, not with packets.
static TIMED: Link = Link {
    name: "timed-loss",
    link: "{ rate = \"2 Mbit/s\", delay = \"20 ms\", queue = \"100 packets\", outages = { every = \"3 s\", lasts = \"exponential 30 ms\" } }",
    ..LINKS[2]
};

/// The link of the board that a trace gives its rate, with nothing beside pages.
static ALONE: Link = Link { name: "lte-alone", bulk: [1, 8], ..LINKS[3] };

/// M-TCP that acknowledges what has come, as I-TCP does.
static EARLY: Row = Row {
    name: "m-tcp-early",
    title: "M-TCP, acknowledging what has come",
    gateway: |link| {
        let how = format!("window = [{{ kind = \"freeze\", after = \"{}\" }}]", link.silence);
        split(&how)
    },
    ..UNTOLD
};

/// Freeze-TCP that learns of a fade before what is in a full queue has to be sent.
static WARNED: Row = Row {
    name: "freeze-tcp-warned",
    title: "Freeze-TCP, warned 12 s before",
    mobile: Some(|link, work| freeze_tcp(work.fades(link), 12.0)),
    ..UNTOLD
};

/// M-TCP and W-TCP that do not ask first, after an RTO, whether it was spurious.
static M_TCP_UNASKED: Row = Row {
    name: "m-tcp-without-f-rto",
    title: "M-TCP without F-RTO",
    gateway: |link| row("m-tcp").map_or(Vec::new(), |row| without_f_rto((row.gateway)(link))),
    ..UNTOLD
};
static W_TCP_UNASKED: Row = Row {
    name: "w-tcp-without-f-rto",
    title: "W-TCP without F-RTO",
    gateway: |link| row("w-tcp").map_or(Vec::new(), |row| without_f_rto((row.gateway)(link))),
    ..UNTOLD
};

fn without_f_rto(mut gateway: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    gateway.push(("to_access", "{ f_rto = false }".into()));
    gateway
}

/// FDA before senders that do not take their answers back, and without Snoop's copies in the queue.
static FDA_HEEDED: Row = Row {
    name: "fda-heeded",
    title: "FDA without Snoop, to a sender that takes no answer back",
    sender: &[("undo", "false")],
    gateway: |link| vec![("policy", intercepted(&fda(2 * link.path_product())))],
    ..UNTOLD
};

/// Aggregation in which a young connection has no precedence.
static LEVEL: Row = Row {
    name: "auto-level",
    title: "flow aggregation without precedence for what is short",
    gateway: |_| split("aggregate = { interactive = \"0 B\" }"),
    ..UNTOLD
};

/// Aggregation that is told its window, as the systems are that keep queues short.
static TOLD: Row = Row {
    name: "auto-told",
    title: "flow aggregation, told the link's window",
    gateway: |link| split(&format!("aggregate = {{ clamp = \"{} B\" }}", link.window())),
    ..UNTOLD
};

/// Aggregation with a server that begins with as many segments as a WTCP sender does.
static FIVE_FIRST: Row = Row {
    name: "auto-five-first",
    title: "flow aggregation, senders begin with five segments",
    sender: &[("initial_window", "5")],
    gateway: |_| vec![("mode", "\"auto\"".into())],
    ..UNTOLD
};

/// All experiments.
fn experiments() -> Vec<Experiment> {
    let gprs = |work, ends| vec![Place { link: links::link(GPRS), work, ends }];
    let then = Ends::Then;
    let mut all = Vec::new();
    let mut add = |system: &str, aspect: usize, places, rows: &[&str], judge: Judge| {
        let of = |name: &&str| {
            [&EARLY, &WARNED, &M_TCP_UNASKED, &W_TCP_UNASKED, &FDA_HEEDED, &LEVEL]
                .into_iter()
                .find(|row| row.name == *name)
                .or(row(name))
        };
        let title = row(system).map_or(system, |row| row.title);
        let about = aspects::title(title, ASPECTS[aspect]);
        all.push(Experiment {
            about,
            where_it_is: "",
            places,
            rows: rows.iter().filter_map(of).collect(),
            judge,
        });
    };
    for (system, unasked) in [("m-tcp", M_TCP_UNASKED.name), ("w-tcp", W_TCP_UNASKED.name)] {
        add(system, 5, gprs(Work::Disconnection, then), &[unasked], waits_and_asks);
    }
    let leaves = || LEAVES.iter().map(|link| Place { link, work: Work::Download, ends: then }).collect();
    add("i-tcp", 5, leaves(), &["i-tcp"], waits_though_nothing_is_lost_upward);
    for system in ["aggregation", "auto"] {
        add(system, 5, leaves(), &[system], loses_acknowledgments);
    }
    add("freeze-tcp", 5, gprs(Work::Disconnection, then), &["freeze-tcp-warned"], warned_in_time);
    add("fda", 1, gprs(Work::Download, then), &["fda-heeded"], heeds_the_signal);
    let long = vec![Place { link: &LONG, work: Work::Start, ends: then }];
    add("wtcp", 2, long, &["whole", "wtcp"], measures_first);
    add("wtcp", 3, gprs(Work::Joining, then), &["whole", "wtcp"], shares_by_its_rates);
    for system in ["freeze-tcp", "snoop", "fda"] {
        // Who is not told of stalls stands there as nothing does.
        let as_run = if system == "freeze-tcp" { "whole" } else { system };
        let places = [Work::Download, Work::Stalls].map(|work| Place { link: &QUICK, work, ends: then });
        add(system, 4, places.into(), &[as_run], timers_outlast_stalls);
    }
    add("m-tcp", 6, gprs(Work::Download, then), &["m-tcp-early"], acknowledges_what_arrived);
    for system in ["westwood", "westwood-plus"] {
        let places = vec![Place { link: &LOSSY, work: Work::Download, ends: then }];
        add(system, 1, places, &["whole", system], acts_on_losses);
    }
    add("auto", 1, vec![Place { link: &STEADY, work: Work::Download, ends: then }], &["auto"], needs_reserve);
    add("auto", 3, gprs(Work::Joining, then), &["auto-level"], prefers_what_is_young);
    let auto = row("auto").map_or("", |row| row.title);
    for ends in Ends::ALL {
        let places = [Work::Download, Work::Upload].map(|work| Place { link: &TIMED, work, ends });
        all.push(Experiment {
            about: verdict::worst(auto, ends),
            where_it_is: "bursty-loss",
            places: places.into(),
            rows: ["whole", "auto"].into_iter().filter_map(row).collect(),
            judge: bursts_stand_still,
        });
        for (link, work) in [(GPRS, Work::Pages), ("geo", Work::Users), ("geo", Work::Download)] {
            let place = |work| Place { link: links::link(link), work, ends };
            // What the window that is told costs a download, where it is not the download that is behind.
            let besides = (work != Work::Download).then(|| place(Work::Download));
            all.push(Experiment {
                about: verdict::behind_best(auto, ends, &format!("{link} {}", work.name())),
                where_it_is: "",
                places: [place(work)].into_iter().chain(besides).collect(),
                rows: vec![&TOLD],
                judge: is_told_no_window,
            });
        }
        let pages = Place { link: links::link("5g-blockage"), work: Work::Pages, ends };
        all.push(Experiment {
            about: verdict::behind_best(auto, ends, "5g-blockage pages"),
            where_it_is: "",
            places: vec![pages],
            rows: vec![&FIVE_FIRST],
            judge: begins_with_fewer,
        });
        all.push(Experiment {
            about: verdict::behind_best(auto, ends, "lte pages"),
            where_it_is: "WTCP",
            places: vec![Place { link: &ALONE, work: Work::Pages, ends }],
            rows: ["wtcp", "auto"].into_iter().filter_map(row).collect(),
            judge: leaves_it_to_pages,
        });
    }
    all
}

impl Experiment {
    /// How the experiment's only system fared at its only place, or at this one of several.
    fn fared(&self, tried: &Board, place: usize, name: &str) -> Fared {
        let Place { link, work, ends } = self.places[place];
        tried.fared(link.name, work, ends, name)
    }

    fn system(&self) -> &'static str {
        self.rows.last().map_or("", |row| row.name)
    }

    /// What the scenario of a place is called, of those that look for causes.
    fn name(&self, place: &Place) -> String {
        format!("{}-{}", place.name(), self.system())
    }

    /// The scenarios that are run.
    fn names(&self) -> String {
        match self.places.as_slice() {
            [first, .., last] => format!("{} to {}", self.name(first), self.name(last)),
            few => few.iter().map(|place| self.name(place)).collect(),
        }
    }
}

/// Without what asks first, whoever waits for a retransmission timer sends nothing until that expires, though the link is back.
fn waits_for_its_timer(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let Fared { resumed, silent, .. } = own.fared(tried, 0, own.system());
    let (resumed, silent) = (resumed?, silent?);
    let crossing = resumed - silent;
    Some(Shown {
        holds: crossing <= RESUMED * links::link(GPRS).path_round_trip(),
        cause: format!(
            "its retransmission timer: for {} of them nothing is sent, and what is sent then arrives after {}",
            Unit::Seconds.format(silent),
            Unit::Seconds.format(crossing),
        ),
    })
}

/// The same, and the first round trip goes to find out whether the RTO was spurious.
fn waits_and_asks(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let shown = waits_for_its_timer(own, board, tried)?;
    let cause = format!("F-RTO, which looks with new data first, and {} (without F-RTO)", shown.cause);
    Some(Shown { cause, ..shown })
}

/// The mean over an experiment's places.
fn mean_of(own: &Experiment, tried: &Board, value: fn(&Fared) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> =
        (0..own.places.len()).map(|place| value(&own.fared(tried, place, own.system()))).collect();
    let all = all.filter(|all| !all.is_empty())?;
    Some(all.iter().sum::<f64>() / all.len() as f64)
}

/// What is sent first was there before, if its acknowledgment was lost: the sender learns no more by it, and new data follows a round trip later.
fn loses_acknowledgments(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let resumed = mean_of(own, tried, |fared| fared.resumed)?;
    let ours = board.fared(GPRS, Work::Disconnection, Ends::Then, own.system()).resumed?;
    Some(Shown {
        holds: resumed <= RESUMED * links::link(GPRS).path_round_trip() && resumed < ours,
        cause: format!(
            "acknowledgments that were under way are lost, too: what is sent first has been there before, brings the acknowledgment back, and new data follows a round trip later. Where the way up stays, it resumes in {}, the mean of disconnections of 13 to 17 s",
            Unit::Seconds.format(resumed),
        ),
    })
}

/// Where no acknowledgment is lost, what is sent first is new, and what is left is the timer that sends it.
fn waits_though_nothing_is_lost_upward(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let (resumed, silent) =
        (mean_of(own, tried, |fared| fared.resumed)?, mean_of(own, tried, |fared| fared.silent)?);
    let (threshold, crossing) = (RESUMED * links::link(GPRS).path_round_trip(), resumed - silent);
    Some(Shown {
        holds: crossing <= threshold && resumed > threshold,
        cause: format!(
            "its retransmission timer: even where the way up stays, so that what is sent first is new, nothing is sent for {} after the link is back, the mean of disconnections of 13 to 17 s; what is sent then arrives after {}",
            Unit::Seconds.format(silent),
            Unit::Seconds.format(crossing),
        ),
    })
}

/// What is in the queue when the link goes is lost, unless the warning comes before that was sent.
fn warned_in_time(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let resumed = own.fared(tried, 0, own.system()).resumed?;
    Some(Shown {
        holds: resumed <= RESUMED * links::link(GPRS).path_round_trip(),
        cause: format!(
            "a warning of one unloaded round trip comes after what stands in the queue was sent, and that is lost: warned 12 s before it resumes in {}",
            Unit::Seconds.format(resumed),
        ),
    })
}

/// Who sees that nothing was lost goes on as before.
fn heeds_the_signal(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let queue = own.fared(tried, 0, own.system()).queue?;
    Some(Shown {
        holds: queue <= links::link(GPRS).path_round_trip(),
        cause: format!(
            "senders of today see that nothing was lost, and take back what they answered the duplicates by; and Snoop, on which it stands, sends again what only waits, as its timers know no round trips of seconds: without both its queue is {}",
            Unit::Seconds.format(queue),
        ),
    })
}

/// A packet pair costs a round trip, which a slow start does as well where it has little to find.
fn measures_first(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let share = tried.share(LONG.name, Work::Start, Ends::Then, own.system())?;
    let ours = board.share(GPRS, Work::Start, Ends::Then, own.system())?;
    Some(Shown {
        holds: share <= START && share < ours,
        cause: format!(
            "a packet pair tells of the rate a round trip later, and five segments fill the paper's link, which a slow start of two has under way by then: over 2 Mbit/s and 300 ms 18 kB take {share:.2} of the time"
        ),
    })
}

/// The paper has no tick, the system's authors claim it.
fn shares_by_its_rates(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let index = |name| own.fared(tried, 0, name).fairness;
    let (whole, ours) = (index("whole")?, index(own.system())?);
    Some(Shown {
        holds: ours >= FAIR && whole < FAIR,
        cause: format!(
            "its own authors claim fairness: flows through one queue see the same ratio. With the same ends and windows instead of rates the index is {whole:.3}"
        ),
    })
}

/// Round trips of seconds make timers that no stall of the table outlasts.
fn timers_outlast_stalls(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let [alone, stalls] = [0, 1].map(|place| own.fared(tried, place, own.system()));
    let [share, timeouts] = aspects::stalled(&stalls, &alone)?;
    let who = if own.system() == "whole" { "who is not told of them" } else { "it" };
    Some(Shown {
        holds: !aspects::handles_stalls([share, timeouts]),
        cause: format!(
            "round trips of seconds make an RTO that is longer than each of the stalls: over 2 Mbit/s and 40 ms the same stalls cost {who} {share:.2} of their length and {timeouts:.1} RTOs (at most {SPURIOUS:.0} is asked)"
        ),
    })
}

/// The column is that of I-TCP, too.
fn acknowledges_what_arrived(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let ours = board.fared(GPRS, Work::Download, Ends::Then, "m-tcp").at_risk?;
    let early = own.fared(tried, 0, own.system()).at_risk?;
    Some(Shown {
        holds: ours < 1.0 && early >= 1.0,
        cause: format!(
            "the paper has M-TCP in one column with I-TCP; M-TCP acknowledges what was delivered. If it acknowledged what has come, {} were at risk",
            Unit::Bytes.format(early),
        ),
    })
}

/// Westwood sets its window by what was delivered when there is a loss, and not before.
fn acts_on_losses(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let clean = |name| board.fared(GPRS, Work::Download, Ends::Then, name).queue;
    let [whole, ours] = [clean("whole")?, clean(own.system())?];
    let lossy = |name| own.fared(tried, 0, name).queue;
    let [reno, westwood] = [lossy("whole")?, lossy(own.system())?];
    Some(Shown {
        holds: (ours / whole - 1.0).abs() <= 0.01 && westwood <= 0.9 * reno,
        cause: format!(
            "it sets its window where there is a loss, and nothing is lost over the paper's link: there its queue is that of Reno, {}. With 1 % of loss, delays that do not vary, and acknowledgments that do not come in bunches, it is {}, that of Reno {}",
            Unit::Seconds.format(whole),
            Unit::Seconds.format(westwood),
            Unit::Seconds.format(reno),
        ),
    })
}

/// A window that keeps a link busy whose delays vary needs something in the queue.
fn needs_reserve(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let queue = own.fared(tried, 0, own.system()).queue?;
    Some(Shown {
        holds: queue <= links::link(GPRS).path_round_trip(),
        cause: format!(
            "what the link's delays vary has to wait in the queue, or the link idles: without jitter and with acknowledgments that do not come in bunches its queue is {}",
            Unit::Seconds.format(queue),
        ),
    })
}

/// The first bytes of a connection go before what is long; the paper's proxy shares by weights alone.
fn prefers_what_is_young(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let level = own.fared(tried, 0, own.system()).fairness?;
    Some(Shown {
        holds: level >= FAIR,
        cause: format!(
            "the first 64 kB of what a connection carries go before what is long, and are most of the 100 kB of the one that joins: without that precedence the index is {level:.3}"
        ),
    })
}

/// A chain that moves with packets holds its burst until somebody sends, and a window without a queue has few packets to lose.
fn bursts_stand_still(own: &Experiment, _: &Board, tried: &Board) -> Option<Shown> {
    let shares: Option<Vec<f64>> = own
        .places
        .iter()
        .map(|place| tried.share(place.link.name, place.work, place.ends, own.system()))
        .collect();
    let worst = shares?.into_iter().reduce(f64::max)?;
    Some(Shown {
        holds: worst <= HARMLESS,
        cause: format!(
            "the link's bursts pass with packets, and last as long as a sender is silent: a window that fits the link is lost in one of them, and each time-out is for a packet of the same burst. Where bursts of the same length pass with time it takes {worst:.2} of the time at most"
        ),
    })
}

/// Who is told the link's product need not look for a window, and has a shorter queue; and pays for it where nothing else is on its way.
fn is_told_no_window(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let Place { link, work, ends } = own.places[0];
    let of_all = |work, name: &str| board.fared(link.name, work, ends, name).time;
    let best = ROWS.iter().filter_map(|row| of_all(work, row.name)).reduce(f64::min)?;
    let told = own.fared(tried, 0, own.system()).time? / best;
    // The experiment's last place is a download.
    let download =
        own.fared(tried, own.places.len() - 1, own.system()).time? / of_all(Work::Download, "auto")?;
    let looks_for = match link.name {
        GPRS => {
            ". It looks for a window that also keeps the link busy while acknowledgments come four at a time: with"
        }
        _ => "; with",
    };
    Some(Shown {
        holds: told <= NEAR_BEST,
        cause: format!(
            "the best systems are told the link's product, and it is not: told the same window, {}, it takes {told:.2} of the best one's time{looks_for} the one that is told a download takes {download:.2} of its time",
            Unit::Bytes.format(link.window() as f64),
        ),
    })
}

/// Where a page ends in slow start, it matters with how many segments that begins.
fn begins_with_fewer(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let Place { link, work, ends } = own.places[0];
    let best =
        ROWS.iter().filter_map(|row| board.fared(link.name, work, ends, row.name).time).reduce(f64::min)?;
    let five = own.fared(tried, 0, own.system()).time? / best;
    Some(Shown {
        holds: five <= NEAR_BEST,
        cause: format!(
            "a WTCP sender begins with five segments, and one of then with two, and a page is over before slow start is: from a server that begins with five, too, it takes {five:.2} of the best one's time",
        ),
    })
}

/// Bulk that leaves much of a link idle leaves it to pages.
fn leaves_it_to_pages(own: &Experiment, board: &Board, tried: &Board) -> Option<Shown> {
    let Place { ends, .. } = own.places[0];
    let bulk = board.share(LINKS[3].name, Work::Download, ends, "wtcp")?;
    let alone = own.fared(tried, 0, "auto").time? / own.fared(tried, 0, "wtcp").time?;
    Some(Shown {
        holds: bulk >= NEAR_BEST && alone <= NEAR_BEST,
        cause: format!(
            "WTCP's bulk does not use the link, where a download takes {bulk:.2} of the time with nothing, and pages have what it leaves: with nothing beside them it takes {alone:.2} of WTCP's time",
        ),
    })
}

/// Gives each finding that differs its cause, where an experiment shows it. `run` runs a scenario, called so, of a place with these
/// systems. The table says of every
/// experiment what it came to; none if there was none.
pub(super) fn explain(
    findings: Vec<Finding>,
    board: &Board,
    mut run: impl FnMut(&str, &Place, &[&Row]) -> Result<Board>,
) -> Result<(Vec<Finding>, Option<Table>)> {
    let all = experiments();
    let mut table = Table::new(["what differs", "experiment", "the cause", "shown"].map(Column::left));
    let mut lines = 0;
    let mut explained = Vec::new();
    for finding in findings {
        let about = |own: &&Experiment| own.about == finding.what && finding.reason.contains(own.where_it_is);
        let Some(own) = all.iter().find(about).filter(|_| finding.verdict == Verdict::Differs) else {
            explained.push(finding);
            continue;
        };
        let mut tried = Board::default();
        for place in &own.places {
            tried.0.extend(run(&own.name(place), place, &own.rows)?.0);
        }
        let Some(Shown { holds, cause }) = (own.judge)(own, board, &tried) else {
            explained.push(finding);
            continue;
        };
        table.row([own.about.as_str(), &own.names(), &cause, if holds { "yes" } else { "no" }]);
        lines += 1;
        explained.push(finding.explained(format!("{cause} (`{}`)", own.names()), holds));
    }
    Ok((explained, (lines > 0).then_some(table)))
}

#[cfg(test)]
mod tests;
