//! Regions with their zeros left out: what the corpus is made of. A small real region is some kilobytes that way.
//!
//! The packed form is a list of runs: zero words (u16), other words (u16), those other words.

/// Largest region that is unpacked, bytes.
const BYTES_MAX: usize = 1 << 20;

/// Packs a region.
pub fn pack(region: &[u8]) -> Vec<u8> {
    let words = region.as_chunks::<8>().0;
    let mut out = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let zeros = words[at..]
            .iter()
            .take(0xffff)
            .take_while(|word| **word == [0; 8])
            .count();
        at += zeros;
        let others = words[at..]
            .iter()
            .take(0xffff)
            .take_while(|word| **word != [0; 8])
            .count();
        out.extend_from_slice(&(zeros as u16).to_le_bytes());
        out.extend_from_slice(&(others as u16).to_le_bytes());
        out.extend_from_slice(words[at..at + others].as_flattened());
        at += others;
    }
    out
}

/// The region that was packed; of other bytes, something.
pub fn unpack(mut packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((head, rest)) = packed.split_at_checked(4) {
        let zeros = usize::from(u16::from_le_bytes([head[0], head[1]])) * 8;
        let others = (usize::from(u16::from_le_bytes([head[2], head[3]])) * 8).min(rest.len());
        if out.len() + zeros + others > BYTES_MAX {
            break;
        }
        out.resize(out.len() + zeros, 0);
        out.extend_from_slice(&rest[..others]);
        packed = &rest[others..];
    }
    out
}
