//! What a vendor layer calls from its callbacks: API calls, dispatches, copies, markers, facts.
//!
//! Promise 6: a record's session is decided once, in the first callback that shows it, and travels as a [`Token`] to the
//! last. Every function here is wait-free, takes no lock, allocates nothing and makes no system call, except that a
//! thread's first event claims a lane (one `gettid`).

use crate::clock;
use crate::control::Token;
use crate::counters::Counter;
use crate::hash;
use crate::lane::{Counters, Fast, Inside};
use crate::lane::{Laneless, laneless};
use crate::limits::{CELL_WORDS, RECORD_CELLS_MAX};
use crate::record::{Kind, StreamKind, flag, head_word, pair};
use crate::runtime::Runtime;
use crate::sync::Ordering;

/// Which API calls are timed: those whose correlation id, spread by the golden ratio, has its 10 highest bits clear.
const SAMPLE_SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const SAMPLE_SHIFT: u32 = 54;

/// The ids that join a record to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Correlation id, 0 = unknown.
    pub correlation: u64,
    /// Correlation id of the enclosing traced call, 0 = none.
    pub ancestor: u64,
    /// External correlation id, 0 = none.
    pub external: u64,
    /// Thread id as the SDK gave it; 0 = the calling thread.
    pub thread: u32,
}

/// An operation of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// [`crate::record::domain`].
    pub domain: u8,
    /// Number in that domain.
    pub number: u16,
}

impl Operation {
    #[inline(always)]
    const fn word(self) -> u64 {
        self.number as u64 | (self.domain as u64) << 16
    }
}

/// Arguments of an API call worth keeping: words 8 to 15 of its record ([`crate::record::api_arg`]).
pub type ApiArgs = [u64; CELL_WORDS];

/// A dispatch as it is issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the records' own")]
pub struct DispatchIssue {
    pub ids: Ids,
    pub dispatch_id: u64,
    pub kernel_id: u64,
    pub agent: u64,
    pub queue: u64,
}

/// A dispatch as it completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the records' own")]
pub struct DispatchDone {
    pub ids: Ids,
    pub dispatch_id: u64,
    pub kernel_id: u64,
    pub agent: u64,
    pub queue: u64,
    /// Vendor ns, raw.
    pub start_ns: u64,
    /// Vendor ns, raw.
    pub end_ns: u64,
    pub block: [u32; 3],
    /// Raw: work-items on AMD.
    pub grid: [u32; 3],
    pub private_bytes: u32,
    pub group_bytes: u32,
    pub graph: u32,
    pub node: u32,
}

/// A copy, as it was issued or completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the records' own")]
pub struct CopyEvent {
    pub ids: Ids,
    /// The SDK's copy operation (direction).
    pub operation: u32,
    pub bytes: u64,
    pub source_agent: u64,
    pub destination_agent: u64,
    pub source: u64,
    pub destination: u64,
    /// Vendor ns, raw.
    pub start_ns: u64,
    /// Vendor ns, raw.
    pub end_ns: u64,
}

/// An allocation or scratch event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the records' own")]
pub struct MemoryEvent {
    pub ids: Ids,
    pub operation: u32,
    pub flags: u32,
    pub bytes: u64,
    pub agent: u64,
    pub queue: u64,
    pub address: u64,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// An agent's facts; strings are copied.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names are `facts::Agent`'s")]
pub struct AgentFact<'a> {
    pub handle: u64,
    /// 1 CPU, 2 GPU.
    pub kind: u32,
    pub node: u32,
    pub logical_node: u32,
    pub type_index: u32,
    pub name: &'a [u8],
    pub vendor: &'a [u8],
    pub product: &'a [u8],
    pub model: &'a [u8],
    pub compute_units: u32,
    pub wave_front: u32,
    pub pci_domain: u32,
    pub pci_location: u32,
    pub memory_bytes: u64,
    pub uuid: [u8; 16],
    pub gfx_target: u32,
    pub simd_count: u32,
}

/// A code object's facts.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names are `facts::CodeObject`'s")]
pub struct CodeObjectFact<'a> {
    pub id: u64,
    pub agent: u64,
    pub uri: &'a [u8],
    pub load_base: u64,
    pub load_size: u64,
    pub load_delta: i64,
    pub storage_type: u32,
}

