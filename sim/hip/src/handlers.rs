//! The runtime's event threads: they run completion handlers after the device has finished.
//!
//! Work waits in a heap by due time: the end on the device plus the lateness of that record. Late
//! records therefore do not delay others, but a stall blocks its thread. Records are spread over
//! the threads by their sequence number. With `newest-first`, the newest of those that are due
//! goes first, as the real runtime was seen to do under backlog.
//!
//! The threads are detached and end with the process: they still run while `exit` handlers do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
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

/// Items that a thread takes at once.
const BATCH: usize = 32;

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

/// An item that is due, ordered by its sequence number: newest on top.
struct Newest(Item);

impl PartialEq for Newest {
    fn eq(&self, other: &Self) -> bool {
        self.0.sequence == other.0.sequence
    }
}
impl Eq for Newest {}
impl PartialOrd for Newest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Newest {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.sequence.cmp(&other.0.sequence)
    }
}

/// Work by due time. What comes in order, as records on time do, costs no heap operation.
#[derive(Default)]
struct Waiting {
    in_order: VecDeque<Item>,
    heap: BinaryHeap<Reverse<Item>>,
}

impl Waiting {
    /// Adds an item. True = it is now the first.
    fn push(&mut self, item: Item) -> bool {
        let first = self
            .first_due_ns()
            .is_none_or(|due_ns| item.due_ns < due_ns);
        if self.in_order.back().is_none_or(|last| *last < item) {
            self.in_order.push_back(item);
        } else {
            self.heap.push(Reverse(item));
        }
        first
    }

    fn first_due_ns(&self) -> Option<u64> {
        let in_order = self.in_order.front().map(|item| item.due_ns);
        let heap = self.heap.peek().map(|Reverse(item)| item.due_ns);
        match (in_order, heap) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Takes the first item if it is due.
    fn pop_due(&mut self, now_ns: u64) -> Option<Item> {
        if self.first_due_ns()? > now_ns {
            return None;
        }
        match (self.in_order.front(), self.heap.peek()) {
            (Some(a), Some(Reverse(b))) if b < a => self.heap.pop().map(|Reverse(item)| item),
            (None, _) => self.heap.pop().map(|Reverse(item)| item),
            _ => self.in_order.pop_front(),
        }
    }
}

struct Handler {
    waiting: Mutex<Waiting>,
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
    if lock(&handler.waiting).push(item) {
        handler.wake.notify_one();
    }
}

fn handlers() -> &'static [Handler] {
    static HANDLERS: OnceLock<Vec<Handler>> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let handlers = HANDLERS.get_or_init(|| {
        (0..settings().handlers)
            .map(|_| Handler {
                waiting: Mutex::new(Waiting::default()),
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
        let mut batch: VecDeque<Item> = VecDeque::with_capacity(BATCH);
        // With `newest-first`: all that is due.
        let mut ready: BinaryHeap<Newest> = BinaryHeap::new();
        loop {
            if settings().newest_first {
                self.fetch(ready.is_empty(), usize::MAX, |item| {
                    ready.push(Newest(item))
                });
                batch.extend(ready.pop().map(|Newest(item)| item));
            } else {
                self.fetch(true, BATCH, |item| batch.push_back(item));
            }
            for item in batch.drain(..) {
                handle(item.work);
                BACKLOG.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes at most `limit` items that are due, in order; waits for one if asked to.
    fn fetch(&self, wait: bool, limit: usize, mut take: impl FnMut(Item)) {
        let mut waiting = lock(&self.waiting);
        loop {
            let now_ns = sim_interface::boottime_ns();
            let mut taken = 0;
            while taken < limit
                && let Some(item) = waiting.pop_due(now_ns)
            {
                take(item);
                taken += 1;
            }
            if taken > 0 || !wait {
                return;
            }
            waiting = match waiting.first_due_ns() {
                None => self
                    .wake
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(due_ns) => {
                    self.wake
                        .wait_timeout(waiting, Duration::from_nanos(due_ns - now_ns))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
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
