//! A lane: what one thread writes to.
//!
//! Promises 1 to 3: an append is a bounded number of instructions, becomes visible by one release store after all its
//! words, and is safe at any time from any thread.
//!
//! Invariants
//! - I1 A lane has one writer at a time: the thread whose TLS word points to it, which claimed `owner`.
//! - I2 `count` cells of the open segment are written and published; no reader looks beyond.
//! - I3 A record never straddles segments.
//! - I4 Everything here but `inside` and `owner` is touched by the owner alone; the hand-over of `owner` orders it.
//!
//! Two ways lead to a record. `fast` is what nearly every append takes: it tests everything that could stand in its way
//! with a few compares before the first word is written, and after it nothing can fail. Whatever it refuses goes to
//! `enter`, which sorts out why: the first append of a session, a full segment, an interrupted append, a fork, a machine
//! without TSC or membarrier.
//!
//! The struct lies in private memory: a forked child writes to its own copy, and the control page (wiped on fork)
//! keeps it from everything else. Nothing here has a destructor; lanes live as long as the process.

use std::cell::Cell;

use crate::anchors::TickAnchor;
use crate::clock;
use crate::control::{self, Control};
use crate::counters::{Counter, Tally};
use crate::gate::{self, Barrier};
use crate::handover;
use crate::header::Mode;
use crate::limits::{
    CELL_BYTES, CELL_WORDS, INSIDE_DEPTH, INSIDE_WORDS, LANE_BYTES, LANE_COUNTERS_OFFSET,
    LANE_INSIDE_OFFSET, LANE_RANGES_OFFSET, RANGE_DEPTH, SESSION_SLOT_WORDS, SESSION_SLOTS,
};
use crate::loss::LossReason;
use crate::record::{Kind, head_word, pair};
use crate::region::{Opening, Region};
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::sync::{Ordering, Word};

/// Where a lane writes next, for one kind of segment.
#[derive(Debug)]
struct Cursor {
    kind: SegmentKind,
    /// First word of the open segment; dangling while `count` says full.
    base: Cell<*mut u64>,
    /// Cells written and published; those of a whole segment also when no segment is open.
    count: Cell<usize>,
    /// The open segment's committed word; [`NOWHERE`] while no segment was ever open.
    committed: Cell<&'static Word>,
    /// `u32::MAX` while no segment was ever open.
    segment: Cell<u32>,
}

/// Where a cursor without a segment points; never written: such a cursor is full.
static NOWHERE: Word = Word::new(0);

/// Counters of one session in a lane's header.
pub(crate) type Counters = [Word; SESSION_SLOT_WORDS];

impl Cursor {
    const fn new(kind: SegmentKind, full: usize) -> Self {
        Self {
            kind,
            base: Cell::new(std::ptr::null_mut()),
            count: Cell::new(full),
            committed: Cell::new(&NOWHERE),
            segment: Cell::new(u32::MAX),
        }
    }
}

/// One lane.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Lane {
    /// Not 0 while the owner is inside an append: where on its stack it is. Read by stop.
    pub(crate) inside: Word,
    /// The session that `counters` counts for, when appends to it may take the fast way; else [`NEVER`].
    fast_session: Cell<u64>,
    records: Cursor,
    counters: Cell<&'static Counters>,
    /// Thread id of the owner, in the half of a record's word where it goes.
    thread_high: Cell<u64>,
    depth: Cell<usize>,
    /// The session that `counters` counts for, 0 = none yet.
    session: Cell<u32>,
    /// The machine has what the fast way needs: the TSC, and membarrier.
    plain: bool,
    /// The thread delivers completions: it must never wait for one.
    handler: Cell<bool>,
    /// The queue and agent that this thread announced or found announced last.
    queue: Cell<[u64; 2]>,
    /// The lane's header in the region.
    header: &'static [Word; LANE_BYTES / 8],
    /// The highest count of cells at which a record of 0, 1, 2 cells still fits the open segment: so that the fast way
    /// compares with memory what depends on the region's size of segments. The first is a whole segment.
    last: [u32; FAST_CELLS_MAX + 1],
    pub(crate) region: &'static Region,
    pub(crate) control: &'static Control,
    index: u16,
    sticky: Cursor,
    thread: Cell<u32>,
    sequence: Cell<u32>,
    /// The lane's segments of records, oldest to newest, linked by `Region::link`; `u32::MAX` = none. Only flight mode
    /// follows the chain.
    oldest: Cell<u32>,
    newest: Cell<u32>,
    /// Segments in the chain.
    chained: Cell<u32>,
    /// What `counters` counted as stored when the open segment of records was opened, or the session changed.
    stored_before: Cell<Tally>,
    /// Records of sessions before this one in the open segment.
    stored_here: Cell<Tally>,
    /// The lane's newest anchor.
    anchor: Cell<TickAnchor>,
    range_depth: Cell<usize>,
    /// Stream of the call at each depth from 1 on, inherited from the one around it; 0 = unknown, as outside of all.
    streams: [Cell<u32>; INSIDE_DEPTH + 1],
    /// Thread id of the owner, 0 = vacant.
    pub(crate) owner: Word,
}