/// A kernel symbol's facts.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names are `facts::KernelSymbol`'s")]
pub struct KernelFact<'a> {
    pub kernel_id: u64,
    pub code_object_id: u64,
    /// Mangled; copied.
    pub name: &'a [u8],
    pub kernel_object: u64,
    pub group_bytes: u32,
    pub private_bytes: u32,
    pub sgpr_count: u32,
    pub vgpr_count: u32,
    pub accum_vgpr_count: u32,
    pub kernarg_bytes: u32,
}

fn time_flags(start_ns: u64, end_ns: u64) -> u16 {
    // case B11, B13: odd times are kept raw and flagged, never repaired.
    if start_ns == 0 || end_ns == 0 {
        flag::UNTIMED
    } else if end_ns < start_ns {
        flag::END_BEFORE_START
    } else {
        0
    }
}

#[inline(always)]
fn issue_words(issue: &DispatchIssue, session: u32, stream: u32, ticks: u64) -> [u64; CELL_WORDS] {
    let unknown = if stream == 0 { flag::UNKNOWN_STREAM } else { 0 };
    [
        head_word(Kind::Enqueue, 1, unknown, session),
        ticks,
        issue.dispatch_id,
        issue.ids.correlation,
        issue.ids.ancestor,
        issue.kernel_id,
        issue.queue,
        pair(stream, issue.ids.thread),
    ]
}

#[inline(always)]
fn done_words(token: Token, done: &DispatchDone, session: u32) -> [u64; 2 * CELL_WORDS] {
    let stream = token.payload() as u32;
    let unknown = if stream == 0 { flag::UNKNOWN_STREAM } else { 0 };
    [
        head_word(
            Kind::Dispatch,
            2,
            unknown | time_flags(done.start_ns, done.end_ns),
            session,
        ),
        done.start_ns,
        done.end_ns,
        done.ids.correlation,
        done.ids.ancestor,
        done.dispatch_id,
        done.kernel_id,
        done.ids.external,
        done.agent,
        done.queue,
        pair(stream, done.ids.thread),
        pair(done.block[0], done.block[1]),
        pair(done.block[2], done.grid[0]),
        pair(done.grid[1], done.grid[2]),
        pair(done.private_bytes, done.group_bytes),
        pair(done.graph, done.node),
    ]
}

/// Which lane to write to, and the guard of the append.
macro_rules! inside {
    ($runtime:expr, $session:expr) => {
        inside!($runtime, $session, else Default::default())
    };
    ($runtime:expr, $session:expr, else $refused:expr) => {
        match $runtime
            .lane($session)
            .and_then(|lane| lane.enter($session))
        {
            Some(inside) => inside,
            None => return $refused,
        }
    };
}

impl Runtime {
    /// An API call begins. `stream` is the stream that the call names (a number from [`Runtime::stream`]), 0 = none.
    #[inline(always)]
    pub fn api_enter(&self, operation: Operation, ids: Ids, stream: u32) -> Token {
        if self.session_now() == 0 {
            return Token::NONE;
        }
        let ticks = clock::early_tsc();
        if let Some(fast) = self.fast::<0>() {
            let what = operation.word() | u64::from(fast.session) << 32;
            if fast.push_call(what, ticks, ids.correlation, stream) {
                return Token::new(fast.session, ticks);
            }
        }
        self.api_enter_long(operation, ids.correlation, stream)
    }

    #[cold]
    #[inline(never)]
    fn api_enter_long(&self, operation: Operation, correlation: u64, stream: u32) -> Token {
        let inside = inside!(self, 0, else Token::NONE);
        let session = self.session_now();
        if session == 0 {
            return Token::NONE;
        }
        let ticks = clock::ticks();
        inside.push_call(
            operation.word() | u64::from(session) << 32,
            ticks,
            correlation,
            stream,
        );
        Token::new(session, ticks)
    }

