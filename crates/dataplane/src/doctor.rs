//! What of this host helps or hinders gateways and nodes, and the command that mends it.
use crate::attach::choose;
use crate::attach::obstacle::obstacles;
use crate::bridge::look;
use crate::host::{gateway_rules, running};
use crate::preflight::{SEE, larger_mtus, may_administer, on_this_host};
use crate::routes::is_forwarding;
use crate::{Config, Way};
use serde::Serialize;
use shorthaul_os::netlink::links::merges_on_receipt;
use shorthaul_os::netlink::{Family, interfaces};
use shorthaul_types::Bytes;
use std::fs::{OpenOptions, read_to_string};
use std::io;
use std::path::Path;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Well,
    /// It works, and could be better.
    Note,
    /// Something does not work.
    Wrong,
}

/// A thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it is.
    pub health: Health,
    /// What was seen.
    pub seen: String,
    /// The command that mends it, if one does.
    pub mend: Option<String>,
}

fn well(what: &'static str, seen: impl Into<String>) -> Finding {
    Finding { what, health: Health::Well, seen: seen.into(), mend: None }
}

fn note(what: &'static str, seen: impl Into<String>, mend: &str) -> Finding {
    let mend = (!mend.is_empty()).then(|| mend.to_owned());
    Finding { what, health: Health::Note, seen: seen.into(), mend }
}

fn wrong(what: &'static str, seen: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { what, health: Health::Wrong, seen: seen.into(), mend: Some(mend.into()) }
}

fn sysctl(key: &str) -> Option<String> {
    read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))).ok().map(|text| text.trim().to_owned())
}

/// Looks at this host, as a gateway with this configuration would find it.
pub fn examine(config: &Config) -> Vec<Finding> {
    let mut found = vec![tun(), administration()];
    match &config.bridge {
        Some(names) => found.push(bridge(config, names)),
        None => {
            found.extend([forwarding_v4(), forwarding_v6()]);
            found.extend(remains(config));
            found.extend(way(config));
        }
    }
    found.extend(mtus(config));
    found.extend([offloads(config), rp_filter(), conntrack(), memory(config), confinement(), real_time()]);
    found.extend([congestion_controls(), steal(), clock(), files(), run_dir(config)]);
    found
}

/// Whether the two interfaces can be joined, or are.
fn bridge(config: &Config, names: &[String; 2]) -> Finding {
    let [access, wan] = names;
    match look(config, names) {
        Ok(found) => match (&found.bridge, found.apart().next()) {
            (Some(bridge), None) => {
                well("bridge", format!("{access} and {wan} are the ports of {}", bridge.name))
            }
            (Some(bridge), Some(apart)) => note(
                "bridge",
                format!(
                    "{} is no port of {}: nothing passes between {access} and {wan}",
                    apart.name, bridge.name
                ),
                "start the gateway again, which joins them",
            ),
            (None, _) => well("bridge", format!("{access} and {wan} can be joined")),
        },
        Err(error) => {
            wrong("bridge", error.to_string(), format!("shorthaul gateway --bridge {access},{wan} --check"))
        }
    }
}

/// Now, and after each start of the machine.
const PASS_ON: &str = "echo net.ipv4.ip_forward=1 > /etc/sysctl.d/90-shorthaul.conf && sysctl --system";

/// How packets would come to the gateway, and what does not go together with that.
fn way(config: &Config) -> Vec<Finding> {
    // An interface that is not there is complained of by itself.
    let present = interfaces().unwrap_or_default();
    let is_there = |name: &String| present.iter().any(|(known, _)| known == name);
    if config.access.is_empty() {
        let seen = "without a configuration it is not known: NAT and the firewall were not looked at";
        return vec![note("way", seen, "shorthaul doctor --config FILE")];
    }
    if !config.access.iter().all(is_there) {
        return Vec::new();
    }
    match choose(config, false) {
        Ok(Way::Interfaces) => {
            vec![well(
                "way",
                "programs at the access interfaces: firewall, NAT and routes see what they see without the gateway",
            )]
        }
        Ok(Way::Rules(why)) => {
            let usual = match config.attach {
                Some(_) => "`attach = \"rules\"`",
                None => "nothing was found that does not go together with them",
            };
            let seen = format!("routing rules: {}", why.as_deref().unwrap_or(usual));
            let of_rules =
                obstacles(config).into_iter().map(|found| wrong("way", found, format!("see {SEE}")));
            [note("way", seen, "")].into_iter().chain(of_rules).collect()
        }
        Err(error) => vec![wrong("way", error.to_string(), format!("see {SEE}"))],
    }
}

