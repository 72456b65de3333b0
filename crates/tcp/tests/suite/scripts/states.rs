//! Every state and every event: what a connection does (RFC 9293 §3.10).
use super::script::PORT;
use super::{Script, plain};
use shorthaul_tcp::State;

/// One line for each state and event: the state after, what left, and what the owner heard.
///
/// `SYN` and `SYN-ACK` are the peer's first ones again; `ACK` acknowledges all that was sent; data
/// and `FIN` come in order and acknowledge no FIN of ours; `RST` is where it must be; `timeout` is
/// the next timer of the state.
const TABLE: &str = "
Listen       SYN      SynReceived  S. 0:0(0) ack 1
Listen       SYN-ACK  Listen       R 1:1(0)
Listen       ACK      Listen       R 1:1(0)
Listen       data     Listen       R 1:1(0)
Listen       FIN      Listen       R 1:1(0)
Listen       RST      Listen
Listen       close    Closed
Listen       abort    Closed
Listen       timeout  Listen
SynSent      SYN      SynReceived  S. 0:0(0) ack 1
SynSent      SYN-ACK  Established  . 1:1(0) ack 1           Connected
SynSent      ACK      SynSent
SynSent      data     SynSent
SynSent      FIN      SynSent
SynSent      RST      Closed                                Failed(Refused)
SynSent      close    Closed                                Closed
SynSent      abort    Closed                                Failed(Aborted)
SynSent      timeout  SynSent      S 0:0(0)
SynReceived  SYN      SynReceived  S. 0:0(0) ack 1
SynReceived  SYN-ACK  Established  . 1:1(0) ack 1           Connected
SynReceived  ACK      Established                           Connected
SynReceived  data     Established                           Connected, Readable
SynReceived  FIN      CloseWait    . 1:1(0) ack 2           Connected, PeerClosed
SynReceived  RST      Closed
SynReceived  close    SynReceived
SynReceived  abort    Closed       R. 1:1(0) ack 1
SynReceived  timeout  SynReceived  S. 0:0(0) ack 1
Established  SYN      Established  . 1:1(0) ack 1
Established  SYN-ACK  Established  . 1:1(0) ack 1
Established  ACK      Established
Established  data     Established                           Readable
Established  FIN      CloseWait    . 1:1(0) ack 2           PeerClosed
Established  RST      Closed                                Failed(Reset)
Established  close    FinWait1     F. 1:1(0) ack 1
Established  abort    Closed       R. 1:1(0) ack 1          Failed(Aborted)
Established  timeout  Established
FinWait1     SYN      FinWait1     . 2:2(0) ack 1
FinWait1     SYN-ACK  FinWait1     . 2:2(0) ack 1
FinWait1     ACK      FinWait2
FinWait1     data     FinWait1                              Readable
FinWait1     FIN      Closing      . 2:2(0) ack 2           PeerClosed
FinWait1     RST      Closed                                Failed(Reset)
FinWait1     close    FinWait1
FinWait1     abort    Closed       R. 2:2(0) ack 1          Failed(Aborted)
FinWait1     timeout  FinWait1     F. 1:1(0) ack 1
FinWait2     SYN      FinWait2     . 2:2(0) ack 1
FinWait2     SYN-ACK  FinWait2     . 2:2(0) ack 1
FinWait2     ACK      FinWait2
FinWait2     data     FinWait2                              Readable
FinWait2     FIN      TimeWait     . 2:2(0) ack 2           PeerClosed
FinWait2     RST      Closed                                Failed(Reset)
FinWait2     close    FinWait2
FinWait2     abort    Closed       R. 2:2(0) ack 1          Failed(Aborted)
FinWait2     timeout  FinWait2
CloseWait    SYN      CloseWait    . 1:1(0) ack 2
CloseWait    SYN-ACK  CloseWait    . 1:1(0) ack 2
CloseWait    ACK      CloseWait
CloseWait    data     CloseWait    . 1:1(0) ack 2
CloseWait    FIN      CloseWait    . 1:1(0) ack 2
CloseWait    RST      Closed                                Failed(Reset)
CloseWait    close    LastAck      F. 1:1(0) ack 2
CloseWait    abort    Closed       R. 1:1(0) ack 2          Failed(Aborted)
CloseWait    timeout  CloseWait
Closing      SYN      Closing      . 2:2(0) ack 2
Closing      SYN-ACK  Closing      . 2:2(0) ack 2
Closing      ACK      TimeWait
Closing      data     Closing      . 2:2(0) ack 2
Closing      FIN      Closing      . 2:2(0) ack 2
Closing      RST      Closed                                Closed
Closing      close    Closing
Closing      abort    Closed                                Failed(Aborted)
Closing      timeout  Closing      F. 1:1(0) ack 2
LastAck      SYN      LastAck      . 2:2(0) ack 2
LastAck      SYN-ACK  LastAck      . 2:2(0) ack 2
LastAck      ACK      Closed                                Closed
LastAck      data     LastAck      . 2:2(0) ack 2
LastAck      FIN      LastAck      . 2:2(0) ack 2
LastAck      RST      Closed                                Closed
LastAck      close    LastAck
LastAck      abort    Closed                                Failed(Aborted)
LastAck      timeout  LastAck      F. 1:1(0) ack 2
TimeWait     SYN      TimeWait     . 2:2(0) ack 2
TimeWait     SYN-ACK  TimeWait     . 2:2(0) ack 2
TimeWait     ACK      TimeWait
TimeWait     data     TimeWait     . 2:2(0) ack 2
TimeWait     FIN      TimeWait     . 2:2(0) ack 2
TimeWait     RST      Closed                                Closed
TimeWait     close    TimeWait
TimeWait     abort    Closed                                Closed
TimeWait     timeout  Closed                                Closed
Closed       SYN      Closed       R. 0:0(0) ack 1
Closed       SYN-ACK  Closed       R 1:1(0)
Closed       ACK      Closed       R 1:1(0)
Closed       data     Closed       R 1:1(0)
Closed       FIN      Closed       R 1:1(0)
Closed       RST      Closed
Closed       close    Closed
Closed       abort    Closed
Closed       timeout  Closed
";

