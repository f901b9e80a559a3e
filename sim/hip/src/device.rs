//! The simulated device: clock, hardware queues, streams, submission.
//!
//! A packet is written under its queue's intercept lock. Its start is the latest of now, the end of
//! the queue's last packet and the end of the stream's last work; its end follows from the kernel's
//! duration (I2). A thread that rings the doorbell handles all packets of the queue that wait, also
//! those of other threads: such a dispatch belongs to the wrong thread's call, as on the real
//! runtime. When the ring is full, the rest waits for an event thread, which intercepts it with no
//! API call around it.

use core::ffi::c_void;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sim_interface::settings::{mix, unit};
use sim_interface::{CopyRequest, DispatchRequest};

use crate::graph::Graph;
use crate::handlers::{self, Copied, Dispatched, Work};
use crate::kernels::Kernel;
use crate::ledger::{self, Entry};
use crate::runtime::{self, lock, settings, thread};

/// Copy bandwidth in bytes for each ns: 25 GB/s.
const COPY_BYTES_PER_NS: u64 = 25;
/// Handles of the legacy and the per-thread stream.
const STREAM_LEGACY: usize = 1;
const STREAM_PER_THREAD: usize = 2;

/// Salts: one stream of random numbers for each purpose.
const SALT_KERNEL: u64 = 1;
pub(crate) const SALT_LATE: u64 = 2;
pub(crate) const SALT_STALL: u64 = 3;
pub(crate) const SALT_FAIL: u64 = 4;
const SALT_SCRATCH: u64 = 5;

/// Time set by a replay in ns; 0 = the machine's clock.
static FIXED_NS: AtomicU64 = AtomicU64::new(0);
/// Packets and copies so far: the counter behind all that is random.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);
static NEXT_QUEUE_ID: AtomicU64 = AtomicU64::new(0);

/// Time now in ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    // Relaxed: a number by itself; a replay orders it by handing turns between threads.
    match FIXED_NS.load(Ordering::Relaxed) {
        0 => sim_interface::boottime_ns(),
        fixed => fixed,
    }
}

/// Sets the clock; 0 = the machine's.
pub(crate) fn set_clock(ns: u64) {
    FIXED_NS.store(ns, Ordering::Relaxed);
}

/// Is the clock a replay's?
pub(crate) fn clock_is_fixed() -> bool {
    FIXED_NS.load(Ordering::Relaxed) != 0
}

/// One GPU.
pub(crate) struct Device {
    pub(crate) index: u32,
    queues: Vec<OnceLock<&'static Queue>>,
    /// The null stream.
    null: OnceLock<&'static Stream>,
    /// Streams made so far: the next one's queue.
    streams: AtomicU32,
    /// End of the last copy of each direction, in ns.
    copy_end: [AtomicU64; 5],
    /// End of the last work of all, in ns.
    end: AtomicU64,
    /// Packets that wait to be intercepted.
    waiting: Pending,
    /// Copies whose handler has not run.
    copies: Pending,
}

/// Work that was begun and work that is done, so that a waiter waits for what was there when it
/// came, and not for what others keep adding.
#[derive(Default)]
struct Pending {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Pending {
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    fn is_empty(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.begun.load(Ordering::Acquire)
    }

