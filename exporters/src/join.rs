//! Joins device work to the API calls that launched it, without a map of all ids.
//!
//! Correlation ids are handed out by counting, so a table of pages of 64 ids holds for each id: is there a recorded API
//! call with it, do drawn kernels or copies lead to it, has a call claimed them (one bit each) and, for outputs that number
//! them, how many (one byte; rare larger counts lie in a map).
//! That is half a byte an id, whatever order the ids come in, and one or two bytes more where kernels are
//! numbered.
//!
//! The counts also number the events of an export: a launch knows the event ids of all its kernels before any of them is
//! written, from its id and count alone.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Spreads one integer; for maps whose keys are ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(value ^ self.0 ^ 0x5bd1_e995) * 0x9E37_79B9_7F4A_7C15_u128;
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// A map whose keys are ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Answers of a map that were asked for lately, a few of them, each at a place of its own by the lowest bits of a number:
/// records of several streams and threads come in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent<K, V>([Option<(K, V)>; RECENT]);

const RECENT: usize = 16;

impl<K: Copy, V: Copy> Default for Recent<K, V> {
    fn default() -> Self {
        Self([None; RECENT])
    }
}

impl<K: Copy + PartialEq, V: Copy> Recent<K, V> {
    /// The answer for `key`, if it is still there; `number` is the one that it was kept by.
    #[inline]
    pub(crate) fn get(&self, number: u64, key: K) -> Option<V> {
        match self.0[number as usize % RECENT] {
            Some((kept, value)) if kept == key => Some(value),
            _ => None,
        }
    }

    /// Keeps an answer.
    #[inline]
    pub(crate) fn keep(&mut self, number: u64, key: K, value: V) {
        self.0[number as usize % RECENT] = Some((key, value));
    }
}

/// A set of ids that are dense in places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    index: IdMap<u64, u32>,
    pages: Vec<u64>,
    /// Page and place of the last id that was added, plus 1.
    newest: (u64, u32),
}

impl Ids {
    #[inline]
    fn page(&mut self, page: u64) -> &mut u64 {
        if self.newest.1 == 0 || self.newest.0 != page {
            let pages = &mut self.pages;
            let at = *self.index.entry(page).or_insert_with(|| {
                pages.push(0);
                pages.len() as u32 - 1
            });
            self.newest = (page, at + 1);
        }
        &mut self.pages[self.newest.1 as usize - 1]
    }

    /// Adds an id.
    #[inline]
    pub(crate) fn insert(&mut self, id: u64) {
        *self.page(id / 64) |= 1 << (id % 64);
    }

    /// True when the id was added.
    #[inline]
    pub(crate) fn contains(&self, id: u64) -> bool {
        let page = id / 64;
        let at = if self.newest.1 != 0 && self.newest.0 == page {
            self.newest.1 as usize - 1
        } else {
            match self.index.get(&page) {
                Some(&at) => at as usize,
                None => return false,
            }
        };
        self.pages[at] >> (id % 64) & 1 != 0
    }

    /// Takes over the pages of another set, which has none of those that this one has.
    fn take_pages(&mut self, other: Self) {
        for (page, at) in other.index {
            self.index.insert(page, self.pages.len() as u32);
            self.pages.push(other.pages[at as usize]);
        }
    }
}

/// Ids below this are looked up in an array.
const DENSE_IDS: u64 = 1 << 16;

/// Numbers things from 0 in the order in which their ids are met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    dense: Vec<u32>,
    sparse: IdMap<u64, u32>,
    met: u32,
}

impl Numbers {
    /// The number of an id, and whether it is new.
    #[inline]
    pub(crate) fn of(&mut self, id: u64) -> (usize, bool) {
        match self.dense.get(id as usize) {
            Some(&number) if number != u32::MAX => (number as usize, false),
            _ => self.find(id),
        }
    }

    #[cold]
    fn find(&mut self, id: u64) -> (usize, bool) {
        if let Some(&number) = self.sparse.get(&id) {
            return (number as usize, false);
        }
        let number = self.met;
        self.met += 1;
        if id < DENSE_IDS {
            let dense = id as usize;
            if self.dense.len() <= dense {
                self.dense.resize(dense + 1, u32::MAX);
            }
            self.dense[dense] = number;
        } else {
            self.sparse.insert(id, number);
        }
        (number as usize, true)
    }
}

/// Ids of one page.
const PAGE_IDS: u64 = 64;
/// A count of this much or more lies in the map of large counts.
const LARGE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Which ids have a recorded API call.
    calls: u64,
    /// Which ids have drawn device work that leads to them.
    work: u64,
    /// Which calls have claimed the work that leads to them, in the order of writing.
    claimed: u64,
    /// Numbers handed out to launches of more than one kernel, before this page.
    before: u64,
}

