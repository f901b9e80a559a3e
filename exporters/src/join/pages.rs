//! Tables of ids that are dense in places: which of them have a recorded API call, how much device work leads to them, and
//! plain sets.

use super::IdMap;
use super::words::{Budget, Words};

/// Ids of one page, of each of its groups, and how many groups it has.
const PAGE_IDS: u64 = 512;
pub(super) const GROUP_IDS: u64 = 64;
pub(super) const GROUPS: u64 = PAGE_IDS / GROUP_IDS;
/// Pages below this have their places in an array, 4 bytes each as far as there are any: 1,024 M ids.
const DENSE_PAGES: u64 = 1 << 21;
/// What an entry of a map takes at most, with the room that the map keeps free and the old one while it grows, bytes.
const MAP_ENTRY_BYTES: u64 = 64;
/// A count of this much or more lies in the map of large counts.
const LARGE: u8 = u8::MAX;

/// Where the pages of a table lie: an array, because ids are counted up, and a map for those far from the others.
#[derive(Debug, Default)]
struct Places {
    /// Place plus 1, 0 = none, of every `2^stride_bits`th page.
    dense: Vec<u32>,
    sparse: IdMap<u64, u32>,
    /// All pages of a share are the same in so many lowest bits.
    stride_bits: u32,
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

    /// False when the budget has no room for it.
    fn insert(&mut self, page: u64, place: u32, budget: &Budget) -> bool {
        if page >= DENSE_PAGES {
            self.sparse.insert(page, place);
            return budget.take(MAP_ENTRY_BYTES);
        }
        let at = (page >> self.stride_bits) as usize;
        let before = self.dense.len();
        if at >= before {
            self.dense.resize(at + 1, 0);
        }
        self.dense[at] = place + 1;
        let more = (self.dense.len() - before) * size_of::<u32>();
        more == 0 || budget.take(more as u64)
    }

    /// Memory that it has, bytes.
    fn bytes(&self) -> u64 {
        (self.dense.len() * size_of::<u32>()) as u64 + self.sparse.len() as u64 * MAP_ENTRY_BYTES
    }
}

/// Finds the pages of a table, and makes them.
#[derive(Debug)]
struct Index {
    places: Places,
    pages: u32,
    /// The group that was added to last, and its place.
    newest: (u64, u32),
    budget: Budget,
}

impl Index {
    fn new(stride_bits: u32, budget: Budget) -> Self {
        Self {
            places: Places::every(stride_bits),
            pages: 0,
            newest: (u64::MAX, 0),
            budget,
        }
    }

    /// Place of a group, whose page `grow` makes if need be; none when there is no room for it.
    #[inline]
    fn place(&mut self, group: u64, grow: impl FnOnce(&Budget) -> bool) -> Option<usize> {
        if self.newest.0 == group {
            return Some(self.newest.1 as usize);
        }
        let at = match self.find(group) {
            Some(at) => at,
            None => self.add(group, grow)?,
        };
        self.newest = (group, at);
        Some(at as usize)
    }

    #[cold]
    fn add(&mut self, group: u64, grow: impl FnOnce(&Budget) -> bool) -> Option<u32> {
        if self.budget.is_spent() || !grow(&self.budget) {
            return None;
        }
        self.pages += 1;
        let is_in = (self.places).insert(group / GROUPS, self.pages - 1, &self.budget);
        self.find(group).filter(|_| is_in)
    }

    /// Forgets all pages once the budget is spent; false when it is not.
    fn give_up(&mut self) -> bool {
        let is_spent = self.budget.is_spent();
        if is_spent {
            self.places = Places::every(self.places.stride_bits);
            self.newest = (u64::MAX, 0);
        }
        is_spent
    }

    /// Place of a group.
    #[inline]
    fn find(&self, group: u64) -> Option<u32> {
        let page = self.places.get(group / GROUPS)?;
        Some(page * GROUPS as u32 + (group % GROUPS) as u32)
    }
}

