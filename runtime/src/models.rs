//! loom models of the hand-overs in `handover`: append/read, lane hand-over, reuse against copy. `gate`, `ring` and
//! `bitmap` carry their own.
//!
//! The models run production's own lines over words in a `Box`, shrunk so that full, wrap and contention are reached:
//! loom's atomics can't lie over mapped bytes.

use crate::bitmap::FreeBits;
use crate::handover;
use crate::sync::{Ordering, Word};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The words of a shrunken lane: a committed count, four cells of two words, an owner, and the writer's own count.
struct Small {
    committed: Word,
    cells: [Word; 8],
    owner: Word,
    count: UnsafeCell<u64>,
}

impl Small {
    fn new() -> Self {
        Self {
            committed: Word::new(0),
            cells: std::array::from_fn(|_| Word::new(0)),
            owner: Word::new(0),
            count: UnsafeCell::new(0),
        }
    }

    /// As `Lane::put`.
    fn put(&self, value: u64) {
        // SAFETY: only the owner comes here; loom checks it.
        let count = self.count.with(|count| unsafe { *count });
        handover::write(&self.cells[count as usize * 2..][..2], &[value; 2]);
        // SAFETY: as above.
        self.count.with_mut(|own| unsafe { *own = count + 1 });
        handover::publish(&self.committed, count + 1);
    }
}

#[test]
fn a_reader_sees_whole_records() {
    loom::model(|| {
        let lane = Arc::new(Small::new());
        let writer = Arc::clone(&lane);
        let writer = thread::spawn(move || {
            writer.put(5);
            writer.put(6);
        });
        let committed = lane.committed.load(Ordering::Acquire);
        for cell in 0..committed as usize {
            let words = [0, 1].map(|word| lane.cells[cell * 2 + word].load(Ordering::Relaxed));
            assert_eq!(words, [5 + cell as u64; 2], "a torn record");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_lane_is_handed_on_whole() {
    loom::model(|| {
        let lane = Arc::new(Small::new());
        let threads: Vec<_> = (1..=3)
            .map(|thread| {
                let lane = Arc::clone(&lane);
                thread::spawn(move || {
                    let claimed = handover::claim(&lane.owner, thread);
                    if claimed {
                        lane.put(thread);
                        handover::vacate(&lane.owner);
                    }
                    u64::from(claimed)
                })
            })
            .collect();
        let puts: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!(
            lane.committed.load(Ordering::Acquire),
            puts,
            "an append of one owner was overwritten"
        );
    });
}

#[test]
fn a_completion_that_is_counted_has_its_issue_counted() {
    // Without a bound loom 0.7.3 prunes the very schedule that fails when the store is weakened (seen); with one it
    // looks.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(model.preemption_bound.unwrap_or(3));
    model.check(|| {
        // issued of one lane, done of another, and the SDK that carries the token between them.
        let words = Arc::new([Word::new(0), Word::new(0), Word::new(0)]);
        let stop = Arc::clone(&words);
        let stop = thread::spawn(move || {
            let [issued, done, _] = &*stop;
            let seen = done.load(Ordering::Acquire);
            assert!(
                seen <= issued.load(Ordering::Acquire),
                "a completion without its issue"
            );
        });
        let completer = Arc::clone(&words);
        let completer = thread::spawn(move || {
            let [_, done, sdk] = &*completer;
            if sdk.load(Ordering::Acquire) == 1 {
                handover::count(done, 1);
            }
        });
        let [issued, _, sdk] = &*words;
        handover::count(issued, 1);
        sdk.store(1, Ordering::Release);
        stop.join().unwrap();
        completer.join().unwrap();
    });
}

/// A state word as production packs it: state in the low byte, generation in the high half.
const fn state(state: u64, generation: u64) -> u64 {
    state | generation << 32
}

/// One segment of one cell of two words, its entry, and its free bit.
struct Reused {
    state: Word,
    committed: Word,
    cells: [Word; 2],
    free: [Word; 3],
}

impl Reused {
    fn sealed_with(value: u64) -> Self {
        Self {
            state: Word::new(state(2, 0)),
            committed: Word::new(1),
            cells: [Word::new(value), Word::new(value)],
            free: [Word::new(0), Word::new(0), Word::new(0)],
        }
    }

    fn bits(&self) -> FreeBits<'_> {
        FreeBits {
            words: &self.free[..1],
            free: &self.free[1],
            hint: &self.free[2],
        }
    }

    /// As `Region::claim` and an append.
    fn refill(&self, value: u64) {
        handover::renew();
        self.committed.store(0, Ordering::Relaxed);
        self.state.store(state(1, 1), Ordering::Release);
        handover::write(&self.cells, &[value; 2]);
        handover::publish(&self.committed, 1);
    }

    fn check_copy(&self) {
        let copied = handover::copy(&self.state, &self.committed, |committed| {
            let cells = [0, 1].map(|word| self.cells[word].load(Ordering::Relaxed));
            (committed, cells)
        });
        match copied {
            None => {}
            Some((before, (committed, cells))) if before == state(2, 0) => {
                assert_eq!(
                    (committed, cells),
                    (1, [7, 7]),
                    "a copy of mixed words was taken as sound"
                );
            }
            Some((_, (committed, cells))) => {
                assert!(
                    committed == 0 || cells == [8, 8],
                    "a copy of mixed words was taken as sound"
                );
            }
        }
    }
}

/// The lane reuses its own oldest segment (flight mode).
#[test]
fn a_copy_of_a_reused_segment_is_noticed() {
    loom::model(|| {
        let segment = Arc::new(Reused::sealed_with(7));
        let lane = Arc::clone(&segment);
        let lane = thread::spawn(move || {
            handover::retire(&lane.state, &lane.committed, state(0, 1));
            lane.refill(8);
        });
        segment.check_copy();
        lane.join().unwrap();
    });
}

/// One thread frees the segment, another claims it by its free bit.
#[test]
fn a_copy_of_a_segment_that_changed_hands_is_noticed() {
    loom::model(|| {
        let segment = Arc::new(Reused::sealed_with(7));
        let releaser = Arc::clone(&segment);
        let releaser = thread::spawn(move || {
            handover::retire(&releaser.state, &releaser.committed, state(0, 1));
            releaser.bits().give(&[0]);
        });
        let claimer = Arc::clone(&segment);
        let claimer = thread::spawn(move || {
            if claimer.bits().claim().is_some() {
                claimer.refill(8);
            }
        });
        segment.check_copy();
        releaser.join().unwrap();
        claimer.join().unwrap();
    });
}