/// Most cells of a record that may take the fast way.
const FAST_CELLS_MAX: usize = 2;

/// A `fast_session` that no session word equals: they hold 32-bit numbers.
const NEVER: u64 = u64::MAX;

// SAFETY: `inside` and `owner` are atomics; all other fields are touched by the owner alone (I1, I4).
unsafe impl Sync for Lane {}

/// An append in progress: the lane's `inside` word is set as long as this lives.
#[derive(Debug)]
pub struct Inside<'a> {
    lane: &'a Lane,
}

/// An append in progress that [`Lane::fast`] let in: nothing can fail any more.
#[derive(Debug)]
pub(crate) struct Fast<'a> {
    inside: Inside<'a>,
    /// The session that the record belongs to.
    pub(crate) session: u32,
    /// Where in the open segment it goes, in cells.
    count: usize,
}

impl<'a> std::ops::Deref for Fast<'a> {
    type Target = Inside<'a>;

    #[inline(always)]
    fn deref(&self) -> &Inside<'a> {
        &self.inside
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        gate::leave(&self.lane.inside);
    }
}

impl std::ops::Deref for Inside<'_> {
    type Target = Lane;

    #[inline(always)]
    fn deref(&self) -> &Lane {
        self.lane
    }
}

impl Lane {
    pub(crate) fn new(
        index: u16,
        region: &'static Region,
        control: &'static Control,
        barrier: Barrier,
    ) -> Self {
        let header = region.lane_header(index.into());
        let full = region.segment_cells();
        Self {
            inside: Word::new(0),
            fast_session: Cell::new(NEVER),
            records: Cursor::new(SegmentKind::Records, full),
            counters: Cell::new(counters(header, SESSION_SLOTS)),
            thread_high: Cell::new(0),
            depth: Cell::new(0),
            session: Cell::new(0),
            plain: barrier == Barrier::Membarrier && clock::is_tsc(),
            handler: Cell::new(false),
            queue: Cell::new([u64::MAX; 2]),
            header,
            last: std::array::from_fn(|cells| (full - cells) as u32),
            region,
            control,
            index,
            sticky: Cursor::new(SegmentKind::Sticky, full),
            thread: Cell::new(0),
            sequence: Cell::new(0),
            oldest: Cell::new(u32::MAX),
            newest: Cell::new(u32::MAX),
            chained: Cell::new(0),
            stored_before: Cell::new(Tally::default()),
            stored_here: Cell::new(Tally::default()),
            anchor: Cell::new(TickAnchor {
                ticks: 0,
                vendor_ns: 0,
            }),
            range_depth: Cell::new(0),
            streams: [const { Cell::new(0) }; INSIDE_DEPTH + 1],
            owner: Word::new(0),
        }
    }

    /// Claims a vacant lane for `thread`. One compare-exchange; wait-free.
    pub(crate) fn claim(&self, thread: u32) -> bool {
        if !handover::claim(&self.owner, thread.max(1).into()) {
            return false;
        }
        self.thread.set(thread);
        self.thread_high.set(pair(0, thread));
        self.depth.set(0);
        self.range_depth.set(0);
        self.handler.set(false);
        let state = self.region.lane_word(self.index.into(), 0);
        let generation = crate::record::high(state.load(Ordering::Relaxed)).wrapping_add(1);
        // ORD(lane): Release for readers of the lane table; they take the two halves together.
        state.store(pair(thread, generation), Ordering::Release);
        self.depth_word().store(0, Ordering::Relaxed);
        if self.records.count.get() < self.segment_cells() {
            // The open segment goes on under another thread: say so in it.
            let mut words = [0; CELL_WORDS];
            words[0] = head_word(Kind::Thread, 1, 0, 0);
            words[1..4].copy_from_slice(&[clock::ticks(), thread.into(), generation.into()]);
            self.put(&self.records, &words);
        }
        true
    }

    /// Gives the lane up, with its open segment. The owner only, or whoever knows that the owner is gone.
    pub(crate) fn vacate(&self) {
        if !gate::left(&self.inside) {
            // The thread ended inside an append (it was cancelled, or ended by a handler): nobody will leave it.
            self.abandon();
        }
        let state = self.region.lane_word(self.index.into(), 0);
        let generation = crate::record::high(state.load(Ordering::Relaxed));
        state.store(pair(0, generation), Ordering::Release);
        handover::vacate(&self.owner);
    }

