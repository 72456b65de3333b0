use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;

use super::{Directory, DirectoryError, Listed};
use crate::discovery::message::PORT;
use crate::discovery::prober::ASKED_MAX;

/// Relays in the DNS: the SRV records (RFC 2782) of a name such as `_shorthaul._tcp.example.net`. The port of a record is
/// that of sessions; responders are at port 7007. Lower priorities come first, and heavier weights within one.
#[derive(Clone, Debug)]
pub struct Srv {
    name: String,
    server: Option<SocketAddr>,
    probe_port: u16,
}

/// The longest that all questions together may take.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Srv {
    /// The records of `name`, asked for as the host's configuration says.
    pub fn new(name: &str) -> Self {
        Srv { name: name.to_owned(), server: None, probe_port: PORT }
    }

    /// The same, asked of this server.
    #[must_use]
    pub fn at(self, server: SocketAddr) -> Self {
        Srv { server: Some(server), ..self }
    }

    fn resolver(&self) -> Result<TokioResolver, String> {
        let said = |error: hickory_resolver::net::NetError| error.to_string();
        let builder = match self.server {
            None => TokioResolver::builder_tokio().map_err(said)?,
            Some(server) => {
                let mut server_config = NameServerConfig::udp_and_tcp(server.ip());
                for connection in &mut server_config.connections {
                    let ConnectionConfig { port, .. } = connection;
                    *port = server.port();
                }
                let config = ResolverConfig::from_parts(None, Vec::new(), vec![server_config]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        builder.build().map_err(said)
    }

    async fn ask(&self) -> Result<Vec<Listed>, String> {
        let resolver = self.resolver()?;
        let found = resolver.srv_lookup(self.name.as_str()).await.map_err(|error| error.to_string())?;
        let records = found.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(srv.clone()),
            _ => None,
        });
        let mut relays = Vec::new();
        for SRV { port, target, .. } in in_order(records.collect()) {
            let name = target.to_utf8().trim_end_matches('.').to_owned();
            // A target that has no address now is no reason to do without the others.
            let Ok(addresses) = resolver.lookup_ip(target).await else { continue };
            let mut addresses: Vec<_> = addresses.iter().collect();
            addresses.sort_by_key(std::net::IpAddr::is_ipv6);
            if let Some(ip) = addresses.first() {
                let (session, probe) = (SocketAddr::new(*ip, port), SocketAddr::new(*ip, self.probe_port));
                relays.push(Listed { name, session, probe, load: None });
            }
        }
        Ok(relays)
    }
}

/// As RFC 2782 orders them, but for the draw among weights: relays are probed and not drawn. A target of `.` says that
/// there is no such service. No more than can be asked.
fn in_order(mut records: Vec<SRV>) -> Vec<SRV> {
    records.retain(|srv| !srv.target.is_root() && srv.port != 0);
    records.sort_by_key(|srv| (srv.priority, std::cmp::Reverse(srv.weight)));
    records.truncate(ASKED_MAX);
    records
}

impl Directory for Srv {
    fn name(&self) -> String {
        format!("DNS name {}", self.name)
    }

    fn relays(&self) -> Result<Vec<Listed>, DirectoryError> {
        let wrong = |problem: String| DirectoryError { directory: self.name(), problem };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let asked = runtime.block_on(async { tokio::time::timeout(TIMEOUT, self.ask()).await });
        asked.map_err(|_| wrong("no answer in 10 s".into()))?.map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::thread;

    /// Answers as many questions as come within a second of silence, out of these zones.
    fn serve(socket: UdpSocket) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let mut buffer = [0; 512];
            while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
                socket.send_to(&answer(&buffer[..len]), peer).unwrap();
            }
        })
    }

    /// A name in the form of RFC 1035 §3.1.
    fn encoded(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    fn answer(query: &[u8]) -> Vec<u8> {
        let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let (name, kind) = (&query[12..end], u16::from_be_bytes([query[end], query[end + 1]]));
        let mut records: Vec<(u16, Vec<u8>)> = Vec::new();
        let srv = |priority: u16, weight: u16, target: &str| {
            let mut data = Vec::new();
            for field in [priority, weight, 7001] {
                data.extend(field.to_be_bytes());
            }
            data.extend(encoded(target));
            data
        };
        if kind == 33 && name == encoded("_shorthaul._tcp.example.net") {
            records.push((33, srv(20, 0, "last.example.net")));
            records.push((33, srv(10, 1, "second.example.net")));
            records.push((33, srv(10, 5, "first.example.net")));
            records.push((33, srv(10, 9, "gone.example.net")));
        }
        for (n, host) in (1..).zip(["first", "second", "last"]) {
            if kind == 1 && name == encoded(&format!("{host}.example.net")) {
                records.push((1, vec![192, 0, 2, n]));
            }
        }
        let mut reply = query[..2].to_vec();
        // A response, authoritative, recursion desired and there; the question again, without additional records.
        reply.extend([0x85, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
        reply.extend(&query[12..end + 4]);
        for (kind, data) in records {
            reply.extend([0xc0, 12]); // the name of the question
            reply.extend(kind.to_be_bytes());
            reply.extend([0, 1, 0, 0, 0, 60]);
            reply.extend((data.len() as u16).to_be_bytes());
            reply.extend(data);
        }
        reply
    }

    #[test]
    fn relays_come_in_the_order_of_their_records_and_those_that_are_gone_do_not() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        let serving = serve(socket);
        let relays = Srv::new("_shorthaul._tcp.example.net.").at(server).relays().unwrap();
        let found: Vec<(&str, String)> =
            relays.iter().map(|relay| (relay.name.as_str(), relay.session.to_string())).collect();
        assert_eq!(
            found,
            [
                ("first.example.net", "192.0.2.1:7001".to_owned()),
                ("second.example.net", "192.0.2.2:7001".to_owned()),
                ("last.example.net", "192.0.2.3:7001".to_owned()),
            ]
        );
        assert_eq!(relays[0].probe, "192.0.2.1:7007".parse().unwrap());
        let nothing = Srv::new("nothing.example.net.").at(server).relays().unwrap_err().to_string();
        assert!(nothing.contains("nothing.example.net"), "{nothing}");
        serving.join().unwrap();
    }
}