/// One byte for each id of a page.
type Bytes = [u8; PAGE_IDS as usize];

/// Which calls there are and how much device work each one caused.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaunchTable {
    index: IdMap<u64, u32>,
    pages: Vec<Page>,
    /// True when work is counted, not only noted.
    counted: bool,
    /// How much work leads to each id, for as many pages as there are.
    counts: Vec<Bytes>,
    /// Kernels already numbered, of launches of more than one; as many as there are pages, from the first number on.
    numbered: Vec<Bytes>,
    large: IdMap<u64, u32>,
    large_numbered: IdMap<u64, u32>,
    newest: (u64, u32),
    /// Places of pages.
    looked_up: Recent<u64, u32>,
    /// First numbers of launches.
    first_numbers: Recent<u64, u64>,
    unlinked: u64,
}

impl LaunchTable {
    /// A table that counts the work of each call, for outputs that number it, or only knows whether there is some.
    pub(crate) fn new(counted: bool) -> Self {
        Self {
            counted,
            ..Self::default()
        }
    }

    #[inline]
    fn find(&mut self, id: u64) -> Option<usize> {
        let page = id / PAGE_IDS;
        match self.looked_up.get(page, page) {
            Some(at) => Some(at as usize),
            None => self.look_up(page),
        }
    }

    fn look_up(&mut self, page: u64) -> Option<usize> {
        let at = *self.index.get(&page)?;
        self.looked_up.keep(page, page, at);
        Some(at as usize)
    }

    /// Place of the page of an id, which is made if need be.
    #[inline]
    fn place(&mut self, id: u64) -> usize {
        let page = id / PAGE_IDS;
        if self.newest.0 != page || self.pages.is_empty() {
            let at = *self.index.entry(page).or_insert_with(|| {
                self.pages.push(Page::default());
                if self.counted {
                    self.counts.push([0; PAGE_IDS as usize]);
                }
                self.pages.len() as u32 - 1
            });
            self.newest = (page, at);
        }
        self.newest.1 as usize
    }

    /// Notes a recorded API call. Id 0 means "unknown" and joins nothing.
    pub(crate) fn add_call(&mut self, id: u64) {
        if id != 0 {
            let at = self.place(id);
            self.pages[at].calls |= 1 << (id % PAGE_IDS);
        }
    }

    #[inline]
    fn has_call(&mut self, id: u64) -> bool {
        id != 0
            && match self.find(id) {
                Some(at) => self.pages[at].calls >> (id % PAGE_IDS) & 1 != 0,
                None => false,
            }
    }

    /// The call that device work with these ids leads to: by its correlation id, else by its ancestor.
    #[inline]
    pub(crate) fn target(
        &mut self,
        correlation_id: u64,
        ancestor_id: impl FnOnce() -> u64,
    ) -> Option<u64> {
        if self.has_call(correlation_id) {
            return Some(correlation_id);
        }
        Some(ancestor_id()).filter(|&id| self.has_call(id))
    }

    /// Notes drawn device work that leads to call `target`.
    #[inline]
    pub(crate) fn add_work(&mut self, target: u64) {
        self.add_more(target, 1);
    }

    #[inline]
    fn add_more(&mut self, target: u64, more: u32) {
        let (at, slot) = (self.place(target), (target % PAGE_IDS) as usize);
        self.pages[at].work |= 1 << slot;
        let Some(counts) = self.counts.get_mut(at) else {
            return;
        };
        let before = match counts[slot] {
            LARGE => self.large.get(&target).copied().unwrap_or(0),
            few => u32::from(few),
        };
        let sum = before.saturating_add(more);
        if sum < u32::from(LARGE) {
            counts[slot] = sum as u8;
        } else {
            counts[slot] = LARGE;
            self.large.insert(target, sum);
        }
    }

    /// Takes over the pages of another table, which has none of those that this one has.
    fn take_pages(&mut self, other: Self) {
        for (page, at) in other.index {
            self.newest = (page, self.pages.len() as u32);
            self.index.insert(page, self.newest.1);
            self.pages.push(other.pages[at as usize]);
            if self.counted {
                self.counts.push(other.counts[at as usize]);
            }
        }
        self.large.extend(other.large);
    }

    /// True when all work leads to a call by its own correlation id.
    pub(crate) fn is_linked(&self) -> bool {
        self.pages.iter().all(|page| page.work & !page.calls == 0)
    }

    /// Forgets all work that was counted, not the calls.
    pub(crate) fn forget_work(&mut self) {
        for page in &mut self.pages {
            page.work = 0;
        }
        self.counts.fill([0; PAGE_IDS as usize]);
        self.large.clear();
    }

