use super::*;
use crate::discovery::directory::Listed;
use crate::discovery::{
    AnsweringConfig, AnsweringSockets, Arrival, Bound, Identity, Key, Load as Told, Responder,
    ResponderConfig,
};
use shorthaul_types::BitRate;
use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::Barrier;
use std::time::SystemTime;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const CALM: Told =
    Told { service_time: Duration::ZERO, buffer: 1, sessions: 0, capacity: None, overloaded: false };

fn keys() -> Keyring {
    Keyring::single(Key::new([7; 32]))
}

/// Somebody of whom it is seen what he is sent, and who says nothing.
fn silent() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn heard(socket: &UdpSocket) -> usize {
    std::iter::from_fn(|| socket.recv_from(&mut [0; 512]).ok()).count()
}

/// A server that accepts, and how often somebody shook hands with it.
fn server() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn shaken(listener: &TcpListener) -> usize {
    std::iter::from_fn(|| listener.accept().ok()).count()
}

#[derive(Debug)]
struct Fixed(SocketAddr);

impl Directory for Fixed {
    fn name(&self) -> String {
        "fixed".into()
    }

    fn relays(&self) -> Result<Vec<Listed>, DirectoryError> {
        let session = SocketAddr::new(self.0.ip(), 7001);
        Ok(vec![Listed { name: String::new(), session, probe: self.0, load: None }])
    }
}

/// Who asks responders at the port of `responder`, once, and is patient.
fn asking(responder: &UdpSocket, policy: Policy) -> FinderConfig {
    FinderConfig {
        port: responder.local_addr().unwrap().port(),
        retry: Retry { timeout: LONG, tries: 1 },
        selection: Selection { policy, ..Selection::default() },
        ..FinderConfig::new(keys())
    }
}

/// One that is of use if this is true.
struct Sometimes(Arc<AtomicBool>);

impl Directory for Sometimes {
    fn name(&self) -> String {
        "sometimes".into()
    }

    fn relays(&self) -> Result<Vec<Listed>, DirectoryError> {
        let error = DirectoryError { directory: self.name(), problem: "none".into() };
        if self.0.load(Ordering::Relaxed) { Ok(Vec::new()) } else { Err(error) }
    }
}

#[test]
fn a_directory_of_no_use_is_told_once_until_it_is_of_use_again() {
    let of_use = Arc::new(AtomicBool::new(false));
    let directories: Vec<Box<dyn Directory>> = vec![Box::new(Sometimes(Arc::clone(&of_use)))];
    let finder = Finder::new(FinderConfig { directories, ..FinderConfig::new(keys()) }).unwrap();
    let told = |is_of_use| {
        of_use.store(is_of_use, Ordering::Relaxed);
        // As after a while.
        finder.state().listed = None;
        finder.listed().1.len()
    };
    assert_eq!([false, false, true, false, false].map(told), [1, 0, 0, 1, 0]);
}

/// Says nothing until it is told to.
struct Silent(Arc<Barrier>);

impl Directory for Silent {
    fn name(&self) -> String {
        "silent".into()
    }

    fn relays(&self) -> Result<Vec<Listed>, DirectoryError> {
        self.0.wait();
        Ok(Vec::new())
    }
}

#[test]
fn the_end_does_not_wait_for_a_directory_that_says_nothing() {
    let answers = Arc::new(Barrier::new(2));
    let directories: Vec<Box<dyn Directory>> = vec![Box::new(Silent(Arc::clone(&answers)))];
    let finder = Arc::new(Finder::new(FinderConfig { directories, ..FinderConfig::new(keys()) }).unwrap());
    let (ended, end) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&finder);
    thread::spawn(move || {
        let refreshing = Refreshing::start(&theirs).unwrap();
        theirs.ask_directories().unwrap();
        // As long as a short session.
        thread::sleep(Duration::from_millis(50));
        drop(refreshing);
        ended.send(())
    });
    assert!(end.recv_timeout(LONG).is_ok(), "it waits for the directory");
    answers.wait();
}

#[test]
fn however_many_go_to_a_cold_destination_it_is_looked_at_once() {
    let (responder, relay) = (silent(), silent());
    let (listener, target) = server();
    let config = FinderConfig {
        directories: vec![Box::new(Fixed(relay.local_addr().unwrap()))],
        ..asking(&responder, Policy::Always)
    };
    let finder = Arc::new(Finder::new(config).unwrap());
    let _refreshing = Refreshing::start(&finder).unwrap();
    let all_there = Arc::new(Barrier::new(8));
    let going: Vec<_> = (0..8)
        .map(|_| {
            let (finder, all_there) = (Arc::clone(&finder), Arc::clone(&all_there));
            thread::spawn(move || {
                all_there.wait();
                finder.best_route(target, Some(Bytes(10_000_000)))
            })
        })
        .collect();
    for one in going {
        let choice = one.join().unwrap();
        assert!(choice.ranking.is_some_and(|ranking| ranking.relays.is_empty()), "{}", choice.why);
    }
    assert_eq!((heard(&responder), heard(&relay), shaken(&listener)), (1, 1, 1));
}

