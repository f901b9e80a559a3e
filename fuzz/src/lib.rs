//! What the fuzz targets share: how an input becomes a region, and what an export of it must keep.
//!
//! A mutated file hardly ever gets past a checksum, so an input says what to change in a region that is sound, or is a
//! region with its zeros left out, and the checksums are made anew. The first byte says how:
//!
//! | bits | meaning |
//! |---|---|
//! | 0..2 | 0: the rest is a packed region (see [`pack`]); 1 and 2: changes to a region with a bit of everything; 3: to one that was never closed |
//! | 2 | leave the checksums as they are |
//! | 3 | export session 1 only |
//! | 4 | hold 7 records at most, and compare with an export that holds all |
//! | 5 | a second, sound process beside it |
//! | 6 | with bit 4: on three threads |
//! | 7 | also in parts: a third of the whole each, or as small as what each part repeats allows |
//!
//! A change is 12 bytes: which word (u32), what to do (u8), unused (u8 × 3 become the low half of) the value (u32).

pub mod check;
pub mod pack;
pub mod sound;

use std::path::Path;
use std::sync::OnceLock;

use strandline::Trace;
use strandline::hash;
use strandline::limits::{
    CELL_BYTES, HEADER_BYTES, SEGMENT_BYTES_MAX, SEGMENT_ENTRY_BYTES, is_segment_bytes,
};

/// Bytes of one change.
const CHANGE_BYTES: usize = 12;

/// A fuzz input, taken apart.
#[derive(Debug)]
pub struct Input {
    /// The region's bytes.
    pub region: Vec<u8>,
    /// Only this session.
    pub session: Option<u64>,
    /// Compare with an export in small stretches.
    pub small: bool,
    /// A second process.
    pub several: bool,
    /// Threads of that export.
    pub threads: usize,
    /// Also in parts.
    pub parts: bool,
}

impl Input {
    /// Takes an input apart; `None` when it is empty.
    pub fn new(data: &[u8]) -> Option<Self> {
        let (&how, rest) = data.split_first()?;
        let mut region = match how & 3 {
            0 => pack::unpack(rest),
            3 => changed(sound::unfinished(), rest),
            _ => changed(sound::everything(), rest),
        };
        if how & 4 == 0 {
            mend_checksums(&mut region);
        }
        Some(Self {
            region,
            session: (how & 8 != 0).then_some(1),
            small: how & 16 != 0,
            several: how & 32 != 0,
            threads: if how & 64 != 0 { 3 } else { 1 },
            parts: how & 128 != 0,
        })
    }

    /// The processes to read; none when the region is refused as a whole, which names the file and an offset.
    pub fn traces(&self) -> Vec<Trace> {
        let trace = match Trace::from_bytes(&self.region, Path::new("fuzz.slt")) {
            Ok(trace) => trace,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("fuzz.slt"), "an error names the file: {text}");
                assert!(
                    text.contains("offset") || text.contains("bytes"),
                    "an error says where: {text}"
                );
                return Vec::new();
            }
        };
        for damage in trace.damage() {
            assert!(damage.to_string().starts_with("offset "), "{damage}");
        }
        let mut traces = vec![trace];
        if self.several {
            traces.push(
                Trace::from_bytes(sound::other(), Path::new("other.slt")).expect("a sound region"),
            );
        }
        traces
    }
}

/// A value of a change: what it says, or one of the numbers that arithmetic trips over.
fn value(what: u8, said: u64, before: u64) -> u64 {
    match what % 12 {
        0 => 0,
        1 => u64::MAX,
        2 => i64::MAX as u64,
        3 => 1 << 63,
        4 => before ^ 1 << (said % 64),
        5 => before.wrapping_add(said as i32 as i64 as u64),
        6 => said,
        7 => said << 32 | before & 0xffff_ffff,
        8 => before & !0xffff_ffff | said & 0xffff_ffff,
        9 => before & !0xff | said & 0xff,
        10 => said.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        _ => 1 << (said % 64),
    }
}

/// The words of a region that mean something: not the empty rest of a page.
fn places(sound: &[u8]) -> &'static [u32] {
    static EVERYTHING: OnceLock<Vec<u32>> = OnceLock::new();
    static UNFINISHED: OnceLock<Vec<u32>> = OnceLock::new();
    let list = if sound.as_ptr() == sound::everything().as_ptr() {
        &EVERYTHING
    } else {
        &UNFINISHED
    };
    list.get_or_init(|| {
        let words = sound.as_chunks::<8>().0;
        let used = |at: usize| {
            words[at / 8 * 8..]
                .iter()
                .take(8)
                .any(|word| *word != [0; 8])
        };
        (0..words.len())
            .filter(|&at| used(at))
            .map(|at| at as u32)
            .collect()
    })
}

fn changed(sound: &'static [u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    let places = places(sound);
    let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    for change in changes.chunks_exact(CHANGE_BYTES).take(256) {
        let at = places[number(change) as usize % places.len()] as usize * 8;
        let word = &mut bytes[at..at + 8];
        let before = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        let said = u64::from(number(&change[8..])) | u64::from(number(&change[4..]) >> 8) << 32;
        let said = if change[4] & 0x80 == 0 {
            said & 0xffff_ffff
        } else {
            said
        };
        word.copy_from_slice(&value(change[4] & 0x7f, said, before).to_le_bytes());
    }
    bytes
}

/// Makes the header's checksum right, and those of the segments as far as their entries can be found.
pub fn mend_checksums(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).map_or(0, |eight| {
            u64::from_le_bytes(eight.try_into().expect("8 bytes"))
        })
    };
    let sum = hash::bytes(&bytes[..248]) ^ hash::bytes(&bytes[1024..HEADER_BYTES]).rotate_left(1);
    bytes[248..256].copy_from_slice(&sum.to_le_bytes());
    let (table, count, segments) = (
        number(bytes, 56),
        number(bytes, 64) & 0xffff_ffff,
        number(bytes, 72),
    );
    // A size that no reader takes is as good as any.
    let segment_bytes = Some(number(bytes, 80) & 0xffff_ffff)
        .filter(|&size| is_segment_bytes(size))
        .unwrap_or(SEGMENT_BYTES_MAX as u64);
    for segment in 0..count.min(64) {
        let entry = table.saturating_add(segment * SEGMENT_ENTRY_BYTES as u64) as usize;
        if entry.saturating_add(SEGMENT_ENTRY_BYTES) > bytes.len() {
            break;
        }
        if number(bytes, entry + 48) == 0 {
            continue;
        }
        let cells = number(bytes, entry + 56).min(segment_bytes / CELL_BYTES as u64);
        let covered = cells as usize * CELL_BYTES;
        let start = segments.saturating_add(segment * segment_bytes) as usize;
        if let Some(cells) = bytes.get(start..start.saturating_add(covered)) {
            let words = cells.as_chunks::<8>().0;
            let sum = hash::words(words.iter().map(|eight| u64::from_le_bytes(*eight)));
            bytes[entry + 48..entry + 56].copy_from_slice(&sum.to_le_bytes());
        }
    }
}
