//! One node goes on in the place of another, and no connection is refused.
//!
//! A node with a control socket waits there. Another process that comes is sent copies of all that listens (`SCM_RIGHTS`), the control
//! socket among them: what comes from then on waits for one or the other. When it has prepared itself it says so. The one before
//! tells it which signed requests are spent, and asks it about others from then on ([`Seen`](crate::Seen)). It says that it has taken over; the one before
//! accepts nothing any more, and serves what it has, but for sessions that survive the nodes on their way: those it hands over, if the other one asks
//! for them (`node/heir.rs`). If that breaks off before it has taken over, the one before goes on as if nothing had been.
use crate::node::NodeHandle;
use shorthaul_os::files::listen_privately;
use shorthaul_os::handover;
use shorthaul_os::poll::wait_any_readable;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What the new one says: first, when it could begin, and when it has what it needs for that.
const TAKE_OVER: &[u8] = b"take-over\n";
const PREPARED: &[u8] = b"prepared\n";
const TAKEN: &[u8] = b"taken\n";
/// And that it takes sessions that survive the nodes on their way. Not all versions say and hear that.
const SESSIONS: &[u8] = b"sessions\n";
/// What the one before sends, each with a descriptor but the last.
const CONTROL: &[u8] = b"control\n";
const SEEN: &[u8] = b"seen\n";
const STREAMS: &[u8] = b"streams\n";
const DATAGRAMS: &[u8] = b"datagrams\n";
const ALL: &[u8] = b"all\n";
/// The longest line.
const LONGEST: usize = 64;
/// How long each may take to say the next thing.
const ANSWERS: Duration = Duration::from_secs(5);
/// How long the new one may take to prepare itself.
const PREPARING: Duration = Duration::from_secs(60);
/// The longest sleep: after this long it is noticed that the node is to stop.
const NAP: Duration = Duration::from_millis(200);

/// Why nothing was taken over, or nobody will be able to.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// Another node has this control socket.
    #[error("a node runs that has the control socket {}: `--take-over` goes on in its place", .0.display())]
    Taken(PathBuf),
    /// What is there is something else.
    #[error("{} is no socket: name another file for --control", .0.display())]
    NoSocket(PathBuf),
    /// The control socket cannot be made.
    #[error("cannot listen at {}: {error}", .path.display())]
    Listen {
        /// Its file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nobody is there.
    #[error("no node listens at {}: {error}; leave out --take-over", .path.display())]
    Nobody {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The node that is there does not hand over what it has.
    #[error("cannot take over from the node that runs, which goes on: {0}")]
    Failed(io::Error),
}

/// A socket that listens.
#[derive(Debug)]
pub enum Listening {
    /// For connections.
    Streams(TcpListener),
    /// For datagrams.
    Datagrams(UdpSocket),
}

impl Listening {
    /// Another descriptor of the same.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn try_clone(&self) -> io::Result<Listening> {
        Ok(match self {
            Listening::Streams(one) => Listening::Streams(one.try_clone()?),
            Listening::Datagrams(one) => Listening::Datagrams(one.try_clone()?),
        })
    }

    fn kind(&self) -> &'static [u8] {
        match self {
            Listening::Streams(_) => STREAMS,
            Listening::Datagrams(_) => DATAGRAMS,
        }
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Listening::Streams(one) => one.local_addr(),
            Listening::Datagrams(one) => one.local_addr(),
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listening::Streams(one) => one.as_fd(),
            Listening::Datagrams(one) => one.as_fd(),
        }
    }
}

/// The sockets of the one before. Whoever needs one takes it by its address.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Listening>);

impl Inherited {
    /// Those that take connections at an address.
    pub fn streams_at(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        let is_it = |one: &mut Listening| {
            matches!(one, Listening::Streams(_)) && one.address().is_ok_and(|at| at == address)
        };
        let taken = self.0.extract_if(.., is_it).filter_map(|one| match one {
            Listening::Streams(one) => Some(one),
            Listening::Datagrams(_) => None,
        });
        taken.collect()
    }

    /// The one that takes datagrams at an address.
    pub fn datagrams_at(&mut self, address: SocketAddr) -> Option<UdpSocket> {
        let is_it = |one: &Listening| {
            matches!(one, Listening::Datagrams(_)) && one.address().is_ok_and(|at| at == address)
        };
        let at = self.0.iter().position(is_it)?;
        match self.0.swap_remove(at) {
            Listening::Datagrams(one) => Some(one),
            Listening::Streams(_) => None,
        }
    }

    /// Where the one before listened, and nobody has taken the socket.
    pub fn left(&self) -> Vec<SocketAddr> {
        let mut left: Vec<_> = self.0.iter().filter_map(|one| one.address().ok()).collect();
        left.sort();
        left.dedup();
        left
    }
}

/// Where another process may come that wants to take over. Only its owner's may.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
}

/// The one before, which goes on until it is told.
#[derive(Debug)]
pub struct Former {
    stream: UnixStream,
    seen: UnixStream,
}

impl Control {
    /// Begins to listen, in place of a socket that nobody listens at any more.
    ///
    /// # Errors
    /// Somebody does, or the file cannot be made.
    pub fn bind(path: &Path) -> Result<Control, TakeOverError> {
        let error = |error| TakeOverError::Listen { path: path.into(), error };
        if UnixStream::connect(path).is_ok() {
            return Err(TakeOverError::Taken(path.into()));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(TakeOverError::NoSocket(path.into())),
            Ok(_) => fs::remove_file(path).map_err(error)?,
            Err(_) => {} // it is made, or why not is said then
        }
        Ok(Control { listener: listen_privately(path).map_err(error)? })
    }

