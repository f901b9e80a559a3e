//! Records: what one cell says, word by word.
//!
//! A record is 1 to 16 cells of 64 bytes; its first word says kind, size in cells, flags and session. All words are
//! little-endian u64; the tables below are the contract that `docs/format.md` prints and that the Python reader in the
//! tests checks. Writers build a record as an array of words and hand it to the lane; readers get a [`Record`],
//! a borrowed slice of words below the published head.
//!
//! ```text
//! word 0   bits 0..8 kind   8..16 cells   16..32 flags   32..64 session (0 = none: sticky facts)
//! ```
//!
//! | kind | cells | w1 | w2 | w3 | w4 | w5 | w6 | w7 | w8.. |
//! |---|---|---|---|---|---|---|---|---|---|
//! | Api | 1 or 2 | start ticks | end ticks (0 = open) | correlation | ancestor | op u16, domain u8, depth u8, return i32 | external | stream u32, thread u32 | 8: argument mask, 9..15: arguments (see [`api_arg`]); one cell = no arguments |
//! | Enqueue | 1 | ticks | dispatch id | correlation | ancestor | kernel id | queue id | stream u32, thread u32 | |
//! | Dispatch | 2 | start ns | end ns | correlation | ancestor | dispatch id | kernel id | external | 8: agent, 9: queue, 10: stream u32, thread u32, 11: block x, y, 12: block z, grid x, 13: grid y, z, 14: private, group bytes, 15: graph u32, node u32 |
//! | CopyIssue | 1 | ticks | 0 | correlation | ancestor | operation | bytes | stream u32, thread u32 | |
//! | Copy | 2 | start ns | end ns | correlation | ancestor | operation u32 | bytes | external | 8: source agent, 9: destination agent, 10: stream u32, thread u32, 11: source address, 12: destination address |
//! | Alloc | 2 | start ns | end ns | correlation | ancestor | operation u32 | bytes | external | 8: agent, 10: 0, thread u32, 11: address |
//! | Scratch | 2 | start ns | end ns | correlation | dispatch packet | operation u32, flags u32 | bytes | 0 | 8: agent, 9: queue, 10: 0, thread u32, 11: slots |
//! | Range | 1 | start ticks | end ticks (0 = open) | correlation | ancestor | 0, 0, depth u8 | name (string id) | 0, thread u32 | |
//! | Mark | 1 | ticks | 0 | correlation | ancestor | 0 | name | 0, thread u32 | |
//! | RangeStart | 1 | ticks | 0 | correlation | ancestor | range id | name | 0, thread u32 | |
//! | RangeStop | 1 | ticks | 0 | correlation | ancestor | range id | 0 | 0, thread u32 | |
//! | Thread | 1 | ticks | thread id | lane generation | | | | | |
//! | External | 1 | ticks | 0 | correlation | 0 | domain u32 | external id | 0, thread u32 | |
//!
//! Times in "ns" are the vendor's raw numbers. Times in "ticks" are the host's (see [`crate::clock`]) and are converted
//! into the vendor's clock with the anchors; nothing else is ever adjusted.
//!
//! Sticky facts (kinds 64 and up) lie in sticky segments, session 0 unless the fact is about a session:
//!
//! | kind | cells | words |
//! |---|---|---|
//! | String | 1..16 | 1: id (hash of the whole), 2: total bytes u32, offset u32, 3..: bytes |
//! | Agent | 3 | 1: agent handle, 2: type u32 (1 CPU, 2 GPU), node u32, 3: logical node u32, logical node of its type u32, 4: name, 5: vendor name, 6: product name, 7: model name, 8: compute units u32, wave front u32, 9: PCI domain u32, location u32, 10: memory bytes, 11..12: uuid, 13: gfx target u32, simd count u32 |
//! | Queue | 1 | 1: queue id, 2: agent |
//! | Stream | 1 | 1: stream id, 2: handle, 3: generation u32, thread u32, 4: ticks, 5: kind u32 (see [`StreamKind`]) |
//! | StreamEnd | 1 | 1: stream id, 2: handle, 4: ticks |
//! | CodeObject | 2 | 1: code object id, 2: agent, 3: uri, 4: load base, 5: load size, 6: load delta, 7: storage type, 8: ticks |
//! | CodeObjectUnload | 1 | 1: code object id, 2: ticks |
//! | KernelSymbol | 2 | 1: kernel id, 2: code object id, 3: name, 4: kernel object, 5: group u32, private u32, 6: sgpr u32, vgpr u32, 7: accum vgpr u32, kernarg bytes u32, 8: ticks |
//! | Operation | 1 | 1: op u16, domain u8, 2: name |
//! | Metadata | 1 | 1: key, 2: value |
//! | Anchor | 1 | 1: ticks, 2: vendor ns, 3: BOOTTIME ns, 4: MONOTONIC ns, 5: MONOTONIC_RAW ns, 6: REALTIME ns |
//! | SessionBegin | 1 | 1: session, 2: ticks, 3: vendor ns, 4: REALTIME ns |
//! | SessionEnd | 8 | see [`crate::SessionEnd`] |
//! | Retired | 1 | 1: what u32 (0 dispatch, 1 copy), count u32, 2: dispatch id (0 for copies), 3: correlation, 4: session |
//! | OpenCall | 1 or 2 | as Api, with end 0 |
//! | OpenRange | 1 | as Range, with end 0 |
//! | ThreadName | 1 | 1: thread id, 2: name, 3: source (0 the program, 1 the kernel) |
//! | Label | 1 | 1: what u32 ([`label`]), 2: handle, 3: name |
//! | Late | 1 | 1: session, 2: records of it that came to one lane after it was accounted for; written when the lane's counters for it are given to another session |
//! | SessionReleased | 1 | 1: session |

