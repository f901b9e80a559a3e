//! loom models of the hand-overs that have no module of their own: append/read, lane hand-over, recycle/copy.
//!
//! Each protocol is written here over words in a `Box`, in the steps of the code that it stands for (named at each
//! step): loom's atomics can't lie over mapped bytes. `gate`, `ring` and `bitmap` carry their own models.

use crate::sync::{Ordering, Word};
use loom::sync::Arc;
use loom::thread;

/// The words of a shrunken lane: a committed count, four cells of two words, an owner, and the writer's own count.
struct Small {
    committed: Word,
    cells: [Word; 8],
    owner: Word,
    count: loom::cell::UnsafeCell<u64>,
}

impl Small {
    fn new() -> Self {
        Self {
            committed: Word::new(0),
            cells: std::array::from_fn(|_| Word::new(0)),
            owner: Word::new(0),
            count: loom::cell::UnsafeCell::new(0),
        }
    }

    /// As `Lane::put`: words relaxed, then the release store.
    fn put(&self, value: u64) {
        let count = self.count.with(|count| unsafe { *count });
        self.cells[count as usize * 2].store(value, Ordering::Relaxed);
        self.cells[count as usize * 2 + 1].store(value, Ordering::Relaxed);
        self.count.with_mut(|own| unsafe { *own = count + 1 });
        self.committed.store(count + 1, Ordering::Release);
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
        let threads: Vec<_> = (1..=2)
            .map(|thread| {
                let lane = Arc::clone(&lane);
                thread::spawn(move || {
                    // As `Lane::claim` and `Lane::vacate`.
                    if lane
                        .owner
                        .compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                    {
                        lane.put(thread);
                        lane.owner.store(0, Ordering::Release);
                        1
                    } else {
                        0
                    }
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

/// A snapshot copies with relaxed loads, acquire-fences and re-reads the generation; a recycle bumps the generation,
/// then release-fences, before the first new word.
#[test]
fn a_copy_of_a_recycled_segment_is_noticed() {
    loom::model(|| {
        let words = Arc::new([Word::new(0), Word::new(7), Word::new(7)]);
        let recycler = Arc::clone(&words);
        let recycler = thread::spawn(move || {
            recycler[0].store(1, Ordering::Relaxed);
            crate::sync::fence(Ordering::Release);
            recycler[1].store(8, Ordering::Relaxed);
            recycler[2].store(8, Ordering::Relaxed);
        });
        let before = words[0].load(Ordering::Acquire);
        let copy = [
            words[1].load(Ordering::Relaxed),
            words[2].load(Ordering::Relaxed),
        ];
        crate::sync::fence(Ordering::Acquire);
        let after = words[0].load(Ordering::Relaxed);
        if before == 0 && after == 0 {
            assert_eq!(
                copy,
                [7, 7],
                "a copy of mixed generations was taken as sound"
            );
        }
        recycler.join().unwrap();
    });
}