fn tun() -> Finding {
    match OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => well("TUN", "/dev/net/tun can be opened"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            wrong("TUN", format!("/dev/net/tun: {error}"), "run as root, or `chmod 666 /dev/net/tun`")
        }
        Err(error) => wrong(
            "TUN",
            format!("/dev/net/tun: {error}"),
            "modprobe tun; mkdir -p /dev/net; mknod /dev/net/tun c 10 200",
        ),
    }
}

/// CAP_NET_ADMIN.
fn administration() -> Finding {
    match may_administer() {
        true => well("privileges", "CAP_NET_ADMIN is there; a gateway gives it up once it is set up"),
        false => wrong(
            "privileges",
            "CAP_NET_ADMIN is missing: devices and rules cannot be made",
            "sudo shorthaul doctor",
        ),
    }
}

fn forwarding_v4() -> Finding {
    let (key, what) = ("net.ipv4.ip_forward", "forwarding IPv4");
    match sysctl(key).as_deref() {
        Some("1") => well(what, format!("{key} = 1")),
        None => note(what, "this kernel does not have it", ""),
        Some(value) if is_forwarding(Family::V6) => {
            note(what, format!("{key} = {value}: IPv6 alone is passed on"), PASS_ON)
        }
        Some(value) => wrong(what, format!("{key} = {value}: packets are not passed on"), PASS_ON),
    }
}

/// Where IPv6 is not routed, nothing is wrong without it.
fn forwarding_v6() -> Finding {
    let (key, what) = ("net.ipv6.conf.all.forwarding", "forwarding IPv6");
    match sysctl(key).as_deref() {
        Some("1") => well(what, format!("{key} = 1")),
        None => note(what, "this kernel does not have it", ""),
        Some(value) => note(
            what,
            format!(
                "{key} = {value}: IPv6 is not passed on. If it is routed here, set it to 1; an interface whose default route comes by router \
                 advertisements needs accept_ra = 2 first"
            ),
            "",
        ),
    }
}

/// Gateways that run, and what those have left that do not.
fn remains(config: &Config) -> Vec<Finding> {
    let (Ok(rules), Ok(running)) = (gateway_rules(), running()) else {
        return vec![note("routing rules", "they cannot be read", "")];
    };
    let mut tables: Vec<u32> = rules.iter().map(|(_, priority, _)| *priority).collect();
    tables.sort_unstable();
    tables.dedup();
    let running_text = if running.is_empty() { "none".into() } else { running.join(", ") };
    let mut found = vec![well("gateways that run", running_text)];
    if running.is_empty() {
        found.extend(tables.iter().map(|table| {
            let seen =
                format!("rules to table {table} are left of a gateway that is gone; traffic passes them by");
            note("remains", seen, &format!("shorthaul gateway --remove --table {table}"))
        }));
    }
    if found.len() == 1 {
        let clashes = tables.contains(&config.table) && !running.contains(&config.name.to_string());
        found.push(match clashes {
            true => note(
                "routing table",
                format!("{} is another gateway's", config.table),
                &format!("shorthaul gateway --table {} ...", config.table + 100),
            ),
            false => {
                well("routing table", format!("{} and {} are free or ours", config.table, config.table + 1))
            }
        });
    }
    found
}

fn mtus(config: &Config) -> Vec<Finding> {
    let Ok(all) = interfaces() else { return vec![note("interfaces", "they cannot be listed", "")] };
    let named = config.interfaces();
    let asked: Vec<&String> = named.iter().flatten().collect();
    let is_meant = |name: &String| {
        name != "lo" && !name.starts_with("sh-") && (asked.is_empty() || asked.contains(&name))
    };
    let meant: Vec<&(String, u32)> = all.iter().filter(|(name, _)| is_meant(name)).collect();
    let mut found = Vec::new();
    let text: Vec<String> = meant.iter().map(|(name, mtu)| format!("{name} {mtu}")).collect();
    found.push(match meant.iter().find(|(_, mtu)| *mtu < 1280) {
        Some((name, mtu)) => note(
            "MTU",
            format!("{name} has {mtu}: less than 1280, the least of IPv6"),
            &format!("ip link set {name} mtu 1280"),
        ),
        None => well("MTU", text.join(", ")),
    });
    if let Ok(used) = on_this_host(config) {
        found.extend(larger_mtus(config, &used).into_iter().map(|larger| {
            let mend = format!("leave out this `mtu`, or write {} or less", larger.used);
            note("MTU", larger.to_string(), &mend)
        }));
    }
    for name in asked.into_iter().filter(|name| !all.iter().any(|(known, _)| known == *name)) {
        found.push(wrong(
            "interfaces",
            format!("there is no `{name}`; there are {}", text.join(", ")),
            "ip link",
        ));
    }
    found
}

