//! Buffers and the threads that run their callbacks, with the hazards of 1.0.0.
//!
//! One flag guards a buffer. Insert holds it for the copy; a flush takes it on the calling thread
//! and it is released only after the tool's callback returned, so inserting threads wait while a
//! callback runs. LOSSLESS waits for room; DISCARD drops and counts, but after its first flush the
//! second half, which was never allocated, loses every record without counting.
//!
//! A flush inside a callback of the same callback thread, or an insert into the buffer whose
//! callback is running on this very thread, hangs the real SDK for ever. Here it is reported and
//! the process aborts.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::abi::{
    BUFFER_BUSY, BUFFER_NOT_FOUND, BufferFn, CATEGORY_TRACING, CONFIGURATION_LOCKED, FINALIZED,
    OUT_OF_RESOURCES, RecordHeader, SERVICE_ALREADY_CONFIGURED, SUCCESS, Status, THREAD_NOT_FOUND,
};
use crate::context::{Context, handle_offset};
use crate::correlation::lock;
use crate::registration;

/// Buffers of a process; the real SDK has no limit.
const BUFFERS_MAX: usize = 256;
/// Callback threads of a process.
const THREADS_MAX: usize = 64;
/// `ROCPROFILER_BUFFER_POLICY_LOSSLESS`.
const LOSSLESS: u32 = 2;
/// How an inserting thread waits for the flag.
const SPIN_SLEEP: Duration = Duration::from_micros(10);

/// One of the two halves of a buffer. `bytes` never moves while it holds records.
#[derive(Debug, Default)]
struct Half {
    bytes: Vec<u64>,
    used_bytes: usize,
    headers: Vec<RecordHeader>,
}

/// A buffer. Never freed (I1); `destroyed` ones drop their records.
#[derive(Debug)]
pub(crate) struct Buffer {
    index: usize,
    pub(crate) context: u64,
    size: usize,
    watermark: usize,
    lossless: bool,
    callback: BufferFn,
    data: usize,
    thread: AtomicPtr<CallbackThread>,
    /// Guards `halves` and `current`.
    busy: AtomicBool,
    halves: UnsafeCell<[Half; 2]>,
    current: AtomicUsize,
    drop_count: AtomicU64,
    destroyed: AtomicBool,
}

// SAFETY: `halves` is touched only by the holder of `busy`; the rest is atomic or constant.
unsafe impl Sync for Buffer {}
// SAFETY: as above; header pointers lead into the buffer itself.
unsafe impl Send for Buffer {}

static BUFFERS: [AtomicPtr<Buffer>; BUFFERS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; BUFFERS_MAX];
static BUFFER_COUNT: AtomicUsize = AtomicUsize::new(0);
static CREATE: Mutex<()> = Mutex::new(());

/// A flush in progress, on the stack of a waiting caller or nowhere.
#[derive(Debug)]
struct Task {
    buffer: &'static Buffer,
    half: usize,
}

/// A thread that runs buffer callbacks.
#[derive(Debug)]
pub(crate) struct CallbackThread {
    state: Mutex<ThreadQueue>,
    work: Condvar,
    done: Condvar,
    join: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct ThreadQueue {
    tasks: VecDeque<Task>,
    /// Tasks queued or running.
    pending: usize,
    stop: bool,
}

static THREADS: [AtomicPtr<CallbackThread>; THREADS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; THREADS_MAX];
static THREAD_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The callback thread that this thread is, and the buffer whose callback it runs.
    static RUNNING: core::cell::Cell<(*const CallbackThread, *const Buffer)> =
        const { core::cell::Cell::new((core::ptr::null(), core::ptr::null())) };
}

/// The buffer of a handle, if it exists and was not destroyed.
#[inline]
pub(crate) fn find(handle: u64) -> Option<&'static Buffer> {
    let index = usize::try_from(handle.checked_sub(handle_offset())?).ok()?;
    if index >= BUFFER_COUNT.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: stored before the count was raised, never freed (I1).
    let buffer = unsafe { &*BUFFERS[index].load(Ordering::Acquire) };
    (!buffer.destroyed.load(Ordering::Acquire)).then_some(buffer)
}

