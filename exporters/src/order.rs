//! All records in the order of time, in bounded memory.
//!
//! The records lie lane by lane, device records often newest first, and an API call lies where it ended. So the time axis
//! is cut into stretches of at most so many records (by quantiles of a sample), and stretch by stretch the records that
//! start in it are picked from the mapped pages, sorted and given to a visitor. Memory is that of one stretch, whatever
//! the region's size and disorder.
//!
//! The order is total over the records' content: time, host before device, outer before inner, then every word. Records
//! that are equal in all that are the same record twice.

use std::cmp::Ordering;

use strandline::record::{Kind, Record};

use crate::export::{ExportError, Options, Progress};
use crate::model::{Model, Process};

/// How often the progress is told, records.
const PROGRESS_STEP: u64 = 1 << 16;

/// A record and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    /// Start, in the output's clock.
    pub(crate) start: u64,
    /// Index of the process.
    pub(crate) process: u16,
    group: Group,
    pub(crate) record: Record<'a>,
}

impl<'a> Item<'a> {
    /// A record of process `index` that starts at `start`.
    #[inline]
    pub(crate) fn new(start: u64, index: usize, group: Group, record: Record<'a>) -> Self {
        Self {
            start,
            process: index as u16,
            group,
            record,
        }
    }
}

/// What comes first at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Calls and ranges.
    Span,
    /// What has no length, or none that is drawn.
    Instant,
    /// Kernels and copies.
    Device,
}

/// Takes records in order.
pub(crate) trait Visitor {
    /// One record that starts at `start` and ends at `end`, in the output's clock.
    fn item(
        &mut self,
        process: &mut Process<'_>,
        index: usize,
        record: &Record<'_>,
        start: u64,
        end: u64,
    ) -> Result<(), ExportError>;

    /// Bytes written so far.
    fn bytes(&self) -> u64;
}

/// The group of a kind that outputs show, and whether its times are host ticks.
#[inline]
pub(crate) fn group(kind: Kind) -> Option<(Group, bool)> {
    Some(match kind {
        Kind::Api | Kind::OpenCall | Kind::Range | Kind::OpenRange => (Group::Span, true),
        Kind::Mark | Kind::RangeStart | Kind::RangeStop | Kind::Enqueue => (Group::Instant, true),
        Kind::Alloc | Kind::Scratch => (Group::Instant, false),
        Kind::Dispatch | Kind::Copy => (Group::Device, false),
        _ => return None,
    })
}

/// End of a record in the output's clock; open spans end with their session.
fn end_of(process: &Process<'_>, record: &Record<'_>, host: bool, start: u64) -> u64 {
    let end = record.end();
    let end = match record.kind() {
        Some(Kind::Mark | Kind::RangeStart | Kind::RangeStop | Kind::Enqueue) => return start,
        Some(Kind::OpenCall | Kind::OpenRange) => process.close_ns(record.session()),
        _ if !host => end,
        _ if end == 0 => process.close_ns(record.session()),
        _ => process.trace.clock().vendor_ns(end),
    };
    process.out_ns(end).max(start)
}

fn compare(model: &[Process<'_>], one: &Item<'_>, other: &Item<'_>) -> Ordering {
    one.start
        .cmp(&other.start)
        .then(one.group.cmp(&other.group))
        .then_with(|| {
            let end = |item: &Item<'_>| {
                let process = &model[usize::from(item.process)];
                let host = item.group != Group::Device;
                end_of(process, &item.record, host, item.start)
            };
            if one.group == Group::Instant {
                Ordering::Equal
            } else {
                end(other).cmp(&end(one))
            }
        })
        .then(one.process.cmp(&other.process))
        .then_with(|| rank(&one.record).cmp(&rank(&other.record)))
        .then_with(|| one.record.words().cmp(other.record.words()))
}

/// Ranges lie above API calls, outer calls above inner ones.
fn rank(record: &Record<'_>) -> (u8, u8) {
    match record.kind() {
        Some(Kind::Range | Kind::OpenRange) => (0, record.depth()),
        Some(Kind::Api | Kind::OpenCall) => (1, record.depth()),
        Some(Kind::Dispatch) => (2, 0),
        _ => (3, 0),
    }
}

/// Cuts the time axis: the first moment of each stretch but the first.
fn cuts(model: &Model<'_>, batch_records_max: usize) -> Vec<u64> {
    let stretches = model.records.div_ceil(batch_records_max.max(1) as u64);
    let mut cuts = Vec::new();
    for stretch in 1..stretches {
        let at = stretch as usize * model.samples.len() / stretches as usize;
        if let Some(&cut) = model.samples.get(at)
            && cuts.last().is_none_or(|&before| before < cut)
        {
            cuts.push(cut);
        }
    }
    cuts
}

