//! What the commands that use nodes have in common: by which way, and who we are.
use crate::ending::asked;
use std::io::IsTerminal as _;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shorthaul_relay::authority::Role;
use shorthaul_relay::discovery::{Finder, FinderConfig, Keyring, Refreshing};
use shorthaul_relay::learning::{History, LearntRoutes, Source};
use shorthaul_relay::request::SetUp;
use shorthaul_relay::{
    Client, ClientOptions, Credentials, Endpoint, EndpointError, FixedRoute, Forwarding, Identity,
    LinkOptions, Links, MoveOptions, NameService, NetworkSecret, Protection, Route, RouteProvider,
    read_private,
};
use shorthaul_types::{Bytes, parse_duration};

use crate::discover::Directories;
use crate::node::LinkKind;

/// Less would make the limit that a receiver begins with a lie.
const LEAST_WINDOW: Bytes = Bytes(256 << 10);

/// The way to take, and who we are to the nodes on it.
#[derive(clap::Args)]
pub struct RouteArgs {
    /// The nodes on the way, the first first, such as `paris:7080,tokyo:7080`; without, directly
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    via: Vec<Endpoint>,
    /// Find the best way by asking: with --secret, which is the key of the network's probes too
    #[arg(long, requires = "secret", conflicts_with = "via")]
    discover: bool,
    /// Choose for each session among the ways of --via and --or-via and the direct one, by what came of former sessions; as --discover does
    #[arg(long, requires = "via", conflicts_with = "or_direct")]
    choose: bool,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    directories: Directories,
    /// Go directly when the way by the nodes fails; without, that is an error
    #[arg(long)]
    or_direct: bool,
    /// What is so without it
    #[arg(long, hide = true, conflicts_with = "or_direct")]
    never_direct: bool,
    /// The network's secret, as its nodes have it
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// A user of the nodes, with --token-file
    #[arg(long, value_name = "NAME", requires = "token_file", conflicts_with = "secret")]
    user: Option<String>,
    /// The user's token
    #[arg(long, value_name = "FILE", requires = "user")]
    token_file: Option<PathBuf>,
    /// What an authority has issued to us (`shorthaul secret issue`), instead of the secret
    #[arg(long, value_name = "FILE", conflicts_with_all = ["user", "authority"])]
    credential: Option<PathBuf>,
    /// The authority in PEM of the nodes' certificates, instead of the secret's
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// What is between us and the first node: TLS if there is a secret or an authority
    #[arg(long, value_enum)]
    links: Option<LinkKind>,
    /// Let each node tell the next, instead of all at the same time
    #[arg(long)]
    sequential: bool,
    /// What each node may hold of a direction
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Bytes>,
    #[command(flatten)]
    forwarding: ForwardingArgs,
    /// Another way, if the one of --via fails (repeat for several, in this order)
    #[arg(long, value_name = "NODES", requires = "via")]
    or_via: Vec<Via>,
    /// Sessions break with the nodes on their way, as connections do
    #[arg(long)]
    no_moves: bool,
    /// How long another way is looked for when that of a session breaks
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = duration)]
    move_within: Duration,
    /// What is kept of a direction of a session until the last node has acknowledged it: so much goes in a round trip at most
    #[arg(long, value_name = "SIZE", default_value = "4 MiB")]
    window: Bytes,
    /// Try again for so long when a node is not there, or the way breaks while a session is set up
    #[arg(long, value_name = "TIME", default_value = "0 s", value_parser = duration)]
    patience: Duration,
    /// Congestion control of the kernel for what leaves here
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
}

/// Where what came of sessions is remembered.
#[derive(clap::Args)]
pub struct MemoryArgs {
    /// Remember here what came of sessions, if ways are chosen by it; without, in sessions.jsonl below the service's state directory,
    /// $XDG_STATE_HOME/shorthaul or ~/.local/state/shorthaul
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Remember nothing when this process has ended
    #[arg(long, conflicts_with = "history")]
    no_history: bool,
}

