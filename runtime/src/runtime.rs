//! The runtime of a process: one region, its lanes, and what ties them together. Lives as long as the process.

use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use std::sync::{Mutex, OnceLock};

use crate::anchors::ClockAnchor;
use crate::clock;
use crate::collector::{CollectorState, OUTPUT_KEY, OutputFile};
use crate::control::{self, Control, STATES};
use crate::gate::{self, Barrier};
use crate::header::{HEARTBEAT_OFFSET, Header, Mode, PHASE_OFFSET, Phase, VERSION};
use crate::identity::{Identity, thread_id};
use crate::lane::{Fast, Lane, Laneless, laneless};
use crate::limits::{AHEAD_BYTES, BACK_STEP_BYTES, LANE_COUNT_MAX, ahead_bytes};
use crate::memory::{self, Memory, MemoryKind, Wishes};
use crate::record::Kind;
use crate::region::{self, Region};
use crate::release::Released;
use crate::retired::RetiredSet;
use crate::session::{Accounting, OutstandingList};
use crate::settings::{Backing, ClockSource, Collector, Settings};
use crate::snapshot;
use crate::status::Status;
use crate::sync::Ordering;
use crate::tables::{HandleTable, OnceSet};
use crate::tls;
use crate::trace::{Trace, TraceError};

/// What the vendor layer says of itself when it makes the runtime.
#[derive(Clone, Debug, Default)]
pub struct Vendor {
    /// 0 none, 1 rocprofiler-sdk, 2 CUPTI.
    pub number: u32,
    /// SDK version, 10000*major + 100*minor + patch; 0 unknown.
    pub version: u32,
    /// True when the SDK says that it is a simulation.
    pub simulated: bool,
    /// The SDK's description.
    pub description: String,
}

/// The runtime.
#[derive(Debug)]
pub struct Runtime {
    region: &'static Region,
    lanes: &'static [Lane],
    control: &'static Control,
    barrier: Barrier,
    announced: OnceSet,
    streams: HandleTable,
    pub(crate) retired: RetiredSet,
    pub(crate) accounting: Mutex<Accounting>,
    pub(crate) released: Mutex<Released>,
    outstanding: OutstandingList,
    /// Stream mode: the collector's own.
    pub(crate) collector: Mutex<CollectorState>,
    /// The file that a stream goes to.
    output: Option<PathBuf>,
    /// Writing it failed, and the trace says so.
    pub(crate) output_failed: AtomicBool,
    /// It holds everything: the region's own file is not needed any more.
    pub(crate) output_finished: AtomicBool,
    /// State word of each lane whose thread's name was announced.
    pub(crate) named_threads: Mutex<Vec<u64>>,
    /// A session waits for its proof.
    pub(crate) pending: AtomicBool,
    pub(crate) finalizing: AtomicBool,
    pub(crate) retirement_off: AtomicBool,
    /// When each of the newest sessions was opened, and asked to stop; vendor ns.
    pub(crate) begins: [AtomicU64; STATES],
    pub(crate) requests: [AtomicU64; STATES],
    settings: Settings,
    thread_key: Option<libc::pthread_key_t>,
    /// Claims that found no lane since the housekeeper last looked for dead owners.
    lanes_short: AtomicU64,
    backing_failed: AtomicBool,
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// glibc keeps the values of the first 32 keys in the thread descriptor itself; setting them allocates nothing
/// (nptl/pthread_setspecific.c, PTHREAD_KEY_2NDLEVEL_SIZE).
const KEYS_WITHOUT_ALLOCATION: libc::pthread_key_t = 32;

/// How often a thread looks whether the last lane is free for its fact: longer than a fact takes, unless its owner was
/// interrupted.
const FACT_LANE_LOOKS: u32 = 1_000;
/// Owner of a lane whose thread is gone, while it is being given back; no thread has this id.
const RECLAIMING: u64 = u64::MAX;

extern "C" fn thread_ended(lane: *mut libc::c_void) {
    // SAFETY: the value was set by `Runtime::claim_lane` to a lane, and lanes live as long as the process.
    let Some(lane) = (unsafe { lane.cast::<Lane>().as_ref() }) else {
        return;
    };
    // In a forked child the lane is a copy, but its header lies in the parent's region: nothing may be written there.
    if lane.control.barrier().is_none() {
        return;
    }
    tls::lane::set(0);
    lane.vacate();
}

/// The lane that a fact goes to.
#[derive(Debug)]
pub(crate) enum FactLane {
    /// The thread's own.
    Own(&'static Lane),
    /// The last one, given back with this.
    Last(&'static Lane),
}

impl std::ops::Deref for FactLane {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        match self {
            Self::Own(lane) | Self::Last(lane) => lane,
        }
    }
}

impl Drop for FactLane {
    fn drop(&mut self) {
        if let Self::Last(lane) = self {
            lane.vacate();
        }
    }
}

impl Runtime {
    /// The process's runtime, once it was made.
    #[inline]
    pub fn global() -> Option<&'static Self> {
        // ORD(runtime): Acquire. Pairs with the Release in `make_global`.
        let runtime = RUNTIME.load(std::sync::atomic::Ordering::Acquire);
        // SAFETY: only `make_global` stores here, a leaked runtime.
        unsafe { runtime.as_ref() }
    }