/// The kernel merges segments on receipt, and hands the gateway few large ones: that is what makes it fast. Without a configuration, the
/// interfaces that are not virtual are looked at.
fn offloads(config: &Config) -> Finding {
    let named = config.interfaces().concat();
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let real = entries.filter(|entry| entry.path().join("device").exists());
    let real = real.filter_map(|entry| entry.file_name().into_string().ok());
    let looked_at: Vec<String> = if named.is_empty() { real.collect() } else { named };
    let answers: Vec<(&str, Option<bool>)> =
        looked_at.iter().map(|name| (&**name, merges_on_receipt(name).ok())).collect();
    let which = |wanted: Option<bool>| {
        let those = answers.iter().filter(|(_, answer)| *answer == wanted);
        those.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let (off, on, unknown) = (which(Some(false)), which(Some(true)), which(None));
    if let [first, ..] = off[..] {
        let seen = format!(
            "generic-receive-offload is off at {}: each packet is handed over by itself",
            off.join(", ")
        );
        return note("offloads", seen, &format!("ethtool -K {first} gro on"));
    }
    if !unknown.is_empty() || on.is_empty() {
        let of = if unknown.is_empty() { "virtual interfaces".to_owned() } else { unknown.join(", ") };
        let seen = format!("not known of {of}; `ethtool -k IF` shows generic-receive-offload");
        return note("offloads", seen, "");
    }
    well("offloads", format!("generic-receive-offload is on at {}", on.join(", ")))
}

fn rp_filter() -> Finding {
    match sysctl("net.ipv4.conf.all.rp_filter").as_deref() {
        Some("1") => well("rp_filter", "strict; our devices have 2 (loose), which holds for them"),
        Some(value) => well("rp_filter", format!("net.ipv4.conf.all.rp_filter = {value}")),
        None => note("rp_filter", "it cannot be read", ""),
    }
}

fn conntrack() -> Finding {
    const LIBERAL: &str = "net.netfilter.nf_conntrack_tcp_be_liberal";
    let (Some(count), Some(most)) =
        (sysctl("net.netfilter.nf_conntrack_count"), sysctl("net.netfilter.nf_conntrack_max"))
    else {
        return well("conntrack", "not in use");
    };
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    if number(&count) * 10 > number(&most) * 9 {
        let mend = format!("sysctl -w net.netfilter.nf_conntrack_max={}", number(&most) * 2);
        return wrong(
            "conntrack",
            format!("{count} of {most} entries: new connections will be dropped"),
            mend,
        );
    }
    match sysctl(LIBERAL).as_deref() {
        Some("0") => note(
            "conntrack",
            format!(
                "{count} of {most} entries; strict windows: if rules drop `ct state invalid`, segments of a flow may be dropped when a gateway steps out"
            ),
            &format!("sysctl -w {LIBERAL}=1"),
        ),
        _ => well("conntrack", format!("{count} of {most} entries")),
    }
}

fn memory(config: &Config) -> Finding {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    let (free, asked) = (Bytes(kilobytes * 1024), config.memory.total);
    if free > asked {
        return well("memory", format!("{free} are available; flows may hold {asked}"));
    }
    let mend = format!("write `total = \"{} MB\"` under [memory]", (free.0 / 2_000_000).max(1));
    note("memory", format!("{free} are available, and flows may hold {asked}"), &mend)
}

fn confinement() -> Finding {
    let modules = read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let seccomp = Path::new("/proc/sys/kernel/seccomp").exists();
    match (modules.contains("landlock"), seccomp, modules.is_empty()) {
        (true, true, _) => {
            well("confinement", "Landlock and seccomp: a gateway can give up files and system calls")
        }
        (_, true, true) => well("confinement", "seccomp; whether there is Landlock cannot be seen here"),
        _ => note(
            "confinement",
            "this kernel lacks Landlock or seccomp: a gateway does not start unless it is told to do without",
            "shorthaul gateway --confine-if-possible ...",
        ),
    }
}

/// The kernel keeps real-time threads from running where a control group has no share for them.
fn real_time() -> Finding {
    match sysctl("kernel.sched_rt_runtime_us").as_deref() {
        Some("0") => note(
            "real-time",
            "the kernel runs no real-time threads: packets wait while others keep processors busy",
            "sysctl -w kernel.sched_rt_runtime_us=950000",
        ),
        Some(value) => well("real-time", format!("kernel.sched_rt_runtime_us = {value}")),
        None => note("real-time", "it cannot be seen whether the kernel runs real-time threads", ""),
    }
}

fn congestion_controls() -> Finding {
    let available = sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    match available.contains("bbr") {
        true => well("congestion controls", format!("of the kernel, for nodes: {available}")),
        false => note(
            "congestion controls",
            format!("of the kernel, for nodes: {available} (gateways have their own)"),
            "modprobe tcp_bbr",
        ),
    }
}

/// How much of the processors' time others on the same machine took, since it was started.
fn steal() -> Finding {
    let text = read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|n| n.parse().ok())
        .collect();
    let (total, stolen) = (fields.iter().take(8).sum::<f64>(), fields.get(7).copied().unwrap_or(0.0));
    let share = if total > 0.0 { stolen / total * 100.0 } else { 0.0 };
    match share < 2.0 {
        true => well("steal time", format!("{share:.1} % since the machine was started")),
        false => note(
            "steal time",
            format!("{share:.1} %: the host of this virtual machine is busy, and packets wait for it"),
            "",
        ),
    }
}