    /// Begins an append. `None`: not armed (or a forked child), or a signal handler interrupted an append of this very
    /// thread, which is counted for `session` (0: for the one that is open).
    #[inline(always)]
    pub fn enter(&self, session: u32) -> Option<Inside<'_>> {
        let barrier = self.control.barrier()?;
        let place = gate::place();
        if gate::enter(&self.inside, barrier, place) {
            return Some(Inside { lane: self });
        }
        self.refused_reentry(session);
        if gate::was_jumped_over(&self.inside, place) {
            // What the append had done is not known: its record was counted as lost (above), and this one goes on.
            self.abandon();
            if gate::enter(&self.inside, barrier, place) {
                return Some(Inside { lane: self });
            }
        }
        None
    }

    /// Starts afresh where the last append was left in the middle: no cursor is believed any more. The owner only, or
    /// whoever knows that the owner is gone.
    #[cold]
    fn abandon(&self) {
        for cursor in [&self.records, &self.sticky] {
            let segment = cursor.segment.get();
            if segment != u32::MAX {
                let state = self.region.entry(segment, word::STATE);
                let state = StateWord::unpack(state.load(Ordering::Relaxed));
                if state.is_some_and(|state| {
                    (state.state, state.lane) == (SegmentState::Open, self.index)
                }) {
                    self.close_count(cursor, Left::InTheMiddle);
                    self.region.seal(segment);
                }
            }
            cursor.segment.set(u32::MAX);
            cursor.count.set(self.segment_cells());
        }
        self.fast_session.set(NEVER);
        self.session.set(0);
        let shared = counters(self.header, SESSION_SLOTS);
        self.counters.set(shared);
        self.stored_here.set(Tally::default());
        self.stored_before.set(stored_in(shared));
        gate::leave(&self.inside);
    }

    /// Begins an append to the session that is open, when nothing stands in the way of a record of `CELLS` cells:
    /// this thread is in no append, counts for that session already, and its segment has room. `None` says nothing
    /// about why; the caller goes the long way. In a forked child the session word is 0 and matches nothing.
    ///
    /// An append that this lets in saw its session open behind the gate, so the session cannot be taken before it ends.
    #[inline(always)]
    pub(crate) fn fast<const CELLS: usize>(&self) -> Option<Fast<'_>> {
        const { assert!(CELLS <= FAST_CELLS_MAX) };
        // Only where stop has the membarrier is `fast_session` ever a session.
        if !gate::enter(&self.inside, Barrier::Membarrier, gate::place()) {
            return None;
        }
        let inside = Inside { lane: self };
        // Only tests have another control page than the process's.
        let session = if cfg!(test) {
            self.control.session_word()
        } else {
            control::process_session()
        };
        let count = self.records.count.get();
        if session != self.fast_session.get() || CELLS != 0 && count as u32 > self.last[CELLS] {
            return None;
        }
        Some(Fast {
            inside,
            session: session as u32,
            count,
        })
    }

    #[cold]
    fn refused_reentry(&self, session: u32) {
        let session = if session == 0 {
            self.control.open_session()
        } else {
            session
        };
        laneless(self.region, session, Laneless::Reentry);
    }

    /// Thread id of the owner.
    #[inline]
    pub fn thread(&self) -> u32 {
        self.thread.get()
    }

    /// Cells of one segment.
    #[inline(always)]
    fn segment_cells(&self) -> usize {
        self.last[0] as usize
    }

    fn depth_word(&self) -> &Word {
        depth_word(self.header)
    }

    #[inline]
    fn inside_word(&self, depth: usize, index: usize) -> &Word {
        inside_word(self.header, depth, index)
    }

    #[inline]
    fn range_word(&self, depth: usize, index: usize) -> &Word {
        self.region.lane_word(
            self.index.into(),
            LANE_RANGES_OFFSET + (depth * INSIDE_WORDS + index) * 8,
        )
    }
}

