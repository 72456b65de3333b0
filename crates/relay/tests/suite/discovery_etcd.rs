//! The directory against Debian's etcd (package `etcd-server`), on the loopback with a directory of its own.
use data_encoding::BASE64;
use shorthaul_relay::discovery::Load;
use shorthaul_relay::discovery::directory::{Directory, Etcd, EtcdConfig, Listed, Registered, Registration};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An etcd that ends with the test.
struct Server {
    process: Child,
    directory: PathBuf,
    endpoint: String,
}

impl Server {
    fn start() -> Server {
        let ports: Vec<u16> = {
            let taken: Vec<TcpListener> =
                (0..2).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
            taken.iter().map(|socket| socket.local_addr().expect("an address").port()).collect()
        };
        let directory =
            std::env::temp_dir().join(format!("shorthaul-etcd-{}-{}", std::process::id(), ports[0]));
        let [client, peer] = [0, 1].map(|n| format!("http://127.0.0.1:{}", ports[n]));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(&directory)
            .args(["--name", "test", "--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}"), "--log-level", "error"])
            .args(["--unsafe-no-fsync", "--heartbeat-interval", "50", "--election-timeout", "500"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs etcd: install etcd-server");
        let server = Server { process, directory, endpoint: client };
        wait_for("etcd to begin", || server.etcd().relays().is_ok());
        server
    }

    /// Stores a value under a key, both in base64.
    fn put(&self, key: &str, value: &str) {
        self.post("kv/put", &put(key, value));
    }

    fn post(&self, what: &str, body: &str) {
        let mut socket = TcpStream::connect(self.endpoint.trim_start_matches("http://")).expect("connecting");
        let len = body.len();
        write!(socket, "POST /v3/{what} HTTP/1.0\r\nContent-Length: {len}\r\n\r\n{body}").expect("asking");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains(" 200 "), "{answer}");
    }

    fn etcd(&self) -> Etcd {
        Etcd::new(EtcdConfig::new(&self.endpoint)).expect("no certificate is read")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What stores a value under a key, both in base64.
fn put(key: &str, value: &str) -> String {
    format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}")
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let asked = Instant::now();
    while !there() {
        assert!(asked.elapsed() < Duration::from_secs(60), "waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn registration(name: &str) -> Registration {
    Registration {
        name: name.into(),
        session: "192.0.2.1:7001".parse().unwrap(),
        probe: "192.0.2.1:7007".parse().unwrap(),
        lease: Duration::from_secs(1),
    }
}

fn load(sessions: u32, overloaded: bool) -> Load {
    Load {
        service_time: Duration::from_micros(u64::from(sessions)),
        buffer: 1 << 20,
        sessions,
        capacity: None,
        overloaded,
    }
}

fn names(relays: &[Listed]) -> Vec<&str> {
    relays.iter().map(|relay| relay.name.as_str()).collect()
}

#[test]
fn relays_write_themselves_with_their_load_and_vanish_when_they_go() {
    let server = Server::start();
    let reader = server.etcd();
    assert_eq!(reader.relays().unwrap(), []);
    let sessions = Arc::new(AtomicU32::new(5));
    let busy = {
        let sessions = Arc::clone(&sessions);
        move || load(sessions.load(Ordering::Relaxed), false)
    };
    let start = |name: &str, load: Box<dyn Fn() -> Load + Send>| {
        Registered::start(Arc::new(server.etcd()), registration(name), load, |error| panic!("{error}"))
            .unwrap()
    };
    let first = start("first", Box::new(busy));
    let full = start("full", Box::new(|| load(1, true)));
    let calm = start("calm", Box::new(|| load(2, false)));
    wait_for("all to be there", || reader.relays().unwrap().len() == 3);
    let relays = reader.relays().unwrap();
    assert_eq!(
        names(&relays),
        ["calm", "first", "full"],
        "those with room and short service times come first"
    );
    assert_eq!(relays[1].session, registration("first").session);
    assert_eq!(relays[1].load, Some(load(5, false)));
    // Fresh figures come by themselves, and move it to the front.
    sessions.store(0, Ordering::Relaxed);
    wait_for("fresh figures", || reader.relays().unwrap()[0].load == Some(load(0, false)));
    drop(calm);
    assert_eq!(names(&reader.relays().unwrap()), ["first", "full"], "it took itself out");
    drop((first, full));
    assert_eq!(reader.relays().unwrap(), []);
}

#[test]
fn a_relay_that_dies_vanishes_with_its_lease_and_what_is_no_relay_is_skipped() {
    let server = Server::start();
    let etcd = server.etcd();
    // As if the relay had been killed right after: nobody prolongs the lease, and nobody revokes it.
    etcd.register_once(&registration("killed"), &load(1, false)).unwrap();
    server.put("L3Nob3J0aGF1bC9yZWxheXMveA==", "bm8gcmVsYXk="); // "/shorthaul/relays/x", "no relay"
    assert_eq!(names(&etcd.relays().unwrap()), ["killed"]);
    wait_for("it to be gone", || etcd.relays().unwrap().is_empty());
}

#[test]
fn all_relays_are_read_however_many_there_are() {
    // More than fit into two answers, and the last answer is full.
    const RELAYS: usize = 3 * 1024;
    let server = Server::start();
    let ops: Vec<String> = (0..RELAYS)
        .map(|number| {
            let entry = format!(
                "{{\"name\":\"n{number}\",\"session\":\"192.0.2.1:7080\",\"probe\":\"192.0.2.1:7007\",\
                 \"service_time\":{number},\"buffer\":1,\"sessions\":2,\"overloaded\":false}}"
            );
            let key = format!("/shorthaul/relays/n{number}");
            format!(
                "{{\"requestPut\":{}}}",
                put(&BASE64.encode(key.as_bytes()), &BASE64.encode(entry.as_bytes()))
            )
        })
        .collect();
    // etcd takes 128 operations at once.
    for some in ops.chunks(128) {
        server.post("kv/txn", &format!("{{\"success\":[{}]}}", some.join(",")));
    }
    let relays = server.etcd().relays().unwrap();
    let expected: Vec<String> = (0..RELAYS).map(|number| format!("n{number}")).collect();
    assert_eq!(names(&relays), expected, "each once, in the order of their service times");
}