fn clock() -> Finding {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = read_to_string(path).unwrap_or_default().trim().to_owned();
    match source.as_str() {
        "" => note("clock", "its source cannot be read", ""),
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" | "riscv_clocksource" => {
            well("clock", format!("{source}: read without a system call"))
        }
        slow => note(
            "clock",
            format!("{slow}: each reading of the time is a system call"),
            &format!("echo tsc > {path}"),
        ),
    }
}

/// A node has two descriptors for each session, and more.
fn files() -> Finding {
    let limits = read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    match hard >= 65_536 {
        true => well("open files", format!("up to {hard}")),
        false => note(
            "open files",
            format!("up to {hard}: a node has about {} sessions", hard / 4),
            "ulimit -Hn 1048576",
        ),
    }
}

fn run_dir(config: &Config) -> Finding {
    let mounts = read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let place = places.filter(|(at, _)| config.run_dir.starts_with(at)).max_by_key(|(at, _)| at.len());
    let dir = config.run_dir.display();
    match place {
        Some((_, "tmpfs" | "ramfs")) => well("run_dir", format!("{dir} is in memory")),
        _ => note(
            "run_dir",
            format!("{dir} is on a disk: what flows hold would be written there"),
            &format!("mkdir -p {dir} && mount -t tmpfs -o mode=0700 tmpfs {dir}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_that_no_interface_takes_is_told() {
        let loopback = |mtu| {
            let mut config =
                Config { access: vec!["lo".into()], wan: vec!["lo".into()], ..Config::default() };
            config.to_wan.mtu = Some(mtu);
            config
        };
        let told =
            |mtu| examine(&loopback(mtu)).into_iter().find(|found| found.seen.contains("[to_wan] mtu"));
        // It takes 65,536 bytes, and packets have 65,535 at most.
        assert!(told(65_535).is_none());
        let config = loopback(70_000);
        let used = on_this_host(&config).unwrap();
        assert_eq!(used.to_wan.mtu, Some(65_535));
        let found = told(70_000).unwrap();
        assert!(found.health == Health::Note && found.seen.contains("mtu = 70000"), "{found:?}");
        assert_eq!(on_this_host(&loopback(1_280)).unwrap().to_wan.mtu, Some(1_280), "a smaller one is taken");
    }

    #[test]
    fn offloads_are_well_only_where_an_interface_has_said_so() {
        let of = |name: &str| offloads(&Config { access: vec![name.into()], ..Config::default() });
        let unknown = of("no-such-0");
        assert!(unknown.health == Health::Note && unknown.seen.contains("no-such-0"), "{unknown:?}");
        let expected = if merges_on_receipt("lo").unwrap() { Health::Well } else { Health::Note };
        let known = of("lo");
        assert!(known.health == expected && known.seen.contains("at lo"), "{known:?}");
    }

    #[test]
    fn everything_is_looked_at_and_what_is_wrong_can_be_mended() {
        let config = Config { access: vec!["no-such-0".into()], ..Config::default() };
        let found = examine(&config);
        for what in [
            "TUN",
            "privileges",
            "forwarding IPv4",
            "routing table",
            "MTU",
            "conntrack",
            "steal time",
            "clock",
            "run_dir",
        ] {
            let is_it = |finding: &&Finding| {
                finding.what == what || (what == "routing table" && finding.what == "remains")
            };
            assert!(found.iter().any(|finding| is_it(&finding)), "{what} is not in {found:?}");
        }
        let missing = found.iter().find(|finding| finding.seen.contains("no-such-0")).unwrap();
        assert_eq!(missing.health, Health::Wrong);
        for finding in found.iter().filter(|finding| finding.health == Health::Wrong) {
            assert!(finding.mend.is_some(), "{finding:?}");
        }
    }
}
