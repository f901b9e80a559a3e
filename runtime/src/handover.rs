//! The hand-overs of a lane and of a segment, each as a few lines over words that the caller owns: so that the loom
//! models run the very lines that production runs.
//!
//! | hand-over | gives | takes | what is promised |
//! |---|---|---|---|
//! | record | [`write`], [`publish`] | a reader's Acquire load of the head | whole records below the head (promise 2) |
//! | count | [`count`] | a stop's Acquire loads, `done` before `issued` | no completion without its issue (promise 5) |
//! | lane | [`vacate`] | [`claim`] | the new owner finds the cursors as the last one left them |
//! | segment, to be reused | [`retire`] | [`renew`] | no new word is seen without the new generation |
//! | segment, to a copier | [`retire`], [`renew`] | [`copy`] | a copy that was overtaken by a reuse is noticed and dropped |
//!
//! Progress: all are wait-free, allocate nothing and make no call; usable in a callback and in a signal handler.

use crate::sync::{Ordering, Word, fence};

/// Writes a record's words, not yet published. The lane's owner only.
#[inline(always)]
pub(crate) fn write(place: &[Word], words: &[u64]) {
    for (word, &value) in place.iter().zip(words) {
        // ORD(publish): Relaxed. Published by the Release store in `publish`.
        word.store(value, Ordering::Relaxed);
    }
}

/// Publishes everything up to `count` cells. The lane's owner only.
#[inline(always)]
pub(crate) fn publish(committed: &Word, count: u64) {
    // ORD(publish): Release. Pairs with the Acquire loads of readers (`ReadMap::acquire`, `Outstanding::scan`,
    // `copy`). Publishes every word of the record. Weaker: a reader could see a torn record (promise 2). Model:
    // `models::a_reader_sees_whole_records`.
    committed.store(count, Ordering::Release);
}

/// Adds to a counter, without read-modify-write. Its one writer only.
#[inline(always)]
pub(crate) fn count(counter: &Word, by: u64) {
    // ORD(count): Release. Pairs with the Acquire loads of stop, which reads `done` before `issued`: a completion that
    // is counted has its issue counted. Weaker: an issue could be missed, and a stop would call an incomplete session
    // complete. Model: `models::a_completion_that_is_counted_has_its_issue_counted`.
    let value = counter.load(Ordering::Relaxed).wrapping_add(by);
    counter.store(value, Ordering::Release);
}

/// Claims a vacant lane. One compare-exchange. False: somebody owns it.
#[inline]
pub(crate) fn claim(owner: &Word, thread: u64) -> bool {
    // ORD(owner): Acquire. Pairs with the Release in `vacate`: the new owner finds the cursors as the last one left
    // them, with its open segment. Model: `models::a_lane_is_handed_on_whole`.
    owner
        .compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// Gives a lane up. Its owner, or whoever knows that the owner is gone.
#[inline]
pub(crate) fn vacate(owner: &Word) {
    // ORD(owner): Release. Pairs with the Acquire in `claim`.
    owner.store(0, Ordering::Release);
}

/// Marks a segment as no longer what it was: its state word, with the next generation in it, then an empty head. The
/// segment's owner only, before it gives the segment away.
#[inline]
pub(crate) fn retire(state: &Word, committed: &Word, next: u64) {
    // ORD(generation): Relaxed, then a Release fence: a copier that reads the empty head also reads the generation, and
    // does not take the segment for one that held nothing. Pairs with the Acquire fence in `copy`.
    state.store(next, Ordering::Relaxed);
    fence(Ordering::Release);
    committed.store(0, Ordering::Relaxed);
}

/// Between taking a segment over and the first new word in it. The segment's new owner only.
#[inline]
pub(crate) fn renew() {
    // ORD(generation): Release fence. Pairs with the Acquire fence in `copy`: a copier that read one of the words that
    // follow also reads the generation that `retire` stored (which reached this thread through the free bit's Release
    // and Acquire, if another thread stored it). Weaker, or in the giver's thread only: a copy of mixed words could be
    // taken as sound. Model: `models::a_copy_of_a_reused_segment_is_noticed`.
    fence(Ordering::Release);
}

/// Copies what a segment has published, while it may be reused: the state word as it was, and what `body` made of the
/// number of committed cells. `None`: the segment was free, or was reused meanwhile; nothing of it may be used. `body`
/// reads the cells with relaxed loads.
///
/// Any thread, any process that maps the region.
#[inline]
pub(crate) fn copy<T>(
    state: &Word,
    committed: &Word,
    body: impl FnOnce(u64) -> T,
) -> Option<(u64, T)> {
    // ORD(claim): Acquire. Pairs with the Release store of the state word by whoever claimed or sealed the segment.
    let before = state.load(Ordering::Acquire);
    if before & 0xff == 0 {
        return None;
    }
    // ORD(publish): Acquire. Pairs with the Release store in `publish`.
    let copied = body(committed.load(Ordering::Acquire));
    // ORD(generation): Acquire fence. Pairs with the Release fences in `retire` and `renew`.
    fence(Ordering::Acquire);
    let after = state.load(Ordering::Relaxed);
    // Open may have become sealed meanwhile, which changes no word; kind, lane and generation tell a reuse.
    (before >> 8 == after >> 8).then_some((before, copied))
}
