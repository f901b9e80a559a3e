//! Goal: an append from a signal handler that interrupts an append of the same thread is refused and counted, and hurts
//! nothing; so is everything that comes after a jump out of a handler, until the lane notices. Method: timers and other
//! threads interrupt a thread that appends; a tracer interrupts it at every instruction of five kinds of append.

use std::ffi::{c_int, c_void};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use strandline::events::Ids;
use strandline::limits::CELL_BYTES;
use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::{Runtime, Trace};

use crate::harness::{self, File, Outcome};
use crate::work::{self, Random, number};

const LONG: Duration = Duration::from_secs(60);

static HANDLED: AtomicU64 = AtomicU64::new(0);

/// What handlers append: 3 records.
fn append_in_handler() {
    let runtime = Runtime::global().expect("the runtime");
    let at = HANDLED.fetch_add(1, Ordering::Relaxed) + 1;
    work::pair_known(runtime, number(2, at));
    work::mark(runtime, number(3, at));
}

extern "C" fn handler(_: c_int) {
    append_in_handler();
}

fn on(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: plain data; the handler lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Interrupts this thread every `us` microseconds with SIGALRM.
fn every(us: i64) {
    let interval = libc::timeval {
        tv_sec: 0,
        tv_usec: us,
    };
    let timer = libc::itimerval {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: plain data; a process-wide timer.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

fn block(signal: c_int) {
    // SAFETY: plain data, this thread's own mask.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

pub fn a_storm() -> Outcome {
    let file = File::new();
    let (status, text) = harness::run(&mut harness::child("storm", file.path()));
    assert!(status.success(), "{status}: {text}");
    print!("{text}");
    Outcome::Passed
}

const STORM: u64 = 120_000;

pub fn storm_body() -> i32 {
    let runtime = work::runtime(|settings| settings.budget_bytes = 512 << 20);
    work::keep_house(runtime);
    work::announce_all(runtime, 1, STORM);
    work::announce_all(runtime, 2, 400_000);
    let session = runtime.session_open().expect("a session");
    on(libc::SIGUSR1, handler as *const () as usize, 0);
    // SAFETY: no preconditions.
    let me = unsafe { libc::pthread_self() };
    let helper = std::thread::spawn(move || {
        block(libc::SIGALRM);
        block(libc::SIGUSR1);
        while HANDLED.load(Ordering::Relaxed) < 350_000 && runtime.open_session() != 0 {
            // SAFETY: the main thread joins this one before it ends.
            unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
            for _ in 0..300 {
                std::hint::spin_loop();
            }
        }
    });
    // Another signal, that may interrupt the first one's handler, and itself.
    on(
        libc::SIGALRM,
        handler as *const () as usize,
        libc::SA_NODEFER,
    );
    every(50);
    for at in 1..=STORM {
        work::pair_known(runtime, number(1, at));
    }
    every(0);
    runtime.session_close(session).expect("a close");
    helper.join().expect("the helper");
    block(libc::SIGUSR1);
    let handled = HANDLED.load(Ordering::Relaxed);
    let end = runtime.session_stop(session, LONG, None).expect("books");
    let trace = runtime.trace().expect("a trace");
    let found = work::check(&trace, false);
    for kind in [Kind::Enqueue, Kind::Dispatch] {
        assert_eq!(
            found.count(kind, 1),
            STORM,
            "what was interrupted goes on: {kind:?}"
        );
    }
    // A handler that runs after the close has no session; before it, all that it offered is there or is counted.
    let there =
        found.count(Kind::Enqueue, 2) + found.count(Kind::Dispatch, 2) + found.count(Kind::Mark, 3);
    let refused = end.lost.get(LossReason::Reentry);
    assert!(
        there + refused <= 3 * handled && there + refused + 3 * 1_000 > 3 * handled,
        "{there} {refused} {handled}"
    );
    assert!(refused > 0, "no handler ever met an append");
    assert_eq!(end.lost.total(), refused);
    let sum = end.dispatches.recorded + end.dispatches.missing();
    assert_eq!(end.dispatches.issued, sum);
    println!("  {handled} handlers, {there} records from them, {refused} refused");
    0
}

pub fn a_jump_out_of_a_handler() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Outcome::Skipped("the jump is written for x86-64".to_owned());
    }
    let file = File::new();
    let (status, text) = harness::run(&mut harness::child("jump", file.path()));
    assert!(status.success(), "{status}: {text}");
    print!("{text}");
    Outcome::Passed
}

const JUMPS: u64 = 300;
static LANDING: AtomicU64 = AtomicU64::new(0);
static LANDED: AtomicU64 = AtomicU64::new(0);
static OFFERED: AtomicU64 = AtomicU64::new(0);
static AFTER: AtomicU64 = AtomicU64::new(0);
static DEEP: AtomicU64 = AtomicU64::new(0);

/// As siglongjmp to where `jumps` called `victim`: the interrupted frames are never returned to.
#[cfg(target_arch = "x86_64")]
extern "C" fn jump(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid context to a handler that asked for it (SA_SIGINFO).
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_RSP as usize] = LANDING.load(Ordering::Relaxed) as i64;
    registers[libc::REG_RIP as usize] = LANDED.load(Ordering::Relaxed) as i64;
}

#[cfg(not(target_arch = "x86_64"))]
extern "C" fn jump(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {}

/// Appends until a handler jumps away. Its frame is large, so that whoever appends after the jump stands above, however
/// much the compiler has put into the frame of `landed`.
#[inline(never)]
fn victim(runtime: &'static Runtime) {
    let room = std::hint::black_box([0u8; 64 * 1024]);
    loop {
        let at = OFFERED.fetch_add(1, Ordering::Relaxed) + 1;
        work::mark(runtime, number(1, at));
        std::hint::black_box(&room);
    }
}

/// Appends from far below where the victim was.
#[inline(never)]
fn deep(runtime: &'static Runtime) {
    let room = std::hint::black_box([0u8; 256 * 1024]);
    let at = DEEP.fetch_add(1, Ordering::Relaxed) + 1;
    work::mark(runtime, number(3, at));
    std::hint::black_box(&room);
}

#[inline(never)]
fn jumps(runtime: &'static Runtime) -> ! {
    let here = 0u8;
    // Below this frame, aligned as after a call.
    let landing = (std::ptr::from_ref(std::hint::black_box(&here)) as u64 - 1024) & !15;
    LANDING.store(landing - 8, Ordering::Relaxed);
    every(300);
    victim(runtime);
    std::process::abort();
}

extern "C" fn landed() -> ! {
    every(0);
    let runtime = Runtime::global().expect("the runtime");
    // From below: if the jump left an append, this one is refused. From above: accepted again, for good.
    deep(runtime);
    let at = AFTER.fetch_add(1, Ordering::Relaxed) + 1;
    work::mark(runtime, number(2, at));
    deep(runtime);
    if at < JUMPS {
        jumps(runtime);
    }
    judge(runtime)
}

/// Not inlined: a large frame here must not become part of that of `landed`.
#[inline(never)]
fn judge(runtime: &'static Runtime) -> ! {
    let session = runtime.open_session();
    let end = runtime.session_stop(session, LONG, None).expect("books");
    let found = work::check(&runtime.trace().expect("a trace"), false);
    let refused = end.lost.get(LossReason::Reentry);
    let (offered, deep) = (
        OFFERED.load(Ordering::Relaxed),
        DEEP.load(Ordering::Relaxed),
    );
    assert_eq!(
        found.count(Kind::Mark, 2),
        JUMPS,
        "whoever stands above goes on"
    );
    let there = found.count(Kind::Mark, 1) + found.count(Kind::Mark, 3) + JUMPS;
    let all = offered + deep + JUMPS;
    // Each jump may have come just before its append was offered, or just after its record was published: then it is
    // counted as lost all the same.
    assert!(
        (all - JUMPS..=all + JUMPS).contains(&(there + refused)),
        "{there} {refused} {all}"
    );
    assert!(
        found.count(Kind::Mark, 3) >= JUMPS,
        "the second look from below comes after the lane has noticed"
    );
    assert!(refused > 0, "no jump ever left an append");
    println!(
        "  {JUMPS} jumps, {} left an append",
        deep - found.count(Kind::Mark, 3)
    );
    std::process::exit(0)
}

pub fn jump_body() -> i32 {
    let runtime = work::runtime(|settings| {
        settings.budget_bytes = 512 << 20;
        // The victim appends as fast as it can: no record may be lost for want of memory.
        settings.prefault = true;
    });
    work::keep_house(runtime);
    runtime.session_open().expect("a session");
    // The jump makes the kernel return to another place, with the mask that the interrupted code had.
    LANDED.store(landed as *const () as u64, Ordering::Relaxed);
    on(libc::SIGALRM, jump as *const () as usize, libc::SA_SIGINFO);
    jumps(runtime)
}

/// Five kinds of append, each between two breakpoints.
const KINDS: [&str; 5] = [
    "the first, which claims a lane",
    "an API call, one cell",
    "a dispatch, two cells",
    "a mark with a new name",
    "a dispatch that needs another segment",
];

pub fn at_every_instruction() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Outcome::Skipped("breakpoints are written for x86-64".to_owned());
    }
    let file = File::new();
    let Some(tracer) = Tracer::start("stepped", &file) else {
        return Outcome::Skipped("ptrace is not allowed here".to_owned());
    };
    for kind in KINDS {
        let stop = tracer.go(libc::PTRACE_CONT, 0);
        assert!(matches!(stop, Stop::Breakpoint), "{kind}: {stop:?}");
        let mut instructions = 0u64;
        loop {
            let here = tracer.registers();
            // The handler runs here, and says with a breakpoint that it is done; then back to the same place.
            let stop = tracer.go(libc::PTRACE_CONT, libc::SIGUSR1);
            assert!(
                matches!(stop, Stop::Breakpoint),
                "{kind}, instruction {instructions}: {stop:?}"
            );
            loop {
                let stop = tracer.go(libc::PTRACE_SINGLESTEP, 0);
                assert!(
                    matches!(stop, Stop::Step),
                    "{kind}, instruction {instructions}: {stop:?}"
                );
                let now = tracer.registers();
                if (now.rip, now.rsp) == (here.rip, here.rsp) {
                    break;
                }
            }
            match tracer.go(libc::PTRACE_SINGLESTEP, 0) {
                Stop::Step => instructions += 1,
                Stop::Breakpoint => break,
                stop => panic!("{kind}, instruction {instructions}: {stop:?}"),
            }
        }
        println!("  {instructions} instructions: {kind}");
    }
    let stop = tracer.go(libc::PTRACE_CONT, 0);
    assert!(matches!(stop, Stop::Ended(0)), "{stop:?}");
    let trace = Trace::open(file.path()).expect("the region");
    work::check_all_but(&trace, &[Kind::RangeStart]);
    Outcome::Passed
}

