//! Where a small message went on, its answer may come within microseconds, and so may the next part of a fast
//! stream. A thread that sleeps until then has to be woken, which takes longer than all that a relay does with
//! the message; so it looks a few times more before it sleeps, for as long as that turns out to be worth it. It
//! lets other threads of its processor have their turn meanwhile.
use crate::socket::Socket;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long more is looked out for.
const FOR: Duration = Duration::from_micros(50);
/// How often that is not begun, at most, once it was in vain.
const MOST_SKIPPED: u32 = 1024;

thread_local! {
    static ATTENTION: RefCell<Attention> = RefCell::default();
}

/// What a thread knows of what its sessions passed on.
#[derive(Debug, Default)]
struct Attention {
    /// The latest message: where it came from, and where it went.
    last: Option<[usize; 2]>,
    /// How often something came that was worth looking out for.
    worth: u64,
    /// Whether more is being looked out for.
    is_looking: bool,
    /// How often that is not begun, before it is tried again.
    skip: u32,
    /// How often it was not the last time.
    skipped: u32,
    wake: Arc<Notify>,
}

impl Attention {
    /// A message went on; whether its answer is to be looked out for from now on.
    fn on_message(&mut self, from: usize, to: usize) -> bool {
        // Packets of a stream that trickles in are no answers to each other: sleeping between them is right.
        if self.last.replace([from, to]) == Some([to, from]) {
            self.worth += 1;
        }
        self.begins()
    }

    /// A part of a stream went on; whether the next one is to be looked out for from now on.
    fn on_stream(&mut self) -> bool {
        self.worth += 1;
        self.begins()
    }

    fn begins(&mut self) -> bool {
        let rests = self.skip > 0;
        self.skip = self.skip.saturating_sub(1);
        let begins = !rests && !self.is_looking;
        self.is_looking |= begins;
        begins
    }

    /// It was looked out for until nothing came any more.
    fn on_looked(&mut self, any_came: bool) {
        self.skipped = if any_came { 0 } else { (self.skipped * 2 + 1).min(MOST_SKIPPED) };
        self.skip = self.skipped;
        self.is_looking = false;
    }
}

/// A small message was passed on.
pub fn on_message(from: &Socket, to: &Socket) {
    let name = |socket: &Socket| Arc::as_ptr(&socket.0) as usize;
    look_if(|attention| attention.on_message(name(from), name(to)));
}

/// A part of a stream was passed on, more than a message.
pub fn on_stream() {
    look_if(Attention::on_stream);
}

fn look_if(begins: impl FnOnce(&mut Attention) -> bool) {
    ATTENTION.with_borrow_mut(|attention| {
        if begins(attention) {
            attention.wake.notify_one();
        }
    });
}

/// Keeps this thread, which runs a scheduler of its own, awake for a moment after messages; for ever.
pub async fn pay() {
    let wake = ATTENTION.with_borrow(|attention| Arc::clone(&attention.wake));
    let worth = || ATTENTION.with_borrow(|attention| attention.worth);
    loop {
        wake.notified().await;
        let (before, mut since) = (worth(), Instant::now());
        let mut seen = before;
        while since.elapsed() < FOR {
            // All that is ready has its turn, and the kernel is asked whether more is.
            tokio::task::yield_now().await;
            std::thread::yield_now();
            let now = worth();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        ATTENTION.with_borrow_mut(|attention| attention.on_looked(seen != before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_looked_out_for_until_none_come() {
        let mut attention = Attention::default();
        assert!(attention.on_message(1, 2));
        assert!(!attention.on_message(2, 1), "it is being looked out for");
        assert_eq!(attention.worth, 1);
        attention.on_looked(true);
        assert!(attention.on_message(1, 2), "it was worth it");
        attention.on_looked(false);
        assert!(!attention.on_message(1, 2), "it was not");
        assert!(attention.on_message(1, 2));
        for _ in 0..20 {
            attention.on_looked(false);
        }
        assert_eq!((0..2000).find(|_| attention.on_message(1, 2)), Some(MOST_SKIPPED as usize));
    }

    #[test]
    fn a_stream_that_trickles_has_no_answers() {
        let mut attention = Attention::default();
        for _ in 0..100 {
            attention.on_message(1, 2);
        }
        assert_eq!(attention.worth, 0);
        attention.on_message(4, 3);
        assert_eq!(attention.worth, 0, "it belongs to another session");
        attention.on_stream();
        attention.on_stream();
        assert_eq!(attention.worth, 2, "a fast one is looked out for all the same");
    }
}