#[test]
fn a_responder_that_is_not_there_holds_nobody_up_and_is_not_asked_for_ever() {
    let responder = silent();
    let (listener, target) = server();
    let finder = Arc::new(Finder::new(asking(&responder, Policy::Always)).unwrap());
    let began = Instant::now();
    let choice = finder.best_route(target, Some(Bytes(10_000_000)));
    assert!(choice.ranking.is_some() && choice.age == Some(Duration::ZERO), "{}", choice.why);
    assert!(began.elapsed() < LONG / 2, "the first attempt would have taken {LONG:?}");
    assert_eq!(finder.look(target).unwrap().by, Some(By::Handshake));
    assert_eq!((heard(&responder), shaken(&listener)), (2, 2));
    // There are no relays to ask either: nobody is left who could say anything.
    assert_eq!(finder.look(target).unwrap().by, None);
    assert_eq!((heard(&responder), shaken(&listener)), (0, 0));
}

#[test]
fn who_has_waited_long_enough_goes_directly_and_the_look_goes_on_for_the_next() {
    let responder = silent();
    // A port that refuses, and stays ours.
    let refusing = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    refusing.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let target = refusing.local_addr().unwrap().as_socket().unwrap();
    let finder = Arc::new(Finder::new(asking(&responder, Policy::default())).unwrap());
    let choice = finder.best_route(target, Some(Bytes(1_000_000)));
    assert!(choice.hops.is_empty() && choice.age.is_none(), "{choice:?}");
    assert!(choice.why.contains("longer than they could save"), "{}", choice.why);
    // Only now does anybody answer.
    let answering = thread::spawn(move || {
        let config = ResponderConfig::new(keys(), None);
        let mut answers = Responder::new(Time::ZERO, config);
        let mut count = 0;
        responder.set_nonblocking(false).unwrap();
        let mut buffer = [0; 512];
        // One without a cookie, and one with it.
        while count < 2 {
            let (len, from) = responder.recv_from(&mut buffer).unwrap();
            let arrival = Arrival {
                from,
                bytes: &buffer[..len],
                bound: Bound::Here,
                hop_limit: None,
                local: IpAddr::from([127, 0, 0, 1]),
                since_1970: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap(),
            };
            let answer = answers.answer(Time::ZERO, &CALM, &arrival).unwrap();
            responder.send_to(answer.datagram.as_slice(), from).unwrap();
            count += 1;
        }
        responder
    });
    let survey = finder.look(target).unwrap();
    assert_eq!((survey.by, survey.rtts.len()), (Some(By::Responder), 1));
    let responder = answering.join().unwrap();
    responder.set_nonblocking(true).unwrap();
    assert_eq!(heard(&responder), 0, "the same look went on");
    let next = finder.best_route(target, None);
    assert!(next.age.is_some(), "{}", next.why);
}

#[test]
fn nodes_tell_how_they_are_when_they_are_asked_and_who_is_gone_does_not() {
    let keys = Keyring::single(Key::new([7; 32]));
    let answering = |address: &str, active: u32| {
        let address: SocketAddr = address.parse().unwrap();
        let relay = Identity::relay(SocketAddr::new(address.ip(), 7001), "n");
        let responder = ResponderConfig::new(keys.clone(), Some(relay));
        let config = AnsweringConfig { listen: address, ..AnsweringConfig::new(responder, false) };
        let capacity = Some(Capacity { rate: BitRate::from_bits_per_sec(90_000_000), active });
        let load = Told { service_time: Duration::ZERO, buffer: 1, sessions: 9, capacity, overloaded: false };
        AnsweringSockets::bind(config).unwrap().answer(move || load).unwrap()
    };
    let first = answering("127.0.0.1:0", 2);
    let port = first.address().port();
    let second = answering(&format!("127.0.0.2:{port}"), 5);
    let finder = Finder::new(FinderConfig { port, ..FinderConfig::new(keys.clone()) }).unwrap();
    let ask = |hosts: &[&str]| {
        // As long as a machine that is busy may take.
        let node = |host: &&str| (format!("{host}:7001").parse().unwrap(), Duration::from_secs(5));
        let loads = finder.loads(&hosts.iter().map(node).collect::<Vec<_>>());
        loads.iter().map(|load| load.map(|load| (load.strength, load.sessions))).collect::<Vec<_>>()
    };
    assert_eq!(ask(&["127.0.0.1", "127.0.0.2"]), [Some((9e7, 2.0)), Some((9e7, 5.0))]);
    drop(second);
    let finder = Finder::new(FinderConfig { port, ..FinderConfig::new(keys.clone()) }).unwrap();
    let short = Duration::from_millis(200);
    let loads = finder.loads(
        &[([127, 0, 0, 1], 7001).into(), ([127, 0, 0, 2], 7001).into()].map(|node: SocketAddr| (node, short)),
    );
    assert!(loads[0].is_some() && loads[1].is_none(), "{loads:?}");
}