/// Appending the fast way.
impl Fast<'_> {
    /// The session's counters.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &'static Counters {
        self.counters.get()
    }

    /// Appends a record, for whose cells `fast` found room, and publishes it.
    #[inline(always)]
    pub(crate) fn append<const WORDS: usize>(&self, words: &[u64; WORDS]) {
        self.put_at(&self.records, self.count, words);
    }

    /// As [`Inside::push_call`]; false when the call is deeper than the stack, then nothing was changed.
    #[inline(always)]
    pub(crate) fn push_call(
        &self,
        what: u64,
        ticks: u64,
        correlation_id: u64,
        stream: u32,
    ) -> bool {
        let depth = self.depth.get();
        if depth >= INSIDE_DEPTH {
            return false;
        }
        self.list_call(depth, [what, ticks, correlation_id], stream);
        true
    }

    /// The thread has left the innermost call, and it is the one with that correlation id: its depth, and its stream.
    /// `None` changes nothing; then [`Inside::pop_call`] looks further.
    #[inline(always)]
    pub(crate) fn pop_call(&self, correlation_id: u64) -> Option<(usize, u32)> {
        let header = self.header;
        let depth = self.depth.get().wrapping_sub(1);
        if depth >= INSIDE_DEPTH
            || inside_word(header, depth, 2).load(Ordering::Relaxed) != correlation_id
        {
            return None;
        }
        self.depth.set(depth);
        // ORD(inside-of): Release, as in `list_call`.
        depth_word(header).store(depth as u64, Ordering::Release);
        Some((depth, self.streams[depth + 1].get()))
    }
}

