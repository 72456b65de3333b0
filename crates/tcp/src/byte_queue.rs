use alloc::collections::VecDeque;
use shorthaul_wire::{Payload, PayloadList};

/// A slice up to this size is copied behind its predecessor, so that a stream of small writes
/// takes the memory of its bytes and not of its packets.
pub(crate) const COALESCE: usize = 512;
/// The buffer that small slices are gathered in, where the last one's is in use elsewhere.
const GATHERED: usize = 2_048;

/// Contiguous bytes of a stream, `[start, end)`, as the refcounted slices that they arrived in.
///
/// It is receive queue and retransmission queue at once: bytes enter at the end, are read any
/// number of times by offset, and leave at the start when they are acknowledged.
#[derive(Debug)]
pub struct ByteQueue {
    slices: VecDeque<(u64, Payload)>,
    start: u64,
    end: u64,
    allocated: usize,
}

impl ByteQueue {
    /// An empty queue whose first byte will be at `start`.
    pub fn new(start: u64) -> Self {
        ByteQueue { slices: VecDeque::new(), start, end: start, allocated: 0 }
    }

    /// The offset of the first byte held.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The offset behind the last byte held.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The number of bytes held.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether no bytes are held.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The memory held, in bytes: whole packet buffers, not only the bytes in use.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Appends bytes.
    pub fn push(&mut self, mut payload: Payload) {
        if payload.is_empty() {
            return;
        }
        // The segments of a large write keep its buffer alive once, not once each.
        if let Some((_, last)) = self.slices.back_mut()
            && last.extend_over(&payload)
        {
            self.end += payload.len() as u64;
            return;
        }
        if payload.len() <= COALESCE
            && let Some((_, last)) = self.slices.back_mut()
        {
            let taken = last.try_append(payload.as_slice());
            self.end += taken as u64;
            payload.advance(taken);
            if payload.is_empty() {
                return;
            }
            if payload.allocated() >= GATHERED {
                payload = Payload::copy_with_room(payload.as_slice(), GATHERED);
            }
        }
        let at = self.end;
        self.end += payload.len() as u64;
        self.allocated += payload.allocated();
        self.slices.push_back((at, payload));
    }

    /// Forgets everything before `offset`.
    pub fn release(&mut self, offset: u64) {
        let offset = offset.clamp(self.start, self.end);
        self.start = offset;
        while let Some((at, slice)) = self.slices.front_mut() {
            let len = slice.len() as u64;
            if *at + len > offset {
                slice.advance((offset - *at) as usize);
                *at = offset;
                return;
            }
            self.allocated -= slice.allocated();
            self.slices.pop_front();
        }
        self.slices = VecDeque::new(); // an empty queue keeps no memory for busier times
    }

    /// Forgets everything held; the next byte is at the old end.
    pub fn clear(&mut self) {
        self.release(self.end);
    }

    /// Forgets everything held, and goes on at `offset`, which is not before the old end.
    pub fn skip_to(&mut self, offset: u64) {
        self.clear();
        self.start = self.start.max(offset);
        self.end = self.start;
    }