const STATES: [State; 11] = [
    State::Listen,
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
    State::Closed,
];
const EVENTS: [&str; 9] = ["SYN", "SYN-ACK", "ACK", "data", "FIN", "RST", "close", "abort", "timeout"];

/// A connection in `state`, with the next sequence numbers of both ends and whether our FIN is out.
fn enter(state: State) -> Script {
    let mut s = match state {
        State::Listen | State::SynReceived => Script::listening(plain()),
        State::SynSent => Script::connecting(plain()),
        _ => Script::established(plain()),
    };
    match state {
        State::SynReceived => {
            s.inject("S 0:0(0) <mss 1000>");
        }
        State::FinWait1 => {
            s.close();
        }
        State::FinWait2 => {
            s.close().inject(". 1:1(0) ack 2");
        }
        State::CloseWait => {
            s.inject("F. 1:1(0) ack 1");
        }
        State::Closing => {
            s.close().inject("F. 1:1(0) ack 1");
        }
        State::LastAck => {
            s.inject("F. 1:1(0) ack 1").close();
        }
        State::TimeWait => {
            s.close().inject("F. 1:1(0) ack 2");
        }
        State::Closed => {
            s.inject("R 1:1(0)");
            s.host.stop_listening(PORT);
        }
        _ => {}
    }
    s.take();
    s.drain_events();
    assert_eq!(state_of(&s), state);
    s
}

/// The state of the connection; without one, that of the port.
fn state_of(s: &Script) -> State {
    let state = s.host.connections().next().map(|(_, connection)| connection.state());
    state.unwrap_or(if s.host.is_listening(PORT) && !s.had_connection() {
        State::Listen
    } else {
        State::Closed
    })
}

/// Lets `event` happen in `state`, and says what came of it.
fn line(state: State, event: &str) -> String {
    use State::*;
    let mut s = enter(state);
    s.pass(200);
    // What the peer sends next, and what it acknowledges of our SYN and FIN.
    let seq = match state {
        Listen | SynSent => 0,
        CloseWait | Closing | LastAck | TimeWait => 2,
        _ => 1,
    };
    let una = match state {
        FinWait2 | TimeWait => 2,
        _ => 1,
    };
    let all = if matches!(state, FinWait1 | FinWait2 | Closing | LastAck | TimeWait) { 2 } else { 1 };
    let in_order = if matches!(state, Listen | SynSent) { 1 } else { seq };
    match event {
        "SYN" => s.inject("S 0:0(0) <mss 1000>"),
        "SYN-ACK" => s.inject("S. 0:0(0) ack 1 <mss 1000>"),
        "ACK" => s.inject(&format!(". {in_order}:{in_order}(0) ack {all}")),
        "data" => s.inject(&format!("P. {in_order}:{}(10) ack {una}", in_order + 10)),
        "FIN" => s.inject(&format!("F. {in_order}:{in_order}(0) ack {una}")),
        "RST" if state == SynSent => s.inject("R. 0:0(0) ack 1"),
        "RST" => s.inject(&format!("R {in_order}:{in_order}(0)")),
        "timeout" => s.next_timer(),
        "close" | "abort" if matches!(state, Listen | Closed) => {
            s.host.stop_listening(PORT);
            &mut s
        }
        "close" if state == SynReceived => s.on_unaccepted(|connection, now| connection.close(now)),
        "abort" if state == SynReceived => s.on_unaccepted(|connection, now| connection.abort(now)),
        "close" => s.close(),
        "abort" => s.abort(),
        other => panic!("{other}"),
    };
    let after = state_of(&s);
    let sent = s.take().join(", ");
    let heard: Vec<String> = s.drain_events().iter().map(|event| format!("{event:?}")).collect();
    let text = format!(
        "{:<12} {event:<8} {:<12} {:<24} {}",
        format!("{state:?}"),
        format!("{after:?}"),
        sent,
        heard.join(", ")
    );
    text.trim_end().to_string()
}

#[test]
fn every_event_in_every_state_does_what_the_table_says() {
    let mut actual = String::from("\n");
    for state in STATES {
        for event in EVENTS {
            actual.push_str(&line(state, event));
            actual.push('\n');
        }
    }
    for (expected, actual) in TABLE.lines().zip(actual.lines()) {
        assert_eq!(expected, actual);
    }
    assert_eq!(TABLE.lines().count(), actual.lines().count(), "{actual}");
}
