use shorthaul_wire::{Chunk, Payload};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a TUN device can hand over at once: the longest IP packet.
const LARGE: usize = 1 << 16;
/// A packet that is no longer is copied, so that an acknowledgement does not keep 64 KiB while it waits.
const SMALL: usize = 2048;
/// So many chunks of each size are kept for reuse, however few are in use.
const KEPT: usize = 64;

/// Memory for packets that is used again when the packets in it are gone.
pub(crate) struct PacketPool {
    /// Where to read into; nobody else looks at it.
    reading: Arc<Chunk>,
    large: Ring,
    small: Ring,
}

/// Chunks of one size that were given out. Packets leave a link about in the order in which they came,
/// so the chunk that was given out first is the first to look at.
struct Ring {
    chunks: VecDeque<Arc<Chunk>>,
    capacity: usize,
}

impl PacketPool {
    pub(crate) fn new() -> Self {
        let mut large = Ring { chunks: VecDeque::new(), capacity: LARGE };
        PacketPool { reading: large.take(), large, small: Ring { chunks: VecDeque::new(), capacity: SMALL } }
    }

    /// The packet that `read` puts into the chunk that it is given, with what else `read` returns; `None`
    /// if that is `None`.
    #[inline]
    pub(crate) fn fill<X, E>(
        &mut self,
        read: impl FnOnce(&mut Chunk) -> Result<Option<X>, E>,
    ) -> Result<Option<(Payload, X)>, E> {
        let Some(chunk) = Arc::get_mut(&mut self.reading) else {
            unreachable!("the chunk is exchanged as soon as a packet shares it");
        };
        chunk.clear();
        let Some(extra) = read(chunk)? else { return Ok(None) };
        let len = chunk.filled();
        if len > SMALL {
            let filled = std::mem::replace(&mut self.reading, self.large.take());
            let packet = Payload::new(Arc::clone(&filled), 0..len);
            self.large.chunks.push_back(filled);
            return Ok(Some((packet, extra)));
        }
        let mut copy = self.small.take();
        if let Some(to) = Arc::get_mut(&mut copy) {
            to.append(Payload::new(Arc::clone(&self.reading), 0..len).as_slice());
        }
        let packet = Payload::new(Arc::clone(&copy), 0..len);
        self.small.chunks.push_back(copy);
        Ok(Some((packet, extra)))
    }
}

impl Ring {
    /// An empty chunk that nobody else has.
    #[inline]
    fn take(&mut self) -> Arc<Chunk> {
        // One packet that stays for long must not make us forget the chunks behind it.
        for _ in 0..2 {
            let Some(mut chunk) = self.chunks.pop_front() else { break };
            if let Some(free) = Arc::get_mut(&mut chunk) {
                free.clear();
                self.shed();
                return chunk;
            }
            self.chunks.push_back(chunk);
        }
        Arc::new(Chunk::new(self.capacity))
    }

    /// Gives memory back after a rush, one chunk at a time.
    fn shed(&mut self) {
        if self.chunks.len() > KEPT && self.chunks.front_mut().is_some_and(|c| Arc::get_mut(c).is_some()) {
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pool: &mut PacketPool, byte: u8, len: usize) -> Payload {
        let read = |chunk: &mut Chunk| {
            chunk.append(&vec![byte; len]);
            Ok::<_, ()>(Some(()))
        };
        pool.fill(read).unwrap().unwrap().0
    }

    #[test]
    fn packets_keep_their_bytes_while_others_come_and_go() {
        let mut pool = PacketPool::new();
        let mut held = VecDeque::new();
        for round in 0..2000u32 {
            let len = [40, SMALL, SMALL + 1, LARGE][round as usize % 4];
            held.push_back((round as u8, len, packet(&mut pool, round as u8, len)));
            // Every seventh stays for long.
            if held.len() > 50 && !round.is_multiple_of(7) {
                held.pop_front();
            }
            for (byte, len, packet) in held.iter().rev().take(60) {
                assert_eq!(packet.len(), *len);
                assert!(packet.as_slice().iter().all(|b| b == byte), "round {round}");
            }
        }
    }

    #[test]
    fn memory_is_used_again_and_given_back() {
        let mut pool = PacketPool::new();
        let rush: Vec<Payload> = (0..500).map(|_| packet(&mut pool, 1, 3000)).collect();
        assert_eq!(pool.large.chunks.len(), 500);
        drop(rush);
        for _ in 0..5000 {
            packet(&mut pool, 2, 3000);
        }
        assert!(pool.large.chunks.len() <= KEPT + 1, "{}", pool.large.chunks.len());
    }

    #[test]
    fn nothing_read_is_no_packet() {
        let mut pool = PacketPool::new();
        assert_eq!(pool.fill(|_| Ok::<Option<()>, ()>(None)), Ok(None));
        assert_eq!(pool.fill(|_| Err::<Option<()>, _>("gone")), Err("gone"));
    }
}