    fn wait(&self) {
        let begun = self.begun.load(Ordering::Acquire);
        let mut rounds = 0_u32;
        while self.done.load(Ordering::Acquire) < begun {
            rounds += 1;
            if rounds < 100 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// One hardware queue.
pub(crate) struct Queue {
    pub(crate) id: u64,
    gpu: u32,
    /// Packets written by launching threads, not yet intercepted.
    pending: Mutex<VecDeque<Packet>>,
    /// The intercept lock.
    hardware: Mutex<Hardware>,
    /// Is the rest left to an event thread?
    overflow: AtomicBool,
}

#[derive(Default)]
struct Hardware {
    /// End of the last packet in ns.
    end: u64,
    /// Ends of the packets in the ring, in order; empty when rings are never full.
    ring: VecDeque<u64>,
}

/// One stream. Handed to programs as its address.
pub(crate) struct Stream {
    magic: AtomicU64,
    /// What programs know it by; 0 for null streams.
    pub(crate) handle: u64,
    pub(crate) gpu: u32,
    queue: &'static Queue,
    pub(crate) flags: u32,
    /// End of its last work in ns.
    end: AtomicU64,
    /// Its packets that wait to be intercepted.
    waiting: Pending,
    /// Its copies whose handler has not run.
    copies: Pending,
    /// Being captured into.
    pub(crate) capture: Mutex<Option<&'static Graph>>,
    pub(crate) capturing: AtomicBool,
}

/// First word of a stream that is alive ("STREAM").
const STREAM_MAGIC: u64 = 0x5354_5245_414d;

/// One kernel launch.
#[derive(Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) kernel: &'static Kernel,
    /// Grid in work-items.
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

struct Packet {
    launch: Launch,
    stream: &'static Stream,
}

fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let settings = settings();
        (0..settings.devices)
            .map(|index| Device {
                // At most 64 (settings).
                index: index as u32,
                queues: (0..settings.queues).map(|_| OnceLock::new()).collect(),
                null: OnceLock::new(),
                streams: AtomicU32::new(0),
                copy_end: [const { AtomicU64::new(0) }; 5],
                end: AtomicU64::new(0),
                waiting: Pending::default(),
                copies: Pending::default(),
            })
            .collect()
    })
}

/// The GPU with this index.
pub(crate) fn get(gpu: u32) -> Option<&'static Device> {
    devices().get(gpu as usize)
}

/// The calling thread's current GPU.
pub(crate) fn current() -> Option<&'static Device> {
    get(thread(|thread| thread.device.get()))
}

impl Device {
    fn queue(&self, index: usize) -> &'static Queue {
        let slot = &self.queues[index % self.queues.len()];
        slot.get_or_init(|| {
            Box::leak(Box::new(Queue {
                id: NEXT_QUEUE_ID.fetch_add(1, Ordering::Relaxed),
                gpu: self.index,
                pending: Mutex::new(VecDeque::new()),
                hardware: Mutex::new(Hardware::default()),
                overflow: AtomicBool::new(false),
            }))
        })
    }

    /// The null stream.
    pub(crate) fn null_stream(&self) -> &'static Stream {
        self.null
            .get_or_init(|| Box::leak(Box::new(Stream::new(self, 0, self.queue(0)))))
    }

    /// A new stream; its address is its handle.
    pub(crate) fn create_stream(&self, flags: u32) -> &'static Stream {
        // Queue 0 is the null stream's; with one queue all share it.
        let index = self.streams.fetch_add(1, Ordering::Relaxed) as usize + 1;
        let stream = Stream::new(self, flags, self.queue(index));
        let reused = lock(&FREE_STREAMS).pop();
        let place: *mut Stream = match reused {
            Some(address) => address as *mut Stream,
            None => Box::into_raw(Box::<Stream>::new_uninit()).cast(),
        };
        // SAFETY: fresh memory, or that of a destroyed stream that nobody may use any more (I1).
        // Only plain data and an empty mutex are overwritten.
        unsafe { place.write(stream) };
        // SAFETY: written above, never freed; `handle` has no reader yet.
        unsafe {
            (*place).handle = place as u64;
            &*place
        }
    }

    /// Waits until the device is idle: not until its handlers have run, except those of copies.
    pub(crate) fn synchronize(&self) {
        if clock_is_fixed() {
            return;
        }
        self.waiting.wait();
        wait_clock(self.end.load(Ordering::Acquire));
        self.copies.wait();
        ledger::flush();
    }

    fn note_end(&self, end: u64) {
        self.end.fetch_max(end, Ordering::AcqRel);
    }
}

