//! RFC 4648 §4: what `Basic` credentials are written in.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes of a text, if it is one.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for at in 0..4 {
            let digit = match group.get(at) {
                Some(digit) => ALPHABET.iter().position(|known| known == digit)? as u32,
                None => 0,
            };
            bits = bits << 6 | digit;
        }
        match group.len() {
            1 => return None,
            len => bytes.extend_from_slice(&bits.to_be_bytes()[1..len]),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_vectors_of_the_rfc() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(super::decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(super::decode("a"), None);
        assert_eq!(super::decode("a b="), None);
    }
}
