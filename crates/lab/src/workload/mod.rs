//! Transfers between hosts over the kernel's TCP: what the two ends of a connection experience.

mod content;
mod run;
mod tcp_sample;
mod transfer;

pub use content::Content;
pub use tcp_sample::TcpSample;
pub use transfer::{Amount, Ends, Family, Sender, Transfer, TransferError, TransferReport};
