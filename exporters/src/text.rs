//! Text for the outputs: one escaper for every JSON string, integers without an allocation, times with exactly three
//! decimals.
//!
//! Everything appends to a `Vec<u8>` that the caller reuses; nothing here allocates once that vector has grown.

use crate::proto::{varint_end, varint_start};

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
fn digits_before(bytes: &mut [u8], end: usize, mut value: u64) -> usize {
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

/// `.` and three decimal digits for each number below 1000.
const DECIMALS: [[u8; 4]; 1000] = {
    let mut decimals = [[b'.'; 4]; 1000];
    let mut value = 0;
    while value < 1000 {
        decimals[value][1] = b'0' + (value / 100) as u8;
        decimals[value][2] = PAIRS[value % 100][0];
        decimals[value][3] = PAIRS[value % 100][1];
        value += 1;
    }
    decimals
};

/// One more than the highest number of eight digits.
const EIGHT: u64 = 100_000_000;

/// The eight digits of a number below [`EIGHT`], the first one in the lowest byte, as numbers 0 to 9: all are made at
/// once, halves, quarters and eighths in lanes of one word.
#[inline]
fn eight_digits(value: u64) -> u64 {
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    // In each 32 bits: hundreds below, the rest above. 10486 / 2^20 is a hundredth, exact below 10,000.
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | (halves - hundreds * 100) << 16;
    // In each 16 bits: tens below, the rest above. 103 / 2^10 is a tenth, exact below 100.
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (quarters - tens * 10) << 8
}

/// What turns eight numbers 0 to 9 into digits.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Text that is being put together: events are written where they stay. A few small stores that are read back at once, as
/// copying from a buffer of their own does, cost more than the digits themselves.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Behind a text it is longer than what is used, by [`Self::ROOM`]: an event begins with a text.
    bytes: Vec<u8>,
    used: usize,
}

impl Line {
    /// More than keys and numbers take between two texts.
    const ROOM: usize = 512;
    /// Bytes that [`Self::again`] copies at most.
    const AGAIN: usize = 24;

    /// With room for so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            used: 0,
        }
    }

    /// Begins another text.
    #[inline]
    pub(crate) fn begin(&mut self) -> &mut Self {
        self.used = 0;
        self.text(b"")
    }

    /// The bytes so far.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// The bytes so far as a vector. What it is when it comes back does not matter to the text that begins then.
    pub(crate) fn finish(&mut self) -> &mut Vec<u8> {
        self.bytes.truncate(self.used);
        self.used = 0;
        &mut self.bytes
    }

    /// Appends what `fill` appends to a vector. Only a text can come next.
    pub(crate) fn by_vec(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.truncate(self.used);
        fill(&mut self.bytes);
        self.used = self.bytes.len();
    }

    /// Appends a text of any length.
    #[inline]
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        let end = self.used + text.len();
        if self.bytes.len() < end + Self::ROOM {
            self.grow(end);
        }
        self.bytes[self.used..end].copy_from_slice(text);
        self.used = end;
        self
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(end + 2 * Self::ROOM, 0);
    }

    /// Appends a few bytes.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: &[u8; N]) -> &mut Self {
        self.bytes[self.used..][..N].copy_from_slice(bytes);
        self.used += N;
        self
    }

    /// Appends the first `count` of eight bytes, the first one lowest.
    #[inline(always)]
    fn put_some(&mut self, bytes: u64, count: usize) {
        self.bytes[self.used..][..8].copy_from_slice(&bytes.to_le_bytes());
        self.used += count;
    }

    /// Appends a number below [`EIGHT`] in decimal.
    #[inline(always)]
    fn short_number(&mut self, value: u64) {
        let digits = eight_digits(value);
        // At least the last digit is written.
        let zeros = (digits | 1 << 56).trailing_zeros() & !7;
        self.put_some((digits | ZEROS) >> zeros, 8 - zeros as usize / 8);
    }

    /// Appends `value` in decimal.
    #[inline]
    pub(crate) fn number(&mut self, value: u64) -> &mut Self {
        if value < EIGHT {
            self.short_number(value);
        } else {
            self.long_number(value);
        }
        self
    }

    fn long_number(&mut self, value: u64) {
        self.number(value / EIGHT);
        self.put_some(eight_digits(value % EIGHT) | ZEROS, 8);
    }

    /// Appends `ns` as microseconds with exactly three decimals.
    #[inline]
    pub(crate) fn micros(&mut self, ns: u64) -> &mut Self {
        self.number(ns / 1000).put(&DECIMALS[(ns % 1000) as usize])
    }

    /// Appends a varint.
    #[inline(always)]
    pub(crate) fn varint(&mut self, value: u64) -> &mut Self {
        if value < 0x80 {
            return self.put(&[value as u8]);
        }
        let (bytes, count) = varint_start(value);
        self.put_some(bytes, count.min(8));
        if count > 8 {
            self.put_some(varint_end(value), count - 8);
        }
        self
    }

    /// Appends `[x,y,z]`.
    #[inline]
    pub(crate) fn triple(&mut self, value: [u32; 3]) -> &mut Self {
        self.put(b"[").number(value[0].into()).put(b",");
        self.number(value[1].into()).put(b",");
        self.number(value[2].into()).put(b"]")
    }

    /// Where the next byte goes.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.used
    }

    /// Appends what lies in `from..to`, a number, once more.
    #[inline]
    pub(crate) fn again(&mut self, (from, to): (usize, usize)) -> &mut Self {
        let mut copy = [0; Self::AGAIN];
        copy.copy_from_slice(&self.bytes[from..][..Self::AGAIN]);
        self.bytes[self.used..][..Self::AGAIN].copy_from_slice(&copy);
        self.used += to - from;
        self
    }
}

