//! The region, write side: one file, mapped once, never unmapped.
//!
//! It holds header, lane table, segment table and segments; see `header` and `segment_entry` for the bytes. What only
//! the process itself needs (ring, free bits) lies in private memory beside it.
//!
//! Backing is reserved (`fallocate`) and faulted in in steps, ahead of demand, by [`Region::back`]: a segment's bit is
//! set only when its memory is there, so an append never meets a page that the file system can't provide (a full disk
//! is a count of drops, never SIGBUS).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::anchors::TickAnchor;
use crate::bitmap::FreeBits;
use crate::handover;
use crate::header::{Header, Mode};
use crate::limits::{CELL_WORDS, FACTS_SHARE_MAX, HEADER_BYTES, LANE_BYTES, SEGMENT_ENTRY_BYTES};
use crate::map;
use crate::memory::Wishes;
use crate::ring::Ring;
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::sync::{Ordering, Word, fence};

/// What a segment's entry says of who opens it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) kind: SegmentKind,
    pub(crate) lane: u16,
    pub(crate) thread: u32,
    pub(crate) sequence: u32,
    /// A moment in both clocks, not long before.
    pub(crate) anchor: TickAnchor,
}

/// Words that many lanes write, on lines of their own (two: the processor fetches them in pairs): what lies beside them
/// is read at each change of segment.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// See [`FreeBits`].
#[derive(Debug)]
struct Claims {
    free: Word,
    hint: Word,
}

/// A region that this process writes to.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    file: File,
    path: PathBuf,
    header: Header,
    /// Segments that are backed so far.
    backed: Word,
    ring_places: Vec<Word>,
    ring_tail: Apart<Word>,
    /// Of each segment, the next one of its lane; see `Lane`. Private, so that a reader needs not believe it.
    links: Vec<Word>,
    /// Of each segment, the records that were stored in it; see [`Stored`] and [`Sealed`]. Private: for subscribers and the
    /// collector.
    stored: Vec<[Word; 2]>,
    free_words: Vec<Word>,
    claims: Apart<Claims>,
    /// Views of the live pages that are open: nothing is freed under them.
    pins: Word,
    wishes: Wishes,
}

/// How many records were stored in a segment of records, as far as its lanes counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The low half of the generation that this is about.
    pub(crate) generation: u16,
    /// In all generations before it, modulo 2^48.
    pub(crate) before: u64,
    /// In the generation that was sealed last.
    pub(crate) sealed: u64,
}

/// What a lane notes of a segment when it seals it, one word: how many records, whether none of them is an issue or a
/// completion, and the low half of the generation that this is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sealed {
    records: u32,
    no_device_work: bool,
    generation: u16,
}

impl Sealed {
    fn pack(self) -> u64 {
        u64::from(self.records)
            | u64::from(self.no_device_work) << 32
            | u64::from(self.generation) << 48
    }

    fn unpack(word: u64) -> Self {
        Self {
            records: crate::record::low(word),
            no_device_work: word >> 32 & 1 != 0,
            generation: (word >> 48) as u16,
        }
    }
}

impl Stored {
    /// Bits of a count.
    pub(crate) const BITS: u32 = 48;
    /// A difference of two counts.
    pub(crate) fn between(before: u64, after: u64) -> u64 {
        after.wrapping_sub(before) & ((1 << Self::BITS) - 1)
    }
}

