//! Memory of large tables: words that grow piece by piece and never move.
//!
//! Each piece is an anonymous mapping. What a table has is therefore what it uses, without copies while it grows, and is
//! given back when the table goes, whatever the allocator of the host does with what is freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;

/// Words of one piece: 64 KiB.
const PIECE_WORDS: usize = 8192;
const WORD_BYTES: usize = 8;

/// What tables may have together, bytes. Once they asked for more, they are of no use.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicU64>);

/// No table asks for this much at once: what is left then is that there was too little.
const SPENT: u64 = u64::MAX;

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes.min(SPENT - 1))))
    }

    /// Takes so many bytes; false when there are no more, from then on always.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        // Relaxed: only the number counts. Tables pass from thread to thread by locks and joins.
        let taken = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left != SPENT).then(|| left.checked_sub(bytes).unwrap_or(SPENT))
        });
        taken.is_ok_and(|left| left >= bytes)
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        // Relaxed: as in `take`.
        match self.0.load(Ordering::Relaxed) {
            SPENT => 0,
            left => left,
        }
    }

    /// True when tables asked for more than there was.
    pub(crate) fn is_spent(&self) -> bool {
        // Relaxed: as in `take`.
        self.0.load(Ordering::Relaxed) == SPENT
    }
}

/// Words, all zero when they are made.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pieces: Vec<MmapMut>,
    len: usize,
}

impl Words {
    /// Makes `more` words behind those that are there, a power of two up to the words of a piece and always the same; false when
    /// the budget or the system has no room for them.
    pub(crate) fn grow(&mut self, more: usize, budget: &Budget) -> bool {
        if !budget.take((more * WORD_BYTES) as u64) {
            return false;
        }
        if self.len == self.pieces.len() * PIECE_WORDS {
            match MmapMut::map_anon(PIECE_WORDS * WORD_BYTES) {
                Ok(piece) => self.pieces.push(piece),
                Err(_) => return budget.take(u64::MAX),
            }
        }
        self.len += more;
        true
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory that they have, bytes: what of a piece was never touched is none.
    pub(crate) fn bytes(&self) -> u64 {
        (self.len * WORD_BYTES) as u64
    }

    #[inline]
    fn piece(&self, at: usize) -> &[[u8; WORD_BYTES]] {
        self.pieces[at / PIECE_WORDS].as_chunks().0
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.piece(at)[at % PIECE_WORDS])
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, word: u64) {
        *self.word_mut(at) = word.to_ne_bytes();
    }

    /// A word's bytes.
    #[inline]
    pub(crate) fn word_mut(&mut self, at: usize) -> &mut [u8; WORD_BYTES] {
        let piece = &mut self.pieces[at / PIECE_WORDS];
        &mut piece.as_chunks_mut().0[at % PIECE_WORDS]
    }

    /// `N` words, as bytes; all in one piece.
    #[inline]
    pub(crate) fn bytes_of<const N: usize>(&self, at: usize) -> &[[u8; WORD_BYTES]; N] {
        let from = at % PIECE_WORDS;
        match self.piece(at)[from..from + N].first_chunk() {
            Some(words) => words,
            None => &[[0; WORD_BYTES]; N],
        }
    }

    /// The bytes of a word and of those behind it in its piece.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, at: usize) -> &mut [u8] {
        &mut self.pieces[at / PIECE_WORDS][at % PIECE_WORDS * WORD_BYTES..]
    }

    /// Forgets them all, and keeps the room.
    pub(crate) fn clear(&mut self) {
        for piece in &mut self.pieces {
            piece.fill(0);
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_was_set_and_stop_where_the_budget_ends() {
        let piece = (PIECE_WORDS * WORD_BYTES) as u64;
        let budget = Budget::new(2 * piece);
        let mut words = Words::default();
        for at in (0..2 * PIECE_WORDS).step_by(16) {
            assert!(words.grow(16, &budget));
            words.set(at + 5, at as u64);
        }
        assert_eq!((words.len(), words.bytes()), (2 * PIECE_WORDS, 2 * piece));
        for at in (0..2 * PIECE_WORDS).step_by(16) {
            assert_eq!((words.get(at + 5), words.get(at + 6)), (at as u64, 0));
        }
        assert!(!budget.is_spent());
        assert!(!words.grow(16, &budget) && budget.is_spent());
        assert!(!budget.take(0), "for good");
    }
}