/// Writes moments as microseconds with three decimals. Moments that follow each other begin with the same digits, which
/// are made once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// Microseconds by [`EIGHT`], and their digits.
    above: u64,
    digits: [u8; 16],
    count: usize,
}

impl Moments {
    /// Appends the moment `ns`.
    #[inline]
    pub(crate) fn put(&mut self, line: &mut Line, ns: u64) {
        let (micros, rest) = (ns / 1000, (ns % 1000) as usize);
        let (above, below) = (micros / EIGHT, micros % EIGHT);
        if above == 0 {
            line.short_number(below);
        } else {
            if above != self.above {
                self.find(above);
            }
            line.put(&self.digits);
            line.used -= self.digits.len() - self.count;
            line.put_some(eight_digits(below) | ZEROS, 8);
        }
        line.put(&DECIMALS[rest]);
    }

    #[cold]
    fn find(&mut self, above: u64) {
        let digits = Digits::new(above);
        let digits = digits.as_bytes();
        (self.above, self.count) = (above, digits.len());
        self.digits[..digits.len()].copy_from_slice(digits);
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
    fn lines_hold_numbers_and_texts_of_every_length() {
        let (mut line, mut moments) = (Line::with_room(0), Moments::default());
        line.begin();
        let mut expected = String::new();
        let mut value = 1u64;
        loop {
            for near in [value - 1, value, value + 1] {
                let before = line.place();
                line.number(near);
                let number = (before, line.place());
                line.put(b":")
                    .micros(near)
                    .put(b",")
                    .again(number)
                    .put(b" ");
                moments.put(&mut line, near);
                let micros = format!("{}.{:03}", near / 1000, near % 1000);
                expected += &format!("{near}:{micros},{near} {micros}");
                line.text(b"");
            }
            match value.checked_mul(10) {
                Some(next) => value = next,
                None => break,
            }
        }
        let long = "x".repeat(70_000);
        line.text(long.as_bytes()).triple([0, u32::MAX, 10]);
        line.micros(u64::MAX).number(u64::MAX);
        expected += &format!("{long}[0,{},10]18446744073709551.615{}", u32::MAX, u64::MAX);
        assert!(line.as_bytes() == expected.as_bytes());
        line.begin().put(b"!");
        line.by_vec(|out| out.extend_from_slice(b"vec"));
        line.text(b"").put(b"?");
        assert_eq!(line.as_bytes(), b"!vec?");
        assert_eq!(line.finish(), b"!vec?");
        assert_eq!(line.begin().number(1).as_bytes(), b"1");
    }

    #[test]
    fn eight_digits_are_those_of_the_number() {
        let (mut line, mut value) = (Line::with_room(0), 0);
        while value < EIGHT {
            line.begin().number(value);
            assert_eq!(line.as_bytes(), value.to_string().as_bytes());
            // All of the lower four digits, and many of the upper four with them.
            value += if value < 20_000 { 1 } else { 9_973 };
        }
    }

    #[test]
    fn moments_of_any_order() {
        let (mut line, mut moments) = (Line::with_room(0), Moments::default());
        let mut random = 1u64;
        for _ in 0..10_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let ns = random >> (random % 64);
            line.begin();
            moments.put(&mut line, ns);
            assert_eq!(
                line.as_bytes(),
                format!("{}.{:03}", ns / 1000, ns % 1000).as_bytes()
            );
        }
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
