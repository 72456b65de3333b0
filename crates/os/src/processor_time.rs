//! What the processors have done: whether a machine had something else to do.

/// Processor time up to some moment, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Of everything. The host of a virtual machine is part of it.
    all: u64,
    idle: u64,
    /// Of programs at low priority (`nice`), which give way.
    low_priority: u64,
    /// What the host of this virtual machine gave to others.
    stolen: u64,
    /// Of this process.
    own: u64,
    /// This process does not run at low priority itself.
    goes_before: bool,
}

impl ProcessorTime {
    /// Up to now; `None` if the kernel does not say.
    pub fn now() -> Option<Self> {
        let machine = std::fs::read_to_string("/proc/stat").ok()?;
        let process = std::fs::read_to_string("/proc/self/stat").ok()?;
        Self::read(&machine, &process)
    }

    /// Reads `/proc/stat` and `/proc/self/stat` (`proc(5)`).
    fn read(machine: &str, process: &str) -> Option<Self> {
        let fields = machine.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in them
        let times: Vec<u64> = fields.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
        // behind the name, which may contain anything, utime, stime and nice are the 12th, 13th and 17th
        let (_, fields) = process.rsplit_once(") ")?;
        let own: u64 = fields.split_whitespace().skip(11).take(2).map_while(|t| t.parse::<u64>().ok()).sum();
        let niceness: i64 = fields.split_whitespace().nth(16)?.parse().ok()?;
        Some(ProcessorTime {
            all: times.iter().sum(),
            idle: times.get(3)? + times.get(4)?,
            low_priority: *times.get(1)?,
            stolen: *times.get(7)?,
            own,
            goes_before: niceness <= 0,
        })
    }

    /// The share of the time from here to `later` in which the processors were busy, 0 to 1. What runs at low priority is
    /// not counted: it is time that others could have had.
    pub fn busy_until(&self, later: &ProcessorTime) -> f64 {
        let since = |field: fn(&ProcessorTime) -> u64| field(later).saturating_sub(field(self)) as f64;
        share(since(|t| t.all) - since(|t| t.idle) - since(|t| t.low_priority), since(|t| t.all))
    }

    /// The share of the time from here to `later` that the host of this virtual machine gave to others, 0 to 1.
    pub fn stolen_until(&self, later: &ProcessorTime) -> f64 {
        share(later.stolen.saturating_sub(self.stolen) as f64, later.all.saturating_sub(self.all) as f64)
    }

    /// The share of the processors' time from here to `later` that others took, 0 to 1. Those at low priority give way to
    /// this process, unless it is one of them.
    pub fn others_until(&self, later: &ProcessorTime) -> f64 {
        let since = |field: fn(&ProcessorTime) -> u64| field(later).saturating_sub(field(self)) as f64;
        let yielding = if later.goes_before { since(|t| t.low_priority) } else { 0.0 };
        share(since(|t| t.all) - since(|t| t.idle) - yielding - since(|t| t.own), since(|t| t.all))
    }
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(machine: &str, niceness: i64, own: [u64; 2]) -> ProcessorTime {
        let [utime, stime] = own;
        let process = format!(
            "77 (a name) with) S 1 77 77 0 -1 4194560 1 2 3 4 {utime} {stime} 5 6 20 {niceness} 1 0\n"
        );
        ProcessorTime::read(machine, &process).unwrap()
    }

    #[test]
    fn what_is_neither_idle_nor_ours_is_the_others() {
        let before = at("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1\n", 0, [30, 10]);
        let after = at("cpu  200 0 100 900 50 0 10 40 7 7\ncpu0 1\n", 0, [130, 40]);
        assert!((before.stolen_until(&after) - 40.0 / 300.0).abs() < 1e-9);
        // 300 ticks, of which 100 idle and 130 ours
        assert!((before.others_until(&after) - 70.0 / 300.0).abs() < 1e-9);
        assert!(before.others_until(&before).abs() < 1e-9);
        assert!(ProcessorTime::now().is_some());
        // 60 ticks of others that give way to us, but not where we are as nice as they
        let cpu = "cpu  200 60 100 900 50 0 10 40 7 7\n";
        assert!((before.others_until(&at(cpu, 0, [130, 40])) - 70.0 / 360.0).abs() < 1e-9);
        let before = at("cpu  100 0 50 800 50 0 0 0 7 7\n", 10, [30, 10]);
        assert!((before.others_until(&at(cpu, 10, [130, 40])) - 130.0 / 360.0).abs() < 1e-9);
    }

    #[test]
    fn time_at_low_priority_is_not_busy() {
        let before = at("cpu  100 0 50 1000 10 0 5 0 0 0\ncpu0 1 2 3\n", 0, [0, 0]);
        // 30 more of user, 40 of nice, 10 of system, 15 idle, 5 waiting for a disk
        let after = at("cpu  130 40 60 1015 15 0 5 0 0 0\n", 0, [0, 0]);
        assert_eq!(before.busy_until(&after), 0.4);
        assert_eq!(before.busy_until(&before), 0.0, "no time has passed");
    }
}