    /// Asks the node that listens there for all that it has. It goes on until it hears [`Former::succeed`].
    ///
    /// # Errors
    /// Nobody is there, or it does not hand anything over.
    pub fn take_over(path: &Path) -> Result<(Control, Former, Inherited), TakeOverError> {
        let nobody = |error| TakeOverError::Nobody { path: path.into(), error };
        let mut stream = UnixStream::connect(path).map_err(nobody)?;
        let receive = || -> io::Result<_> {
            stream.set_read_timeout(Some(ANSWERS))?;
            stream.set_write_timeout(Some(ANSWERS))?;
            stream.write_all(TAKE_OVER)?;
            let (mut control, mut seen, mut inherited) = (None, None, Vec::new());
            loop {
                let (text, mut descriptors) = handover::receive(&stream, LONGEST)?;
                match (&text[..], descriptors.pop()) {
                    (CONTROL, Some(one)) => control = Some(UnixListener::from(one)),
                    (SEEN, Some(one)) => seen = Some(UnixStream::from(one)),
                    (STREAMS, Some(one)) => inherited.push(Listening::Streams(TcpListener::from(one))),
                    (DATAGRAMS, Some(one)) => inherited.push(Listening::Datagrams(UdpSocket::from(one))),
                    (ALL, None) => break,
                    (other, _) => {
                        let other = String::from_utf8_lossy(other).into_owned();
                        return Err(io::Error::other(format!("it says `{}`", other.trim())));
                    }
                }
            }
            let (Some(listener), Some(seen)) = (control, seen) else {
                return Err(io::Error::other("it hands over no control socket"));
            };
            Ok((Control { listener }, Former { stream, seen }, Inherited(inherited)))
        };
        receive().map_err(TakeOverError::Failed)
    }

    /// Waits on a thread of its own for another process that takes over from `node`, with no more privileges than the calling thread
    /// has now. When one has, `left` is called.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn listen(self, node: NodeHandle, left: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let wait = move || {
            while !node.is_stopping() && wait_any_readable([self.listener.as_fd()], NAP).is_ok() {
                let Ok((stream, _)) = self.listener.accept() else { continue };
                match hand_over(&stream, &self.listener, &node) {
                    Ok(()) => return left(),
                    Err(error) => {
                        tracing::warn!("another process wanted to take over, and did not: {error}");
                    }
                }
            }
        };
        thread::Builder::new().name("control".into()).spawn(wait).map(drop)
    }
}

impl Former {
    /// Goes on in its place: from here on it accepts nothing. `node` is ready to run.
    ///
    /// # Errors
    /// It is gone, or goes on itself.
    pub fn succeed(mut self, node: &NodeHandle) -> Result<(), TakeOverError> {
        let succeed = || -> io::Result<()> {
            self.stream.write_all(PREPARED)?;
            self.seen.set_read_timeout(Some(ANSWERS))?;
            node.seen().inherit(&mut self.seen)?;
            self.seen.set_read_timeout(None)?;
            let (to_answer, seen) = (node.clone(), self.seen);
            thread::Builder::new().name("former".into()).spawn(move || to_answer.answer_former(&seen))?;
            self.stream.write_all(TAKEN)?;
            // Whether that one hands any over or not, it has left.
            if node.keeps() && self.stream.write_all(SESSIONS).is_ok() {
                node.inherit_kept(self.stream)?;
            }
            Ok(())
        };
        succeed().map_err(TakeOverError::Failed)
    }
}

/// Hands all over to whoever came, and waits until it has taken over.
fn hand_over(mut stream: &UnixStream, control: &UnixListener, node: &NodeHandle) -> io::Result<()> {
    stream.set_read_timeout(Some(ANSWERS))?;
    stream.set_write_timeout(Some(ANSWERS))?;
    hear(stream, TAKE_OVER)?;
    let (seen, theirs) = UnixStream::pair()?;
    handover::send(stream, CONTROL, &[control.as_fd()])?;
    handover::send(stream, SEEN, &[theirs.as_fd()])?;
    drop(theirs);
    for one in node.offered()? {
        handover::send(stream, one.kind(), &[one.as_fd()])?;
    }
    stream.write_all(ALL)?;
    stream.set_read_timeout(Some(PREPARING))?;
    hear(stream, PREPARED)?;
    stream.set_read_timeout(Some(ANSWERS))?;
    let taken = node.seen().hand_over(seen).and_then(|()| hear(stream, TAKEN));
    if taken.is_err() {
        node.seen().keep();
        return taken;
    }
    node.leave();
    if hear(stream, SESSIONS).is_ok()
        && let Err(error) = stream.try_clone().and_then(|stream| node.hand_kept_over(stream))
    {
        tracing::warn!("no sessions are handed over: {error}");
    }
    Ok(())
}

fn hear(mut stream: &UnixStream, expected: &[u8]) -> io::Result<()> {
    let mut said = vec![0; expected.len()];
    stream.read_exact(&mut said)?;
    if said == expected { Ok(()) } else { Err(io::Error::other("it says something else than it should")) }
}
