//! The TCP of this project as an endpoint in user space, live against the Linux kernel's across emulated links.
//!
//! Reading order: `place` (a lab with a kernel on one side and our endpoint on the other), `interop`
//! (does everything arrive, whatever the path and the options?), `parity` (as fast as the kernel's
//! own sender?).
pub mod interop;
pub mod parity;
mod place;
