//! TCP options between their bytes and [`TcpOptions`].

use crate::{SackBlock, TcpOptions, Timestamps, be};
use shorthaul_types::SeqNum;

/// The room that a TCP header has for options, in bytes.
pub(crate) const OPTIONS_MAX: usize = 40;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Reads the options of one header.
///
/// A known option of the wrong length is kept as an unknown one, because hosts skip it as such. So is one that stands there
/// again, as hosts differ in which of the two they take: the first counts here, and who meets an unknown option in a SYN may
/// keep out of the connection. Where an option reaches beyond the header, reading ends, as it does in Linux.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    // What nearly every segment of a running connection has, and nothing else.
    if let [NOP, NOP, TIMESTAMPS, 10, ..] = bytes
        && bytes.len() == 12
    {
        options.timestamps = Some(Timestamps { val: be::u32(bytes, 4), ecr: be::u32(bytes, 8) });
        return options;
    }
    let mut rest = bytes;
    loop {
        match rest {
            [] | [END, ..] => return options,
            [NOP, ..] => rest = &rest[1..],
            [_] => return options,
            [_, len, ..] => {
                let len = usize::from(*len);
                if len < 2 || len > rest.len() {
                    return options;
                }
                let (option, behind) = rest.split_at(len);
                read_one(&mut options, option);
                rest = behind;
            }
        }
    }
}

/// Reads one option, given with its kind and length.
fn read_one(options: &mut TcpOptions, option: &[u8]) {
    match option {
        [MSS, 4, high, low] if options.mss.is_none() => {
            options.mss = Some(u16::from_be_bytes([*high, *low]));
        }
        [WINDOW_SCALE, 3, shift] if options.window_scale.is_none() => options.window_scale = Some(*shift),
        [SACK_PERMITTED, 2] if !options.sack_permitted => options.sack_permitted = true,
        [TIMESTAMPS, 10, value @ ..] if options.timestamps.is_none() => {
            options.timestamps = Some(Timestamps { val: be::u32(value, 0), ecr: be::u32(value, 4) });
        }
        [SACK, 10 | 18 | 26 | 34, blocks @ ..] if options.sack.is_empty() => {
            options.sack.extend(blocks.chunks_exact(8).map(|block| SackBlock {
                left: SeqNum(be::u32(block, 0)),
                right: SeqNum(be::u32(block, 4)),
            }));
        }
        // All options of a header have 40 bytes at most, so these fit.
        unknown => {
            let _ = options.unknown.try_extend_from_slice(unknown);
        }
    }
}

/// How options are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// As Linux does it: each option on its own 32-bit words, with NOPs in front.
    Aligned,
    /// One behind the other, with NOPs at the end only.
    Packed,
}

/// Writes options into `out` and returns their length, a multiple of four.
///
/// The layout is that of Linux. What does not fit so is packed; where that does not help, the last
/// SACK blocks are left out (so that at most three stand beside timestamps), then unknown options.
/// Options that were read from a header always fit entirely.
#[inline]
pub(crate) fn write(options: &TcpOptions, out: &mut [u8; OPTIONS_MAX]) -> usize {
    for blocks in (0..=options.sack.len()).rev() {
        for layout in [Layout::Aligned, Layout::Packed] {
            if len(options, layout, blocks) <= OPTIONS_MAX {
                return write_as(options, layout, blocks, out);
            }
        }
    }
    let known = TcpOptions { unknown: Default::default(), sack: Default::default(), ..options.clone() };
    write_as(&known, Layout::Aligned, 0, out)
}

/// The bytes that [`write()`] takes for these options: a multiple of four, at most 40.
pub(crate) fn written_len(options: &TcpOptions) -> usize {
    for blocks in (0..=options.sack.len()).rev() {
        for layout in [Layout::Aligned, Layout::Packed] {
            let len = len(options, layout, blocks);
            if len <= OPTIONS_MAX {
                return len.next_multiple_of(4);
            }
        }
    }
    let known = TcpOptions { unknown: Default::default(), sack: Default::default(), ..options.clone() };
    len(&known, Layout::Aligned, 0).next_multiple_of(4)
}

/// The bytes that [`write_as`] takes, before they are rounded up to words.
fn len(options: &TcpOptions, layout: Layout, sack_blocks: usize) -> usize {
    let (mss, timestamps, sack_permitted, window_scale) = (
        options.mss.is_some(),
        options.timestamps.is_some(),
        options.sack_permitted,
        options.window_scale.is_some(),
    );
    let known = match layout {
        Layout::Aligned => {
            let of_word = |present: bool| if present { 4 } else { 0 };
            of_word(mss)
                + if timestamps { 12 } else { of_word(sack_permitted) }
                + of_word(window_scale)
                + if sack_blocks > 0 { 4 + 8 * sack_blocks } else { 0 }
        }
        Layout::Packed => {
            let of_len = |present: bool, len: usize| if present { len } else { 0 };
            of_len(mss, 4)
                + of_len(timestamps, 10)
                + of_len(sack_permitted, 2)
                + of_len(window_scale, 3)
                + of_len(sack_blocks > 0, 2 + 8 * sack_blocks)
        }
    };
    known + options.unknown.len()
}

/// Writes options in a layout that fits.
fn write_as(options: &TcpOptions, layout: Layout, sack_blocks: usize, out: &mut [u8; OPTIONS_MAX]) -> usize {
    let nops = |n: usize| if layout == Layout::Aligned { n } else { 0 };
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if let Some(mss) = options.mss {
        put(&[MSS, 4]);
        put(&mss.to_be_bytes());
    }
    if options.sack_permitted {
        // Linux puts it where the NOPs before the timestamps would be.
        put(&[NOP, NOP][..if options.timestamps.is_some() { 0 } else { nops(2) }]);
        put(&[SACK_PERMITTED, 2]);
    }
    if let Some(timestamps) = options.timestamps {
        put(&[NOP, NOP][..if options.sack_permitted { 0 } else { nops(2) }]);
        put(&[TIMESTAMPS, 10]);
        put(&timestamps.val.to_be_bytes());
        put(&timestamps.ecr.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        put(&[NOP][..nops(1)]);
        put(&[WINDOW_SCALE, 3, shift]);
    }
    if sack_blocks > 0 {
        put(&[NOP, NOP][..nops(2)]);
        put(&[SACK, 2 + 8 * sack_blocks as u8]);
        for block in &options.sack[..sack_blocks] {
            put(&block.left.0.to_be_bytes());
            put(&block.right.0.to_be_bytes());
        }
    }
    put(&options.unknown);
    let len = at.next_multiple_of(4);
    out[at..len].fill(NOP);
    len
}
