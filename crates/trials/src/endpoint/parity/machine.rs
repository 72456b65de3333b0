//! Whether the machine had something else to do.

/// Processor time, in the kernel's ticks: of everything, and of this process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTime {
    all: u64,
    idle: u64,
    own: u64,
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
        // Programs that were started with `nice` give way to this one, unless it was too.
        let yielding = if niceness <= 0 { *times.get(1)? } else { 0 };
        let idle = times.get(3)? + times.get(4)? + yielding;
        Some(ProcessorTime { all: times.iter().sum(), idle, own })
    }

    /// The share of the processors' time that others took since then, 0 to 1. The host of a virtual
    /// machine is one of them.
    pub fn others_until(&self, later: &ProcessorTime) -> f64 {
        let since = |field: fn(&ProcessorTime) -> u64| field(later).saturating_sub(field(self)) as f64;
        let (all, idle, own) = (since(|t| t.all), since(|t| t.idle), since(|t| t.own));
        if all > 0.0 { ((all - idle - own) / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_ours_is_the_others() {
        let read = |machine: &str, process: &str| ProcessorTime::read(machine, process).unwrap();
        let niced = |niceness: i64, utime: u64, stime: u64| {
            format!(
                "77 (a name) with) S 1 77 77 0 -1 4194560 1 2 3 4 {utime} {stime} 5 6 20 {niceness} 1 0\n"
            )
        };
        let process = |utime, stime| niced(0, utime, stime);
        let before = read("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1\n", &process(30, 10));
        let after = read("cpu  200 0 100 900 50 0 10 40 7 7\ncpu0 1\n", &process(130, 40));
        // 300 ticks, of which 100 idle and 130 ours
        assert!((before.others_until(&after) - 70.0 / 300.0).abs() < 1e-9);
        assert!(before.others_until(&before).abs() < 1e-9);
        assert!(ProcessorTime::now().is_some());
        // 60 ticks of others that give way to us, but not where we are as nice as they
        let cpu = "cpu  200 60 100 900 50 0 10 40 7 7\n";
        assert!((before.others_until(&read(cpu, &process(130, 40))) - 70.0 / 360.0).abs() < 1e-9);
        let before = read("cpu  100 0 50 800 50 0 0 0 7 7\n", &niced(10, 30, 10));
        assert!((before.others_until(&read(cpu, &niced(10, 130, 40))) - 130.0 / 360.0).abs() < 1e-9);
    }
}
