//! What one stretch of time needs to know of launches, when the tables of all have no room: see [`crate::windows`].

use super::pages::GROUP_IDS;

/// Sorted ids and where each lies among them, by their highest bits first.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    ids: Vec<u64>,
    /// Where the ids begin whose distance from the first one has these highest bits; one more behind the last.
    begins: Vec<u32>,
    shift: u32,
}

impl Sorted {
    /// Takes other ids, in any order, some of them several times; `fill` appends them.
    pub(crate) fn refill(&mut self, fill: impl FnOnce(&mut Vec<u64>)) {
        self.ids.clear();
        self.begins.clear();
        fill(&mut self.ids);
        self.ids.sort_unstable();
        self.ids.dedup();
        let Some((first, last)) = self.bounds() else {
            return;
        };
        // No more buckets than ids.
        let bits = u64::BITS - (last - first).leading_zeros();
        self.shift = bits.saturating_sub(self.ids.len().ilog2());
        for (at, id) in (0u32..).zip(&self.ids) {
            let bucket = (id - first) >> self.shift.min(63);
            while self.begins.len() as u64 <= bucket {
                self.begins.push(at);
            }
        }
        self.begins.push(self.ids.len() as u32);
    }

    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The lowest and the highest one.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        Some((*self.ids.first()?, *self.ids.last()?))
    }

    /// Which one it is.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<usize> {
        let bucket = id.checked_sub(*self.ids.first()?)? >> self.shift.min(63);
        let bucket = usize::try_from(bucket).ok()?;
        let [from, to] = *self.begins.get(bucket..)?.first_chunk()?;
        let (from, to) = (from as usize, to as usize);
        (self.ids[from..to].binary_search(&id).ok()).map(|at| from + at)
    }
}

/// What is known of one id.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Drawn work that leads to it, and how much of that is numbered.
    count: u32,
    numbered: u32,
    is_call: bool,
    is_claimed: bool,
}

/// Launches by their ids.
#[derive(Debug, Default)]
pub(crate) struct Window {
    ids: Sorted,
    launches: Vec<Entry>,
}

impl Window {
    /// Takes other ids, of which nothing is known; see [`Sorted::refill`].
    pub(crate) fn refill(&mut self, fill: impl FnOnce(&mut Vec<u64>)) {
        self.ids.refill(fill);
        self.launches.clear();
        self.launches.resize(self.ids.len(), Entry::default());
    }

    /// Its ids.
    pub(crate) fn ids(&self) -> &Sorted {
        &self.ids
    }

    /// Tally a recorded call; `is_earlier`: it was written before this stretch.
    #[inline]
    pub(crate) fn add_call(&mut self, at: usize, is_earlier: impl FnOnce() -> bool) {
        let launch = &mut self.launches[at];
        launch.is_call = true;
        launch.is_claimed = launch.is_claimed || is_earlier();
    }

    /// Tally drawn work that leads to the launch at that place.
    #[inline]
    pub(crate) fn add_work(&mut self, at: usize, is_earlier: bool) {
        let launch = &mut self.launches[at];
        launch.count += 1;
        launch.numbered += u32::from(is_earlier);
    }

    /// True when the launch at that place is recorded.
    #[inline]
    pub(crate) fn is_call(&self, at: usize) -> bool {
        self.launches[at].is_call
    }

    /// All recorded calls of a group: their ids, how much work leads to them, and whether they claimed it.
    pub(super) fn each_of(&self, group: u64, mut each: impl FnMut(u64, u32, bool)) {
        let ids = &self.ids.ids;
        let from = ids.partition_point(|id| id / GROUP_IDS < group);
        for (id, entry) in ids[from..].iter().zip(&self.launches[from..]) {
            if id / GROUP_IDS != group {
                break;
            }
            if entry.is_call {
                each(*id, entry.count, entry.is_claimed && entry.count > 0);
            }
        }
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Entry> {
        self.ids.find(id).map(|at| &mut self.launches[at])
    }

    pub(super) fn claim(&mut self, id: u64) {
        if let Some(entry) = self.get_mut(id) {
            entry.is_claimed = true;
        }
    }

    pub(super) fn count(&self, id: u64) -> u32 {
        self.ids.find(id).map_or(0, |at| self.launches[at].count)
    }

    /// Numbers one more kernel: how many were numbered before.
    pub(super) fn next(&mut self, id: u64) -> u32 {
        self.get_mut(id).map_or(0, |entry| {
            entry.numbered += 1;
            entry.numbered - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_however_far_apart_they_are() {
        let mut sorted = Sorted::default();
        assert_eq!((sorted.find(0), sorted.bounds()), (None, None));
        let far = [0, 1, 2, 3, 1 << 40, u64::MAX - 1, u64::MAX];
        let dense: Vec<u64> = (1_000_000..1_003_000).collect();
        let holes: Vec<u64> = (0..5_000).map(|at| 7 + at * at * 3).collect();
        for ids in [&far[..], &[9], &[u64::MAX], &dense, &holes] {
            sorted.refill(|into| into.extend(ids.iter().rev().chain(ids)));
            assert_eq!(sorted.len(), ids.len());
            for (at, &id) in ids.iter().enumerate() {
                assert_eq!(sorted.find(id), Some(at));
                let next = id.wrapping_add(1);
                assert_eq!(sorted.find(next).is_some(), ids.contains(&next));
            }
        }
    }
}
