//! Correlation ids: internal ids with reference counts and retirement, and external ids.
//!
//! An id object lives in a chunk that its creating thread owns; any thread may drop references.
//! When the count goes from 1 to 0, that thread retires the id: to the contexts that are active at
//! that instant, which is why a stopped context hears nothing of ids that it saw the work of.
//!
//! The real SDK keeps one heap object for each id until the process ends. Here a slot is used again
//! once its id is retired; chunks are never freed (I1), so finalization can walk them and retire
//! what is left. No lock and no allocation except for a new chunk.

use core::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::abi::{RetirementRecord, buffer_kind};
use crate::context::{self, Context};
use crate::{clock, registration};

/// Slots of a chunk.
const CHUNK_SLOTS: usize = 1024;
/// Slots probed in a chunk before the next chunk is tried.
const PROBES: usize = 8;
/// Nested traced calls on one thread; deeper ones are not put on the stack.
const STACK_MAX: usize = 128;

/// One correlation id. Its creator writes the plain fields before any other thread can have it.
#[derive(Debug)]
pub(crate) struct Correlation {
    id: AtomicU64,
    references: AtomicU32,
    thread_id: AtomicU64,
    ancestor: AtomicU64,
}

#[derive(Debug)]
struct Chunk {
    slots: [Correlation; CHUNK_SLOTS],
    /// Next chunk of the same thread, in a ring.
    ring: AtomicPtr<Chunk>,
    /// Next chunk of the process.
    all: AtomicPtr<Chunk>,
}

/// All chunks of the process, newest first.
static CHUNKS: AtomicPtr<Chunk> = AtomicPtr::new(core::ptr::null_mut());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

struct ThreadState {
    thread_id: Cell<u64>,
    depth: Cell<usize>,
    stack: [Cell<Option<&'static Correlation>>; STACK_MAX],
    chunk: Cell<Option<&'static Chunk>>,
    next_slot: Cell<usize>,
}

thread_local! {
    // No destructor: nothing is registered with the thread, and use at thread exit is fine.
    static THREAD: ThreadState = const {
        ThreadState {
            thread_id: Cell::new(0),
            depth: Cell::new(0),
            stack: [const { Cell::new(None) }; STACK_MAX],
            chunk: Cell::new(None),
            next_slot: Cell::new(0),
        }
    };
}

/// Linux thread id of the caller, cached: a forked child's first thread reports its parent's.
#[inline]
pub(crate) fn thread_id() -> u64 {
    THREAD.with(|thread| {
        let id = thread.thread_id.get();
        if id != 0 {
            return id;
        }
        // SAFETY: gettid takes nothing and cannot fail.
        let id = u64::from(unsafe { libc::gettid() }.cast_unsigned());
        thread.thread_id.set(id);
        id
    })
}

/// Gives the calling thread another id in its records. For replays.
pub(crate) extern "C" fn set_thread_id(id: u64) {
    THREAD.with(|thread| thread.thread_id.set(id));
}

impl Correlation {
    /// New id with `references`, whose ancestor is the top of the thread's stack.
    pub(crate) fn create(references: u32) -> &'static Self {
        let thread_id = thread_id();
        THREAD.with(|thread| {
            let slot = thread.free_slot();
            slot.ancestor
                .store(thread.top().map_or(0, Self::id), Ordering::Relaxed);
            slot.thread_id.store(thread_id, Ordering::Relaxed);
            slot.id
                .store(NEXT_ID.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            // Release: a finalizer that sees the count sees the id.
            slot.references.store(references, Ordering::Release);
            slot
        })
    }

    /// The innermost id of the calling thread.
    #[inline]
    pub(crate) fn top() -> Option<&'static Self> {
        THREAD.with(ThreadState::top)
    }

    /// Puts the id on the calling thread's stack.
    #[inline]
    pub(crate) fn push(&'static self) {
        THREAD.with(|thread| {
            let depth = thread.depth.get();
            if let Some(cell) = thread.stack.get(depth) {
                cell.set(Some(self));
            }
            thread.depth.set(depth + 1);
        });
    }

    /// Takes the innermost id from the calling thread's stack, whatever it is.
    #[inline]
    pub(crate) fn pop() {
        THREAD.with(|thread| thread.depth.set(thread.depth.get().saturating_sub(1)));
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn thread_id(&self) -> u64 {
        self.thread_id.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn ancestor(&self) -> u64 {
        self.ancestor.load(Ordering::Relaxed)
    }

    /// One more holder; the caller holds the id already.
    #[inline]
    pub(crate) fn add_reference(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// One holder less; the last one retires the id.
    #[inline]
    pub(crate) fn drop_reference(&self) {
        let id = self.id();
        // AcqRel: every record of the id was inserted before its holder came here, and the last
        // holder sees them all.
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            retire(id);
        }
    }
}

impl ThreadState {
    #[inline]
    fn top(&self) -> Option<&'static Correlation> {
        let depth = self.depth.get().min(STACK_MAX);
        (depth > 0).then(|| self.stack[depth - 1].get())?
    }

    fn free_slot(&self) -> &'static Correlation {
        if let Some(start) = self.chunk.get() {
            let mut chunk = start;
            loop {
                for _ in 0..PROBES {
                    let next = self.next_slot.get();
                    self.next_slot.set((next + 1) % CHUNK_SLOTS);
                    // Acquire: pairs with the last holder's release, so its reads of the old id are
                    // done.
                    if chunk.slots[next].references.load(Ordering::Acquire) == 0 {
                        self.chunk.set(Some(chunk));
                        return &chunk.slots[next];
                    }
                }
                // SAFETY: the ring is never null once a chunk exists, and chunks are never freed (I1).
                chunk = unsafe { &*chunk.ring.load(Ordering::Relaxed) };
                if core::ptr::eq(chunk, start) {
                    break;
                }
            }
        }
        self.new_chunk()
    }

