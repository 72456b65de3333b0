//! What must hold for any bytes that somebody sends to a node, or a node answers.
use shorthaul_relay::request::{self, MAX_HEAD};
use shorthaul_relay::{answer, proxy_header};

/// One input of the fuzzer: it is read as a request, as an answer and as a PROXY header.
pub fn run(input: &[u8]) {
    match request::read(input) {
        Ok(Some(read)) => {
            assert!(read.len <= input.len() && read.len <= MAX_HEAD, "a head that is not there");
            // What was understood can be said again, and is understood the same.
            let head = read.request.to_head(read.node, None);
            if head.len() <= MAX_HEAD {
                let again =
                    request::read(&head).expect("what we write is a request").expect("the whole of it");
                assert_eq!((&again.request, again.node), (&read.request, read.node));
                // What is signed is all that matters to us.
                assert_eq!(again.signed_part, read.request.signed_part(read.node).into_bytes());
            }
            // Nothing behind the head changes what it says.
            assert_eq!(request::read(&input[..read.len]).expect("the same head").expect("is whole"), read);
        }
        // A head that can still become one is short.
        Ok(None) => assert!(input.len() < MAX_HEAD, "a head without an end is waited for"),
        Err(_) => {}
    }
    if let Ok(Some((answer, len))) = answer::read(input) {
        assert!(len <= input.len());
        let head = answer.to_head();
        if head.len() <= MAX_HEAD && answer.status >= 100 {
            let (again, _) =
                answer::read(&head).expect("what we write is an answer").expect("the whole of it");
            assert_eq!(again.hops.len(), answer.hops.len());
        }
    }
    if let proxy_header::Beginning::Header(header, len) = proxy_header::read(input) {
        assert!(len <= input.len());
        for version in [proxy_header::ProxyVersion::V1, proxy_header::ProxyVersion::V2] {
            let Some(header) = header else { continue };
            let bytes = header.to_bytes(version);
            let again = proxy_header::read(&bytes);
            assert!(matches!(again, proxy_header::Beginning::Header(Some(_), len) if len == bytes.len()));
        }
    }
}
