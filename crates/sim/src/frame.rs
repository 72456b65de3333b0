//! Packets on their way: what a queue holds is a number of 16 bytes, the packet itself lies still.
use shorthaul_scenario::NodeIndex;
use shorthaul_wire::Packet;

/// What travels over a link: where it goes, how big it is, and which packet it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub to: u32,
    pub size: u32,
    /// A place in [`Packets`], or [`Frame::DATAGRAM`].
    pub packet: u32,
}

impl Frame {
    /// A datagram of competing traffic, of which nothing but its size matters.
    pub const DATAGRAM: u32 = u32::MAX;

    pub fn destination(self) -> NodeIndex {
        NodeIndex(self.to as usize)
    }
}

/// The packets that are under way.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    packet: Option<Packet>,
    /// Frames that stand for it: more than one where a link has duplicated it.
    frames: u32,
}

impl Packets {
    pub fn put(&mut self, packet: Packet) -> u32 {
        let place = Place { packet: Some(packet), frames: 1 };
        match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = place;
                index
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        }
    }

    pub fn get(&self, index: u32) -> Option<&Packet> {
        self.places.get(index as usize)?.packet.as_ref()
    }

    /// One more frame stands for the packet.
    pub fn share(&mut self, index: u32) {
        if let Some(place) = self.places.get_mut(index as usize) {
            place.frames += 1;
        }
    }

    /// A frame has arrived: its packet.
    pub fn take(&mut self, index: u32) -> Option<Packet> {
        let place = self.places.get_mut(index as usize)?;
        place.frames -= 1;
        if place.frames > 0 {
            return place.packet.clone();
        }
        self.free.push(index);
        place.packet.take()
    }

    /// A frame is lost.
    pub fn discard(&mut self, index: u32) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        place.frames -= 1;
        if place.frames == 0 {
            place.packet = None;
            self.free.push(index);
        }
    }

    /// How many packets are under way.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
