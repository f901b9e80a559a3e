//! What a trace says of itself, session by session: the counts that every export shows.
//!
//! Recorded work is counted from the records that are really there; what was issued comes from the session's closing
//! record or, when the process died first, from the lanes' counters. A region whose mode does not keep everything (flight
//! mode once it reuses segments, the live region of stream mode) holds fewer records than were recorded, and that is no
//! loss: there the recorded work comes from the same counters, and [`SessionReport::not_kept`] says how many records the
//! file does not hold.

use std::collections::HashMap;

use crate::counters::Counter;
use crate::header::Mode;
use crate::loss::{LossReason, Losses};
use crate::record::{Kind, Record, flag};
use crate::session_end::{Proof, SessionEnd, Verdict, Work};
use crate::trace::Trace;

/// Odd records of a session: in the trace, and flagged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flagged {
    /// Belongs to the session, its time lies outside the session's window.
    pub outside_window: u64,
    /// No start or no end time.
    pub untimed: u64,
    /// The end lies before the start.
    pub end_before_start: u64,
    /// No enclosing call named the stream.
    pub unknown_stream: u64,
    /// No recorded API call leads to it.
    pub no_launch: u64,
}

/// One session's report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionReport {
    /// The session's number.
    pub id: u64,
    /// Verdict over what is in the file.
    pub verdict: Verdict,
    /// What it rests on.
    pub proof: Proof,
    /// Dispatches.
    pub dispatches: Work,
    /// Copies.
    pub copies: Work,
    /// API calls recorded whole.
    pub api_recorded: u64,
    /// API calls and ranges open at stop.
    pub open_at_stop: u64,
    /// See [`SessionEnd::low_watermark`].
    pub low_watermark: u64,
    /// See [`SessionEnd::high_watermark`].
    pub high_watermark: u64,
    /// Records that came after the session was accounted for.
    pub late: u64,
    /// Losses by reason.
    pub lost: Losses,
    /// See [`SessionEnd::first_loss_ns`].
    pub first_loss_ns: u64,
    /// See [`SessionEnd::last_loss_ns`].
    pub last_loss_ns: u64,
    /// Odd records.
    pub flagged: Flagged,
    /// When it was opened, vendor ns.
    pub begin_ns: u64,
    /// See [`SessionEnd::requested_ns`]; 0 when the session never ended.
    pub requested_ns: u64,
    /// See [`SessionEnd::last_arrival_ns`].
    pub last_arrival_ns: u64,
    /// See [`SessionEnd::returned_ns`].
    pub returned_ns: u64,
    /// True when the process died, or still runs, before the session was accounted for.
    pub unfinished: bool,
    /// True when correlation-id retirement was switched off.
    pub retirement_off: bool,
    /// Dispatches, copies and API calls that were recorded, and that the file does not hold any more because its mode
    /// keeps only the newest (flight) or has moved them to another file (stream). No loss.
    pub not_kept: u64,
    /// In such a file: dispatches, copies and API calls that were recorded, as counted when they were; else 0.
    pub counted: [u64; 3],
}

impl SessionReport {
    /// True when nothing is missing, lost, late or retired without a record.
    pub fn is_clean(&self) -> bool {
        matches!(self.verdict, Verdict::Complete | Verdict::Empty)
            && self.late == 0
            && self.lost.total() == 0
            && self.dispatches.retired_without_record == 0
            && self.copies.retired_without_record == 0
    }

    /// Dispatches and copies that were issued and neither recorded nor retired.
    pub fn missing(&self) -> u64 {
        (self.dispatches.missing()).saturating_add(self.copies.missing())
    }

    /// The window in vendor ns: from the session's start to the moment it was accounted for. Work that was issued in
    /// the session and ran after the stop was asked for lies within it.
    pub fn window(&self) -> (u64, u64) {
        (
            self.begin_ns,
            if self.returned_ns == 0 {
                u64::MAX
            } else {
                self.returned_ns
            },
        )
    }

    /// Counts one of the session's records, all but [`Flagged::no_launch`].
    #[inline]
    pub fn add(&mut self, record: &Record<'_>) {
        let window = self.window();
        let work = match record.kind() {
            Some(Kind::Dispatch) => &mut self.dispatches,
            Some(Kind::Copy) => &mut self.copies,
            Some(Kind::Api) => {
                self.api_recorded += 1;
                return;
            }
            _ => return,
        };
        work.recorded += 1;
        let flags = device_flags(record.flags(), record.start(), record.end(), window);
        if flags != 0 {
            let flagged = &mut self.flagged;
            flagged.untimed += u64::from(flags & flag::UNTIMED != 0);
            flagged.end_before_start += u64::from(flags & flag::END_BEFORE_START != 0);
            flagged.outside_window += u64::from(flags & flag::OUTSIDE_WINDOW != 0);
            flagged.unknown_stream += u64::from(flags & flag::UNKNOWN_STREAM != 0);
        }
    }

