//! `shorthaul secret`: what the nodes and clients of a network share.
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use shorthaul_relay::NetworkSecret;

/// Make a network's secret: copy the file to each node and client
#[derive(clap::Args)]
pub struct Args {
    /// Where to write it; only its owner can read it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the certificate of its authority instead, in PEM, for `curl --proxy-cacert`
    #[arg(long)]
    authority: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.authority {
        print!("{}", NetworkSecret::read(&args.file)?.authority_pem()?);
        return Ok(());
    }
    let secret = NetworkSecret::generate()?;
    // One that is in use already is never written over.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&args.file);
    file.and_then(|mut file| file.write_all(secret.to_text().as_bytes()))
        .with_context(|| format!("cannot write {}", args.file.display()))?;
    println!(
        "{} holds a new secret: copy it to each node and client, and to nobody else",
        args.file.display()
    );
    Ok(())
}
