//! Threads that accept connections, and which of them takes one on.
use super::heir::Inherited;
use super::processors::Processors;
use super::strangers::Waiting;
use super::{Phase, Purpose, Shared, kept, metrics, relaying, session};
use crate::accept::accept as accept_one;
use crate::pump::attention;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Where connections are led to threads by where they come in, one may get all of them. It keeps so many more
/// than the one that has the fewest, for what that gains, and hands on what comes then: a quarter more, and one; eight at most. Of a few
/// streams, one thread would have all the work.
const MORE: usize = 8;
const QUARTER: usize = 4;

/// One thread of a node, before it runs.
pub struct Worker {
    shared: Arc<Shared>,
    listeners: Vec<(Purpose, TcpListener)>,
    crew: Arc<Crew>,
    /// Which of the crew it is.
    number: usize,
    handed: UnboundedReceiver<Handed>,
}

/// What the threads know of each other.
struct Crew {
    /// Connections that each has.
    taken: Vec<AtomicUsize>,
    /// Whether they are led to threads, rather than spread over them.
    leads: bool,
    hand: Vec<UnboundedSender<Handed>>,
}

/// What is on its way to a thread.
enum Handed {
    Connection(Connection),
    /// A session of the process before.
    Session(Box<Inherited>, Taken),
}

/// A connection on its way to another thread.
struct Connection {
    purpose: Purpose,
    stream: std::net::TcpStream,
    peer: SocketAddr,
    taken: Taken,
    waiting: Option<Waiting>,
}