    /// The verdict over what is really in the file: never better than the closing record said. Call once, when all
    /// records are counted.
    pub fn judge(&mut self) {
        let kept = [
            &mut self.dispatches.recorded,
            &mut self.copies.recorded,
            &mut self.api_recorded,
        ];
        for (kept, counted) in kept.into_iter().zip(self.counted) {
            self.not_kept += counted.saturating_sub(*kept);
            *kept = counted.max(*kept);
        }
        let missing = self.missing();
        let issued = (self.dispatches.issued).saturating_add(self.copies.issued);
        // The lanes' counters for a session are gone once eight newer ones had records; without its end, too, nobody knows
        // what was issued.
        let uncounted = self.dispatches.recorded > self.dispatches.issued
            || self.copies.recorded > self.copies.issued;
        if self.unfinished {
            self.proof = Proof::None;
            self.verdict = if missing > 0 || uncounted {
                Verdict::Incomplete
            } else if issued == 0 {
                Verdict::Empty
            } else {
                self.proof = Proof::Pairs;
                Verdict::Complete
            };
        } else if missing > 0 && self.verdict != Verdict::Heuristic {
            self.verdict = Verdict::Incomplete;
        }
        if missing == 0 && self.unfinished && !uncounted {
            self.low_watermark = self.high_watermark;
        }
    }
}

/// A hasher for keys that are one word: the runtime's own spread instead of a keyed hash, which the passes over millions
/// of records would pay for.
#[derive(Clone, Copy, Debug, Default)]
struct WordHasher(u64);

impl std::hash::Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = crate::hash::word(self.0 ^ crate::hash::bytes(bytes));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = crate::hash::word(self.0 ^ word);
    }
}

type ByWord<T> = HashMap<u64, T, std::hash::BuildHasherDefault<WordHasher>>;

/// A set of ids that are dense in places.
#[derive(Clone, Debug, Default)]
pub struct IdSet(ByWord<[u64; 16]>);

impl IdSet {
    /// Adds an id.
    #[inline]
    pub fn insert(&mut self, id: u64) {
        self.0.entry(id >> 10).or_default()[(id >> 6 & 15) as usize] |= 1 << (id & 63);
    }

    /// True when the id was added.
    #[inline]
    pub fn contains(&self, id: u64) -> bool {
        self.0
            .get(&(id >> 10))
            .is_some_and(|page| page[(id >> 6 & 15) as usize] >> (id & 63) & 1 != 0)
    }
}

/// Which odd things hold for a dispatch or copy, given its session's window: `flag` bits.
pub fn device_flags(flags: u16, start: u64, end: u64, window: (u64, u64)) -> u16 {
    let mut out = flags & flag::UNKNOWN_STREAM;
    if start == 0 || end == 0 {
        out |= flag::UNTIMED;
    } else if end < start {
        out |= flag::END_BEFORE_START;
    } else if start < window.0 || start > window.1 {
        out |= flag::OUTSIDE_WINDOW;
    }
    out
}

/// The correlation ids of all recorded API calls: what a dispatch or copy can be joined to.
pub fn launch_ids(trace: &Trace) -> IdSet {
    let mut ids = IdSet::default();
    for entry in trace.entries() {
        if entry.record.kind() == Some(Kind::Api) {
            ids.insert(entry.record.correlation_id());
        }
    }
    for words in &trace.facts().open {
        if words[0] & 0xff == Kind::OpenCall as u64 {
            ids.insert(words[3]);
        }
    }
    ids
}

/// The reports of all sessions, in order; not of those that were released.
pub fn sessions(trace: &Trace) -> Vec<SessionReport> {
    let mut reports = outlines(trace);
    let launches = launch_ids(trace);
    let places = Places::of(&reports);
    for entry in trace.entries() {
        let record = entry.record;
        let Some(at) = places.find(record.session()) else {
            continue;
        };
        reports[at].add(&record);
        reports[at].flagged.no_launch += u64::from(lacks_launch(&record, &launches));
    }
    for report in &mut reports {
        report.judge();
    }
    reports
}

/// What facts and counters say of all sessions, in order, before their records are counted: a reader that passes over the
/// records anyway gives each to [`SessionReport::add`], adds [`Flagged::no_launch`], and calls [`SessionReport::judge`].
pub fn outlines(trace: &Trace) -> Vec<SessionReport> {
    let mut reports: Vec<SessionReport> = Vec::new();
    let begins = trace
        .facts()
        .session_begins
        .iter()
        .map(|begin| (begin.session, begin.vendor_ns));
    let ends = &trace.facts().session_ends;
    for (id, begin_ns) in begins.chain(ends.iter().map(|end| (end.session, end.begin_ns))) {
        let released = trace.facts().released.contains(&id);
        if !released && !reports.iter().rev().any(|report| report.id == id) {
            reports.push(SessionReport {
                id,
                begin_ns,
                ..SessionReport::default()
            });
        }
    }
    reports.sort_by_key(|report| report.id);
    let places = Places::of(&reports);
    for end in ends {
        if let Some(&at) = places.0.get(&end.session) {
            take_end(&mut reports[at], end);
        }
    }
    for report in &mut reports {
        take_counters(
            report,
            trace,
            !ends.iter().any(|end| end.session == report.id),
        );
    }
    let keeps_all = match trace.header().mode {
        Mode::Window => true,
        Mode::Flight => trace.reused_cells() == 0,
        Mode::Stream => trace.header().is_stream_output(),
    };
    if !keeps_all {
        for report in &mut reports {
            report.counted = counted(report.id, trace);
        }
    }
    reports
}

