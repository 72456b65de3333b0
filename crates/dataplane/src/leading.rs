//! What leads packets into a gateway's devices: programs at the access interfaces, rules and routes, or programs at the ports of a bridge.
use crate::attach::Attachment;
use crate::bridge::{Bridge, Lost};
use crate::daemon_error::DaemonError;
use crate::vanished::Vanished;
use crate::{Config, Interception, Notice, Routes, Way};
use std::io;
use std::sync::Arc;

pub(crate) enum Leading {
    Routed(Option<Routes>),
    Bridged(Bridge),
    Attached(Attachment),
}

impl Leading {
    /// Leads packets into the devices, which are there; those of a gateway that runs, if one is to be taken over.
    pub fn install(
        config: &Config,
        interception: &Interception,
        take_over: bool,
    ) -> Result<Self, DaemonError> {
        if let Some(names) = &config.bridge {
            return Ok(Leading::Bridged(Bridge::install(config, names, take_over)?));
        }
        if interception.way == Way::Interfaces {
            return Ok(Leading::Attached(Attachment::install(config, interception, take_over)?));
        }
        let routes = match take_over {
            true => Routes::handed_over(interception.clone())?,
            false => Routes::install(interception.clone())?,
        };
        Ok(Leading::Routed(Some(routes)))
    }

    /// What people should know of it.
    pub fn notices(&mut self, interception: &Interception) -> Vec<Notice> {
        let not_kept = match self {
            Leading::Routed(_) => None,
            Leading::Bridged(bridge) => bridge.not_kept.take(),
            Leading::Attached(attachment) => attachment.not_kept.take(),
        };
        let by_rules = match &interception.way {
            Way::Rules(Some(why)) => Some(Notice::ByRules { why: why.clone() }),
            _ => None,
        };
        by_rules.into_iter().chain(not_kept.map(|why| Notice::HeadersNotKept { why })).collect()
    }

    /// Goes on to learn what changes at the host, with no more privileges than the calling thread has now.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&mut self) -> io::Result<()> {
        match self {
            Leading::Attached(attachment) => attachment.begin(),
            Leading::Bridged(bridge) => bridge.begin(),
            Leading::Routed(_) => Ok(()),
        }
    }

    /// Where it is noted that interfaces are not there any more.
    pub fn vanished(&self) -> Option<Arc<Vanished>> {
        match self {
            Leading::Attached(attachment) => Some(Arc::clone(&attachment.vanished)),
            Leading::Bridged(bridge) => Some(Arc::clone(&bridge.vanished)),
            Leading::Routed(_) => None,
        }
    }

    /// What is lost in it, if that can be.
    pub fn lost(&self) -> Option<Lost> {
        match self {
            Leading::Routed(_) => None,
            Leading::Bridged(bridge) => Some(bridge.lost()),
            Leading::Attached(attachment) => Some(attachment.lost()),
        }
    }

    /// It is this process's from now on.
    pub fn own(&mut self) {
        if let Leading::Routed(Some(routes)) = self {
            routes.own();
        }
    }

    /// It is a successor's from now on, which has programs of its own.
    pub fn leave(self) {
        if let Leading::Routed(Some(routes)) = self {
            routes.leave();
        }
    }

    /// Nothing more is led into the devices. What is written to them still goes its way.
    pub fn end(&mut self) {
        match self {
            Leading::Routed(routes) => drop(routes.take()),
            Leading::Bridged(bridge) => bridge.release(),
            Leading::Attached(attachment) => attachment.release(),
        }
    }
}
