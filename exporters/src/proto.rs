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
        long_varint(out, value);
    }
}

/// A varint of three bytes or more.
#[inline]
fn long_varint(out: &mut Vec<u8>, value: u64) {
    let mut small = Small::new();
    small.varint(value);
    out.extend_from_slice(small.as_bytes());
}

/// A few fields, put together on the stack before they go to the output at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Small {
    bytes: [u8; Self::ROOM],
    used: usize,
}

impl Small {
    const ROOM: usize = 96;

    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; Self::ROOM],
            used: 0,
        }
    }

    /// The bytes so far.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// How many bytes there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Appends some bytes; there must be room.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.used..self.used + N].copy_from_slice(&bytes);
        self.used += N;
    }

    /// Appends some bytes; there must be room.
    #[inline]
    pub(crate) fn put_all(&mut self, bytes: &[u8]) {
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// Appends a varint; there must be room for ten bytes.
    #[inline]
    pub(crate) fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.put([value as u8]);
            return;
        }
        // All groups of seven bits move to their bytes in three steps: halves, quarters, eighths of 56 bits.
        let mut spread = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) << 4;
        spread = spread & 0x0000_3FFF_0000_3FFF | (spread & 0x0FFF_C000_0FFF_C000) << 2;
        spread = spread & 0x007F_007F_007F_007F | (spread & 0x3F80_3F80_3F80_3F80) << 1;
        let used = varint_bytes(value);
        if used <= 8 {
            let more = 0x8080_8080_8080_8080 & ((1u64 << (8 * (used - 1))) - 1);
            self.put((spread | more).to_le_bytes());
            self.used -= 8 - used;
        } else {
            self.put((spread | 0x8080_8080_8080_8080).to_le_bytes());
            let rest = value >> 56;
            if used == 9 {
                self.put([rest as u8]);
            } else {
                self.put([rest as u8 | 0x80, (rest >> 7) as u8]);
            }
        }
    }
}

/// Bytes that a varint takes.
#[inline]
pub(crate) fn varint_bytes(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
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
        ] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!((out.len(), varint_bytes(value)), (length, length));
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
