//! Which policy for which network: what the measurements of the other pages come to, for practice.
use shorthaul_report::{Column, Table};

/// A kind of network, what to set, and the measurements that say so.
const ROWS: [[&str; 3]; 6] = [
    [
        "a slow or unsteady link whose average rate is known or can be told; senders anywhere",
        "path-tail (told, or a tenth less than the average)",
        "mobile-bottleneck, kernels-live: fills the link with senders of any congestion control and any wired round trip, no closed windows, no RTOs of a single flow; with eight, those of a router with its queue; wired-bottleneck: costs nothing",
    ],
    [
        "the same, with a rate that nobody knows",
        "path-tail with estimated = true",
        "rate-changes, radio: follows within ten seconds, holds a quarter of its buffer",
    ],
    [
        "unknown rate, little memory",
        "constant-queue",
        "mobile-bottleneck: finds the rate by itself and holds little; windows close all the time; wired-bottleneck: loses most over 300 ms",
    ],
    [
        "many flows to each of many phones, GPRS-like",
        "aggregate (AGG's shared window and Table I)",
        "`shorthaul reproduce aggregation`; here: mobile-bottleneck with eight flows",
    ],
    [
        "senders within 10 ms of the gateway, a link of known product",
        "clamp",
        "mobile-bottleneck: holds least; wired-bottleneck: costs what window / round trip predicts as soon as senders are far",
    ],
    [
        "bulk only, memory to spare",
        "split",
        "mobile-bottleneck: fills the link as well as any, and holds all that it may of every flow",
    ],
];

/// The table of advice.
pub(super) fn table() -> Table {
    let mut table = Table::new([
        Column::left("network"),
        Column::left("senders ="),
        Column::left("the measurements that say so"),
    ]);
    for row in ROWS {
        table.row(row);
    }
    table
}

/// What to mind with any of them.
pub(super) const REMARKS: [&str; 3] = [
    "The bandwidth told must not be above what the access side carries: what comes too fast is dropped when the buffer is full, and senders time out as behind an overloaded link (radio: path-tail-told).",
    "Path tail emulation takes the place of the queue, not of the repair: give the side toward the access side an RTO above its interruptions (to_access.rto), or it retransmits what is on its way.",
    "ack-regulator and m-tcp keep the ends' acknowledgments end to end. They lose nothing in a crash of the gateway, but senders see every delay of the access side.",
];
