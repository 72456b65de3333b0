//! What the paper says of each figure, beside what the runs say: windows over time (Figures 2 to 4), and throughput (Figures 5 to 7).
mod throughput;
mod windows;

pub(super) use throughput::{buffer, fig5, fig6, fig6_sessions, fig7, gains};
pub(super) use windows::{beside_each_other, bursts, fig2, fig3, fig3_second, fig4, fig4_burst, fig4_queue};

use shorthaul_report::Unit;

fn seconds(time: Option<f64>) -> String {
    time.map_or("never".to_owned(), |time| Unit::Seconds.format(time))
}