const SAMPLES: u64 = 30;

/// As `a_jump_out_of_a_handler`, but at chosen instructions of a dispatch that needs another segment, where a cursor is
/// halfway from one segment to the next.
pub fn a_jump_out_of_a_segment_change() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Outcome::Skipped("breakpoints are written for x86-64".to_owned());
    }
    let file = File::new();
    let Some(tracer) = Tracer::start("jumps between segments", &file) else {
        return Outcome::Skipped("ptrace is not allowed here".to_owned());
    };
    let mut random = Random(u64::from(std::process::id()));
    for sample in 0..SAMPLES {
        let stop = tracer.go(libc::PTRACE_CONT, 0);
        assert!(
            matches!(stop, Stop::Breakpoint),
            "sample {sample}: {stop:?}"
        );
        // A completion has about this many instructions in a debug build; beyond them the next breakpoint comes, and the
        // handler jumps from there.
        for _ in 0..random.below(8_000) {
            match tracer.go(libc::PTRACE_SINGLESTEP, 0) {
                Stop::Step => {}
                Stop::Breakpoint => break,
                stop => panic!("sample {sample}: {stop:?}"),
            }
        }
        let stop = tracer.go(libc::PTRACE_CONT, libc::SIGUSR2);
        assert!(
            matches!(stop, Stop::Breakpoint),
            "sample {sample}: {stop:?}"
        );
    }
    let stop = tracer.go(libc::PTRACE_CONT, 0);
    assert!(matches!(stop, Stop::Ended(0)), "{stop:?}");
    work::check(&Trace::open(file.path()).expect("the region"), false);
    Outcome::Passed
}

