//! Transfers between hosts over the kernel's TCP: what the two ends of a connection experience.

mod content;
mod pace;
mod run;
mod tcp_sample;
mod transfer;

pub use content::Content;
pub use pace::Pace;
pub use tcp_sample::TcpSample;
pub use transfer::{Amount, Ends, Family, Requests, Sender, Transfer, TransferError, TransferReport};
