use super::{LinkPlace, QueuePlace};
use crate::aggregate::Member;
use alloc::boxed::Box;

/// What a flow has of its own at the access side: its parts in what its host shares.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its host in the registry.
    pub host: u32,
    /// Its part in the host's queue, where its policy follows that.
    pub queue: Option<QueuePlace>,
    /// Its place behind an emulated link, where its policy has one.
    pub link: Option<LinkPlace>,
    /// Its part in the aggregate of its host's group, where its policy has one.
    pub member: Option<Box<Member>>,
}
