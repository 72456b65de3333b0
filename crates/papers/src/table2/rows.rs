//! The systems that are set against each other: a row for each. All that tells one from another is what it changes in a
//! scenario, so which ends it changes is read off, not stated.
use super::links::Link;
use super::world::Work;

/// What a column of the paper's table claims of one of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Yes,
    No,
    /// "Mitigates".
    Partly,
}

use Claim::{No, Partly, Yes};

/// The seven rows of the paper's table, in its order.
pub(super) const ASPECTS: [&str; 7] = [
    "changes ends",
    "avoids excess queueing",
    "fast start-up",
    "fairness among flows",
    "handles small stalls",
    "handles disconnections",
    "connection semantics",
];

/// A system.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// What it is called, as a case.
    pub name: &'static str,
    /// What it is called where people read.
    pub title: &'static str,
    /// The column of the paper's table that it belongs to, with its claims.
    pub claims: Option<[Claim; 7]>,
    /// What is different in whoever sends the data: keys, with their values.
    pub sender: &'static [(&'static str, &'static str)],
    /// What is different in whoever receives it.
    pub receiver: &'static [(&'static str, &'static str)],
    /// What stands directly before a mobile host, on its side of the link, and so counts as a part of it: an interceptor.
    pub mobile: Option<fn(&Link, Work) -> String>,
    /// What is different in the gateway: its keys, with their values.
    pub gateway: fn(&Link) -> Vec<(&'static str, String)>,
}

/// Nothing between the ends.
fn none(_: &Link) -> Vec<(&'static str, String)> {
    vec![("split", "false".into())]
}

/// Connections that stay whole, with this in their way.
pub(super) fn intercepted(by: &str) -> String {
    format!("[{{ mode = \"pass\", intercept = [{by}] }}]")
}

/// The gateway has one policy for all.
fn policy(text: String) -> Vec<(&'static str, String)> {
    vec![("policy", text)]
}

/// Connections that are split, with senders kept to the access link so.
pub(super) fn split(how: &str) -> Vec<(&'static str, String)> {
    policy(format!("[{{ mode = \"split\", {how} }}]"))
}

/// A system of which nothing is told: nothing between the ends.
pub(super) const UNTOLD: Row =
    Row { name: "", title: "", claims: None, sender: &[], receiver: &[], mobile: None, gateway: none };

/// When fades are, and how long they are known before, in seconds.
pub(super) fn freeze_tcp(fades: &[(f64, f64)], warning: f64) -> String {
    let fade = |(at, lasts): &(f64, f64)| format!("{{ at = \"{at} s\", lasts = \"{lasts} s\" }}");
    let fades: Vec<String> = fades.iter().map(fade).collect();
    let warning = (warning * 1e3) as u64;
    format!("{{ kind = \"freeze-tcp\", warning = \"{warning} ms\", fades = [{}] }}", fades.join(", "))
}

/// From how much on a sender is told, in bytes.
pub(super) fn fda(queue: u64) -> String {
    format!("{{ kind = \"fda\", queue = \"{queue} B\" }}")
}

/// The column "M-TCP, I-TCP".
const SPLIT: Option<[Claim; 7]> = Some([No, No, No, No, Yes, Yes, No]);

/// The column "TCP Westwood".
const WESTWOOD: Option<[Claim; 7]> = Some([Yes, Yes, No, No, Yes, No, Yes]);

/// The column "Proxy Flow Aggregation", the paper's own.
const AGGREGATION: Option<[Claim; 7]> = Some([No, Yes, Yes, Yes, Yes, Yes, Partly]);

/// The paper's proxy with a window of so many bytes: that alone is told, no window is found (AGG §IV-C). All connections have one ticket, as in its
/// Figure 10, and none is interactive. Senders are offered what Table I and equations 1 and 2 say, and 20 % beyond the window is queued. What it does not
/// have is off: a pacer, precedence for what is short, a window for uploads, and bounds on senders that no link of its own holds up.
pub(super) fn aggregation(clamp: u64) -> Vec<(&'static str, String)> {
    split(&format!(
        "aggregate = {{ clamp = \"{clamp} B\", interactive = \"0 B\", pacing = false, uplink = \"none\", hold_senders = false, \
         window_share = {{ surplus = 1.2, free_below = 0.0 }} }}"
    ))
}

/// What was delivered is acknowledged but for its last byte, and the window closes while the mobile host is silent.
fn m_tcp(link: &Link) -> Vec<(&'static str, String)> {
    split(&format!("ack = \"delivered\", window = [{{ kind = \"freeze\", after = \"{}\" }}]", link.silence))
}

