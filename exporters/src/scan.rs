//! The pass over all records of one process: what they refer to, how much of everything there is, and which stretch of
//! time each run of cells covers.
//!
//! The runs are shared out to threads; what each found is put together afterwards, and nothing in it depends on how many
//! threads there were.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use strandline::Trace;
use strandline::facts::Agent;
use strandline::record::{Kind, Record, flag};
use strandline::report::{SessionReport, device_flags};

use crate::clock::Clock;
use crate::external::{self, Externals};
use crate::join::{Budget, Drawn, Feeder, IdMap, LaunchTable, Shards, Tally};
use crate::model::{Process, stream_key};
use crate::no_launch;
use crate::order::{self, Group, Item};
use crate::phases::Watch;
use crate::stretch::Stretch;
use crate::windows::Windows;

/// One record in this many at most is looked at for the distribution of times.
const SAMPLE_STEP_MAX: u64 = 512;
/// After so many records it is asked whether more have room: tables grow by less than a page a record.
const LIMIT_STEP: usize = 1 << 12;
/// Flags that keep a dispatch or copy from being drawn.
const HIDING: u16 = flag::UNTIMED | flag::END_BEFORE_START | flag::OUTSIDE_WINDOW;
/// An end that is known only when all records are.
pub(crate) const PENDING: u64 = u64::MAX;

/// A session, as far as its records need it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) session: u32,
    pub(crate) window: (u64, u64),
    /// When the session was accounted for, vendor ns; 0 when it never was.
    pub(crate) returned_ns: u64,
    pub(crate) newest_ns: u64,
    newest_ticks: u64,
    low_watermark: u64,
    pub(crate) first_uncertain_ticks: u64,
}

impl Span {
    pub(crate) fn new(report: &SessionReport) -> Self {
        Self {
            session: report.id as u32,
            window: report.window(),
            returned_ns: report.returned_ns,
            low_watermark: report.low_watermark,
            first_uncertain_ticks: u64::MAX,
            ..Self::default()
        }
    }
}

/// Which records of a process the output shows, and from when to when: all that a thread that picks records needs.
#[derive(Clone, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) trace: &'a Trace,
    /// Added to vendor ns: the output's clock.
    pub(crate) offset: i64,
    pub(crate) only: Option<u32>,
    /// True when the output shows what is issued and not yet done.
    pub(crate) wants_issues: bool,
    pub(crate) spans: Vec<Span>,
    /// End of the last event, vendor ns.
    pub(crate) last_ns: u64,
}