use crate::limits::{CELL_WORDS, RECORD_CELLS_MAX};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// One host API call, from ENTER to EXIT.
    Api = 1,
    /// A dispatch was issued (the SDK's ENQUEUE).
    Enqueue = 2,
    /// A dispatch completed; stands alone.
    Dispatch = 3,
    /// A memory copy was issued (the SDK's copy ENTER).
    CopyIssue = 4,
    /// A memory copy completed.
    Copy = 5,
    /// A device memory allocation or free.
    Alloc = 6,
    /// Scratch memory of a queue.
    Scratch = 7,
    /// A pushed and popped range of one thread.
    Range = 8,
    /// An instant.
    Mark = 9,
    /// A range by id was started.
    RangeStart = 10,
    /// A range by id was stopped, on whatever thread.
    RangeStop = 11,
    /// The lane's thread changes here.
    Thread = 12,
    /// An external id of a domain other than 0, of the API call with that correlation id.
    External = 13,
    /// Part of a string.
    String = 64,
    /// An agent.
    Agent = 65,
    /// A queue.
    Queue = 66,
    /// A stream was created or first seen.
    Stream = 67,
    /// A stream was destroyed.
    StreamEnd = 68,
    /// A code object was loaded.
    CodeObject = 69,
    /// A code object was unloaded.
    CodeObjectUnload = 70,
    /// A kernel symbol.
    KernelSymbol = 71,
    /// The name of an API operation.
    Operation = 72,
    /// A free pair.
    Metadata = 73,
    /// One instant in several clocks.
    Anchor = 74,
    /// A session was opened.
    SessionBegin = 75,
    /// A session was accounted for.
    SessionEnd = 76,
    /// Work that was issued and retired without a record.
    Retired = 77,
    /// A call that was still open when its session was accounted for.
    OpenCall = 78,
    /// A range that was still open when its session was accounted for.
    OpenRange = 79,
    /// A thread's name.
    ThreadName = 80,
    /// A name the program gave to an agent, device or stream.
    Label = 81,
    /// How many records of a session came late, as far as one lane knows.
    Late = 82,
    /// A session's records are not kept any longer.
    SessionReleased = 83,
}

