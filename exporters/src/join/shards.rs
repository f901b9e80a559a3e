//! Tables that several threads fill at once.

use std::sync::{Arc, Mutex, PoisonError};

use super::launches::LaunchTable;
use super::pages::{GROUP_IDS, GROUPS, Ids, Pages};
use super::tally::Note;
use super::words::Budget;

/// Tables that are filled together: page `n` lies in table `n % SHARDS`.
const SHARDS: u64 = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 6;
/// Tally that a thread gathers for a table before it takes the table's lock.
const GATHERED: usize = 256;

/// The ids of dispatches that are drawn.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// Page `n` lies in `ids[n % ids.len()]`, a power of two.
    ids: Vec<Ids>,
}

impl Drawn {
    pub(super) fn of(ids: Vec<Ids>) -> Self {
        Self { ids }
    }

    #[inline]
    fn share(&self, group: u64) -> usize {
        (group / GROUPS) as usize & (self.ids.len() - 1)
    }

    /// True when the id was added.
    #[inline]
    pub(crate) fn contains(&self, id: u64) -> bool {
        self.ids[self.share(id / GROUP_IDS)].contains(id)
    }

    /// Memory that it has, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.ids.iter().map(Ids::bytes).sum()
    }
}

/// The table of launches and the set of dispatches, filled by several threads at once. Each of them sees ids from
/// anywhere, so a table for each thread would be almost the whole one, that many times: pages are shared out instead,
/// and each thread gathers some notes of a share before it takes the lock. Nothing is put together afterwards: the shares
/// are the table.
#[derive(Debug)]
pub(crate) struct Shards {
    counted: bool,
    budget: Budget,
    shards: Vec<Mutex<(Pages, Ids)>>,
}

impl Shards {
    pub(crate) fn new(counted: bool, budget: &Budget) -> Self {
        let mut shards = Self {
            counted,
            budget: budget.clone(),
            shards: Vec::new(),
        };
        shards.shards = (0..SHARDS).map(|_| Mutex::new(shards.shard())).collect();
        shards
    }

    /// Takes the tables. Call when all threads are done.
    pub(crate) fn take(&self) -> (LaunchTable, Drawn) {
        let shards = self.shards.iter().map(|shard| {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *shard, self.shard())
        });
        let (pages, ids) = shards.unzip();
        (LaunchTable::of(pages), Drawn { ids })
    }

    /// An empty share.
    fn shard(&self) -> (Pages, Ids) {
        (
            Pages::new(self.counted, SHARD_BITS, self.budget.clone()),
            Ids::new(SHARD_BITS, self.budget.clone()),
        )
    }
}

/// One thread's way to the tables.
#[derive(Debug)]
pub(crate) struct Feeder {
    shards: Arc<Shards>,
    gathered: Vec<Vec<Note>>,
}