/// Where a record of the output lies in time, in the output's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Shown<'_> {
    /// True when records of that session are exported.
    #[inline]
    pub(crate) fn takes_session(&self, session: u32) -> bool {
        self.only.is_none_or(|only| only == session)
    }

    /// Index of a session; `newest` remembers the one before.
    #[inline]
    pub(crate) fn span_index(&self, session: u32, newest: &mut usize) -> Option<usize> {
        if let Some(span) = self.spans.get(*newest)
            && span.session == session
        {
            return Some(*newest);
        }
        let at = self
            .spans
            .binary_search_by_key(&session, |span| span.session)
            .ok()?;
        *newest = at;
        Some(at)
    }

    /// Flags of a dispatch or copy that keep it from being drawn; 0 when it is drawn.
    #[inline]
    fn hidden(&self, record: &Record<'_>, span: Option<usize>) -> u16 {
        let window = span.map_or((0, u64::MAX), |at| self.spans[at].window);
        device_flags(record.flags(), record.start(), record.end(), window) & HIDING
    }

    /// True for a dispatch or copy that is drawn, of a session that is exported; `newest` remembers the session before.
    #[inline]
    pub(crate) fn is_drawn_work(&self, record: &Record<'_>, newest: &mut usize) -> bool {
        matches!(record.kind(), Some(Kind::Dispatch | Kind::Copy))
            && self.hidden(record, self.span_index(record.session(), newest)) == 0
    }

    /// Where open spans of a session end: when it was accounted for, or at its last record.
    pub(crate) fn close_ns(&self, session: u32) -> u64 {
        match self.span_index(session, &mut 0) {
            Some(at) if self.spans[at].returned_ns != 0 => self.spans[at].returned_ns,
            Some(at) => self.spans[at].newest_ns,
            None => self.last_ns,
        }
    }

    /// Vendor ns in the output's clock. Never wraps.
    #[inline]
    pub(crate) fn out_ns(&self, vendor_ns: u64) -> u64 {
        vendor_ns.saturating_add_signed(self.offset)
    }

    /// The agent whose device a dispatch or copy is drawn on.
    #[inline]
    pub(crate) fn work_agent(&self, record: &Record<'_>) -> u64 {
        let agent = record.agent();
        if record.kind() != Some(Kind::Copy) {
            return agent;
        }
        let to = record.destination_agent();
        let is_gpu = |handle| self.trace.facts().agent(handle).is_some_and(Agent::is_gpu);
        if is_gpu(to) || !is_gpu(agent) {
            to
        } else {
            agent
        }
    }

    /// The end of a record that starts at `start` (output's clock), or [`PENDING`] for what is still open.
    #[inline]
    fn end(&self, record: &Record<'_>, kind: Kind, start: u64, clock: &mut Clock<'_>) -> u64 {
        let end = record.end();
        match kind {
            Kind::Mark | Kind::RangeStart | Kind::RangeStop | Kind::Enqueue => start,
            Kind::OpenCall | Kind::OpenRange => PENDING,
            Kind::Api | Kind::Range if end == 0 => PENDING,
            Kind::Api | Kind::Range => self.out_ns(clock.vendor_ns(end)).max(start),
            _ => self.out_ns(end).max(start),
        }
    }

    /// The end of what was still open.
    pub(crate) fn settle(&self, place: &mut Place, record: &Record<'_>) {
        if place.end == PENDING {
            place.end = self
                .out_ns(self.close_ns(record.session()))
                .max(place.start);
        }
    }

    /// Where a record lies, if the output shows it and it starts in `from..to` (output's clock); `ticks` are the same bounds
    /// in host ticks, or wider ones.
    #[inline]
    pub(crate) fn place(
        &self,
        record: &Record<'_>,
        (from, to): (u64, Option<u64>),
        ticks: (u64, u64),
        newest: &mut usize,
        clock: &mut Clock<'_>,
    ) -> Option<Place> {
        let kind = record.kind()?;
        let (group, host) = order::group(kind)?;
        let start = record.start();
        if !self.takes_session(record.session()) || kind == Kind::Enqueue && !self.wants_issues {
            return None;
        }
        let start = if host {
            if start < ticks.0 || start > ticks.1 {
                return None;
            }
            clock.vendor_ns(start)
        } else {
            if start == 0 {
                return None;
            }
            start
        };
        let start = self.out_ns(start);
        if start < from || to.is_some_and(|to| start >= to) {
            return None;
        }
        if group == Group::Device {
            let span = self.span_index(record.session(), newest);
            if self.hidden(record, span) != 0 {
                return None;
            }
        }
        let end = self.end(record, kind, start, clock);
        let mut place = Place { start, end };
        self.settle(&mut place, record);
        Some(place)
    }
}

/// What the pass over the records counted.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) records: u64,
    pub(crate) untimed: u64,
    pub(crate) end_before_start: u64,
    pub(crate) outside_window: u64,
    pub(crate) has_issues: bool,
    /// Start of the first event, vendor ns.
    pub(crate) first_ns: u64,
    /// End of the last, vendor ns.
    pub(crate) last_ns: u64,
    pub(crate) samples: Vec<u64>,
    /// Time of all threads together.
    pub(crate) shared: Duration,
    /// Count of records at which the next sample is due, at the earliest.
    next_sample: u64,
}

impl Scan {
    /// Keeps the start of one record in `step`.
    #[inline]
    fn sample(&mut self, step: u64, start: u64) {
        if self.next_sample <= self.records {
            self.next_sample = self.records + step - self.records % step;
            if self.records.is_multiple_of(step) {
                self.samples.push(start);
            }
        }
    }
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            records: 0,
            untimed: 0,
            end_before_start: 0,
            outside_window: 0,
            has_issues: false,
            first_ns: u64::MAX,
            last_ns: 0,
            samples: Vec::new(),
            shared: Duration::ZERO,
            next_sample: 0,
        }
    }
}

/// What the records refer to.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) agents: BTreeSet<u64>,
    pub(crate) streams: BTreeSet<u32>,
    pub(crate) threads: BTreeSet<u32>,
    pub(crate) operations: IdMap<u32, ()>,
}