/// Addresses of destroyed streams, used again last in, first out.
static FREE_STREAMS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Stream {
    fn new(device: &Device, flags: u32, queue: &'static Queue) -> Self {
        Self {
            magic: AtomicU64::new(STREAM_MAGIC),
            handle: 0,
            gpu: device.index,
            queue,
            flags,
            end: AtomicU64::new(0),
            waiting: Pending::default(),
            copies: Pending::default(),
            capture: Mutex::new(None),
            capturing: AtomicBool::new(false),
        }
    }

    /// The stream of a handle: null and legacy, the thread's own, or a created one.
    pub(crate) fn of(handle: *mut c_void) -> Option<&'static Self> {
        match handle as usize {
            0 | STREAM_LEGACY => Some(current()?.null_stream()),
            STREAM_PER_THREAD => {
                let device = current()?;
                thread(|thread| {
                    let own = thread.stream.get().filter(|own| own.gpu == device.index);
                    Some(own.unwrap_or_else(|| {
                        let own = device.create_stream(0);
                        thread.stream.set(Some(own));
                        own
                    }))
                })
            }
            address if address % 8 == 0 => {
                // SAFETY: HIP's contract: a handle from a create function. Its memory is never
                // freed, and the magic word tells a destroyed one.
                let stream = unsafe { &*(address as *const Self) };
                (stream.magic.load(Ordering::Acquire) == STREAM_MAGIC).then_some(stream)
            }
            _ => None,
        }
    }

    /// Destroys it after its work; the address may come back for another stream.
    pub(crate) fn destroy(&'static self) {
        self.synchronize();
        self.magic.store(0, Ordering::Release);
        lock(&FREE_STREAMS).push(core::ptr::from_ref(self) as usize);
    }

    /// Waits until its work is done.
    pub(crate) fn synchronize(&self) {
        if clock_is_fixed() {
            return;
        }
        self.waiting.wait();
        wait_clock(self.end.load(Ordering::Acquire));
        self.copies.wait();
    }

    /// Is its work done?
    pub(crate) fn idle(&self) -> bool {
        self.waiting.is_empty()
            && self.copies.is_empty()
            && (clock_is_fixed() || self.end.load(Ordering::Acquire) <= now_ns())
    }

    /// End of its last work in ns.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Nothing later on this stream starts before this time.
    pub(crate) fn wait_for(&self, ns: u64) {
        self.end.fetch_max(ns, Ordering::AcqRel);
    }
}

/// Waits until the clock has reached a time.
pub(crate) fn wait_clock(ns: u64) {
    if clock_is_fixed() {
        return;
    }
    loop {
        let now = now_ns();
        if now >= ns {
            return;
        }
        if ns - now > 100_000 {
            std::thread::sleep(Duration::from_nanos(ns - now - 50_000));
        } else {
            std::thread::yield_now();
        }
    }
}

/// Submits a kernel on a stream.
pub(crate) fn launch(stream: &'static Stream, launch: Launch) {
    let queue = stream.queue;
    let packet = Packet { launch, stream };
    if runtime::hooks().is_none() && settings().ring == 0 {
        // Nobody looks on: no interception.
        write_packet(queue, &mut lock(&queue.hardware), packet);
        return;
    }
    stream.waiting.begin();
    if let Some(device) = get(stream.gpu) {
        device.waiting.begin();
    }
    lock(&queue.pending).push_back(packet);
    ring_doorbell(queue, false);
}

