use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shorthaul_types::BitRate;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{Directory, DirectoryError, Listed, freest_first};
use crate::discovery::message::Capacity;
use crate::discovery::responder::Load;

/// The longest that one request may take.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Relays that are read with one request: what the agent reads of an answer, 10 MB, holds many more.
const PAGE: usize = 1024;
/// Requests for one reading, at most: a cluster that always has more to say is not heard for ever.
const PAGES: usize = 64;

/// How to reach an etcd cluster, by its JSON gateway (etcd 3.4 and later).
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// Its members: `https://etcd.example.net:2379`. The first that answers is asked.
    pub endpoints: Vec<String>,
    /// What the relays' keys begin with.
    pub prefix: String,
    /// User and password, if the cluster asks for them.
    pub user: Option<(String, String)>,
    /// The authority that signed the members' certificates, as a PEM file; without, those of Mozilla's list.
    pub authority: Option<PathBuf>,
}

impl EtcdConfig {
    /// One member, no password, the usual prefix.
    pub fn new(endpoint: &str) -> Self {
        EtcdConfig {
            endpoints: vec![endpoint.to_owned()],
            prefix: "/shorthaul/relays/".into(),
            user: None,
            authority: None,
        }
    }
}

/// A directory in etcd, in which relays write themselves with their load and with a lease, so that those that have gone
/// vanish by themselves.
///
/// Nothing in it needs to be believed: whoever is named there must answer a probe with the network's key.
#[derive(Debug)]
pub struct Etcd {
    config: EtcdConfig,
    agent: Agent,
    /// From the last log-in; etcd forgets it after a while.
    token: Mutex<Option<String>>,
}

/// A relay as it stands in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    session: SocketAddr,
    probe: SocketAddr,
    /// In nanoseconds.
    service_time: u64,
    buffer: u64,
    sessions: u32,
    /// In bit/s, and how many share it; nodes of before do not write them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active: Option<u32>,
    overloaded: bool,
}

impl From<Entry> for Listed {
    fn from(entry: Entry) -> Self {
        let load = Load {
            service_time: Duration::from_nanos(entry.service_time),
            buffer: entry.buffer,
            sessions: entry.sessions,
            capacity: entry
                .rate
                .filter(|rate| *rate > 0)
                .zip(entry.active)
                .map(|(rate, active)| Capacity { rate: BitRate::from_bits_per_sec(rate), active }),
            overloaded: entry.overloaded,
        };
        Listed { name: entry.name, session: entry.session, probe: entry.probe, load: Some(load) }
    }
}