/// Fills the open segment, then appends a completion, which needs another one, between two breakpoints; the tracer has a
/// handler jump away from in between.
#[inline(never)]
fn segment_change(runtime: &'static Runtime, sample: u64) {
    let room = std::hint::black_box([0u8; 16 * 1024]);
    fill_segment(runtime, 10 + sample);
    let token = work::issue_known(runtime, number(1, sample));
    breakpoint();
    work::done(runtime, token, number(1, sample));
    breakpoint();
    std::hint::black_box(&room);
    // The breakpoint that ends the sample comes after the jump, in `jumped_between`.
    loop {
        std::hint::spin_loop();
    }
}

static SAMPLE: AtomicU64 = AtomicU64::new(0);

fn next_sample(runtime: &'static Runtime) -> ! {
    let here = 0u8;
    let landing = (std::ptr::from_ref(std::hint::black_box(&here)) as u64 - 1024) & !15;
    LANDING.store(landing - 8, Ordering::Relaxed);
    segment_change(runtime, SAMPLE.fetch_add(1, Ordering::Relaxed) + 1);
    std::process::abort();
}

extern "C" fn jumped_between() -> ! {
    let runtime = Runtime::global().expect("the runtime");
    let sample = SAMPLE.load(Ordering::Relaxed);
    // Whole segments of them, so that a cursor that is wrong would show.
    for at in 1..=1_200 {
        work::mark(runtime, number(1_000 + sample, at));
    }
    breakpoint();
    if sample < SAMPLES {
        next_sample(runtime);
    }
    let session = runtime.open_session();
    let end = runtime
        .session_stop(session, Duration::ZERO, None)
        .expect("books");
    let found = work::check(&runtime.trace().expect("a trace"), false);
    for sample in 1..=SAMPLES {
        assert_eq!(
            found.count(Kind::Mark, 1_000 + sample),
            1_200,
            "sample {sample}"
        );
    }
    let done = found.count(Kind::Dispatch, 1);
    assert_eq!(
        (end.dispatches.issued, found.count(Kind::Enqueue, 1)),
        (SAMPLES, SAMPLES)
    );
    assert_eq!(end.lost.total(), end.lost.get(LossReason::Reentry));
    println!("  {SAMPLES} jumps, after {done} of them the completion was there");
    std::process::exit(0)
}