impl MemoryArgs {
    /// The file, if there is to be one, and a place for it.
    pub fn path(&self) -> Option<PathBuf> {
        let folder = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        // systemd.exec(5) lists several directories with colons: the first is ours.
        let of_service = folder("STATE_DIRECTORY")
            .map(|all| all.to_str().and_then(|all| all.split(':').next()).map_or(all.clone(), PathBuf::from));
        let of_user = || {
            let state = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
            let state = state.or_else(|| folder("HOME").map(|home| home.join(".local/state")));
            state.map(|state| state.join("shorthaul"))
        };
        let usual = || of_service.or_else(of_user).map(|folder| folder.join("sessions.jsonl"));
        if self.no_history { None } else { self.history.clone().or_else(usual) }
    }
}

/// How bytes go on.
#[derive(clap::Args)]
pub struct ForwardingArgs {
    /// Wait this many round trips of the way that bytes come by before anything goes on
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        alias = "wait-windows",
        conflicts_with = "store"
    )]
    wait: u32,
    /// Take everything first, then send it on
    #[arg(long)]
    store: bool,
}

impl ForwardingArgs {
    pub fn forwarding(&self) -> Forwarding {
        if self.store { Forwarding::Store } else { Forwarding::Pipelined { wait_windows: self.wait } }
    }
}

/// The nodes on a way.
#[derive(Clone, Debug)]
pub struct Via(Vec<Endpoint>);

impl FromStr for Via {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        text.split(',').map(|node| node.trim().parse()).collect::<Result<_, _>>().map(Via)
    }
}

pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// What sessions are opened with.
pub struct Opening {
    pub client: Client,
    /// Connections to nodes.
    pub links: Arc<Links>,
    finder: Option<Arc<Finder>>,
}

impl Opening {
    /// Asks the directories once, beside whatever else goes on, so that those of no use are named before the first session.
    pub fn ask_directories(&self) -> Result<()> {
        Ok(self.finder.as_ref().map_or(Ok(()), Finder::ask_directories)?)
    }

    /// Asks for ways again and again, as long as what is returned is kept. It takes a thread.
    pub fn keep_asking(&self) -> Result<Option<Refreshing>> {
        Ok(self.finder.as_ref().map(Refreshing::start).transpose()?)
    }
}

impl RouteArgs {
    /// The nodes on the way.
    pub fn via(&self) -> &[Endpoint] {
        &self.via
    }

    /// A client, and its connections. `ready` connections are kept to each node that is used. What leads to
    /// `known` is found out at once, if anything is to be found out.
    pub fn client(&self, ready: usize, known: Option<&Endpoint>) -> Result<Opening> {
        if !self.discover && !self.directories.is_empty() {
            return Err(asked!("--relays, --srv and --etcd say where --discover looks: give it, too").into());
        }
        if self.via.is_empty() && (self.never_direct || self.or_direct) && !self.discover {
            return Err(asked!("--or-direct needs another way: name nodes with --via").into());
        }
        let secret = self.secret.as_deref().map(NetworkSecret::read).transpose()?;
        // One that connects a single time reads nothing again, and nor does a proxy that runs in a terminal.
        let is_read_again = known.is_none() && !std::io::stdin().is_terminal();
        let identity = self.identity(secret.as_ref(), is_read_again)?;
        let is_known = secret.is_some() || self.authority.is_some() || self.credential.is_some();
        let by_itself = if is_known { Protection::Tls } else { Protection::Plain };
        let credentials = match (secret, &self.user, &self.token_file) {
            (Some(secret), ..) => Credentials::Secret(secret),
            (None, Some(user), Some(file)) => {
                let token = read_private(file);
                let token = token.with_context(|| format!("cannot read {}", file.display()))?;
                Credentials::Token { user: user.clone(), token: token.trim().to_owned() }
            }
            _ => Credentials::None,
        };
        let links = Arc::new(Links::new(LinkOptions {
            name: shorthaul_relay::answer::CLIENT.into(),
            protection: self.links.map_or(by_itself, LinkKind::protection),
            identity,
            credentials,
            congestion: self.congestion.clone(),
            paced: false,
            timeout: Duration::from_secs(10),
            ready,
            names: NameService::System,
            gone_after: Duration::from_secs(600),
        })?);
        let route = Route::via(self.via.clone());
        let mut found = None;
        let routes: Arc<dyn RouteProvider> = match &self.secret {
            Some(secret) if self.discover => {
                let finder = self.finder(secret, known)?;
                found = Some(Arc::clone(&finder));
                self.learnt(Source::Found(finder))?
            }
            _ if self.choose => {
                let others = self.or_via.iter().map(|via| Route::via(via.0.clone()));
                self.learnt(Source::Listed(std::iter::once(route).chain(others).collect()))?
            }
            _ => {
                let others = self.or_via.iter().map(|via| Route::via(via.0.clone())).collect();
                let fixed =
                    if self.or_direct { FixedRoute::or_direct(route) } else { FixedRoute::only(route) };
                Arc::new(fixed.or(others))
            }
        };
        if self.window < LEAST_WINDOW {
            return Err(asked!("--window {} is too little: 256 KiB at least", self.window).into());
        }
        let moves = MoveOptions { window: self.window, within: self.move_within, ..MoveOptions::default() };
        let client = Client::new(ClientOptions {
            routes,
            links: Arc::clone(&links),
            set_up: if self.sequential { SetUp::Sequential } else { SetUp::Parallel },
            forwarding: self.forwarding.forwarding(),
            buffer: self.buffer,
            moves: (!self.no_moves).then_some(moves),
            patience: self.patience,
        });
        Ok(Opening { client, links, finder: found })
    }

