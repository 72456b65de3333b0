//! Where the gateway and the uplinks of mobile hosts meet.
use super::Gateway;
use super::table::{Entry, Phase};
use crate::aggregate::{Changed, Due, Member, Uplink, UplinkWindow};
use crate::end::Side;
use shorthaul_types::Time;
use shorthaul_wire::{Packet, TcpFlags, Transport};

impl Gateway {
    /// A SYN-ACK to a mobile host, from `side`, with the window that its aggregate offers at first: what the server offers
    /// may be more than the link carries in minutes, and cannot be taken back. Any other packet as it came.
    pub(super) fn with_first_offer(&mut self, index: u32, side: Side, mut packet: Packet) -> Packet {
        let Gateway { config, access, table, .. } = self;
        let Some(Entry { phase: Phase::Opening(handshake), policy, .. }) = table.get_mut(index) else {
            return packet;
        };
        let aggregate = config.policies[usize::from(*policy)].aggregate.as_ref();
        let Some(aggregate) = aggregate.filter(|aggregate| aggregate.uplink != UplinkWindow::None) else {
            return packet;
        };
        let Transport::Tcp(segment) = &mut packet.transport else { return packet };
        if side != Side::Server || !segment.header.flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
            return packet;
        }
        if let Some(offer) = handshake.limit_first_offer(|address, mss| {
            let known = access.find(address).and_then(|host| host.uplink.as_ref());
            Uplink::first_offer(known, mss, aggregate)
        }) && offer < segment.header.window
        {
            segment.header.window = offer;
            packet.original = None;
        }
        packet
    }

    /// Something happened to a flow: what its mobile host sent tells of the link.
    pub(super) fn sync_upload(&mut self, index: u32) {
        let now = self.now;
        let Gateway { access, table, .. } = self;
        let Some((flow, member)) = table.aggregated(index) else { return };
        let index = member.host;
        let Some(host) = access.host_mut(index) else { return };
        let members = host.members.len();
        let Some((uplink, upload)) = host.uplink.as_mut().zip(flow.upload_mut()) else { return };
        let Some(arrival) = upload.take_arrival() else { return };
        uplink.on_arrival(now, &arrival, host.waited, upload);
        if let Some(due) = uplink.is_due(now, members) {
            self.share_uplink(now, index, due);
        }
    }

    /// Something happened to a flow: what its wired sender sent tells of the path from there.
    pub(super) fn sync_download(&mut self, index: u32) {
        let now = self.now;
        let Gateway { access, table, .. } = self;
        let Some((flow, member)) = table.aggregated(index) else { return };
        let (host, Some(number)) = (member.host, member.source) else { return };
        let Some(served) = access.served(host) else { return };
        let members = served.host.members.len();
        let queued = served.aggregate.queued();
        let Some((source, download)) = served.host.sources.get_mut(number).zip(flow.download_mut()) else {
            return;
        };
        let Some(arrival) = download.take_arrival() else { return };
        let waited = download.waited;
        let changed = source.on_arrival(now, &arrival, waited, queued, download);
        let due = source.window.is_due(now, members);
        let due = if changed == Changed::Nothing { due } else { Some(due.unwrap_or(Due::Between)) };
        let Some(due) = due else { return };
        let Some(host) = access.host_mut(host) else { return };
        let Some(source) = host.sources.get_mut(number) else { return };
        let of = |member: &Member| member.source == Some(number);
        let mut needs = source.window.begin_sharing();
        for &index in &host.members {
            if let Some((flow, member)) = table.aggregated(index)
                && let Some(download) = flow.download_mut().filter(|_| of(member))
            {
                if due == Due::Round {
                    download.end_round();
                }
                needs.extend(download.need(now));
            }
        }
        source.window.share(needs);
        for &index in &host.members {
            if let Some((flow, member)) = table.aggregated(index)
                && let Some(download) = flow.download_mut().filter(|_| of(member))
                && (source.allot(now, download) || changed != Changed::Nothing)
            {
                table.wake(index);
            }
        }
    }

    /// The uploads of a host get their shares of its window.
    fn share_uplink(&mut self, now: Time, host: u32, due: Due) {
        let Gateway { access, table, .. } = self;
        let Some(host) = access.host_mut(host) else { return };
        let Some(uplink) = &mut host.uplink else { return };
        let mut needs = uplink.begin_sharing();
        for &index in &host.members {
            if let Some((flow, _)) = table.aggregated(index)
                && let Some(upload) = flow.upload_mut()
            {
                if due == Due::Round {
                    upload.end_round();
                }
                needs.extend(upload.need(now));
            }
        }
        uplink.share(needs);
        for &index in &host.members {
            if let Some((flow, _)) = table.aggregated(index)
                && let Some(upload) = flow.upload_mut()
                && uplink.allot(now, upload)
            {
                table.wake(index);
            }
        }
    }
}