/// What the pass gives.
#[derive(Debug, Default)]
pub(crate) struct Result<'a> {
    pub(crate) found: Found,
    pub(crate) scan: Scan,
    pub(crate) launches: LaunchTable,
    pub(crate) externals: Externals,
    pub(crate) drawn: Option<Drawn>,
    /// What stands for the tables where they have no room.
    pub(crate) windows: Option<Windows>,
    /// First and last start of what the output shows of each run, output's clock.
    pub(crate) bounds: Vec<(u64, u64)>,
    /// All records that the output shows, when they are few enough to be held.
    pub(crate) ready: Option<Stretch<'a>>,
}

/// How the pass is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Index of the process.
    pub(crate) index: usize,
    /// Records that may be held at most, on one thread.
    pub(crate) room: usize,
    pub(crate) threads: usize,
    /// What tables of ids may have, bytes, and what they and the records that are held may have together.
    pub(crate) table_bytes: u64,
    pub(crate) bytes: u64,
}

/// Shares out `count` things to threads; what each gives, in order. Where the system makes no thread the calling one does it,
/// when its turn comes.
pub(crate) fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    take: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    if threads <= 1 {
        return vec![take(0..count)];
    }
    let each = count.div_ceil(threads).max(1);
    let take = &take;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|at| (at * each).min(count)..((at + 1) * each).min(count))
            .map(|share| {
                let builder = std::thread::Builder::new().name("scan".to_owned());
                let own = share.clone();
                let started = builder.spawn_scoped(scope, move || take(share));
                started.map_err(|_| own)
            })
            .collect();
        let joined = started.into_iter().map(|part| match part {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(share) => take(share),
        });
        joined.collect()
    })
}

/// Passes over all records of `process` and over those that never ended; counts them in its reports.
pub(crate) fn scan<'a>(process: &mut Process<'a>, settings: Settings) -> Result<'a> {
    let trace = process.trace;
    let step = (settings.room as u64 / 64).clamp(1, SAMPLE_STEP_MAX);
    let budget = Budget::new(settings.table_bytes);
    let new_pass = |tally| Pass::new(&process.shown, &process.reports, step, tally, &budget);
    // Outputs that show what is issued are those that number work.
    let counted = process.shown.wants_issues;
    let runs = trace.runs();
    let mut held = Held {
        all: (settings.threads <= 1).then(|| {
            // A record has a cell at least.
            let most = usize::try_from(trace.cells()).unwrap_or(usize::MAX);
            Stretch::with_room(most.min(settings.room))
        }),
        limit: 0,
        settings,
        budget: &budget,
    };
    let mut sharing = None;
    let (mut whole, bounds) = if settings.threads <= 1 {
        let mut pass = new_pass(Tally::own(counted, &budget));
        let bounds = pass.take_runs(&process.shown, 0..runs, |item| {
            if held.all.is_some() {
                held.add(item);
            }
        });
        (pass, bounds)
    } else {
        let shown = &process.shown;
        let shards = Arc::new(Shards::new(counted, &budget));
        let parts = on_threads(settings.threads, runs, |runs| {
            let mut pass = new_pass(Tally::shared(Feeder::new(shards.clone())));
            let bounds = pass.take_runs(shown, runs, |_| {});
            pass.tally.finish();
            (pass, bounds)
        });
        let mut whole = new_pass(Tally::shared(Feeder::new(shards.clone())));
        let mut all = Vec::with_capacity(runs);
        for (pass, bounds) in parts {
            whole.merge(pass);
            all.extend(bounds);
        }
        sharing = Some(shards);
        (whole, all)
    };
    for record in (process.open.iter()).filter_map(|words| Record::parse(words).ok()) {
        whole.take(&process.shown, &record);
    }
    let own = whole.tally.finish();
    let tables = own.or_else(|| sharing.map(|shards| shards.take()));
    if budget.is_spent() {
        // Too many ids: each stretch looks up its own instead.
        drop(tables);
        whole.result.externals = Externals::default();
        let windows = Windows::new(&process.shown, whole.has_ancestors, settings.threads);
        whole.result.windows = Some(windows);
    } else if let Some((launches, drawn)) = tables {
        (whole.result.launches, whole.result.drawn) = (launches, Some(drawn));
    }
    let mut result = whole.finish(process);
    result.bounds = bounds;
    let mut ready = held.all;
    if let Some(all) = &mut ready {
        for item in all.items_mut() {
            let shown = &process.shown;
            shown.settle(&mut item.place, &item.record);
        }
    }
    result.ready = ready;
    result
}

