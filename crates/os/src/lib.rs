//! Linux behind safe functions. All unsafe code of the project is here; every other crate forbids it.
//!
//! System calls are rustix's. `libc` stands only where rustix has nothing, which is said there.
//!
//! Reading order: [`clock`], [`poll`] and [`signals`] (what an event loop waits for), [`Tun`] and [`BufferPool`] (packets of the host),
//! [`bpf`] (which queue of a device they go into, and which frames of an interface), [`netlink`] (interfaces, addresses, routes, rules), [`Arena`] (a file as memory); [`namespace`] and
//! [`process`] (hosts on one machine, and what runs in them), [`schedule`] and [`ProcessorTime`] (who runs when and where, and how much); [`socket`]
//! and [`TcpInfo`] (options and state of sockets), [`datagram`] (with what the kernel knows of it), [`Tap`] (copies of
//! what is forwarded), [`Pipe`] (bytes moved within the kernel); [`limits`] and [`confine`] (what a process may use,
//! and what it gives up); [`handover`] (what it leaves to another).

mod arena;
pub mod bpf;
pub mod clock;
pub mod confine;
pub mod datagram;
pub mod files;
pub mod handover;
pub mod limits;
pub mod namespace;
pub mod netlink;
mod pipe;
pub mod poll;
mod pool;
pub mod process;
mod processor_time;
pub mod schedule;
pub mod signals;
pub mod socket;
mod tap;
mod tcp_info;
mod tun;

pub use arena::{Arena, Buffers, Found, Layout, Records};
pub use clock::monotonic;
pub use netlink::Netlink;
pub use pipe::Pipe;
pub use pool::BufferPool;
pub use processor_time::ProcessorTime;
/// An error number of the kernel, to be compared with the constants of its type.
pub use rustix::io::Errno;
pub use tap::{Seen, Tap};
pub use tcp_info::{TcpInfo, TcpState};
pub use tun::Tun;
