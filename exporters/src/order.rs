//! All records in the order of time, in bounded memory.
//!
//! The records lie lane by lane, device records often newest first, and an API call lies where it ended. So the time axis
//! is cut into stretches of at most so many records (by quantiles of a sample), and stretch by stretch the records that
//! start in it are picked from the mapped pages, sorted (see [`crate::stretch`]) and given to a writer. A run of cells that has nothing in a
//! stretch is not looked at: the pass over the records has noted what each one covers. Memory is that of the stretches in
//! work, whatever the region's size and disorder.
//!
//! With more than one thread, stretches are picked and sorted ahead while the writer has an earlier one; it gets them in
//! the same order (see [`crate::pipeline`]).
//!
//! The order is total over the records' content: time, host before device, outer before inner, then every word. Records
//! that are equal in all that are the same record twice.

use strandline::embed::EXTERNAL_DOMAINS;
use strandline::record::{Kind, Record};

use crate::clock::Clock;
use crate::export::{ExportError, Options, Progress};
use crate::external::{EXTERNAL_BYTES, Externals};
use crate::join::Drawn;
use crate::model::{Model, Process, stream_key};
use crate::phases::{Phases, Watch};
use crate::pipeline::{self, Alone, Plan, Writer};
use crate::scan::{Place, Shown};
use crate::stretch::Stretch;
use crate::windows::Windows;

/// How often the progress is told, records.
const PROGRESS_STEP: u64 = 1 << 16;
/// Threads that share stretches get several each, so that the writer starts early; but none much smaller than this.
const STRETCHES_EACH: u64 = 4;
const SHARED_STRETCH_RECORDS: u64 = 1 << 14;

/// A record and where it goes, with what is asked most often: whoever has the items has no need of the records, which lie
/// anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) place: Place,
    pub(crate) record: Record<'a>,
    /// Its correlation id.
    pub(crate) id: u64,
    /// The stream's id (see [`stream_key`]) of a kernel or copy, else the thread's.
    pub(crate) key: u32,
    process: u16,
    pub(crate) kind: Option<Kind>,
    /// Of a dispatch that was issued: it is drawn, anywhere.
    pub(crate) is_drawn: bool,
}

impl<'a> Item<'a> {
    /// A record of process `index`.
    #[inline]
    pub(crate) fn new(index: usize, place: Place, record: Record<'a>) -> Self {
        let kind = record.kind();
        Self {
            place,
            record,
            id: record.correlation_id(),
            key: match kind {
                Some(Kind::Dispatch | Kind::Copy) => stream_key(&record),
                _ => record.thread(),
            },
            process: index as u16,
            kind,
            is_drawn: false,
        }
    }

