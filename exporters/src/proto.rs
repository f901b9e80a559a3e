//! Protobuf's wire format, as much as an encoder needs: varints, bytes, nested messages.
//!
//! A nested message is written in place behind one byte for its length; when it turns out longer than 127 bytes, its
//! content moves by the missing length bytes. Most of ours are shorter, so most never move, and every length is as short
//! as it can be.
//!
//! # Source
//! protobuf.dev, "Encoding".

/// Appends `value` as a varint.
#[inline]
pub(crate) fn varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else if value < 0x4000 {
        out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
    } else {
        let (start, count) = varint_start(value);
        out.extend_from_slice(&start.to_le_bytes()[..count.min(8)]);
        if count > 8 {
            out.extend_from_slice(&varint_end(value).to_le_bytes()[..count - 8]);
        }
    }
}

/// The first eight bytes of a varint, the first one lowest, and how many bytes it has in all.
#[inline(always)]
pub(crate) fn varint_start(value: u64) -> (u64, usize) {
    // All groups of seven bits move to their bytes in three steps: halves, quarters, eighths of 56 bits.
    let mut spread = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) << 4;
    spread = spread & 0x0000_3FFF_0000_3FFF | (spread & 0x0FFF_C000_0FFF_C000) << 2;
    spread = spread & 0x007F_007F_007F_007F | (spread & 0x3F80_3F80_3F80_3F80) << 1;
    let count = varint_bytes(value);
    // Each byte but the last says that more follow.
    let more = 0x8080_8080_8080_8080 & ((1u128 << (8 * (count - 1))) - 1) as u64;
    (spread | more, count)
}

/// What follows the first eight bytes of a varint of nine or ten.
#[inline]
pub(crate) fn varint_end(value: u64) -> u64 {
    let rest = value >> 56;
    if rest < 0x80 { rest } else { 0x100 | rest }
}

/// Bytes that a varint takes.
#[inline(always)]
pub(crate) fn varint_bytes(value: u64) -> usize {
    // Bits by 7, rounded up: 9 / 64 is near enough a seventh.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}

/// Appends field `number` with a varint.
#[inline]
pub(crate) fn uint(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number) << 3);
    varint(out, value);
}

/// Appends field `number` with some bytes.
#[inline]
pub(crate) fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends field `number` with text; what is no UTF-8 becomes U+FFFD.
pub(crate) fn text(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(_) => bytes(out, number, value),
        Err(_) => bytes(out, number, String::from_utf8_lossy(value).as_bytes()),
    }
}

/// Appends field `number` with the message that `fill` writes.
#[inline]
pub(crate) fn message(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    varint(out, u64::from(number) << 3 | 2);
    out.push(0);
    let start = out.len();
    fill(out);
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
    } else {
        lengthen(out, start, length);
    }
}

/// Makes room for a length of more than one byte.
#[cold]
fn lengthen(out: &mut Vec<u8>, start: usize, length: usize) {
    let mut prefix = Vec::with_capacity(10);
    varint(&mut prefix, length as u64);
    out.splice(start - 1..start, prefix);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Line;

    #[test]
    fn varints_of_every_length() {
        for (value, length) in [
            (0u64, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            ((1 << 21) - 1, 3),
            (1 << 21, 4),
            (1 << 62, 9),
            (1 << 63, 10),
            (u64::MAX, 10),
        ]
        .into_iter()
        .chain((0..64).flat_map(|bit| {
            [1 << bit, (1 << bit) - 1]
                .map(|value: u64| (value, value.max(1).ilog2() as usize / 7 + 1))
        })) {
            let (mut out, mut line) = (Vec::new(), Line::with_room(0));
            varint(&mut out, value);
            assert_eq!((out.len(), varint_bytes(value)), (length, length));
            assert_eq!(line.begin().varint(value).as_bytes(), out);
            let back = out
                .iter()
                .rev()
                .fold(0u64, |sum, byte| sum << 7 | u64::from(byte & 0x7f));
            assert_eq!(back, value);
        }
    }

    #[test]
    fn nested_messages_get_the_shortest_length() {
        for inner in [0, 1, 127, 128, 129, 16_383, 16_384] {
            let mut out = vec![0xff];
            message(&mut out, 1, |out| out.extend(std::iter::repeat_n(7, inner)));
            let mut expected = vec![0xff, 0x0a];
            varint(&mut expected, inner as u64);
            expected.extend(std::iter::repeat_n(7, inner));
            assert_eq!(out, expected);
        }
    }
}
