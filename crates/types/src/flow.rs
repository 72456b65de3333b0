use core::fmt;
use core::net::SocketAddr;

/// Which attachment of a machine a packet came in by or leaves by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

/// A TCP connection seen in one direction: from `src` to `dst`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Where the segment comes from.
    pub src: SocketAddr,
    /// Where it goes.
    pub dst: SocketAddr,
}

impl FlowKey {
    /// The same connection seen in the other direction.
    pub const fn reversed(self) -> Self {
        FlowKey { src: self.dst, dst: self.src }
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.src, self.dst)
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.src, self.dst)
    }
}
