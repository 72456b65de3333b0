//! Where the gateway and the uplinks of mobile hosts meet.
use super::Gateway;
use super::table::{Entry, Phase, Table};
use crate::aggregate::{Changed, Due, Member, Members, Uplink, UplinkWindow, Upload};
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
        let at = member.host;
        let Some(host) = access.host_mut(at) else { return };
        let Some(arrival) = flow.upload_mut().and_then(Upload::take_arrival) else { return };
        host.members.hear(index, member);
        let sharing = host.members.sharers().len();
        let Some((uplink, upload)) = host.uplink.as_mut().zip(flow.upload_mut()) else { return };
        uplink.on_arrival(now, &arrival, host.waited, upload);
        if let Some(due) = uplink.is_due(now, sharing) {
            self.share_uplink(now, at, due);
        }
    }

    /// Something happened to a flow: what its wired sender sent tells of the path from there.
    pub(super) fn sync_download(&mut self, index: u32) {
        let now = self.now;
        let Gateway { access, table, .. } = self;
        let Some((flow, member)) = table.aggregated(index) else { return };
        let (host, Some(number)) = (member.host, member.source) else { return };
        let Some(served) = access.served(host) else { return };
        let Some(arrival) = flow.download_mut().and_then(Upload::take_arrival) else { return };
        served.host.members.hear(index, member);
        let (sharing, queued) = (served.host.members.sharers().len(), served.aggregate.queued());
        let Some((source, download)) = served.host.sources.get_mut(number).zip(flow.download_mut()) else {
            return;
        };
        let waited = download.waited;
        let changed = source.on_arrival(now, &arrival, waited, queued, download);
        // Who is not held has room for a slow start until the round trip is over.
        let is_held = source.is_held();
        let due = source.window.is_due(now, sharing).filter(|due| is_held || *due == Due::Round);
        let due = if changed == Changed::Nothing { due } else { Some(due.unwrap_or(Due::Between)) };
        let Some(due) = due else { return };
        let Some(host) = access.host_mut(host) else { return };
        let Some(source) = host.sources.get_mut(number) else { return };
        let of = |member: &Member| member.source == Some(number);
        // Who is silent has what it needs, but for whether it is held at all.
        let all = changed != Changed::Nothing;
        let sharers = if all { host.members.all() } else { host.members.sharers() };
        let mut needs = source.window.begin_sharing();
        for &index in sharers {
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
        for &index in sharers {
            if let Some((flow, member)) = table.aggregated(index)
                && let Some(download) = flow.download_mut().filter(|_| of(member))
                && (source.allot(now, download) || all)
            {
                table.wake(index);
            }
        }
        if due == Due::Round {
            listen(&mut host.members, table, now);
        }
    }

    /// The uploads of a host get their shares of its window.
    fn share_uplink(&mut self, now: Time, host: u32, due: Due) {
        let Gateway { access, table, .. } = self;
        let Some(host) = access.host_mut(host) else { return };
        let Some(uplink) = &mut host.uplink else { return };
        let sharers = host.members.sharers();
        let mut needs = uplink.begin_sharing();
        for &index in sharers {
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
        for &index in sharers {
            if let Some((flow, _)) = table.aggregated(index)
                && let Some(upload) = flow.upload_mut()
                && uplink.allot(now, upload)
            {
                table.wake(index);
            }
        }
        if due == Due::Round {
            listen(&mut host.members, table, now);
        }
    }
}

/// Whoever has been silent, from both ends, needs nothing until something comes of it.
fn listen(members: &mut Members, table: &mut Table, now: Time) {
    members.listen(|slot| {
        let Some((flow, member)) = table.aggregated(slot) else { return false };
        let silent = |upload: Option<&mut Upload>| upload.is_none_or(|upload| upload.need(now).is_none());
        member.talking = !(silent(flow.upload_mut()) && silent(flow.download_mut()));
        member.talking
    });
}
