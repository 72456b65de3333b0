//! The live loop: TUN with offloads, clock, batches, routing rules.