/// Counts for a thread as long as its connection is there.
struct Taken {
    crew: Arc<Crew>,
    by: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.crew.taken[self.by].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Crew {
    /// Who takes a connection that one of them accepted.
    fn thread_for(&self, accepted_by: usize) -> usize {
        if !self.leads {
            return accepted_by;
        }
        let count = |at: usize| self.taken[at].load(Ordering::Relaxed);
        let fewest = self.fewest();
        let more = MORE.min(1 + count(fewest) / QUARTER);
        if count(accepted_by) > count(fewest) + more { fewest } else { accepted_by }
    }

    /// Who has the fewest.
    fn fewest(&self) -> usize {
        let count = |at: &usize| self.taken[*at].load(Ordering::Relaxed);
        (0..self.taken.len()).min_by_key(count).unwrap_or_default()
    }

    /// Connections that all of them have.
    fn all(&self) -> usize {
        self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum()
    }

    fn take(self: &Arc<Self>, by: usize) -> Taken {
        self.taken[by].fetch_add(1, Ordering::Relaxed);
        Taken { crew: Arc::clone(self), by }
    }
}

/// One for each thread's listeners.
pub fn workers(
    shared: &Arc<Shared>,
    listeners: Vec<Vec<(Purpose, TcpListener)>>,
    processors: &Processors,
) -> Vec<Worker> {
    let (hand, handed): (Vec<_>, Vec<_>) = listeners.iter().map(|_| unbounded_channel()).unzip();
    let taken = listeners.iter().map(|_| AtomicUsize::new(0)).collect();
    let crew = Arc::new(Crew { taken, leads: processors.lead(), hand });
    let all = listeners.into_iter().zip(handed).enumerate();
    let worker = |(number, (listeners, handed))| Worker {
        shared: Arc::clone(shared),
        listeners,
        crew: Arc::clone(&crew),
        number,
        handed,
    };
    all.map(worker).collect()
}

impl Worker {
    /// Takes connections until the node is told to stop, or another process takes them; and until its sessions have ended or have
    /// had their time.
    pub async fn work(self, metrics: Option<TcpListener>) -> io::Result<()> {
        let Worker { shared, listeners, crew, number, mut handed } = self;
        let mut accepting = Vec::new();
        for (purpose, listener) in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (shared, crew) = (Arc::clone(&shared), Arc::clone(&crew));
            accepting.push(tokio::spawn(accept(shared, crew, number, purpose, listener)));
        }
        let taking = Arc::clone(&shared);
        // To the end: what another thread has accepted is on its way.
        tokio::spawn(async move {
            while let Some(handed) = handed.recv().await {
                match handed {
                    Handed::Connection(Connection { purpose, stream, peer, taken, waiting }) => {
                        // One that cannot be had here is reset.
                        if let Ok(stream) = TcpStream::from_std(stream) {
                            begin(&taking, purpose, stream, peer, (taken, waiting));
                        }
                    }
                    Handed::Session(inherited, taken) => {
                        let shared = Arc::clone(&taking);
                        tokio::spawn(async move {
                            let _taken = taken;
                            Box::pin(kept::go_on_with(&shared, inherited)).await;
                        });
                    }
                }
            }
        });
        if let Some(mut inherited) = shared.inherited.receive() {
            let crew = Arc::clone(&crew);
            tokio::spawn(async move {
                while let Some(one) = inherited.recv().await {
                    let by = crew.fewest();
                    // It fails when that thread has ended, and the node with it.
                    let _ = crew.hand[by].send(Handed::Session(one, crew.take(by)));
                }
            });
        }
        let mut of_metrics = None;
        if let Some(listener) = metrics {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            of_metrics = Some(tokio::spawn(metrics::serve(Arc::clone(&shared), listener)));
        }
        let observed = Arc::clone(&shared);
        tokio::spawn(async move { observed.observe().await });
        tokio::spawn(Arc::clone(&shared.links).maintain());
        let observed = Arc::clone(&shared);
        tokio::spawn(async move { observed.observe_waiting().await });
        tokio::spawn(attention::pay());
        if number == 0 {
            let watched = Arc::clone(&shared);
            tokio::spawn(async move { watched.watch_certificate().await });
        }
        let mut phase = shared.phase.subscribe();
        // It fails when there is nobody left who could stop it.
        let left =
            phase.wait_for(|phase| *phase != Phase::Serving).await.is_ok_and(|now| *now == Phase::Left);
        accepting.iter().for_each(tokio::task::JoinHandle::abort);
        if left {
            of_metrics.iter().for_each(tokio::task::JoinHandle::abort);
        }
        let is_over = || {
            // Where others take what comes, whoever is connected may still ask; and who left earlier asks us.
            let may_ask = crew.all() > 0 || shared.formers.load(Ordering::Relaxed) > 0;
            shared.status.sessions() == 0 && (shared.is_stopping() || !may_ask)
        };
        let since = Instant::now();
        while !is_over() && since.elapsed() < shared.config.drain {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

async fn accept(
    shared: Arc<Shared>,
    crew: Arc<Crew>,
    number: usize,
    purpose: Purpose,
    listener: tokio::net::TcpListener,
) {
    loop {
        let (stream, peer) = accept_one(&listener, &shared.shortage).await;
        shared.counters.accepted.fetch_add(1, Ordering::Relaxed);
        let mut waiting = None;
        if matches!(purpose, Purpose::Sessions) && session::counts(&shared, peer.ip()) {
            waiting = shared.strangers.on_connection(peer.ip(), Instant::now());
            if waiting.is_none() {
                shared.on_stranger(peer);
                continue; // it is reset
            }
        }
        let by = crew.thread_for(number);
        let taken = crew.take(by);
        if by == number {
            begin(&shared, purpose, stream, peer, (taken, waiting));
        } else if let Ok(stream) = stream.into_std() {
            // It fails when that thread has ended, and the node with it.
            let _ =
                crew.hand[by].send(Handed::Connection(Connection { purpose, stream, peer, taken, waiting }));
        }
    }
}

fn begin(
    shared: &Arc<Shared>,
    purpose: Purpose,
    stream: TcpStream,
    peer: SocketAddr,
    (taken, waiting): (Taken, Option<Waiting>),
) {
    let shared = Arc::clone(shared);
    match purpose {
        Purpose::Relay(at) => {
            let serving = Box::pin(relaying::serve_relay(shared, at, stream, peer));
            tokio::spawn(async move {
                let _taken = taken;
                serving.await;
            });
        }
        Purpose::Sessions => {
            tokio::spawn(session::serve(shared, (stream, peer), waiting, taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crew(leads: bool) -> Arc<Crew> {
        let taken = (0..2).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Crew { taken, leads, hand: Vec::new() })
    }

    #[test]
    fn no_thread_has_all_of_the_connections() {
        let crew = crew(true);
        // All of them come in at the first.
        let mut taken: Vec<Taken> = (0..8).map(|_| crew.take(crew.thread_for(0))).collect();
        let counts = || [0, 1].map(|at| crew.taken[at].load(Ordering::Relaxed));
        assert_eq!(counts(), [5, 3], "of few, both have work");
        taken.extend((8..64).map(|_| crew.take(crew.thread_for(0))));
        assert_eq!(counts(), [36, 28]);
        taken.clear();
        assert_eq!(counts(), [0, 0]);
        assert_eq!((crew.thread_for(0), crew.thread_for(1)), (0, 1));
    }

    #[test]
    fn what_the_kernel_spreads_stays_where_it_is() {
        let crew = crew(false);
        let taken: Vec<Taken> = (0..64).map(|_| crew.take(crew.thread_for(0))).collect();
        assert!(taken.iter().all(|taken| taken.by == 0));
    }
}