    /// Call after the last [`LaunchTable::add_work`].
    pub(crate) fn finish(&mut self) {
        if !self.counted {
            return;
        }
        let mut order: Vec<(u64, u32)> = self.index.iter().map(|(&page, &at)| (page, at)).collect();
        order.sort_unstable();
        let mut before = 0;
        for (page, at) in order {
            self.pages[at as usize].before = before;
            for slot in 0..PAGE_IDS {
                let count = self.count_at(at as usize, page * PAGE_IDS + slot);
                if count > 1 {
                    before += u64::from(count);
                }
            }
        }
    }

    /// How much drawn device work leads to call `id`, as far as it was counted.
    #[inline]
    fn count(&mut self, id: u64) -> u32 {
        match self.find(id) {
            Some(at) => self.count_at(at, id),
            None => 0,
        }
    }

    #[inline]
    fn count_at(&self, at: usize, id: u64) -> u32 {
        let count = |counts: &Bytes| counts[(id % PAGE_IDS) as usize];
        match self.counts.get(at).map_or(0, count) {
            LARGE => self.large.get(&id).copied().unwrap_or(0),
            few => u32::from(few),
        }
    }

    /// Call `id` claims the work that leads to it: true when there is some, and no call claimed it before.
    #[inline]
    pub(crate) fn claim(&mut self, id: u64) -> bool {
        let Some(at) = self.find(id) else {
            return false;
        };
        let (page, bit) = (&mut self.pages[at], 1 << (id % PAGE_IDS));
        let is_first = page.work & !page.claimed & bit != 0;
        page.claimed |= page.work & bit;
        is_first
    }

    /// True when call `id` has claimed its work.
    #[inline]
    pub(crate) fn is_claimed(&mut self, id: u64) -> bool {
        match self.find(id) {
            Some(at) => self.pages[at].claimed >> (id % PAGE_IDS) & 1 != 0,
            None => false,
        }
    }

    /// The first number of a launch of more than one kernel.
    #[inline]
    fn first_of_many(&mut self, id: u64) -> u64 {
        match self.first_numbers.get(id, id) {
            Some(first) => first,
            None => self.find_first(id),
        }
    }

    fn find_first(&mut self, id: u64) -> u64 {
        let Some(at) = self.find(id) else { return 0 };
        let slot = (id % PAGE_IDS) as usize;
        let mut first = self.pages[at].before;
        let before = self
            .counts
            .get(at)
            .map_or(&[][..], |counts| &counts[..slot]);
        for (other, &count) in before.iter().enumerate() {
            if count == LARGE {
                first += u64::from(self.count_at(at, id - (slot - other) as u64));
            } else if count > 1 {
                first += u64::from(count);
            }
        }
        self.first_numbers.keep(id, id, first);
        first
    }

    /// The numbers of all device work of call `id`: dense where the ids are, each different, and the same whatever order
    /// the records came in. Call id × 4 for a launch of one, the rest from spaces of their own.
    pub(crate) fn numbers(&mut self, id: u64) -> (u64, u32) {
        match self.count(id) {
            0 => (0, 0),
            1 => (id.wrapping_mul(4), 1),
            count => (self.first_of_many(id).wrapping_mul(4) + 1, count),
        }
    }

    /// The next number for device work that leads to `target`, in the order of writing.
    pub(crate) fn next_number(&mut self, target: Option<u64>) -> u64 {
        let Some(id) = target else {
            self.unlinked += 1;
            return self.unlinked * 4 + 2;
        };
        let count = self.count(id);
        if count <= 1 {
            return id.wrapping_mul(4);
        }
        let first = self.first_of_many(id);
        let numbered = if count >= u32::from(LARGE) {
            let numbered = self.large_numbered.entry(id).or_insert(0);
            *numbered += 1;
            *numbered - 1
        } else {
            let at = self.find(id).unwrap_or(0);
            if self.numbered.len() <= at {
                self.numbered
                    .resize(self.pages.len(), [0; PAGE_IDS as usize]);
            }
            let numbered = &mut self.numbered[at][(id % PAGE_IDS) as usize];
            *numbered = numbered.wrapping_add(1);
            u32::from(numbered.wrapping_sub(1))
        };
        (first + u64::from(numbered)).wrapping_mul(4) + 1
    }
}

/// Tables that are filled together.
const SHARDS: u64 = 64;
/// Ids that a thread gathers for a table before it takes the table's lock.
const GATHERED: usize = 256;

/// What is known of an id.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// There is a recorded call with it.
    Call,
    /// Drawn device work leads to it.
    Work,
    /// It is the id of a dispatch that is drawn.
    Drawn,
}

/// The table of launches and the set of dispatches, filled by several threads at once. Each of them sees ids from
/// anywhere, so a table for each thread would be almost the whole one, that many times: pages are shared out instead,
/// and each thread gathers some ids of a share before it takes the lock.
#[derive(Debug)]
pub(crate) struct Shards {
    counted: bool,
    shards: Vec<Mutex<(LaunchTable, Ids)>>,
}