/// Every system; the first is what the others are compared with.
pub(super) const ROWS: &[Row] = &[
    Row { name: "whole", title: "nothing", ..UNTOLD },
    Row {
        name: "i-tcp",
        title: "I-TCP",
        claims: SPLIT,
        gateway: |_| {
            let leg = "{ congestion = \"reno\", loss_detection = \"reno\", rto = \"coarse\", initial_window = 2, pacing = false, f_rto = false }";
            vec![("to_access", leg.into())]
        },
        ..UNTOLD
    },
    Row { name: "m-tcp", title: "M-TCP", claims: SPLIT, gateway: m_tcp, ..UNTOLD },
    // As its authors had it: before senders of 4.4BSD, whose timers stop while the window is closed. No column of the table.
    Row {
        name: "m-tcp-persist",
        title: "M-TCP, senders persist",
        sender: &[("persist_on_shrink", "true")],
        gateway: m_tcp,
        ..UNTOLD
    },
    Row {
        name: "snoop",
        title: "Snoop",
        claims: Some([No, No, No, No, No, No, Yes]),
        gateway: |_| policy(intercepted("\"snoop\"")),
        ..UNTOLD
    },
    Row {
        name: "fda",
        title: "FDA",
        claims: Some([No, Yes, No, No, No, No, Yes]),
        // Half of what is signalled at keeps the path busy.
        gateway: |link| policy(intercepted(&format!("\"snoop\", {}", fda(2 * link.path_product())))),
        ..UNTOLD
    },
    Row {
        name: "delayed-duplicates",
        title: "delayed duplicates",
        gateway: |link| {
            let delay = (link.round_trip * 1e3) as u64;
            policy(intercepted(&format!("{{ kind = \"delayed-duplicates\", delay = \"{delay} ms\" }}")))
        },
        ..UNTOLD
    },
    Row {
        name: "explicit-window",
        title: "explicit window",
        gateway: |link| {
            let window = link.path_window();
            policy(intercepted(&format!("{{ kind = \"explicit-window\", window = \"{window} B\" }}")))
        },
        ..UNTOLD
    },
    // As its authors have it: the window follows the room in a buffer. Its queue is kept about a fifth of that.
    Row {
        name: "adapted-window",
        title: "explicit window, adapted",
        gateway: |link| {
            let (buffer, every) = (5 * link.window(), (link.round_trip * 100.0).max(10.0) as u64);
            policy(intercepted(&format!(
                "{{ kind = \"adapted-window\", buffer = \"{buffer} B\", every = \"{every} ms\" }}"
            )))
        },
        ..UNTOLD
    },
    Row {
        name: "clamp",
        title: "CLAMP",
        gateway: |link| {
            split(&format!("window = [{{ kind = \"constant-queue\", queue = \"{} B\" }}]", link.window()))
        },
        ..UNTOLD
    },
    Row {
        name: "queue-price",
        title: "CLAMP, its own equations",
        gateway: |link| {
            let (queue, step) = (link.window(), u64::from(link.mtu));
            split(&format!("window = [{{ kind = \"queue-price\", a = \"{queue} B\", tau = \"{step} B\" }}]"))
        },
        ..UNTOLD
    },
    Row {
        name: "ack-regulator",
        title: "ACK regulator",
        gateway: |link| {
            let queue = link.path_window();
            policy(intercepted(&format!("{{ kind = \"ack-regulator\", queue = \"{queue} B\" }}")))
        },
        ..UNTOLD
    },
    Row {
        name: "freeze-tcp",
        title: "Freeze-TCP",
        claims: Some([Yes, No, No, No, No, Yes, Yes]),
        // Known a round trip before, which is the best that its authors found.
        mobile: Some(|link, work| freeze_tcp(work.fades(link), link.path_round_trip())),
        ..UNTOLD
    },
    // To senders of 4.4BSD, as M-TCP. No column of the table.
    Row {
        name: "freeze-tcp-persist",
        title: "Freeze-TCP, senders persist",
        sender: &[("persist_on_shrink", "true")],
        mobile: Some(|link, work| freeze_tcp(work.fades(link), link.path_round_trip())),
        ..UNTOLD
    },
    // What it is told it has found out itself. No column of the table.
    Row { name: "fast-start", title: "fast start", sender: &[("start", "\"fast\"")], ..UNTOLD },
    Row {
        name: "wtcp",
        title: "WTCP",
        claims: Some([Yes, Yes, Yes, No, Yes, No, Yes]),
        sender: &[("congestion", "\"wtcp\""), ("rate_report", "\"wtcp\""), ("pacing", "true")],
        receiver: &[("rate_report", "\"wtcp\"")],
        ..UNTOLD
    },
    Row {
        name: "w-tcp",
        title: "W-TCP",
        claims: Some([No, No, No, No, Yes, Yes, Yes]),
        gateway: |_| split("ack = \"without-residence\""),
        ..UNTOLD
    },
    // As its authors had it: before senders of 4.4BSD, which measure round trips by timestamps alone. No column of the table.
    Row {
        name: "w-tcp-rttm",
        title: "W-TCP, senders take timestamps",
        sender: &[("rttm", "true")],
        gateway: |_| split("ack = \"without-residence\""),
        ..UNTOLD
    },
    Row {
        name: "westwood",
        title: "Westwood (2001)",
        claims: WESTWOOD,
        sender: &[("congestion", "\"westwood-2001\"")],
        ..UNTOLD
    },
    Row {
        name: "westwood-plus",
        title: "Westwood+",
        claims: WESTWOOD,
        sender: &[("congestion", "\"westwood\"")],
        ..UNTOLD
    },
    Row {
        name: "aggregation",
        title: "flow aggregation (paper)",
        claims: AGGREGATION,
        gateway: |link| aggregation(link.clamp()),
        ..UNTOLD
    },
    // The gateway as it is when nothing is written is asked for what the paper claims of its own.
    Row {
        name: "auto",
        title: "flow aggregation (auto)",
        claims: AGGREGATION,
        gateway: |_| vec![("mode", "\"auto\"".into())],
        ..UNTOLD
    },
];

impl Row {
    /// What it changes at ends: none, one of them, or both.
    pub(super) fn ends_changed(&self) -> usize {
        usize::from(!self.sender.is_empty()) + usize::from(!self.receiver.is_empty() || self.mobile.is_some())
    }

    /// Whether it can be tried between kernels. A fade that is known before is known by the gateway's clock, which began with its
    /// process.
    pub(super) fn runs_live(&self) -> bool {
        self.mobile.is_none()
    }

    /// Whether it works where the headers of TCP are encrypted: nothing on the way looks into them.
    pub(super) fn works_encrypted(&self, link: &Link) -> bool {
        (self.gateway)(link).iter().all(|(key, value)| *key == "split" && value == "false")
    }
}

/// The row of this name.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
