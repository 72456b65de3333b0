//! What a host's kernel counts of its TCP.
use crate::Host;
use std::collections::BTreeMap;
use std::io;

/// The counters of a host's kernel by name, such as `TcpExt.TCPLossUndo`: those of `/proc/net/snmp` and
/// `/proc/net/netstat`, as `nstat` shows them. They are of all connections of the host together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters(BTreeMap<String, u64>);

impl TcpCounters {
    /// Reads the two files' form: a line of names, and one of values, each behind the same group.
    fn parse(text: &str) -> Self {
        let mut counters = BTreeMap::new();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let [(group, names), (same, values)] = [pair[0], pair[1]].map(|line| {
                let (group, rest) = line.split_once(':').unwrap_or((line, ""));
                (group, rest.split_whitespace())
            });
            if group != same {
                continue;
            }
            // -1 stands for "no limit" in one of them, which is none that counts
            let counted = names.zip(values).filter_map(|(name, value)| Some((name, value.parse().ok()?)));
            counters.extend(counted.map(|(name, value)| (format!("{group}.{name}"), value)));
        }
        TcpCounters(counters)
    }

    /// A counter's value; `None` if this kernel has no such counter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// How much a counter has grown since `before`; `None` if this kernel has no such counter.
    pub fn grown(&self, before: &TcpCounters, name: &str) -> Option<u64> {
        Some(self.get(name)?.saturating_sub(before.get(name).unwrap_or(0)))
    }
}

impl Host {
    /// What its kernel has counted so far.
    ///
    /// # Errors
    /// If there is no `/proc`.
    pub fn tcp_counters(&self) -> io::Result<TcpCounters> {
        // of the thread, which is in the host's namespace; its process is not
        let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let text = self.run(|| Ok::<_, io::Error>(read("snmp")? + &read("netstat")?))?;
        Ok(TcpCounters::parse(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_paired_within_their_group() {
        let before = TcpCounters::parse(
            "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 5\nTcpExt: TCPTimeouts TCPLossUndo\nTcpExt: 2 0\n",
        );
        let after =
            TcpCounters::parse("Tcp: RetransSegs\nTcp: 9\nTcpExt: TCPTimeouts TCPLossUndo\nTcpExt: 2 3\n");
        assert_eq!(before.get("Tcp.RtoMin"), Some(200));
        assert_eq!(before.get("Tcp.MaxConn"), None, "no limit is no count");
        assert_eq!(after.grown(&before, "Tcp.RetransSegs"), Some(4));
        assert_eq!(after.grown(&before, "TcpExt.TCPLossUndo"), Some(3));
        assert_eq!(after.grown(&before, "TcpExt.TCPTimeouts"), Some(0));
        assert_eq!(after.grown(&before, "TcpExt.Unknown"), None);
    }
}
