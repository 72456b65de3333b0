//! What must hold for any text as a configuration file, and as what a radio controller says.
use shorthaul_dataplane::{BandwidthReport, Config};
use shorthaul_proxy::Gateway;

/// One text. Says whether a gateway can be made of it.
pub fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    if let Ok(report) = text.parse::<BandwidthReport>() {
        assert_eq!(report.to_string().parse::<BandwidthReport>().as_ref(), Ok(&report), "{text}");
    }
    let Ok(config) = toml::from_str::<Config>(text) else { return false };
    match config.gateway(1) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
        Ok(machine) => {
            machine
                .check()
                .unwrap_or_else(|error| panic!("taken, and cannot be worked with: {error}\n{text}"));
            let _ = Gateway::new(machine);
            true
        }
    }
}