impl Kind {
    /// The kind with that number, if this version knows it.
    #[inline(always)]
    pub const fn from_u8(value: u8) -> Option<Self> {
        // A reader asks this of each record, several times.
        static KINDS: [Option<Kind>; 256] = {
            let mut kinds = [None; 256];
            let mut value = 0;
            while value < 256 {
                kinds[value] = Kind::known(value as u8);
                value += 1;
            }
            kinds
        };
        KINDS[value as usize]
    }

    const fn known(value: u8) -> Option<Self> {
        use Kind::*;
        Some(match value {
            1 => Api,
            2 => Enqueue,
            3 => Dispatch,
            4 => CopyIssue,
            5 => Copy,
            6 => Alloc,
            7 => Scratch,
            8 => Range,
            9 => Mark,
            10 => RangeStart,
            11 => RangeStop,
            12 => Thread,
            13 => External,
            64 => String,
            65 => Agent,
            66 => Queue,
            67 => Stream,
            68 => StreamEnd,
            69 => CodeObject,
            70 => CodeObjectUnload,
            71 => KernelSymbol,
            72 => Operation,
            73 => Metadata,
            74 => Anchor,
            75 => SessionBegin,
            76 => SessionEnd,
            77 => Retired,
            78 => OpenCall,
            79 => OpenRange,
            80 => ThreadName,
            81 => Label,
            82 => Late,
            83 => SessionReleased,
            _ => return None,
        })
    }

    /// True for facts, which lie in sticky segments.
    pub const fn is_sticky(self) -> bool {
        self as u8 >= 64
    }

    /// Cells of a record of this kind; 0 where the size varies.
    pub const fn cells(self) -> usize {
        use Kind::*;
        match self {
            String | Api | OpenCall => 0,
            SessionEnd => 8,
            Agent => 3,
            Dispatch | Copy | Alloc | Scratch | CodeObject | KernelSymbol => 2,
            _ => 1,
        }
    }
}

/// Flags of a record (word 0, bits 16..32).
pub mod flag {
    /// The vendor gave no time, or half of one: start or end is 0.
    pub const UNTIMED: u16 = 1;
    /// The vendor's end lies before its start.
    pub const END_BEFORE_START: u16 = 1 << 1;
    /// The record belongs to the session by origin, its time lies outside the session's window.
    pub const OUTSIDE_WINDOW: u16 = 1 << 2;
    /// No enclosing call named the stream.
    pub const UNKNOWN_STREAM: u16 = 1 << 3;
    /// Neither correlation id nor ancestor leads to a recorded API call. Set by readers, never by writers.
    pub const NO_LAUNCH: u16 = 1 << 4;
    /// The call or range was still open when its session was accounted for.
    pub const OPEN: u16 = 1 << 5;
    /// A string or name was cut.
    pub const CUT: u16 = 1 << 6;
    /// The call's start is known only to the entry itself (its session opened later).
    pub const PARTIAL: u16 = 1 << 7;
}

/// Which API an operation number belongs to (word 5, bits 16..24 of an Api record). The runtime only stores it.
pub mod domain {
    /// A vendor runtime API (HIP, CUDA runtime).
    pub const RUNTIME: u8 = 1;
    /// A vendor compiler API (`__hip*`).
    pub const COMPILER: u8 = 2;
    /// A driver-level API (HSA, CUDA driver).
    pub const DRIVER: u8 = 3;
    /// A collective library's API (RCCL, NCCL).
    pub const COLLECTIVE: u8 = 4;
    /// Markers.
    pub const MARKER: u8 = 5;
    /// The embedder's own.
    pub const USER: u8 = 6;
}