    /// Makes the process's runtime: the region, lanes and tables. Not in a callback; allocates and makes system calls.
    ///
    /// # Errors
    /// [`Status::SessionOpen`] when there is one already, [`Status::BadSetting`], [`Status::NoRegion`] with the reason in the log when the
    /// region can't be made.
    pub fn make_global(
        settings: Settings,
        vendor: &Vendor,
    ) -> Result<&'static Self, (Status, String)> {
        if Self::global().is_some() {
            return Err((Status::SessionOpen, "the runtime exists already".to_owned()));
        }
        let runtime = Self::make(settings, vendor, control::process())?;
        // ORD(runtime): Release. Pairs with the Acquire in `global`.
        RUNTIME.store(
            std::ptr::from_ref(runtime).cast_mut(),
            std::sync::atomic::Ordering::Release,
        );
        Ok(runtime)
    }

    pub(crate) fn make(
        settings: Settings,
        vendor: &Vendor,
        control: &'static Control,
    ) -> Result<&'static Self, (Status, String)> {
        if settings.clock == ClockSource::MonotonicRaw {
            clock::use_monotonic_raw();
        }
        if settings.mode == Mode::Stream && settings.backing == Backing::Memfd {
            let text = "stream mode needs a region with a name, to finish the file after a crash: set STRANDLINE_BACKING=dir";
            return Err((Status::BadSetting, text.to_owned()));
        }
        let segment_bytes = settings
            .segment_size()
            .map_err(|error| (Status::BadSetting, error.to_string()))?;
        let identity = Identity::read();
        let (path, made_dir) = match &settings.out {
            _ if settings.backing == Backing::Memfd => (PathBuf::from("a memfd"), None),
            Some(path) if settings.mode != Mode::Stream => (path.clone(), None),
            // In stream mode the file that was asked for is what the region is moved to.
            _ => {
                let dir = settings.dir.clone();
                (dir.join(format!("{}.slt", identity.pid)), Some(dir))
            }
        };
        let failed = |what: &str, path: &Path, error: std::io::Error| {
            (
                Status::NoRegion,
                format!("{what} {}: {error}", path.display()),
            )
        };
        if let Some(dir) = &made_dir {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(|error| failed("making the folder", dir, error))?;
        }
        let made = match settings.backing {
            Backing::Dir => region::create_file(&path, identity.pid),
            Backing::Memfd => memory::memfd(identity.pid),
        };
        let (file, path) = made.map_err(|error| failed("making the region", &path, error))?;
        let wishes = Wishes::new(&settings, &file);
        let header = header(&settings, segment_bytes, vendor, &identity);
        let made = Region::create(file, path.clone(), header, wishes).and_then(|region| {
            let first = if settings.prefault {
                settings.budget_bytes
            } else {
                AHEAD_BYTES.min(settings.budget_bytes)
            };
            region.back(first / region.segment_bytes())?;
            Ok(region)
        });
        let region = match made {
            Ok(region) => &*Box::leak(Box::new(region)),
            Err(error) => {
                remove_file(&settings, &path);
                return Err(failed("reserving the region", &path, error));
            }
        };
        let mut file = None;
        if settings.mode == Mode::Stream && settings.collector == Collector::Thread {
            let Some(out) = &settings.out else {
                let _ = std::fs::remove_file(&path);
                let text = "stream mode writes to a file: set STRANDLINE_OUT to its path";
                return Err((Status::BadSetting, text.to_owned()));
            };
            let made = OutputFile::create(out, region.header()).map_err(|error| {
                let _ = std::fs::remove_file(&path);
                failed("making the file of the stream", out, error)
            })?;
            file = Some(made);
        }
        let output = file.as_ref().map(|file| file.path().to_owned());
        let retired =
            RetiredSet::new().map_err(|error| failed("reserving memory beside", &path, error))?;
        let barrier = gate::register();
        let lanes: Vec<Lane> = (0..region.header().lane_count)
            .map(|index| Lane::new(index as u16, region, control, barrier))
            .collect();
        let runtime = &*Box::leak(Box::new(Self {
            region,
            lanes: Box::leak(lanes.into_boxed_slice()),
            control,
            barrier,
            announced: OnceSet::new(),
            streams: HandleTable::new(),
            retired,
            accounting: Mutex::new(Accounting::default()),
            released: Mutex::new(Released::default()),
            outstanding: OutstandingList::default(),
            collector: Mutex::new(CollectorState::with_file(file)),
            output,
            output_failed: AtomicBool::new(false),
            output_finished: AtomicBool::new(false),
            named_threads: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            finalizing: AtomicBool::new(false),
            retirement_off: AtomicBool::new(false),
            begins: [const { AtomicU64::new(0) }; STATES],
            requests: [const { AtomicU64::new(0) }; STATES],
            settings,
            thread_key: thread_key(),
            lanes_short: AtomicU64::new(0),
            backing_failed: AtomicBool::new(false),
        }));
        runtime.set_phase(Phase::Load);
        wipe_on_fork(control);
        // ORD(armed): Release for form; see `Control::barrier`.
        control.armed.store(barrier as u64, Ordering::Release);
        runtime.announce_anchor();
        let wishes = region.wishes();
        wishes.hand_over(region.file(), &runtime.settings, identity.pid);
        let memory = runtime.memory();
        if runtime.settings.wishes_for_memory() || memory.kind == MemoryKind::DiskFile {
            runtime.metadata(b"strandline.memory", memory.to_string().as_bytes());
        }
        if let Some(output) = &runtime.output {
            runtime.metadata(OUTPUT_KEY.as_bytes(), output.as_os_str().as_bytes());
        }
        Ok(runtime)
    }

    /// The control page. Only tests have another one than the process's.
    #[inline(always)]
    pub(crate) fn control(&self) -> &'static Control {
        if cfg!(test) {
            self.control
        } else {
            control::process()
        }
    }

    /// Number of the open session, 0 when none is: the test before every append.
    #[inline(always)]
    pub(crate) fn session_now(&self) -> u32 {
        if cfg!(test) {
            self.control.open_session()
        } else {
            control::process_session() as u32
        }
    }

    pub(crate) fn region(&self) -> &'static Region {
        self.region
    }

    pub(crate) fn lanes(&self) -> &'static [Lane] {
        self.lanes
    }

    pub(crate) fn outstanding_list(&self) -> &OutstandingList {
        &self.outstanding
    }

    pub(crate) fn announced(&self) -> &OnceSet {
        &self.announced
    }

    pub(crate) fn streams(&self) -> &HandleTable {
        &self.streams
    }

    /// The settings in use.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The file that holds the trace in the end: the region's, or the one that a stream goes to.
    pub fn path(&self) -> &Path {
        self.output.as_deref().unwrap_or(self.region.path())
    }

    /// The live region's file.
    pub fn region_path(&self) -> &Path {
        self.region.path()
    }

    /// How appends and stops order themselves.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// What the region's memory is, and what was got of what was asked for.
    pub fn memory(&self) -> Memory {
        self.region.wishes().memory()
    }

    /// True when a step of the backing failed: the region will not grow any more.
    pub fn backing_failed(&self) -> bool {
        self.backing_failed
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    /// An append to the open session by the calling thread, when it may take the fast way (see [`Lane::fast`]).
    #[inline(always)]
    pub(crate) fn fast<const CELLS: usize>(&self) -> Option<Fast<'static>> {
        let lane = tls::lane::get() as *const Lane;
        // SAFETY: the word is 0 or a lane that this thread claimed; lanes live as long as the process.
        let lane: &'static Lane = unsafe { lane.as_ref() }?;
        if cfg!(test) && !std::ptr::eq(lane.control, self.control) {
            return None;
        }
        lane.fast::<CELLS>()
    }

    /// The calling thread's lane; claims one the first time. `session` counts the loss when there is none.
    #[inline(always)]
    pub(crate) fn lane(&self, session: u32) -> Option<&'static Lane> {
        self.own_lane().or_else(|| self.claim_lane(session))
    }

    /// The lane that the calling thread has.
    #[inline]
    fn own_lane(&self) -> Option<&'static Lane> {
        let lane = tls::lane::get() as *const Lane;
        if lane.is_null() {
            return None;
        }
        // SAFETY: the word is 0 or a lane that this thread claimed; lanes live as long as the process.
        let lane = unsafe { &*lane };
        // Only tests have more than one runtime in a process.
        (!cfg!(test) || std::ptr::eq(lane.control, self.control)).then_some(lane)
    }

    #[cold]
    fn claim_lane(&self, session: u32) -> Option<&'static Lane> {
        let lane = self.try_claim_lane();
        if lane.is_none() {
            self.count_no_lane(session);
        }
        lane
    }

    /// Claims a vacant lane for this thread; all but the last, which is [`Runtime::fact_lane`]'s.
    fn try_claim_lane(&self) -> Option<&'static Lane> {
        // In a forked child nothing may be claimed: a lane's header lies in the parent's region.
        self.control.barrier()?;
        // The kernel's word, not the SDK's: a lane whose owner seems to be gone is handed on, and a wrong id would make
        // two writers.
        let thread = thread_id();
        let threads = self.lanes.len().saturating_sub(1).max(1);
        for lane in &self.lanes[..threads] {
            // ORD(owner): Relaxed. A look before the compare-exchange in `claim`.
            if lane.owner.load(Ordering::Relaxed) == 0 && lane.claim(thread) {
                tls::lane::set(std::ptr::from_ref(lane) as u64);
                if let Some(key) = self.thread_key {
                    // SAFETY: the key was made at load and lies below the limit that needs no allocation.
                    unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(lane).cast()) };
                }
                return Some(lane);
            }
        }
        self.lanes_short
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        None
    }

    /// A thread without a lane loses something of a session, 0 = of the open one.
    fn count_no_lane(&self, session: u32) {
        if self.control.barrier().is_none() {
            return;
        }
        let session = if session == 0 {
            self.control.open_session()
        } else {
            session
        };
        laneless(self.region, session, Laneless::NoLane);
    }

    /// The lane for a fact: the thread's own, or, where threads have all the others, the last one for as long as the
    /// fact takes. So a session that a thread without a lane opens, stops or names kernels in says so in its trace.
    /// Wait-free: of threads that want it at the same time, one gets it and the others look a bounded number of times;
    /// `None` is counted.
    pub(crate) fn fact_lane(&self, session: u32) -> Option<FactLane> {
        if let Some(lane) = self.own_lane().or_else(|| self.try_claim_lane()) {
            return Some(FactLane::Own(lane));
        }
        self.control.barrier()?;
        let thread = thread_id();
        let last = self.lanes.last()?;
        for _ in 0..FACT_LANE_LOOKS {
            // ORD(owner): Relaxed. A look before the compare-exchange in `claim`.
            if last.owner.load(Ordering::Relaxed) == 0 && last.claim(thread) {
                return Some(FactLane::Last(last));
            }
            std::hint::spin_loop();
        }
        self.count_no_lane(session);
        None
    }

    /// Gives back the lanes of threads that ended without saying so. Not in a callback: one system call a lane.
    pub(crate) fn reclaim_dead_lanes(&self) {
        if self
            .lanes_short
            .swap(0, std::sync::atomic::Ordering::Relaxed)
            == 0
            && self.thread_key.is_some()
        {
            return;
        }
        for lane in self.lanes {
            self.reclaim_if_dead(lane);
        }
    }

    /// Gives a lane back if its thread is gone. Not in a callback: one system call.
    pub(crate) fn reclaim_if_dead(&self, lane: &Lane) {
        let owner = lane.owner.load(Ordering::Relaxed);
        if owner == 0 || owner == RECLAIMING {
            return;
        }
        let pid = self.region.header().pid;
        // SAFETY: signal 0 only asks whether the thread exists.
        let gone = unsafe { libc::syscall(libc::SYS_tgkill, pid, owner, 0) } != 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        // ORD(owner): Acquire. Of two that found it dead, one gives it back; the other must not touch a new owner's.
        if gone
            && lane
                .owner
                .compare_exchange(owner, RECLAIMING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            lane.vacate();
        }
    }

    /// Backs memory ahead of demand. Not in a callback.
    pub(crate) fn back_ahead(&self) {
        let segment_bytes = self.region.segment_bytes();
        let budget_bytes = u64::from(self.region.segment_count()) * segment_bytes;
        let ahead = ahead_bytes(budget_bytes, segment_bytes) / segment_bytes;
        let step = BACK_STEP_BYTES / segment_bytes;
        while self.region.free_count() + step <= ahead
            && self.region.backed_count() < self.region.segment_count().into()
            && !self.backing_failed()
        {
            if self.region.back(step).is_err() {
                self.backing_failed
                    .store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    /// Writes the phase that the process has reached.
    pub fn set_phase(&self, phase: Phase) {
        if self.control.barrier().is_some() || phase == Phase::Load {
            // ORD(phase): Release for readers in other processes.
            self.region
                .word(PHASE_OFFSET)
                .store(phase as u64, Ordering::Release);
        }
    }

    pub(crate) fn beat(&self) {
        let beat = self.region.word(HEARTBEAT_OFFSET);
        beat.store(beat.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Announces one moment in all clocks.
    pub fn announce_anchor(&self) {
        self.announce(&clock::clock_anchor());
    }

    /// Announces a moment that was taken before.
    pub(crate) fn announce(&self, anchor: &ClockAnchor) {
        let words = [
            anchor.ticks,
            anchor.vendor_ns,
            anchor.boottime_ns,
            anchor.monotonic_ns,
            anchor.monotonic_raw_ns,
            anchor.realtime_ns,
        ];
        self.fact(Kind::Anchor, 0, &words);
    }

    /// An id was retired by the SDK. From the SDK's buffer callback: one thread at a time.
    #[inline]
    pub fn retire(&self, correlation_id: u64) {
        if !self.finalizing.load(std::sync::atomic::Ordering::Relaxed) {
            self.retired.add(correlation_id);
        }
    }

    /// Adds to the count of records that the SDK said it dropped.
    pub fn set_sdk_dropped(&self, total: u64) {
        if self.control().barrier().is_some() {
            self.region
                .word(crate::header::SDK_DROPPED_OFFSET)
                .store(total, Ordering::Relaxed);
        }
    }

    /// Says that retirement is not traced: timing failures then stay missing.
    pub fn set_retirement_off(&self) {
        self.retirement_off
            .store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// True while no session is open and none waits for its proof.
    pub fn is_idle(&self) -> bool {
        self.open_session() == 0 && !self.pending.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// True once the SDK finalizes the process.
    pub fn is_finalizing(&self) -> bool {
        self.finalizing.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// True on a thread that must not wait for completions: inside a traced call, on a thread that delivers them, or in
    /// finalization.
    pub fn must_not_wait(&self) -> bool {
        let lane = tls::lane::get() as *const Lane;
        // SAFETY: the word is 0 or a lane that this thread claimed; lanes live as long as the process.
        let inside =
            unsafe { lane.as_ref() }.is_some_and(|lane| lane.call_depth() > 0 || lane.is_handler());
        inside || self.is_finalizing()
    }

    /// The region as a reader sees it now. In window mode these are the live pages, and as long as the trace lives no
    /// segment of a released session is freed. In flight mode it is a copy, in stream mode the file, brought up to date
    /// (a copy of what the region still holds where the host collects, or where the file can't be written).
    ///
    /// # Errors
    /// Never for a region that this process made, unless its header was damaged. What the system said of the file.
    pub fn trace(&self) -> Result<Trace, TraceError> {
        if let Some(output) = &self.output
            && self.flush_output()
        {
            return Trace::open(output);
        }
        // In a forked child the lock may be held for ever; and nothing is freed there.
        let released = self.control().barrier().map(|_| self.released());
        let map = self.region.read_map();
        drop(released);
        Trace::from_map(map, self.region.path())
    }

    /// Writes a consistent copy of the region while appends go on: a `.slt` file, with the name that was given or, if that
    /// exists already, `STEM.PID.EXT`. Returns the name. Not in a callback. A window's region is copied as well as that
    /// of flight mode.
    ///
    /// # Errors
    /// What the system said; then there is no file. In a forked child always.
    pub fn snapshot(&self, path: &Path) -> std::io::Result<PathBuf> {
        use std::os::unix::fs::FileExt;
        if self.control().barrier().is_none() {
            return Err(std::io::Error::other("a forked child has no region"));
        }
        let header = self.region.header();
        region::within_file_limit(header.region_bytes)?;
        let (file, path) = region::create_file(path, header.pid)?;
        let mut bytes = Vec::with_capacity(header.segment_bytes as usize);
        let sink = &mut |offset: usize, words: &[u64]| {
            bytes.clear();
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            file.write_all_at(&bytes, offset as u64)
        };
        let copied = file
            .set_len(header.region_bytes)
            .and_then(|()| snapshot::copy(&self.region.read_map(), header, sink));
        match copied {
            Ok(_) => Ok(path),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Gives memory that was backed and never used back to the system, at the end: later records that need a new segment
    /// are lost and counted.
    pub(crate) fn give_unused_back(&self) {
        if self.control.barrier().is_some() && self.region.header().mode != Mode::Flight {
            self.region.give_unused_back();
        }
    }

    /// Writes the file that was asked for, where a memfd holds the region and no recorder keeps it: a snapshot, with the
    /// name that it got. At a clean exit, before [`Runtime::discard_unasked_file`].
    ///
    /// # Errors
    /// As [`Runtime::snapshot`]; the recording is then lost with the process.
    pub fn write_asked_file(&self) -> std::io::Result<Option<PathBuf>> {
        match &self.settings.out {
            Some(out)
                if self.output.is_none()
                    && self.settings.backing == Backing::Memfd
                    && !self.memory().is_kept =>
            {
                self.snapshot(out).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Removes the region's file name when nobody asked for the file, or when all that it held is in the stream's. At a
    /// clean exit.
    pub fn discard_unasked_file(&self) {
        let unasked = match self.output {
            Some(_) => self
                .output_finished
                .load(std::sync::atomic::Ordering::Relaxed),
            None => self.settings.out.is_none(),
        };
        if unasked && self.control.barrier().is_some() {
            remove_file(&self.settings, self.region.path());
        }
    }
}

/// Removes a region's name, if it has one.
fn remove_file(settings: &Settings, path: &Path) {
    if settings.backing == Backing::Dir {
        let _ = std::fs::remove_file(path);
    }
}

fn header(settings: &Settings, segment_bytes: u64, vendor: &Vendor, identity: &Identity) -> Header {
    let mut version = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || version.next().unwrap_or(0);
    Header {
        version: VERSION,
        features_may_ignore: 0,
        features_must_understand: 0,
        region_bytes: 0,
        lane_table_offset: 0,
        // One more, for the facts of threads without a lane.
        lane_count: (settings.lane_count + 1).min(LANE_COUNT_MAX) as u32,
        segment_table_offset: 0,
        segment_count: (settings.budget_bytes / segment_bytes) as u32,
        segments_offset: 0,
        segment_bytes: segment_bytes as u32,
        mode: settings.mode,
        simulated: vendor.simulated,
        pid: identity.pid,
        parent_pid: identity.parent_pid,
        rank: settings.rank,
        uid: identity.uid,
        process_start_ns: identity.start_ns,
        host_hash: identity.host_hash,
        pid_namespace: identity.pid_namespace,
        boot_id: identity.boot_id,
        created_unix_ns: clock::kernel_ns(libc::CLOCK_REALTIME),
        clock: u32::from(!clock::is_tsc()),
        vendor: vendor.number,
        ticks_per_second: clock::ticks_per_second(),
        runtime_version: next() * 10_000 + next() * 100 + next(),
        sdk_version: vendor.version,
        program: identity.program.clone(),
        host: identity.host.clone(),
        sdk: vendor.description.clone(),
    }
}

/// The process's key: runtimes of tests share it, since there are few.
fn thread_key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is valid for writing; the destructor lives as long as the process.
        let failed = unsafe { libc::pthread_key_create(&mut key, Some(thread_ended)) };
        if failed != 0 {
            return None;
        }
        if key >= KEYS_WITHOUT_ALLOCATION {
            // SAFETY: the key just made.
            unsafe { libc::pthread_key_delete(key) };
            return None;
        }
        Some(key)
    })
}

/// Has a forked child find zeros in the control page. Where the kernel refuses (before Linux 4.14), an atfork handler
/// does the same a moment later.
fn wipe_on_fork(control: &'static Control) {
    let page = std::ptr::from_ref(control)
        .cast_mut()
        .cast::<libc::c_void>();
    // SAFETY: the page is whole, private and anonymous (a page-aligned static of zeros, or a leaked allocation of one);
    // the advice changes nothing in this process.
    let refused = unsafe { libc::madvise(page, size_of::<Control>(), libc::MADV_WIPEONFORK) } != 0;
    if refused {
        extern "C" fn disarm() {
            control::process().armed.store(0, Ordering::Relaxed);
            control::process().session.store(0, Ordering::Relaxed);
        }
        // SAFETY: the handler only stores to two words of a static.
        unsafe { libc::pthread_atfork(None, None, Some(disarm)) };
    }
}

/// Where a live region of this process would lie, unless asked otherwise.
pub fn default_path(settings: &Settings) -> PathBuf {
    settings.dir.join(format!("{}.slt", std::process::id()))
}
