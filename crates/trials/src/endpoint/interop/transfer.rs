//! One transfer, live.
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shorthaul_lab::LinkReport;
use shorthaul_tcp::{Agreed, WindowShifts};
use shorthaul_types::Bytes;

use super::case::{Case, PORT, Role};
use super::kernel::{KernelEnd, endpoint};
use super::ours::{OurEnd, toward};
use crate::conformance::{Failure, Pattern};
use crate::endpoint::place::{KERNEL, address_of};
use crate::error::{Result, TrialError};

/// After this a transfer is stuck. The slowest have a dozen timeouts in a row.
const LIMIT: Duration = Duration::from_secs(90);

/// What was seen of a transfer in which everything arrived.
pub struct Seen {
    pub time: Duration,
    pub shifts: WindowShifts,
    /// Packets that the links lost, reordered and duplicated.
    pub lost: u64,
    pub reordered: u64,
    pub duplicated: u64,
}

/// Does the transfer; an error says what did not arrive, or not as it should.
pub fn run(case: &Case, record: Option<&Path>) -> Result<Seen> {
    let path = case.path();
    let lab = path.start()?;
    let host = lab.host(KERNEL);
    let link = &lab.links()[0];
    if let Some(file) = record {
        link.record(KERNEL, file)?;
    }
    let deadline = Instant::now() + LIMIT;
    let exchange = case.exchange();
    let (our_script, their_script) = match case.role {
        Role::Client => (exchange.client, exchange.server),
        Role::Server => (exchange.server, exchange.client),
    };
    let ours = Pattern::new(case.seed.derive("from the endpoint"));
    let theirs = Pattern::new(case.seed.derive("from the kernel"));

    let kernel = KernelEnd::new(case, host, their_script, deadline)?;
    let mut connect = None;
    let mut endpoint_loop = path.endpoint(&lab, |host| {
        if case.role == Role::Server {
            host.listen(PORT, case.config());
        }
    })?;
    if case.role == Role::Client {
        let address = SocketAddr::new(address_of(host, case.endpoint_address()), PORT);
        connect = Some((toward(case.endpoint_address(), kernel.listen(address)?), case.config()));
    }

    let started = Instant::now();
    let kernel_is_done = AtomicBool::new(false);
    let (ours, theirs) = std::thread::scope(|scope| {
        let their_end = scope.spawn(|| {
            let done = match case.role {
                Role::Client => kernel.serve(theirs, ours),
                Role::Server => kernel.connect(endpoint(case), theirs, ours),
            };
            kernel_is_done.store(true, Ordering::Release);
            done
        });
        let our_end = OurEnd::new(our_script, ours, theirs);
        let ours =
            our_end.run(&mut endpoint_loop, connect, deadline, || kernel_is_done.load(Ordering::Acquire));
        (ours, their_end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let time = started.elapsed();
    if record.is_some() {
        link.stop_recording()?;
    }
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(ours), Err(theirs)) => {
            return Err(TrialError::failed(format!("{theirs}; {ours}")));
        }
        (Err(failure), Ok(_)) | (Ok(_), Err(failure)) => return Err(failure.into()),
    };
    theirs.received.expect_all_of(&ours.sent)?;
    theirs.sent.expect_at("endpoint", &ours.received)?;
    check_agreed(case, ours.agreed)?;

    let LinkReport { up, down, .. } = link.report()?;
    Ok(Seen {
        time,
        shifts: ours.shifts,
        lost: up.link.dropped.total() + down.link.dropped.total(),
        reordered: up.link.reordered + down.link.reordered,
        duplicated: up.link.duplicated + down.link.duplicated,
    })
}

/// The transfer must have been the one that was drawn.
fn check_agreed(case: &Case, agreed: Agreed) -> Result<(), Failure> {
    for (option, found, wanted) in [
        ("SACK", agreed.sack, case.sack.agreed()),
        ("timestamps", agreed.timestamps, case.timestamps.agreed()),
        ("window scaling", agreed.window_scaling, case.scales()),
    ] {
        if found != wanted {
            let state = |on| if on { "on" } else { "off" };
            let sentence = format!("{option} was {} although it should be {}", state(found), state(wanted));
            return Err(Failure::new(sentence));
        }
    }
    Ok(())
}

/// For people.
impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.2} s, {} lost, {} reordered, {} duplicated",
            self.time.as_secs_f64(),
            self.lost,
            self.reordered,
            self.duplicated
        )
    }
}

/// How much data the two ends send together.
pub fn volume(case: &Case) -> Bytes {
    let exchange = case.exchange();
    Bytes(exchange.client.sends() + exchange.server.sends())
}
