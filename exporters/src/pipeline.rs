//! The way of the records through a writer: one thread decides, any number of threads format, one puts in order.
//!
//! What an event needs to know of those before it (its lane, its number, whether an arrow leads to it, which names were
//! said already) is decided record by record, on the calling thread. That is cheap. Making text or packets of a record and
//! its decision is not, and needs nothing of other records: chunks of records are formatted on all threads. The
//! calling thread stitches the formatted chunks together, in order; the writer sees there how long each event became, so
//! that it can end a part between any two of them.
//!
//! Which thread formats what, and where chunks begin, shows nowhere in the output.
//!
//! Memory: the stretches (see [`crate::order`]) and about two chunks of [`CHUNK_BYTES`] for each thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::export::ExportError;
use crate::external::Externals;
use crate::join::LaunchTable;
use crate::model::Process;
use crate::order::Item;
use crate::phases::{Phases, Watch};
use crate::stretch::Stretch;
use crate::text::Line;

/// About so many bytes of output become one chunk, when several threads share the work and when one does all of it.
const CHUNK_BYTES: u64 = 512 << 10;
const ALONE_CHUNK_BYTES: u64 = 128 << 10;
/// Records of a chunk at least and at most, and before the first one is written.
const CHUNK_RECORDS_MIN: u64 = 16;
const CHUNK_RECORDS_MAX: u64 = 4096;
const CHUNK_RECORDS_FIRST: u64 = 512;

/// To the processor's caches records in order lie anywhere in the region: they are asked for so many ahead.
const AHEAD: usize = 16;

/// What a text is that the deciding thread makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An event.
    Event,
    /// The end of an earlier record's event.
    End,
    /// A name or description that later parts must say again.
    Definition,
    /// The end of an arrow on the event of an earlier record, with that record's number in the whole export.
    Arrow(u64),
}

/// A text that the deciding thread made by itself, between the events of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insert {
    pub(crate) what: What,
    /// It goes before the event of the record with this index in its chunk.
    pub(crate) before: usize,
    pub(crate) length: usize,
    /// Where it begins in the chunk's bytes; known when the chunk is formatted.
    pub(crate) place: usize,
}

/// The texts that the deciding thread made by itself, in order.
#[derive(Debug, Default)]
pub(crate) struct Inserts {
    list: Vec<Insert>,
    texts: Vec<u8>,
    /// Index of the record that is being decided.
    at: usize,
}

impl Inserts {
    /// Adds what `fill` appends, before the event of the record that is being decided.
    pub(crate) fn add(&mut self, what: What, fill: impl FnOnce(&mut Vec<u8>)) {
        self.insert(what, self.at, fill);
    }

    /// As [`Inserts::add`], behind the event; nothing more can go before it then.
    pub(crate) fn add_behind(&mut self, what: What, fill: impl FnOnce(&mut Vec<u8>)) {
        self.insert(what, self.at + 1, fill);
    }

    fn insert(&mut self, what: What, before: usize, fill: impl FnOnce(&mut Vec<u8>)) {
        let from = self.texts.len();
        fill(&mut self.texts);
        self.list.push(Insert {
            what,
            before,
            length: self.texts.len() - from,
            place: 0,
        });
    }

    /// Gives all texts in one piece and forgets them.
    pub(crate) fn take(&mut self) -> (Vec<Insert>, Vec<u8>) {
        self.at = 0;
        (
            std::mem::take(&mut self.list),
            std::mem::take(&mut self.texts),
        )
    }
}

/// Records that are formatted at once.
#[derive(Debug)]
pub(crate) struct Chunk<'a, D> {
    /// In order.
    pub(crate) items: Vec<Item<'a>>,
    /// One for each record.
    pub(crate) decisions: Vec<D>,
    inserts: Inserts,
    /// The output.
    pub(crate) bytes: Line,
    /// Where each record's event ends in it.
    pub(crate) borders: Vec<usize>,
    /// External ids of the stretch that the records are of, for each process; none where one list has them all.
    externals: Arc<Vec<Externals>>,
}

