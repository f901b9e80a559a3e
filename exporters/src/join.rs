//! Joins device work to the API calls that launched it, without a map of all ids.
//!
//! Correlation ids are handed out by counting, so a table of pages of 64 ids holds for each id: is there a recorded API
//! call with it, do drawn kernels or copies lead to it, and has a call claimed them (one bit each). That is half a byte an id,
//! with the page's place, whatever order the ids come in. For outputs that number kernels, pages in which a call has more than one have two
//! bytes an id more (rare larger counts lie in a map).
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

/// Pages below this have their places in an array, 4 bytes each as far as there are any: 512 M ids.
const DENSE_PAGES: u64 = 1 << 23;

/// Where the pages of a table lie: an array, because ids are counted up, and a map for those far from the others.
#[derive(Clone, Debug, Default)]
struct Places {
    /// Place plus 1, 0 = none, of every `2^stride_bits`th page.
    dense: Vec<u32>,
    sparse: IdMap<u64, u32>,
    stride_bits: u32,
    /// What all pages of a share have in common below.
    residue: u64,
}

impl Places {
    /// For pages whose numbers are the same in their lowest bits.
    fn every(stride_bits: u32) -> Self {
        Self {
            stride_bits,
            ..Self::default()
        }
    }

    #[inline]
    fn get(&self, page: u64) -> Option<u32> {
        if page >= DENSE_PAGES {
            return self.sparse.get(&page).copied();
        }
        match self.dense.get((page >> self.stride_bits) as usize) {
            None | Some(0) => None,
            Some(&place) => Some(place - 1),
        }
    }

    fn insert(&mut self, page: u64, place: u32) {
        if page >= DENSE_PAGES {
            self.sparse.insert(page, place);
            return;
        }
        self.residue = page & ((1 << self.stride_bits) - 1);
        let at = (page >> self.stride_bits) as usize;
        if at >= self.dense.len() {
            self.dense.resize(at + 1, 0);
        }
        self.dense[at] = place + 1;
    }

    /// Memory that it has, bytes; entries of the map as they are without what it keeps free.
    fn bytes(&self) -> u64 {
        (self.dense.len() * size_of::<u32>() + self.sparse.len() * size_of::<(u64, u32)>()) as u64
    }

    /// Pages and places, in the order of the pages but for those in the map.
    fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        let dense = (0u64..).zip(&self.dense).filter(|&(_, &place)| place != 0);
        let dense = dense.map(|(at, &place)| (at << self.stride_bits | self.residue, place - 1));
        dense.chain(self.sparse.iter().map(|(&page, &place)| (page, place)))
    }
}

/// A set of ids that are dense in places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    index: Places,
    pages: Vec<u64>,
    /// Page and place of the last id that was added, plus 1.
    newest: (u64, u32),
}

impl Ids {
    #[inline]
    fn page(&mut self, page: u64) -> &mut u64 {
        if self.newest.1 == 0 || self.newest.0 != page {
            let at = self.index.get(page).unwrap_or_else(|| {
                self.pages.push(0);
                let at = self.pages.len() as u32 - 1;
                self.index.insert(page, at);
                at
            });
            self.newest = (page, at + 1);
        }
        &mut self.pages[self.newest.1 as usize - 1]
    }