    /// An API call ends. `arguments` of `None` takes half the space.
    #[inline(always)]
    pub fn api_exit(
        &self,
        token: Token,
        operation: Operation,
        ids: Ids,
        return_value: i32,
        arguments: Option<&ApiArgs>,
    ) {
        if token.is_none() {
            return;
        }
        let done = match arguments {
            None => self.api_exit_fast::<1>(token, operation, ids, return_value, arguments),
            Some(_) => self.api_exit_fast::<2>(token, operation, ids, return_value, arguments),
        };
        if done.is_none() {
            self.api_exit_long(
                token,
                operation,
                ids.correlation,
                ids.ancestor,
                ids.external,
                ids.thread,
                return_value,
                arguments,
            );
        }
    }

    #[inline(always)]
    fn api_exit_fast<const CELLS: usize>(
        &self,
        token: Token,
        operation: Operation,
        ids: Ids,
        return_value: i32,
        arguments: Option<&ApiArgs>,
    ) -> Option<()> {
        let end = clock::early_tsc();
        let fast = self.fast::<CELLS>()?;
        if fast.session as u16 != token.session() {
            return None;
        }
        let (depth, stream) = fast.pop_call(ids.correlation)?;
        let thread = if ids.thread == 0 {
            fast.thread_high()
        } else {
            pair(0, ids.thread)
        };
        let first = [
            head_word(Kind::Api, CELLS, 0, fast.session),
            token.start_before(end),
            end,
            ids.correlation,
            ids.ancestor,
            operation.word() | (depth as u64) << 24 | u64::from(return_value as u32) << 32,
            ids.external,
            u64::from(stream) | thread,
        ];
        match arguments {
            None => fast.append(&first),
            Some(arguments) => {
                let mut words = [0; 2 * CELL_WORDS];
                words[..CELL_WORDS].copy_from_slice(&first);
                words[CELL_WORDS..].copy_from_slice(arguments);
                fast.append(&words);
            }
        }
        let counters = fast.counters();
        fast.bump(counters, Counter::ApiRecorded as usize, 1);
        if is_sampled(ids.correlation) {
            count_sample(&fast, counters, clock::early_tsc().wrapping_sub(end));
        }
        Some(())
    }

