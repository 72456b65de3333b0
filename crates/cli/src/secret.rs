//! `shorthaul secret`: what the nodes and clients of a network share, or what an authority issues to each of them.
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use shorthaul_relay::NetworkSecret;
use shorthaul_relay::authority::{Authority, Role};

use crate::ending::asked;

/// Make a network's secret, or issue credentials
///
/// A secret is one file: copy it to each node and client. Where some of them are not to be trusted as much as all the others,
/// an authority gives each a credential of its own, with a name and an end.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// Where to write it; only its owner can read it
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Print the certificate of its authority instead, in PEM, for `curl --proxy-cacert`
    #[arg(long)]
    authority: bool,
    /// Exchange the secret of a network in use for another one, step by step; copy the file to all nodes, responders, gateways that
    /// answer probes, and clients after each, and have them read it again (SIGHUP)
    #[arg(long, value_name = "STEP", conflicts_with = "authority")]
    exchange: Option<Step>,
    #[command(subcommand)]
    of_authority: Option<OfAuthority>,
}

/// A step of an exchange of secrets. None of them breaks anything while all have both.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Step {
    /// Another secret is believed, too.
    Announce,
    /// The other one is used, and the first one believed.
    Switch,
    /// Only the one that is used is believed.
    Retire,
}

/// What is done with an authority.
#[derive(clap::Subcommand)]
enum OfAuthority {
    /// Begin an authority in a new folder, which stays where it is; or another in its place
    Authority {
        /// Its folder
        folder: PathBuf,
        /// Begin another: credentials that it issues believe both, and theirs are valid with all who have one
        #[arg(long)]
        rotate: bool,
    },
    /// Issue a credential: one file, for `--credential` of a node or a client
    Issue {
        /// The authority's folder
        folder: PathBuf,
        /// A node of this name
        #[arg(long, value_name = "NAME", conflicts_with = "client", required_unless_present = "client")]
        node: Option<String>,
        /// A client of this name: its account is called so
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
        /// A name or address that the node is reached by (repeat for several), besides its own name
        #[arg(long, value_name = "HOST", requires = "node")]
        reached_by: Vec<String>,
        /// How long it is good
        #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Where to write it; only its owner can read it
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// List what was issued, with the serial numbers by which it can be revoked
    List {
        /// The authority's folder
        folder: PathBuf,
        /// Print JSON and nothing else
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if let Some(of_authority) = &args.of_authority {
        return run_authority(of_authority);
    }
    let Some(file) = &args.file else { return Err(asked!("say which FILE").into()) };
    if args.authority {
        print!("{}", NetworkSecret::read(file)?.authority_pem()?);
        return Ok(());
    }
    if let Some(step) = args.exchange {
        return exchange(file, step);
    }
    write_secret(file, &NetworkSecret::generate()?.to_text())?;
    println!("{} holds a new secret: copy it to each node and client, and to nobody else", file.display());
    Ok(())
}

fn exchange(file: &Path, step: Step) -> Result<()> {
    let mut secret = NetworkSecret::read(file)?;
    let done = match step {
        Step::Announce => secret
            .announce()
            .map(|()| "believes two secrets, and uses the one that it used; next: --exchange switch"),
        Step::Switch => {
            secret.switch().map(|()| "uses the other one, and believes both; next: --exchange retire")
        }
        Step::Retire => secret.retire().map(|()| "holds the one secret that is used now"),
    };
    let done = done.map_err(|error| asked!("{}: {error}", file.display()))?;
    // Nobody finds half of it, and the old one stays until the new one is there.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = tempfile::NamedTempFile::new_in(folder).and_then(|mut new| {
        new.write_all(secret.to_text().as_bytes())?;
        Ok(new)
    });
    let new = new.with_context(|| format!("cannot write in {}", folder.display()))?;
    new.persist(file).with_context(|| format!("cannot replace {}", file.display()))?;
    println!(
        "{} {done}, when all nodes and clients have this file and have read it again (SIGHUP)",
        file.display()
    );
    Ok(())
}

/// One that is in use already is never written over: `remedy` says what to do.
fn create_anew(path: &Path, remedy: &str) -> Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if file.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
        let name = path.display();
        return Err(asked!("{name} is there already, and is kept: it may be in use. {remedy}").into());
    }
    file.with_context(|| format!("cannot write {}", path.display()))
}

fn write_secret(path: &Path, text: &str) -> Result<()> {
    let remedy = format!(
        "`shorthaul secret {} --exchange announce` begins to replace it step by step",
        path.display()
    );
    let mut file = create_anew(path, &remedy)?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn run_authority(what: &OfAuthority) -> Result<()> {
    match what {
        OfAuthority::Authority { folder, rotate: false } => {
            Authority::create(folder)?;
            println!("{} holds a new authority: nothing in it is to be copied", folder.display());
        }
        OfAuthority::Authority { folder, rotate: true } => {
            Authority::open(folder)?.rotate()?;
            println!(
                "{} holds another authority: issue new credentials to nodes first, then to clients; \
                 until the old ones end, both are valid",
                folder.display()
            );
        }
        OfAuthority::Issue { folder, node, client, reached_by, days, to } => {
            let (role, name) = match (node, client) {
                (Some(name), _) => (Role::Node, name),
                (None, Some(name)) => (Role::Client, name),
                (None, None) => return Err(asked!("say --node or --client").into()),
            };
            let mut hosts = reached_by.clone();
            if role == Role::Node && !hosts.contains(name) {
                hosts.push(name.clone());
            }
            let authority = Authority::open(folder)?;
            // What is issued is on record, so there is a place for it before.
            let mut file = create_anew(to, "Write another name with --to, or move it away")?;
            let issued = authority.issue(role, name, &hosts, *days).inspect_err(|_| {
                let _ = std::fs::remove_file(to);
            })?;
            file.write_all(issued.pem.as_bytes())
                .with_context(|| format!("cannot write {}", to.display()))?;
            println!(
                "{} is good until {}; its serial number is {}",
                to.display(),
                issued.until,
                issued.serial
            );
        }
        OfAuthority::List { folder, json } => {
            let issued = Authority::open(folder)?.issued()?;
            match json {
                true => println!("{:#}", as_json(&issued)),
                false => print!("{issued}"),
            }
        }
    }
    Ok(())
}

/// The lines of what was issued: serial number, role, name, last day and hosts.
fn as_json(issued: &str) -> serde_json::Value {
    let row = |line: &str| {
        let mut fields = line.split(' ').map(str::to_owned);
        let [serial, role, name, until, hosts] = [(); 5].map(|()| fields.next().unwrap_or_default());
        let hosts: Vec<&str> = hosts.split(',').filter(|host| !host.is_empty()).collect();
        serde_json::json!({ "serial": serial, "role": role, "name": name, "until": until, "hosts": hosts })
    };
    issued.lines().map(row).collect()
}
