//! `shorthaul flows`: what a running gateway knows.
use anyhow::Context;
use shorthaul_dataplane::{Config, Name, control_path};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// List the flows of a running gateway, after the manner of `ss -ti`
#[derive(clap::Args)]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The gateway's counters instead
    #[arg(long)]
    counters: bool,
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
    /// Prints its answer.
    pub fn print_answer(&self, request: &str) -> anyhow::Result<()> {
        let defaults = Config::default();
        let name = self.name.clone().unwrap_or(defaults.name);
        let path = control_path(self.run_dir.as_deref().unwrap_or(&defaults.run_dir), &name.to_string());
        let mut stream = UnixStream::connect(&path)
            .with_context(|| format!("no gateway named `{name}` answers at {}", path.display()))?;
        stream.write_all(request.as_bytes())?; // in one piece: the gateway reads once
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        print!("{text}");
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.gateway.print_answer(match (args.json, args.counters) {
        (true, true) => "counters-json",
        (true, false) => "flows-json",
        (false, true) => "counters",
        (false, false) => "flows",
    })
}
