//! One 64-bit hash for strings, headers and segments: not cryptographic, it tells damage and names apart.
//!
//! Multiply-and-fold over 8-byte words, the tail padded with zeros and the length mixed in. Allocates nothing, can be
//! used in a callback.

const K: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn fold(state: u64, word: u64) -> u64 {
    let wide = u128::from(state ^ word) * u128::from(K | 1);
    (wide as u64) ^ ((wide >> 64) as u64) ^ state.rotate_left(23)
}

/// Hash of some bytes; never 0.
#[inline]
pub fn bytes(data: &[u8]) -> u64 {
    let mut state = K ^ data.len() as u64;
    let (chunks, tail) = data.as_chunks::<8>();
    for chunk in chunks {
        state = fold(state, u64::from_le_bytes(*chunk));
    }
    if !tail.is_empty() {
        let mut last = [0u8; 8];
        last[..tail.len()].copy_from_slice(tail);
        state = fold(state, u64::from_le_bytes(last));
    }
    fold(state, K.rotate_left(32)).max(1)
}

/// Hash of some words; never 0. The same as [`bytes`] over their little-endian bytes.
#[inline]
pub fn words(data: impl ExactSizeIterator<Item = u64>) -> u64 {
    let mut state = K ^ (data.len() as u64 * 8);
    for word in data {
        state = fold(state, word);
    }
    fold(state, K.rotate_left(32)).max(1)
}

/// A good spread of one word, for hash tables.
#[inline]
pub fn word(value: u64) -> u64 {
    fold(K, value)
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_and_bytes_agree_and_length_counts() {
        let words = [1u64, 2, 3];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(super::words(words.into_iter()), super::bytes(&bytes));
        assert_ne!(super::bytes(b"a"), super::bytes(b"a\0"));
        assert_ne!(super::bytes(b""), 0);
    }
}