/// Where each session's report lies.
#[derive(Debug)]
struct Places(ByWord<usize>);

impl Places {
    fn of(reports: &[SessionReport]) -> Self {
        Self(
            reports
                .iter()
                .enumerate()
                .map(|(at, report)| (report.id, at))
                .collect(),
        )
    }

    #[inline]
    fn find(&self, session: u32) -> Option<usize> {
        self.0.get(&u64::from(session)).copied()
    }
}

/// True for a dispatch or copy whose ids lead to no recorded API call.
pub fn lacks_launch(record: &Record<'_>, launches: &IdSet) -> bool {
    let leads = |id| id != 0 && launches.contains(id);
    matches!(record.kind(), Some(Kind::Dispatch | Kind::Copy))
        && !leads(record.correlation_id())
        && !leads(record.ancestor_id())
}

/// Dispatches, copies and API calls that the closing record or the lanes count as recorded.
fn counted(session: u64, trace: &Trace) -> [u64; 3] {
    let ends = &trace.facts().session_ends;
    match ends.iter().rev().find(|end| end.session == session) {
        Some(end) => [
            end.dispatches.recorded,
            end.copies.recorded,
            end.api_recorded,
        ],
        None => trace.session_counters(session).map_or([0; 3], |block| {
            [
                Counter::DispatchRecorded,
                Counter::CopyRecorded,
                Counter::ApiRecorded,
            ]
            .map(|counter| block.get(counter))
        }),
    }
}

fn take_end(report: &mut SessionReport, end: &SessionEnd) {
    report.verdict = end.verdict;
    report.proof = end.proof;
    report.dispatches = Work {
        recorded: 0,
        ..end.dispatches
    };
    report.copies = Work {
        recorded: 0,
        ..end.copies
    };
    report.open_at_stop = end.open_at_stop;
    report.low_watermark = end.low_watermark;
    report.high_watermark = end.high_watermark;
    report.late = end.late;
    report.lost = end.lost;
    report.first_loss_ns = end.first_loss_ns;
    report.last_loss_ns = end.last_loss_ns;
    report.begin_ns = end.begin_ns;
    report.requested_ns = end.requested_ns;
    report.last_arrival_ns = end.last_arrival_ns;
    report.returned_ns = end.returned_ns;
    report.retirement_off = end.retirement_off;
}

fn take_counters(report: &mut SessionReport, trace: &Trace, unfinished: bool) {
    report.unfinished = unfinished;
    let counted = trace.session_counters(report.id);
    // A lane counts a session's late records in its counters for it, or has announced them when it gave those away.
    let announced = trace.facts().late.get(&report.id).copied().unwrap_or(0);
    let late = announced.saturating_add(counted.map_or(0, |block| block.get(Counter::Late)));
    report.late = report.late.max(late);
    let Some(block) = counted else {
        return;
    };
    let lost = block.lost();
    for (known, newer) in report.lost.0.iter_mut().zip(lost.0) {
        *known = (*known).max(newer);
    }
    // After the session was accounted for there may have been more: a late record without room.
    let when = |counter| match block.get(counter) {
        0 => 0,
        ticks => trace.clock().vendor_ns(ticks).max(report.begin_ns),
    };
    if report.first_loss_ns == 0 {
        report.first_loss_ns = when(Counter::FirstLossTicks);
    }
    // The books say the same moment by another conversion: only a loss after they were closed is news.
    let last = when(Counter::LastLossTicks);
    if report.last_loss_ns == 0 || last > report.returned_ns {
        report.last_loss_ns = report.last_loss_ns.max(last);
    }
    if unfinished {
        report.dispatches.issued = block.get(Counter::DispatchIssued);
        report.copies.issued = block.get(Counter::CopyIssued);
        report.high_watermark = block.get(Counter::HighId);
        report
            .lost
            .count(LossReason::SdkDropped, trace.sdk_dropped());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;

    #[test]
    fn a_session_without_its_end_and_counters_is_not_called_empty() {
        let mut region = Builder::new();
        region.session_begin(1, 1_000).session_begin(2, 2_000);
        // Start, end, correlation id, ancestor, dispatch id.
        let words = [1_100, 1_200, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        region.record(0, Kind::Dispatch, 1, &words);
        let reports = sessions(&region.trace());
        let verdicts: Vec<_> = reports.iter().map(|report| report.verdict).collect();
        assert_eq!(verdicts, [Verdict::Incomplete, Verdict::Empty]);
        assert_eq!(
            (reports[0].proof, reports[0].low_watermark),
            (Proof::None, 0)
        );
        region.counter(0, 1, Counter::DispatchIssued, 1);
        let reports = sessions(&region.trace());
        assert_eq!(reports[0].verdict, Verdict::Complete);
    }
}
