//! Launches of one stretch of time, where a table of all of them would take too much memory.
//!
//! What a stretch needs to know of the calls and the device work in it lies anywhere in the trace: work runs after its call,
//! in a later stretch or in several. So whoever picks a stretch also passes over the records whose ids may be among those of the
//! stretch, and counts what leads to which call, and how much of that lies before the stretch. Runs of cells note the bounds of
//! their ids once; ids are counted up as time goes on, so few runs have ids of a stretch.
//!
//! Memory is that of the stretch, whatever ids there are; what it costs is another pass over the records, at least.

use std::ops::Range;

use strandline::record::{Kind, Record};

use crate::clock::Clock;
use crate::external::{self, Externals};
use crate::join::{Sorted, Window};
use crate::order::Item;
use crate::scan::{Shown, on_threads};

/// Bounds are kept for no more groups of runs than this: 3 MiB.
const GROUPS_MAX: usize = 1 << 16;
/// Work that waits until it is known whether there is a call with its own id, 24 bytes each.
const WAITING_MAX: usize = 1 << 17;

/// Lowest and highest id.
#[derive(Clone, Copy, Debug)]
struct Span(u64, u64);

impl Span {
    const EMPTY: Self = Self(u64::MAX, 0);

    #[inline]
    fn add(&mut self, id: u64) {
        (self.0, self.1) = (self.0.min(id), self.1.max(id));
    }

    fn overlaps(self, (first, last): (u64, u64)) -> bool {
        self.0 <= last && self.1 >= first
    }
}

/// Ids of some runs.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    calls: Span,
    /// What work may lead to.
    targets: Span,
    dispatches: Span,
    /// Calls that external ids name.
    externals: Span,
}

/// Makes the windows of a process.
#[derive(Debug)]
pub(crate) struct Windows {
    /// For each group of so many runs.
    bounds: Vec<Bounds>,
    runs_each: usize,
    /// True when some work may lead to its ancestor.
    has_ancestors: bool,
    have_externals: bool,
}

/// Work whose own id may have a call: the place of its ancestor in the window, and whether it is earlier than the stretch.
type Waiting = (u64, usize, bool);

impl Windows {
    /// A pass over all records, shared out to threads.
    pub(crate) fn new(shown: &Shown<'_>, has_ancestors: bool, threads: usize) -> Self {
        let runs = shown.trace.runs();
        let runs_each = runs.div_ceil(GROUPS_MAX).max(1);
        let parts = on_threads(threads, runs.div_ceil(runs_each), |groups| {
            let bounds = |group: usize| bounds_of(shown, group * runs_each, runs_each);
            groups.map(bounds).collect::<Vec<_>>()
        });
        let bounds = parts.concat();
        Self {
            have_externals: (bounds.iter()).any(|bounds| bounds.externals.1 != 0),
            bounds,
            runs_each,
            has_ancestors,
        }
    }

    /// True when there are external ids.
    pub(crate) fn have_externals(&self) -> bool {
        self.have_externals
    }

    /// External ids of the calls in a window, and of those that its work leads to.
    pub(crate) fn externals(&self, shown: &Shown<'_>, window: &Window) -> Externals {
        let mut externals = Externals::default();
        let ids = window.ids();
        if let Some(range) = ids.bounds() {
            let has = |bounds: &Bounds| bounds.externals.overlaps(range);
            self.records(shown, has, |record| {
                if record.kind() == Some(Kind::External)
                    && external::is_shown(record)
                    && ids.find(record.correlation_id()).is_some()
                {
                    externals.add(record);
                }
            });
        }
        externals.finish();
        externals
    }

    /// All records of groups that may have what is asked for.
    fn records<'a>(
        &self,
        shown: &Shown<'a>,
        has: impl Fn(&Bounds) -> bool,
        mut each: impl FnMut(&Record<'a>),
    ) {
        for (group, bounds) in self.bounds.iter().enumerate() {
            if has(bounds) {
                let from = group * self.runs_each;
                let entries = shown.trace.entries_of(range(shown, from, self.runs_each));
                entries
                    .filter(|entry| shown.takes_session(entry.record.session()))
                    .for_each(|entry| each(&entry.record));
            }
        }
    }

