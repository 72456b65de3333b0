//! One end of a session that can move: what it has sent and is not acknowledged, what it has received and is not delivered.
//! No I/O and no clock.
use super::frame::{DATA_HEAD, FIRST_LIMIT, Frame, MOST_DATA, Violation, write_data_head};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a frame takes besides its bytes, about.
const OVERHEAD: usize = 64;
/// What was received is acknowledged each time it is so much more; what is less, after a while.
const ACKNOWLEDGE: u64 = 64 << 10;
/// What an end may hold where there is no memory.
pub const LEAST: usize = 4 << 10;

/// Which end it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client's: it delivers the end of the other direction to an application that has ended its own only once all of
    /// that has arrived. So what an application sees as a clean end is one in both directions.
    Client,
    /// The last node's.
    Node,
}

/// Whose memory it is.
pub trait Memory {
    /// Asks for so much in all; whether it may be had. Less than before always may.
    fn hold(&mut self, bytes: usize) -> bool;
}

/// As much as there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbounded;

impl Memory for Unbounded {
    fn hold(&mut self, _: usize) -> bool {
        true
    }
}

/// A `DATA` frame as it is sent: its head and its bytes.
#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    /// Where its head begins: not at the front, if a part of it was received already.
    begin: usize,
    /// Of its first byte behind the head.
    offset: u64,
}

impl Kept {
    fn new(offset: u64, data: &[u8]) -> Kept {
        let mut bytes = Vec::with_capacity(DATA_HEAD + data.len());
        bytes.resize(DATA_HEAD, 0);
        write_data_head(&mut bytes, offset, data.len());
        bytes.extend_from_slice(data);
        Kept { bytes, begin: 0, offset }
    }

    fn wire(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    fn end(&self) -> u64 {
        self.offset + (self.bytes.len() - self.begin - DATA_HEAD) as u64
    }

    /// All below is there: a head stands before the rest.
    fn begin_at(&mut self, offset: u64) {
        let more = (offset - self.offset) as usize;
        self.begin += more;
        self.offset = offset;
        let len = self.bytes.len() - self.begin - DATA_HEAD;
        write_data_head(&mut self.bytes[self.begin..], offset, len);
    }
}

/// What this end sends.
#[derive(Debug, Default)]
struct Outgoing {
    kept: VecDeque<Kept>,
    held: usize,
    /// Below it, all is acknowledged.
    acknowledged: u64,
    /// Behind the last byte that the application gave.
    taken: u64,
    /// Behind the last byte that was ever sent, or may have been.
    sent: u64,
    limit: u64,
    /// The widest that the other end was seen to be open: then it had delivered all that it had received.
    widest: u64,
    is_ended: bool,
    /// The other end has delivered all.
    is_done: bool,
    /// By this way: the frame that is next, and how much of it has been written.
    next: usize,
    written: usize,
    has_said_end: bool,
}

/// What this end receives.
#[derive(Debug, Default)]
struct Incoming {
    waiting: VecDeque<Vec<u8>>,
    /// Of the first of them.
    used: usize,
    held: usize,
    received: u64,
    delivered: u64,
    end: Option<u64>,
    /// The application was told of the end.
    is_closed: bool,
    /// By this way.
    said: (u64, u64),
    has_said_done: bool,
}

/// Both directions of one end.
#[derive(Debug)]
pub struct Ends<M> {
    role: Role,
    window: u64,
    memory: M,
    out: Outgoing,
    inc: Incoming,
    is_broken: bool,
}

/// What an end is, but for the bytes that it keeps: so another process can go on with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndsRecord {
    window: u64,
    acknowledged: u64,
    taken: u64,
    sent: u64,
    limit: u64,
    is_ended: bool,
    is_done: bool,
    received: u64,
    delivered: u64,
    end: Option<u64>,
    is_closed: bool,
}

