//! `shorthaul discover`: the relays on and beside the way to a host, as `mtr` would show them.
//!
//! Reading order: `show` (table, picture, JSON).
mod show;

use crate::ending::asked;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use shorthaul_planner::{Policy, Transfer};
use shorthaul_relay::discovery::directory::{Directory, Etcd, EtcdConfig, List, Srv};
use shorthaul_relay::discovery::{
    By, Facts, Finder, FinderConfig, Handshake, Key, Keyring, PORT, Ranking, Retry, SILENT_LOOKS, Selection,
    Survey,
};
use shorthaul_types::{BitRate, Bytes, format_duration};

/// Find relays on and beside the way to a host, and rank them
///
/// Probes go to the host, where a responder must run (`shorthaul respond`); relays that they pass
/// answer. Relays beside the way are those of the directories. Without a responder there, the
/// distance is that of a TCP handshake, and only relays beside the way are found.
#[derive(clap::Args)]
pub struct Args {
    /// Where sessions would go: a host or host:port (port 443 if none is given)
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "make_key")]
    target: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Write a new key into a file that is not there yet, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "key", "secret"])]
    make_key: Option<PathBuf>,
    /// The UDP port of responders
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    #[command(flatten)]
    directories: Directories,
    /// How much is to be moved, for the forecast
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    size: Bytes,
    /// The share of packets that the direct way loses, such as 0.1%: if it is known
    #[arg(long, value_name = "SHARE", value_parser = crate::route::loss)]
    loss: Option<f64>,
    /// The rate of its narrowest link, such as 100Mbit/s: if it is known
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// The most that the ends let be in flight: if that binds
    #[arg(long, value_name = "SIZE")]
    window: Option<Bytes>,
    /// The planner's model of the ends' TCP
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    model: String,
    /// Use a relay where it makes the transfer this many times as fast
    #[arg(long, value_name = "TIMES", alias = "gain", default_value_t = 1.1)]
    min_gain: f64,
    /// Relays that a session may pass, one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    most_relays: usize,
    /// Rounds of probing; the shortest times count
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The time from one round to the next
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = shorthaul_types::parse_duration)]
    interval: Duration,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
}

/// By what members of a network know each other.
#[derive(clap::Args, Clone, Debug)]
pub struct KeyArgs {
    /// The network's secret, as `shorthaul secret` makes it
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    secret: Option<PathBuf>,
    /// Instead, keys of discovery alone: 64 hexadecimal digits on each line; the first signs
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl KeyArgs {
    /// What [`KeyArgs::read`] reads.
    pub fn file(&self) -> Option<&Path> {
        self.secret.as_deref().or(self.key.as_deref())
    }

    /// The keys that were named.
    pub fn read(&self) -> Result<Keyring> {
        match (&self.secret, &self.key) {
            (Some(file), _) | (None, Some(file)) => Ok(Keyring::read(file)?),
            (None, None) => {
                Err(asked!("name the network's secret with --secret FILE; `shorthaul secret` makes one")
                    .into())
            }
        }
    }
}

/// Who knows relays beside the way.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Directories {
    /// A file with a `[[relay]]` section for each: name, session, probe
    #[arg(long, value_name = "FILE")]
    relays: Vec<PathBuf>,
    /// A DNS name with SRV records, such as `_shorthaul._tcp.example.net`
    #[arg(long, value_name = "NAME")]
    srv: Vec<String>,
    #[command(flatten)]
    etcd: EtcdArgs,
}

impl Directories {
    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.relays.is_empty() && self.srv.is_empty() && self.etcd.etcd.is_empty()
    }
}

/// Where an etcd directory is.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EtcdArgs {
    /// A member of an etcd cluster, such as `https://etcd.example.net:2379` (repeat for several)
    #[arg(long, value_name = "URL")]
    etcd: Vec<String>,
    /// What the relays' keys in etcd begin with
    #[arg(long, value_name = "PREFIX", default_value = "/shorthaul/relays/")]
    etcd_prefix: String,
    /// The authority that signed the cluster's certificates, as a PEM file
    #[arg(long, value_name = "FILE")]
    etcd_authority: Option<PathBuf>,
    /// A file with `user:password`, if the cluster asks for them
    #[arg(long, value_name = "FILE")]
    etcd_user: Option<PathBuf>,
}

impl EtcdArgs {
    /// The directory, if one was named.
    pub fn open(&self) -> Result<Option<Etcd>> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        let user = match &self.etcd_user {
            None => None,
            Some(path) => {
                let text = shorthaul_relay::read_private(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let (name, password) = text
                    .trim_end()
                    .split_once(':')
                    .ok_or_else(|| asked!("{}: write `user:password`", path.display()))?;
                Some((name.to_owned(), password.to_owned()))
            }
        };
        let config = EtcdConfig {
            endpoints: self.etcd.clone(),
            prefix: self.etcd_prefix.clone(),
            user,
            authority: self.etcd_authority.clone(),
        };
        Ok(Some(Etcd::new(config)?))
    }
}

