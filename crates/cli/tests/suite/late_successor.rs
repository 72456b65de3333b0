//! One that takes over and stands still on the way: traffic does not wait for it, and it does not take over when it wakes.
use crate::gateway::signal;
use crate::workers::{PHONES, Site, exchange};
use shorthaul_os::handover;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// Whatever stands between a gateway and one that takes over: what the first one says passes when it is let pass.
struct Between {
    running: UnixStream,
    next: UnixStream,
}

impl Between {
    /// Starts one that is to take over, and has it ask.
    fn start(site: &Site) -> (Between, Child) {
        let [path, real] = ["gw.sock", "real.sock"].map(|name| site.folder.join(name));
        std::fs::rename(&path, &real).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let child = site.lab.host("gateway").spawn(site.command().arg("--take-over")).unwrap();
        let (mut next, _) = listener.accept().unwrap();
        let mut running = UnixStream::connect(&real).unwrap();
        std::fs::rename(&real, &path).unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"take-over\n") {
            let mut bytes = [0; 128];
            let length = next.read(&mut bytes).unwrap();
            assert!(length > 0, "it has ended");
            asked.extend(&bytes[..length]);
            running.write_all(&bytes[..length]).unwrap();
        }
        (Between { running, next }, child)
    }

    /// What came with descriptors.
    fn pass(&self, longest: usize) {
        let (text, descriptors) = handover::receive(&self.running, longest).unwrap();
        let descriptors: Vec<_> = descriptors.iter().map(|one| one.as_fd()).collect();
        handover::send(&self.next, &text, &descriptors).unwrap();
    }

    /// What there is of the rest, to its end.
    fn pass_rest(&mut self) {
        let mut rest = Vec::new();
        self.running.read_to_end(&mut rest).unwrap();
        self.next.write_all(&rest).unwrap();
    }
}

/// What one that could not take over says.
fn said_by(child: Child) -> String {
    let said = child.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    String::from_utf8_lossy(&said.stderr).into_owned()
}

#[test]
fn a_successor_that_stands_still_is_given_up_and_finds_out_when_it_wakes() {
    for workers in [1, 2] {
        let site = Site::new(&format!("late-{workers}"));
        site.configure(&format!("workers = {workers}\n"));
        let mut gateway = site.start();
        let mut said = BufReader::new(gateway.child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut gave_up = || said.find(|line| line.contains("did not, this one goes on")).unwrap();
        let mut connections = site.connect_all();
        for has_all in [true, false] {
            exchange(&mut connections, 4 << 20, || {
                let (mut between, child) = Between::start(&site);
                let asked = Instant::now();
                // Nothing of what it is handed reaches it: packets wait for it.
                let line = gave_up();
                assert!(line.contains("it did nothing for 5"), "{line}");
                assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
                // Now it wakes, and has everything, or is told in the middle that nothing more comes.
                between.pass(4096);
                between.pass(8);
                if has_all {
                    between.pass_rest();
                } else {
                    between.next.shutdown(Shutdown::Write).unwrap();
                }
                let why = said_by(child);
                assert!(why.contains("this took too long, and the running one has gone on"), "{why}");
            });
        }
        assert_eq!(site.journals(), workers, "those of the one that runs");
        assert_eq!(site.counts("flows_split").iter().sum::<u64>(), PHONES as u64);
        assert!(site.counts("flows_resumed").iter().all(|count| *count == 0));
        // Whoever is in time takes over.
        exchange(&mut connections, 4 << 20, || {
            let next = site.start_with(&["--take-over"]);
            assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
            gateway = next;
        });
        assert_eq!(site.counts("flows_resumed").iter().sum::<u64>(), PHONES as u64);
        signal(&gateway, "TERM");
        assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
        assert_eq!(site.journals(), 0);
    }
}