/// All records that the output shows, as long as they have room.
struct Held<'a, 'b> {
    all: Option<Stretch<'a>>,
    /// It is asked again whether more have room when there are so many.
    limit: usize,
    settings: Settings,
    budget: &'b Budget,
}

impl<'a> Held<'a, '_> {
    /// Not inlined: the loop that calls it would not be one with its iterator.
    #[inline(never)]
    fn add(&mut self, (place, record): (Place, Record<'a>)) {
        let Some(all) = &mut self.all else { return };
        if all.len() == self.limit {
            let Settings {
                room,
                table_bytes,
                bytes,
                ..
            } = self.settings;
            let held = self.limit as u64 * order::RECORD_BYTES;
            if self.limit == room || held + (table_bytes - self.budget.left()) > bytes {
                // They are picked stretch by stretch instead.
                self.all = None;
                return;
            }
            self.limit = room.min(self.limit + LIMIT_STEP);
        }
        all.push(Item::new(self.settings.index, place, record));
    }
}

/// A part of the pass.
#[derive(Debug)]
struct Pass<'a> {
    result: Result<'a>,
    tally: Tally,
    budget: Budget,
    reports: Vec<SessionReport>,
    spans: Vec<Span>,
    clock: Clock<'a>,
    step: u64,
    first_ticks: u64,
    last_ticks: u64,
    has_ancestors: bool,
    /// Work that the table of launches does not have.
    has_strays: bool,
    newest_span: usize,
    newest_thread: Option<u32>,
    newest_place: Option<(u64, u32)>,
    newest_operation: Option<u32>,
}

impl<'a> Pass<'a> {
    fn new(
        shown: &Shown<'a>,
        reports: &[SessionReport],
        step: u64,
        tally: Tally,
        budget: &Budget,
    ) -> Self {
        // Only what the records add, to be put together later.
        let reports = reports.iter().map(|report| SessionReport {
            id: report.id,
            begin_ns: report.begin_ns,
            returned_ns: report.returned_ns,
            ..SessionReport::default()
        });
        Self {
            result: Result::default(),
            tally,
            budget: budget.clone(),
            reports: reports.collect(),
            spans: shown.spans.clone(),
            clock: Clock::new(shown.trace.clock()),
            step,
            first_ticks: u64::MAX,
            last_ticks: 0,
            has_ancestors: false,
            has_strays: false,
            newest_span: 0,
            newest_thread: None,
            newest_place: None,
            newest_operation: None,
        }
    }

