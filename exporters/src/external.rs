//! External correlation ids of the domains from 1 up, by the call under which they were pushed.
//!
//! The id of domain 0 travels in the records of calls and work; those of other domains are records of their own, which
//! name the call. An export shows them with the call and with all work that leads to it.
//!
//! They lie in one list as long as the budget of the tables of ids has room for it; otherwise each stretch of time has those of
//! its own calls and work (see [`crate::windows`]). None where there are none.

use strandline::embed::EXTERNAL_DOMAINS;
use strandline::record::Record;

use crate::join::Budget;

/// What one takes at most, bytes: itself, and the places that a list keeps free while it grows.
pub(crate) const EXTERNAL_BYTES: u64 = 2 * size_of::<One>() as u64;
/// No fewer are looked through for ids that are there several times.
const TIDY_MIN: usize = 1 << 16;
/// Ids that are asked of the budget at once.
const STEP: usize = 256;

/// An id: the call's correlation id, the domain, the id.
type One = (u64, u32, u64);

/// External ids of a process, or of a stretch of it.
#[derive(Debug, Default)]
pub(crate) struct Externals {
    all: Vec<One>,
    /// Ids that are there several times are dropped when there are so many.
    tidy_at: usize,
}

/// An id that shows somewhere. Those that name no call, or a domain that no runtime has, show nowhere.
pub(crate) fn is_shown(record: &Record<'_>) -> bool {
    let domain = record.word(5) as u32;
    record.correlation_id() != 0 && (1..EXTERNAL_DOMAINS as u32).contains(&domain)
}

impl Externals {
    /// Takes a record of kind External that [`is_shown`]. Memory is that of the calls' ids, however often records say them.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        self.push(record);
        if self.all.len() >= self.tidy_at.max(TIDY_MIN) {
            self.finish();
            self.tidy_at = 2 * self.all.len();
        }
    }

    fn push(&mut self, record: &Record<'_>) {
        let domain = record.word(5) as u32;
        let one = (record.correlation_id(), domain, record.external_id());
        self.all.push(one);
    }

    /// As [`Externals::add`], as long as the budget has room; forgets all once it is spent, since nobody will ask.
    pub(crate) fn add_within(&mut self, record: &Record<'_>, budget: &Budget) {
        let is_due = self.all.len().is_multiple_of(STEP);
        if budget.is_spent() || is_due && !budget.take(STEP as u64 * EXTERNAL_BYTES) {
            self.all = Vec::new();
        } else {
            self.push(record);
        }
    }

    /// Adds those that another pass found.
    pub(crate) fn merge(&mut self, other: Self) {
        self.all.extend(other.all);
    }

    /// Call after the last [`Externals::add`]: the order of the records does not show, and each call has one id a domain.
    pub(crate) fn finish(&mut self) {
        self.all.sort_unstable();
        self.all.dedup_by_key(|one| (one.0, one.1));
    }

    /// Memory that they have, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.len() as u64 * EXTERNAL_BYTES
    }

    /// True when there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Domain and id of what was pushed when the call with that id began, by domain.
    #[inline]
    pub(crate) fn of(&self, correlation_id: u64) -> impl Iterator<Item = (u32, u64)> {
        let first = if self.all.is_empty() {
            0
        } else {
            self.all.partition_point(|one| one.0 < correlation_id)
        };
        self.all[first..]
            .iter()
            .take_while(move |one| one.0 == correlation_id)
            .map(|&(_, domain, id)| (domain, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::builder::Builder;
    use strandline::record::{Kind, pair};

    #[test]
    fn ids_are_found_by_call_whatever_their_order() {
        let mut region = Builder::new();
        for (correlation, domain, id) in [
            (9, 2, 5),
            (7, 1, 3),
            (9, 1, 8),
            (0, 1, 6),
            (9, 1, 4),
            (9, 0, 7),
            (9, 4, 7),
        ] {
            let words = [1, 0, correlation, 0, domain, id, pair(0, 1)];
            region.record(0, Kind::External, 1, &words);
        }
        let trace = region.trace();
        let mut ids = Externals::default();
        for entry in trace.entries() {
            if entry.record.kind() == Some(Kind::External) && is_shown(&entry.record) {
                ids.add(&entry.record);
            }
        }
        ids.finish();
        let of = |id| ids.of(id).collect::<Vec<_>>();
        assert_eq!(of(9), [(1, 4), (2, 5)]);
        assert_eq!(of(7), [(1, 3)]);
        assert_eq!(of(8), []);
        assert_eq!(of(0), []);
        assert_eq!(Externals::default().of(9).next(), None);
    }

    #[test]
    fn a_list_without_room_is_given_up() {
        let mut region = Builder::new();
        for correlation in 1..=3 * STEP as u64 {
            let words = [1, 0, correlation, 0, 1, 7, pair(0, 1)];
            region.record(0, Kind::External, 1, &words);
        }
        let trace = region.trace();
        for (steps, is_kept) in [(3, true), (2, false)] {
            let budget = Budget::new(steps * STEP as u64 * EXTERNAL_BYTES);
            let mut ids = Externals::default();
            for entry in trace.entries() {
                if entry.record.kind() == Some(Kind::External) {
                    ids.add_within(&entry.record, &budget);
                }
            }
            assert_eq!((!ids.is_empty(), !budget.is_spent()), (is_kept, is_kept));
        }
    }
}