/// `rocprofiler_create_buffer`.
pub(crate) fn create(
    context: u64,
    size: usize,
    watermark: usize,
    policy: u32,
    callback: BufferFn,
    data: *mut c_void,
    handle: &mut u64,
) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    if find(*handle).is_some() {
        return SERVICE_ALREADY_CONFIGURED;
    }
    registration::internal_threading();
    let _guard = lock(&CREATE);
    let index = BUFFER_COUNT.load(Ordering::Acquire);
    if index >= BUFFERS_MAX {
        return OUT_OF_RESOURCES;
    }
    let size = size.max(1).next_multiple_of(4096);
    let lossless = policy == LOSSLESS;
    let half = |allocated: bool| Half {
        bytes: vec![0; if allocated { size / 8 } else { 0 }],
        ..Half::default()
    };
    let buffer = Box::leak(Box::new(Buffer {
        index,
        context,
        size,
        watermark,
        lossless,
        callback,
        data: data as usize,
        thread: AtomicPtr::new(core::ptr::null_mut()),
        busy: AtomicBool::new(false),
        halves: UnsafeCell::new([half(true), half(lossless)]),
        current: AtomicUsize::new(0),
        drop_count: AtomicU64::new(0),
        destroyed: AtomicBool::new(false),
    }));
    BUFFERS[index].store(buffer, Ordering::Release);
    BUFFER_COUNT.store(index + 1, Ordering::Release);
    *handle = buffer.handle();
    SUCCESS
}

/// `rocprofiler_destroy_buffer`: later records vanish.
pub(crate) fn destroy(handle: u64) -> Status {
    let Some(buffer) = find(handle) else {
        return BUFFER_NOT_FOUND;
    };
    if !buffer.try_take() {
        return BUFFER_BUSY;
    }
    buffer.destroyed.store(true, Ordering::Release);
    buffer.release();
    SUCCESS
}

/// `rocprofiler_flush_buffer`.
pub(crate) fn flush(handle: u64) -> Status {
    let Some(buffer) = find(handle) else {
        return BUFFER_NOT_FOUND;
    };
    if registration::fini_status() > 0 {
        return FINALIZED;
    }
    buffer.flush_and_wait();
    SUCCESS
}

impl Buffer {
    fn handle(&self) -> u64 {
        handle_offset() + self.index as u64
    }

    /// Does records of this context belong here? Others are skipped silently.
    #[inline]
    pub(crate) fn belongs_to(&self, context: &Context) -> bool {
        self.context == context.handle()
    }

    fn try_take(&self) -> bool {
        !self.busy.swap(true, Ordering::Acquire)
    }

    fn take(&self, what: &str) {
        while !self.try_take() {
            if core::ptr::eq(RUNNING.get().1, self) {
                hang(what);
            }
            std::thread::sleep(SPIN_SLEEP);
        }
    }