    /// Takes some runs and says what each covers.
    fn take_runs(
        &mut self,
        shown: &Shown<'a>,
        runs: Range<usize>,
        mut found: impl FnMut((Place, Record<'a>)),
    ) -> Vec<(u64, u64)> {
        let mut watch = Watch::start();
        let mut bounds = Vec::with_capacity(runs.len());
        for run in runs {
            let mut covered = (u64::MAX, 0);
            // Not a loop: the iterator's own one knows its inner state.
            shown.trace.entries_of(run..run + 1).for_each(|entry| {
                if let Some(place) = self.take(shown, &entry.record) {
                    covered = (covered.0.min(place.start), covered.1.max(place.start));
                    found((place, entry.record));
                }
            });
            bounds.push(covered);
        }
        self.result.scan.shared += watch.lap();
        bounds
    }

    /// Takes one record; when the output shows it, where. Ends of what is open are [`PENDING`].
    #[inline]
    fn take(&mut self, shown: &Shown<'_>, record: &Record<'_>) -> Option<Place> {
        if !shown.takes_session(record.session()) {
            return None;
        }
        match record.kind()? {
            kind @ (Kind::Dispatch | Kind::Copy) => self.take_work(shown, record, kind),
            kind => self.take_other(shown, record, kind),
        }
    }

    /// Takes a dispatch or copy.
    #[inline]
    fn take_work(&mut self, shown: &Shown<'_>, record: &Record<'_>, kind: Kind) -> Option<Place> {
        // They have two cells, all of them.
        let words = record.words().first_chunk::<16>()?;
        let (start, end, id) = (words[1], words[2], words[3]);
        let result = &mut self.result;
        let scan = &mut result.scan;
        scan.records += 1;
        let span = shown.span_index(record.session(), &mut self.newest_span);
        let window = span.map_or((0, u64::MAX), |at| self.spans[at].window);
        let flags = device_flags(record.flags(), start, end, window);
        if let Some(at) = span {
            if flags != 0 {
                self.reports[at].add(record);
            } else if kind == Kind::Dispatch {
                self.reports[at].dispatches.recorded += 1;
            } else {
                self.reports[at].copies.recorded += 1;
            }
        }
        let hidden = flags & HIDING;
        if hidden != 0 {
            scan.untimed += u64::from(hidden & flag::UNTIMED != 0);
            scan.end_before_start += u64::from(hidden & flag::END_BEFORE_START != 0);
            scan.outside_window += u64::from(hidden & flag::OUTSIDE_WINDOW != 0);
            self.has_strays = true;
            return None;
        }
        self.has_ancestors |= words[4] != 0;
        if id == 0 {
            self.has_strays = true;
        } else {
            self.tally.work(id);
        }
        if shown.wants_issues && kind == Kind::Dispatch {
            self.tally.drawn(words[5]);
        }
        let place = (shown.work_agent(record), stream_key(record));
        if self.newest_place != Some(place) {
            self.newest_place = Some(place);
            result.found.agents.insert(place.0);
            result.found.streams.insert(place.1);
        }
        scan.first_ns = scan.first_ns.min(start);
        scan.last_ns = scan.last_ns.max(end);
        if let Some(at) = span {
            let span = &mut self.spans[at];
            span.newest_ns = span.newest_ns.max(end);
        }
        let out = shown.out_ns(start);
        scan.sample(self.step, out);
        Some(Place {
            start: out,
            end: shown.out_ns(end).max(out),
        })
    }

    /// Takes what is no dispatch and no copy.
    #[inline]
    fn take_other(&mut self, shown: &Shown<'_>, record: &Record<'_>, kind: Kind) -> Option<Place> {
        let result = &mut self.result;
        let scan = &mut result.scan;
        let Some((_, host)) = order::group(kind) else {
            scan.has_issues |= kind == Kind::CopyIssue;
            if kind == Kind::External && external::is_shown(record) {
                result.externals.add_within(record, &self.budget);
            }
            return None;
        };
        let span = shown.span_index(record.session(), &mut self.newest_span);
        if let Some(at) = span {
            self.reports[at].add(record);
        }
        scan.records += 1;
        let (start, end) = (record.start(), record.end());
        match kind {
            Kind::Api | Kind::OpenCall => {
                self.tally.call(record.correlation_id());
                let operation = order::operation_key(record);
                if self.newest_operation != Some(operation) {
                    self.newest_operation = Some(operation);
                    result.found.operations.insert(operation, ());
                }
            }
            Kind::Enqueue => {
                scan.has_issues = true;
                if let Some(at) = span {
                    let span = &mut self.spans[at];
                    if record.correlation_id() > span.low_watermark {
                        span.first_uncertain_ticks = span.first_uncertain_ticks.min(start);
                    }
                }
                return shown.wants_issues.then(|| {
                    let start = shown.out_ns(self.clock.vendor_ns(start));
                    Place { start, end: start }
                });
            }
            Kind::Alloc | Kind::Scratch if start == 0 => return None,
            Kind::Alloc => {
                result.found.agents.insert(record.agent());
            }
            _ => {}
        }
        let vendor_ns = if host {
            self.first_ticks = self.first_ticks.min(start);
            self.last_ticks = self.last_ticks.max(start).max(end);
            self.clock.vendor_ns(start)
        } else {
            scan.first_ns = scan.first_ns.min(start);
            scan.last_ns = scan.last_ns.max(start).max(end);
            start
        };
        if self.newest_thread != Some(record.thread()) {
            self.newest_thread = Some(record.thread());
            result.found.threads.insert(record.thread());
        }
        if let Some(at) = span {
            let span = &mut self.spans[at];
            if host {
                span.newest_ticks = span.newest_ticks.max(start).max(end);
            } else {
                span.newest_ns = span.newest_ns.max(start).max(end);
            }
        }
        let out = shown.out_ns(vendor_ns);
        scan.sample(self.step, out);
        Some(Place {
            start: out,
            end: shown.end(record, kind, out, &mut self.clock),
        })
    }

    /// Adds what another part found.
    fn merge(&mut self, other: Self) {
        let (mine, theirs) = (&mut self.result, other.result);
        mine.found.agents.extend(theirs.found.agents);
        mine.found.streams.extend(theirs.found.streams);
        mine.found.threads.extend(theirs.found.threads);
        mine.found.operations.extend(theirs.found.operations);
        mine.externals.merge(theirs.externals);
        let (scan, more) = (&mut mine.scan, theirs.scan);
        scan.records += more.records;
        scan.shared += more.shared;
        scan.untimed += more.untimed;
        scan.end_before_start += more.end_before_start;
        scan.outside_window += more.outside_window;
        scan.has_issues |= more.has_issues;
        scan.first_ns = scan.first_ns.min(more.first_ns);
        scan.last_ns = scan.last_ns.max(more.last_ns);
        scan.samples.extend(more.samples);
        for (report, more) in self.reports.iter_mut().zip(&other.reports) {
            add_counts(report, more);
        }
        for (span, more) in self.spans.iter_mut().zip(&other.spans) {
            span.newest_ns = span.newest_ns.max(more.newest_ns);
            span.newest_ticks = span.newest_ticks.max(more.newest_ticks);
            span.first_uncertain_ticks = span.first_uncertain_ticks.min(more.first_uncertain_ticks);
        }
        self.first_ticks = self.first_ticks.min(other.first_ticks);
        self.last_ticks = self.last_ticks.max(other.last_ticks);
        self.has_ancestors |= other.has_ancestors;
        self.has_strays |= other.has_strays;
    }

    /// What needs all records: ends, joins, verdicts.
    fn finish(mut self, process: &mut Process<'a>) -> Result<'a> {
        let result = &mut self.result;
        let scan = &mut result.scan;
        if self.first_ticks != u64::MAX {
            scan.first_ns = scan.first_ns.min(self.clock.vendor_ns(self.first_ticks));
            scan.last_ns = scan.last_ns.max(self.clock.vendor_ns(self.last_ticks));
        }
        for span in &mut self.spans {
            if span.newest_ticks != 0 {
                span.newest_ns = span.newest_ns.max(self.clock.vendor_ns(span.newest_ticks));
            }
        }
        process.shown.spans = self.spans;
        // Where all work leads to a call by its own id, no second pass has anything to find.
        let is_whole = result.windows.is_none();
        let is_linked = is_whole && result.launches.is_linked();
        let linked = is_linked && !self.has_strays;
        if is_whole && self.has_ancestors && !linked {
            count_by_target(process, &mut result.launches);
        }
        result.externals.finish();
        for (report, more) in process.reports.iter_mut().zip(&self.reports) {
            add_counts(report, more);
        }
        // The table has all calls, and only those.
        let is_same = is_whole && process.shown.only.is_none() && !process.has_inside;
        if !(linked && is_same) {
            no_launch::count(process, is_same.then_some(&result.launches));
        }
        if !is_linked {
            result.launches.forget_strays();
        }
        for report in &mut process.reports {
            report.judge();
        }
        for report in &process.reports {
            let end = process.close_ns(report.id as u32);
            scan.last_ns = scan.last_ns.max(end);
        }
        process.shown.last_ns = scan.last_ns;
        self.result
    }
}

fn add_counts(report: &mut SessionReport, more: &SessionReport) {
    report.dispatches.recorded += more.dispatches.recorded;
    report.copies.recorded += more.copies.recorded;
    report.api_recorded += more.api_recorded;
    report.flagged.untimed += more.flagged.untimed;
    report.flagged.end_before_start += more.flagged.end_before_start;
    report.flagged.outside_window += more.flagged.outside_window;
    report.flagged.unknown_stream += more.flagged.unknown_stream;
}

/// Counts device work again, now that all calls are known: some of it leads to a call by its ancestor.
fn count_by_target(process: &Process<'_>, launches: &mut LaunchTable) {
    launches.forget_work();
    let (shown, mut newest) = (&process.shown, 0);
    for entry in process.trace.entries() {
        let record = entry.record;
        if shown.takes_session(record.session())
            && shown.is_drawn_work(&record, &mut newest)
            && let Some(target) = [record.correlation_id(), record.ancestor_id()]
                .into_iter()
                .find(|&id| launches.is_noted(id))
        {
            launches.add_work(target);
        }
    }
}
