//! Who shares a bottleneck in random link trees, as a gateway finds it within ten seconds: `bottlenecks [TREES [FIRST-SEED]]`. Ends with one line of JSON.
#[path = "../tests/suite/link_tree.rs"]
mod link_tree;

use link_tree::LinkTree;
use serde_json::json;
use shorthaul_testkit::Chance;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let trees = arguments.next().transpose()?.unwrap_or(500);
    let first = arguments.next().transpose()?.unwrap_or(0);
    let (mut after, mut wrong_at_end, mut wrong_ever) = (Vec::new(), 0, 0);
    for seed in first..first + trees {
        let tree = LinkTree::draw(&mut Chance(seed));
        let found = tree.run();
        after.extend(found.right_after);
        wrong_at_end += u32::from(found.wrong_at_end);
        wrong_ever += u32::from(found.wrong_looks > 0);
        if found.right_after.is_none() || found.wrong_looks > 0 {
            println!("seed {seed}: {found:?} {tree:?}");
        }
    }
    after.sort_by(f64::total_cmp);
    println!(
        "{}",
        json!({
            "trees": trees, "first_seed": first, "right": after.len(), "share_right": after.len() as f64 / trees as f64,
            "median_s": after.get(after.len() / 2), "p95_s": after.get(after.len() * 95 / 100),
            "merged_wrongly_once": wrong_ever, "merged_wrongly_at_end": wrong_at_end,
        })
    );
    Ok(())
}