impl Directories {
    /// The directories that were named.
    pub fn open(&self) -> Result<Vec<Box<dyn Directory>>> {
        let mut directories: Vec<Box<dyn Directory>> = Vec::new();
        for path in &self.relays {
            directories.push(Box::new(List::new(path)));
        }
        for name in &self.srv {
            directories.push(Box::new(Srv::new(name)));
        }
        if let Some(etcd) = self.etcd.open()? {
            directories.push(Box::new(etcd));
        }
        Ok(directories)
    }
}

/// Runs the command; an error if the host is not reached, or nobody has the network's secret.
pub fn run(args: &Args) -> Result<()> {
    if let Some(path) = &args.make_key {
        return make_key(path);
    }
    let Some(text) = &args.target else {
        return Err(asked!("give a host, such as server.example:443").into());
    };
    let target = resolve(text)?;
    let facts = Facts { loss: args.loss, rate: args.rate, window: args.window, model: args.model.clone() };
    let directories = args.directories.open()?;
    let asked = directories.len();
    let finder = Finder::new(FinderConfig {
        port: args.port,
        directories,
        retry: Retry::default(),
        // Nobody waits for a session: a responder has a second, however busy it is.
        unknown: Handshake::IfSilent,
        facts: facts.clone(),
        ..FinderConfig::new(args.keys.read()?)
    })?;
    let useless = finder.listed().1;
    for error in &useless {
        eprintln!("{error}");
    }
    let survey = survey(&finder, target, args)?;
    let view = survey.view();
    let Some(rtt) = view.rtt else {
        bail!(
            "{target} answered neither a probe nor a handshake: does `shorthaul respond` run there with the same \
             key, and may UDP port {} pass?",
            args.port
        );
    };
    let listed = finder.listed().0.len();
    if survey.by == Some(By::Handshake) && view.relays.is_empty() && listed == 0 {
        bail!(
            "nobody of this network answered, so nothing is known of ways but that {target} is {} away: is the secret the \
             network's (whoever has another one hears nothing), does `shorthaul respond` run there, and may UDP port {} pass?",
            format_duration(rtt),
            args.port
        );
    }
    let selection = Selection { policy: Policy::Gain(args.min_gain), relays: args.most_relays };
    let ranking = Ranking::new(&view, &facts, &Transfer::new(args.size), selection)?;
    if args.json {
        println!("{:#}", show::json(text, target, &survey, &ranking));
    } else {
        show::print(text, &survey, &ranking);
    }
    if view.relays.is_empty() && listed > 0 {
        bail!(
            "none of the {listed} relays that are listed answered: do they run, is the key theirs, and may UDP port {} pass?",
            args.port
        );
    }
    if view.relays.is_empty() && (1..asked).contains(&useless.len()) {
        let names: Vec<&str> = useless.iter().map(|error| error.directory.as_str()).collect();
        bail!(
            "none of the directories that could be asked has a relay, {} could not be asked, and on the way none answered",
            names.join(", ")
        );
    }
    if view.relays.is_empty() && !useless.is_empty() {
        bail!("nobody could be asked for relays beside the way, and on the way none answered");
    }
    if view.relays.is_empty() {
        eprintln!("no relay answered; those with another key say nothing");
    }
    for relay in &survey.silent {
        eprintln!("the relay that is listed with its responder at {relay} did not answer");
    }
    Ok(())
}

/// What rounds of probing found.
fn survey(finder: &Finder, target: SocketAddr, args: &Args) -> Result<Survey> {
    let mut survey = Survey::default();
    let is_alone = finder.listed().0.is_empty();
    for round in 0..args.rounds {
        let began = Instant::now();
        finder.round(target, &mut survey).context("no probe can be sent")?;
        // Who is not there does not come, and without a responder and a directory nobody is left to be asked.
        let is_silent = survey.by == Some(By::Handshake) && survey.rounds >= SILENT_LOOKS;
        let is_over = survey.rtts.is_empty() || (is_alone && is_silent);
        if is_over || round + 1 == args.rounds {
            break;
        }
        std::thread::sleep(args.interval.saturating_sub(began.elapsed()));
    }
    Ok(survey)
}

fn resolve(text: &str) -> Result<SocketAddr> {
    let with_port = match text.parse::<std::net::IpAddr>() {
        Ok(address) => return Ok(SocketAddr::new(address, 443)),
        Err(_) if text.contains(':') => text.to_owned(),
        Err(_) => format!("{text}:443"),
    };
    let mut addresses: Vec<SocketAddr> =
        with_port.to_socket_addrs().with_context(|| format!("`{text}` has no address"))?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().with_context(|| format!("`{text}` has no address"))
}

fn make_key(path: &Path) -> Result<()> {
    let key = Key::random().context("the kernel gives no random bytes")?;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot make {}", path.display()))?;
    writeln!(file, "{}", key.to_hex()).with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "a new key is in {}: give it to every member of the network, and to nobody else",
        path.display()
    );
    Ok(())
}