impl Etcd {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// The authority's certificate cannot be read.
    pub fn new(config: EtcdConfig) -> Result<Self, DirectoryError> {
        let mut tls = TlsConfig::builder();
        if let Some(path) = &config.authority {
            let wrong = |problem: String| DirectoryError {
                directory: format!("etcd directory {}", config.endpoints.join(", ")),
                problem: format!("cannot read the certificate {}: {problem}", path.display()),
            };
            let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let certificate = Certificate::from_pem(&pem).map_err(|error| wrong(error.to_string()))?;
            tls = tls.root_certs(RootCerts::new_with_certs(&[certificate]));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .tls_config(tls.build())
            .build()
            .new_agent();
        Ok(Etcd { config, agent, token: Mutex::new(None) })
    }

    /// Writes a relay once, with a lease that nobody prolongs: it vanishes when that is over.
    ///
    /// # Errors
    /// The cluster cannot be reached, or refuses.
    pub fn register_once(&self, registration: &Registration, load: &Load) -> Result<(), DirectoryError> {
        write(self, registration, load, &mut None)
    }

    fn error(&self, problem: impl ToString) -> DirectoryError {
        DirectoryError { directory: self.name(), problem: problem.to_string() }
    }

    fn token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One request: its answer, or what went wrong. A token that was forgotten is got anew, once.
    fn call(&self, path: &str, request: &Value) -> Result<Value, DirectoryError> {
        if self.config.user.is_some() && self.token().is_none() {
            self.log_in()?;
        }
        match self.post(path, request)? {
            (401, _) if self.config.user.is_some() => {
                self.log_in()?;
                accepted(self.post(path, request)?).map_err(|problem| self.error(problem))
            }
            answer => accepted(answer).map_err(|problem| self.error(problem)),
        }
    }

    fn log_in(&self) -> Result<(), DirectoryError> {
        let Some((name, password)) = &self.config.user else { return Ok(()) };
        let answer = self.post("/v3/auth/authenticate", &json!({ "name": name, "password": password }))?;
        let answer = accepted(answer).map_err(|problem| self.error(problem))?;
        let token = answer["token"].as_str().map(str::to_owned);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
        Ok(())
    }

    /// Asks the members in their order until one answers: status and body.
    fn post(&self, path: &str, request: &Value) -> Result<(u16, Value), DirectoryError> {
        let mut last =
            self.error("no member of the cluster is named; give one, such as http://127.0.0.1:2379");
        for endpoint in &self.config.endpoints {
            let mut call = self.agent.post(format!("{}{path}", endpoint.trim_end_matches('/')));
            if let Some(token) = self.token() {
                call = call.header("authorization", token);
            }
            let said = call
                .content_type("application/json")
                .send(request.to_string())
                .and_then(|mut answer| Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?)));
            match said {
                Ok((status, text)) => {
                    let body = serde_json::from_str(&text).map_err(|_| {
                        self.error(format!("{endpoint} answers something else than etcd does"))
                    })?;
                    return Ok((status, body));
                }
                Err(error) => last = self.error(format!("{endpoint}: {error}")),
            }
        }
        Err(last)
    }
}

fn accepted((status, body): (u16, Value)) -> Result<Value, String> {
    match status {
        200 => Ok(body),
        _ => {
            Err(format!("it refuses with status {status}: {}", body["error"].as_str().unwrap_or("no reason")))
        }
    }
}

impl Directory for Etcd {
    fn name(&self) -> String {
        format!("etcd directory {}{}", self.config.endpoints.join(", "), self.config.prefix)
    }

    fn relays(&self) -> Result<Vec<Listed>, DirectoryError> {
        let prefix = self.config.prefix.as_bytes();
        let end = BASE64.encode(&end_of_prefix(prefix));
        let (mut relays, mut from) = (Vec::new(), prefix.to_vec());
        // Keys come in their order, so that what is written meanwhile moves none from one page to another.
        for _ in 0..PAGES {
            let request = json!({ "key": BASE64.encode(&from), "range_end": end, "limit": PAGE });
            let answer = self.call("/v3/kv/range", &request)?;
            let entries = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
            relays.extend(entries.iter().filter_map(listed));
            match key_after(&answer).filter(|next| *next > from) {
                Some(next) => from = next,
                None => break,
            }
        }
        freest_first(&mut relays);
        Ok(relays)
    }
}

/// The relay that an entry is, unless somebody wrote something else under the prefix.
fn listed(entry: &Value) -> Option<Listed> {
    let value = BASE64.decode(entry["value"].as_str()?.as_bytes()).ok()?;
    serde_json::from_slice::<Entry>(&value).ok().map(Listed::from)
}

/// Where the rest of an answer begins, if that was not all.
fn key_after(answer: &Value) -> Option<Vec<u8>> {
    // What is false is left out.
    answer["more"].as_bool().filter(|more| *more)?;
    let last = answer["kvs"].as_array()?.last()?["key"].as_str()?;
    let mut key = BASE64.decode(last.as_bytes()).ok()?;
    key.push(0);
    Some(key)
}

/// The first key that no longer begins with the prefix.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0] // all keys
}

/// Who a relay is, for the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// What people call it; unique in the directory.
    pub name: String,
    /// Where it accepts sessions.
    pub session: SocketAddr,
    /// Where its responder is asked.
    pub probe: SocketAddr,
    /// How long after its end it vanishes. Its load is written three times in this time.
    pub lease: Duration,
}

