use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shorthaul_lab::{Host, Lab};
use shorthaul_scenario::Forward;
use shorthaul_types::Bytes;

use shorthaul_lab::{RelayChain, RelaySettings};

/// The port that relays listen at.
const PORT: u16 = 7001;
/// How long a relay may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a transfer gets from the client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Direct,
    OneRelay,
    TwoRelays,
    /// The paper's own relay.
    Netcat,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Direct, Way::OneRelay, Way::TwoRelays, Way::Netcat];

    pub const fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::OneRelay => "one relay",
            Way::TwoRelays => "two relays",
            Way::Netcat => "netcat",
        }
    }

    pub const fn relays(self) -> usize {
        match self {
            Way::Direct => 0,
            Way::OneRelay | Way::Netcat => 1,
            Way::TwoRelays => 2,
        }
    }

    /// Whether what it takes is there.
    pub fn is_installed(self) -> bool {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        self != Way::Netcat || std::env::split_paths(&paths).any(|path| path.join("nc").exists())
    }
}

/// The relays of a transfer; end with it.
#[derive(Default)]
pub struct Chain {
    ours: Option<RelayChain>,
    netcats: Vec<Child>,
}

impl Chain {
    /// Starts relays from the server's side on, each with its buffer (the first is that next to the client); where the
    /// client is to connect.
    pub fn start(
        &mut self,
        way: Way,
        lab: &Lab,
        server: SocketAddr,
        congestion: &str,
        buffers: &[Option<Bytes>],
    ) -> io::Result<SocketAddr> {
        if way == Way::Netcat {
            let host = lab.host("relay1");
            let listen = SocketAddr::new(host.address_v4().into(), PORT);
            self.netcat(host, listen, server)?;
            return Ok(listen);
        }
        let relays = (1..=way.relays()).map(|number| {
            let buffer = buffers.get(number - 1).copied().flatten();
            let settings =
                RelaySettings { congestion: congestion.to_owned(), buffer, forward: Forward::AtOnce };
            (lab.host(&format!("relay{number}")), settings)
        });
        let chain = RelayChain::start(relays, PORT, server).map_err(io::Error::other)?;
        Ok(self.ours.insert(chain).entrance)
    }

    fn netcat(&mut self, host: &Host, listen: SocketAddr, to: SocketAddr) -> io::Result<()> {
        let script = format!(
            "exec 2>/dev/null; nc -l {} {} | nc -N {} {}",
            listen.ip(),
            listen.port(),
            to.ip(),
            to.port()
        );
        let mut command = Command::new("sh");
        let child = host.spawn(command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()))?;
        self.netcats.push(child);
        // It has no way to say that it listens; and a connection to find out would be its only one.
        let asked = std::time::Instant::now();
        while !host.run(|| listens(listen.port())) {
            if asked.elapsed() > PATIENCE {
                return Err(io::Error::other("netcat did not begin to listen"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Whether something listens at a TCP port of the calling thread's namespace.
fn listens(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
    let wanted = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1).is_some_and(|local| local.ends_with(&wanted)) && fields.get(3) == Some(&"0A")
    })
}

impl Drop for Chain {
    fn drop(&mut self) {
        for child in &mut self.netcats {
            // What it started itself ends with the lab.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
