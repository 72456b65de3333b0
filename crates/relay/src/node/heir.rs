//! Sessions that survive the nodes on their way, and this process, too: another one that takes over is handed each, with the socket to its
//! target and all that this end knows; its client comes back to that one.
//!
//! They go over one after the other, on the stream on which the other one said that it has taken over: three lengths, with the socket
//! beside them, then the record in JSON, and the bytes of both directions. Each is answered by a byte, 1 if it is there. A session's way is open until
//! then, so that no client comes back too soon. When all that were here have gone over or ended, lengths of zero say so.
use super::Shared;
use super::access::Past;
use super::admission::{Grant, Proof};
use super::kept::{ARRIVALS, Arrival, InPlace, Known, Quota};
use super::session::Opened;
use crate::request::SessionId;
use crate::resume::{Ends, EndsRecord, Role};
use crate::route::Endpoint;
use serde::{Deserialize, Serialize};
use shorthaul_os::handover;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

/// The three lengths: of the record, of what its target gave, and of what waits for its target.
const HEAD: usize = 24;
/// The longest record.
const RECORD: u64 = 1 << 20;
/// How often it is looked whether all have gone over.
const LOOK: Duration = Duration::from_millis(10);
/// How long the other process may take to say that one is there.
const ANSWERS: Duration = Duration::from_secs(5);

/// Takes sessions to the process that has taken over, and says of each whether it is there.
pub(super) type Heir = Sender<(Parcel, oneshot::Sender<bool>)>;

/// What of a session is no socket and no bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub key: [u8; 16],
    pub target: String,
    pub account: String,
    pub proof: Proof,
    pub by_node: bool,
    pub connect_time: Option<Duration>,
    /// Toward the target, and back.
    pub bytes: [u64; 2],
    pub is_finished: bool,
    pub past: Option<Past>,
    pub ends: EndsRecord,
}

/// A session on its way to another process.
#[derive(Debug)]
pub(super) struct Parcel {
    pub record: Record,
    /// What the target gave and the client has not acknowledged.
    pub given: Vec<u8>,
    /// What came for the target and it has not taken.
    pub waiting: Vec<u8>,
    /// The connection to the target.
    pub socket: OwnedFd,
}

/// A session that another process has handed over, and that is in its place.
pub(super) struct Inherited {
    pub record: Record,
    pub place: InPlace,
    pub opened: Opened,
    pub to: Endpoint,
    pub socket: TcpStream,
    pub ends: Ends<Quota>,
    pub arriving: Receiver<Arrival>,
}

/// Those that were handed over, on their way to the threads that carry them.
pub(super) struct Inheritance {
    send: UnboundedSender<Box<Inherited>>,
    receive: Mutex<Option<UnboundedReceiver<Box<Inherited>>>>,
}

impl Default for Inheritance {
    fn default() -> Inheritance {
        let (send, receive) = mpsc::unbounded_channel();
        Inheritance { send, receive: Mutex::new(Some(receive)) }
    }
}