/// Appending; only between `enter` and the end of the guard.
impl Inside<'_> {
    /// Appends a record of a session. False: no segment was free; counted.
    #[inline(always)]
    pub(crate) fn append<const WORDS: usize>(&self, words: &[u64; WORDS], session: u32) -> bool {
        debug_assert_eq!(session, self.session.get(), "`block` comes before `append`");
        if self.put(&self.records, words) {
            return true;
        }
        self.count_loss(session, LossReason::NoSegment);
        false
    }

    /// Appends a fact. False: no segment was free; counted.
    pub(crate) fn announce(&self, words: &[u64]) -> bool {
        let stored = self.put(&self.sticky, words);
        if !stored {
            self.count_loss(self.control.open_session(), LossReason::StickyFull);
        }
        stored
    }

    #[cold]
    fn count_loss(&self, session: u32, reason: LossReason) {
        let block = self.block(session);
        self.bump(block, Counter::Lost as usize + reason as usize, 1);
        let now = clock::ticks();
        // Relaxed, as for all of a lane's counters: only this thread writes them.
        let first = &block[Counter::FirstLossTicks as usize];
        if first.load(Ordering::Relaxed) == 0 {
            first.store(now, Ordering::Relaxed);
        }
        self.raise(block, Counter::LastLossTicks, now);
    }

    /// Thread id of the owner in the high half.
    #[inline(always)]
    pub(crate) fn thread_high(&self) -> u64 {
        self.thread_high.get()
    }

    /// The counters for `session`: a slot of its own for the newest sessions, the shared one for older ones. Before the
    /// first record of a session.
    #[inline(always)]
    pub(crate) fn block(&self, session: u32) -> &'static Counters {
        if session == self.session.get() {
            self.counters.get()
        } else {
            self.change_session(session)
        }
    }

    /// This lane's records are another session's from now on.
    #[cold]
    fn change_session(&self, session: u32) -> &'static Counters {
        self.stored_here.set(self.stored_here());
        let counters = self.take_block(session);
        self.stored_before.set(stored_in(counters));
        self.counters.set(counters);
        self.session.set(session);
        self.fast_session
            .set(if self.plain { session.into() } else { NEVER });
        if self.records.segment.get() != u32::MAX {
            self.widen_sessions(session);
        }
        counters
    }

    /// First record of a session in this lane: folds the slot's old session into the shared block.
    fn take_block(&self, session: u32) -> &'static Counters {
        let shared = counters(self.header, SESSION_SLOTS);
        let slot = counters(self.header, session as usize % SESSION_SLOTS);
        let tag = &slot[Counter::Session as usize];
        // ORD(slot): Relaxed. Only the owner writes the slot's session.
        let known = tag.load(Ordering::Relaxed);
        if known == u64::from(session) {
            return slot;
        }
        if known > u64::from(session) || session == 0 {
            return shared;
        }
        // The old session was accounted for (a session starts only when the one 8 before it was taken), so nobody
        // relies on the slot while it changes hands.
        tag.store(0, Ordering::Release);
        let late = slot[Counter::Late as usize].load(Ordering::Relaxed);
        if late != 0 {
            // Without room in the sticky log they are counted with the older sessions only.
            let mut words = [0; CELL_WORDS];
            words[..3].copy_from_slice(&[head_word(Kind::Late, 1, 0, 0), known, late]);
            self.put(&self.sticky, &words);
        }
        for (from, into) in slot.iter().zip(shared).skip(1) {
            let value = from.load(Ordering::Relaxed);
            if value != 0 {
                into.store(
                    into.load(Ordering::Relaxed).wrapping_add(value),
                    Ordering::Relaxed,
                );
                from.store(0, Ordering::Relaxed);
            }
        }
        // ORD(slot): Release. Pairs with the Acquire load of a reader: it sees the zeroed counters.
        tag.store(session.into(), Ordering::Release);
        slot
    }

    /// Adds to a counter of a block.
    #[inline(always)]
    pub(crate) fn bump(&self, block: &Counters, counter: usize, by: u64) {
        handover::count(&block[counter], by);
    }

    /// Raises a counter to at least `value`.
    #[inline(always)]
    pub(crate) fn raise(&self, block: &Counters, counter: Counter, value: u64) {
        let word = &block[counter as usize];
        if value > word.load(Ordering::Relaxed) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Lowers a counter that holds "lowest id plus 1, 0 = none" to at most `id`.
    #[cold]
    pub(crate) fn lower_lost_id(&self, block: &Counters, id: u64) {
        let word = &block[Counter::LostIssueId as usize];
        let known = word.load(Ordering::Relaxed);
        if known == 0 || id + 1 < known {
            word.store(id + 1, Ordering::Relaxed);
        }
    }

    /// Notes that the thread is inside a call. Deeper than the stack the call is not listed, only recorded.
    #[inline(always)]
    pub(crate) fn push_call(&self, what: u64, ticks: u64, correlation_id: u64, stream: u32) {
        let depth = self.depth.get();
        if depth < INSIDE_DEPTH {
            self.list_call(depth, [what, ticks, correlation_id], stream);
        } else {
            self.depth.set(depth + 1);
        }
    }

    /// Lists a call at `depth`, below `INSIDE_DEPTH`.
    #[inline(always)]
    fn list_call(&self, depth: usize, words: [u64; INSIDE_WORDS - 1], stream: u32) {
        // ORD(inside-of): Relaxed, the depth Release: a reader below the depth sees whole entries, of this call or
        // of one that replaced it; a crash dump needs no more.
        let header = self.header;
        for (index, word) in words.into_iter().enumerate() {
            inside_word(header, depth, index).store(word, Ordering::Relaxed);
        }
        inside_word(header, depth, INSIDE_WORDS - 1).store(0, Ordering::Relaxed);
        let around = self.streams[depth].get();
        self.streams[depth + 1].set(if stream != 0 { stream } else { around });
        self.depth.set(depth + 1);
        depth_word(header).store((depth + 1) as u64, Ordering::Release);
    }

    /// The thread has left the call with that correlation id. True when the call was exported as open already.
    #[inline(always)]
    pub(crate) fn pop_call(&self, correlation_id: u64) -> bool {
        let mut depth = self.depth.get();
        let mut exported = false;
        while depth > 0 {
            depth -= 1;
            // Calls whose EXIT never came (a jump over it) are dropped with the one around them.
            if depth >= INSIDE_DEPTH {
                break;
            }
            if self.inside_word(depth, 2).load(Ordering::Relaxed) == correlation_id {
                exported = self.inside_word(depth, 3).load(Ordering::Relaxed) != 0;
                break;
            }
        }
        self.depth.set(depth);
        self.depth_word()
            .store(depth.min(INSIDE_DEPTH) as u64, Ordering::Release);
        exported
    }

    /// True when this thread knows that the queue is announced.
    #[inline(always)]
    pub(crate) fn knows_queue(&self, queue: u64, agent: u64) -> bool {
        self.queue.get() == [queue, agent]
    }

    /// Remembers an announced queue.
    pub(crate) fn know_queue(&self, queue: u64, agent: u64) {
        self.queue.set([queue, agent]);
    }

    /// The thread delivers completions.
    #[inline(always)]
    pub(crate) fn mark_handler(&self) {
        self.handler.set(true);
    }

    /// Stream of the call that the thread is inside of, 0 = unknown.
    #[inline(always)]
    pub(crate) fn call_stream(&self) -> u32 {
        self.streams[self.depth.get().min(INSIDE_DEPTH)].get()
    }

    /// Opens a range; false when too many are open, then its pop is ignored as well.
    pub(crate) fn push_range(
        &self,
        session: u32,
        ticks: u64,
        correlation_id: u64,
        name: u64,
    ) -> bool {
        let depth = self.range_depth.get();
        self.range_depth.set(depth + 1);
        if depth >= RANGE_DEPTH {
            return false;
        }
        for (index, value) in [u64::from(session), ticks, correlation_id, name]
            .into_iter()
            .enumerate()
        {
            self.range_word(depth, index)
                .store(value, Ordering::Relaxed);
        }
        self.range_count_word()
            .store((depth + 1) as u64, Ordering::Release);
        true
    }

    /// Closes the innermost range: session, start ticks, correlation id, name, depth.
    pub(crate) fn pop_range(&self) -> Option<([u64; 4], usize)> {
        let depth = self.range_depth.get().checked_sub(1)?;
        self.range_depth.set(depth);
        if depth >= RANGE_DEPTH {
            return None;
        }
        let words = [0, 1, 2, 3].map(|index| self.range_word(depth, index).load(Ordering::Relaxed));
        self.range_count_word()
            .store(depth as u64, Ordering::Release);
        Some((words, depth))
    }
}