impl<M: Memory> Ends<M> {
    /// All that is known, what was given and is not acknowledged, and what was received and is not delivered.
    pub fn record(&self) -> (EndsRecord, Vec<u8>, Vec<u8>) {
        let (out, inc) = (&self.out, &self.inc);
        let mut given = Vec::new();
        for kept in &out.kept {
            let data = &kept.wire()[DATA_HEAD..];
            let known = out.acknowledged.saturating_sub(kept.offset).min(data.len() as u64) as usize;
            given.extend_from_slice(&data[known..]);
        }
        let mut waiting: Vec<u8> = inc.waiting.iter().flatten().copied().collect();
        waiting.drain(..inc.used);
        let record = EndsRecord {
            window: self.window,
            acknowledged: out.acknowledged,
            taken: out.taken,
            sent: out.sent,
            limit: out.limit,
            is_ended: out.is_ended,
            is_done: out.is_done,
            received: inc.received,
            delivered: inc.delivered,
            end: inc.end,
            is_closed: inc.is_closed,
        };
        (record, given, waiting)
    }

    /// An end that goes on as another one was, by a way that is still to come. Nothing, if the bytes do not fit what is known.
    pub fn of_record(
        role: Role,
        record: &EndsRecord,
        (given, waiting): (&[u8], Vec<u8>),
        memory: M,
    ) -> Option<Ends<M>> {
        let fits = record.taken.checked_sub(record.acknowledged) == Some(given.len() as u64)
            && record.received.checked_sub(record.delivered) == Some(waiting.len() as u64)
            && (record.acknowledged..=record.taken).contains(&record.sent);
        if !fits {
            return None;
        }
        let mut ends = Ends::new(role, record.window, memory);
        let (out, inc) = (&mut ends.out, &mut ends.inc);
        (out.acknowledged, out.taken) = (record.acknowledged, record.acknowledged);
        (out.sent, out.limit) = (record.sent, record.limit);
        (inc.received, inc.delivered) = (record.received, record.delivered);
        (inc.end, inc.is_closed) = (record.end, record.is_closed);
        if !waiting.is_empty() {
            inc.held = waiting.len() + OVERHEAD;
            inc.waiting.push_back(waiting);
        }
        ends.take(given);
        (ends.out.is_ended, ends.out.is_done) = (record.is_ended, record.is_done);
        Some(ends)
    }

    /// Of a session that begins. Each direction may hold a `window` of bytes here; at least 256 KiB.
    pub fn new(role: Role, window: u64, memory: M) -> Ends<M> {
        let out = Outgoing { limit: FIRST_LIMIT, ..Outgoing::default() };
        let inc = Incoming { said: (0, FIRST_LIMIT), ..Incoming::default() };
        Ends { role, window: window.max(FIRST_LIMIT), memory, out, inc, is_broken: false }
    }

    /// Below which offset all is here.
    pub fn received(&self) -> u64 {
        self.inc.received
    }

    /// How far both directions have come: another value, if anything was of use that came.
    pub fn progress(&self) -> (u64, u64, bool, bool) {
        let Ends { out, inc, .. } = self;
        (inc.received, out.acknowledged, inc.end.is_some(), out.is_done)
    }

    /// Both directions have been delivered, and the other end knows of ours.
    pub fn is_complete(&self) -> bool {
        self.is_over() && self.inc.has_said_done
    }

    /// Both directions have been delivered. The other end may not know of ours.
    pub fn is_over(&self) -> bool {
        self.out.is_done && self.inc.is_closed
    }

    /// How much of what was given the other end has acknowledged, how far it is open, and whether it has delivered all.
    pub fn acknowledged(&self) -> (u64, u64, bool) {
        (self.out.acknowledged, self.out.limit, self.out.is_done)
    }

    /// Whether the other end has delivered all that was given, as far as it has said: it is as open again as it was when it held nothing.
    pub fn has_arrived(&self) -> bool {
        let out = &self.out;
        !self.owes() && out.limit.saturating_sub(out.acknowledged) >= out.widest
    }

    /// Whether anything was given that the other end has not acknowledged.
    pub fn owes(&self) -> bool {
        self.out.acknowledged < self.out.taken || (self.out.is_ended && !self.out.is_done)
    }

    /// The session can break, and does.
    pub fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Whether it did.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn hold(&mut self) -> bool {
        let all = self.out.held + self.inc.held;
        self.memory.hold(all) || all <= LEAST
    }

    // The application's side.