    fn release(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Adds a record. `T` is a plain C struct.
    pub(crate) fn insert<T: Copy>(&'static self, kind: u32, record: &T) {
        let words = size_of::<T>() / 8;
        let bytes = size_of::<T>();
        debug_assert_eq!(bytes % 8, 0);
        if bytes > self.size {
            eprintln!("stand-in SDK: a record of {bytes} bytes is larger than its buffer; lost");
            return;
        }
        loop {
            self.take("an insert into a buffer from inside its own callback");
            // SAFETY: `busy` is held (taken above), so nobody else touches the halves.
            let half = unsafe { &mut (*self.halves.get())[self.current.load(Ordering::Relaxed)] };
            let capacity = half.bytes.len() * 8;
            if half.used_bytes + bytes <= capacity {
                let slot = half.bytes[half.used_bytes / 8..][..words].as_mut_ptr();
                // SAFETY: `slot` has room for `words` words, is aligned for them, and T is a plain
                // struct of that size; the vector is never resized while it holds records.
                unsafe { slot.cast::<T>().write(*record) };
                half.used_bytes += bytes;
                half.headers.push(RecordHeader {
                    category: CATEGORY_TRACING,
                    kind,
                    payload: slot.cast(),
                });
                let reached = half.used_bytes >= self.watermark;
                self.release();
                if reached {
                    self.flush_without_waiting();
                }
                return;
            }
            self.release();
            if !self.lossless {
                if capacity > 0 {
                    self.drop_count.fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
            if registration::fini_status() > 0 {
                eprintln!(
                    "stand-in SDK: insert into a full LOSSLESS buffer after finalization; the real \
                     SDK loops here for ever"
                );
                return;
            }
            self.flush_and_wait();
        }
    }

    /// What crossing the watermark does: gives up if the buffer is busy.
    fn flush_without_waiting(&'static self) {
        if registration::fini_status() != 0 {
            self.flush_and_wait();
            return;
        }
        if self.try_take() {
            self.submit();
        }
    }

    /// Hands everything inserted so far to the callback, and returns when it has returned.
    fn flush_and_wait(&'static self) {
        let thread = self.callback_thread();
        if core::ptr::eq(RUNNING.get().0, thread) {
            hang("a flush from inside a buffer callback of the same callback thread");
        }
        thread.wait_idle();
        self.take("a flush from inside a callback of the same buffer");
        self.submit();
        thread.wait_idle();
    }

    /// Swaps the halves and queues the full one. The caller holds `busy`; the task releases it.
    fn submit(&'static self) {
        let half = self.current.fetch_xor(1, Ordering::Relaxed);
        // SAFETY: `busy` is held.
        let empty = unsafe { (&(*self.halves.get()))[half].headers.is_empty() };
        if empty {
            self.release();
            return;
        }
        self.callback_thread().push(Task { buffer: self, half });
    }

    fn callback_thread(&self) -> &'static CallbackThread {
        let own = self.thread.load(Ordering::Acquire);
        if own.is_null() {
            default_thread()
        } else {
            // SAFETY: callback threads are never freed (I1).
            unsafe { &*own }
        }
    }

    /// Runs the tool's callback on a half, on a callback thread. `busy` is held throughout.
    fn deliver(&self, half: usize) {
        // SAFETY: the flush that queued this task holds `busy` until `release` below.
        let half = unsafe { &mut (*self.halves.get())[half] };
        let mut headers: Vec<*mut RecordHeader> =
            half.headers.iter_mut().map(core::ptr::from_mut).collect();
        let drop_count = self.drop_count.load(Ordering::Relaxed);
        // SAFETY: the tool gave this function for this use; headers and payloads live until it
        // returns.
        unsafe {
            (self.callback)(
                self.context,
                self.handle(),
                headers.as_mut_ptr(),
                headers.len(),
                self.data as *mut c_void,
                drop_count,
            );
        };
        // Headers and payloads are used again: a tool that kept a pointer reads this.
        half.bytes[..half.used_bytes / 8].fill(0xdddd_dddd_dddd_dddd);
        half.headers.clear();
        half.used_bytes = 0;
        self.release();
    }
}

impl CallbackThread {
    fn push(&self, task: Task) {
        let mut state = lock(&self.state);
        if state.stop {
            drop(state);
            // The threads are gone; the real SDK aborts here.
            task.buffer.deliver(task.half);
            return;
        }
        state.tasks.push_back(task);
        state.pending += 1;
        drop(state);
        self.work.notify_one();
    }

    fn wait_idle(&self) {
        let mut state = lock(&self.state);
        while state.pending > 0 {
            state = self
                .done
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn run(&'static self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                RUNNING.set((self, task.buffer));
                task.buffer.deliver(task.half);
                RUNNING.set((self, core::ptr::null()));
                state = lock(&self.state);
                state.pending -= 1;
                if state.pending == 0 {
                    self.done.notify_all();
                }
            } else if state.stop {
                return;
            } else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }
}

/// Makes the callback thread that all buffers share by default.
pub(crate) fn start_default_thread() {
    default_thread();
}

fn default_thread() -> &'static CallbackThread {
    static DEFAULT: std::sync::OnceLock<&'static CallbackThread> = std::sync::OnceLock::new();
    DEFAULT.get_or_init(|| {
        if let Some((thread, _)) = new_thread() {
            return thread;
        }
        Box::leak(Box::new(CallbackThread::stopped()))
    })
}

impl CallbackThread {
    /// A thread that could not be made: flushes run where they are asked for.
    fn stopped() -> Self {
        Self {
            state: Mutex::new(ThreadQueue {
                stop: true,
                ..ThreadQueue::default()
            }),
            work: Condvar::new(),
            done: Condvar::new(),
            join: Mutex::new(None),
        }
    }
}

fn new_thread() -> Option<(&'static CallbackThread, usize)> {
    let _guard = lock(&CREATE);
    let index = THREAD_COUNT.load(Ordering::Acquire);
    if index >= THREADS_MAX {
        return None;
    }
    let thread: &'static CallbackThread = Box::leak(Box::new(CallbackThread {
        state: Mutex::new(ThreadQueue::default()),
        work: Condvar::new(),
        done: Condvar::new(),
        join: Mutex::new(None),
    }));
    registration::internal_thread_creation(true);
    let join = std::thread::Builder::new()
        .name("rocprof-buffer".to_owned())
        .spawn(|| thread.run())
        .ok()?;
    registration::internal_thread_creation(false);
    *lock(&thread.join) = Some(join);
    THREADS[index].store(core::ptr::from_ref(thread).cast_mut(), Ordering::Release);
    THREAD_COUNT.store(index + 1, Ordering::Release);
    Some((thread, index))
}

