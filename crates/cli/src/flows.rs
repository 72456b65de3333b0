//! `shorthaul flows`: what a running gateway knows.
use shorthaul_dataplane::{Config, Name, control_path};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// List the flows of a running gateway, after the manner of `ss -ti`
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
    /// With --json, only those in so many places of the table, as an object whose `next` says where the others are
    #[arg(long, value_name = "PLACES", requires = "json", conflicts_with_all = ["counters", "workers"])]
    page: Option<usize>,
    /// With --page, where it begins: what the `next` of another page said
    #[arg(long, value_name = "PLACE", requires = "page", default_value_t = 0)]
    from: u64,
    /// The gateway's counters instead
    #[arg(long)]
    counters: bool,
    /// The counters of each of several workers
    #[arg(long, conflicts_with = "counters")]
    workers: bool,
    #[command(flatten)]
    gateway: Running,
}

/// Which gateway is asked.
#[derive(clap::Args)]
pub struct Running {
    /// The gateway's name
    #[arg(long)]
    name: Option<Name>,
    /// The gateway's run directory
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

impl Running {
    fn name(&self) -> Name {
        self.name.clone().unwrap_or_else(|| Config::default().name)
    }

    /// Its control socket.
    pub fn path(&self) -> PathBuf {
        let run_dir = self.run_dir.clone().unwrap_or_else(|| Config::default().run_dir);
        control_path(&run_dir, &self.name().to_string())
    }

    /// Prints its answer.
    pub fn print_answer(&self, request: &str) -> anyhow::Result<()> {
        let (name, path) = (self.name(), self.path());
        let mut stream = UnixStream::connect(&path).map_err(|error| {
            let what = match error.kind() {
                ErrorKind::PermissionDenied => "run it as root, or with sudo".into(),
                _ => remedy(&others(&path)),
            };
            anyhow::anyhow!("no gateway named `{name}` answers at {}: {error}; {what}", path.display())
        })?;
        stream.write_all(request.as_bytes())?; // in one piece: the gateway reads once
        // As it comes: of a million flows it is much.
        std::io::copy(&mut stream, &mut std::io::stdout().lock())?;
        Ok(())
    }
}

/// The names of other gateways whose sockets are beside this one.
fn others(path: &Path) -> Vec<String> {
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let sockets = beside.into_iter().flatten().flatten().map(|entry| entry.path());
    let sockets =
        sockets.filter(|socket| socket != path && socket.extension().is_some_and(|end| end == "sock"));
    let mut names: Vec<String> =
        sockets.filter_map(|socket| Some(socket.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

fn remedy(others: &[String]) -> String {
    match others {
        [] => "none seems to run: `systemctl status 'shorthaul-gateway@*'` says more of a service".into(),
        names => format!("there are: {}; choose one with --name", names.join(", ")),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(page) = args.page {
        return args.gateway.print_answer(&format!("flows-json {} {page}", args.from));
    }
    args.gateway.print_answer(match (args.json, args.counters, args.workers) {
        (true, _, true) => "workers-json",
        (false, _, true) => "workers",
        (true, true, false) => "counters-json",
        (true, false, false) => "flows-json",
        (false, true, false) => "counters",
        (false, false, false) => "flows",
    })
}
