//! Text for the outputs: one escaper for every JSON string, integers without an allocation, times with exactly three
//! decimals.
//!
//! Everything appends to a `Vec<u8>` that the caller reuses; nothing here allocates once that vector has grown.

/// Two decimal digits for each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// What each byte of a JSON string needs: 0 nothing, 1 `\u00xx`, else the letter after the backslash. Bytes from 0x80
/// on are 2: part of UTF-8, checked apart.
const ESCAPES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte < 0x20 || byte == 0x7f {
            table[byte] = 1;
        } else if byte >= 0x80 {
            table[byte] = 2;
        }
        byte += 1;
    }
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table
};

/// Digits of a number, right-aligned in a small buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    bytes: [u8; 24],
    first: u8,
}

/// Writes the decimal digits of `value` so that they end before `end`; returns where they begin.
#[inline]
fn digits_before(bytes: &mut [u8; 24], end: usize, mut value: u64) -> usize {
    let mut at = end;
    // Four digits a step: the divisions depend on each other, their number is what counts.
    while value >= 10_000 {
        let four = (value % 10_000) as usize;
        value /= 10_000;
        at -= 4;
        bytes[at..at + 2].copy_from_slice(&PAIRS[four / 100]);
        bytes[at + 2..at + 4].copy_from_slice(&PAIRS[four % 100]);
    }
    let mut value = value as usize;
    if value >= 100 {
        at -= 2;
        bytes[at..at + 2].copy_from_slice(&PAIRS[value % 100]);
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        bytes[at..at + 2].copy_from_slice(&PAIRS[value]);
    } else {
        at -= 1;
        bytes[at] = b'0' + value as u8;
    }
    at
}

impl Digits {
    /// The decimal digits of `value`.
    #[inline]
    pub(crate) fn new(value: u64) -> Self {
        let mut bytes = [0u8; 24];
        let first = digits_before(&mut bytes, 24, value) as u8;
        Self { bytes, first }
    }

    /// `ns` as microseconds with exactly three decimals.
    #[inline]
    pub(crate) fn micros(ns: u64) -> Self {
        let mut bytes = [0u8; 24];
        let rest = (ns % 1000) as usize;
        bytes[20] = b'.';
        bytes[21] = b'0' + (rest / 100) as u8;
        bytes[22..24].copy_from_slice(&PAIRS[rest % 100]);
        let first = digits_before(&mut bytes, 20, ns / 1000) as u8;
        Self { bytes, first }
    }

    /// The text.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.first as usize..]
    }
}

/// Appends `value` in decimal.
#[inline]
pub(crate) fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(Digits::new(value).as_bytes());
}

/// Appends `value` in decimal.
#[inline]
pub(crate) fn push_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(out, value.unsigned_abs());
}

/// Appends `ns` as microseconds with exactly three decimals.
#[inline]
pub(crate) fn push_micros(out: &mut Vec<u8>, ns: u64) {
    out.extend_from_slice(Digits::micros(ns).as_bytes());
}

/// Appends `value` as `"0x..."`, a JSON string.
pub(crate) fn push_hex(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(b"\"0x");
    let digits = ((64 - value.leading_zeros()).div_ceil(4)).max(1);
    for at in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (at * 4) & 15) as usize]);
    }
    out.push(b'"');
}

/// Appends the bytes in hex, two digits each, as a JSON string.
pub(crate) fn push_hex_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        out.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
        out.push(b"0123456789abcdef"[usize::from(byte & 15)]);
    }
    out.push(b'"');
}

/// Appends `bytes` as a JSON string with its quotes: the one escaper of all outputs. Bytes that are no UTF-8 become
/// U+FFFD; who needs them keeps them beside (see [`is_utf8`]).
pub(crate) fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    push_escaped(out, bytes);
    out.push(b'"');
}

/// As [`push_string`], without the quotes.
pub(crate) fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.iter().all(|&byte| ESCAPES[byte as usize] == 0) {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match ESCAPES[byte as usize] {
                0 | 2 => out.push(byte),
                1 => {
                    out.extend_from_slice(b"\\u00");
                    out.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
                    out.push(b"0123456789abcdef"[usize::from(byte & 15)]);
                }
                letter => out.extend_from_slice(&[b'\\', letter]),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// True when the bytes are UTF-8.
pub(crate) fn is_utf8(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok()
}

/// Appends a finite number as JSON; leaves `null` for what JSON cannot say.
pub(crate) fn push_f64(out: &mut Vec<u8>, value: f64) {
    use std::io::Write;
    if !value.is_finite() {
        out.extend_from_slice(b"null");
    } else if value == 0.0 {
        out.push(b'0');
    } else {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_of_every_length() {
        let mut value = 1u64;
        loop {
            for near in [value - 1, value, value + 1] {
                assert_eq!(text(|out| push_u64(out, near)), near.to_string());
                assert_eq!(
                    text(|out| push_micros(out, near)),
                    format!("{}.{:03}", near / 1000, near % 1000)
                );
            }
            match value.checked_mul(10) {
                Some(next) => value = next,
                None => break,
            }
        }
        assert_eq!(text(|out| push_u64(out, u64::MAX)), u64::MAX.to_string());
        assert_eq!(
            text(|out| push_micros(out, u64::MAX)),
            "18446744073709551.615"
        );
        assert_eq!(text(|out| push_i64(out, i64::MIN)), i64::MIN.to_string());
        assert_eq!(text(|out| push_hex(out, 0)), "\"0x0\"");
        assert_eq!(
            text(|out| push_hex(out, u64::MAX)),
            "\"0xffffffffffffffff\""
        );
    }

    #[test]
    fn case_b21_one_escaper_and_a_strict_reader_gives_the_string_back() {
        let hard = "{\"device\": \"cpu\"}\\ \n\t\u{1}\u{7f}\u{2028}</script>\r\u{8}é";
        let read: String =
            serde_json::from_str(&text(|out| push_string(out, hard.as_bytes()))).unwrap();
        assert_eq!(read, hard);
        let read: String =
            serde_json::from_str(&text(|out| push_string(out, b"a\xff\xfeb\xc3"))).unwrap();
        assert_eq!(read, "a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn case_b23_what_json_cannot_say_is_null() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(text(|out| push_f64(out, value)), "null");
        }
        assert_eq!(text(|out| push_f64(out, -0.0)), "0");
        assert_eq!(text(|out| push_f64(out, 2.048)), "2.048");
    }
}
