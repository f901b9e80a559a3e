//! Work that was issued and has no record yet, one by one: what a stop needs to know when counting alone does not prove
//! that all is there, and for saying up to which id a trace is whole.
//!
//! It is found by reading the segments of records, each cell once. In stream mode segments leave the region: there the
//! collector reads each one before it frees it, into the same [`Outstanding`], which is therefore shared and begun with
//! the session's first segment. In the other modes a stop begins its own, and mostly never reads anything.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::control::SessionState;
use crate::counters::{Block, Counter};
use crate::handover;
use crate::header::Mode;
use crate::limits::CELL_WORDS;
use crate::record::{Kind, high, low, pair};
use crate::runtime::Runtime;
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::sync::Ordering;

/// The outstanding work of a session, shared between the collector and a stop.
#[derive(Clone, Debug)]
pub(crate) struct SharedOutstanding(Arc<Mutex<Outstanding>>);

impl SharedOutstanding {
    fn new(session: u32) -> Self {
        Self(Arc::new(Mutex::new(Outstanding::new(session))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Outstanding> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Stream mode: the sessions that the collector reads for. None of them is booked.
#[derive(Debug, Default)]
pub(crate) struct OutstandingList(Mutex<Vec<SharedOutstanding>>);

impl OutstandingList {
    fn lock(&self) -> MutexGuard<'_, Vec<SharedOutstanding>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Runtime {
    /// The outstanding work of a session, as far as it was read.
    pub(super) fn outstanding(&self, session: u32) -> SharedOutstanding {
        if self.region().header().mode != Mode::Stream {
            return SharedOutstanding::new(session);
        }
        let mut list = self.outstanding_list().lock();
        let known = list
            .iter()
            .find(|outstanding| outstanding.lock().session == session);
        known.cloned().unwrap_or_else(|| {
            list.push(SharedOutstanding::new(session));
            list[list.len() - 1].clone()
        })
    }

    /// The session's books are closed: nobody asks any more.
    pub(super) fn forget_outstanding(&self, session: u32) {
        if self.region().header().mode == Mode::Stream {
            self.outstanding_list()
                .lock()
                .retain(|outstanding| outstanding.lock().session != session);
        }
    }

    /// Reads a sealed segment for all sessions in it whose books are open, before it leaves the region. The collector.
    /// False: nothing in it is of interest, and nothing was read.
    pub(crate) fn read_outstanding(&self, segment: u32) -> bool {
        if self.region().holds_no_device_work(segment) {
            return false;
        }
        // ORD(sessions): Relaxed. Final since the segment was sealed, which the ring published.
        let sessions = self
            .region()
            .entry(segment, word::SESSIONS)
            .load(Ordering::Relaxed);
        let mut read = false;
        for session in low(sessions).max(1)..=high(sessions) {
            if self.control().state(session) != SessionState::Booked {
                self.outstanding(session).lock().read_sealed(self, segment);
                read = true;
            }
        }
        if read {
            // A session may have been booked while it was looked at.
            self.outstanding_list().lock().retain(|outstanding| {
                let session = outstanding.lock().session;
                self.control().state(session) != SessionState::Booked
            });
        }
        read
    }
}

/// By id. Ids are the vendor's numbers, mostly counted up; nobody chooses them to collide.
type ById<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// One multiplication: the collector looks up each issue and each completion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        // Odd, and its bits are spread; both halves of the product are used, so that each bit of the id counts in the
        // low bits (the bucket) and in the high ones (the tag).
        let product = u128::from(self.0 ^ id) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The kinds that say something of outstanding work, by number.
static OF_INTEREST: [bool; 256] = {
    let mut kinds = [false; 256];
    kinds[Kind::Enqueue as usize] = true;
    kinds[Kind::Dispatch as usize] = true;
    kinds[Kind::CopyIssue as usize] = true;
    kinds[Kind::Copy as usize] = true;
    kinds
};

/// Work of a session that was issued and has no record yet, found by reading the region.
#[derive(Debug)]
pub(super) struct Outstanding {
    session: u32,
    /// The generation of each segment that was read last, and how many of its cells.
    read: HashMap<u32, (u32, usize)>,
    /// Correlation id by dispatch id; `None` where the completion was read before the issue.
    dispatches: ById<Option<u64>>,
    /// Issues less completions, by correlation id.
    copies: ById<i64>,
    /// Those of the dispatches whose record will never come.
    proven_dispatches: HashSet<u64>,
    /// Correlation ids of the copies whose record will never come.
    proven_copies: HashSet<u64>,
}

impl Outstanding {
    fn new(session: u32) -> Self {
        Self {
            session,
            read: HashMap::new(),
            dispatches: HashMap::default(),
            copies: HashMap::default(),
            proven_dispatches: HashSet::new(),
            proven_copies: HashSet::new(),
        }
    }

    /// Reads what was published since the last scan.
    pub(super) fn scan(&mut self, runtime: &Runtime) {
        for segment in 0..runtime.region().backed_count() as u32 {
            self.read_segment(runtime, segment);
        }
    }

    /// Reads what was published in a segment since it was read last.
    fn read_segment(&mut self, runtime: &Runtime, segment: u32) {
        let region = runtime.region();
        // ORD(claim): Acquire. Pairs with the Release stores in `Region::claim` and `seal`.
        let Some(state) =
            StateWord::unpack(region.entry(segment, word::STATE).load(Ordering::Acquire))
        else {
            return;
        };
        let sessions = region
            .entry(segment, word::SESSIONS)
            .load(Ordering::Relaxed);
        let mine = (low(sessions)..=high(sessions)).contains(&self.session)
            || state.state == SegmentState::Open;
        if state.state == SegmentState::Free || state.kind != SegmentKind::Records || !mine {
            return;
        }
        let mut at = match self.read.get(&segment) {
            Some(&(generation, at)) if generation == state.generation => at,
            _ => 0,
        };
        // By the rule for segments that may be reused meanwhile (flight mode).
        let copied = handover::copy(
            region.entry(segment, word::STATE),
            region.entry(segment, word::COMMITTED),
            |committed| {
                (at * CELL_WORDS..(committed as usize).min(region.segment_cells()) * CELL_WORDS)
                    .map(|index| region.cell_word(segment, index).load(Ordering::Relaxed))
                    .collect::<Vec<u64>>()
            },
        );
        let Some((before, words)) = copied else {
            return;
        };
        if high(before) != state.generation {
            return;
        }
        let mut rest = &words[..];
        while !rest.is_empty() {
            let cells = self
                .take(|index| rest.get(index).copied().unwrap_or(0))
                .max(1);
            at += cells;
            rest = rest.get(cells * CELL_WORDS..).unwrap_or(&[]);
        }
        self.read.insert(segment, (state.generation, at));
    }

    /// As [`Outstanding::read_segment`], of a sealed segment that nobody reuses under the caller: without a copy.
    fn read_sealed(&mut self, runtime: &Runtime, segment: u32) {
        let region = runtime.region();
        let state = StateWord::unpack(region.entry(segment, word::STATE).load(Ordering::Acquire));
        let Some(state) = state.filter(|state| state.kind == SegmentKind::Records) else {
            return;
        };
        let mut at = match self.read.remove(&segment) {
            Some((generation, at)) if generation == state.generation => at,
            _ => 0,
        };
        let committed = region
            .entry(segment, word::COMMITTED)
            .load(Ordering::Acquire) as usize;
        while at < committed.min(region.segment_cells()) {
            let word = |index: usize| {
                let index = at * CELL_WORDS + index;
                // The last record of a damaged segment may claim more cells than there are.
                if index < region.segment_cells() * CELL_WORDS {
                    region.cell_word(segment, index).load(Ordering::Relaxed)
                } else {
                    0
                }
            };
            at += self.take(word).max(1);
        }
        self.read.insert(segment, (state.generation, at));
    }

    /// Takes the record whose words `word` gives; returns its cells.
    fn take(&mut self, word: impl Fn(usize) -> u64) -> usize {
        let head = word(0);
        let cells = (head >> 8 & 0xff) as usize;
        if !OF_INTEREST[usize::from(head as u8)] || high(head) != self.session {
            return cells;
        }
        match Kind::from_u8(head as u8) {
            Some(Kind::Enqueue) => self.dispatch(word(2), Some(word(3))),
            Some(Kind::Dispatch) => self.dispatch(word(5), None),
            Some(Kind::CopyIssue) => self.copy(word(3), 1),
            Some(Kind::Copy) => self.copy(word(3), -1),
            _ => {}
        }
        cells
    }

    /// One half of a pair, the issue with its correlation id; whichever comes first waits for the other.
    #[inline]
    fn dispatch(&mut self, id: u64, issued_under: Option<u64>) {
        match self.dispatches.entry(id) {
            Entry::Occupied(other) => drop(other.remove()),
            Entry::Vacant(place) => drop(place.insert(issued_under)),
        }
    }

    #[inline]
    fn copy(&mut self, correlation: u64, by: i64) {
        match self.copies.entry(correlation) {
            Entry::Occupied(count) if *count.get() + by == 0 => drop(count.remove()),
            Entry::Occupied(mut count) => *count.get_mut() += by,
            Entry::Vacant(place) => drop(place.insert(by)),
        }
    }

    fn retired_dispatches<'a>(
        &'a self,
        runtime: &'a Runtime,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.dispatches
            .iter()
            .filter_map(|(&id, &correlation)| Some((id, correlation?)))
            .filter(|&(_, correlation)| runtime.retired.contains(correlation))
    }

    fn retired_copies<'a>(&'a self, runtime: &'a Runtime) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.copies
            .iter()
            .filter(|&(&correlation, &count)| count > 0 && runtime.retired.contains(correlation))
            .map(|(&correlation, &count)| (correlation, count as u64))
    }

    /// Finds the outstanding work that is retired without a record; returns how much. All records of an id are stored
    /// before it is retired, so what is still missing when the region is read after that was known never comes.
    pub(super) fn prove(&mut self, runtime: &Runtime) -> u64 {
        self.scan(runtime);
        let dispatches: Vec<u64> = self.retired_dispatches(runtime).map(|(id, _)| id).collect();
        let copies: Vec<u64> = self.retired_copies(runtime).map(|(id, _)| id).collect();
        if !dispatches.is_empty() || !copies.is_empty() {
            self.scan(runtime);
        }
        self.proven_dispatches = dispatches.into_iter().collect();
        self.proven_copies = copies.into_iter().collect();
        self.proven()
    }

    /// How much of the outstanding work is proven to be retired without a record.
    pub(super) fn proven(&self) -> u64 {
        let dispatches = self.proven_dispatches.iter();
        let copies = self.proven_copies.iter();
        dispatches
            .filter(|id| self.dispatches.contains_key(id))
            .count() as u64
            + copies.map(|id| self.copies_left(id)).sum::<u64>()
    }

    /// Copies of a correlation id that are outstanding.
    fn copies_left(&self, correlation: &u64) -> u64 {
        let count = self.copies.get(correlation).copied().unwrap_or(0);
        u64::try_from(count).unwrap_or(0)
    }

    /// Announces up to `most` pieces of retired work, and strikes them off. Returns dispatches and copies.
    pub(super) fn announce_retired(&mut self, runtime: &Runtime, most: u64) -> (u64, u64) {
        let (mut dispatches, mut copies) = (0, 0);
        if most == 0 {
            return (0, 0);
        }
        let mut found: Vec<_> = self
            .proven_dispatches
            .iter()
            .filter_map(|id| Some((*id, (*self.dispatches.get(id)?)?)))
            .collect();
        found.sort_unstable();
        found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        for (id, correlation) in found {
            runtime.fact(
                Kind::Retired,
                self.session,
                &[pair(0, 1), id, correlation, self.session.into()],
            );
            self.dispatches.remove(&id);
            dispatches += 1;
        }
        let mut found: Vec<_> = self
            .proven_copies
            .iter()
            .map(|id| (*id, self.copies_left(id)))
            .collect();
        found.sort_unstable();
        for (correlation, count) in found {
            let count = count.min(most - dispatches - copies);
            if count == 0 {
                break;
            }
            let words = [pair(1, count as u32), 0, correlation, self.session.into()];
            runtime.fact(Kind::Retired, self.session, &words);
            self.copies.remove(&correlation);
            copies += count;
        }
        (dispatches, copies)
    }

    /// Every id at or below it is accounted for.
    pub(super) fn low_watermark(&self, sum: &Block) -> u64 {
        let dispatches = self
            .dispatches
            .values()
            .filter_map(|&correlation| correlation);
        let copies = self
            .copies
            .iter()
            .filter(|&(_, &count)| count > 0)
            .map(|(&correlation, _)| correlation);
        // 0 = no issue record was lost; else the lowest such id plus 1.
        let lost = sum.get(Counter::LostIssueId).checked_sub(1);
        match dispatches.chain(copies).chain(lost).min() {
            Some(lowest) => lowest.saturating_sub(1),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    #[test]
    fn ids_in_steps_of_any_power_of_two_spread_over_buckets_and_tags() {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        for step in 0..56 {
            let hashes = (1..=256u64).map(|id| hasher.hash_one(id << step));
            let buckets: BTreeSet<u64> = hashes.clone().map(|hash| hash & 255).collect();
            let tags: BTreeSet<u64> = hashes.map(|hash| hash >> 57).collect();
            // 162 and 111 by chance; a hash that loses bits has a handful.
            let spread = (buckets.len(), tags.len());
            assert!(spread.0 >= 64 && spread.1 >= 32, "{spread:?}, step {step}");
        }
    }
}