impl Shards {
    pub(crate) fn new(counted: bool) -> Self {
        let shard = || Mutex::new((LaunchTable::new(counted), Ids::default()));
        Self {
            counted,
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }

    /// Takes the tables, in one. Call when all threads are done.
    pub(crate) fn take(&self) -> (LaunchTable, Ids) {
        let (mut launches, mut drawn) = (LaunchTable::new(self.counted), Ids::default());
        let shards: Vec<(LaunchTable, Ids)> = self
            .shards
            .iter()
            .map(|shard| std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect();
        let pages = shards.iter().map(|shard| shard.0.pages.len()).sum();
        launches.index.reserve(pages);
        launches.pages.reserve_exact(pages);
        if self.counted {
            launches.counts.reserve_exact(pages);
        }
        let pages = shards.iter().map(|shard| shard.1.pages.len()).sum();
        drawn.index.reserve(pages);
        drawn.pages.reserve_exact(pages);
        for (table, ids) in shards {
            launches.take_pages(table);
            drawn.take_pages(ids);
        }
        (launches, drawn)
    }
}

/// One thread's way to the tables.
#[derive(Debug)]
pub(crate) struct Feeder {
    shards: Arc<Shards>,
    gathered: Vec<Vec<(u64, Note)>>,
}

impl Feeder {
    pub(crate) fn new(shards: Arc<Shards>) -> Self {
        Self {
            shards,
            gathered: (0..SHARDS).map(|_| Vec::new()).collect(),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, note: Note, id: u64) {
        let shard = (id / PAGE_IDS % SHARDS) as usize;
        self.gathered[shard].push((id, note));
        if self.gathered[shard].len() >= GATHERED {
            self.give(shard);
        }
    }

    fn give(&mut self, shard: usize) {
        let lock = self.shards.shards[shard].lock();
        let (launches, drawn) = &mut *lock.unwrap_or_else(PoisonError::into_inner);
        for (id, note) in self.gathered[shard].drain(..) {
            match note {
                Note::Call => launches.add_call(id),
                Note::Work => launches.add_work(id),
                Note::Drawn => drawn.insert(id),
            }
        }
    }

    /// Gives what is left.
    pub(crate) fn finish(mut self) {
        for shard in 0..self.gathered.len() {
            self.give(shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn case_b16_id_zero_joins_nothing_and_an_ancestor_helps_only_when_it_is_recorded() {
        let mut table = LaunchTable::default();
        table.add_call(0);
        table.add_call(29_170);
        assert_eq!(table.target(0, || 0), None);
        assert_eq!(table.target(29_170, || 5), Some(29_170));
        assert_eq!(table.target(5, || 29_170), Some(29_170));
        assert_eq!(table.target(5, || 6), None);
    }

    #[test]
    fn numbers_of_launches_are_those_of_their_kernels() {
        let mut table = LaunchTable::new(true);
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
        for (id, _) in counts {
            table.add_call(id);
        }
        // Several threads fill the tables, each with a half of each launch.
        let shards = Arc::new(Shards::new(true));
        std::thread::scope(|scope| {
            for half in 0..2 {
                let mut feeder = Feeder::new(shards.clone());
                scope.spawn(move || {
                    for (id, count) in counts {
                        feeder.add(Note::Call, id);
                        for _ in (half..count).step_by(2) {
                            feeder.add(Note::Work, id);
                            feeder.add(Note::Drawn, id.wrapping_add(7));
                        }
                    }
                    feeder.add(Note::Call, 77);
                    feeder.finish();
                });
            }
        });
        let (mut table, drawn) = shards.take();
        // More may come afterwards, on any page.
        for id in [1, 2, 65] {
            table.add_call(id);
        }
        for (id, count) in counts {
            assert_eq!(drawn.contains(id.wrapping_add(7)), count > 0);
        }
        table.finish();
        assert!(table.is_linked() && table.target(77, || 0) == Some(77));
        assert!(table.claim(1) && table.is_claimed(1) && !table.claim(1));
        for without_work in [9, 77, 1 << 20] {
            assert!(!table.claim(without_work) && !table.is_claimed(without_work));
        }
        assert!(!table.is_claimed(2) && table.claim(65) && table.is_claimed(65));
        let mut all = HashSet::new();
        for (id, count) in counts {
            assert_eq!(table.count(id), count);
            let (first, n) = table.numbers(id);
            assert_eq!(n, count);
            let listed: Vec<u64> = (0..u64::from(n)).map(|at| first + at * 4).collect();
            let given: Vec<u64> = (0..n).map(|_| table.next_number(Some(id))).collect();
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
}
