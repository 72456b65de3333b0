//! `shorthaul generate`: what packages have beside the program, made from it.
use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::path::PathBuf;

/// Write manual pages, completions, example configurations and the reference into a directory, for packages and docs
#[derive(clap::Args)]
pub struct Args {
    /// The directory; it gets `man`, `completions`, `etc` and `reference`
    directory: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = |name: &str| -> anyhow::Result<PathBuf> {
        let path = args.directory.join(name);
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    };
    let mut command = crate::groups::grouped(crate::Cli::command());
    let completions = folder("completions")?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "shorthaul", &completions)?;
    }
    let man = folder("man")?;
    clap_mangen::generate_to(crate::Cli::command(), man)?;
    let etc = folder("etc")?;
    std::fs::write(etc.join("gateway.toml"), crate::config::gateway_file(&crate::config::Args::default()))?;
    let reference = folder("reference")?;
    for (name, text) in crate::reference::documents(crate::Cli::command()) {
        std::fs::write(reference.join(name), text)?;
    }
    Ok(())
}
