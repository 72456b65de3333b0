//! The connections of a host, and those of them that are not silent.
use super::Member;
use alloc::vec::Vec;

/// So many connections of a host are gone through whenever they share something anew. Of more, those that are not silent: a household
/// has hundreds that are kept open and say nothing.
const CROWD: usize = 256;

/// The connections of a host, by their slots in the gateway's table.
#[derive(Debug, Default)]
pub(crate) struct Members {
    all: Vec<u32>,
    /// That something has come of lately, from one end or the other.
    talking: Vec<u32>,
    /// How many others there are that say nothing and are away.
    away: usize,
}

impl Members {
    /// A connection joins. Returns its place.
    pub fn join(&mut self, slot: u32) -> usize {
        self.all.push(slot);
        self.all.len() - 1
    }

    /// A connection is gone. Returns who has its place now.
    pub fn leave(&mut self, member: &Member) -> Option<u32> {
        let slot = self.all.swap_remove(member.place);
        if member.talking {
            self.talking.retain(|other| *other != slot);
        }
        self.all.get(member.place).copied()
    }

    /// A connection is put away. Returns who has its place now.
    pub fn put_away(&mut self, member: &mut Member) -> Option<u32> {
        self.away += 1;
        self.leave(member)
    }

    /// A connection is brought back. Returns its place.
    pub fn bring_back(&mut self, slot: u32) -> usize {
        self.away -= 1;
        self.join(slot)
    }

    /// A connection that is away is gone.
    pub fn forget_put_away(&mut self) {
        self.away -= 1;
    }

    /// How many there are, those that are away as well.
    pub fn len(&self) -> usize {
        self.all.len() + self.away
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them that are not away.
    pub fn all(&self) -> &[u32] {
        &self.all
    }

    /// Something has come of a connection.
    pub fn hear(&mut self, slot: u32, member: &mut Member) {
        if !core::mem::replace(&mut member.talking, true) {
            self.talking.push(slot);
        }
    }

    /// Those that are gone through when something is shared anew.
    pub fn sharers(&self) -> &[u32] {
        if self.all.len() > CROWD { &self.talking } else { &self.all }
    }

    /// Looks who has fallen silent.
    pub fn listen(&mut self, mut talks: impl FnMut(u32) -> bool) {
        self.talking.retain(|slot| talks(*slot));
    }
}