    /// The slices from `offset` on with the offsets of their first bytes.
    pub fn slices_from(&self, offset: u64) -> impl Iterator<Item = (u64, Payload)> + '_ {
        let first = self.slices.partition_point(|(at, slice)| at + slice.len() as u64 <= offset);
        self.slices.range(first..).map(move |(at, slice)| {
            let skip = offset.saturating_sub(*at);
            (at + skip, slice.slice(skip as usize..slice.len()))
        })
    }

    /// Up to `max` bytes from `offset` on, fewer where they lie in too many slices for one
    /// segment.
    pub fn gather(&self, offset: u64, max: usize) -> PayloadList {
        let mut list = PayloadList::new();
        let first = self.slices.partition_point(|(at, slice)| at + slice.len() as u64 <= offset);
        let mut skip = self.slices.get(first).map_or(0, |(at, _)| offset.saturating_sub(*at) as usize);
        for (_, slice) in self.slices.range(first..) {
            let room = max - list.len();
            if room == 0 {
                break;
            }
            let end = slice.len().min(skip + room);
            if list.push(slice.slice(skip..end)).is_err() {
                break;
            }
            skip = 0;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use shorthaul_wire::Chunk;

    fn bytes(list: &PayloadList) -> alloc::vec::Vec<u8> {
        let mut out = alloc::vec![0; list.len()];
        list.copy_to(&mut out);
        out
    }

    #[test]
    fn bytes_are_read_by_offset_until_they_are_released() {
        let mut queue = ByteQueue::new(1);
        queue.push(Payload::copy_of(b"short"));
        queue.push(Payload::copy_of(b"haul"));
        assert_eq!(bytes(&queue.gather(3, 5)), b"ortha");
        queue.release(7);
        assert_eq!((queue.start(), queue.len()), (7, 3));
        assert_eq!(bytes(&queue.gather(7, 99)), b"aul");
        queue.release(99);
        assert!(queue.is_empty() && queue.allocated() == 0);
        assert_eq!(queue.end(), 10);
    }

    #[test]
    fn slices_are_read_from_the_middle_and_the_queue_goes_on_elsewhere() {
        let mut queue = ByteQueue::new(1);
        queue.push(Payload::copy_of(&[1; 1000]));
        queue.push(Payload::copy_of(&[2; 1000]));
        let slices: alloc::vec::Vec<_> =
            queue.slices_from(501).map(|(at, slice)| (at, slice.len())).collect();
        assert_eq!(slices, [(501, 500), (1001, 1000)]);
        assert_eq!(queue.slices_from(2001).count(), 0);
        queue.skip_to(5000);
        assert_eq!((queue.start(), queue.end(), queue.allocated()), (5000, 5000, 0));
        queue.push(Payload::copy_of(&[3; 600]));
        assert_eq!(bytes(&queue.gather(5000, 9)), [3; 9]);
    }

    #[test]
    fn one_byte_writes_share_a_buffer() {
        let mut queue = ByteQueue::new(1);
        for i in 0..100u8 {
            let mut chunk = shorthaul_wire::Chunk::new(2048);
            chunk.append(&[i]);
            queue.push(Payload::new(alloc::sync::Arc::new(chunk), 0..1));
        }
        assert_eq!(queue.allocated(), 2048);
        assert_eq!(bytes(&queue.gather(1, 200)), (0..100).collect::<alloc::vec::Vec<u8>>());
    }

    #[test]
    fn one_byte_writes_in_buffers_that_a_pool_keeps_are_gathered_too() {
        let mut queue = ByteQueue::new(1);
        let mut pool = alloc::vec![];
        for i in 0..100u8 {
            let mut chunk = Chunk::new(2048);
            chunk.append(&[i]);
            let chunk = Arc::new(chunk);
            pool.push(Arc::clone(&chunk));
            queue.push(Payload::new(chunk, 0..1));
        }
        assert_eq!(queue.allocated(), 2 * 2048);
        assert_eq!(bytes(&queue.gather(1, 200)), (0..100).collect::<alloc::vec::Vec<u8>>());
    }

    #[test]
    fn segments_of_one_buffer_are_charged_once() {
        let buffer = Payload::copy_of(&[7; 10_000]);
        let mut queue = ByteQueue::new(1);
        for part in 0..10 {
            queue.push(buffer.slice(1_000 * part..1_000 * (part + 1)));
        }
        assert_eq!((queue.len(), queue.allocated()), (10_000, 10_000));
        queue.release(10_001);
        assert_eq!(queue.allocated(), 0);
    }

    #[test]
    fn a_segment_takes_no_more_slices_than_it_can_hold() {
        let mut queue = ByteQueue::new(0);
        for _ in 0..40 {
            queue.push(Payload::copy_of(&[7; 1000]));
        }
        assert_eq!(queue.gather(0, 65_000).len(), PayloadList::MAX_SLICES * 1000);
    }
}
