//! Pipes that are had only while something is in them, so that silent sessions have none.
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a pipe is to hold: the most that an ordinary user may have. All pipes of such a user may hold 64 MiB
/// (`pipe-user-pages-soft`, pipe(7)); beyond that they hold next to nothing.
const SIZE: usize = 1 << 20;
/// A pipe that holds less is no gain: what the kernel gives those who have too many.
const LEAST: usize = 64 << 10;
/// Empty pipes that a thread keeps.
const SPARE: usize = 64;
/// Pipes of the process at once, each of two descriptors. Receivers that do not read keep theirs; beyond
/// this, bytes are copied.
pub const MOST: usize = 256;

thread_local! {
    static EMPTY: RefCell<Vec<Counted>> = const { RefCell::new(Vec::new()) };
}
static THERE_ARE: AtomicUsize = AtomicUsize::new(0);

/// One of those that there are, until it is dropped.
#[derive(Debug)]
struct Counted(shorthaul_os::Pipe);

impl Counted {
    fn new() -> Option<Counted> {
        let one_more = |count: usize| (count < MOST).then_some(count + 1);
        THERE_ARE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let Ok(pipe) = shorthaul_os::Pipe::new(SIZE) else {
            THERE_ARE.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        Some(Counted(pipe)).filter(|counted| counted.0.size() >= LEAST)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        THERE_ARE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A pipe, and how much is in it.
#[derive(Debug)]
pub struct Pipe {
    pipe: Option<Counted>,
    held: usize,
}

impl Pipe {
    /// An empty one, unless too many are in use.
    pub fn take() -> Option<Pipe> {
        let spare = EMPTY.with_borrow_mut(Vec::pop);
        Some(Pipe { pipe: Some(spare.or_else(Counted::new)?), held: 0 })
    }

    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves up to `most` bytes of what a socket has into the empty pipe; 0 at its end.
    pub fn fill(&mut self, from: &impl AsFd, most: usize) -> io::Result<usize> {
        if let Some(pipe) = &self.pipe {
            self.held = pipe.0.fill(from, most)?;
        }
        Ok(self.held)
    }

    /// Moves out what a socket has room for.
    pub fn empty(&mut self, to: &impl AsFd) -> io::Result<()> {
        if let Some(pipe) = &self.pipe {
            self.held -= pipe.0.empty(to, self.held)?;
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // What a broken session left in it must not come out of another.
        if self.held > 0 {
            return;
        }
        // While a thread ends there is nowhere to keep it.
        let _ = EMPTY.try_with(|pipes| {
            let mut pipes = pipes.borrow_mut();
            if pipes.len() < SPARE {
                pipes.extend(self.pipe.take());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn there_are_only_so_many_and_none_is_lost() {
        // An ordinary user may get fewer.
        let all: Vec<Pipe> = (0..=MOST).map_while(|_| Pipe::take()).collect();
        assert!(!all.is_empty() && all.len() <= MOST);
        assert!(Pipe::take().is_none());
        drop(all);
        assert_eq!(EMPTY.with_borrow(Vec::len), THERE_ARE.load(Ordering::Relaxed));
        // Those that a thread kept end with it.
        let before = THERE_ARE.load(Ordering::Relaxed);
        std::thread::spawn(|| drop(Pipe::take())).join().unwrap();
        assert_eq!(THERE_ARE.load(Ordering::Relaxed), before);
        nothing_that_is_left_in_one_comes_out_of_another();
    }

    // Of the same test: what it takes would be missing in the count of one that runs at the same time.
    fn nothing_that_is_left_in_one_comes_out_of_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let ((mut sender, source), (sink, mut receiver)) = (pair(), pair());
        sender.write_all(b"left").unwrap();
        source.peek(&mut [0]).unwrap();
        let mut broken = Pipe::take().unwrap();
        assert_eq!(broken.fill(&source, 100).unwrap(), 4);
        drop(broken);
        sender.write_all(b"new").unwrap();
        source.peek(&mut [0]).unwrap();
        let mut pipe = Pipe::take().unwrap();
        assert_eq!(pipe.fill(&source, 100).unwrap(), 3);
        pipe.empty(&sink).unwrap();
        let mut heard = [0; 3];
        receiver.read_exact(&mut heard).unwrap();
        assert_eq!((&heard, pipe.held()), (b"new", 0));
    }
}
