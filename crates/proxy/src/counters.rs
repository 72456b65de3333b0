/// Declares the counters once, for the struct and for its listing by name.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a gateway has done since it started.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Packets that were no valid packets, that were dropped, or that passed without being looked into, by reason.
            pub by_reason: alloc::vec::Vec<(&'static str, u64)>,
        }

        impl Counters {
            /// Every counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$((stringify!($name), self.$name),)*].into_iter().chain(self.by_reason.iter().copied())
            }
        }
    };
}

counters! {
    /// Packets that came in.
    packets_in,
    /// Packets that went out.
    packets_out,
    /// Segments that came in fragments and were put together.
    segments_reassembled,
    /// Packets that were forwarded as they came.
    forwarded_untouched,
    /// Bytes of packets of flows that are split, as they came in.
    bytes_split,
    /// Bytes of packets that are not split, and waited for their turn or had it at once.
    bytes_shaped,
    /// Bytes of packets that passed as they came.
    bytes_untouched,
    /// Packets that are not split, and were marked because they had waited (RFC 3168).
    shaped_marked,
    /// Such packets that were dropped because they had waited, or because there was no room for them.
    shaped_dropped,
    /// Groups of hosts that were found to share a bottleneck with another.
    bottlenecks_found,
    /// Hosts that were taken out of such a group, for they waited in another queue.
    bottlenecks_parted,
    /// Flows that were split.
    flows_split,
    /// How often a split flow that said nothing was put away, to take less memory.
    flows_put_away,
    /// How often one was brought back, for something of it came.
    flows_brought_back,
    /// Payload that hosts at the access side sent in split flows, in bytes, with what came twice.
    split_bytes_up,
    /// Payload that was sent to them.
    split_bytes_down,
    /// Flows that stayed whole and were observed, with interceptors or without.
    flows_observed,
    /// Of those, flows of the control group.
    flows_control,
    /// Of those, flows that were not split because splitting makes their class slower.
    flows_withdrawn,
    /// How often splitting was found to make a class slower.
    gain_harms,
    /// Of those, flows that ended with both FINs acknowledged, or with a reset.
    observed_finished,
    /// Bytes of the streams of observed flows.
    observed_bytes,
    /// Of those, bytes that were seen again, or after later ones.
    observed_retransmitted,
    /// Packets that an interceptor changed, dropped or kept back.
    intercepted,
    /// Flows that ended with both FINs acknowledged.
    flows_finished,
    /// Flows that an end reset.
    flows_reset,
    /// Flows that we reset because an end no longer answered.
    flows_given_up,
    /// Resets that were sent once more to ends of such flows, which went on.
    resets_repeated,
    /// Flows that we stepped out of alive.
    flows_stepped_out,
    /// Flows that a predecessor left, and that went on where they stood.
    flows_resumed,
    /// Flows that were reset because a crash of ours had lost bytes of theirs.
    flows_lost_in_crash,
    /// Flows that were not split because the memory or the table was full.
    unsplit_overload,
    /// Flows that were not split because the store of what survives a crash had no room for how they stand.
    unsplit_unkept,
    /// Connections that were forgotten before they were open, so that there was room for younger ones.
    half_open_forgotten,
    /// Answers to segments that cannot be taken that were left out, for there were many (RFC 5961 §7).
    challenges_suppressed,
    /// Flows that were not observed because the table was full.
    unobserved_overload,
    /// Flows that were not split because they use options that we do not know, or segments of less than 216 bytes.
    unsplit_options,
    /// Segments dropped because they lay outside what the connection can hold.
    segments_unacceptable,
    /// Datagrams dropped because an emulated link had no room for them.
    path_tail_dropped,
    /// Resets dropped or challenged (RFC 5961).
    resets_challenged,
}

impl Counters {
    /// Counts a packet of [`Counters::by_reason`].
    pub fn count_reason(&mut self, reason: &'static str) {
        match self.by_reason.iter_mut().find(|(name, _)| *name == reason) {
            Some((_, count)) => *count += 1,
            None => self.by_reason.push((reason, 1)),
        }
    }
}