/// Makes the callback threads again in a forked child, which has none. Flags and locks keep the
/// state that they had; a queue that was locked stays without a thread.
pub(crate) fn restart_threads() {
    for slot in &THREADS[..THREAD_COUNT.load(Ordering::Acquire)] {
        // SAFETY: stored before the count was raised, never freed (I1).
        let thread: &'static CallbackThread = unsafe { &*slot.load(Ordering::Acquire) };
        let (Ok(state), Ok(mut join)) = (thread.state.try_lock(), thread.join.try_lock()) else {
            continue;
        };
        drop(state);
        let spawned = std::thread::Builder::new().spawn(|| thread.run());
        // The parent's handle must not be joined here; it is leaked.
        core::mem::forget(core::mem::replace(&mut *join, spawned.ok()));
    }
}

/// `rocprofiler_create_callback_thread`.
pub(crate) fn create_thread(handle: &mut u64) -> Status {
    if registration::init_status() > 0 {
        return CONFIGURATION_LOCKED;
    }
    registration::internal_threading();
    match new_thread() {
        Some((_, index)) => {
            *handle = handle_offset() + index as u64;
            SUCCESS
        }
        None => OUT_OF_RESOURCES,
    }
}

/// `rocprofiler_assign_callback_thread`.
pub(crate) fn assign_thread(buffer: u64, thread: u64) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    let Some(buffer) = find(buffer) else {
        return BUFFER_NOT_FOUND;
    };
    let index = thread
        .checked_sub(handle_offset())
        .and_then(|index| usize::try_from(index).ok())
        .filter(|&index| index < THREAD_COUNT.load(Ordering::Acquire));
    let Some(index) = index else {
        return THREAD_NOT_FOUND;
    };
    buffer
        .thread
        .store(THREADS[index].load(Ordering::Acquire), Ordering::Release);
    SUCCESS
}

/// Ends all callback threads after their tasks, for finalization.
pub(crate) fn join_threads() {
    for slot in &THREADS[..THREAD_COUNT.load(Ordering::Acquire)] {
        // SAFETY: stored before the count was raised, never freed (I1).
        let thread = unsafe { &*slot.load(Ordering::Acquire) };
        lock(&thread.state).stop = true;
        thread.work.notify_all();
        if core::ptr::eq(RUNNING.get().0, thread) {
            continue;
        }
        if let Some(join) = lock(&thread.join).take() {
            // A panic there was reported already.
            let _ = join.join();
        }
    }
}

/// Reports what hangs the real SDK, and ends the process so that a test notices.
fn hang(what: &str) -> ! {
    eprintln!("stand-in SDK: {what}: the real SDK hangs here for ever; aborting");
    std::process::abort()
}
