use crate::Buffers;
use shorthaul_wire::{Chunk, Payload};
use std::collections::VecDeque;
use std::sync::Arc;

/// Room for the largest packet that a device without jumbograms hands over.
const LARGEST: usize = 65_536;
/// Sizes that smaller packets are moved to, so that a slow flow is charged about what it holds.
const SIZES: [usize; 2] = [2_048, 16_384];
/// Chunks looked at for a free one before a new one is made.
const SCAN: usize = 4;
/// Chunks of a size that are kept for reuse, busy ones included.
const KEPT: usize = 512;

/// Packet buffers, reused without allocation: the pool keeps a reference to each, and one that
/// nobody else refers to is free.
#[derive(Default)]
pub struct BufferPool {
    kept: [VecDeque<Arc<Chunk>>; 3],
    /// Where new ones are made, as long as there is room.
    arena: Option<Buffers>,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pool whose buffers lie in an arena, as long as there is room.
    pub fn in_arena(arena: Buffers) -> Self {
        BufferPool { kept: Default::default(), arena: Some(arena) }
    }

    /// An empty chunk of a size class that nobody else refers to.
    fn take(&mut self, class: usize) -> Arc<Chunk> {
        let kept = &mut self.kept[class];
        for _ in 0..SCAN.min(kept.len()) {
            let Some(mut chunk) = kept.pop_front() else { break };
            if let Some(free) = Arc::get_mut(&mut chunk) {
                free.clear();
                return chunk;
            }
            if kept.len() < KEPT {
                kept.push_back(chunk);
            }
        }
        let size = SIZES.get(class).copied().unwrap_or(LARGEST);
        let lent = self.arena.as_ref().and_then(|arena| arena.chunk(size));
        Arc::new(lent.unwrap_or_else(|| Chunk::new(size)))
    }

    /// Lets `read` fill a chunk, and returns what it read with what it said. A small packet is moved
    /// to a small chunk.
    pub fn fill<T, E>(
        &mut self,
        read: impl FnOnce(&mut Chunk) -> Result<Option<T>, E>,
    ) -> Result<Option<(Payload, T)>, E> {
        let mut large = self.take(SIZES.len());
        let Some(chunk) = Arc::get_mut(&mut large) else { return Ok(None) };
        let answer = read(chunk)?;
        let filled = large.filled();
        let Some(answer) = answer else {
            self.kept[SIZES.len()].push_front(large);
            return Ok(None);
        };
        let class = SIZES.iter().position(|&size| filled <= size);
        let Some(class) = class else {
            self.kept[SIZES.len()].push_back(Arc::clone(&large));
            return Ok(Some((Payload::new(large, 0..filled), answer)));
        };
        let whole = Payload::new(Arc::clone(&large), 0..filled);
        let mut small = self.take(class);
        if let Some(chunk) = Arc::get_mut(&mut small) {
            chunk.append(whole.as_slice());
        }
        drop(whole);
        self.kept[SIZES.len()].push_front(large);
        self.kept[class].push_back(Arc::clone(&small));
        Ok(Some((Payload::new(small, 0..filled), answer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pool: &mut BufferPool, len: usize) -> Payload {
        let read = |chunk: &mut Chunk| -> Result<Option<()>, ()> {
            chunk.advance(len);
            Ok(Some(()))
        };
        pool.fill(read).unwrap().unwrap().0
    }

    #[test]
    fn a_packet_is_charged_about_what_it_holds() {
        let mut pool = BufferPool::new();
        assert_eq!(fill(&mut pool, 40).allocated(), 2_048);
        assert_eq!(fill(&mut pool, 9_000).allocated(), 16_384);
        assert_eq!(fill(&mut pool, 60_000).allocated(), 65_536);
    }

    #[test]
    fn a_buffer_is_reused_once_it_is_free_and_never_before() {
        let mut pool = BufferPool::new();
        let first = fill(&mut pool, 60_000);
        let at = first.as_slice().as_ptr();
        let second = fill(&mut pool, 60_000);
        assert_ne!(second.as_slice().as_ptr(), at);
        drop(first);
        let third = fill(&mut pool, 60_000);
        assert_eq!(third.as_slice().as_ptr(), at);
    }
}