// SAFETY: the mapping lives as long as the process and is only accessed through atomics or by a lane's one writer.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Opens a new file for a region. The exact name goes to the first process; if it exists already, whoever made it, the
/// file becomes `STEM.PID.EXT`, then `STEM.PID.N.EXT`. Nothing is ever overwritten.
///
/// # Errors
/// What the system said, for the last name that was tried.
pub(crate) fn create_file(path: &Path, pid: u32) -> io::Result<(File, PathBuf)> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty() && !parent.exists())
    {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let extension = path
        .extension()
        .map(|ext| format!(".{}", ext.to_string_lossy()))
        .unwrap_or_default();
    let mut name = path.to_owned();
    for attempt in 0..1_000u32 {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&name);
        match file {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let number = if attempt == 0 {
                    String::new()
                } else {
                    format!(".{attempt}")
                };
                name = path.with_file_name(format!("{stem}.{pid}{number}{extension}"));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Region {
    /// Makes a region in `file`. Places and sizes in `header` are filled in here; `segment_count`, `segment_bytes` and
    /// `lane_count` must be set. Nothing is backed yet but the tables.
    ///
    /// # Errors
    /// What the system said: no space, no permission, a limit on file size or address space.
    pub(crate) fn create(
        file: File,
        path: PathBuf,
        mut header: Header,
        wishes: Wishes,
    ) -> io::Result<Self> {
        let segments = header.segment_count as usize;
        header.lane_table_offset = HEADER_BYTES as u64;
        header.segment_table_offset =
            header.lane_table_offset + (header.lane_count as usize * LANE_BYTES) as u64;
        header.segments_offset = (header.segment_table_offset
            + (segments * SEGMENT_ENTRY_BYTES) as u64)
            .next_multiple_of(wishes.segments_align());
        header.region_bytes = header.segment_offset(header.segment_count);
        within_file_limit(header.region_bytes)?;
        file.set_len(header.region_bytes)?;
        reserve(&file, 0, header.segments_offset)?;
        let (bytes, align) = (header.region_bytes, wishes.segments_align());
        let base = map::map_shared(&file, bytes as usize, align as usize)?;
        wishes.mapped(&file, base, bytes as usize, header.segments_offset as usize);
        // Faulted in now: a store in a callback should meet no fault. A kernel that can't do it faults later.
        let _ = map::populate(base, header.segments_offset as usize);
        let bytes = header.encode();
        // SAFETY: the mapping is at least HEADER_BYTES long and nobody else has it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.as_ptr(), HEADER_BYTES) };
        let words = |count: usize| (0..count).map(|_| Word::new(0)).collect::<Vec<_>>();
        Ok(Self {
            base,
            file,
            path,
            backed: Word::new(0),
            ring_places: words(segments.next_power_of_two()),
            ring_tail: Apart(Word::new(0)),
            links: words(segments),
            stored: (0..segments)
                .map(|_| [Word::new(0), Word::new(0)])
                .collect(),
            free_words: words(segments.div_ceil(64)),
            claims: Apart(Claims {
                free: Word::new(0),
                hint: Word::new(0),
            }),
            pins: Word::new(0),
            wishes,
            header,
        })
    }

    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    #[cfg(test)]
    pub(crate) fn file_metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn segment_count(&self) -> u32 {
        self.header.segment_count
    }

    /// Bytes of one segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.header.segment_bytes.into()
    }

    /// Cells of one segment.
    #[inline]
    pub(crate) fn segment_cells(&self) -> usize {
        self.header.segment_cells()
    }

    /// A word of the region that is not part of a segment's cells.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &Word {
        debug_assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.header.segments_offset as usize
        );
        // SAFETY: in bounds and aligned (above); all access to these words is atomic; mapped for ever.
        unsafe { &*self.base.as_ptr().add(offset).cast::<Word>() }
    }

    /// The lane header's words.
    #[inline]
    pub(crate) fn lane_word(&self, lane: usize, byte: usize) -> &Word {
        self.word(self.header.lane_table_offset as usize + lane * LANE_BYTES + byte)
    }

    /// All words of a lane's header.
    pub(crate) fn lane_header(&self, lane: usize) -> &[Word; LANE_BYTES / 8] {
        debug_assert!(lane < self.header.lane_count as usize);
        let offset = self.header.lane_table_offset as usize + lane * LANE_BYTES;
        // SAFETY: within the mapping (above) and aligned to a page; all access to these words is atomic; mapped for
        // ever.
        unsafe { &*self.base.as_ptr().add(offset).cast() }
    }

    /// A word of a segment's entry.
    #[inline]
    pub(crate) fn entry(&self, segment: u32, index: usize) -> &Word {
        debug_assert!(segment < self.header.segment_count);
        self.word(
            self.header.segment_table_offset as usize
                + segment as usize * SEGMENT_ENTRY_BYTES
                + index * 8,
        )
    }

    /// The first word of a segment's cells.
    #[inline]
    pub(crate) fn cells(&self, segment: u32) -> *mut u64 {
        debug_assert!(segment < self.header.segment_count);
        let offset = self.header.segment_offset(segment) as usize;
        // SAFETY: segment < segment_count, so the offset lies within the mapping.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }

    /// One published word of a segment.
    #[inline]
    pub(crate) fn cell_word(&self, segment: u32, index: usize) -> &Word {
        debug_assert!(index < self.segment_cells() * CELL_WORDS);
        // SAFETY: within the segment (above); cells are only accessed as atomic words.
        unsafe { &*self.cells(segment).add(index).cast::<Word>() }
    }

    pub(crate) fn ring(&self) -> Ring<'_> {
        Ring::new(&self.ring_places, &self.ring_tail.0)
    }

    pub(crate) fn free_bits(&self) -> FreeBits<'_> {
        FreeBits {
            words: &self.free_words,
            free: &self.claims.0.free,
            hint: &self.claims.0.hint,
        }
    }

    /// Free segments that are backed.
    pub(crate) fn free_count(&self) -> u64 {
        // ORD(free): Relaxed. A hint.
        self.claims.0.free.load(Ordering::Relaxed)
    }

    /// Segments that are backed.
    pub(crate) fn backed_count(&self) -> u64 {
        // ORD(backed): Relaxed. Only the housekeeper acts on it.
        self.backed.load(Ordering::Relaxed)
    }

    /// Segments that are free or not yet backed.
    pub(crate) fn left(&self) -> u64 {
        let count = u64::from(self.header.segment_count);
        self.free_count() + count.saturating_sub(self.backed_count())
    }

    /// Segments that are kept for lanes with fewer than two, and for facts: two a lane or a quarter of all, whichever is
    /// more, but never more than half.
    pub(crate) fn reserve(&self) -> u64 {
        let count = u64::from(self.header.segment_count);
        (2 * u64::from(self.header.lane_count))
            .max(count / 4)
            .min(count / 2)
    }

    /// Free segments that records leave to facts in window and stream mode, so that a thread that has something to say of
    /// a full region can: a session's end, the names of its kernels. A sixteenth of what is backed, at most a quarter of
    /// the reserve and [`FACTS_SHARE_MAX`].
    pub(crate) fn facts_share(&self) -> u64 {
        let backed = self.backed_count() / 16;
        backed.min(self.reserve() / 4).clamp(1, FACTS_SHARE_MAX)
    }

    /// Backs up to `segments` more segments and frees them for use. One caller at a time, never in a callback. Returns
    /// how many were backed; 0 when all are.
    ///
    /// # Errors
    /// What the system said, when there is no space; what was backed before stays.
    pub(crate) fn back(&self, segments: u64) -> io::Result<u64> {
        let backed = self.backed_count();
        let count = segments.min(u64::from(self.header.segment_count) - backed);
        if count == 0 {
            return Ok(0);
        }
        let offset = self.header.segment_offset(backed as u32);
        let bytes = count * self.segment_bytes();
        // SAFETY: offset + bytes lies within the mapping: backed + count <= segment_count.
        let start = unsafe { self.base.add(offset as usize) };
        self.wishes.before_reserve(start, bytes);
        reserve(&self.file, offset, bytes)?;
        let _ = map::populate(start, bytes as usize);
        self.wishes.backed(start, bytes);
        for segment in backed..backed + count {
            self.free_bits().give(&[segment as u32]);
        }
        self.backed.store(backed + count, Ordering::Relaxed);
        Ok(count)
    }

    /// Asks for the words that lanes share when they change segments, as their owner: a hint.
    #[inline]
    pub(crate) fn fetch_shared(&self) {
        crate::lane::fetch::<0, _>(&raw const self.claims, 0);
        crate::lane::fetch::<0, _>(&raw const self.ring_tail, 0);
    }

    /// Asks for a segment's entry, as its owner: a hint.
    #[inline]
    pub(crate) fn fetch_entry(&self, segment: u32) {
        crate::lane::fetch::<0, _>(self.entry(segment, word::STATE), 0);
    }

    /// Asks for what the collector reads and writes of a sealed segment beside its records: the lane wrote it last.
    pub(crate) fn fetch_sealed(&self, segment: u32) {
        self.fetch_entry(segment);
        crate::lane::fetch::<0, _>(&raw const self.stored[segment as usize], 0);
    }

    /// Claims a free segment; [`Region::open`] follows. Any thread; wait-free.
    #[inline]
    pub(crate) fn claim(&self) -> Option<u32> {
        self.free_bits().claim()
    }

    /// Reuses one of the lane's own sealed segments: flight mode. The lane's owner; wait-free. Returns how many cells
    /// were published in it.
    pub(crate) fn reuse(&self, segment: u32, opening: &Opening) -> u64 {
        // ORD(committed): Relaxed. The lane's own store.
        let cells = self.entry(segment, word::COMMITTED).load(Ordering::Relaxed);
        self.retire(segment);
        self.open(segment, opening);
        cells
    }

    /// Writes the entry of a segment that is nobody else's, and opens it.
    pub(crate) fn open(&self, segment: u32, opening: &Opening) {
        handover::renew();
        let old = StateWord::unpack(self.entry(segment, word::STATE).load(Ordering::Relaxed));
        let generation = old.map_or(0, |old| old.generation);
        let &Opening {
            kind,
            lane,
            thread,
            sequence,
            anchor,
        } = opening;
        // ORD(claim): Relaxed. A reader sees these through the Release of the state word below.
        for (index, value) in [
            (word::COMMITTED, 0),
            (word::ORIGIN, crate::record::pair(thread, sequence)),
            (word::SESSIONS, 0),
            (word::ANCHOR_TICKS, anchor.ticks),
            (word::ANCHOR_VENDOR, anchor.vendor_ns),
            (word::CHECKSUM, 0),
            (word::CHECKED_CELLS, 0),
        ] {
            self.entry(segment, index).store(value, Ordering::Relaxed);
        }
        let state = StateWord {
            state: SegmentState::Open,
            kind,
            lane,
            generation,
        };
        // ORD(claim): Release. Pairs with the Acquire loads of readers.
        self.entry(segment, word::STATE)
            .store(state.pack(), Ordering::Release);
    }

    /// The word that says which segment of its lane follows a segment.
    pub(crate) fn link(&self, segment: u32) -> &Word {
        &self.links[segment as usize]
    }

    /// Notes how many records lie in a segment, and whether it is known that no issue and no completion is among them. Its
    /// lane's owner, before it seals it.
    pub(crate) fn close_count(&self, segment: u32, records: u64, no_device_work: bool) {
        let state = self.entry(segment, word::STATE).load(Ordering::Relaxed);
        let sealed = Sealed {
            records: records as u32,
            no_device_work,
            generation: crate::record::high(state) as u16,
        };
        // ORD(stored): Release. Pairs with the Acquire load in `stored`: who reads it also reads the generation before it.
        self.stored[segment as usize][1].store(sealed.pack(), Ordering::Release);
    }

    /// True when it is known that a sealed segment holds no issue and no completion of a dispatch or copy. For whoever took
    /// it from the ring and has not freed it.
    pub(crate) fn holds_no_device_work(&self, segment: u32) -> bool {
        // ORD(seal): Relaxed. Both were stored before the segment's number came through the ring.
        let state = self.entry(segment, word::STATE).load(Ordering::Relaxed);
        let sealed = self.stored[segment as usize][1].load(Ordering::Relaxed);
        let sealed = Sealed::unpack(sealed);
        // Noted for another generation it would say nothing; every seal notes it anew.
        sealed.no_device_work && sealed.generation == crate::record::high(state) as u16
    }

    /// What was counted for a segment, for whoever read its state word before. When the generation is still that of the state
    /// word, `before` is right, and so is `sealed` if the state is.
    pub(crate) fn stored(&self, segment: u32) -> Stored {
        // ORD(stored): Acquire, the newer count first. Pairs with the Release store in `close_count` and the Release fence in
        // `retire`: a count of a later generation comes with its generation.
        let [sealed, before] =
            [1, 0].map(|index| self.stored[segment as usize][index].load(Ordering::Acquire));
        Stored {
            generation: (before >> Stored::BITS) as u16,
            before: Stored::between(0, before),
            sealed: Sealed::unpack(sealed).records.into(),
        }
    }

    /// Seals a segment: nothing more is written to it. The owning lane only. In flight mode nobody is told: the lane may
    /// reuse it at once, and the ring holds a segment only once.
    pub(crate) fn seal(&self, segment: u32) {
        let entry = self.entry(segment, word::STATE);
        let open = entry.load(Ordering::Relaxed);
        let sealed = open & !0xff | SegmentState::Sealed as u64;
        // ORD(seal): Release. A reader that sees "sealed" sees the last committed count.
        entry.store(sealed, Ordering::Release);
        if self.header.mode != Mode::Flight {
            self.ring().push(segment);
        }
    }

    /// Claims all free segments for nobody and punches their memory out of the file. Best effort; once, at the end.
    pub(crate) fn give_unused_back(&self) {
        let mut unused: Vec<u32> = std::iter::from_fn(|| self.free_bits().claim()).collect();
        unused.sort_unstable();
        for run in unused.chunk_by(|&one, &next| one + 1 == next) {
            let offset = self.header.segment_offset(run[0]);
            let bytes = run.len() as i64 * self.segment_bytes() as i64;
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: an open file and a range of segments that nobody owns or will own: their bits are cleared.
            unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, bytes) };
        }
    }

    /// Takes a sealed segment back into the pool. Whoever knows that no lane, ring or reader has it.
    pub(crate) fn recycle(&self, segment: u32) {
        self.retire(segment);
        self.give(&[segment]);
    }

    /// Frees segments that were retired.
    pub(crate) fn give(&self, retired: &[u32]) {
        self.free_bits().give(retired);
    }

    /// Bumps a segment's generation first of all, so that a reader that copies from it notices.
    pub(crate) fn retire(&self, segment: u32) {
        let entry = self.entry(segment, word::STATE);
        let old = StateWord::unpack(entry.load(Ordering::Relaxed));
        let generation = old.map_or(0, |old| old.generation).wrapping_add(1);
        let stored = self.stored(segment);
        let before = Stored::between(0, stored.before.wrapping_add(stored.sealed));
        // ORD(stored): Relaxed, then a Release fence: whoever reads the new generation in the state word also reads what was
        // stored before it. Pairs with the Acquire loads of the state word and in `stored`.
        self.stored[segment as usize][0].store(
            before | u64::from(generation as u16) << Stored::BITS,
            Ordering::Relaxed,
        );
        fence(Ordering::Release);
        let state = StateWord {
            state: SegmentState::Free,
            kind: SegmentKind::Records,
            lane: 0,
            generation,
        };
        handover::retire(entry, self.entry(segment, word::COMMITTED), state.pack());
    }

    /// The whole region as a reader sees it, without a file; pinned while the view lives.
    pub(crate) fn read_map(&'static self) -> map::ReadMap {
        // SAFETY: the mapping is never unmapped and is readable over its whole length: what is not backed yet reads as
        // holes of the file, and a reader only follows published heads.
        unsafe { map::ReadMap::forever(self.base, self.header.region_bytes as usize, &self.pins) }
    }

    /// How many views are open.
    pub(crate) fn pins(&self) -> &Word {
        &self.pins
    }
}

/// Refuses a size beyond the process's limit on file size: the kernel would answer with SIGXFSZ, which ends the host.
pub(crate) fn within_file_limit(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is valid for writing.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if bytes > limit.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

/// Reserves bytes of a file. File systems that can't reserve are taken at their word.
fn reserve(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    loop {
        // SAFETY: an open file and a range; no memory is touched.
        let failed = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, bytes as i64) };
        if failed == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP) => return Ok(()),
            _ => return Err(error),
        }
    }
}