/// A set of ids: a bit each.
#[derive(Debug)]
pub(crate) struct Ids {
    index: Index,
    words: Words,
}

impl Default for Ids {
    /// A set without a limit.
    fn default() -> Self {
        Self::new(0, Budget::new(u64::MAX))
    }
}

impl Ids {
    pub(crate) fn new(stride_bits: u32, budget: Budget) -> Self {
        Self {
            index: Index::new(stride_bits, budget),
            words: Words::default(),
        }
    }

    /// Adds an id, if there is room.
    #[inline]
    pub(crate) fn insert(&mut self, id: u64) {
        self.insert_of(id / GROUP_IDS, bit(id));
    }

    /// Adds some ids of a group; false where there is no room.
    #[inline]
    pub(super) fn insert_of(&mut self, group: u64, bits: u64) -> bool {
        let words = &mut self.words;
        let grow = |budget: &Budget| words.grow(GROUPS as usize, budget);
        if let Some(at) = self.index.place(group, grow) {
            or(self.words.word_mut(at), bits);
            return true;
        }
        false
    }

    /// True when the id was added.
    #[inline]
    pub(crate) fn contains(&self, id: u64) -> bool {
        match self.index.find(id / GROUP_IDS) {
            Some(at) => self.words.get(at as usize) & bit(id) != 0,
            None => false,
        }
    }

    /// Lets go of everything once the budget is spent: nobody will ask.
    #[cold]
    pub(super) fn give_up(&mut self) {
        if self.index.give_up() {
            self.words = Words::default();
        }
    }

    /// An id in the middle of those that have pages, for whoever has no room for all.
    pub(crate) fn middle(&self) -> Option<u64> {
        let places = &self.index.places;
        let dense = places.dense.iter().enumerate();
        let dense = dense.filter(|&(_, &place)| place != 0);
        let mut pages: Vec<u64> = dense
            .map(|(at, _)| (at as u64) << places.stride_bits)
            .chain(places.sparse.keys().copied())
            .collect();
        let middle = pages.len() / 2;
        if middle == 0 {
            return None;
        }
        Some(*pages.select_nth_unstable(middle).1 * PAGE_IDS)
    }

    /// Memory that it has, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.bytes() + self.index.places.bytes()
    }
}

/// Sets bits of a word; gives those that were set.
#[inline]
fn or(word: &mut [u8; 8], bits: u64) -> u64 {
    let known = u64::from_ne_bytes(*word);
    *word = (known | bits).to_ne_bytes();
    known
}

#[inline]
pub(super) fn bit(id: u64) -> u64 {
    1 << (id % GROUP_IDS)
}

/// Words of the counts of a group, and of as many numbers behind them: a byte an id.
const BYTES_WORDS: usize = GROUP_IDS as usize / 8;

/// Which calls there are and how much device work each one caused: some pages of a process, or all.
///
/// A group of 64 ids has two words, a bit for each id: is there a recorded call, does work lead to it. Of a call that has
/// claimed its work only the second bit is left. Where work is counted, a group in which a call has more than one kernel
/// has two bytes an id more: how much there is, and how much of it is numbered. Rare larger counts lie in a map.
#[derive(Debug)]
pub(crate) struct Pages {
    index: Index,
    /// True when work is counted, not only noted.
    counted: bool,
    /// Two for each group.
    bits: Words,
    /// For each group where it lies in `many`, plus 1; 0: each call of it has one kernel at most. Only where work is counted.
    many_of: Words,
    /// Counts and numbers.
    many: Words,
    /// Counts and numbers of calls whose count there is [`LARGE`].
    large: IdMap<u64, (u32, u32)>,
}

impl Pages {
    /// Pages that are the same in so many lowest bits.
    pub(crate) fn new(counted: bool, stride_bits: u32, budget: Budget) -> Self {
        Self {
            index: Index::new(stride_bits, budget),
            counted,
            bits: Words::default(),
            many_of: Words::default(),
            many: Words::default(),
            large: IdMap::default(),
        }
    }

