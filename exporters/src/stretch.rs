//! The records of one stretch of time, put into order without moving them.
//!
//! A record's start and its place in the stretch fit one word, and those words are sorted by their digits (a radix sort
//! from the lowest digit on): no comparison of records, no branch that depends on them, whatever disorder they lie in.
//! Only records that start at the same moment are compared. They are then gathered in order, chunk after chunk.

use std::cmp::Ordering;
use std::sync::Arc;

use strandline::record::Kind;

use crate::external::Externals;
use crate::join::Window;
use crate::order::{Group, Item, group};

/// Bits of a digit at most: as many buckets as a small cache holds a line of each.
const DIGIT_BITS_MAX: u32 = 11;
/// So few records are compared.
const FEW: usize = 64;
/// So few runs are merged.
const FEW_RUNS: usize = 4;

/// Records and their order.
#[derive(Debug)]
pub(crate) struct Stretch<'a> {
    items: Vec<Item<'a>>,
    /// Before sorting, each record's start; afterwards a word each, in order: the start above, the place in `items` below.
    words: Vec<u64>,
    /// Earliest and latest start.
    first: u64,
    last: u64,
    /// Runs of records of which each starts later than the one before.
    runs: usize,
    /// The bits of a place in a word; 0 when the records lie in order themselves.
    mask: u64,
    /// Room for sorting.
    spare: Vec<u64>,
    /// For each process what its records need to know of launches, where no table has it.
    windows: Vec<Window>,
    /// For each process the external ids of its records, likewise.
    externals: Arc<Vec<Externals>>,
}

impl<'a> Stretch<'a> {
    pub(crate) fn new() -> Self {
        Self {
            items: Vec::new(),
            words: Vec::new(),
            first: u64::MAX,
            last: 0,
            runs: 0,
            mask: 0,
            spare: Vec::new(),
            windows: Vec::new(),
            externals: Arc::default(),
        }
    }

    /// With room for so many records, which is no memory until they are there. What grows instead is moved, and leaves its
    /// places behind in the allocator: in a pool of each thread, when several fill stretches.
    pub(crate) fn with_room(records: usize) -> Self {
        Self {
            items: Vec::with_capacity(records),
            words: Vec::with_capacity(records),
            spare: Vec::with_capacity(records),
            ..Self::new()
        }
    }

    /// How many records there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Forgets all records, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.words.clear();
        (self.first, self.last, self.runs) = (u64::MAX, 0, 0);
    }

    /// Adds a record. Call [`Stretch::sort`] behind the last one.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'a>) {
        let start = item.place.start;
        self.runs += usize::from(self.words.last().is_none_or(|&before| start <= before));
        self.first = self.first.min(start);
        self.last = self.last.max(start);
        self.words.push(start);
        self.items.push(item);
    }

    /// The records as they were added.
    pub(crate) fn items_mut(&mut self) -> &mut [Item<'a>] {
        &mut self.items
    }

    /// The records as they were added, and the windows of so many processes.
    pub(crate) fn items_and_windows(
        &mut self,
        processes: usize,
    ) -> (&mut [Item<'a>], &mut [Window]) {
        self.windows.resize_with(processes, Window::default);
        (&mut self.items, &mut self.windows)
    }

    /// What is known of the launches of each process; none where tables have it.
    pub(crate) fn windows_mut(&mut self) -> &mut [Window] {
        &mut self.windows
    }

    /// Sets the external ids of each process.
    pub(crate) fn set_externals(&mut self, externals: Vec<Externals>) {
        self.externals = Arc::new(externals);
    }

    /// The external ids of each process; none where one list has them all.
    pub(crate) fn externals(&self) -> &Arc<Vec<Externals>> {
        &self.externals
    }

    /// Puts the records into order.
    pub(crate) fn sort(&mut self) {
        self.mask = 0;
        if self.runs <= 1 {
            return;
        }
        let place_bits = usize::BITS - self.items.len().leading_zeros();
        let span_bits = u64::BITS - (self.last - self.first).leading_zeros();
        if self.items.len() <= FEW || place_bits + span_bits > u64::BITS {
            self.items.sort_by(compare);
            return;
        }
        self.mask = (1 << place_bits) - 1;
        for (at, word) in self.words.iter_mut().enumerate() {
            *word = (*word - self.first) << place_bits | at as u64;
        }
        if self.runs <= FEW_RUNS {
            // A sort that merges what lies in order.
            self.words.sort();
        } else {
            sort_words(&mut self.words, &mut self.spare, place_bits, span_bits);
        }
        self.settle_ties();
    }

    /// Compares those that start at the same moment.
    fn settle_ties(&mut self) {
        let (items, mask) = (&self.items, self.mask);
        let mut from = 0;
        while from + 1 < self.words.len() {
            let above = self.words[from] & !mask;
            if self.words[from + 1] & !mask != above {
                from += 1;
                continue;
            }
            let same = self.words[from..].iter();
            let to = from + same.take_while(|&&word| word & !mask == above).count();
            let item = |word: &u64| &items[(word & mask) as usize];
            self.words[from..to].sort_by(|one, other| compare(item(one), item(other)));
            from = to;
        }
    }

    /// Puts a part of the records in place of what `into` holds, in order.
    pub(crate) fn gather(&self, range: std::ops::Range<usize>, into: &mut Vec<Item<'a>>) {
        into.clear();
        if self.mask == 0 {
            into.extend_from_slice(&self.items[range]);
        } else {
            let words = self.words[range].iter();
            into.extend(words.map(|word| self.items[(word & self.mask) as usize]));
        }
    }
}