    fn identity(&self, secret: Option<&NetworkSecret>, is_read_again: bool) -> Result<Identity> {
        Ok(match (&self.credential, secret, &self.authority) {
            (Some(path), ..) => {
                let identity = Identity::from_credential(path)?;
                identity.check(Role::Client, path)?;
                identity.warning(is_read_again).iter().for_each(|warning| tracing::warn!("{warning}"));
                identity
            }
            (None, Some(secret), None) => secret.identity(&[])?,
            (None, _, authority) => Identity::from_files(None, authority.as_deref())?,
        })
    }

    /// What [`RouteArgs::read_again`] reads.
    pub fn files_read_again(&self) -> Vec<&Path> {
        self.secret.iter().chain(&self.credential).map(PathBuf::as_path).collect()
    }

    /// Reads the secret and the credential again. Sessions go on.
    pub fn read_again(&self, opening: &Opening) -> Result<()> {
        let secret = self.secret.as_deref().map(NetworkSecret::read).transpose()?;
        let keys =
            self.secret.as_deref().filter(|_| opening.finder.is_some()).map(Keyring::read).transpose()?;
        if self.authority.is_none() {
            opening.links.set_identity(&self.identity(secret.as_ref(), true)?)?;
        }
        secret.iter().for_each(|secret| opening.links.set_signing(secret));
        opening.finder.iter().zip(keys).for_each(|(finder, keys)| finder.set_keys(keys));
        Ok(())
    }

    /// Ways from these, chosen by what came of former sessions.
    fn learnt(&self, source: Source) -> Result<Arc<dyn RouteProvider>> {
        let (history, past) = match self.memory.path() {
            Some(path) => {
                let (history, past) = History::open(&path)?;
                (Some(history), past)
            }
            None if self.memory.no_history => (None, Vec::new()),
            None => {
                tracing::warn!(
                    "there is no home for what came of sessions: nothing is remembered; --history names a file"
                );
                (None, Vec::new())
            }
        };
        Ok(Arc::new(LearntRoutes::new(source, &past, history).context("no way can be chosen")?))
    }

    fn finder(&self, secret: &Path, known: Option<&Endpoint>) -> Result<Arc<Finder>> {
        let directories = self.directories.open()?;
        let finder =
            Arc::new(Finder::new(FinderConfig { directories, ..FinderConfig::new(Keyring::read(secret)?) })?);
        if let Some(known) = known {
            let text = known.to_string();
            let mut addresses = text.to_socket_addrs().with_context(|| format!("`{text}` has no address"))?;
            let target = addresses.next().with_context(|| format!("`{text}` has no address"))?;
            finder.look(target).context("no probe can be sent")?;
        }
        Ok(finder)
    }
}

/// A share of packets that are lost. A bare number is taken as it stands, unless it looks as if a percentage were meant.
pub fn loss(text: &str) -> Result<f64, String> {
    let share = shorthaul_link::parse_probability(text).map_err(|error| error.to_string())?;
    let bare = text.trim().parse::<f64>().is_ok();
    if bare && share >= 0.05 {
        let percent = share * 100.0;
        return Err(format!(
            "`{text}` could be {text} % or {percent} %: write \"{text}%\" or \"{percent}%\""
        ));
    }
    Ok(share)
}