    /// Index of its process.
    #[inline]
    pub(crate) fn process(&self) -> usize {
        usize::from(self.process)
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

/// Domain and number of an API record's operation.
#[inline]
pub(crate) fn operation_key(record: &Record<'_>) -> u32 {
    record.word(5) as u32 & 0x00ff_ffff
}

/// Cuts the time axis into about so many stretches: the first moment of each but the first.
fn cuts(samples: &[u64], stretches: u64) -> Vec<u64> {
    let mut cuts = Vec::new();
    for stretch in 1..stretches {
        let at = (stretch as u128 * samples.len() as u128 / u128::from(stretches)) as usize;
        if let Some(&cut) = samples.get(at)
            && cuts.last().is_none_or(|&before| before < cut)
        {
            cuts.push(cut);
        }
    }
    cuts
}

/// What the records of one process are picked from.
struct Source<'a> {
    index: usize,
    shown: Shown<'a>,
    drawn: Option<Drawn>,
    windows: Option<Windows>,
    bounds: Vec<(u64, u64)>,
    /// Calls and ranges that never ended, as records.
    open: Vec<Vec<u64>>,
}

/// What an export may have beside the mapped regions, bytes.
const MEMORY_BYTES: u64 = 256 << 20;
/// What it has beside the tables of ids and the records that are being put into order: blocks of output, names, threads.
const OTHER_BYTES: u64 = 64 << 20;
/// What those two may have together.
pub(crate) const ROOM_BYTES: u64 = MEMORY_BYTES - OTHER_BYTES;
/// Memory of a record that is being put into order, with what else there is for each of those, bytes.
pub(crate) const RECORD_BYTES: u64 = 96;
/// What it has more where each stretch has what it needs to know of launches: two ids at most, 24 bytes each.
const WINDOW_BYTES: u64 = 64;
/// External ids of a record then: one in each domain that is no field of the record itself.
const WINDOW_EXTERNALS: u64 = EXTERNAL_DOMAINS as u64 - 1;
/// Fewer than this are not put into order at once, however large the tables are.
const BATCH_RECORDS_MIN: usize = 1 << 16;

/// How many records are put into order at once: as many as asked for, fewer where the tables of ids leave less room. More
/// batches are picked then, which takes longer and changes nothing in the output.
pub(crate) fn batch_records(model: &Model<'_>, options: &Options<'_>) -> usize {
    let processes = &model.processes;
    let tables = processes.iter().map(Process::table_bytes).sum();
    let windows = || {
        processes
            .iter()
            .filter_map(|process| process.windows.as_ref())
    };
    let mut each = RECORD_BYTES;
    if windows().next().is_some() {
        each += WINDOW_BYTES;
    }
    if windows().any(Windows::have_externals) {
        each += WINDOW_EXTERNALS * EXTERNAL_BYTES;
    }
    within(options.batch_records_max, tables, each)
}

fn within(asked: usize, tables: u64, each: u64) -> usize {
    let room = ROOM_BYTES.saturating_sub(tables) / each;
    asked.min((room as usize).max(BATCH_RECORDS_MIN))
}

/// Gives all records to the writer, in order; returns how long each part of that took.
pub(crate) fn walk<W: Writer>(
    model: &mut Model<'_>,
    options: &Options<'_>,
    batch: usize,
    writer: &mut W,
) -> Result<Phases, ExportError> {
    let mut ready = Some(Stretch::new());
    let mut sources = Vec::new();
    for (index, process) in model.processes.iter_mut().enumerate() {
        sources.push(Source {
            index,
            shown: process.shown.clone(),
            drawn: process.drawn.take(),
            windows: process.windows.take(),
            bounds: std::mem::take(&mut process.bounds),
            open: std::mem::take(&mut process.open),
        });
        match (&mut ready, process.ready.take()) {
            (Some(all), Some(taken)) if all.len() == 0 => *all = taken,
            (Some(all), Some(mut taken)) => {
                taken.items_mut().iter().for_each(|&item| all.push(item))
            }
            _ => ready = None,
        }
    }
    let (processes, records_total) = (&model.processes[..], model.records);
    let mut records = 0;
    let mut tell = |more: u64, writer: &W| {
        let before = records;
        records += more;
        if let Some(progress) = options.progress
            && (before / PROGRESS_STEP != records / PROGRESS_STEP || more == 0)
        {
            progress(Progress {
                records,
                records_total,
                bytes: writer.bytes(),
            });
        }
    };
    let threads = options.threads.max(1);
    // One stretch is decided about while each thread picks another one.
    let held_max = if threads > 1 { threads + 1 } else { 1 };
    let mut each = (batch / held_max).max(1) as u64;
    if threads > 1 {
        let share = model.records / (STRETCHES_EACH * threads as u64);
        each = each.min(share.max(SHARED_STRETCH_RECORDS));
    }
    let cuts = cuts(&model.samples, model.records.div_ceil(each));
    // A stretch has about as many as were asked for.
    let stretch_records = (each + each / 4).min(model.records) as usize;
    let stretch = |at: usize| {
        let from = at.checked_sub(1).map_or(0, |before| cuts[before]);
        (from, cuts.get(at).copied())
    };
    let mut phases = Phases::default();
    if threads == 1 {
        let mut alone = Alone::new(writer, processes);
        let stretches = if ready.is_some() { 1 } else { cuts.len() + 1 };
        let mut filled = match ready {
            Some(_) => Stretch::new(),
            None => Stretch::with_room(stretch_records),
        };
        for at in 0..stretches {
            let mut watch = Watch::start();
            match ready.take() {
                Some(all) => {
                    filled = all;
                    for source in &sources {
                        source.pick_open((0, None), &mut filled);
                        source.mark_drawn(filled.items_mut());
                    }
                    look_up(&sources, 0, &mut filled);
                }
                None => fill(&sources, stretch(at), &mut filled),
            }
            filled.sort();
            phases.picking += watch.lap();
            alone.pass(writer, processes, &mut filled, &mut tell)?;
        }
        phases.add(&alone.phases);
    } else {
        let plan = Plan {
            threads,
            stretches: cuts.len() + 1,
            held_max,
            stretch_records,
        };
        let sources = &sources;
        let fill = |at: usize, filled: &mut _| fill(sources, stretch(at), filled);
        phases = pipeline::shared(writer, processes, plan, &fill, &mut tell)?;
    }
    tell(0, writer);
    Ok(phases)
}

/// All records that start in a stretch, as they lie.
fn fill<'a>(sources: &'a [Source<'_>], stretch: (u64, Option<u64>), filled: &mut Stretch<'a>) {
    filled.clear();
    for source in sources {
        source.pick(stretch, filled);
        source.pick_open(stretch, filled);
    }
    look_up(sources, stretch.0, filled);
}

/// What the records of a stretch that begins at `from` need to know of launches, where no table has it.
fn look_up(sources: &[Source<'_>], from: u64, filled: &mut Stretch<'_>) {
    let mut externals = Vec::new();
    for source in sources {
        if let Some(windows) = &source.windows {
            let (items, found) = filled.items_and_windows(sources.len());
            let (index, found) = (source.index, &mut found[source.index]);
            windows.fill(&source.shown, &source.open, from, items, index, found);
            if windows.have_externals() {
                externals.resize_with(sources.len(), Externals::default);
                externals[index] = windows.externals(&source.shown, found);
            }
        }
    }
    filled.set_externals(externals);
}

impl Source<'_> {
    fn pick<'a>(&'a self, (from, to): (u64, Option<u64>), filled: &mut Stretch<'a>) {
        let mut clock = Clock::new(self.shown.trace.clock());
        // The same bounds in host ticks: most records of other stretches are told apart without converting their times.
        let vendor = |out: u64| out.saturating_add_signed(self.shown.offset.saturating_neg());
        let ticks = (
            // Times before the output's clock began are all at its 0, however long before.
            if from == 0 {
                0
            } else {
                clock.ticks_at(vendor(from)).saturating_sub(1)
            },
            to.map_or(u64::MAX, |to| clock.ticks_at(vendor(to)).saturating_add(1)),
        );
        let mut newest = 0;
        for (run, &(first, last)) in self.bounds.iter().enumerate() {
            if first > last || last < from || to.is_some_and(|to| first >= to) {
                continue;
            }
            self.shown.trace.entries_of(run..run + 1).for_each(|entry| {
                let record = entry.record;
                if let Some(place) =
                    (self.shown).place(&record, (from, to), ticks, &mut newest, &mut clock)
                {
                    let mut item = Item::new(self.index, place, record);
                    self.mark_drawn(std::slice::from_mut(&mut item));
                    filled.push(item);
                }
            });
        }
    }