/// Bits of an Api record's argument mask (word 8): which of words 9..15 hold something.
pub mod api_arg {
    /// Word 9: bytes of a copy, fill or allocation.
    pub const BYTES: u64 = 1;
    /// Word 10: destination pointer, or the pointer allocated or freed.
    pub const DESTINATION: u64 = 1 << 1;
    /// Word 11: source pointer.
    pub const SOURCE: u64 = 1 << 2;
    /// Word 12, low u32: copy direction, the API's own number.
    pub const COPY_KIND: u64 = 1 << 3;
    /// Word 13: grid x u32, grid y u32; word 14 low: grid z u32, word 14 high: shared memory bytes u32; word 15: block
    /// x u16, y u16, z u16 and 0. The API's own unit (see `GRID_IN_ITEMS`).
    pub const LAUNCH: u64 = 1 << 4;
    /// The grid counts work-items, not work-groups.
    pub const GRID_IN_ITEMS: u64 = 1 << 5;
    /// Word 10: a graph handle.
    pub const GRAPH: u64 = 1 << 6;
    /// Word 10: an event handle.
    pub const EVENT: u64 = 1 << 7;
}

/// What a `Label` names.
pub mod label {
    /// An agent, by handle.
    pub const AGENT: u32 = 1;
    /// A device, by the runtime's index.
    pub const DEVICE: u32 = 2;
    /// A stream, by stream id.
    pub const STREAM: u32 = 3;
}

/// What kind of stream a stream id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StreamKind {
    /// Made by the program.
    Created = 0,
    /// First seen in use: made before the runtime was there.
    Seen = 1,
    /// The default (null) stream.
    Null = 2,
    /// The legacy default stream.
    Legacy = 3,
    /// A thread's own default stream.
    PerThread = 4,
}

impl StreamKind {
    /// The kind with that number; unknown numbers read as `Seen`.
    pub const fn from_u32(value: u32) -> Self {
        match value {
            0 => Self::Created,
            2 => Self::Null,
            3 => Self::Legacy,
            4 => Self::PerThread,
            _ => Self::Seen,
        }
    }
}

/// Word 0 of a record.
#[inline]
pub const fn head_word(kind: Kind, cells: usize, flags: u16, session: u32) -> u64 {
    kind as u64 | (cells as u64) << 8 | (flags as u64) << 16 | (session as u64) << 32
}

/// Two u32 in one word, the first in the low half.
#[inline]
pub const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The low half of a word.
#[inline]
pub const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

/// The high half of a word.
#[inline]
pub const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Why the words at some place are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The size in word 0 is 0, above 16, or beyond the end of what is published.
    Size {
        /// Cells that word 0 claims.
        cells: usize,
        /// Cells that are left.
        left: usize,
    },
    /// A known kind with a size that it never has.
    KindSize {
        /// The kind's number.
        kind: u8,
        /// Cells that word 0 claims.
        cells: usize,
    },
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Size { cells, left } => {
                write!(
                    f,
                    "record claims {cells} cells, expected 1 to {}",
                    left.min(&RECORD_CELLS_MAX)
                )
            }
            Self::KindSize { kind, cells } => {
                write!(f, "record of kind {kind} claims {cells} cells")
            }
        }
    }
}

impl std::error::Error for RecordError {}

/// One record, borrowed from the mapped pages.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    words: &'a [u64],
}