    /// How much the application may give now.
    pub fn room(&mut self) -> usize {
        let most = usize::try_from(self.window).unwrap_or(usize::MAX);
        if self.out.is_ended || self.out.held >= most || !self.hold() {
            return 0;
        }
        // What is asked for beforehand need not be had in vain: little, where memory is short.
        let more = MOST_DATA.min(most - self.out.held);
        let all = self.out.held + self.inc.held;
        let may = self.memory.hold(all + more);
        self.memory.hold(all);
        if may { more } else { LEAST.saturating_sub(self.out.held + self.inc.held) }
    }

    /// The application gave so much: no more than there was room.
    pub fn take(&mut self, bytes: &[u8]) {
        for data in bytes.chunks(MOST_DATA) {
            self.out.kept.push_back(Kept::new(self.out.taken, data));
            self.out.taken += data.len() as u64;
            self.out.held += data.len() + OVERHEAD;
        }
        self.hold();
    }

    /// The application gives no more.
    pub fn end(&mut self) {
        self.out.is_ended = true;
    }

    /// Whether it does not.
    pub fn has_ended(&self) -> bool {
        self.out.is_ended
    }

    /// What is to be delivered next.
    pub fn waiting(&self) -> Option<&[u8]> {
        self.inc.waiting.front().map(|bytes| &bytes[self.inc.used..])
    }

    /// The application read this many of the bytes that wait for it.
    pub fn on_delivered(&mut self, len: usize) {
        self.inc.delivered += len as u64;
        self.inc.used += len;
        if self.inc.waiting.front().is_some_and(|bytes| bytes.len() == self.inc.used) {
            let all = self.inc.waiting.pop_front().map_or(0, |bytes| bytes.len() + OVERHEAD);
            (self.inc.used, self.inc.held) = (0, self.inc.held - all);
            self.hold();
        }
    }

    /// Whether the application is to be told now that nothing more comes.
    pub fn is_to_close(&self) -> bool {
        let confirmed = self.role == Role::Node || !self.out.is_ended || self.out.is_done;
        self.inc.end == Some(self.inc.delivered) && !self.inc.is_closed && confirmed
    }

    /// It was told.
    pub fn on_closed(&mut self) {
        self.inc.is_closed = true;
    }

    /// Whether the other end waits to hear that all has been delivered: if it has been.
    pub fn is_to_confirm(&self) -> bool {
        let has_closed = self.role == Role::Client || self.inc.is_closed;
        self.inc.end == Some(self.inc.delivered) && has_closed && !self.inc.has_said_done
    }

    /// Whether the other end's stream has ended, and all of it been delivered.
    pub fn has_heard_all(&self) -> bool {
        self.inc.end == Some(self.inc.delivered)
    }

    // The way's side.

    /// Another way begins, on which the other end says that all below `received` is there.
    ///
    /// # Errors
    /// It cannot be.
    pub fn move_to(&mut self, received: u64) -> Result<(), Violation> {
        let out = &mut self.out;
        if received < out.acknowledged || received > out.sent {
            return Err(Violation::Acknowledged);
        }
        (out.next, out.written, out.has_said_end) = (0, 0, false);
        self.forget_below(received);
        let out = &mut self.out;
        if let Some(first) = out.kept.front_mut()
            && first.offset < received
        {
            first.begin_at(received);
        }
        // The other end may not have heard what was said last.
        self.inc.said = (self.inc.received, 0);
        self.inc.has_said_done = false;
        Ok(())
    }

    fn forget_below(&mut self, received: u64) {
        let out = &mut self.out;
        out.acknowledged = received;
        // One of which a part is being written is needed until all of it is.
        while out.kept.front().is_some_and(|kept| kept.end() <= received)
            && (out.next > 0 || out.written == 0)
        {
            if let Some(kept) = out.kept.pop_front() {
                out.held -= kept.bytes.len() - DATA_HEAD + OVERHEAD;
            }
            out.next = out.next.saturating_sub(1);
        }
        self.hold();
    }