    /// Says of dispatches that were issued whether they are drawn.
    #[inline]
    fn mark_drawn(&self, items: &mut [Item<'_>]) {
        let Some(drawn) = &self.drawn else { return };
        for item in items {
            if item.kind == Some(Kind::Enqueue) && item.process() == self.index {
                item.is_drawn = drawn.contains(item.record.dispatch_id());
            }
        }
    }

    fn pick_open<'a>(&'a self, stretch: (u64, Option<u64>), filled: &mut Stretch<'a>) {
        let mut clock = Clock::new(self.shown.trace.clock());
        for record in (self.open.iter()).filter_map(|words| Record::parse(words).ok()) {
            let ticks = (0, u64::MAX);
            let place = (self.shown).place(&record, stretch, ticks, &mut 0, &mut clock);
            if let Some(place) = place {
                filled.push(Item::new(self.index, place, record));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tables_leave_room_for_fewer_records() {
        let asked = Options::default().batch_records_max;
        let within = |asked, tables| within(asked, tables, RECORD_BYTES);
        assert_eq!((within(asked, 0), within(asked, 40 << 20)), (asked, asked));
        assert_eq!(within(1_000, 1 << 40), 1_000);
        // The largest tables.
        let few = within(asked, Options::default().table_bytes_max);
        assert!((asked / 3..asked / 2).contains(&few), "{few}");
        assert_eq!(within(asked, 1 << 40), BATCH_RECORDS_MIN);
    }
}