    /// Memory that it has, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.pages.len() * size_of::<u64>()) as u64 + self.index.bytes()
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
            match self.index.get(page) {
                Some(at) => at as usize,
                None => return false,
            }
        };
        self.pages[at] >> (id % 64) & 1 != 0
    }

    /// Takes over the pages of another set, which has none of those that this one has.
    fn take_pages(&mut self, other: Self) {
        for (page, at) in other.index.iter() {
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
}

/// One byte for each id of a page.
type Bytes = [u8; PAGE_IDS as usize];

/// What a page has more when some call of it has more than one kernel and kernels are numbered.
#[derive(Clone, Debug)]
struct Many {
    /// How much work leads to each id.
    counts: Bytes,
    /// Kernels already numbered.
    numbered: Bytes,
    /// Numbers handed out to launches of more than one kernel, before this page.
    before: u64,
}

/// Which calls there are and how much device work each one caused.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaunchTable {
    index: Places,
    pages: Vec<Page>,
    /// True when work is counted, not only noted.
    counted: bool,
    /// For each page where it lies in `many`, plus 1; 0: each call of it has one kernel at most.
    many_of: Vec<u32>,
    many: Vec<Many>,
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

    /// Memory that it has, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let pages = self.pages.len() * size_of::<Page>() + self.many_of.len() * size_of::<u32>();
        let many = self.many.len() * size_of::<Many>();
        let large = (self.large.len() + self.large_numbered.len()) * size_of::<(u64, u32)>();
        (pages + many + large) as u64 + self.index.bytes()
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
        let at = self.index.get(page)?;
        self.looked_up.keep(page, page, at);
        Some(at as usize)
    }

    /// Place of the page of an id, which is made if need be.
    #[inline]
    fn place(&mut self, id: u64) -> usize {
        let page = id / PAGE_IDS;
        if self.newest.0 != page || self.pages.is_empty() {
            let at = self.index.get(page).unwrap_or_else(|| {
                let at = self.pages.len() as u32;
                self.pages.push(Page::default());
                self.many_of.push(0);
                self.index.insert(page, at);
                at
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
        let page = &mut self.pages[at];
        let known = page.work;
        page.work |= 1 << slot;
        if !self.counted || self.many_of[at] == 0 && known >> slot & 1 == 0 && more == 1 {
            return;
        }
        if self.many_of[at] == 0 {
            self.many.push(Many {
                counts: std::array::from_fn(|slot| (known >> slot & 1) as u8),
                numbered: [0; PAGE_IDS as usize],
                before: 0,
            });
            self.many_of[at] = self.many.len() as u32;
        }
        let counts = &mut self.many[self.many_of[at] as usize - 1].counts;
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
        for (page, at) in other.index.iter() {
            self.newest = (page, self.pages.len() as u32);
            self.index.insert(page, self.newest.1);
            self.pages.push(other.pages[at as usize]);
            // Its places in `many` move behind those that are there.
            self.many_of.push(match other.many_of[at as usize] {
                0 => 0,
                place => place + self.many.len() as u32,
            });
        }
        self.many.extend(other.many);
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
        self.many_of.fill(0);
        self.many.clear();
        self.large.clear();
    }

    /// Call after the last [`LaunchTable::add_work`].
    pub(crate) fn finish(&mut self) {
        if !self.counted {
            return;
        }
        // Only pages with launches of more than one kernel.
        let places = self.index.iter();
        let mut order: Vec<(u64, u32)> = places
            .filter(|&(_, at)| self.many_of[at as usize] != 0)
            .collect();
        order.sort_unstable();
        let mut before = 0;
        for (page, at) in order {
            let many = self.many_of[at as usize] as usize - 1;
            self.many[many].before = before;
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

    /// The counts of a page in which a call has more than one kernel.
    #[inline]
    fn many_at(&self, at: usize) -> Option<&Many> {
        self.many.get((self.many_of[at] as usize).wrapping_sub(1))
    }

    #[inline]
    fn count_at(&self, at: usize, id: u64) -> u32 {
        let slot = (id % PAGE_IDS) as usize;
        match self.many_at(at).map(|many| many.counts[slot]) {
            None if self.counted => (self.pages[at].work >> slot & 1) as u32,
            None => 0,
            Some(LARGE) => self.large.get(&id).copied().unwrap_or(0),
            Some(few) => u32::from(few),
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
        let Some(many) = self.many_at(at) else {
            return 0;
        };
        let mut first = many.before;
        let before = &many.counts[..slot];
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
            // More than one: its page has this.
            let place = self.find(id).map_or(0, |at| self.many_of[at]) as usize;
            let Some(many) = self.many.get_mut(place.wrapping_sub(1)) else {
                return first.wrapping_mul(4) + 1;
            };
            let numbered = &mut many.numbered[(id % PAGE_IDS) as usize];
            *numbered = numbered.wrapping_add(1);
            u32::from(numbered.wrapping_sub(1))
        };
        (first + u64::from(numbered)).wrapping_mul(4) + 1
    }
}

/// Tables that are filled together: page `n` lies in table `n % SHARDS`.
const SHARDS: u64 = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 6;
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
        let index = || Places::every(SHARD_BITS);
        let shard = || {
            let (mut launches, mut drawn) = (LaunchTable::new(counted), Ids::default());
            (launches.index, drawn.index) = (index(), index());
            Mutex::new((launches, drawn))
        };
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
        launches.pages.reserve_exact(pages);
        launches.many_of.reserve_exact(pages);
        let many = shards.iter().map(|shard| shard.0.many.len()).sum();
        launches.many.reserve_exact(many);
        let pages = shards.iter().map(|shard| shard.1.pages.len()).sum();
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

    /// Calls 1 to `count`, each with one kernel, as several threads come upon them.
    fn plain_launches(count: u64, threads: u64) -> (LaunchTable, Ids) {
        let shards = Arc::new(Shards::new(true));
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let mut feeder = Feeder::new(shards.clone());
                scope.spawn(move || {
                    for id in (1..=count).skip(thread as usize).step_by(threads as usize) {
                        feeder.add(Note::Call, id);
                        feeder.add(Note::Work, id);
                        feeder.add(Note::Drawn, id);
                    }
                    feeder.finish();
                });
            }
        });
        let (mut table, drawn) = shards.take();
        table.finish();
        (table, drawn)
    }

    #[test]
    fn a_launch_of_one_kernel_takes_half_a_byte() {
        let count = 1 << 18;
        let (mut table, drawn) = plain_launches(count, 2);
        assert!(table.bytes() <= count / 2 + 4_096, "{}", table.bytes());
        for id in [1, 63, 64, 65, count - 1, count] {
            assert!(drawn.contains(id));
            assert_eq!((table.count(id), table.numbers(id)), (1, (id * 4, 1)));
            assert_eq!(table.next_number(Some(id)), id * 4);
        }
        assert_eq!((table.count(0), table.count(count + 1)), (0, 0));
        // Only the page of a launch of two has more.
        table.add_work(70);
        table.finish();
        assert_eq!(table.many.len(), 1);
        assert_eq!(
            (table.count(69), table.count(70), table.count(71)),
            (1, 2, 1)
        );
        assert_eq!(table.numbers(70), (1, 2));
    }

    /// A region of 64 GiB holds 268 M launches: 256 bytes each. By hand: `cargo test --release -- --ignored largest`.
    #[test]
    #[ignore = "takes some seconds and 200 MiB"]
    fn the_largest_region_s_launches_take_less_than_150_mib() {
        let (table, drawn) = plain_launches(268 << 20, 2);
        let ids = drawn.bytes();
        println!(
            "{} MiB, and {} MiB for the set of dispatches",
            table.bytes() >> 20,
            ids >> 20
        );
        assert!(table.bytes() < 150 << 20 && ids < 60 << 20);
    }

    #[test]
    fn places_near_and_far_are_found() {
        for stride_bits in [0, 6] {
            let mut places = Places::every(stride_bits);
            let pages = [
                3u64,
                3 + 64,
                DENSE_PAGES - 61,
                DENSE_PAGES + 3,
                u64::MAX - 60,
            ];
            for (at, page) in pages.into_iter().enumerate() {
                assert_eq!(places.get(page), None);
                places.insert(page, at as u32);
            }
            let mut all: Vec<_> = places.iter().collect();
            all.sort_unstable();
            assert_eq!(all, pages.into_iter().zip(0u32..).collect::<Vec<_>>());
            assert!(
                pages
                    .into_iter()
                    .zip(0u32..)
                    .all(|(page, at)| places.get(page) == Some(at))
            );
        }
    }
}
