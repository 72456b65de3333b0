//! What a confined process may still do. It is this one: alone in its program, for there is no way back.
use shorthaul_os::confine::{Confined, Confinement, Needs, Sockets};
use shorthaul_os::{Arena, Layout, Netlink, netlink};
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

fn last_error() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

#[test]
fn a_process_that_reads_packets_can_do_nothing_else() {
    let folder = std::env::temp_dir().join(format!("shorthaul-confined-{}", std::process::id()));
    let [own, read, other] = ["own", "read", "other"].map(|name| folder.join(name));
    for path in [&own, &read, &other] {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("file"), "there").unwrap();
    }
    let mut kept = fs::File::open(other.join("file")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // What outlives a crash takes room while the gateway works.
    let stored =
        fs::File::options().read(true).write(true).create_new(true).open(own.join("stored")).unwrap();
    let (_records, buffers) = Arena::create(stored, Layout { records: 1 << 20, buffers: 4 << 20 }).unwrap();
    let (there, _here) = UnixStream::pair().unwrap();

    let (readable, writable) = ([read.clone()], [own.clone()]);
    let needs = Needs { readable: &readable, writable: &writable, sockets: Sockets::Netlink };
    let confined = Confinement::default().apply(&needs).unwrap();
    assert_eq!(confined, Confined { user: false, capabilities: true, files: true, calls: true });

    // On a thread that comes later, too.
    for _ in 0..2 {
        let tried = || {
            let refused =
                |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            refused(fs::read("/etc/shadow").unwrap_err());
            refused(fs::read("/etc/passwd").unwrap_err());
            refused(fs::read(other.join("file")).unwrap_err());
            refused(fs::write(read.join("file"), "changed").unwrap_err());
            refused(fs::write(folder.join("new"), "new").unwrap_err());
            refused(TcpStream::connect(listener.local_addr().unwrap()).unwrap_err());
            refused(UdpSocket::bind("127.0.0.1:0").unwrap_err());
            refused(Command::new("/bin/true").status().unwrap_err());
            // Nor capabilities again in a namespace, nor the firewall, nor signals to others.
            // SAFETY: it is refused; or else there is another process of this memory, which ends.
            let cloned =
                unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0) };
            if cloned == 0 {
                // SAFETY: it ends this process.
                unsafe { libc::_exit(1) };
            }
            assert_eq!((cloned, last_error()), (-1, Some(libc::EPERM)));
            // SAFETY: its arguments are looked at only if there is such a call.
            let cloned = unsafe { libc::syscall(libc::SYS_clone3, 0, 0) };
            assert_eq!((cloned, last_error()), (-1, Some(libc::ENOSYS)));
            // SAFETY: no memory of ours is concerned.
            let firewall = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER) };
            assert_eq!((firewall, last_error()), (-1, Some(libc::EPERM)));
            // SAFETY: signal 0 only asks.
            let signalled = unsafe { libc::syscall(libc::SYS_tgkill, 1, 1, 0) };
            assert_eq!((signalled, last_error()), (-1, Some(libc::EPERM)));
            // What it needs.
            fs::read(read.join("file")).unwrap();
            fs::write(own.join("new"), "new").unwrap();
            fs::rename(own.join("new"), own.join("newer")).unwrap();
            fs::remove_file(own.join("newer")).unwrap();
            Netlink::open().unwrap();
            assert!(netlink::interfaces().unwrap().iter().any(|interface| interface.0 == "lo"));
        };
        tried();
        std::thread::scope(|scope| scope.spawn(tried).join()).unwrap();
    }
    // And descriptors that it has.
    assert!(buffers.chunk(2_048).is_some());
    let mut text = String::new();
    kept.read_to_string(&mut text).unwrap();
    assert_eq!(text, "there");
    there.set_nonblocking(true).unwrap();
    drop(listener);
    for path in [&own, &read, &other] {
        let _ = fs::remove_dir_all(path);
    }
}
