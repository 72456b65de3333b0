use super::{Occupancy, WindowLimit, WindowLimitKind};
use crate::Clamp;
use crate::ack_release::Opening;
use crate::policy::Setting;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use shorthaul_types::Bytes;

/// Offer what is missing to a fixed amount that may be held and under way together: the product of the access link's
/// bandwidth and delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct ClampedWindow {
    /// The amount.
    pub window: Bytes,
}

impl WindowLimitKind for ClampedWindow {
    fn open(&self, _opening: &Opening) -> Box<dyn WindowLimit> {
        Box::new(*self)
    }

    fn check(&self, setting: &Setting<'_>) -> Result<(), String> {
        let own = self.window;
        if own.0 == 0 {
            return Err("window: nothing could ever be sent; write a size such as \"12 kB\"".to_string());
        }
        match setting.aggregate.map(|aggregate| aggregate.clamp) {
            Some(Clamp::Fixed(shared)) if own < shared => Err(format!(
                "one connection that may hold at most {own} cannot fill the window of {shared} that its host's connections share; write `clamp = \"auto\"`, or a window for each flow that is no smaller"
            )),
            _ => Ok(()),
        }
    }
}

impl WindowLimit for ClampedWindow {
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64 {
        room.min(self.window.0.saturating_sub(occupancy.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_what_is_held_and_under_way_and_what_others_leave() {
        let mut limit = ClampedWindow { window: Bytes(12_000) };
        let occupancy = Occupancy { held: 5000, unsent: 5000, early: 0 };
        assert_eq!(limit.bound(&occupancy, 1 << 20), 7000);
        assert_eq!(limit.bound(&occupancy, 3000), 3000);
        assert_eq!(limit.bound(&Occupancy { held: 13_000, ..occupancy }, 3000), 0);
    }
}
