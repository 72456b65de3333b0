//! The simulator on whole scenarios.

mod aggregation;
mod agreement;
mod beyond;
mod bottlenecks;
mod buffers;
mod handled;
mod interceptors;
mod late;
mod link_tree;
mod other_direction;
mod outcomes;
mod probing;
mod profiles;
mod pts;
mod random_scenarios;
mod runs;
mod shaper;
mod shared_link;
mod slow_device;
mod take_over;
mod whole_link;
