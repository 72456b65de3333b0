//! Bottlenecks that a gateway finds by itself.
use crate::link_tree::LinkTree;
use shorthaul_testkit::Chance;

#[test]
fn hosts_of_random_link_trees_are_grouped_by_the_queue_that_they_wait_in() {
    let found: Vec<_> = (0..20)
        .map(|seed| {
            let tree = LinkTree::draw(&mut Chance(seed));
            let found = tree.run();
            if found.right_after.is_none() {
                println!("seed {seed}: {found:?} {tree:?}");
            }
            found
        })
        .collect();
    let right = found.iter().filter(|found| found.right_after.is_some()).count();
    assert!(right >= 18, "{right} of {}", found.len());
}