    /// Memory that they have, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let words = [&self.bits, &self.many_of, &self.many];
        words.map(Words::bytes).iter().sum::<u64>()
            + self.index.places.bytes()
            + self.large.len() as u64 * MAP_ENTRY_BYTES
    }

    /// Place of a group.
    pub(super) fn find(&self, group: u64) -> Option<u32> {
        self.index.find(group)
    }

    /// Place of a group, whose page is made if need be.
    #[inline]
    fn place(&mut self, group: u64) -> Option<usize> {
        let (bits, many_of, counted) = (&mut self.bits, &mut self.many_of, self.counted);
        self.index.place(group, |budget| {
            bits.grow(2 * GROUPS as usize, budget)
                && (!counted || many_of.grow(GROUPS as usize, budget))
        })
    }

    /// Tally recorded API calls with some ids of a group.
    #[inline]
    pub(super) fn add_calls(&mut self, group: u64, bits: u64) {
        if let Some(at) = self.place(group) {
            or(self.bits.word_mut(at * 2), bits);
        } else {
            self.give_up();
        }
    }

    /// Lets go of everything once the budget is spent: nobody will ask.
    #[cold]
    pub(super) fn give_up(&mut self) {
        if self.index.give_up() {
            let words = [&mut self.bits, &mut self.many_of, &mut self.many];
            for words in words {
                *words = Words::default();
            }
            self.large = IdMap::default();
        }
    }

    /// Tally so much drawn device work that leads to call `id`.
    #[inline]
    pub(super) fn add_work(&mut self, id: u64, more: u32) {
        let group = id / GROUP_IDS;
        let Some(at) = self.place(group) else {
            return self.give_up();
        };
        let known = or(self.bits.word_mut(at * 2 + 1), bit(id));
        if self.counted {
            self.add_more(at, id, more, known);
        }
    }

    /// Counts more work of a call; `known` are the calls of the group of which some was known before.
    fn add_more(&mut self, at: usize, id: u64, more: u32, known: u64) {
        let budget = &self.index.budget;
        let mut many = self.many_of.get(at) as usize;
        if many == 0 {
            if more == 1 && known & bit(id) == 0 {
                return;
            }
            many = self.many.len() + 1;
            if !self.many.grow(2 * BYTES_WORDS, budget) {
                return;
            }
            let counts = self.many.bytes_mut(many - 1);
            for (slot, count) in counts[..GROUP_IDS as usize].iter_mut().enumerate() {
                *count = (known >> slot & 1) as u8;
            }
            self.many_of.set(at, many as u64);
        }
        let count = &mut self.many.bytes_mut(many - 1)[(id % GROUP_IDS) as usize];
        if *count == LARGE {
            let large = self.large.entry(id).or_default();
            large.0 = large.0.saturating_add(more);
            return;
        }
        let sum = u32::from(*count).saturating_add(more);
        if sum < LARGE.into() {
            *count = sum as u8;
        } else {
            *count = LARGE;
            self.large.insert(id, (sum, 0));
            budget.take(MAP_ENTRY_BYTES);
        }
    }

    /// True when all work leads to a call by its own correlation id.
    pub(crate) fn is_linked(&self) -> bool {
        (0..self.bits.len())
            .step_by(2)
            .all(|at| self.bits.get(at + 1) & !self.bits.get(at) == 0)
    }

    /// Forgets all work that was counted, not the calls.
    pub(crate) fn forget_work(&mut self) {
        for at in (1..self.bits.len()).step_by(2) {
            self.bits.set(at, 0);
        }
        for at in 0..self.many_of.len() {
            self.many_of.set(at, 0);
        }
        self.many.clear();
        self.large.clear();
    }

    /// Forgets work that leads to no call. Call before the first claim.
    pub(crate) fn forget_strays(&mut self) {
        for at in (0..self.bits.len()).step_by(2) {
            let [calls, work] = self.bits.bytes_of(at).map(u64::from_ne_bytes);
            self.bits.set(at + 1, work & calls);
        }
    }

    /// Two bits of each id of a group: is there a call that did not claim its work, does work lead to it.
    #[inline]
    pub(super) fn bits(&self, at: u32) -> [u64; 2] {
        self.bits.bytes_of(at as usize * 2).map(u64::from_ne_bytes)
    }

    /// Replaces the first of them.
    #[inline]
    pub(super) fn set_unclaimed(&mut self, at: u32, unclaimed: u64) {
        self.bits.set(at as usize * 2, unclaimed);
    }

    /// True when a call with that id was noted, as long as none claimed anything.
    pub(super) fn is_noted(&self, id: u64) -> bool {
        self.find(id / GROUP_IDS)
            .is_some_and(|at| self.bits(at)[0] & bit(id) != 0)
    }

    /// True when a call of the group has more than one kernel, and that is counted.
    #[inline]
    pub(super) fn has_many(&self, at: u32) -> bool {
        self.counted && self.many_of(at) != 0
    }

    /// Where the counts of a group lie, plus 1; 0 when none of its calls has more than one kernel.
    #[inline]
    fn many_of(&self, at: u32) -> usize {
        self.many_of.get(at as usize) as usize
    }

    /// How much drawn device work leads to a call of a group that has such calls.
    #[inline]
    pub(super) fn count(&self, at: u32, id: u64) -> u32 {
        let Some(many) = self.many_of(at).checked_sub(1) else {
            return 0;
        };
        let slot = (id % GROUP_IDS) as usize;
        match self.many.bytes_of::<BYTES_WORDS>(many).as_flattened()[slot] {
            LARGE => self.large.get(&id).map_or(0, |large| large.0),
            few => few.into(),
        }
    }

    /// Numbers one more kernel of a call that has several: how many were numbered before.
    #[inline]
    pub(super) fn next(&mut self, at: u32, id: u64) -> u32 {
        let Some(many) = self.many_of(at).checked_sub(1) else {
            return 0;
        };
        let slot = (id % GROUP_IDS) as usize;
        let bytes = self.many.bytes_mut(many);
        if bytes[slot] == LARGE {
            let large = self.large.entry(id).or_default();
            large.1 += 1;
            return large.1 - 1;
        }
        let numbered = &mut bytes[GROUP_IDS as usize + slot];
        *numbered = numbered.wrapping_add(1);
        numbered.wrapping_sub(1).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_near_and_far_are_found() {
        for stride_bits in [0, 6] {
            let mut places = Places::every(stride_bits);
            let budget = Budget::new(u64::MAX);
            let pages = [
                3u64,
                3 + 64,
                DENSE_PAGES - 61,
                DENSE_PAGES + 3,
                u64::MAX - 60,
            ];
            for (at, page) in pages.into_iter().enumerate() {
                assert_eq!(places.get(page), None);
                assert!(places.insert(page, at as u32, &budget));
            }
            assert!((pages.into_iter().zip(0u32..)).all(|(page, at)| places.get(page) == Some(at)));
        }
    }

    #[test]
    fn a_set_without_room_says_where_its_middle_is() {
        let budget = Budget::new(1 << 16);
        let mut ids = Ids::new(0, budget.clone());
        assert_eq!(ids.middle(), None);
        for at in 0..2_000u64 {
            ids.insert(at * 5_000 + (at % 2) * (1 << 40));
        }
        assert!(budget.is_spent());
        let middle = ids.middle().unwrap();
        let below = (0..2_000u64).filter(|at| at * 5_000 + (at % 2) * (1 << 40) < middle);
        assert!((1..2_000).contains(&below.count()));
        assert!(ids.contains(5_000 + (1 << 40)) && !ids.contains(5_000));
    }
}
