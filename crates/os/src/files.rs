//! Files and sockets that only their owner may use, made where nobody else has put something.
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// What statfs(2) says of a bpffs.
const BPF_FS: i64 = 0xcafe_4a11;

/// Sees to it that there is a bpffs at `target`, where maps of the kernel outlive processes.
///
/// # Errors
/// The kernel's: there is none, and it may not be mounted.
pub fn mount_bpf(target: &Path) -> io::Result<()> {
    if rustix::fs::statfs(target)?.f_type as i64 == BPF_FS {
        return Ok(());
    }
    crate::namespace::mount_new(c"bpf", target)
}

/// Opens a file to read and write, or makes it, for its owner alone. A symbolic link is not followed.
///
/// # Errors
/// The kernel's; `ELOOP` where a link stands.
pub fn open_privately(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    // One that was there may have been made by whoever was less careful.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Whether this process may make files in a directory.
///
/// # Errors
/// It may not, and why: it is no directory, is not there, is another user's, or its file system is not to be written to.
pub fn may_make_files(directory: &Path) -> io::Result<()> {
    if !std::fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// A new, empty file for its owner alone, in place of what may be there; a link that is, goes, and not what it leads to.
///
/// # Errors
/// The kernel's.
pub fn create_privately(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// The length of a file that is this user's, and that nobody else may write.
///
/// # Errors
/// It is somebody else's, is none that holds bytes, or others may write it.
pub fn owned_by_us(file: &File) -> io::Result<u64> {
    let stat = rustix::fs::fstat(file)?;
    let ours = stat.st_uid == rustix::process::geteuid().as_raw();
    let plain = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
    if ours && plain && stat.st_mode & 0o022 == 0 {
        return Ok(u64::try_from(stat.st_size).unwrap_or(0));
    }
    let why = "it is no file of this user's alone: remove it if nobody needs it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// A socket that only its owner may connect to.
///
/// # Errors
/// The kernel's.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let former = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(former);
    listener
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn whether_files_can_be_made_is_known_before() {
        may_make_files(&std::env::temp_dir()).unwrap();
        let why = |path: &str| may_make_files(Path::new(path)).unwrap_err().kind();
        assert_eq!(why("/nonexistent"), io::ErrorKind::NotFound);
        assert_eq!(why("/dev/null"), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn links_are_not_followed_and_nobody_else_may_read() {
        let folder = std::env::temp_dir().join(format!("shorthaul-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (victim, link) = (folder.join("victim"), folder.join("link"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(open_privately(&link).is_err());
        create_privately(&link).unwrap().write_all(b"ours").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "ours");
        for file in [&link, &victim] {
            drop(open_privately(file).unwrap());
            assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
