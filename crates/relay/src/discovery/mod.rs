//! Finding relays: a probe goes toward the destination, relays that it passes answer with what they
//! offer, and the destination acknowledges it (section 4 of "Proxy Transport Service"). Relays beside the way are
//! asked themselves.
//!
//! Reading order: [`Key`] and [`Cookies`] (who is believed), [`Message`] (what is said), [`Rations`] (how much is answered), [`Responder`] (who answers),
//! [`Prober`] (who asks); those own no socket and no clock. [`AnsweringSockets`], [`Answering`] and [`probe`] (the same on sockets),
//! [`Survey`] (several rounds together), [`Ranking`] (what a relay is worth, and whether to use one), [`directory`] (who
//! knows relays beside the way), [`Table`] (what is known of destinations), [`worth_waiting`] (how long a session waits for more),
//! [`Finder`] (all of it: the best way to a target).
mod answering;
mod asking;
mod chain;
pub mod directory;
mod finder;
mod key;
mod limiter;
mod look;
mod message;
mod prober;
mod probing;
mod ranking;
mod rations;
mod responder;
mod survey;
mod table;
mod waiting;

#[cfg(test)]
mod tests;

pub use answering::{Allowed, Answering, AnsweringConfig, AnsweringError, AnsweringSockets, is_public};
pub use asking::whom_to_ask;
pub use chain::Chain;
pub use finder::{
    ASKED_WITHIN, Choice, DIRECTORY_AGE, DIRECTORY_REST, Finder, FinderConfig, ROUNDS_MAX, Refreshing,
    SHARE_OF_TIME,
};
pub use key::{Cookies, KEY_LEN, Key, KeyError, Keyring, MAC_LEN};
pub use limiter::Allowance;
pub use message::{
    ANSWER_LEN, Body, Capacity, Datagram, HOP_LIMIT, Message, NAME_MAX, Name, Offer, Onward, PORT, PROBE_LEN,
    Service, Unreadable,
};
pub use prober::{
    ASKED_MAX, By, Findings, Found, Handshake, Ignored, ONWARD_TRIES, Prober, Question, Retry,
    beyond_handshake, lingering, while_it_measures,
};
pub use probing::{Distance, probe, probe_and_tell, way_to};
pub use ranking::{Facts, Ranked, Ranking, RankingError, Selection, View, rank};
pub use rations::{Limits, ONWARD_AGE, ONWARD_MAX, Rations, Told};
pub use responder::{Answer, Arrival, Bound, Counters, Identity, Load, Responder, ResponderConfig, Silence};
pub use survey::{Survey, Surveyed, median};
pub use table::{Cached, RESPONDER_AGE, SILENT_LOOKS, Sight, Table, TableConfig};
pub use waiting::{ASSUMED_DISTANCE, is_worth_probing, waits_after, worth_waiting};
