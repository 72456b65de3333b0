//! The demonstration, live, on the path that takes the least time.
use std::path::PathBuf;
use std::process::Command;

/// A directory that is removed at the end, also of a failed test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_byte_arrives_and_every_file_is_written() {
    let out = Scratch(std::env::temp_dir().join(format!("shorthaul-demo-test-{}", std::process::id())));
    let run = Command::new(env!("CARGO_BIN_EXE_shorthaul"))
        .args(["demo", "--quick", "--path", "halfway", "--seed", "3", "--out"])
        .arg(&out.0)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    // Where this machine is too slow for some of it, it says so, and nothing is concluded from that.
    let doubted = run.status.code() == Some(3) && stderr.contains("too slow for");
    assert!(run.status.success() || doubted, "{stdout}\n{stderr}");
    assert!(!stdout.contains('\x1b'), "no colour into a pipe: {stdout}");

    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.0.join("demo.json")).unwrap()).unwrap();
    assert_eq!(json["manifest"]["seed"], 3);
    let transfers = json["transfers"].as_array().unwrap();
    // Short and long, for each congestion control that this kernel has.
    assert!(transfers.len() >= 2 && transfers.len().is_multiple_of(2), "{}", transfers.len());
    for transfer in transfers {
        for way in ["direct", "split"] {
            assert_eq!(transfer[way]["verified"], true, "{transfer}");
            assert_eq!(transfer[way]["bytes"], transfer[way]["asked"]);
        }
        let round_trip = |way: &str| transfer[way]["server_round_trip_s"].as_f64().unwrap();
        // The server of a split connection talks to the gateway, which is half as far away.
        assert!((0.06..0.09).contains(&round_trip("split")), "{}", round_trip("split"));
        assert!(round_trip("direct") > 0.12, "{}", round_trip("direct"));
        assert!(stdout.contains(transfer["seen"].as_str().unwrap()), "{transfer}");
    }

    let bytes = |name: &str| std::fs::read(out.0.join(name)).unwrap();
    for png in ["demo.png", "details.png"] {
        assert!(bytes(png).starts_with(b"\x89PNG\r\n"), "{png}");
    }
    for svg in ["demo.svg", "details.svg"] {
        assert!(bytes(svg).starts_with(b"<svg"), "{svg}");
    }
    for text in ["demo.csv", "demo.txt"] {
        let text = String::from_utf8(bytes(text)).unwrap();
        assert!(text.contains("shorthaul 0.") && text.contains("seed: 3") && text.contains("halfway"));
    }
}