macro_rules! word_getters {
    ($($(#[$doc:meta])* $name:ident = $index:expr;)*) => {
        $($(#[$doc])* #[inline] pub fn $name(&self) -> u64 { self.word($index) })*
    };
}

impl<'a> Record<'a> {
    /// The record at the start of `words`, which end where the published cells end.
    ///
    /// # Errors
    /// [`RecordError`] when the size is impossible. A kind that this version does not know is no error: its size
    /// is trusted, so that newer kinds can be skipped.
    #[inline(always)]
    pub fn parse(words: &'a [u64]) -> Result<Self, RecordError> {
        /// Cells by kind; 0 where the size varies, or the kind is not known.
        static CELLS: [u8; 256] = {
            let mut cells = [0; 256];
            let mut value = 0;
            while value < 256 {
                if let Some(kind) = Kind::from_u8(value as u8) {
                    cells[value] = kind.cells() as u8;
                }
                value += 1;
            }
            cells
        };
        let left = words.len() / CELL_WORDS;
        let head = words.first().copied().unwrap_or(0);
        let cells = (head >> 8 & 0xff) as usize;
        if cells == 0 || cells > RECORD_CELLS_MAX || cells > left {
            return Err(RecordError::Size { cells, left });
        }
        let kind = (head & 0xff) as u8;
        let expected = CELLS[usize::from(kind)];
        if expected != 0 && usize::from(expected) != cells {
            return Err(RecordError::KindSize { kind, cells });
        }
        Ok(Self {
            words: &words[..cells * CELL_WORDS],
        })
    }

    /// The kind, or `None` for one that this version does not know.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_u8((self.words[0] & 0xff) as u8)
    }

    /// Size in cells, 1 to 16.
    #[inline]
    pub fn cells(&self) -> usize {
        self.words.len() / CELL_WORDS
    }

    /// The flags ([`flag`]).
    #[inline]
    pub fn flags(&self) -> u16 {
        (self.words[0] >> 16 & 0xffff) as u16
    }

    /// The session that the record belongs to by origin; 0 for facts.
    #[inline]
    pub fn session(&self) -> u32 {
        high(self.words[0])
    }

    /// Word `index`, or 0 beyond the record.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// All words.
    #[inline]
    pub fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Asks the processor to bring the first two cells near, without waiting for them: for readers that know which records
    /// come next. Does nothing where there is no such instruction.
    #[inline]
    pub fn prefetch(&self) {
        let cell = self.words.as_ptr();
        fetch_to_read(cell);
        fetch_to_read(cell.wrapping_add(CELL_WORDS));
    }

    word_getters! {
        /// Word 1: start (ns or ticks), or the first word of a fact.
        start = 1;
        /// Word 2: end (ns or ticks).
        end = 2;
        /// Word 3: correlation id, 0 = unknown.
        correlation_id = 3;
        /// Word 4: correlation id of the enclosing traced call, 0 = none.
        ancestor_id = 4;
    }

    /// Low half of word 7 (one-cell records and Api) or 10 (two-cell device records): the stream id, 0 = unknown.
    #[inline]
    pub fn stream(&self) -> u32 {
        low(self.word(self.place_word()))
    }

    /// High half of the same word: the thread id that the SDK reported.
    #[inline]
    pub fn thread(&self) -> u32 {
        high(self.word(self.place_word()))
    }

    #[inline]
    fn place_word(&self) -> usize {
        match self.kind() {
            Some(Kind::Dispatch | Kind::Copy | Kind::Alloc | Kind::Scratch) => 10,
            _ => 7,
        }
    }

    /// The external correlation id, 0 = none.
    #[inline]
    pub fn external_id(&self) -> u64 {
        match self.kind() {
            Some(Kind::Api | Kind::OpenCall) => self.word(6),
            Some(Kind::External) => self.word(6),
            Some(Kind::Dispatch | Kind::Copy | Kind::Alloc) => self.word(7),
            _ => 0,
        }
    }

    /// Dispatch id of an Enqueue or Dispatch record, else 0.
    #[inline]
    pub fn dispatch_id(&self) -> u64 {
        match self.kind() {
            Some(Kind::Enqueue) => self.word(2),
            Some(Kind::Dispatch) => self.word(5),
            _ => 0,
        }
    }

    /// Kernel id of an Enqueue or Dispatch record, else 0.
    #[inline]
    pub fn kernel_id(&self) -> u64 {
        match self.kind() {
            Some(Kind::Enqueue) => self.word(5),
            Some(Kind::Dispatch) => self.word(6),
            _ => 0,
        }
    }

    /// Agent of a Dispatch, Alloc or Scratch record, source agent of a Copy, else 0.
    #[inline]
    pub fn agent(&self) -> u64 {
        match self.kind() {
            Some(Kind::Dispatch | Kind::Copy | Kind::Alloc | Kind::Scratch) => self.word(8),
            _ => 0,
        }
    }

    /// Destination agent of a Copy.
    #[inline]
    pub fn destination_agent(&self) -> u64 {
        self.word(9)
    }

    /// Queue id of an Enqueue, Dispatch or Scratch record. 0 is a queue like any other.
    #[inline]
    pub fn queue(&self) -> u64 {
        match self.kind() {
            Some(Kind::Enqueue) => self.word(6),
            Some(Kind::Dispatch | Kind::Scratch) => self.word(9),
            _ => 0,
        }
    }

    /// Bytes of a copy or allocation.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self.kind() {
            Some(Kind::CopyIssue | Kind::Copy | Kind::Alloc | Kind::Scratch) => self.word(6),
            Some(Kind::Api | Kind::OpenCall) if self.word(8) & api_arg::BYTES != 0 => self.word(9),
            _ => 0,
        }
    }

    /// Work-group size x, y, z of a Dispatch.
    #[inline]
    pub fn block(&self) -> [u32; 3] {
        [low(self.word(11)), high(self.word(11)), low(self.word(12))]
    }

    /// Grid size x, y, z of a Dispatch, raw: work-items on AMD.
    #[inline]
    pub fn grid(&self) -> [u32; 3] {
        [high(self.word(12)), low(self.word(13)), high(self.word(13))]
    }

    /// Operation number of an Api record, or of a copy, allocation or scratch event.
    #[inline]
    pub fn operation(&self) -> u32 {
        match self.kind() {
            Some(Kind::Api | Kind::OpenCall) => low(self.word(5)) & 0xffff,
            _ => low(self.word(5)),
        }
    }

    /// Domain of an Api record ([`domain`]).
    #[inline]
    pub fn domain(&self) -> u8 {
        (self.word(5) >> 16 & 0xff) as u8
    }

    /// Nesting depth of an Api or Range record on its thread, from 0.
    #[inline]
    pub fn depth(&self) -> u8 {
        (self.word(5) >> 24 & 0xff) as u8
    }

    /// Return value of an Api record.
    #[inline]
    pub fn return_value(&self) -> i32 {
        high(self.word(5)) as i32
    }

    /// String id of a Range, Mark or RangeStart name.
    #[inline]
    pub fn name_id(&self) -> u64 {
        self.word(6)
    }
}

/// How many cells ahead of a record lines are asked for: where a record lies is known only when the one before it was read, so
/// the processor by itself waits for one line after another. On Emerald Rapids one reader took 1.7 times as many records a second
/// with 24 as with none (16 and 32: 1.6 and 1.9); on Zen 4 it makes no difference (docs/benchmarks.md).
pub(crate) const READ_AHEAD_CELLS: usize = 24;

/// Asks for the cell at `words`, to read it.
#[inline(always)]
pub(crate) fn fetch_to_read(words: *const u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads and writes nothing that the program can see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

/// Iterates the records in a run of published cells.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    words: &'a [u64],
}

impl<'a> Records<'a> {
    /// The records in `words`, which must be whole cells.
    pub fn new(words: &'a [u64]) -> Self {
        Self { words }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.words.is_empty() {
            return None;
        }
        let ahead = READ_AHEAD_CELLS * CELL_WORDS;
        fetch_to_read(self.words.as_ptr().wrapping_add(ahead));
        match Record::parse(self.words) {
            Ok(record) => {
                self.words = &self.words[record.words.len()..];
                Some(Ok(record))
            }
            Err(error) => {
                // What follows a bad size cannot be found again: the run ends here.
                self.words = &[];
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
