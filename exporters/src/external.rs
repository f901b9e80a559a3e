//! External correlation ids of the domains from 1 up, by the call under which they were pushed.
//!
//! The id of domain 0 travels in the records of calls and work; those of other domains are records of their own, which
//! name the call. An export shows them with the call and with all work that leads to it.
//!
//! Memory: 24 bytes for each such record (which has 64 in the region), none where there are none.

use strandline::embed::EXTERNAL_DOMAINS;
use strandline::record::Record;

/// An id: the call's correlation id, the domain, the id.
type One = (u64, u32, u64);

/// The external ids of a process, found in the pass over its records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Externals {
    all: Vec<One>,
}

impl Externals {
    /// Takes a record of kind External. Those that name no call, or a domain that no runtime has, show nowhere.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let (id, domain) = (record.correlation_id(), record.word(5) as u32);
        if id != 0 && (1..EXTERNAL_DOMAINS as u32).contains(&domain) {
            self.all.push((id, domain, record.external_id()));
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
        self.all.shrink_to_fit();
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
            if entry.record.kind() == Some(Kind::External) {
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
}
