//! What can be looked at afterwards: packets for Wireshark, events as JSON lines.
use crate::frame::{Frame, Packets};
use serde_json::json;
use shorthaul_link::DropReason;
use shorthaul_types::Time;
use shorthaul_wire::pcapng::{PacketInfo, Writer};
use shorthaul_wire::{ChecksumMode, HEADERS_MAX, headers, payload_slices};
use std::io::{self, Write};

/// The size at which it is drained into its file.
const BUFFER: usize = 1 << 20;

/// Writes packets and events as they happen.
///
/// A packet is recorded where it enters a link, with a comment if the link drops it. Competing datagrams
/// have no bytes; they are in the event trace only.
#[derive(Default)]
pub(crate) struct Recorder {
    captures: Vec<Capture>,
    trace: Option<Box<dyn Write + Send>>,
    names: Vec<String>,
    error: Option<io::Error>,
}

struct Capture {
    way: usize,
    interface: u32,
    file: usize,
    writer: Writer,
    out: Box<dyn Write + Send>,
}

impl Recorder {
    pub fn new(names: Vec<String>) -> Self {
        Recorder { names, ..Recorder::default() }
    }

    /// Records both directions of a link, given by their numbers.
    pub fn capture(&mut self, ways: [usize; 2], out: Box<dyn Write + Send>) {
        let mut writer = Writer::new();
        let file = self.captures.len();
        let interfaces = ways.map(|way| writer.add_interface(&self.names[way]));
        self.captures.push(Capture { way: ways[0], interface: interfaces[0], file, writer, out });
        let partner = Capture {
            way: ways[1],
            interface: interfaces[1],
            file,
            writer: Writer::new(),
            out: Box::new(io::sink()),
        };
        self.captures.push(partner);
    }

    /// Writes every event of every link.
    pub fn trace(&mut self, out: Box<dyn Write + Send>) {
        self.trace = Some(out);
    }

    pub fn offered(
        &mut self,
        now: Time,
        way: usize,
        frame: Frame,
        dropped: Option<DropReason>,
        packets: &Packets,
    ) {
        if let Some(at) = self.captures.iter().position(|capture| capture.way == way)
            && let Some(packet) = packets.get(frame.packet)
        {
            let Capture { interface, file, .. } = self.captures[at];
            let comment = dropped.map_or(String::new(), |reason| format!("dropped: {}", reason.as_str()));
            let info = PacketInfo { interface, at: now, comment: &comment };
            let mut head = [0; HEADERS_MAX];
            let (len, _) = headers(packet, ChecksumMode::Full, &mut head);
            let slices = payload_slices(packet).iter().map(|slice| slice.as_slice());
            let capture = &mut self.captures[file];
            capture.writer.packet(&info, std::iter::once(&head[..len]).chain(slices));
            if capture.writer.buffered().len() > BUFFER {
                self.drain(file);
            }
        }
        let event = dropped.map_or("sent", DropReason::as_str);
        self.write_event(now, event, way, frame, packets);
    }

    pub fn delivered(&mut self, now: Time, way: usize, frame: Frame, packets: &Packets) {
        self.write_event(now, "delivered", way, frame, packets);
    }

    fn write_event(&mut self, now: Time, event: &str, way: usize, frame: Frame, packets: &Packets) {
        let Some(out) = &mut self.trace else { return };
        let mut line = json!({
            "t": now.as_secs_f64(), "event": event, "link": self.names[way], "size": frame.size,
        });
        if let Some(packet) = packets.get(frame.packet)
            && let (Some(flow), Some(segment)) = (packet.flow(), packet.as_tcp())
        {
            let header = &segment.header;
            line["flow"] = json!(flow.to_string());
            line["seq"] = json!(header.seq.0);
            line["ack"] = json!(header.ack.0);
            line["flags"] = json!(format!("{:?}", header.flags));
            line["window"] = json!(header.window);
            line["len"] = json!(segment.payload.len());
        }
        let written = writeln!(out, "{line}");
        self.note(written);
    }

    fn drain(&mut self, file: usize) {
        let capture = &mut self.captures[file];
        let written = capture.out.write_all(capture.writer.buffered());
        capture.writer.clear();
        self.note(written);
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// The first error of any file.
    pub fn finish(mut self) -> io::Result<()> {
        for file in 0..self.captures.len() {
            self.drain(file);
            let flushed = self.captures[file].out.flush();
            self.note(flushed);
        }
        if let Some(out) = &mut self.trace {
            let flushed = out.flush();
            self.note(flushed);
        }
        self.error.map_or(Ok(()), Err)
    }
}