/// Keeps a relay in the directory, with fresh load figures, until it is dropped.
#[derive(Debug)]
pub struct Registered {
    stop: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Registered {
    /// Begins, on a thread of its own. What goes wrong is handed to `complain` and tried again.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(
        etcd: Arc<Etcd>,
        registration: Registration,
        load: impl Fn() -> Load + Send + 'static,
        complain: impl Fn(DirectoryError) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("registered".into()).spawn(move || {
            let mut lease = None;
            loop {
                if let Err(error) = write(&etcd, &registration, &load(), &mut lease) {
                    lease = None; // the next attempt begins from the beginning
                    complain(error);
                }
                match stopped.recv_timeout(registration.lease / 3) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if let Some(lease) = lease {
                // Were it not to work, the lease would end by itself.
                let _ = etcd.call("/v3/lease/revoke", &json!({ "ID": lease }));
            }
        })?;
        Ok(Registered { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Prolongs the lease, or takes one, and writes the entry.
fn write(
    etcd: &Etcd,
    registration: &Registration,
    load: &Load,
    lease: &mut Option<String>,
) -> Result<(), DirectoryError> {
    let alive = match &lease {
        Some(lease) => {
            let answer = etcd.call("/v3/lease/keepalive", &json!({ "ID": lease }))?;
            // It comes as a stream of one; a lease that has ended has no time to live.
            let left = &answer["result"]["TTL"];
            left.as_str()
                .and_then(|left| left.parse().ok())
                .or(left.as_i64())
                .is_some_and(|left: i64| left > 0)
        }
        None => false,
    };
    if !alive {
        let seconds = registration.lease.as_secs().max(1);
        let answer = etcd.call("/v3/lease/grant", &json!({ "TTL": seconds }))?;
        let granted = answer["ID"].as_str().ok_or_else(|| etcd.error("it grants no lease"))?;
        *lease = Some(granted.to_owned());
    }
    let entry = Entry {
        name: registration.name.clone(),
        session: registration.session,
        probe: registration.probe,
        service_time: u64::try_from(load.service_time.as_nanos()).unwrap_or(u64::MAX),
        buffer: load.buffer,
        sessions: load.sessions,
        rate: load.capacity.map(|capacity| capacity.rate.bits_per_sec()),
        active: load.capacity.map(|capacity| capacity.active),
        overloaded: load.overloaded,
    };
    let value = serde_json::to_vec(&entry).map_err(|error| etcd.error(error))?;
    let key = format!("{}{}", etcd.config.prefix, registration.name);
    let request =
        json!({ "key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(&value), "lease": lease });
    etcd.call("/v3/kv/put", &request).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        assert_eq!(end_of_prefix(b"/a/"), b"/a0");
        assert_eq!(end_of_prefix(&[1, 255]), [2]);
        assert_eq!(end_of_prefix(&[255]), [0]);
    }

    #[test]
    fn relays_of_before_and_of_now_are_read() {
        let before = r#"{"name":"n","session":"192.0.2.1:7080","probe":"192.0.2.1:7007","service_time":5,"buffer":1,"sessions":2,"overloaded":false}"#;
        let read =
            |text: &str| Listed::from(serde_json::from_str::<Entry>(text).unwrap()).load.unwrap().capacity;
        assert_eq!(read(before), None);
        let now = before.replace("\"overloaded\"", "\"rate\":90000000,\"active\":1,\"overloaded\"");
        let rate = BitRate::from_bits_per_sec(90_000_000);
        assert_eq!(read(&now), Some(Capacity { rate, active: 1 }));
    }

    #[test]
    fn a_cluster_that_is_not_there_is_named() {
        let etcd = Etcd::new(EtcdConfig::new("http://127.0.0.1:1")).unwrap();
        let error = etcd.relays().unwrap_err().to_string();
        assert!(error.contains("http://127.0.0.1:1"), "{error}");
    }
}