/// Sorts words by their bits from `first_bit` on, `bits` of them; those that are equal there keep their order.
fn sort_words(words: &mut Vec<u64>, spare: &mut Vec<u64>, first_bit: u32, bits: u32) {
    let passes = bits.div_ceil(DIGIT_BITS_MAX).max(1);
    let digit_bits = bits.div_ceil(passes);
    let buckets = 1usize << digit_bits;
    spare.clear();
    spare.resize(words.len(), 0);
    let mut places = vec![0u32; buckets];
    for pass in 0..passes {
        let shift = first_bit + pass * digit_bits;
        let digit = |word: u64| (word >> shift) as usize & (buckets - 1);
        places.fill(0);
        for &word in &*words {
            places[digit(word)] += 1;
        }
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for &word in &*words {
            let place = &mut places[digit(word)];
            spare[*place as usize] = word;
            *place += 1;
        }
        std::mem::swap(words, spare);
    }
}

fn compare(one: &Item<'_>, other: &Item<'_>) -> Ordering {
    let (place, other_place) = (&one.place, &other.place);
    let group_of = |item: &Item<'_>| item.kind.and_then(group).map(|(group, _)| group);
    let group = group_of(one);
    place
        .start
        .cmp(&other_place.start)
        .then(group.cmp(&group_of(other)))
        .then_with(|| {
            if group == Some(Group::Instant) {
                Ordering::Equal
            } else {
                other_place.end.cmp(&place.end)
            }
        })
        .then(one.process().cmp(&other.process()))
        .then_with(|| rank(one).cmp(&rank(other)))
        .then_with(|| one.record.words().cmp(other.record.words()))
}

/// Ranges lie above API calls, outer calls above inner ones.
fn rank(item: &Item<'_>) -> (u8, u8) {
    match item.kind {
        Some(Kind::Range | Kind::OpenRange) => (0, item.record.depth()),
        Some(Kind::Api | Kind::OpenCall) => (1, item.record.depth()),
        Some(Kind::Dispatch) => (2, 0),
        _ => (3, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Place;
    use strandline::record::Record;

    fn order_of(starts: &[u64]) -> Vec<(u64, u64)> {
        // The third word tells records of one moment apart.
        let cells: Vec<[u64; 8]> = (0..starts.len() as u64)
            .map(|at| {
                [
                    0x100 | Kind::Mark as u64,
                    starts[at as usize],
                    0,
                    at * 7919 % 1009,
                    0,
                    0,
                    0,
                    0,
                ]
            })
            .collect();
        let mut stretch = Stretch::new();
        // What an earlier stretch left must not show.
        for cells in [&cells[..cells.len().min(200)], &cells] {
            stretch.clear();
            items_of(cells).for_each(|item| stretch.push(item));
            stretch.sort();
        }
        assert_eq!(stretch.len(), starts.len());
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for from in (0..starts.len()).step_by(37) {
            stretch.gather(from..starts.len().min(from + 37), &mut some);
            all.extend(
                some.iter()
                    .map(|item| (item.place.start, item.record.word(3))),
            );
        }
        all
    }

    fn items_of(cells: &[[u64; 8]]) -> impl Iterator<Item = Item<'_>> {
        cells.iter().map(|words| {
            let place = Place {
                start: words[1],
                end: words[1],
            };
            Item::new(0, place, Record::parse(words).unwrap())
        })
    }

    #[test]
    fn words_are_ordered_as_records_compare() {
        let mut random = 1u64;
        let mut next = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 16
        };
        for count in [0, 1, 2, FEW, FEW + 1, 1_000, 5_000] {
            // Ties, few digits, many digits, more than a word holds beside the places, rising, falling.
            for span in [1, 3, 900, 1 << 11, 1 << 22, 1 << 40, u64::MAX] {
                let mut starts: Vec<u64> = (0..count).map(|_| 5_000 + next() % span).collect();
                if span == u64::MAX && count > 1 {
                    (starts[0], starts[1]) = (u64::MAX, 0);
                }
                for _ in 0..3 {
                    let mut expected: Vec<(u64, u64)> = (starts.iter().enumerate())
                        .map(|(at, &start)| (start, at as u64 * 7919 % 1009))
                        .collect();
                    expected.sort_unstable();
                    assert_eq!(order_of(&starts), expected, "{count} in {span}");
                    starts.sort_unstable();
                    if span % 2 == 0 {
                        starts.reverse();
                    }
                }
            }
        }
    }
}