    #[cold]
    #[inline(never)]
    #[allow(
        clippy::too_many_arguments,
        reason = "in registers: ids by reference are written to memory on the fast way as well"
    )]
    fn api_exit_long(
        &self,
        token: Token,
        operation: Operation,
        correlation: u64,
        ancestor: u64,
        external: u64,
        thread: u32,
        return_value: i32,
        arguments: Option<&ApiArgs>,
    ) {
        let ids = Ids {
            correlation,
            ancestor,
            external,
            thread,
        };
        let session = self.control().expand(token.session());
        let inside = inside!(self, session);
        let stream = inside.call_stream();
        let exported = inside.pop_call(ids.correlation);
        let block = inside.block(session);
        if !self.control().accepts(session) {
            if !exported {
                inside.bump(block, Counter::Late as usize, 1);
            }
            return;
        }
        let end = clock::ticks();
        let start = token.start_before(end);
        let thread = if ids.thread == 0 {
            inside.thread()
        } else {
            ids.thread
        };
        let depth = inside.call_depth().min(255) as u64;
        let what = operation.word() | depth << 24 | u64::from(return_value as u32) << 32;
        let first = [
            0,
            start,
            end,
            ids.correlation,
            ids.ancestor,
            what,
            ids.external,
            pair(stream, thread),
        ];
        let stored = match arguments {
            None => {
                let mut words = first;
                words[0] = head_word(Kind::Api, 1, 0, session);
                inside.append(&words, session)
            }
            Some(arguments) => {
                let mut words = [0; 2 * CELL_WORDS];
                words[..CELL_WORDS].copy_from_slice(&first);
                words[0] = head_word(Kind::Api, 2, 0, session);
                words[CELL_WORDS..].copy_from_slice(arguments);
                inside.append(&words, session)
            }
        };
        inside.bump(block, Counter::ApiRecorded as usize, u64::from(stored));
        if is_sampled(ids.correlation) {
            count_sample(&inside, block, clock::ticks().wrapping_sub(end));
        }
    }

    /// A dispatch is issued on the calling thread. Its stream is that of the call that the thread is inside of.
    #[inline(always)]
    pub fn dispatch_issue(&self, issue: &DispatchIssue) -> Token {
        if self.session_now() == 0 {
            return Token::NONE;
        }
        let ticks = clock::early_tsc();
        let Some(fast) = self
            .fast::<1>()
            .filter(|fast| fast.knows_queue(issue.queue, issue.agent))
        else {
            // A copy made here, so that the fast way need not have the issue in memory.
            return self.dispatch_issue_long(&DispatchIssue { ..*issue });
        };
        let stream = fast.call_stream();
        fast.append(&issue_words(issue, fast.session, stream, ticks));
        let counters = fast.counters();
        fast.raise(counters, Counter::HighId, issue.ids.correlation);
        fast.bump(counters, Counter::DispatchIssued as usize, 1);
        Token::new(fast.session, stream.into())
    }

    #[cold]
    #[inline(never)]
    fn dispatch_issue_long(&self, issue: &DispatchIssue) -> Token {
        // The SDK's thread id is that of the correlation id, which may be another thread's (facts E.6): the lane is
        // the calling thread's own.
        let inside = inside!(self, 0, else self.issued_without_lane(Laneless::DispatchIssued));
        let session = self.session_now();
        if session == 0 {
            return Token::NONE;
        }
        if self.announce_queue(&inside, issue.queue, issue.agent) {
            inside.know_queue(issue.queue, issue.agent);
        }
        let stream = inside.call_stream();
        let block = inside.block(session);
        let words = issue_words(issue, session, stream, clock::ticks());
        if !inside.append(&words, session) {
            inside.lower_lost_id(block, issue.ids.correlation);
            inside.bump(block, Counter::IssueLost as usize, 1);
        }
        inside.raise(block, Counter::HighId, issue.ids.correlation);
        inside.bump(block, Counter::DispatchIssued as usize, 1);
        Token::new(session, stream.into())
    }

    /// A dispatch completed; any thread.
    #[inline(always)]
    pub fn dispatch_done(&self, token: Token, done: &DispatchDone) {
        if token.is_none() {
            return;
        }
        let ticks = clock::early_tsc();
        let Some(fast) = self
            .fast::<2>()
            .filter(|fast| fast.session as u16 == token.session())
        else {
            return self.dispatch_done_long(token, &DispatchDone { ..*done });
        };
        fast.append(&done_words(token, done, fast.session));
        fast.mark_handler();
        let counters = fast.counters();
        fast.bump(counters, Counter::DispatchRecorded as usize, 1);
        // ORD(arrival): Relaxed. A time for people; nothing is published through it.
        counters[Counter::LastArrivalTicks as usize].store(ticks, Ordering::Relaxed);
        fast.bump(counters, Counter::DispatchDone as usize, 1);
    }

    #[cold]
    #[inline(never)]
    fn dispatch_done_long(&self, token: Token, done: &DispatchDone) {
        let session = self.control().expand(token.session());
        let inside =
            inside!(self, session, else self.done_without_lane(session, Laneless::DispatchDone));
        let block = inside.block(session);
        if !self.control().accepts(session) {
            inside.bump(block, Counter::Late as usize, 1);
            return;
        }
        let words = done_words(token, done, session);
        let stored = inside.append(&words, session);
        inside.mark_handler();
        inside.bump(block, Counter::DispatchRecorded as usize, u64::from(stored));
        inside.raise(block, Counter::LastArrivalTicks, clock::ticks());
        inside.bump(block, Counter::DispatchDone as usize, 1);
    }

    /// A copy is issued on the calling thread.
    #[inline]
    pub fn copy_issue(&self, copy: &CopyEvent) -> Token {
        if self.session_now() == 0 {
            return Token::NONE;
        }
        let inside = inside!(self, 0, else self.issued_without_lane(Laneless::CopyIssued));
        let session = self.session_now();
        if session == 0 {
            return Token::NONE;
        }
        let stream = inside.call_stream();
        let block = inside.block(session);
        let words = [
            head_word(
                Kind::CopyIssue,
                1,
                if stream == 0 { flag::UNKNOWN_STREAM } else { 0 },
                session,
            ),
            clock::ticks(),
            0,
            copy.ids.correlation,
            copy.ids.ancestor,
            copy.operation.into(),
            copy.bytes,
            pair(stream, copy.ids.thread),
        ];
        if !inside.append(&words, session) {
            inside.lower_lost_id(block, copy.ids.correlation);
            inside.bump(block, Counter::IssueLost as usize, 1);
        }
        inside.raise(block, Counter::HighId, copy.ids.correlation);
        inside.bump(block, Counter::CopyIssued as usize, 1);
        Token::new(session, stream.into())
    }

    /// A copy completed; any thread.
    #[inline]
    pub fn copy_done(&self, token: Token, copy: &CopyEvent) {
        if token.is_none() {
            return;
        }
        let session = self.control().expand(token.session());
        let inside =
            inside!(self, session, else self.done_without_lane(session, Laneless::CopyDone));
        let block = inside.block(session);
        if !self.control().accepts(session) {
            inside.bump(block, Counter::Late as usize, 1);
            return;
        }
        let stream = token.payload() as u32;
        let unknown = if stream == 0 { flag::UNKNOWN_STREAM } else { 0 };
        let words = [
            head_word(
                Kind::Copy,
                2,
                unknown | time_flags(copy.start_ns, copy.end_ns),
                session,
            ),
            copy.start_ns,
            copy.end_ns,
            copy.ids.correlation,
            copy.ids.ancestor,
            copy.operation.into(),
            copy.bytes,
            copy.ids.external,
            copy.source_agent,
            copy.destination_agent,
            pair(stream, copy.ids.thread),
            copy.source,
            copy.destination,
            0,
            0,
            0,
        ];
        let stored = inside.append(&words, session);
        inside.bump(block, Counter::CopyRecorded as usize, u64::from(stored));
        inside.raise(block, Counter::LastArrivalTicks, clock::ticks());
        inside.bump(block, Counter::CopyDone as usize, 1);
    }

    /// An issue of a thread without a lane: its record is lost and counted, the issue itself is counted as well, and the
    /// completion still belongs to the session.
    #[cold]
    fn issued_without_lane(&self, what: Laneless) -> Token {
        let session = self.session_now();
        if session == 0 || self.control().barrier().is_none() {
            return Token::NONE;
        }
        laneless(self.region(), session, what);
        Token::new(session, 0)
    }

    /// A completion of a thread without a lane: lost and counted, so that no stop waits for it.
    #[cold]
    fn done_without_lane(&self, session: u32, what: Laneless) {
        if self.control().barrier().is_some() && self.control().accepts(session) {
            laneless(self.region(), session, what);
        }
    }

    /// The token for an event of two callbacks that is not waited for (allocation, scratch): the session that is open
    /// now, and 48 bits of the caller's.
    #[inline]
    pub fn token(&self, payload: u64) -> Token {
        match self.session_now() {
            0 => Token::NONE,
            session => Token::new(session, payload),
        }
    }

    /// An allocation or free, over.
    pub fn alloc_done(&self, token: Token, event: &MemoryEvent) {
        self.memory_event(token, Kind::Alloc, event);
    }

    /// A scratch event, over.
    pub fn scratch_done(&self, token: Token, event: &MemoryEvent) {
        self.memory_event(token, Kind::Scratch, event);
    }

    fn memory_event(&self, token: Token, kind: Kind, event: &MemoryEvent) {
        if token.is_none() {
            return;
        }
        let words = [
            0,
            event.start_ns,
            event.end_ns,
            event.ids.correlation,
            event.ids.ancestor,
            pair(event.operation, event.flags),
            event.bytes,
            event.ids.external,
            event.agent,
            event.queue,
            pair(0, event.ids.thread),
            event.address,
            0,
            0,
            0,
            0,
        ];
        self.append_other(token, kind, words);
    }

    /// Appends a record that no proof waits for, to the session of its token.
    fn append_other<const WORDS: usize>(&self, token: Token, kind: Kind, mut words: [u64; WORDS]) {
        let session = self.control().expand(token.session());
        let inside = inside!(self, session);
        let block = inside.block(session);
        if !self.control().accepts(session) {
            inside.bump(block, Counter::Late as usize, 1);
            return;
        }
        words[0] = head_word(kind, WORDS / CELL_WORDS, 0, session);
        let stored = inside.append(&words, session);
        inside.bump(block, Counter::OtherRecorded as usize, u64::from(stored));
    }

    /// A range is pushed on the calling thread. `name` is copied.
    pub fn range_push(&self, ids: Ids, name: &[u8]) {
        // Pushed without a session, a range still counts for the nesting, so that pops match.
        let inside = inside!(self, 0);
        let session = self.session_now();
        let name = if session == 0 {
            0
        } else {
            self.intern_inside(&inside, name)
        };
        inside.push_range(session, clock::ticks(), ids.correlation, name);
    }

    /// The innermost range of the calling thread is popped. A pop without a push is ignored.
    pub fn range_pop(&self, ids: Ids) {
        let inside = inside!(self, 0);
        let Some(([session, start, correlation, name], depth)) = inside.pop_range() else {
            return;
        };
        let session = session as u32;
        if session == 0 {
            return;
        }
        let block = inside.block(session);
        if !self.control().accepts(session) {
            // It was exported as open when its session was accounted for.
            return;
        }
        let thread = if ids.thread == 0 {
            inside.thread()
        } else {
            ids.thread
        };
        let words = [
            head_word(Kind::Range, 1, 0, session),
            start,
            clock::ticks(),
            correlation,
            ids.ancestor,
            (depth as u64).min(255) << 24,
            name,
            pair(0, thread),
        ];
        let stored = inside.append(&words, session);
        inside.bump(block, Counter::OtherRecorded as usize, u64::from(stored));
    }

    /// An instant on the calling thread: the cheapest record there is. `name` is the id of an interned string
    /// ([`Runtime::intern`]); `correlation` and `ancestor` join it to other records, 0 = none.
    #[inline(always)]
    pub fn instant(&self, name: u64, correlation: u64, ancestor: u64) {
        if self.session_now() == 0 {
            return;
        }
        let ticks = clock::early_tsc();
        match self.fast::<1>() {
            Some(fast) => fast.instant(name, correlation, ancestor, ticks),
            None => self.instant_long(name, correlation, ancestor, None),
        }
    }

    /// As [`Runtime::instant`], at a time that the caller has read already ([`clock::ticks`]).
    #[inline(always)]
    pub fn instant_at(&self, name: u64, correlation: u64, ancestor: u64, ticks: u64) {
        if self.session_now() == 0 {
            return;
        }
        match self.fast::<1>() {
            Some(fast) => fast.instant(name, correlation, ancestor, ticks),
            None => self.instant_long(name, correlation, ancestor, Some(ticks)),
        }
    }

    #[cold]
    #[inline(never)]
    fn instant_long(&self, name: u64, correlation: u64, ancestor: u64, ticks: Option<u64>) {
        let inside = inside!(self, 0);
        let session = self.session_now();
        if session == 0 {
            return;
        }
        let block = inside.block(session);
        let words = [
            head_word(Kind::Mark, 1, 0, session),
            ticks.unwrap_or_else(clock::ticks),
            0,
            correlation,
            ancestor,
            0,
            name,
            inside.thread_high(),
        ];
        let stored = inside.append(&words, session);
        inside.bump(block, Counter::OtherRecorded as usize, u64::from(stored));
    }

    /// An instant, or the start or stop of a range by id, on the calling thread.
    pub fn mark(&self, kind: Kind, ids: Ids, range_id: u64, name: &[u8]) {
        debug_assert!(matches!(
            kind,
            Kind::Mark | Kind::RangeStart | Kind::RangeStop
        ));
        if self.session_now() == 0 {
            return;
        }
        let inside = inside!(self, 0);
        let session = self.session_now();
        if session == 0 {
            return;
        }
        let name = if kind == Kind::RangeStop {
            0
        } else {
            self.intern_inside(&inside, name)
        };
        let thread = if ids.thread == 0 {
            inside.thread()
        } else {
            ids.thread
        };
        let block = inside.block(session);
        let words = [
            head_word(kind, 1, 0, session),
            clock::ticks(),
            0,
            ids.correlation,
            ids.ancestor,
            range_id,
            name,
            pair(0, thread),
        ];
        let stored = inside.append(&words, session);
        inside.bump(block, Counter::OtherRecorded as usize, u64::from(stored));
    }

    // Facts. They are kept from load on, with or without a session.

    /// Copies a string into the sticky log once and returns its id.
    pub fn intern(&self, bytes: &[u8]) -> u64 {
        let id = hash::bytes(bytes);
        if !self.announced().contains(id)
            && let Some(lane) = self.fact_lane(0)
            && let Some(inside) = lane.enter(0)
        {
            self.intern_inside(&inside, bytes);
        }
        id
    }

    fn intern_inside(&self, inside: &Inside<'_>, bytes: &[u8]) -> u64 {
        let id = hash::bytes(bytes);
        if self.announced().contains(id) {
            return id;
        }
        let mut stored = true;
        for (_, cells, words) in crate::builder::string_records(id, bytes) {
            stored &= inside.announce(&words[..cells * CELL_WORDS]);
        }
        if stored {
            self.announced().add(id);
        }
        id
    }

    /// Announces a fact of up to 16 cells: words 1 and up.
    pub fn fact(&self, kind: Kind, session: u32, words: &[u64]) -> bool {
        let lane = self.fact_lane(session);
        let inside = lane.as_deref().and_then(|lane| lane.enter(session));
        inside.is_some_and(|inside| Self::fact_inside(&inside, kind, session, words))
    }

    fn fact_inside(inside: &Inside<'_>, kind: Kind, session: u32, words: &[u64]) -> bool {
        let mut all = [0; RECORD_CELLS_MAX * CELL_WORDS];
        let cells = kind.cells().max((words.len() + 1).div_ceil(CELL_WORDS));
        debug_assert!(kind.is_sticky() && cells <= RECORD_CELLS_MAX);
        all[0] = head_word(kind, cells, 0, session);
        all[1..=words.len()].copy_from_slice(words);
        inside.announce(&all[..cells * CELL_WORDS])
    }

    /// Announces an agent.
    pub fn agent(&self, agent: &AgentFact<'_>) {
        let [name, vendor, product, model] =
            [agent.name, agent.vendor, agent.product, agent.model].map(|text| self.intern(text));
        let (first, second) = agent.uuid.split_at(8);
        let uuid = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap_or_default());
        let words = [
            agent.handle,
            pair(agent.kind, agent.node),
            pair(agent.logical_node, agent.type_index),
            name,
            vendor,
            product,
            model,
            pair(agent.compute_units, agent.wave_front),
            pair(agent.pci_domain, agent.pci_location),
            agent.memory_bytes,
            uuid(first),
            uuid(second),
            pair(agent.gfx_target, agent.simd_count),
        ];
        self.fact(Kind::Agent, 0, &words);
    }

    /// True when the queue is announced, now or before.
    fn announce_queue(&self, inside: &Inside<'_>, queue: u64, agent: u64) -> bool {
        let key = hash::word(hash::word(queue) ^ agent ^ 0x51);
        if self.announced().contains(key) {
            return true;
        }
        let stored = Self::fact_inside(inside, Kind::Queue, 0, &[queue, agent]);
        if stored {
            self.announced().add(key);
        }
        stored
    }

    /// Announces the name of an operation, once.
    #[inline]
    pub fn operation(&self, operation: Operation, name: &[u8]) {
        let key = hash::word(operation.word() ^ 0x0b << 56);
        if !self.announced().contains(key) {
            self.operation_cold(operation, name, key);
        }
    }

    #[cold]
    fn operation_cold(&self, operation: Operation, name: &[u8], key: u64) {
        let name = self.intern(name);
        if self.fact(Kind::Operation, 0, &[operation.word(), name]) {
            self.announced().add(key);
        }
    }

    /// The number of a stream handle, announcing it the first time; 0 when there is no room. `kind` tells what a handle
    /// that was never created is; `thread` keys a thread's own default stream.
    #[inline]
    pub fn stream(&self, handle: u64, kind: StreamKind, thread: u32) -> u32 {
        match self.streams().number(stream_key(handle, kind, thread)) {
            Some(numbered) if numbered.announced => numbered.id,
            Some(numbered) => {
                self.announce_stream(handle, kind, thread, numbered);
                numbered.id
            }
            None => 0,
        }
    }

    #[cold]
    fn announce_stream(
        &self,
        handle: u64,
        kind: StreamKind,
        thread: u32,
        numbered: crate::tables::Numbered,
    ) {
        let words = [
            numbered.id.into(),
            handle,
            pair(numbered.generation, thread),
            clock::ticks(),
            kind as u64,
        ];
        self.fact(Kind::Stream, 0, &words);
    }

    /// A stream was created: its handle is a new stream, whatever it stood for before.
    pub fn stream_created(&self, handle: u64) -> u32 {
        self.stream_destroyed(handle);
        self.stream(handle, StreamKind::Created, 0)
    }

    /// A stream is destroyed.
    pub fn stream_destroyed(&self, handle: u64) {
        if let Some(numbered) = self
            .streams()
            .retire(stream_key(handle, StreamKind::Created, 0))
        {
            self.fact(
                Kind::StreamEnd,
                0,
                &[numbered.id.into(), handle, 0, clock::ticks()],
            );
        }
    }

    /// Announces a code object.
    pub fn code_object(&self, object: &CodeObjectFact<'_>) {
        let uri = self.intern(object.uri);
        let words = [
            object.id,
            object.agent,
            uri,
            object.load_base,
            object.load_size,
            object.load_delta as u64,
            object.storage_type.into(),
            clock::ticks(),
        ];
        self.fact(Kind::CodeObject, 0, &words);
    }

    /// A code object was unloaded; its kernels keep their names.
    pub fn code_object_unloaded(&self, id: u64) {
        self.fact(Kind::CodeObjectUnload, 0, &[id, clock::ticks()]);
    }

    /// Announces a kernel symbol.
    pub fn kernel(&self, kernel: &KernelFact<'_>) {
        let name = self.intern(kernel.name);
        let words = [
            kernel.kernel_id,
            kernel.code_object_id,
            name,
            kernel.kernel_object,
            pair(kernel.group_bytes, kernel.private_bytes),
            pair(kernel.sgpr_count, kernel.vgpr_count),
            pair(kernel.accum_vgpr_count, kernel.kernarg_bytes),
            clock::ticks(),
        ];
        self.fact(Kind::KernelSymbol, 0, &words);
    }

    /// Adds a free pair to the trace.
    pub fn metadata(&self, key: &[u8], value: &[u8]) {
        let (key, value) = (self.intern(key), self.intern(value));
        self.fact(Kind::Metadata, 0, &[key, value]);
    }

    /// Names a thread.
    pub fn thread_name(&self, thread: u32, name: &[u8]) {
        let name = self.intern(name);
        self.fact(Kind::ThreadName, 0, &[thread.into(), name]);
    }

    /// Names an agent, device or stream ([`crate::record::label`]).
    pub fn label(&self, what: u32, handle: u64, name: &[u8]) {
        let name = self.intern(name);
        self.fact(Kind::Label, 0, &[what.into(), handle, name]);
    }
}