impl Lane {
    /// True on a thread that delivers completions and makes no calls of its own. A thread whose own calls run the
    /// completions is the application's.
    pub(crate) fn is_handler(&self) -> bool {
        let makes_calls = || {
            (0..=SESSION_SLOTS).any(|slot| {
                let block = LANE_COUNTERS_OFFSET + slot * SESSION_SLOT_WORDS * 8;
                let calls = block + Counter::ApiRecorded as usize * 8;
                let word = self.region.lane_word(self.index.into(), calls);
                word.load(Ordering::Relaxed) != 0
            })
        };
        self.handler.get() && !makes_calls()
    }

    /// How many traced calls the thread is inside of.
    #[inline]
    pub(crate) fn call_depth(&self) -> usize {
        self.depth.get()
    }

    fn range_count_word(&self) -> &Word {
        self.region
            .lane_word(self.index.into(), LANE_INSIDE_OFFSET - 16)
    }

    /// Calls that the owner is inside of: what, ticks, correlation id, and the word that says "exported as open".
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = ([u64; 3], &Word)> {
        // ORD(inside-of): Acquire. Pairs with the Release in `push_call`.
        let depth = self.depth_word().load(Ordering::Acquire) as usize;
        (0..depth.min(INSIDE_DEPTH)).map(move |entry| {
            let words =
                [0, 1, 2].map(|index| self.inside_word(entry, index).load(Ordering::Relaxed));
            (words, self.inside_word(entry, 3))
        })
    }

    /// Ranges that the owner has open: session, ticks, correlation id, name.
    pub(crate) fn open_ranges(&self) -> impl Iterator<Item = [u64; 4]> {
        let depth = self.range_count_word().load(Ordering::Acquire) as usize;
        (0..depth.min(RANGE_DEPTH)).map(move |entry| {
            [0, 1, 2, 3].map(|index| self.range_word(entry, index).load(Ordering::Relaxed))
        })
    }

    #[inline(always)]
    fn put(&self, cursor: &Cursor, words: &[u64]) -> bool {
        let cells = words.len() / CELL_WORDS;
        if cursor.count.get() + cells > self.segment_cells() && !self.next_segment(cursor) {
            return false;
        }
        self.put_at(cursor, cursor.count.get(), words);
        true
    }

    /// Writes and publishes a record at `count`, where the cursor stands; the open segment has room for it.
    #[inline(always)]
    fn put_at(&self, cursor: &Cursor, count: usize, words: &[u64]) {
        let cells = words.len() / CELL_WORDS;
        debug_assert!(count == cursor.count.get() && count + cells <= self.segment_cells());
        // SAFETY: base is the open segment's first word and count + cells are within it (I3, the callers); not below
        // `count`, so no reader looks there (I2); one writer (I1); aligned, and only accessed as atomic words.
        let place = unsafe {
            std::slice::from_raw_parts(
                cursor.base.get().add(count * CELL_WORDS).cast::<Word>(),
                words.len(),
            )
        };
        // A line for each of the record's: asked for one a record, every second line of records of two cells was a miss.
        for cell in 0..cells.min(FAST_CELLS_MAX) {
            fetch_ahead(cursor.base.get(), (count + cell) * CELL_BYTES);
        }
        handover::write(place, words);
        cursor.count.set(count + cells);
        handover::publish(cursor.committed.get(), (count + cells) as u64);
    }

    /// The open segment of records holds some of `session`.
    fn widen_sessions(&self, session: u32) {
        let range = self
            .region
            .entry(self.records.segment.get(), word::SESSIONS);
        let known = range.load(Ordering::Relaxed);
        let (low, high) = (crate::record::low(known), crate::record::high(known));
        let low = if low == 0 { session } else { low.min(session) };
        // ORD(sessions): Relaxed. A hint for releasing; read only when the session is accounted for.
        range.store(pair(low, high.max(session)), Ordering::Relaxed);
    }

