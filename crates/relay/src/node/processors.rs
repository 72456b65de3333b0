//! Which processor each of a node's threads stays on, and that it gets the connections that come in there.
//!
//! What comes in on loopback is handled by the kernel on the processor of whoever sent it. A thread on the same
//! processor finds it in that processor's caches, and need not be woken from another one, which takes a virtual
//! machine tens of microseconds. On a real interface this would be right only if its queues spread over all
//! processors; as one cannot rely on that, the kernel spreads those connections by their addresses.
use super::Purpose;
use shorthaul_os::schedule;
use std::net::TcpListener;

/// The processors of a node's threads.
#[derive(Clone, Debug, Default)]
pub struct Processors {
    /// One for each thread, in their order; none if the threads go where they like.
    of_threads: Vec<usize>,
}

impl Processors {
    /// One for each thread that has these listeners, if there are as many of both and any of the listeners is on
    /// loopback. From now on such a listener gets what comes in on the processor of its thread.
    pub fn for_listeners(listeners: &[Vec<(Purpose, TcpListener)>]) -> Processors {
        let of_threads = schedule::allowed_processors().unwrap_or_default();
        if listeners.len() < 2 || of_threads.len() != listeners.len() {
            return Processors::default();
        }
        let mut any = false;
        for (processor, of_thread) in of_threads.iter().zip(listeners) {
            for (_, listener) in of_thread {
                let local = listener.local_addr().is_ok_and(|at| at.ip().to_canonical().is_loopback());
                any |= local && socket2::SockRef::from(listener).set_cpu_affinity(*processor).is_ok();
            }
        }
        if any { Processors { of_threads } } else { Processors::default() }
    }

    /// Whether connections are led to threads.
    pub fn lead(&self) -> bool {
        !self.of_threads.is_empty()
    }

    /// Keeps the calling thread on its processor. Where it may not stay there, it is only slower.
    pub fn stay(&self, thread: usize) {
        if let Some(processor) = self.of_threads.get(thread)
            && let Err(error) = schedule::stay_on(*processor)
        {
            tracing::debug!(thread, processor, %error, "a thread has no processor of its own");
        }
    }
}