    #[cold]
    fn new_chunk(&self) -> &'static Correlation {
        let chunk: &'static Chunk = Box::leak(Box::new(Chunk {
            slots: [const {
                Correlation {
                    id: AtomicU64::new(0),
                    references: AtomicU32::new(0),
                    thread_id: AtomicU64::new(0),
                    ancestor: AtomicU64::new(0),
                }
            }; CHUNK_SLOTS],
            ring: AtomicPtr::new(core::ptr::null_mut()),
            all: AtomicPtr::new(core::ptr::null_mut()),
        }));
        let pointer = core::ptr::from_ref(chunk).cast_mut();
        match self.chunk.get() {
            Some(previous) => {
                chunk
                    .ring
                    .store(previous.ring.load(Ordering::Relaxed), Ordering::Relaxed);
                previous.ring.store(pointer, Ordering::Relaxed);
            }
            None => chunk.ring.store(pointer, Ordering::Relaxed),
        }
        let mut head = CHUNKS.load(Ordering::Acquire);
        loop {
            chunk.all.store(head, Ordering::Relaxed);
            match CHUNKS.compare_exchange_weak(head, pointer, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.chunk.set(Some(chunk));
        self.next_slot.set(1);
        &chunk.slots[0]
    }
}

/// Tells the contexts that are active now that an id is over. Nothing after finalization.
fn retire(id: u64) {
    if registration::fini_status() > 0 {
        return;
    }
    let receivers = context::active() & context::wants_buffer(buffer_kind::RETIREMENT, 0);
    if receivers == 0 {
        return;
    }
    for receiver in context::each(receivers) {
        // Retirement skips the check of who owns the buffer, as in the real SDK.
        if let Some(buffer) = receiver.buffer(buffer_kind::RETIREMENT) {
            buffer.insert(
                buffer_kind::RETIREMENT,
                &RetirementRecord {
                    size: size_of::<RetirementRecord>() as u64,
                    kind: buffer_kind::RETIREMENT,
                    padding: 0xdddd_dddd,
                    timestamp: clock::now_ns(),
                    internal: id,
                },
            );
        }
    }
}

/// Retires every id that still has holders. For finalization.
pub(crate) fn retire_all() {
    let mut chunk = CHUNKS.load(Ordering::Acquire);
    while !chunk.is_null() {
        // SAFETY: chunks are never freed (I1).
        let this = unsafe { &*chunk };
        for slot in &this.slots {
            let id = slot.id();
            if slot.references.swap(0, Ordering::AcqRel) > 0 {
                retire(id);
            }
        }
        chunk = this.all.load(Ordering::Acquire);
    }
}

/// Stacks of external ids by context index and thread id.
type Pushed = HashMap<(usize, u64), Vec<u64>>;

/// External ids that tools pushed, by context and thread. Per-thread entries are never removed.
static PUSHED: Mutex<Option<Pushed>> = Mutex::new(None);
/// Has anybody ever pushed? Until then sampling costs one load.
static ANY_PUSHED: AtomicBool = AtomicBool::new(false);
/// Latest value pushed on the thread that loaded the library: the default of all other threads,
/// shared by all contexts and tools.
static DEFAULT_EXTERNAL: AtomicU64 = AtomicU64::new(0);

/// Thread that loaded the library: the process's first, unless it was loaded elsewhere.
static LOADING_THREAD: AtomicU64 = AtomicU64::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_LOADING_THREAD: extern "C" fn() = {
    extern "C" fn note() {
        LOADING_THREAD.store(thread_id(), Ordering::Relaxed);
    }
    note
};

/// Pushes an external id for a thread of a context.
pub(crate) fn push_external(context: &Context, thread_id: u64, value: u64) {
    let mut pushed = lock(&PUSHED);
    pushed
        .get_or_insert_default()
        .entry((context.index, thread_id))
        .or_default()
        .push(value);
    if thread_id == LOADING_THREAD.load(Ordering::Relaxed) {
        DEFAULT_EXTERNAL.store(value, Ordering::Relaxed);
    }
    ANY_PUSHED.store(true, Ordering::Release);
}

/// Pops an external id; 0 if there is none.
pub(crate) fn pop_external(context: &Context, thread_id: u64) -> u64 {
    lock(&PUSHED)
        .get_or_insert_default()
        .get_mut(&(context.index, thread_id))
        .and_then(Vec::pop)
        .unwrap_or(0)
}

/// The pushed external id of the calling thread for a context.
#[inline]
pub(crate) fn external(context: &Context) -> u64 {
    if !ANY_PUSHED.load(Ordering::Acquire) {
        return 0;
    }
    let key = (context.index, thread_id());
    lock(&PUSHED)
        .as_ref()
        .and_then(|pushed| pushed.get(&key)?.last().copied())
        .unwrap_or_else(|| DEFAULT_EXTERNAL.load(Ordering::Relaxed))
}

/// Asks the context's request service for an external id; `None` = use the pushed one.
#[inline]
pub(crate) fn request_external(
    context: &Context,
    kind: u32,
    operation: i32,
    internal: u64,
) -> Option<u64> {
    let service = context.request.get()?;
    if kind == 0 || service.kinds & (1 << kind) == 0 {
        return None;
    }
    let mut out = 0;
    // SAFETY: the tool gave this function for this use; `out` lives across the call.
    let answer = unsafe {
        (service.callback)(
            thread_id(),
            context.handle(),
            kind,
            operation,
            internal,
            &raw mut out,
            service.data,
        )
    };
    (answer == 0).then_some(out)
}

/// Locks, also after a panic of another holder: the data here is valid between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
