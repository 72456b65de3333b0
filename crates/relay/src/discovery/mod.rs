//! Finding relays: a probe goes toward the destination, relays that it passes answer with what they
//! offer, and the destination acknowledges it (section 4 of "Proxy Transport Service"). Relays beside the way are
//! asked themselves.
//!
//! Reading order: [`Key`] and [`Cookies`] (who is believed), [`Message`] (what is said), [`Responder`] (who answers),
//! [`Prober`] (who asks). Those own no socket and no clock.
mod key;
mod limiter;
mod message;
mod prober;
mod responder;

#[cfg(test)]
mod tests;

pub use key::{Cookies, KEY_LEN, Key, KeyError, Keyring, MAC_LEN};
pub use limiter::Allowance;
pub use message::{
    ANSWER_LEN, Body, Datagram, HOP_LIMIT, Message, NAME_MAX, Name, Offer, Onward, PORT, PROBE_LEN,
    Unreadable,
};
pub use prober::{ASKED_MAX, Findings, Found, Ignored, Patience, Prober, Question};
pub use responder::{Answer, Arrival, Bound, Counters, Identity, Load, Responder, ResponderConfig, Silence};