    /// The other end said something. What of data can be delivered without waiting is offered to `deliver`, which says how much
    /// of it was.
    ///
    /// # Errors
    /// It must not say that.
    pub fn on_frame(
        &mut self,
        frame: Frame<'_>,
        deliver: impl FnOnce(&[u8]) -> usize,
    ) -> Result<(), Violation> {
        let (out, inc) = (&mut self.out, &mut self.inc);
        match frame {
            Frame::Data { offset, bytes } => {
                let end = offset.checked_add(bytes.len() as u64).ok_or(Violation::Offset)?;
                if inc.end.is_some() {
                    return Err(Violation::BehindEnd);
                }
                if offset != inc.received {
                    return Err(Violation::Offset);
                }
                if end > inc.delivered + self.window.max(FIRST_LIMIT) {
                    return Err(Violation::Limit);
                }
                inc.received = end;
                let delivered = if inc.waiting.is_empty() { deliver(bytes) } else { 0 };
                inc.delivered += delivered as u64;
                let rest = &bytes[delivered..];
                if !rest.is_empty() {
                    inc.held += rest.len() + OVERHEAD;
                    inc.waiting.push_back(rest.to_vec());
                    self.hold();
                }
            }
            Frame::Ack { received, limit } => {
                if received < out.acknowledged || received > out.sent || limit < out.limit {
                    return Err(Violation::Acknowledged);
                }
                out.limit = limit;
                out.widest = out.widest.max(limit.saturating_sub(received));
                self.forget_below(received);
            }
            Frame::End(at) => {
                if inc.end.is_some_and(|end| end != at) {
                    return Err(Violation::BehindEnd);
                }
                if at != inc.received {
                    return Err(Violation::Offset);
                }
                inc.end = Some(at);
            }
            Frame::Done(at) => {
                if !out.is_ended || at != out.taken || at != out.sent {
                    return Err(Violation::Done);
                }
                out.is_done = true;
                self.forget_below(at);
            }
            Frame::Ping => {}
            Frame::Break => self.is_broken = true,
        }
        Ok(())
    }

    /// Whether more of the way may be read: there is memory for what comes.
    pub fn may_receive(&mut self) -> bool {
        self.inc.held == 0 || self.hold()
    }

    /// What is to be written next of the data: nothing, if the limit forbids it.
    pub fn next(&self) -> Option<&[u8]> {
        let kept = self.out.kept.get(self.out.next)?;
        (self.out.written > 0 || kept.end() <= self.out.limit).then(|| &kept.wire()[self.out.written..])
    }

    /// So much of that was written.
    pub fn on_written(&mut self, len: usize) {
        let out = &mut self.out;
        out.written += len;
        let Some(kept) = out.kept.get(out.next) else { return };
        out.sent = out.sent.max(kept.offset + out.written.saturating_sub(DATA_HEAD) as u64);
        if kept.wire().len() == out.written {
            (out.next, out.written) = (out.next + 1, 0);
            self.forget_below(self.out.acknowledged);
        }
    }

    /// Writing that failed. How much of it the way took before it broke is not known: where it goes in several pieces, as with TLS,
    /// the other end may have it.
    pub fn on_write_failed(&mut self) {
        let out = &mut self.out;
        if let Some(kept) = out.kept.get(out.next) {
            out.sent = out.sent.max(kept.end());
        }
    }

    /// Whether a frame has been begun, so that nothing may come between.
    pub fn is_within_frame(&self) -> bool {
        self.out.written > 0
    }

    /// Whether there is an acknowledgment to be written: at once, or in the other case only when other things go or after a
    /// while.
    pub fn acknowledgment(&self) -> Option<bool> {
        let (received, limit) = self.inc.said;
        let at_once = self.inc.received >= received + ACKNOWLEDGE || self.limit() >= limit + self.window / 4;
        (self.inc.received > received || self.limit() > limit).then_some(at_once)
    }

    fn limit(&self) -> u64 {
        self.inc.delivered + self.window
    }

    /// Writes an acknowledgment.
    pub fn acknowledge(&mut self, to: &mut Vec<u8>) {
        let (received, limit) = (self.inc.received, self.limit());
        Frame::Ack { received, limit }.write(to);
        self.inc.said = (received, limit);
    }

    /// Writes that the stream ends, once all of it has been written.
    pub fn say_end(&mut self, to: &mut Vec<u8>) {
        let out = &mut self.out;
        if out.is_ended && !out.has_said_end && out.next == out.kept.len() {
            out.has_said_end = true;
            Frame::End(out.taken).write(to);
        }
    }

    /// Writes that all has been delivered: the application's kernel has said so.
    pub fn confirm(&mut self, to: &mut Vec<u8>) {
        self.inc.has_said_done = true;
        Frame::Done(self.inc.delivered).write(to);
    }
}

#[cfg(test)]
mod tests;