    /// Seals the open segment and claims another; in flight mode, when none is free, takes the lane's own oldest.
    /// Wait-free; false when there is none.
    #[cold]
    fn next_segment(&self, cursor: &Cursor) -> bool {
        // What other lanes wrote last is asked for first, so that it comes while the rest goes on.
        self.region.fetch_shared();
        let sequence = self.sequence.get();
        let opening = Opening {
            kind: cursor.kind,
            lane: self.index,
            thread: self.thread.get(),
            sequence,
            anchor: self.recent_anchor(),
        };
        let claimed = if self.has_its_share(cursor.kind) {
            None
        } else {
            self.region.claim()
        };
        let (segment, reused) = match claimed.or_else(|| self.take_oldest(cursor.kind)) {
            Some(segment) => (segment, claimed.is_none()),
            None => return false,
        };
        self.region.fetch_entry(segment);
        if reused {
            let cells = self.region.reuse(segment, &opening);
            handover::count(&self.header[crate::limits::LANE_REUSED_OFFSET / 8], cells);
        } else {
            self.region.open(segment, &opening);
        }
        self.close_count(cursor, Left::Whole);
        if cursor.segment.get() != u32::MAX {
            self.region.seal(cursor.segment.get());
        }
        // The first appends find their lines on the way: only later ones ask ahead for themselves. After the ring, whose
        // locked instruction waits for the stores before it.
        let cells = self.region.cells(segment);
        for line in 0..AHEAD_CELLS {
            fetch::<0, _>(cells, line * CELL_BYTES);
        }
        self.sequence.set(sequence + 1);
        cursor.base.set(cells);
        cursor.count.set(0);
        cursor
            .committed
            .set(self.region.entry(segment, word::COMMITTED));
        cursor.segment.set(segment);
        if cursor.kind == SegmentKind::Records {
            if self.region.header().mode == Mode::Flight {
                self.chain(segment);
            }
            self.widen_sessions(self.session.get());
        }
        true
    }

    /// Notes how many records lie in the open segment, before it is sealed: what a subscriber loses with it, and whether the
    /// collector must look for issues and completions in it. They are what the lane's counters counted meanwhile; an append
    /// that was left in the middle may be counted or not.
    fn close_count(&self, cursor: &Cursor, left: Left) {
        if cursor.kind != SegmentKind::Records {
            return;
        }
        let stored = self.stored_here();
        self.stored_here.set(Tally::default());
        self.stored_before.set(stored_in(self.counters.get()));
        let segment = cursor.segment.get();
        if segment != u32::MAX {
            let no_device_work = stored.device == 0 && left == Left::Whole;
            self.region.close_count(segment, stored.all, no_device_work);
        }
    }

    /// Records in the open segment so far.
    fn stored_here(&self) -> Tally {
        let counted = stored_in(self.counters.get()).since(self.stored_before.get());
        self.stored_here.get().plus(counted)
    }

    /// A moment in both clocks, at most about 10 ms old: reading the vendor's clock is a good part of what a change of
    /// segment costs a lane that fills many of them in that time.
    fn recent_anchor(&self) -> TickAnchor {
        let known = self.anchor.get();
        if clock::ticks().wrapping_sub(known.ticks) < ANCHOR_AGE_TICKS {
            return known;
        }
        let anchor = clock::tick_anchor();
        self.anchor.set(anchor);
        anchor
    }

    /// What is left is not for this lane. Flight mode: it has a segment to reuse, and others have none; without this the
    /// lane that comes first would take all, and those that come later would have nothing of their own to reuse, ever.
    /// Facts take all of that reserve but the last part. Window and stream mode: records leave a part for facts: a session
    /// that ends in a full region must be able to say so, and in stream mode facts never leave the region.
    fn has_its_share(&self, kind: SegmentKind) -> bool {
        let region = self.region;
        match (region.header().mode, kind) {
            (Mode::Window | Mode::Stream, SegmentKind::Sticky | SegmentKind::Blob) => false,
            (Mode::Window, SegmentKind::Records) => region.free_count() <= region.facts_share(),
            (Mode::Flight, SegmentKind::Records) => {
                self.chained.get() >= CHAIN_MIN && region.left() <= region.reserve()
            }
            (Mode::Flight, _) => region.left() <= region.reserve() / 4,
            (Mode::Stream, SegmentKind::Records) => {
                region.free_count() <= region.facts_share() || region.left() <= region.reserve() / 4
            }
        }
    }

    /// Takes the oldest segment of records out of the chain: flight mode, and never the open one.
    fn take_oldest(&self, kind: SegmentKind) -> Option<u32> {
        let oldest = self.oldest.get();
        let spare = kind == SegmentKind::Records || self.chained.get() > CHAIN_MIN;
        if self.region.header().mode != Mode::Flight
            || !spare
            || oldest == u32::MAX
            || oldest == self.records.segment.get()
        {
            return None;
        }
        if oldest == self.newest.get() {
            self.oldest.set(u32::MAX);
            self.newest.set(u32::MAX);
        } else {
            // ORD(link): Relaxed. The lane's own word.
            let next = self.region.link(oldest).load(Ordering::Relaxed);
            self.oldest.set(next as u32);
        }
        self.chained.set(self.chained.get().saturating_sub(1));
        Some(oldest)
    }

