//! The secret of a network in use is exchanged for another one: step by step, in any order, under load.
use crate::place::Place;
use shorthaul_relay::{Credentials, Failure, NetworkSecret, NodeConfig, Protection};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What the file holds before the exchange, and after each step.
fn steps() -> Vec<NetworkSecret> {
    let mut secret = NetworkSecret::generate().unwrap();
    let mut all = vec![secret.clone()];
    for step in [NetworkSecret::announce, NetworkSecret::switch, NetworkSecret::retire] {
        step(&mut secret).unwrap();
        all.push(secret.clone());
    }
    all
}

/// Files of two nodes, each its own.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("shorthaul-secrets-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Files(folder)
    }

    fn of(&self, node: &str) -> PathBuf {
        self.0.join(node)
    }

    fn write(&self, node: &str, secret: &NetworkSecret) {
        std::fs::write(self.of("new"), secret.to_text()).unwrap();
        std::fs::rename(self.of("new"), self.of(node)).unwrap();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sends back what it hears.
fn echo() -> SocketAddr {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    thread::spawn(move || {
        for socket in server.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut &socket, &mut &socket));
        }
    });
    address
}

fn echoes(mut session: &TcpStream) -> std::io::Result<()> {
    let mut heard = [0; 10_000];
    session.write_all(&[7; 10_000])?;
    session.read_exact(&mut heard)?;
    assert!(heard.iter().all(|byte| *byte == 7));
    Ok(())
}

fn is_exchanged_under_load(protection: Protection, name: &str) {
    let (files, steps) = (Files::new(name), steps());
    for node in ["node1", "node2"] {
        files.write(node, &steps[0]);
    }
    let place = Place::with(2, protection, |config: &mut NodeConfig| {
        config.secret = config.name.as_deref().map(|name| files.of(name));
        config.more.allow.clear();
    });
    let target = echo();
    let open = |step: usize| {
        let credentials = Credentials::Secret(steps[step].clone());
        place.forward_as(credentials, steps[step].identity(&[]).unwrap(), target)
    };
    // One that goes on through all of it; and some that come and go, of which every other one is a step behind the newest client.
    let through_all = open(0);
    echoes(&through_all).unwrap();
    let (newest, opened) = (RwLock::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = opened
            .iter()
            .enumerate()
            .map(|(age, opened)| {
                let (open, newest, is_over) = (&open, &newest, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let newest = newest.read().unwrap();
                        let step = usize::saturating_sub(*newest, age);
                        echoes(&open(step)).unwrap_or_else(|error| panic!("after step {step}: {error}"));
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
                thread::sleep(Duration::from_millis(5));
            }
        };
        for (step, secret) in steps.iter().enumerate().skip(1) {
            // Clients first, then the nodes, one after the other, so that each meets those that are a step behind; but not two.
            *newest.write().unwrap() = step;
            all_open_more();
            for (at, node) in ["node2", "node1"].into_iter().enumerate() {
                files.write(node, secret);
                place.nodes[1 - at].reload().unwrap();
                all_open_more();
            }
            echoes(&through_all).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    echoes(&through_all).unwrap();
    for node in &place.nodes {
        let snapshot = node.snapshot();
        assert_eq!((snapshot.sessions_revoked, snapshot.sessions_lost), (0, 0), "{snapshot:?}");
    }
    // Whoever has the first one alone is nobody now.
    let former = &steps[0];
    let opened = place.open_with(Credentials::Secret(former.clone()), former.identity(&[]).unwrap(), target);
    let error = opened.map(|_| ()).unwrap_err();
    assert!(matches!(error.failure(), Failure::TlsCertificate | Failure::RequestDenied), "{error}");
    assert!(error.to_string().contains("the secret differs"), "{error}");
}

#[test]
fn a_secret_is_exchanged_under_load_and_no_session_is_lost_or_refused() {
    is_exchanged_under_load(Protection::Tls, "tls");
    is_exchanged_under_load(Protection::Plain, "plain");
}

#[test]
fn a_secret_that_is_retired_opens_nothing_by_connections_of_before() {
    let (files, steps) = (Files::new("retired"), steps());
    files.write("node1", &steps[1]);
    let place = Place::with(1, Protection::Tls, |config: &mut NodeConfig| {
        config.secret = Some(files.of("node1"));
        config.more.allow.clear();
    });
    let keep = |secret: &NetworkSecret| {
        let credentials = Credentials::Secret(secret.clone());
        let identity = secret.identity(&[]).unwrap();
        let links = place.links_keeping(1, credentials, identity, Duration::from_secs(60));
        place.run(links.keep_ready(&place.hops()[0]));
        links
    };
    let (of_former, of_other) = (keep(&steps[0]), keep(&steps[2]));
    files.write("node1", &steps[3]);
    place.nodes[0].reload().unwrap();
    let open = |links| place.run(place.client_with(links).open(&echo().into())).map(drop);
    let error = open(&of_former).unwrap_err();
    assert_eq!(error.failure(), Failure::RequestDenied, "{error}");
    assert!(error.to_string().contains("not believed any more"), "{error}");
    // Who has the one that is believed goes on.
    open(&of_other).unwrap();
}

#[test]
fn a_file_that_holds_no_secret_changes_nothing() {
    let (files, steps) = (Files::new("wrong"), steps());
    files.write("node1", &steps[0]);
    let place = Place::with(1, Protection::Tls, |config: &mut NodeConfig| {
        config.secret = Some(files.of("node1"));
        config.more.allow.clear();
    });
    std::fs::write(files.of("node1"), "half of a secr").unwrap();
    let error = place.nodes[0].reload().unwrap_err().to_string();
    assert!(error.contains("holds no secret"), "{error}");
    let open = |secret: &NetworkSecret| {
        place.open_with(Credentials::Secret(secret.clone()), secret.identity(&[]).unwrap(), echo())
    };
    open(&steps[0]).unwrap();
    // A step that is left out: they do not believe each other, and that is said.
    files.write("node1", &steps[3]);
    place.nodes[0].reload().unwrap();
    assert!(open(&steps[0]).unwrap_err().to_string().contains("the secret differs"));
}