pub fn jumps_between_body() -> i32 {
    let runtime = work::runtime(|settings| settings.budget_bytes = 256 << 20);
    work::keep_house(runtime);
    work::announce_all(runtime, 1, SAMPLES);
    runtime.session_open().expect("a session");
    LANDED.store(jumped_between as *const () as u64, Ordering::Relaxed);
    on(libc::SIGUSR2, jump as *const () as usize, libc::SA_SIGINFO);
    next_sample(runtime)
}

/// Leaves one cell free in the open segment: of the next two records the second one needs another segment.
fn fill_segment(runtime: &Runtime, source: u64) {
    work::mark(runtime, number(source, 1));
    let trace = runtime.trace().expect("a trace");
    let newest = trace
        .entries()
        .filter(|entry| entry.record.word(3) >> 32 == source)
        .last()
        .expect("the mark");
    let header = trace.header();
    let segment_cells = header.segment_cells() as u64;
    let cells_used =
        (newest.offset - header.segments_offset) / CELL_BYTES as u64 % segment_cells + 1;
    for at in 0..(2 * segment_cells - 1 - cells_used) % segment_cells {
        work::mark(runtime, number(source, 2 + at));
    }
}

#[derive(Debug)]
enum Stop {
    Step,
    Breakpoint,
    #[allow(dead_code, reason = "printed when a test fails")]
    Signal(c_int),
    Ended(c_int),
}

struct Tracer {
    child: libc::pid_t,
}