impl Fast<'_> {
    #[inline(always)]
    fn instant(&self, name: u64, correlation: u64, ancestor: u64, ticks: u64) {
        self.append(&[
            head_word(Kind::Mark, 1, 0, self.session),
            ticks,
            0,
            correlation,
            ancestor,
            0,
            name,
            self.thread_high(),
        ]);
        self.bump(self.counters(), Counter::OtherRecorded as usize, 1);
    }
}

/// Whether this call's append is timed. A spread of the id, not its low bits: those follow a loop's own period.
#[inline(always)]
fn is_sampled(correlation: u64) -> bool {
    correlation.wrapping_mul(SAMPLE_SPREAD) >> SAMPLE_SHIFT == 0
}

/// One call's append took so many ticks, from its reading of the clock to its end: what tracing costs is in the trace itself.
/// Within the append, and not behind a call: a sampled call is one in 1,024, and what it takes more is what the slowest 0.1%
/// take.
#[inline(always)]
fn count_sample(inside: &Inside<'_>, block: &Counters, took: u64) {
    inside.bump(block, Counter::SampledTicks as usize, took);
    inside.bump(block, Counter::SampledAppends as usize, 1);
}

/// The key of a stream in the handle table; never 0. A thread's own default stream is keyed by the thread.
#[inline]
fn stream_key(handle: u64, kind: StreamKind, thread: u32) -> u64 {
    match kind {
        StreamKind::PerThread => 1 << 63 | u64::from(thread),
        StreamKind::Null => 1 << 62,
        StreamKind::Legacy => 1 << 62 | 1,
        _ => handle | 1 << 61,
    }
}