/// Handles all waiting packets of a queue that fit its ring. `event_thread`: on a handler.
pub(crate) fn ring_doorbell(queue: &'static Queue, event_thread: bool) {
    if !event_thread && queue.overflow.load(Ordering::Acquire) {
        return;
    }
    if thread(|thread| thread.intercepting.get()) {
        // A launch from inside an ENQUEUE callback, under an intercept lock: left to an event thread.
        leave_to_event_thread(queue, now_ns());
        return;
    }
    let mut hardware = lock(&queue.hardware);
    loop {
        let limit = settings().ring;
        if limit > 0 {
            let now = now_ns();
            while hardware.ring.front().is_some_and(|&end| end <= now) {
                hardware.ring.pop_front();
            }
            if hardware.ring.len() >= limit {
                let room_ns = hardware.ring.front().copied().unwrap_or(now);
                if lock(&queue.pending).is_empty() {
                    break;
                }
                leave_to_event_thread(queue, room_ns);
                return;
            }
        }
        let packet = lock(&queue.pending).pop_front();
        let Some(packet) = packet else {
            if event_thread {
                queue.overflow.store(false, Ordering::Release);
                // A packet may have come between the look and the store.
                if !lock(&queue.pending).is_empty() {
                    continue;
                }
            }
            break;
        };
        let stream = packet.stream;
        thread(|thread| thread.intercepting.set(true));
        write_packet(queue, &mut hardware, packet);
        thread(|thread| thread.intercepting.set(false));
        stream.waiting.end();
        if let Some(device) = get(stream.gpu) {
            device.waiting.end();
        }
        if !event_thread && queue.overflow.load(Ordering::Acquire) {
            // A callback launched on this queue: what follows is the event thread's.
            return;
        }
    }
}

/// Has an event thread intercept what waits in a queue, at a time of the device's clock.
fn leave_to_event_thread(queue: &'static Queue, ns: u64) {
    queue.overflow.store(true, Ordering::Release);
    handlers::push(ns, 0, Work::Overflow(queue));
}

/// Intercepts one packet and gives it to the device. Under the intercept lock.
#[inline]
fn write_packet(queue: &'static Queue, hardware: &mut Hardware, packet: Packet) {
    let settings = settings();
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let Packet { launch, stream } = packet;
    let kernel = launch.kernel;
    let mut request = DispatchRequest {
        gpu: queue.gpu,
        private_segment: kernel.private_segment,
        group_segment: kernel.group_segment + launch.shared_bytes,
        workgroup: launch.block,
        grid: launch.grid,
        queue_id: queue.id,
        kernel_object: kernel.object(queue.gpu),
        dispatch_id: 0,
        correlation_id: 0,
        thread_id: 0,
    };
    let token = match runtime::hooks() {
        // SAFETY: the request lives across the call.
        Some(hooks) => unsafe { (hooks.dispatch_enqueue)(&raw mut request) },
        None => core::ptr::null_mut(),
    };
    let start = now_ns()
        .max(hardware.end)
        .max(stream.end.load(Ordering::Acquire));
    let duration = settings
        .kernel_ns
        .sample(mix(settings.seed ^ SALT_KERNEL, sequence));
    let end = start + duration.max(1);
    hardware.end = end;
    stream.end.fetch_max(end, Ordering::AcqRel);
    if let Some(device) = get(queue.gpu) {
        device.note_end(end);
    }
    if settings.ring > 0 {
        hardware.ring.push_back(end);
    }
    let random = |salt| mix(settings.seed ^ salt, sequence);
    let traced = !token.is_null();
    let timed =
        !traced || settings.fail_timing == 0.0 || unit(random(SALT_FAIL)) >= settings.fail_timing;
    let entry = ledger::enabled().then(|| {
        Box::new(Entry {
            kind: "dispatch",
            sequence,
            traced,
            dispatch_id: request.dispatch_id,
            correlation_id: request.correlation_id,
            thread_id: if traced {
                request.thread_id
            } else {
                runtime::thread_id()
            },
            name: kernel.symbol.clone(),
            gpu: queue.gpu,
            queue: queue.id,
            stream: stream.handle,
            bytes: 0,
            start,
            end,
            timed,
        })
    });
    if !traced {
        if let Some(entry) = entry {
            ledger::write(&entry, false);
        }
        return;
    }
    let entry = entry.map(ledger::outstanding);
    let late = settings.late.sample(random(SALT_LATE));
    handlers::push(
        end + late,
        sequence,
        Work::Dispatch(Dispatched {
            token: token as usize,
            start,
            end,
            timed,
            stall_ns: settings.stall.sample(random(SALT_STALL)),
            scratch: settings.scratch > 0.0 && unit(random(SALT_SCRATCH)) < settings.scratch,
            gpu: queue.gpu,
            queue_id: queue.id,
            sequence,
            entry,
        }),
    );
}

