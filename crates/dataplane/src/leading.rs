//! What leads packets into a gateway's devices: rules and routes, or programs at the ports of a bridge.
use crate::bridge::{Bridge, Lost};
use crate::daemon_error::DaemonError;
use crate::{Config, Interception, Notice, Routes};

pub(crate) enum Leading {
    Routed(Option<Routes>),
    Bridged(Bridge),
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
        let routes = match take_over {
            true => Routes::handed_over(interception.clone())?,
            false => Routes::install(interception.clone())?,
        };
        Ok(Leading::Routed(Some(routes)))
    }

    /// What people should know of it.
    pub fn notice(&mut self) -> Option<Notice> {
        match self {
            Leading::Routed(_) => None,
            Leading::Bridged(bridge) => bridge.not_kept.take().map(|why| Notice::HeadersNotKept { why }),
        }
    }

    /// What is lost in it, if that can be.
    pub fn lost(&self) -> Option<Lost> {
        match self {
            Leading::Routed(_) => None,
            Leading::Bridged(bridge) => Some(bridge.lost()),
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
        }
    }
}
