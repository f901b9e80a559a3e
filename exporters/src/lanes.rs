//! Lanes: viewers nest the spans of one track by time alone, and lose or bend spans that overlap in part. What does not
//! fit goes to a further lane of the same track, its times unchanged.

use std::collections::BTreeSet;

use strandline::record::Record;

use crate::join::IdMap;

/// Lanes of device work: flat, nothing overlaps anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlatLanes {
    ends: Vec<u64>,
}

impl FlatLanes {
    /// The lane for a span; spans come in the order of their starts, longer ones first where starts are equal.
    #[inline]
    pub(crate) fn place(&mut self, start: u64, end: u64) -> usize {
        for (lane, lane_end) in self.ends.iter_mut().enumerate() {
            if *lane_end <= start {
                *lane_end = end;
                return lane;
            }
        }
        self.ends.push(end);
        self.ends.len() - 1
    }
}

/// Lanes of host spans: each lane strictly nested.
#[derive(Clone, Debug, Default)]
pub(crate) struct NestedLanes {
    stacks: Vec<Vec<u64>>,
}

impl NestedLanes {
    /// The lane for a span; spans come in the order of their starts, outer ones first where starts are equal.
    #[inline]
    pub(crate) fn place(&mut self, start: u64, end: u64) -> usize {
        for (lane, stack) in self.stacks.iter_mut().enumerate() {
            while stack.last().is_some_and(|&open| open <= start) {
                stack.pop();
            }
            if stack.last().is_none_or(|&open| end <= open) {
                stack.push(end);
                return lane;
            }
        }
        self.stacks.push(vec![end]);
        self.stacks.len() - 1
    }
}

/// A range by id that was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// Start, in the output's clock.
    pub(crate) start: u64,
    /// String id of its name.
    pub(crate) name: u64,
    /// Lane that it has to itself until it stops.
    pub(crate) lane: usize,
    /// Session.
    pub(crate) session: u32,
    /// Thread that started it.
    pub(crate) thread: u32,
}

/// Ranges that are started and stopped by id, on any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangesById {
    open: IdMap<u64, Vec<Started>>,
    free: BTreeSet<usize>,
    lanes: usize,
}

impl RangesById {
    /// A record starts a range, at `start` ns of the output's clock.
    pub(crate) fn start_by(&mut self, record: &Record<'_>, start: u64) {
        let (name, session) = (record.name_id(), record.session());
        self.start(record.word(5), start, name, session, record.thread());
    }

    /// A record stops a range; `None` when its start is not in the trace.
    pub(crate) fn stop_by(&mut self, record: &Record<'_>) -> Option<Started> {
        self.stop(record.word(5))
    }

    fn start(&mut self, id: u64, start: u64, name: u64, session: u32, thread: u32) {
        let lane = self.free.pop_first().unwrap_or_else(|| {
            self.lanes += 1;
            self.lanes - 1
        });
        self.open.entry(id).or_default().push(Started {
            start,
            name,
            lane,
            session,
            thread,
        });
    }

    fn stop(&mut self, id: u64) -> Option<Started> {
        let open = self.open.get_mut(&id)?;
        let started = open.pop()?;
        if open.is_empty() {
            self.open.remove(&id);
        }
        self.free.insert(started.lane);
        Some(started)
    }

    /// What was never stopped, in the order of starts.
    pub(crate) fn drain(&mut self) -> Vec<Started> {
        let mut open: Vec<Started> = std::mem::take(&mut self.open)
            .into_values()
            .flatten()
            .collect();
        open.sort_by_key(|started| (started.start, started.lane));
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_b27_flat_lanes_never_overlap() {
        // A, B, D (the same interval as B), C, in the order of starts, longer first.
        let mut lanes = FlatLanes::default();
        let placed: Vec<usize> = [
            (0, 100),
            (90, 200),
            (90, 200),
            (90, 120),
            (200, 200),
            (200, 300),
        ]
        .into_iter()
        .map(|(start, end)| lanes.place(start, end))
        .collect();
        assert_eq!(placed, [0, 1, 2, 3, 0, 0]);
    }

    #[test]
    fn case_b27_nested_lanes_nest_strictly() {
        let mut lanes = NestedLanes::default();
        let placed: Vec<usize> = [
            (0, 100),
            (0, 100),
            (10, 20),
            (15, 30),
            (20, 100),
            (99, 101),
            (100, 110),
        ]
        .into_iter()
        .map(|(start, end)| lanes.place(start, end))
        .collect();
        assert_eq!(placed, [0, 0, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn case_b40_ranges_by_id_keep_a_lane_each() {
        let mut ranges = RangesById::default();
        ranges.start(1, 10, 0, 1, 5);
        ranges.start(2, 20, 0, 1, 5);
        assert_eq!(ranges.stop(1).map(|started| started.lane), Some(0));
        ranges.start(3, 30, 0, 1, 5);
        assert!(ranges.stop(9).is_none());
        assert_eq!(
            ranges
                .drain()
                .iter()
                .map(|started| started.lane)
                .collect::<Vec<_>>(),
            [1, 0]
        );
    }
}