impl Inheritance {
    /// For the one who leads them to threads: the first that asks.
    pub fn receive(&self) -> Option<UnboundedReceiver<Box<Inherited>>> {
        self.receive.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Parcel {
    fn send(&self, mut to: &UnixStream) -> io::Result<bool> {
        let record = serde_json::to_vec(&self.record)?;
        let lengths =
            [record.len(), self.given.len(), self.waiting.len()].map(|len| (len as u64).to_be_bytes());
        handover::send(to, lengths.as_flattened(), &[self.socket.as_fd()])?;
        to.write_all(&record)?;
        to.write_all(&self.given)?;
        to.write_all(&self.waiting)?;
        let mut answer = [0];
        to.read_exact(&mut answer)?;
        Ok(answer == [1])
    }

    /// The next one; nothing, if all are here.
    fn receive(mut from: &UnixStream) -> io::Result<Option<Parcel>> {
        let (mut head, mut descriptors) = handover::receive(from, HEAD)?;
        let mut rest = vec![0; HEAD - head.len()];
        from.read_exact(&mut rest)?;
        head.append(&mut rest);
        let length = |at: usize| head[8 * at..][..8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let [record, given, waiting] = [0, 1, 2].map(length);
        if record == 0 {
            return Ok(None);
        }
        let Some(socket) = descriptors.pop().filter(|_| record <= RECORD) else {
            return Err(io::Error::other("what it hands over is no session"));
        };
        let take = |len: u64| {
            let mut bytes = Vec::new();
            match from.take(len).read_to_end(&mut bytes)? as u64 == len {
                true => Ok(bytes),
                false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
        };
        let record = serde_json::from_slice(&take(record)?)?;
        Ok(Some(Parcel { record, given: take(given)?, waiting: take(waiting)?, socket }))
    }
}

impl Shared {
    /// Whether another process has taken over, and is handed sessions.
    pub(super) fn has_heir(&self) -> bool {
        self.heir.borrow().is_some()
    }

    /// Waits until there is one.
    pub(super) async fn heir(&self) {
        let mut heir = self.heir.subscribe();
        if heir.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Hands a session over; whether it is there.
    pub(super) async fn hand_over(&self, parcel: io::Result<Parcel>) -> bool {
        let heir = self.heir.borrow().clone();
        let (Some(heir), Ok(parcel)) = (heir, parcel) else { return false };
        let (told, hear) = oneshot::channel();
        heir.send((parcel, told)).is_ok() && hear.await.unwrap_or(false)
    }

    /// From now on sessions go over to who listens there.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn begin_to_hand_over(self: &Arc<Self>, to: UnixStream) -> io::Result<()> {
        to.set_read_timeout(Some(ANSWERS))?;
        to.set_write_timeout(Some(ANSWERS))?;
        let (heir, parcels) = channel::<(Parcel, oneshot::Sender<bool>)>();
        let node = Arc::downgrade(self);
        let mut has_said_all = false;
        let hand_over = move || {
            while let Some(shared) = node.upgrade() {
                if !has_said_all && shared.kept.is_empty() && *shared.inheriting.borrow() == 0 {
                    has_said_all = (&to).write_all(&[0; HEAD]).is_ok();
                }
                drop(shared);
                match parcels.recv_timeout(LOOK) {
                    Ok((parcel, told)) => {
                        let is_there = parcel.send(&to).unwrap_or_else(|error| {
                            tracing::warn!("a session cannot be handed over: {error}");
                            // What was half said cannot be gone on with.
                            let _ = to.shutdown(std::net::Shutdown::Both);
                            false
                        });
                        let _ = told.send(is_there);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new().name("heir".into()).spawn(hand_over)?;
        self.heir.send_replace(Some(heir));
        Ok(())
    }

    /// Takes the sessions of the process from which this one has taken over, as they come.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn begin_to_inherit(self: &Arc<Self>, from: UnixStream) -> io::Result<()> {
        from.set_read_timeout(None)?;
        let shared = Arc::clone(self);
        self.inheriting.send_modify(|formers| *formers += 1);
        let inherit = move || {
            let mut is_complete = false;
            let mut complete = || {
                if !std::mem::replace(&mut is_complete, true) {
                    shared.inheriting.send_modify(|formers| *formers -= 1);
                }
            };
            loop {
                match Parcel::receive(&from) {
                    Ok(Some(parcel)) => {
                        let is_there = shared.inherit(parcel);
                        if (&from).write_all(&[u8::from(is_there)]).is_err() {
                            break;
                        }
                    }
                    Ok(None) => complete(),
                    Err(error) => {
                        if error.kind() != io::ErrorKind::UnexpectedEof {
                            tracing::warn!("no more sessions are taken from the process before: {error}");
                        }
                        break;
                    }
                }
            }
            complete();
        };
        thread::Builder::new().name("inheriting".into()).spawn(inherit).map(drop)
    }

    /// Gives a session its place; whether it has one.
    fn inherit(self: &Arc<Self>, parcel: Parcel) -> bool {
        let inherited = self.in_place(parcel);
        if let Err(why) = &inherited {
            tracing::warn!("a session of the process before cannot go on here: {why}");
        }
        inherited.is_ok_and(|inherited| self.inherited.send.send(inherited).is_ok())
    }

    fn in_place(self: &Arc<Self>, parcel: Parcel) -> Result<Box<Inherited>, String> {
        let Parcel { record, given, waiting, socket } = parcel;
        let to: Endpoint = record.target.parse().map_err(|_| "its target has no name".to_owned())?;
        let account = self.admission().account_of(&record.account, &record.proof);
        let account = account.ok_or_else(|| format!("nobody is called {} any more", record.account))?;
        let grant = Grant { account: Arc::clone(&account), proof: record.proof.clone() };
        let opened = Opened::inherited(self, grant)?;
        let memory = Quota::new(self, &account);
        let ends = Ends::of_record(Role::Node, &record.ends, (&given, waiting), memory)
            .ok_or("what it holds is not what it says")?;
        let (arrivals, arriving) = mpsc::channel(ARRIVALS);
        let known = Known { account, by_node: record.by_node, target: to.clone(), arrivals };
        let key = SessionId(u128::from_be_bytes(record.key));
        let place = InPlace::take(self, key, known).ok_or("it is there already")?;
        Ok(Box::new(Inherited { record, place, opened, to, socket: socket.into(), ends, arriving }))
    }
}
