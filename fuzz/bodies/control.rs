//! What must hold for any bytes on the control socket: as a request, and as what another process says that hands its flows over.
use shorthaul_dataplane::{Last, Request};
use shorthaul_proxy::FlowMomentum;

/// One input. Says whether it was a request that has an answer, or something that another gateway could say.
pub fn run(input: &[u8]) -> bool {
    let request = Request::read(input);
    if let Request::Bandwidth(Ok(report)) = &request {
        let again = Request::read(format!("bandwidth {report}").as_bytes());
        assert_eq!(again, request, "what was understood is understood again");
    }
    if let Some(momentum) = FlowMomentum::decode(input) {
        assert_eq!(FlowMomentum::decode(&momentum.encode()).as_ref(), Some(&momentum));
    }
    let last = Last::read(&mut &input[..]);
    if let Ok(last) = &last {
        assert!(last.momenta.len() <= input.len() / 16, "more flows than were spoken of");
    }
    !matches!(request, Request::Unknown(_)) || last.is_ok()
}