/// Gives all records to the visitor, in order.
pub(crate) fn walk(
    model: &mut Model<'_>,
    options: &Options<'_>,
    visitor: &mut impl Visitor,
) -> Result<(), ExportError> {
    let ready = model
        .processes
        .iter()
        .all(|process| process.ready.is_some());
    let cuts = if ready {
        Vec::new()
    } else {
        cuts(model, options.batch_records_max)
    };
    let records_total = model.records;
    let mut records = 0u64;
    let tell = |records: u64, bytes: u64| {
        if let Some(progress) = options.progress {
            progress(Progress {
                records,
                records_total,
                bytes,
            });
        }
    };
    let mut open: Vec<Vec<u64>> = Vec::new();
    let mut open_of: Vec<(usize, usize)> = Vec::new();
    for (index, process) in model.processes.iter_mut().enumerate() {
        for words in std::mem::take(&mut process.open) {
            open_of.push((index, open.len()));
            open.push(words);
        }
    }
    let mut items: Vec<Item<'_>> = Vec::new();
    for stretch in 0..=cuts.len() {
        let from = if stretch == 0 { 0 } else { cuts[stretch - 1] };
        let to = cuts.get(stretch).copied();
        items.clear();
        for (index, process) in model.processes.iter_mut().enumerate() {
            let trace = process.trace;
            let taken = process.ready.take();
            match taken {
                Some(taken) if ready && items.is_empty() => items = taken,
                Some(taken) if ready => items.extend(taken),
                _ => {
                    let records = trace.entries().map(|entry| entry.record);
                    pick(process, index, from, to, records, &mut items);
                }
            }
            let its_own = open_of
                .iter()
                .filter(|(owner, _)| *owner == index)
                .filter_map(|&(_, at)| Record::parse(&open[at]).ok());
            pick(process, index, from, to, its_own, &mut items);
        }
        let processes = &model.processes;
        items.sort_by(|one, other| compare(processes, one, other));
        for item in &items {
            let index = usize::from(item.process);
            let process = &mut model.processes[index];
            let end = span_end(process, item);
            visitor.item(process, index, &item.record, item.start, end)?;
            records += 1;
            if records.is_multiple_of(PROGRESS_STEP) {
                tell(records, visitor.bytes());
            }
        }
    }
    tell(records, visitor.bytes());
    Ok(())
}

/// As [`end_of`], with the clock that remembers.
#[inline]
fn span_end(process: &mut Process<'_>, item: &Item<'_>) -> u64 {
    let end = item.record.end();
    match item.record.kind() {
        Some(Kind::Api | Kind::Range) if end != 0 => {
            let end = process.clock.vendor_ns(end);
            process.out_ns(end).max(item.start)
        }
        Some(Kind::Dispatch | Kind::Copy | Kind::Alloc | Kind::Scratch) => {
            process.out_ns(end).max(item.start)
        }
        _ => end_of(process, &item.record, true, item.start),
    }
}

fn pick<'a>(
    process: &mut Process<'_>,
    index: usize,
    from: u64,
    to: Option<u64>,
    records: impl Iterator<Item = Record<'a>>,
    items: &mut Vec<Item<'a>>,
) {
    // The same bounds in host ticks: most records of other stretches are told apart without converting their times.
    let vendor = |out: u64| out.saturating_add_signed(process.offset.saturating_neg());
    let whole = from == 0 && to.is_none();
    let (first_ticks, end_ticks) = if whole {
        (0, u64::MAX)
    } else {
        (
            process.clock.ticks_at(vendor(from)).saturating_sub(1),
            to.map_or(u64::MAX, |to| {
                process.clock.ticks_at(vendor(to)).saturating_add(1)
            }),
        )
    };
    for record in records {
        let Some((group, host)) = record.kind().and_then(group) else {
            continue;
        };
        let start = record.start();
        if !process.takes_session(record.session())
            || record.kind() == Some(Kind::Enqueue) && !process.wants_issues
        {
            continue;
        }
        let start = if host {
            if start < first_ticks || start > end_ticks {
                continue;
            }
            process.clock.vendor_ns(start)
        } else {
            if start == 0 || group == Group::Device && process.hidden(&record) != 0 {
                continue;
            }
            start
        };
        let start = process.out_ns(start);
        if start < from || to.is_some_and(|to| start >= to) {
            continue;
        }
        items.push(Item::new(start, index, group, record));
    }
}
