//! The runtime's event threads: they run completion handlers after the device has finished.
//!
//! Work waits in a heap by due time: the end on the device plus the lateness of that record. Late
//! records therefore do not delay others, but a stall blocks its thread. Records are spread over
//! the threads by their sequence number. With `newest-first`, the newest of those that are due
//! goes first, as the real runtime was seen to do under backlog.
//!
//! The threads are detached and end with the process: they still run while `exit` handlers do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sim_interface::ScratchRequest;

use crate::device::{self, Queue, Stream};
use crate::ledger::{self, Entry};
use crate::runtime::{self, lock, settings};

/// A traced packet that the device has finished, or will have.
pub(crate) struct Dispatched {
    /// The SDK's token, an address.
    pub(crate) token: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) timed: bool,
    pub(crate) stall_ns: u64,
    pub(crate) scratch: bool,
    pub(crate) gpu: u32,
    pub(crate) queue_id: u64,
    pub(crate) sequence: u64,
    pub(crate) entry: Option<Box<Entry>>,
}

/// A traced copy.
pub(crate) struct Copied {
    /// The SDK's token, an address.
    pub(crate) token: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) timed: bool,
    pub(crate) stall_ns: u64,
    pub(crate) stream: &'static Stream,
    pub(crate) entry: Option<Box<Entry>>,
}

/// What a handler thread does.
pub(crate) enum Work {
    Dispatch(Dispatched),
    Copy(Copied),
    /// Intercept packets that found the ring full.
    Overflow(&'static Queue),
}

/// Work that waits or is being done.
static BACKLOG: AtomicU64 = AtomicU64::new(0);

struct Item {
    due_ns: u64,
    sequence: u64,
    work: Work,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        (self.due_ns, self.sequence) == (other.due_ns, other.sequence)
    }
}
impl Eq for Item {}
impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Item {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ns, self.sequence).cmp(&(other.due_ns, other.sequence))
    }
}

struct Handler {
    heap: Mutex<BinaryHeap<Reverse<Item>>>,
    wake: Condvar,
}

/// When it is due, by the clock that `push` uses: the machine's, also in a replay.
fn due(due_ns: u64) -> u64 {
    if device::clock_is_fixed() {
        // A replay's device time has passed; only the lateness is real.
        let late = due_ns.saturating_sub(device::now_ns());
        sim_interface::boottime_ns() + late
    } else {
        due_ns
    }
}

/// Work that waits for a handler thread or is being done.
pub(crate) fn backlog() -> u64 {
    BACKLOG.load(Ordering::Relaxed)
}

/// Gives work to a handler thread, to be done at `due_ns` of the device's clock.
pub(crate) fn push(due_ns: u64, sequence: u64, work: Work) {
    BACKLOG.fetch_add(1, Ordering::Relaxed);
    let handlers = handlers();
    let handler = &handlers[sequence as usize % handlers.len()];
    let item = Item {
        due_ns: due(due_ns),
        sequence,
        work,
    };
    let first = {
        let mut heap = lock(&handler.heap);
        let first = heap.peek().is_none_or(|Reverse(top)| item < *top);
        heap.push(Reverse(item));
        first
    };
    if first {
        handler.wake.notify_one();
    }
}

fn handlers() -> &'static [Handler] {
    static HANDLERS: OnceLock<Vec<Handler>> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let handlers = HANDLERS.get_or_init(|| {
        (0..settings().handlers)
            .map(|_| Handler {
                heap: Mutex::new(BinaryHeap::new()),
                wake: Condvar::new(),
            })
            .collect()
    });
    STARTED.get_or_init(|| {
        for (index, handler) in handlers.iter().enumerate() {
            let spawned = std::thread::Builder::new()
                .name(format!("rocr-event-{index}"))
                .spawn(move || handler.run());
            if let Err(error) = spawned {
                eprintln!("stand-in HIP: cannot start event thread {index}: {error}");
            }
        }
    });
    handlers
}

impl Handler {
    fn run(&self) {
        // Records that are due, newest on top; used with `newest-first` only.
        let mut ready: Vec<Item> = Vec::new();
        loop {
            let item = self.next(&mut ready);
            handle(item.work);
            BACKLOG.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn next(&self, ready: &mut Vec<Item>) -> Item {
        let newest_first = settings().newest_first;
        let mut heap = lock(&self.heap);
        loop {
            let now = sim_interface::boottime_ns();
            if newest_first {
                let before = ready.len();
                while heap.peek().is_some_and(|Reverse(top)| top.due_ns <= now) {
                    if let Some(Reverse(item)) = heap.pop() {
                        ready.push(item);
                    }
                }
                if ready.len() > before + 1 {
                    ready.sort_by_key(|item| item.sequence);
                }
                if let Some(item) = ready.pop() {
                    return item;
                }
            }
            let wait_ns = match heap.peek() {
                Some(Reverse(top)) if top.due_ns <= now => {
                    if let Some(Reverse(item)) = heap.pop() {
                        return item;
                    }
                    0
                }
                Some(Reverse(top)) => top.due_ns - now,
                None => u64::MAX,
            };
            heap = if wait_ns == u64::MAX {
                self.wake.wait(heap).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.wake
                    .wait_timeout(heap, Duration::from_nanos(wait_ns))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            };
        }
    }
}

fn handle(work: Work) {
    let Some(hooks) = runtime::hooks() else {
        if let Work::Overflow(queue) = work {
            device::ring_doorbell(queue, true);
        }
        return;
    };
    match work {
        Work::Dispatch(dispatch) => {
            pause(dispatch.stall_ns + settings().handler_ns);
            if dispatch.scratch {
                scratch(&dispatch);
            }
            // SAFETY: the SDK's token, given back once: this work exists once.
            unsafe {
                (hooks.dispatch_complete)(
                    dispatch.token as *mut _,
                    dispatch.start,
                    dispatch.end,
                    dispatch.timed,
                );
            };
            if let Some(entry) = dispatch.entry {
                ledger::delivered(&entry);
            }
        }
        Work::Copy(copy) => {
            pause(copy.stall_ns + settings().handler_ns);
            // SAFETY: as above.
            unsafe {
                (hooks.copy_complete)(copy.token as *mut _, copy.start, copy.end, copy.timed);
            };
            if let Some(entry) = copy.entry {
                ledger::delivered(&entry);
            }
            device::copy_done(copy.stream);
        }
        Work::Overflow(queue) => device::ring_doorbell(queue, true),
    }
}

/// Blocks the thread: short times by spinning, since a sleep takes 50 us at least.
fn pause(ns: u64) {
    if ns == 0 {
        return;
    }
    if ns >= 100_000 {
        std::thread::sleep(Duration::from_nanos(ns));
        return;
    }
    let end = sim_interface::boottime_ns() + ns;
    while sim_interface::boottime_ns() < end {
        std::hint::spin_loop();
    }
}

/// A scratch allocation around a dispatch, as the event thread sees it.
fn scratch(dispatch: &Dispatched) {
    let Some(hooks) = runtime::hooks() else {
        return;
    };
    let mut request = ScratchRequest {
        op: 1,
        gpu: dispatch.gpu,
        queue_id: dispatch.queue_id,
        flags: 0,
        start: 1,
        packet: dispatch.sequence,
        bytes: 1 << 20,
        slots: 64,
    };
    for start in [1, 0] {
        request.start = start;
        // SAFETY: the request lives across the call.
        unsafe { (hooks.scratch)(&raw const request) };
    }
}
