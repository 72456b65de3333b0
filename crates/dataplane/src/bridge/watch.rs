//! Whether the two ports are what the bridge joins, while the gateway runs.
use crate::vanished::Vanished;
use shorthaul_os::netlink::Changes;
use shorthaul_os::netlink::links::{Interface, list};
use shorthaul_os::poll::wait_any_readable;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks: the host's routes and addresses may change without end.
const REST: Duration = Duration::from_millis(10);

/// What notes that a port is gone, and that it is there again.
pub(super) struct Watch {
    changes: Changes,
    joined: Joined,
    vanished: Arc<Vanished>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("joined", &self.joined).finish_non_exhaustive()
    }
}

impl Watch {
    /// Of how things stand when this is called, nothing is missed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(joined: Joined, vanished: Arc<Vanished>) -> io::Result<Watch> {
        Ok(Watch { changes: Changes::watch()?, joined, vanished })
    }

    /// Goes on with it for good.
    pub fn watch(self) {
        loop {
            // What failed now is asked for again at the next change.
            if let Ok(present) = list() {
                let gone = self.joined.gone(&present);
                let are_back = self.joined.are_back(&gone, &present);
                self.vanished.set(gone, are_back);
            }
            std::thread::sleep(REST);
            if wait_any_readable([self.changes.as_fd()], None).is_err() || self.changes.were_any().is_err() {
                return;
            }
        }
    }
}

/// What was joined when the gateway began.
#[derive(Debug)]
pub(super) struct Joined {
    /// The bridge: its name and index.
    pub bridge: (String, u32),
    /// A gateway makes it, and joins again what has left it.
    pub is_own: bool,
    /// The ports: names and indices.
    pub ports: [(String, u32); 2],
}

impl Joined {
    /// The ports that are not there any more, or no ports of the bridge. One that has another name now is the same, with its program.
    fn gone(&self, present: &[Interface]) -> Vec<String> {
        let is_there = present.iter().any(|interface| interface.index == self.bridge.1);
        let is_port = |index: u32| {
            is_there
                && present
                    .iter()
                    .any(|interface| interface.index == index && interface.master == Some(self.bridge.1))
        };
        let gone = self.ports.iter().filter(|(_, index)| !is_port(*index));
        gone.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a gateway that starts now would be at all of these: they are other interfaces of the same names, or those of before whose bridge
    /// is gone or another one. An interface that somebody has taken out of the bridge stays out of it.
    fn are_back(&self, gone: &[String], present: &[Interface]) -> bool {
        let is_former = present.iter().any(|interface| interface.index == self.bridge.1);
        let bridge = present.iter().find(|interface| interface.is_bridge && interface.name == self.bridge.0);
        let is_back = |(name, index): &(String, u32)| {
            let Some(now) = present.iter().find(|interface| interface.name == *name) else { return false };
            let is_joined = bridge.is_some_and(|bridge| now.master == Some(bridge.index));
            let can_be = self.is_own && now.master.is_none();
            now.is_up && (now.index != *index || !is_former) && (is_joined || can_be)
        };
        !gone.is_empty() && self.ports.iter().filter(|(name, _)| gone.contains(name)).all(is_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, name: &str, master: Option<u32>) -> Interface {
        Interface { index, name: name.into(), master, is_up: true, ..Interface::default() }
    }

    fn bridge(index: u32) -> Interface {
        Interface { is_bridge: true, ..interface(index, "br", None) }
    }

    #[test]
    fn a_port_is_gone_until_another_one_of_its_name_can_be_joined() {
        let joined =
            |is_own| Joined { bridge: ("br".into(), 1), is_own, ports: [("a".into(), 2), ("b".into(), 3)] };
        let port = interface(3, "b", Some(1));
        let down = Interface { is_up: false, ..interface(7, "a", None) };
        for (what, present, gone, own, other) in [
            ("all is well", vec![bridge(1), interface(2, "a", Some(1)), port.clone()], "", false, false),
            ("another name", vec![bridge(1), interface(2, "x", Some(1)), port.clone()], "", false, false),
            ("deleted", vec![bridge(1), port.clone()], "a", false, false),
            ("taken out", vec![bridge(1), interface(2, "a", None), port.clone()], "a", false, false),
            ("another's", vec![bridge(1), interface(2, "a", Some(9)), port.clone()], "a", false, false),
            ("made again, down", vec![bridge(1), down, port.clone()], "a", false, false),
            ("made again", vec![bridge(1), interface(7, "a", None), port.clone()], "a", true, false),
            ("joined again", vec![bridge(1), interface(7, "a", Some(1)), port.clone()], "a", true, true),
            ("one of two", vec![bridge(1), interface(7, "a", None)], "a b", false, false),
            ("no bridge", vec![interface(2, "a", None), interface(3, "b", None)], "a b", true, false),
            (
                "another bridge",
                vec![bridge(8), interface(2, "a", Some(8)), interface(3, "b", Some(8))],
                "a b",
                true,
                true,
            ),
        ] {
            let found = joined(true).gone(&present);
            assert_eq!(found.join(" "), gone, "{what}");
            let back = [true, false].map(|is_own| joined(is_own).are_back(&found, &present));
            assert_eq!(back, [own, other], "{what}");
        }
    }
}