impl Tracer {
    /// Starts a child that is traced; `None` where that is not allowed.
    fn start(name: &str, file: &File) -> Option<Self> {
        let mut command = harness::child(name, file.path());
        command.stdin(Stdio::null());
        // SAFETY: one system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                    libc::_exit(99);
                }
                Ok(())
            });
        }
        #[allow(
            clippy::zombie_processes,
            reason = "the tracer waits for it, stop by stop"
        )]
        let child = command.spawn().expect("a child");
        let tracer = Self {
            child: child.id() as libc::pid_t,
        };
        // The first stop is that of exec.
        match tracer.wait() {
            Stop::Ended(99) => None,
            _ => Some(tracer),
        }
    }

    fn wait(&self) -> Stop {
        let mut status = 0;
        // SAFETY: waits for this process's own child.
        let waited = unsafe { libc::waitpid(self.child, &mut status, 0) };
        assert_eq!(waited, self.child);
        if libc::WIFEXITED(status) {
            return Stop::Ended(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Stop::Ended(-libc::WTERMSIG(status));
        }
        let signal = libc::WSTOPSIG(status);
        if signal != libc::SIGTRAP {
            return Stop::Signal(signal);
        }
        // SAFETY: plain data, valid for writing; the child is stopped.
        let code = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETSIGINFO, self.child, 0, &mut info);
            info.si_code
        };
        // SI_KERNEL: int3. TRAP_TRACE and TRAP_BRKPT: a step, also one into or out of a handler.
        if code == 0x80 {
            Stop::Breakpoint
        } else {
            Stop::Step
        }
    }

    fn go(&self, how: libc::c_uint, signal: c_int) -> Stop {
        // SAFETY: the child is stopped.
        assert_eq!(unsafe { libc::ptrace(how, self.child, 0, signal) }, 0);
        self.wait()
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: plain data, valid for writing; the child is stopped.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            assert_eq!(
                libc::ptrace(libc::PTRACE_GETREGS, self.child, 0, &mut registers),
                0
            );
            registers
        }
    }
}

/// Stops for the tracer.
#[inline(always)]
fn breakpoint() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a trap that the tracer catches.
    unsafe {
        std::arch::asm!("int3");
    }
}

extern "C" fn stepped_handler(_: c_int) {
    append_in_handler();
    breakpoint();
}

pub fn stepped_body() -> i32 {
    let runtime = work::runtime(|settings| settings.budget_bytes = 256 << 20);
    // Facts come from another thread, so that this one has no lane yet.
    std::thread::spawn(move || {
        work::announce_all(runtime, 1, 2_000);
        work::announce_all(runtime, 2, 100_000);
    })
    .join()
    .expect("a thread");
    let session = std::thread::spawn(move || runtime.session_open())
        .join()
        .expect("a thread")
        .expect("a session");
    on(libc::SIGUSR1, stepped_handler as *const () as usize, 0);
    let ids = Ids::default();
    let name = "a new name".repeat(6);
    let mut at = 0;
    let mut next = || {
        at += 1;
        number(1, at)
    };

    breakpoint();
    work::pair_known(runtime, next());
    breakpoint();
    let call_number = next();
    breakpoint();
    let call = work::api_enter(runtime, call_number);
    work::api_exit(runtime, call, call_number);
    breakpoint();
    let token = work::issue_known(runtime, call_number);
    breakpoint();
    work::done(runtime, token, call_number);
    breakpoint();
    breakpoint();
    runtime.mark(Kind::RangeStart, ids, 7, name.as_bytes());
    breakpoint();
    fill_segment(runtime, 4);
    breakpoint();
    let token = work::issue_known(runtime, number(1, 1_000));
    work::done(runtime, token, number(1, 1_000));
    breakpoint();

    let handled = HANDLED.load(Ordering::Relaxed);
    let end = runtime.session_stop(session, LONG, None).expect("books");
    let trace = runtime.trace().expect("a trace");
    let mut kinds = std::collections::BTreeMap::new();
    for entry in trace.entries() {
        *kinds
            .entry((
                entry.record.kind().expect("a kind"),
                entry.record.correlation_id() >> 32,
            ))
            .or_insert(0u64) += 1;
    }
    let found = work::check_all_but(&trace, &[Kind::RangeStart]);
    let there =
        found.count(Kind::Enqueue, 2) + found.count(Kind::Dispatch, 2) + found.count(Kind::Mark, 3);
    let refused = end.lost.get(LossReason::Reentry);
    assert_eq!(there + refused, 3 * handled, "{kinds:?}");
    assert!(refused > 0 && there > 0);
    assert_eq!(end.lost.total(), refused);
    assert_eq!(
        trace.facts().text(strandline::hash::bytes(name.as_bytes())),
        name
    );
    assert_eq!(
        (
            found.count(Kind::Enqueue, 1),
            found.count(Kind::Dispatch, 1),
            found.count(Kind::Api, 1)
        ),
        (3, 3, 1)
    );
    println!(
        "  {handled} handlers, {refused} of {} appends refused",
        3 * handled
    );
    0
}