impl Feeder {
    pub(crate) fn new(shards: Arc<Shards>) -> Self {
        Self {
            shards,
            gathered: (0..SHARDS).map(|_| Vec::new()).collect(),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, note: Note) {
        let shard = (note.group() / GROUPS % SHARDS) as usize;
        self.gathered[shard].push(note);
        if self.gathered[shard].len() >= GATHERED {
            self.give(shard);
        }
    }

    fn give(&mut self, shard: usize) {
        let gathered = self.gathered[shard].drain(..);
        let lock = self.shards.shards[shard].lock();
        let (launches, drawn) = &mut *lock.unwrap_or_else(PoisonError::into_inner);
        if self.shards.budget.is_spent() {
            launches.give_up();
            drawn.give_up();
            return;
        }
        for note in gathered {
            match note {
                Note::Drawn(group, bits) => _ = drawn.insert_of(group, bits),
                other => other.add_to(launches),
            }
        }
    }

    /// Gives what is left.
    pub(super) fn finish(&mut self) {
        for shard in 0..self.gathered.len() {
            self.give(shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::numbering;
    use super::super::tally::Tally;
    use super::*;
    use std::collections::HashSet;

    fn numbers_of(table: &mut LaunchTable, id: u64) -> Vec<u64> {
        let (first, count) = table.numbers(id);
        let numbers = (0..u64::from(count)).map(|at| first + at * numbering::step(first));
        numbers.collect()
    }

    #[test]
    fn case_b16_id_zero_joins_nothing_and_an_ancestor_helps_only_when_it_is_recorded() {
        let mut tally = Tally::own(false, &Budget::new(u64::MAX));
        tally.call(0);
        tally.call(29_170);
        let (mut table, _) = tally.finish().unwrap();
        assert_eq!(table.target(0, || 0), None);
        assert_eq!(table.target(29_170, || 5), Some(29_170));
        assert_eq!(table.target(5, || 29_170), Some(29_170));
        assert_eq!(table.target(5, || 6), None);
    }

    #[test]
    fn numbers_of_launches_are_those_of_their_kernels() {
        let counts = [
            (1u64, 1u32),
            (2, 3),
            (63, 254),
            (64, 255),
            (65, 1000),
            (1 << 40, 2),
            (u64::MAX - 1, 300),
            (u64::MAX, 2),
            (9, 0),
        ];
        // Several threads fill the tables, each with a half of each launch.
        let shards = Arc::new(Shards::new(true, &Budget::new(1 << 20)));
        std::thread::scope(|scope| {
            for half in 0..2 {
                let mut tally = Tally::shared(Feeder::new(shards.clone()));
                scope.spawn(move || {
                    for (id, count) in counts {
                        tally.call(id);
                        for _ in (half..count).step_by(2) {
                            tally.work(id);
                            tally.drawn(id.wrapping_add(7));
                        }
                    }
                    tally.call(77);
                    assert!(tally.finish().is_none());
                });
            }
        });
        let (mut table, drawn) = shards.take();
        for (id, count) in counts {
            assert_eq!(drawn.contains(id.wrapping_add(7)), count > 0);
        }
        assert!(table.is_linked() && table.target(77, || 0) == Some(77));
        assert!(table.claim(1) && table.is_claimed(1) && !table.claim(1));
        for without_work in [9, 77, 1 << 20] {
            assert!(!table.claim(without_work) && !table.is_claimed(without_work));
        }
        assert!(!table.is_claimed(2) && table.claim(65) && table.is_claimed(65));
        assert_eq!(table.target(1, || 0), Some(1), "claimed or not");
        let mut all = HashSet::new();
        for (id, count) in counts {
            let listed = numbers_of(&mut table, id);
            assert_eq!(listed.len(), count as usize);
            let given: Vec<u64> = (0..count).map(|_| table.next_number(Some(id))).collect();
            assert_eq!(listed, given, "call {id}");
            all.extend(given);
        }
        all.insert(table.next_number(None));
        all.insert(table.next_number(None));
        assert_eq!(
            all.len() as u32,
            counts.iter().map(|(_, n)| n).sum::<u32>() + 2
        );
    }

    #[test]
    fn work_that_leads_to_no_call_is_forgotten() {
        let mut tally = Tally::own(true, &Budget::new(u64::MAX));
        for id in [5, 6, 6, 7] {
            tally.work(id);
        }
        tally.call(6);
        let (mut table, _) = tally.finish().unwrap();
        assert!(!table.is_linked() && table.is_noted(6) && !table.is_noted(7));
        table.forget_strays();
        assert_eq!(table.target(5, || 7), None);
        assert!(!table.claim(5) && !table.is_claimed(5));
        assert_eq!(numbers_of(&mut table, 6).len(), 2);
        table.forget_work();
        assert!(table.is_linked() && table.is_noted(6));
    }

    /// Calls 1 to `count`, each with one kernel, as several threads come upon them.
    fn plain_launches(count: u64, threads: u64) -> (LaunchTable, Drawn) {
        let shards = Arc::new(Shards::new(true, &Budget::new(u64::MAX)));
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let mut tally = Tally::shared(Feeder::new(shards.clone()));
                scope.spawn(move || {
                    for id in (1..=count).skip(thread as usize).step_by(threads as usize) {
                        tally.call(id);
                        tally.work(id);
                        tally.drawn(id);
                    }
                    tally.finish();
                });
            }
        });
        shards.take()
    }

    #[test]
    fn a_launch_of_one_kernel_takes_three_bits() {
        let count = 1 << 20;
        let (mut table, drawn) = plain_launches(count, 2);
        let most = count * 3 / 8 + count / 64;
        assert!(table.bytes() <= most, "{}", table.bytes());
        assert!(drawn.bytes() <= count / 8 + count / 64);
        for id in [1, 63, 64, 65, count - 1, count] {
            assert!(drawn.contains(id));
            assert_eq!(table.numbers(id), (id * 4, 1));
            assert_eq!(table.next_number(Some(id)), id * 4);
        }
        assert_eq!((table.numbers(0).1, table.numbers(count + 1).1), (0, 0));
        // Only the group of a launch of two has more.
        let (mut table, _) = plain_launches(count, 2);
        let before = table.bytes();
        table.add_work(70);
        assert_eq!(table.bytes() - before, 128);
        assert_eq!([69, 70, 71].map(|id| table.numbers(id).1), [1, 2, 1]);
    }

    /// A region of 64 GiB holds 268 M launches with their issues: 256 bytes each. By hand:
    /// `cargo test --release -- --ignored largest`.
    #[test]
    #[ignore = "takes some seconds and 140 MiB"]
    fn the_largest_region_s_launches_take_less_than_110_mib() {
        let (table, drawn) = plain_launches(268 << 20, 2);
        let ids = drawn.bytes();
        println!(
            "{} MiB, and {} MiB for the set of dispatches",
            table.bytes() >> 20,
            ids >> 20
        );
        assert!(table.bytes() < 110 << 20 && ids < 40 << 20);
    }
}