/// One copy as a program asked for it. GPU -1 = host.
#[derive(Clone, Copy)]
pub(crate) struct CopyJob {
    pub(crate) dst: u64,
    pub(crate) src: u64,
    pub(crate) bytes: u64,
    pub(crate) dst_gpu: i32,
    pub(crate) src_gpu: i32,
}

/// Submits a copy by the copy engine on a stream.
pub(crate) fn copy(stream: &'static Stream, job: CopyJob) {
    let settings = settings();
    let direction = match (job.src_gpu >= 0, job.dst_gpu >= 0) {
        (false, false) => 1,
        (false, true) => 2,
        (true, false) => 3,
        (true, true) => 4,
    };
    let mut request = CopyRequest {
        direction,
        dst_gpu: job.dst_gpu,
        src_gpu: job.src_gpu,
        bytes: job.bytes,
        dst: job.dst,
        src: job.src,
        correlation_id: 0,
        thread_id: 0,
    };
    let hooks = runtime::hooks();
    let token = match hooks {
        // SAFETY: the request lives across the call.
        Some(hooks) => unsafe { (hooks.copy_enter)(&raw mut request) },
        None => core::ptr::null_mut(),
    };
    let traced = !token.is_null();
    if traced && let Some(hooks) = hooks {
        // SAFETY: a token of `copy_enter` that is not completed yet.
        unsafe { (hooks.copy_submitted)(token) };
    }
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let Some(device) = get(stream.gpu) else {
        return;
    };
    // Each direction has its own engine; 1 to 4.
    let engine = &device.copy_end[direction.unsigned_abs() as usize];
    let start = now_ns()
        .max(engine.load(Ordering::Acquire))
        .max(stream.end.load(Ordering::Acquire));
    let end = start + settings.copy_ns + job.bytes / COPY_BYTES_PER_NS;
    engine.fetch_max(end, Ordering::AcqRel);
    stream.end.fetch_max(end, Ordering::AcqRel);
    device.note_end(end);
    let random = |salt| mix(settings.seed ^ salt, sequence);
    let timed =
        !traced || settings.fail_timing == 0.0 || unit(random(SALT_FAIL)) >= settings.fail_timing;
    let entry = ledger::enabled().then(|| {
        Box::new(Entry {
            kind: "copy",
            sequence,
            traced,
            dispatch_id: 0,
            correlation_id: request.correlation_id,
            thread_id: if traced {
                request.thread_id
            } else {
                runtime::thread_id()
            },
            name: c"".to_owned(),
            gpu: stream.gpu,
            queue: u64::from(direction.unsigned_abs()),
            stream: stream.handle,
            bytes: job.bytes,
            start,
            end,
            timed,
        })
    });
    if !traced {
        if let Some(entry) = entry {
            ledger::write(&entry, false);
        }
        return;
    }
    let entry = entry.map(ledger::outstanding);
    // The program's signal is forwarded by the handler: who waits for the copy waits for it.
    copy_begun(stream);
    handlers::push(
        end + settings.late.sample(random(SALT_LATE)),
        sequence,
        Work::Copy(Copied {
            token: token as usize,
            start,
            end,
            timed,
            stall_ns: settings.stall.sample(random(SALT_STALL)),
            stream,
            entry,
        }),
    );
}

/// A copy is on its way.
pub(crate) fn copy_begun(stream: &Stream) {
    stream.copies.begin();
    if let Some(device) = get(stream.gpu) {
        device.copies.begin();
    }
}

/// A copy's handler has run.
pub(crate) fn copy_done(stream: &Stream) {
    stream.copies.end();
    if let Some(device) = get(stream.gpu) {
        device.copies.end();
    }
}
