//! Credentials of an authority: who is who, who is revoked, and two authorities at once.
use crate::place::{Place, read_all};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject as _;
use shorthaul_relay::authority::{Authority, Role};
use shorthaul_relay::{
    Credentials, Failure, FixedRoute, Identity, Node, NodeConfig, OpenError, Protection, Route, Session,
};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use tokio_rustls::TlsAcceptor;

/// A folder with an authority, and what it has issued.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("shorthaul-authority-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Authority::create(&path.join("authority")).unwrap();
        std::fs::write(path.join("settings"), "").unwrap();
        Folder(path)
    }

    fn authority(&self) -> Authority {
        Authority::open(&self.0.join("authority")).unwrap()
    }

    /// Issues a credential as a file; its serial number.
    fn issue(&self, role: Role, name: &str, file: &str) -> String {
        let hosts = vec!["127.0.0.1".to_owned()];
        let issued = self.authority().issue(role, name, &hosts, 1).unwrap();
        // As people replace files.
        std::fs::write(self.0.join("replacement"), issued.pem).unwrap();
        std::fs::rename(self.0.join("replacement"), self.0.join(file)).unwrap();
        issued.serial
    }

    fn identity(&self, file: &str) -> Identity {
        Identity::from_credential(&self.0.join(file)).unwrap()
    }

    fn place(&self) -> Place {
        Place::with(1, Protection::Tls, |config| {
            config.secret = None;
            config.credential = Some(self.0.join("node"));
            config.settings = Some(self.0.join("settings"));
            config.more.allow.clear();
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(place: &Place, identity: Identity, to: &TcpListener) -> Result<Session, OpenError> {
    let by = Arc::new(FixedRoute::only(Route::via(place.hops())));
    place.open_on(by, Credentials::None, identity, to.local_addr().unwrap())
}

#[test]
fn each_has_an_account_and_ends_when_it_is_revoked() {
    let folder = Folder::new("revoked");
    folder.issue(Role::Node, "paris", "node");
    let serial = folder.issue(Role::Client, "alice", "alice");
    folder.issue(Role::Client, "bob", "bob");
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let alice = open(&place, folder.identity("alice"), &server).unwrap();
    let (of_alice, _) = server.accept().unwrap();
    let _bob = open(&place, folder.identity("bob"), &server).unwrap();
    let (mut of_bob, _) = server.accept().unwrap();
    let users = place.nodes[0].snapshot().users;
    assert_eq!((users["alice"].sessions, users["bob"].sessions), (1, 1));
    std::fs::write(folder.0.join("settings"), format!("revoked = [\"{serial}\"]\n")).unwrap();
    let since = Instant::now();
    place.nodes[0].reload().unwrap();
    assert_eq!(read_all(&of_alice).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    drop(alice);
    let error = open(&place, folder.identity("alice"), &server).unwrap_err();
    assert!(
        error.failure() == Failure::RequestDenied && error.to_string().contains("was revoked"),
        "{error}"
    );
    // Bob goes on.
    of_bob.set_nonblocking(true).unwrap();
    assert_eq!(of_bob.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // A user of that name has limits, and needs no token.
    std::fs::write(folder.0.join("settings"), "[users.bob]\nsessions = 0\n").unwrap();
    place.nodes[0].reload().unwrap();
    let error = open(&place, folder.identity("bob"), &server).unwrap_err();
    assert_eq!(error.failure(), Failure::ConnectionLimit, "{error}");
    assert!(folder.authority().issued().unwrap().contains(&format!("{serial} client alice ")));
}

#[test]
fn who_is_revoked_keeps_no_connections_ready() {
    let folder = Folder::new("ready");
    folder.issue(Role::Node, "paris", "node");
    folder.issue(Role::Client, "alice", "alice");
    folder.issue(Role::Client, "bob", "bob");
    std::fs::write(folder.0.join("settings"), "revoked = [\"alice\"]\n").unwrap();
    let place = Place::with(1, Protection::Tls, |config| {
        config.secret = None;
        config.credential = Some(folder.0.join("node"));
        config.settings = Some(folder.0.join("settings"));
        config.more.allow.clear();
        (config.request_deadline, config.silence) = (Duration::from_millis(300), Duration::from_secs(600));
    });
    let node = place.hops().remove(0);
    let keep = |file: &str| {
        let timeout = Duration::from_secs(60);
        let links = place.links_keeping(1, Credentials::None, folder.identity(file), timeout);
        place.run(links.keep_ready(&node));
        links
    };
    let _of_bob = keep("bob");
    let _of_alice = keep("alice");
    place.until("alice's is ended", |snapshot| snapshot.connections_abandoned == 1);
    // Bob's was there before, and is still.
    assert_eq!(place.nodes[0].snapshot().connections_accepted, 2);
    assert_eq!(place.nodes[0].snapshot().connections_abandoned, 1);
}

#[test]
fn capitals_make_no_difference_to_who_is_revoked() {
    let folder = Folder::new("capitals");
    folder.issue(Role::Node, "Paris", "node");
    folder.issue(Role::Client, "alice", "alice");
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap().into();
    let links = place.links_keeping(0, Credentials::None, folder.identity("alice"), Duration::from_secs(60));
    let client = place.client_with(&links);
    place.run(client.open(&target)).unwrap();
    links.set_revoked(&["pARIS".to_owned()]);
    let error = place.run(client.open(&target)).map(drop).unwrap_err();
    assert_eq!(error.failure(), Failure::TlsCertificate, "{error}");
    assert!(error.to_string().contains("was revoked"), "{error}");
}

#[test]
fn names_that_stand_for_others_are_not_issued() {
    let folder = Folder::new("reserved");
    for name in ["members", "Neighbours", "node.shorthaul"] {
        for role in [Role::Node, Role::Client] {
            let error = folder.authority().issue(role, name, &[], 1).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("stands for those"), "{error}");
        }
    }
    assert_eq!(folder.authority().issued().unwrap(), "");
}

#[test]
fn a_certificate_that_has_expired_opens_nothing_by_connections_of_before() {
    let folder = Folder::new("expired");
    let file = |name: &str| folder.0.join(name);
    let named = |name: &str| {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let (mut of_all, key_of_all) = (named("all"), KeyPair::generate().unwrap());
    of_all.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(file("all.pem"), of_all.self_signed(&key_of_all).unwrap().pem()).unwrap();
    let issuer = Issuer::new(of_all, key_of_all);
    let until = OffsetDateTime::now_utc() + time::Duration::seconds(3);
    for (name, ends) in [("node1", None), ("alice", Some(until))] {
        let (mut params, key) = (named(name), KeyPair::generate().unwrap());
        params.not_after = ends.unwrap_or(params.not_after);
        std::fs::write(file(&format!("{name}.pem")), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        std::fs::write(file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let place = Place::with(1, Protection::Tls, |config| {
        config.secret = None;
        config.certificate = Some((file("node1.pem"), file("node1.key")));
        config.authority = Some(file("all.pem"));
        config.more.allow.clear();
    });
    let own = (file("alice.pem"), file("alice.key"));
    let identity = Identity::from_files(Some((&own.0, &own.1)), Some(&file("all.pem"))).unwrap();
    let links = place.links_keeping(2, Credentials::None, identity, Duration::from_secs(60));
    place.run(links.keep_ready(&place.hops()[0]));
    let client = place.client_with(&links);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = || place.run(client.open(&server.local_addr().unwrap().into())).map(drop);
    open().unwrap();
    // Another connection is there from the beginning, and the certificate is no good any more once its last second is over.
    while OffsetDateTime::now_utc() <= until + time::Duration::SECOND {
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = open().unwrap_err();
    assert_eq!(error.failure(), Failure::RequestDenied, "{error}");
    assert!(error.to_string().contains("not believed any more"), "{error}");
}

#[test]
fn a_client_is_no_node_and_a_stranger_nobody() {
    let folder = Folder::new("roles");
    folder.issue(Role::Node, "paris", "node");
    folder.issue(Role::Client, "mallory", "mallory");
    folder.issue(Role::Client, "alice", "alice");
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    // Somebody's own program takes no care of what its certificate is for.
    let poses = TcpListener::bind("127.0.0.1:0").unwrap();
    let route = Route::via(vec![poses.local_addr().unwrap().into()]);
    let acceptor = TlsAcceptor::from(folder.identity("mallory").server().unwrap().unwrap());
    place.spawn(async move {
        poses.set_nonblocking(true).unwrap();
        let (socket, _) = tokio::net::TcpListener::from_std(poses).unwrap().accept().await.unwrap();
        acceptor.accept(socket).await.map(drop)
    });
    let by = Arc::new(FixedRoute::only(route));
    let opened = place.open_on(by, Credentials::None, folder.identity("alice"), server.local_addr().unwrap());
    let error = opened.unwrap_err();
    assert_eq!(error.failure(), Failure::TlsCertificate, "{error}");
    let other = Folder::new("others");
    other.issue(Role::Client, "alice", "alice");
    let error = open(&place, other.identity("alice"), &server).unwrap_err();
    assert_eq!(error.failure(), Failure::TlsCertificate, "{error}");
    assert!(error.to_string().contains("another authority"), "{error}");
}

/// A credential as an authority issues it, good from one day to another, counted from today.
fn issue_between(folder: &Folder, file: &str, days: [i64; 2]) {
    let (mut of_all, key_of_all) =
        (CertificateParams::new(Vec::new()).unwrap(), KeyPair::generate().unwrap());
    of_all.distinguished_name.push(DnType::CommonName, "all");
    of_all.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = of_all.self_signed(&key_of_all).unwrap().pem();
    let issuer = Issuer::new(of_all, key_of_all);
    let (mut params, key) =
        (CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap(), KeyPair::generate().unwrap());
    params.distinguished_name.push(DnType::CommonName, file);
    let day = |days| OffsetDateTime::now_utc() + time::Duration::days(days);
    (params.not_before, params.not_after) = (day(days[0]), day(days[1]));
    let pem = key.serialize_pem() + &params.signed_by(&key, &issuer).unwrap().pem() + &root;
    std::fs::write(folder.0.join(file), pem).unwrap();
}

#[test]
fn a_node_does_not_start_or_go_on_with_what_nobody_would_believe() {
    let folder = Folder::new("unbelievable");
    let bind = |file: &str| {
        let config = NodeConfig {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            credential: Some(folder.0.join(file)),
            ..NodeConfig::default()
        };
        Node::bind(config).map(drop)
    };
    folder.issue(Role::Client, "alice", "alice");
    issue_between(&folder, "past", [-9, -2]);
    issue_between(&folder, "future", [2, 9]);
    issue_between(&folder, "present", [-9, 9]);
    for (file, why) in [("alice", "a client's"), ("past", "expired on"), ("future", "is good from")] {
        let error = bind(file).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(file), "{file}: {error}");
    }
    bind("present").unwrap();
    // What it is told to read again is looked at in the same way, and the one that it has stays; the settings hold all the same.
    folder.issue(Role::Node, "paris", "node");
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::rename(folder.0.join("past"), folder.0.join("node")).unwrap();
    folder.issue(Role::Client, "bob", "bob");
    std::fs::write(folder.0.join("settings"), "revoked = [\"bob\"]\n").unwrap();
    place.nodes[0].reload().unwrap();
    open(&place, folder.identity("alice"), &server).unwrap();
    let error = open(&place, folder.identity("bob"), &server).unwrap_err();
    assert_eq!(error.failure(), Failure::RequestDenied, "{error}");
}

#[test]
fn who_has_an_expired_certificate_hears_so_each_time() {
    let folder = Folder::new("late");
    folder.issue(Role::Node, "paris", "node");
    issue_between(&folder, "past", [-9, -2]);
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        let error = open(&place, folder.identity("past"), &server).unwrap_err();
        assert_eq!(error.failure(), Failure::TlsCertificate, "{error}");
        assert!(error.to_string().contains("our certificate expired on"), "{error}");
    }
    assert_eq!(place.nodes[0].snapshot().connections_accepted, 0, "nobody needs to be asked for that");
}

#[test]
fn who_is_not_believed_hears_so_also_in_the_midst_of_what_it_says() {
    let (folder, other) = (Folder::new("midst"), Folder::new("midst-others"));
    folder.issue(Role::Node, "paris", "node");
    // It believes the node, and the node does not believe it.
    other.issue(Role::Client, "alice", "alice");
    let mut pem = std::fs::read_to_string(other.0.join("alice")).unwrap();
    pem += &std::fs::read_to_string(folder.0.join("authority/authority.pem")).unwrap();
    std::fs::write(folder.0.join("alice"), pem).unwrap();
    let place = folder.place();
    let links = place.links_keeping(0, Credentials::None, folder.identity("alice"), Duration::from_secs(60));
    let client = place.client_with(&links);
    // More than goes out at once: the node ends the connection before all is written.
    let (words, target) = (vec![7; 8 << 20], "127.0.0.1:9".parse().unwrap());
    for _ in 0..20 {
        let opened = client.open_saying(&target, &words);
        let error = place.run(opened).map(drop).unwrap_err();
        assert_eq!(error.failure(), Failure::TlsCertificate, "{error}");
        assert!(error.to_string().contains("does not believe our certificate"), "{error}");
    }
}

#[test]
fn only_a_node_is_believed_where_a_session_comes_from() {
    let folder = Folder::new("believed");
    folder.issue(Role::Node, "tokyo", "tokyo");
    folder.issue(Role::Client, "alice", "alice");
    for (file, is_node) in [("tokyo", true), ("alice", false)] {
        let pem = std::fs::read(folder.0.join(file)).unwrap();
        let certificates: Result<Vec<_>, _> =
            rustls_pki_types::CertificateDer::pem_slice_iter(&pem).collect();
        let holder = shorthaul_relay::authority::Holder::of(&certificates.unwrap()[0]).unwrap();
        assert_eq!((holder.name.as_str(), holder.is_node), (file, is_node));
    }
}

#[test]
fn two_authorities_are_valid_at_once_and_no_session_is_lost() {
    let folder = Folder::new("rotated");
    folder.issue(Role::Node, "paris", "node");
    folder.issue(Role::Client, "alice", "old");
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let open_sessions: Vec<(Session, TcpStream)> = (0..10)
        .map(|_| (open(&place, folder.identity("old"), &server).unwrap(), server.accept().unwrap().0))
        .collect();
    folder.authority().rotate().unwrap();
    folder.issue(Role::Client, "alice", "new");
    // In any order: new clients at old nodes, and both at new ones.
    open(&place, folder.identity("new"), &server).unwrap();
    folder.issue(Role::Node, "paris", "node");
    place.nodes[0].reload().unwrap();
    for file in ["old", "new"] {
        open(&place, folder.identity(file), &server).unwrap();
    }
    for (_session, mut far) in open_sessions {
        far.write_all(b"x").unwrap();
        far.set_nonblocking(true).unwrap();
        assert_eq!(far.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it is open");
    }
    assert_eq!(place.nodes[0].snapshot().sessions_revoked, 0);
}

#[test]
fn credentials_are_rotated_under_load_and_no_session_is_lost_or_refused() {
    use std::sync::RwLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let folder = Folder::new("load");
    folder.issue(Role::Node, "paris", "node");
    folder.issue(Role::Client, "alice", "client0");
    let place = folder.place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in server.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &socket, &mut &socket));
        }
    });
    let open = |file: &str| place.forward_as(Credentials::None, folder.identity(file), target);
    let echoes = |mut session: &TcpStream| -> std::io::Result<()> {
        let mut heard = [0; 10_000];
        session.write_all(&[7; 10_000])?;
        session.read_exact(&mut heard)?;
        assert!(heard.iter().all(|byte| *byte == 7));
        Ok(())
    };
    // One that goes on through all of it, and the number of the newest credential; those before it are good for one round more.
    let through_all = open("client0");
    let (newest, opened) = (RwLock::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = opened
            .iter()
            .enumerate()
            .map(|(age, opened)| {
                let (open, echoes, newest, is_over) = (&open, &echoes, &newest, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let newest = newest.read().unwrap();
                        let file = format!("client{}", usize::saturating_sub(*newest, age));
                        echoes(&open(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                        drop(newest);
                        opened.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let began = Instant::now();
        let all_open_more = || {
            let before = opened.each_ref().map(|count| count.load(Ordering::Relaxed));
            let more = || opened.iter().zip(before).all(|(now, then)| now.load(Ordering::Relaxed) > then + 2);
            while !more() && !clients.iter().any(|client| client.is_finished()) {
                assert!(began.elapsed() < Duration::from_secs(120), "nothing moves");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        for number in 1..=4 {
            all_open_more();
            folder.authority().rotate().unwrap();
            folder.issue(Role::Client, "alice", &format!("client{number}"));
            *newest.write().unwrap() = number;
            all_open_more();
            folder.issue(Role::Node, "paris", "node");
            place.nodes[0].reload().unwrap();
            echoes(&through_all).unwrap();
        }
        all_open_more();
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    echoes(&through_all).unwrap();
    let snapshot = place.nodes[0].snapshot();
    assert_eq!((snapshot.sessions_revoked, snapshot.sessions_lost), (0, 0), "{snapshot:?}");
}

#[test]
fn a_credential_has_remarks_in_all_kinds_of_letters() {
    let folder = std::env::temp_dir().join(format!("shorthaul-remarks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).unwrap().pem();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["a.example".into()]).unwrap();
    let own = own.signed_by(&key, &rcgen::Issuer::new(params, authority)).unwrap().pem();
    // In Latin-1, as `openssl pkcs12` writes them.
    let remark = b"Bag Attributes\n    friendlyName: M\xfcnchen\n".to_vec();
    let (path, chain) = (folder.join("key.pem"), folder.join("chain.pem"));
    std::fs::write(&path, [remark, (key.serialize_pem() + &own + &root).into_bytes()].concat()).unwrap();
    std::fs::write(&chain, own).unwrap();
    Identity::from_credential(&path).unwrap();
    Identity::from_files(Some((&chain, &path)), None).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