impl<D> Chunk<'_, D> {
    /// With room for so many bytes of output.
    fn with_room(bytes: usize) -> Self {
        Self {
            items: Vec::new(),
            decisions: Vec::new(),
            inserts: Inserts::default(),
            bytes: Line::with_room(bytes),
            borders: Vec::new(),
            externals: Arc::default(),
        }
    }

    /// The texts between the events.
    pub(crate) fn inserts(&self) -> &[Insert] {
        &self.inserts.list
    }
}

/// A format.
pub(crate) trait Writer {
    /// What a record needs to know of those before it.
    type Decision: Copy + Send;
    type Formatter: Formatter<Decision = Self::Decision> + Send;

    /// True when deciding looks into most records, not only into their items.
    const DECIDES_BY_RECORDS: bool;

    /// Decides about the next record in order. Texts of its own go to `inserts`.
    fn decide(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Self::Decision;

    /// One for each thread.
    fn formatter(&self, processes: &[Process<'_>]) -> Self::Formatter;

    /// What it knows of the launches of a process.
    fn launches(&mut self, process: usize) -> &mut LaunchTable;

    /// Takes the next chunk in order.
    fn stitch(&mut self, chunk: &mut Chunk<'_, Self::Decision>) -> Result<(), ExportError>;

    /// Bytes written so far.
    fn bytes(&self) -> u64;
}

/// Makes output of records and decisions; remembers only what saves work.
pub(crate) trait Formatter {
    type Decision;

    /// Appends the event of a record.
    fn format(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        decision: Self::Decision,
        out: &mut Line,
    );
}

/// Counts records and bytes, and sizes chunks by them.
#[derive(Debug)]
struct Sizes {
    records: u64,
    bytes: u64,
    wanted: u64,
}

impl Sizes {
    fn new(threads: usize) -> Self {
        Self {
            records: 0,
            bytes: 0,
            wanted: if threads > 1 {
                CHUNK_BYTES
            } else {
                ALONE_CHUNK_BYTES
            },
        }
    }

    fn add(&mut self, records: usize, bytes: usize) {
        self.records += records as u64;
        self.bytes += bytes as u64;
    }

    fn chunk_records(&self) -> usize {
        if self.records == 0 {
            return CHUNK_RECORDS_FIRST as usize;
        }
        let each = (self.bytes / self.records).max(1);
        (self.wanted / each).clamp(CHUNK_RECORDS_MIN, CHUNK_RECORDS_MAX) as usize
    }
}

/// Decides about a chunk's records.
fn decide<W: Writer>(
    writer: &mut W,
    processes: &[Process<'_>],
    chunk: &mut Chunk<'_, W::Decision>,
) {
    chunk.decisions.clear();
    chunk.inserts.list.clear();
    chunk.inserts.texts.clear();
    for (at, item) in chunk.items.iter().enumerate() {
        if W::DECIDES_BY_RECORDS
            && let Some(ahead) = chunk.items.get(at + AHEAD)
        {
            ahead.record.prefetch();
        }
        chunk.inserts.at = at;
        let decision = writer.decide(&processes[item.process()], item, &mut chunk.inserts);
        chunk.decisions.push(decision);
    }
}

/// Gives the writer what the records of a stretch need to know of launches, where no table has it.
fn enter<W: Writer>(writer: &mut W, stretch: &mut Stretch<'_>) {
    for (process, window) in stretch.windows_mut().iter_mut().enumerate() {
        writer.launches(process).enter(window);
    }
}

fn format<F: Formatter<Decision: Copy>>(
    formatter: &mut F,
    processes: &[Process<'_>],
    chunk: &mut Chunk<'_, F::Decision>,
) {
    let Chunk {
        items,
        decisions,
        inserts,
        bytes,
        borders,
        externals,
    } = chunk;
    bytes.begin();
    borders.clear();
    let mut texts = &inserts.texts[..];
    let mut add = |insert: &mut Insert, bytes: &mut Line| {
        let (text, rest) = texts.split_at(insert.length);
        texts = rest;
        insert.place = bytes.place();
        bytes.text(text);
    };
    let mut inserts = inserts.list.iter_mut().peekable();
    for (at, (item, &decision)) in items.iter().zip(&*decisions).enumerate() {
        if let Some(ahead) = items.get(at + AHEAD) {
            ahead.record.prefetch();
        }
        while let Some(insert) = inserts.next_if(|insert| insert.before == at) {
            add(insert, bytes);
        }
        let process = &processes[item.process()];
        let externals = externals.get(item.process()).unwrap_or(&process.externals);
        formatter.format(process, externals, item, decision, bytes);
        borders.push(bytes.place());
    }
    for insert in inserts {
        add(insert, bytes);
    }
}

/// Everything on the calling thread.
#[derive(Debug)]
pub(crate) struct Alone<'a, W: Writer> {
    formatter: W::Formatter,
    sizes: Sizes,
    chunk: Chunk<'a, W::Decision>,
    /// How long what took.
    pub(crate) phases: Phases,
}

impl<'a, W: Writer> Alone<'a, W> {
    pub(crate) fn new(writer: &W, processes: &[Process<'_>]) -> Self {
        Self {
            formatter: writer.formatter(processes),
            sizes: Sizes::new(1),
            chunk: Chunk::with_room(0),
            phases: Phases::default(),
        }
    }

    /// Passes a stretch's records through the writer.
    pub(crate) fn pass(
        &mut self,
        writer: &mut W,
        processes: &[Process<'_>],
        stretch: &mut Stretch<'a>,
        mut tell: impl FnMut(u64, &W),
    ) -> Result<(), ExportError> {
        enter(writer, stretch);
        let (chunk, mut from) = (&mut self.chunk, 0);
        let mut watch = Watch::start();
        while from < stretch.len() {
            let to = stretch.len().min(from + self.sizes.chunk_records());
            stretch.gather(from..to, &mut chunk.items);
            chunk.externals = stretch.externals().clone();
            decide(writer, processes, chunk);
            self.phases.deciding += watch.lap();
            format(&mut self.formatter, processes, chunk);
            self.phases.formatting += watch.lap();
            self.sizes.add(to - from, chunk.bytes.place());
            writer.stitch(chunk)?;
            self.phases.stitching += watch.lap();
            tell((to - from) as u64, writer);
            from = to;
        }
        Ok(())
    }
}

/// Records that are on their way.
struct Job<'a, D> {
    number: u64,
    chunk: Chunk<'a, D>,
}

enum Task<'a, D> {
    Pick(usize, Stretch<'a>),
    Format(Job<'a, D>),
}

/// What is to be done, and what is done.
struct Board<'a, D> {
    to_format: VecDeque<Job<'a, D>>,
    formatted: BTreeMap<u64, Job<'a, D>>,
    /// Stretches that nobody has begun to pick begin here.
    next_stretch: usize,
    picking: usize,
    picked: BTreeMap<usize, Stretch<'a>>,
    /// Room of stretches that are done.
    spare: Vec<Stretch<'a>>,
    /// Stretches in memory.
    held: usize,
    closed: bool,
    /// How long what took.
    phases: Phases,
}

/// How the stretches are shared out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    pub(crate) stretches: usize,
    /// Stretches that may be in memory at once, and records that each has room for.
    pub(crate) held_max: usize,
    pub(crate) stretch_records: usize,
}

struct Desk<'a, D> {
    board: Mutex<Board<'a, D>>,
    /// There is something to do.
    work: Condvar,
    /// Something is done, for the calling thread.
    news: Condvar,
    plan: Plan,
}

impl<'a, D> Desk<'a, D> {
    fn lock(&self) -> MutexGuard<'_, Board<'a, D>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.news.notify_all();
    }

    /// The next thing to do. Stretches come first while few are ready, so that the deciding thread never waits for one.
    fn task(&self, board: &mut Board<'a, D>) -> Option<Task<'a, D>> {
        let can_pick = board.next_stretch < self.plan.stretches && board.held < self.plan.held_max;
        let few = board.picking + board.picked.len() < (self.plan.threads / 4).max(2);
        if !(can_pick && few)
            && let Some(job) = board.to_format.pop_front()
        {
            return Some(Task::Format(job));
        }
        if !can_pick {
            return None;
        }
        let stretch = board.next_stretch;
        board.next_stretch += 1;
        board.picking += 1;
        board.held += 1;
        Some(Task::Pick(
            stretch,
            board.spare.pop().unwrap_or_else(Stretch::new),
        ))
    }

    fn perform<F: Formatter<Decision = D>>(
        &self,
        task: Task<'a, D>,
        fill: &(dyn Fn(usize, &mut Stretch<'a>) + Sync),
        formatter: &mut F,
        processes: &[Process<'_>],
    ) where
        D: Copy,
    {
        let mut watch = Watch::start();
        match task {
            Task::Pick(number, mut stretch) => {
                fill(number, &mut stretch);
                stretch.sort();
                let took = watch.lap();
                let mut board = self.lock();
                board.phases.picking += took;
                board.picking -= 1;
                board.picked.insert(number, stretch);
            }
            Task::Format(mut job) => {
                format(formatter, processes, &mut job.chunk);
                let took = watch.lap();
                let mut board = self.lock();
                board.phases.formatting += took;
                board.formatted.insert(job.number, job);
            }
        }
    }
}

/// Closes the desk when a thread goes: always, or only when it panics.
struct Closer<'d, 'a, D>(&'d Desk<'a, D>, bool);

impl<D> Drop for Closer<'_, '_, D> {
    fn drop(&mut self) {
        if self.1 || std::thread::panicking() {
            self.0.close();
        }
    }
}

/// Shares the work out to threads: the calling one decides, stitches, and does what else there is while it waits. `fill`
/// puts the records of the stretch with that number in place of others. Returns how long what took.
pub(crate) fn shared<'a, W: Writer>(
    writer: &mut W,
    processes: &[Process<'_>],
    plan: Plan,
    fill: &(dyn Fn(usize, &mut Stretch<'a>) + Sync),
    mut tell: impl FnMut(u64, &W),
) -> Result<Phases, ExportError> {
    let desk = Desk {
        board: Mutex::new(Board {
            to_format: VecDeque::new(),
            formatted: BTreeMap::new(),
            next_stretch: 0,
            picking: 0,
            picked: BTreeMap::new(),
            // The calling thread makes them all: whichever fills one, its memory is of one pool.
            spare: (0..plan.held_max)
                .map(|_| Stretch::with_room(plan.stretch_records))
                .collect(),
            held: 0,
            closed: false,
            phases: Phases::default(),
        }),
        work: Condvar::new(),
        news: Condvar::new(),
        plan,
    };
    let desk = &desk;
    std::thread::scope(|scope| {
        let closer = Closer(desk, true);
        let mut threads = Vec::new();
        for _ in 1..plan.threads {
            let mut formatter = writer.formatter(processes);
            let body = move || {
                let _closer = Closer(desk, false);
                let mut board = desk.lock();
                while !board.closed {
                    let Some(task) = desk.task(&mut board) else {
                        board = desk
                            .work
                            .wait(board)
                            .unwrap_or_else(PoisonError::into_inner);
                        continue;
                    };
                    drop(board);
                    desk.perform(task, fill, &mut formatter, processes);
                    desk.news.notify_one();
                    board = desk.lock();
                }
            };
            let builder = std::thread::Builder::new().name("format".to_owned());
            match builder.spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                // The system makes no more: those that are there share the work, the calling one at least.
                Err(_) => break,
            }
        }
        let done = lead(writer, processes, desk, fill, &mut tell);
        drop(closer);
        // Until they are gone, not only until they have nothing to do: the host may unload what holds this code.
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        done
    })
}

/// The calling thread's part: see [`shared`].
fn lead<'a, W: Writer>(
    writer: &mut W,
    processes: &[Process<'_>],
    desk: &Desk<'a, W::Decision>,
    fill: &(dyn Fn(usize, &mut Stretch<'a>) + Sync),
    tell: &mut impl FnMut(u64, &W),
) -> Result<Phases, ExportError> {
    let plan = desk.plan;
    let mut own = writer.formatter(processes);
    let mut sizes = Sizes::new(plan.threads);
    let mut spare: Vec<Chunk<'_, W::Decision>> = Vec::new();
    // Chunks that were begun, and those that were stitched.
    let (mut begun, mut done) = (0, 0);
    let chunks_max = 2 * plan.threads as u64 + 2;
    let mut stretch = 0;
    // The stretch that is decided about, and its records that are.
    let mut deciding: Option<(Stretch<'_>, usize)> = None;
    let (mut own_phases, mut watch) = (Phases::default(), Watch::start());
    let mut board = desk.lock();
    // A thread that panicked has closed the desk; whoever joins it passes that on.
    while !board.closed {
        if let Some(mut job) = board.formatted.remove(&done) {
            drop(board);
            done += 1;
            let records = job.chunk.items.len();
            sizes.add(records, job.chunk.bytes.place());
            watch.lap();
            writer.stitch(&mut job.chunk)?;
            own_phases.stitching += watch.lap();
            tell(records as u64, writer);
            // Others of its stretch may be on their way; a chunk that waits for its next records keeps none.
            job.chunk.externals = Arc::default();
            spare.push(job.chunk);
            board = desk.lock();
            continue;
        }
        if begun - done < chunks_max {
            if deciding.is_none()
                && let Some(mut picked) = board.picked.remove(&stretch)
            {
                stretch += 1;
                if picked.len() == 0 {
                    board.held -= 1;
                    board.spare.push(picked);
                    desk.work.notify_one();
                    continue;
                }
                enter(writer, &mut picked);
                deciding = Some((picked, 0));
            }
            if let Some((picked, from)) = &mut deciding {
                drop(board);
                let range = *from..picked.len().min(*from + sizes.chunk_records());
                *from = range.end;
                let is_last = *from == picked.len();
                let mut chunk = spare.pop().unwrap_or_else(|| {
                    // Some chunks become longer than they should.
                    Chunk::with_room(CHUNK_BYTES as usize * 3 / 2)
                });
                watch.lap();
                picked.gather(range, &mut chunk.items);
                chunk.externals = picked.externals().clone();
                decide(writer, processes, &mut chunk);
                own_phases.deciding += watch.lap();
                board = desk.lock();
                if is_last {
                    board.held -= 1;
                    board
                        .spare
                        .extend(deciding.take().map(|(stretch, _)| stretch));
                }
                board.to_format.push_back(Job {
                    number: begun,
                    chunk,
                });
                begun += 1;
                desk.work.notify_all();
                continue;
            }
            if stretch == plan.stretches && begun == done {
                break;
            }
        }
        match desk.task(&mut board) {
            Some(task) => {
                drop(board);
                desk.perform(task, fill, &mut own, processes);
                board = desk.lock();
            }
            None => {
                watch.lap();
                board = desk
                    .news
                    .wait(board)
                    .unwrap_or_else(PoisonError::into_inner);
                own_phases.waiting += watch.lap();
            }
        }
    }
    own_phases.add(&board.phases);
    Ok(own_phases)
}
