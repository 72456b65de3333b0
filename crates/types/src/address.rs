//! Addresses as people write them.
use alloc::format;
use alloc::string::String;
use core::net::SocketAddr;

/// Reads an address with a port, such as `0.0.0.0:7080` or `[::]:7080`.
///
/// # Errors
/// If it is none: what was found, and what would be right. A name is none, for nothing is looked up here.
pub fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    let wanted =
        "write an address and a port, such as 127.0.0.1:7080, 0.0.0.0:7080 or [::]:7080; a name is none";
    text.trim().parse().map_err(|_| format!("`{text}` is no address with a port: {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_a_port_alone_or_a_name_is_told_what_to_write() {
        assert_eq!(parse_socket_address(" [::1]:80 "), Ok(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 80))));
        for wrong in ["7080", "paris:7080", "127.0.0.1", ""] {
            let error = parse_socket_address(wrong).unwrap_err();
            assert!(error.contains(&format!("`{wrong}`")) && error.contains("0.0.0.0:7080"), "{error}");
        }
    }
}