    /// Appends a segment of records to the chain.
    fn chain(&self, segment: u32) {
        self.chained.set(self.chained.get() + 1);
        match self.newest.replace(segment) {
            u32::MAX => self.oldest.set(segment),
            newest => self
                .region
                .link(newest)
                .store(segment.into(), Ordering::Relaxed),
        }
    }
}

/// How the last append to a segment was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It came to its end: every record in the segment is counted.
    Whole,
    /// Its record may lie in the segment and be counted nowhere.
    InTheMiddle,
}

/// Segments that a lane keeps for its records in flight mode: the open one, and one to go on with. Facts take none of
/// these.
const CHAIN_MIN: u32 = 2;

/// What is counted for threads that have no lane, or must not touch it: index of the word in the header's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Laneless {
    NoLane = 1,
    Reentry = 2,
    DispatchIssued = 3,
    CopyIssued = 4,
    DispatchDone = 5,
    CopyDone = 6,
}

/// Asks for the line that a later record will be written to, as its owner. A segment's lines were last touched by whoever
/// zeroed or read them; asked for this early, they are here when they are needed. Beyond the segment's end it asks for a
/// line of the next one: a hint touches nothing, and at the region's end goes nowhere.
#[inline(always)]
fn fetch_ahead(base: *mut u64, offset_bytes: usize) {
    fetch::<{ AHEAD_CELLS * CELL_BYTES }, _>(base, offset_bytes);
}

/// Asks for the line `offset_bytes` and `MORE` behind `base`, as its owner.
#[inline(always)]
pub(crate) fn fetch<const MORE: usize, T>(base: *const T, offset_bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads and writes nothing that the program can see, whatever the address.
    unsafe {
        std::arch::asm!(
            "prefetchw byte ptr [{base} + {offset} + {more}]",
            base = in(reg) base,
            offset = in(reg) offset_bytes,
            more = const MORE,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (base, offset_bytes);
}

/// How many cells ahead: as many appends as take about as long as a line's way from another core.
const AHEAD_CELLS: usize = 12;

/// How old a lane's anchor may be when it opens a segment: about 10 ms of the TSC, 20 ms of a clock in ns. The housekeeper
/// has anchors of its own announced where a clock bends.
const ANCHOR_AGE_TICKS: u64 = 20_000_000;

/// Records that a block counts as stored.
fn stored_in(block: &Counters) -> Tally {
    // ORD(count): Relaxed. The lane's own stores.
    Tally::of(|counter| block[counter as usize].load(Ordering::Relaxed))
}

/// How many calls the "inside of" stack lists.
#[inline(always)]
fn depth_word(header: &[Word; LANE_BYTES / 8]) -> &Word {
    &header[LANE_INSIDE_OFFSET / 8 - 1]
}

/// A word of the "inside of" stack.
#[inline(always)]
fn inside_word(header: &[Word; LANE_BYTES / 8], depth: usize, index: usize) -> &Word {
    &header[LANE_INSIDE_OFFSET / 8 + depth * INSIDE_WORDS + index]
}

/// A block of counters in a lane's header.
fn counters(header: &'static [Word; LANE_BYTES / 8], slot: usize) -> &'static Counters {
    let first = LANE_COUNTERS_OFFSET / 8 + slot * SESSION_SLOT_WORDS;
    header[first..]
        .first_chunk()
        .expect("the blocks lie within the header (asserted in `limits`)")
}

/// Counts for a thread that has no lane, or must not touch it.
pub(crate) fn laneless(region: &Region, session: u32, what: Laneless) {
    use crate::header::{LANELESS_OFFSET, LANELESS_WORDS};
    let block = |slot: usize| LANELESS_OFFSET + slot * LANELESS_WORDS * 8;
    let slot = block(session as usize % SESSION_SLOTS);
    let tag = region.word(slot);
    // ORD(laneless): Relaxed read-modify-writes: many writers, a rare path, plain counts.
    let known = tag.load(Ordering::Relaxed);
    let at = if known == u64::from(session) {
        slot
    } else if known < u64::from(session)
        && tag
            .compare_exchange(known, session.into(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    {
        for index in 1..LANELESS_WORDS {
            let count = region.word(slot + index * 8).swap(0, Ordering::Relaxed);
            region
                .word(block(SESSION_SLOTS) + index * 8)
                .fetch_add(count, Ordering::Relaxed);
        }
        slot
    } else {
        block(SESSION_SLOTS)
    };
    region
        .word(at + what as usize * 8)
        .fetch_add(1, Ordering::Relaxed);
}
