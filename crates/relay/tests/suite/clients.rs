//! What clients make of nodes that fail: an error in words, or the next way; and never a silent one.
use crate::place::{Place, secret};
use shorthaul_relay::{
    Client, Credentials, Endpoint, Failure, NetworkSecret, Protection, Route, RouteProvider, Session,
};
use socket2::{Domain, Socket, Type};
use std::future::{Future, ready};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Ways that somebody else found, the direct one behind them.
struct Found(Vec<Route>);

impl RouteProvider for Found {
    fn routes<'a>(&'a self, _: &'a Endpoint) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>> {
        Box::pin(ready(self.0.clone()))
    }
}

#[test]
fn a_node_that_is_not_believed_is_the_end_unless_that_was_asked_for() {
    let place = Place::new(1, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let other = NetworkSecret::read(&secret(8)).unwrap();
    let identity = || other.identity(&[]).unwrap();
    let credentials = || Credentials::Secret(other.clone());
    let by_node = Route::via(place.hops());
    let found = Arc::new(Found(vec![by_node.clone(), Route::direct()]));
    let error = place.open_on(found, credentials(), identity(), target).unwrap_err();
    assert_eq!((error.failure(), error.attempts.len()), (Failure::TlsCertificate, 1), "{error}");
    let words = error.to_string();
    assert!(words.contains("the secret differs") && !words.contains('\n'), "{words}");
    let or_direct = Arc::new(shorthaul_relay::FixedRoute::or_direct(by_node));
    let session = place.open_on(or_direct, credentials(), identity(), target).unwrap();
    assert!(session.route.is_direct());
}

/// Ways, and what was said of which was taken.
struct Told(Vec<Route>, Mutex<Vec<(Route, Option<Route>)>>);

impl RouteProvider for Told {
    fn routes<'a>(&'a self, _: &'a Endpoint) -> Pin<Box<dyn Future<Output = Vec<Route>> + Send + 'a>> {
        Box::pin(ready(self.0.clone()))
    }

    fn goes_by(&self, chosen: &Route, taken: Option<&Route>) {
        self.1.lock().unwrap().push((chosen.clone(), taken.cloned()));
    }
}

#[test]
fn who_knows_ways_is_told_which_one_a_session_takes() {
    let place = Place::new(1, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let member = NetworkSecret::read(&secret(1)).unwrap();
    let open = |routes: &Arc<Told>| {
        let identity = member.identity(&[]).unwrap();
        place.open_on(Arc::<Told>::clone(routes), Credentials::Secret(member.clone()), identity, target)
    };
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (gone, by_node) = (Route::via(vec![nobody.into()]), Route::via(place.hops()));
    let routes = Arc::new(Told(vec![gone.clone(), by_node.clone()], Mutex::default()));
    let session = open(&routes).unwrap();
    assert_eq!(session.route, by_node);
    assert_eq!(*routes.1.lock().unwrap(), [(gone.clone(), Some(by_node))]);
    let routes = Arc::new(Told(vec![gone.clone()], Mutex::default()));
    open(&routes).unwrap_err();
    assert_eq!(*routes.1.lock().unwrap(), [(gone, None)]);
}

#[test]
fn a_wrong_secret_is_named_over_plain_tcp_too() {
    let place = Place::with(1, Protection::Plain, |config| config.more.allow.clear());
    let error = place.open_as_member_of(&secret(8), "127.0.0.1:9".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("the secret differs") && !error.contains('\n'), "{error}");
}

/// Somebody who takes no connections, as a host behind a firewall that drops them: the kernel answers no SYN while its queue is
/// full.
struct Silent {
    listener: Socket,
    address: SocketAddr,
    _waiting: Vec<TcpStream>,
}

impl Silent {
    fn new() -> Silent {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let waiting: Vec<TcpStream> = (0..8).map_while(connect).collect();
        assert!(waiting.len() < 8, "the queue is never full");
        Silent { listener, address, _waiting: waiting }
    }
}

#[test]
fn a_node_that_does_not_answer_is_remembered_and_asked_again() {
    let place = Place::new(0, Protection::Plain);
    let silent = Silent::new();
    let target: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let client = place.patient_client(Route::via(vec![silent.address.into()]), Duration::from_secs(1));
    let open = || {
        let began = Instant::now();
        (place.run(client.open(&target.into())).map(drop), began.elapsed())
    };
    let (first, took) = open();
    assert_eq!(first.unwrap_err().failure(), Failure::ConnectionTimeout);
    assert!(took >= Duration::from_millis(900), "{took:?}");
    for _ in 0..10 {
        let (again, took) = open();
        let error = again.unwrap_err();
        assert_eq!(error.failure(), Failure::ConnectionTimeout);
        assert!(took < Duration::from_millis(500), "{took:?}");
        assert!(error.to_string().contains("s ago"), "{error}");
    }
    // Once it answers, it is used again, and nobody had to wait to find that out.
    let answering = silent.listener.try_clone().unwrap();
    thread::spawn(move || {
        while let Ok((socket, _)) = answering.accept() {
            let mut socket = TcpStream::from(socket);
            thread::spawn(move || {
                use std::io::{Read as _, Write as _};
                let _ = socket.read(&mut [0; 4096]);
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                let _ = socket.read(&mut [0; 1]);
            });
        }
    });
    let since = Instant::now();
    loop {
        let (opened, took) = open();
        if opened.is_ok() {
            break;
        }
        assert!(took < Duration::from_millis(500), "somebody waited {took:?}");
        assert!(since.elapsed() < Duration::from_secs(60), "it is never asked again");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_that_takes_requests_and_never_answers_is_remembered_too() {
    let place = Place::new(0, Protection::Plain);
    // The kernel connects for it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hop = silent.local_addr().unwrap().into();
    let target: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let client = place.patient_client(Route::via(vec![hop]), Duration::from_secs(1));
    let open = || {
        let began = Instant::now();
        (place.run(client.open(&target.into())).map(drop), began.elapsed())
    };
    let since = Instant::now();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(60), "never: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let (first, took) = open();
    assert_eq!(first.unwrap_err().failure(), Failure::ConnectionTimeout);
    assert!(took >= Duration::from_millis(1900), "{took:?}");
    until("who comes later hears so at once", &|| {
        let (again, took) = open();
        let error = again.unwrap_err();
        assert_eq!(error.failure(), Failure::ConnectionTimeout, "{error}");
        took < Duration::from_millis(500) && error.to_string().contains("s ago")
    });
    let answering = silent.try_clone().unwrap();
    thread::spawn(move || {
        for mut socket in answering.incoming().flatten() {
            thread::spawn(move || {
                use std::io::{Read as _, Write as _};
                let _ = socket.read(&mut [0; 4096]);
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                let _ = socket.read(&mut [0; 1]);
            });
        }
    });
    until("it is used again once it answers", &|| open().0.is_ok());
}

#[test]
fn who_is_asked_to_sign_again_does() {
    let place = Place::new(0, Protection::Plain);
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let client =
        place.patient_client(Route::via(vec![node.local_addr().unwrap().into()]), Duration::from_secs(60));
    // A node that has just started says so twice.
    let answering = thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let mut asked = Vec::new();
        for answer in ["403 Forbidden", "403 Forbidden", "200 OK"] {
            let (mut socket, _) = node.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let status = match answer.starts_with("403") {
                true => "Proxy-Status: \"a\";error=http_request_denied;retry-after=50\r\n",
                false => "",
            };
            asked.push(String::from_utf8(head).unwrap());
            socket.write_all(format!("HTTP/1.1 {answer}\r\n{status}\r\n").as_bytes()).unwrap();
        }
        asked
    });
    place.run(client.open(&"192.0.2.1:80".parse().unwrap())).unwrap();
    let asked = answering.join().unwrap();
    assert!(asked[0] != asked[1] && asked[1] != asked[2], "each is signed by itself: {asked:?}");
    // And one that really has just started lets whoever is a member in at once.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::with(1, Protection::Plain, |config| config.more.allow.clear());
    place.open(server.local_addr().unwrap()).unwrap();
}

#[test]
fn a_session_over_both_versions_of_ip_is_signed_for_one() {
    let place = Place::with(1, Protection::Plain, |config| {
        config.more.allow.clear();
        config.listen = vec!["[::]:0".parse().unwrap()];
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = SocketAddr::from(([127, 0, 0, 1], place.addresses[0].port()));
    let session = place.open_by(Route::via(vec![node.into()]), server.local_addr().unwrap());
    session.unwrap();
}

/// So many sessions of a client at once, to a server that takes them.
fn open_together(place: &Place, client: &Client, count: usize) -> Vec<Session> {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Endpoint::from(server.local_addr().unwrap());
    thread::spawn(move || server.incoming().flatten().take(count).collect::<Vec<TcpStream>>());
    place.run(async {
        let opening: Vec<_> = (0..count)
            .map(|_| {
                let (client, target) = (client.clone(), target.clone());
                tokio::spawn(async move { client.open(&target).await })
            })
            .collect();
        let mut open = Vec::new();
        for one in opening {
            open.push(one.await.unwrap().unwrap_or_else(|error| panic!("after {}: {error}", open.len())));
        }
        open
    })
}

#[test]
fn sessions_that_begin_together_are_all_let_in_and_cost_a_connection_each() {
    const TOGETHER: usize = 150;
    let place = Place::with(2, Protection::Tls, |config| config.more.allow.clear());
    let client = place.ready_client();
    drop(open_together(&place, &client, 1));
    let before: Vec<_> = place.nodes.iter().map(|node| node.snapshot()).collect();
    let _open = open_together(&place, &client, TOGETHER);
    for (node, before) in place.nodes.iter().zip(before) {
        let now = node.snapshot();
        assert_eq!(now.connections_of_strangers, 0, "nobody is turned away");
        let made = now.connections_accepted - before.connections_accepted;
        assert!(made <= TOGETHER as u64 + 10, "{made} connections for {TOGETHER} sessions");
    }
}

#[test]
fn who_is_turned_away_in_the_handshake_comes_again() {
    let place = Place::with(1, Protection::Tls, |config| {
        config.more.allow.clear();
        config.strangers_at_once = 2;
    });
    // Two that say nothing have all the room of this host, until one was turned away.
    let silent = [place.connect(0), place.connect(0)];
    place.until("both have come", |node| node.connections_accepted == 2);
    let client = place.ready_client();
    thread::scope(|scope| {
        let opening = scope.spawn(|| open_together(&place, &client, 1));
        place.until("one is turned away", |node| node.connections_of_strangers > 0);
        drop(silent);
        opening.join().unwrap();
    });
}
