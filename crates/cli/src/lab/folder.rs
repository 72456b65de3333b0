//! What a lab has in the file system while it is there.
use anyhow::{Context as _, Result};
use shorthaul_lab::{Host, Privilege, Topology};
use shorthaul_relay::NetworkSecret;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The variable that names the file of the secret of the lab's relay network.
const SECRET: &str = "SHORTHAUL_SECRET";

/// A folder for the secret of the relay network that the lab's nodes may be, and for ways into its hosts.
/// Vanishes with this value; who kills the process leaves a few small files.
pub struct Folder {
    path: PathBuf,
    /// The directory of this program.
    programs: Option<PathBuf>,
}

impl Folder {
    pub fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("shorthaul-lab-{}", std::process::id()));
        let cannot = || format!("cannot make {}", path.display());
        DirBuilder::new().mode(0o700).create(&path).with_context(cannot)?;
        let folder = Folder { path, programs: std::env::current_exe()?.parent().map(Path::to_owned) };
        let text = NetworkSecret::generate()?.to_text();
        let secret = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.secret());
        secret.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| folder.cannot_write())?;
        Ok(folder)
    }

    fn cannot_write(&self) -> String {
        format!("cannot write into {}", self.path.display())
    }

    /// The file with the secret.
    pub fn secret(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// Lets the lab's programs find the secret, and this program first.
    pub fn tell(&self, topology: &mut Topology) -> Result<()> {
        let former = std::env::var_os("PATH").unwrap_or_default();
        let all = self.programs.iter().cloned().chain(std::env::split_paths(&former));
        topology.environment.insert("PATH".into(), std::env::join_paths(all)?);
        topology.environment.insert(SECRET.into(), self.secret().into());
        Ok(())
    }

    /// Makes a program that runs others, or a shell, in a host, from any terminal of this machine.
    pub fn way_into(&self, host: &Host, privilege: Privilege) -> Result<PathBuf> {
        let [network, mounts] = host.namespace_files();
        let mut script = String::from("#!/bin/sh\n");
        writeln!(script, "# Runs a program, or a shell, in the host `{}` of a lab.", host.name())?;
        writeln!(script, "export {SECRET}={}", quoted(&self.secret()))?;
        if let Some(programs) = &self.programs {
            writeln!(script, "PATH={}:$PATH", quoted(programs))?;
        }
        writeln!(script, "[ $# -gt 0 ] || set -- \"${{SHELL:-/bin/sh}}\"")?;
        let user = match privilege {
            Privilege::Capable => String::new(),
            Privilege::UserNamespace => {
                format!(" --user=/proc/{}/ns/user --preserve-credentials", std::process::id())
            }
        };
        // Whoever enters other mounts begins at their root.
        writeln!(
            script,
            "exec nsenter{user} --net={} --mount={} sh -c 'cd \"$0\" && exec \"$@\"' \"$PWD\" \"$@\"",
            network.display(),
            mounts.display()
        )?;
        let path = self.path.join(host.name());
        fs::write(&path, script).with_context(|| self.cannot_write())?;
        fs::set_permissions(&path, Permissions::from_mode(0o700)).with_context(|| self.cannot_write())?;
        Ok(path)
    }

    /// A command as one would type it outside of the lab's own environment.
    pub fn spelt_out(&self, command: &str) -> String {
        command.replace(&format!("${SECRET}"), &self.secret().display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