    /// Looks up what the items of a process need: those of a stretch that begins at `from`, output's clock. `open` are calls that
    /// never ended.
    pub(crate) fn fill(
        &self,
        shown: &Shown<'_>,
        open: &[Vec<u64>],
        from: u64,
        items: &mut [Item<'_>],
        index: usize,
        window: &mut Window,
    ) {
        window.refill(|ids| {
            for item in items.iter().filter(|item| item.process() == index) {
                match item.kind {
                    Some(Kind::Api | Kind::OpenCall) => ids.push(item.id),
                    Some(Kind::Dispatch | Kind::Copy) => {
                        ids.push(item.id);
                        if self.has_ancestors {
                            ids.push(item.record.ancestor_id());
                        }
                    }
                    _ => {}
                }
            }
            ids.retain(|&id| id != 0);
        });
        self.add_calls(shown, open, from, window);
        self.add_work(shown, open, from, window);
        if shown.wants_issues {
            self.find_drawn(shown, items, index);
        }
    }

    /// All recorded calls whose ids may be among some.
    fn calls<'a>(
        &self,
        shown: &Shown<'a>,
        open: &'a [Vec<u64>],
        ids: (u64, u64),
        mut each: impl FnMut(&Record<'a>),
    ) {
        let is_call =
            |record: &Record<'_>| matches!(record.kind(), Some(Kind::Api | Kind::OpenCall));
        let has = |bounds: &Bounds| bounds.calls.overlaps(ids);
        self.records(shown, has, |record| {
            if is_call(record) {
                each(record);
            }
        });
        (open.iter())
            .filter_map(|words| Record::parse(words).ok())
            .filter(is_call)
            .for_each(|record| each(&record));
    }

    fn add_calls(&self, shown: &Shown<'_>, open: &[Vec<u64>], from: u64, window: &mut Window) {
        let Some(ids) = window.ids().bounds() else {
            return;
        };
        let mut clock = Clock::new(shown.trace.clock());
        self.calls(shown, open, ids, |record| {
            if let Some(at) = window.ids().find(record.correlation_id()) {
                let is_earlier = || shown.out_ns(clock.vendor_ns(record.start())) < from;
                window.add_call(at, is_earlier);
            }
        });
    }

    fn add_work(&self, shown: &Shown<'_>, open: &[Vec<u64>], from: u64, window: &mut Window) {
        let Some(ids) = window.ids().bounds() else {
            return;
        };
        let mut newest = 0;
        let mut waiting: Vec<Waiting> = Vec::new();
        let has = |bounds: &Bounds| bounds.targets.overlaps(ids);
        self.records(shown, has, |record| {
            if !matches!(record.kind(), Some(Kind::Dispatch | Kind::Copy)) {
                return;
            }
            let own = window.ids().find(record.correlation_id());
            let is_own = own.is_some_and(|at| !self.has_ancestors || window.is_call(at));
            let ancestor = if is_own || !self.has_ancestors {
                None
            } else {
                let at = window.ids().find(record.ancestor_id());
                at.filter(|&at| window.is_call(at))
            };
            if !is_own && ancestor.is_none() || !shown.is_drawn_work(record, &mut newest) {
                return;
            }
            let is_earlier = shown.out_ns(record.start()) < from;
            match (own, ancestor) {
                (Some(at), None) | (Some(_), Some(at)) => window.add_work(at, is_earlier),
                (None, Some(at)) if record.correlation_id() == 0 => {
                    window.add_work(at, is_earlier);
                }
                (None, Some(at)) => {
                    waiting.push((record.correlation_id(), at, is_earlier));
                    if waiting.len() == WAITING_MAX {
                        self.settle(shown, open, &mut waiting, window);
                    }
                }
                (None, None) => {}
            }
        });
        self.settle(shown, open, &mut waiting, window);
    }

    /// Work leads to its ancestor where no call has its own id.
    #[cold]
    fn settle(
        &self,
        shown: &Shown<'_>,
        open: &[Vec<u64>],
        waiting: &mut Vec<Waiting>,
        window: &mut Window,
    ) {
        let mut ids = Sorted::default();
        ids.refill(|into| into.extend(waiting.iter().map(|work| work.0)));
        let mut has_call = vec![false; ids.len()];
        if let Some(bounds) = ids.bounds() {
            self.calls(shown, open, bounds, |record| {
                if let Some(at) = ids.find(record.correlation_id()) {
                    has_call[at] = true;
                }
            });
        }
        for (own, ancestor, is_earlier) in waiting.drain(..) {
            if !ids.find(own).is_some_and(|at| has_call[at]) {
                window.add_work(ancestor, is_earlier);
            }
        }
    }

    /// Finds which dispatches that the stretch says were issued are drawn, anywhere.
    fn find_drawn(&self, shown: &Shown<'_>, items: &mut [Item<'_>], index: usize) {
        let is_issue =
            |item: &Item<'_>| item.process() == index && item.kind == Some(Kind::Enqueue);
        let mut ids = Sorted::default();
        ids.refill(|into| {
            let issues = items.iter().filter(|item| is_issue(item));
            into.extend(issues.map(|item| item.record.dispatch_id()));
        });
        let Some(bounds) = ids.bounds() else { return };
        let mut is_drawn = vec![false; ids.len()];
        let mut newest = 0;
        let has = |group: &Bounds| group.dispatches.overlaps(bounds);
        self.records(shown, has, |record| {
            if record.kind() == Some(Kind::Dispatch)
                && let Some(at) = ids.find(record.dispatch_id())
                && shown.is_drawn_work(record, &mut newest)
            {
                is_drawn[at] = true;
            }
        });
        for item in items.iter_mut().filter(|item| is_issue(item)) {
            item.is_drawn = (ids.find(item.record.dispatch_id())).is_some_and(|at| is_drawn[at]);
        }
    }
}

fn range(shown: &Shown<'_>, from: usize, runs: usize) -> Range<usize> {
    from..(from + runs).min(shown.trace.runs())
}

fn bounds_of(shown: &Shown<'_>, from: usize, runs: usize) -> Bounds {
    let mut bounds = Bounds {
        calls: Span::EMPTY,
        targets: Span::EMPTY,
        dispatches: Span::EMPTY,
        externals: Span::EMPTY,
    };
    (shown.trace.entries_of(range(shown, from, runs))).for_each(|entry| {
        let record = entry.record;
        match record.kind() {
            Some(Kind::Api | Kind::OpenCall) => bounds.calls.add(record.correlation_id()),
            Some(kind @ (Kind::Dispatch | Kind::Copy)) => {
                bounds.targets.add(record.correlation_id());
                if record.ancestor_id() != 0 {
                    bounds.targets.add(record.ancestor_id());
                }
                if kind == Kind::Dispatch {
                    bounds.dispatches.add(record.dispatch_id());
                }
            }
            Some(Kind::External) if external::is_shown(&record) => {
                bounds.externals.add(record.correlation_id());
            }
            _ => {}
        }
    });
    bounds
}
