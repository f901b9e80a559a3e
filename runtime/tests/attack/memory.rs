//! Goal: no event function allocates, frees or makes a system call, from the claim of a lane on (which makes one: gettid);
//! memory does not grow from session to session. Method: a global allocator that aborts the process when a thread inside
//! an event function comes to it; the kernel's syscall user dispatch, which turns any system call into SIGSYS.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

use strandline::events::{
    AgentFact, CodeObjectFact, CopyEvent, DispatchDone, DispatchIssue, Ids, KernelFact, MemoryEvent,
};
use strandline::record::{Kind, StreamKind, label};
use strandline::{Runtime, Token};

use crate::harness::{self, File, Outcome};
use crate::work::{self, LAUNCH};

pub struct Watch;

thread_local! {
    static INSIDE_EVENT: Cell<bool> = const { Cell::new(false) };
}

fn check(what: &'static [u8]) {
    if INSIDE_EVENT.get() {
        SELECTOR.store(0, Ordering::SeqCst);
        // SAFETY: writes a static and ends the process; nothing here allocates.
        unsafe {
            libc::write(2, what.as_ptr().cast(), what.len());
            libc::_exit(81);
        }
    }
}

// SAFETY: hands everything on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(b"an event function allocated\n");
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        check(b"an event function freed\n");
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(b"an event function reallocated\n");
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// 0 lets system calls through, 1 stops the thread at the next one.
static SELECTOR: AtomicU8 = AtomicU8::new(0);

/// Runs an event function under watch.
fn watched<T>(event: impl FnOnce() -> T) -> T {
    INSIDE_EVENT.set(true);
    SELECTOR.store(1, Ordering::SeqCst);
    let value = event();
    SELECTOR.store(0, Ordering::SeqCst);
    INSIDE_EVENT.set(false);
    value
}

extern "C" fn system_call(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    SELECTOR.store(0, Ordering::SeqCst);
    // siginfo's _sigsys: the address of the call, then its number, after the three ints of the head and their padding.
    // SAFETY: the kernel passes a valid siginfo to a handler that asked for it.
    let number = unsafe { info.cast::<c_int>().add(6).read() };
    let mut text = *b"an event function made system call 000\n";
    for (place, power) in [(35, 100), (36, 10), (37, 1)] {
        text[place] = b'0' + (number / power % 10) as u8;
    }
    // SAFETY: writes a local and ends the process.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(82);
    }
}

/// Has this thread stop at system calls while `SELECTOR` is 1. False where the kernel can't.
fn dispatch_system_calls() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
    // SAFETY: plain data; the handler and the selector live as long as the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = system_call as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut());
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, SELECTOR.as_ptr()) == 0
    }
}

pub fn no_event_allocates_or_calls_the_kernel() -> Outcome {
    let file = File::new();
    let (status, text) = harness::run(&mut harness::child("watched", file.path()));
    assert!(status.success(), "{status}: {text}");
    let found = work::check_all_but(
        &strandline::Trace::open(file.path()).expect("the region"),
        &work::ALL_KINDS,
    );
    assert!(found.counts.is_empty());
    match text.as_str() {
        "" => Outcome::Passed,
        why => Outcome::Skipped(format!("the part about system calls: {}", why.trim())),
    }
}

/// Calls every event function once, each under watch; `at` makes names and handles new.
fn every_event(runtime: &Runtime, at: u64) {
    let ids = Ids {
        correlation: at,
        ..Ids::default()
    };
    let name: Vec<u8> = format!("name {at} ")
        .repeat(1 + at as usize % 300)
        .into_bytes();
    let issue = DispatchIssue {
        ids,
        dispatch_id: at,
        queue: at % 7,
        ..DispatchIssue::default()
    };
    let done = DispatchDone {
        ids,
        dispatch_id: at,
        ..DispatchDone::default()
    };
    let copy = CopyEvent {
        ids,
        ..CopyEvent::default()
    };
    let memory = MemoryEvent {
        ids,
        ..MemoryEvent::default()
    };
    let agent = AgentFact {
        handle: at,
        name: &name,
        ..AgentFact::default()
    };
    let object = CodeObjectFact {
        id: at,
        uri: &name,
        ..CodeObjectFact::default()
    };
    let kernel = KernelFact {
        kernel_id: at,
        name: &name,
        ..KernelFact::default()
    };
    let stream = watched(|| runtime.stream(at, StreamKind::Seen, 0));
    let outer: Token = watched(|| runtime.api_enter(LAUNCH, ids, stream));
    let call = watched(|| runtime.api_enter(LAUNCH, ids, 0));
    let dispatch = watched(|| runtime.dispatch_issue(&issue));
    let copied = watched(|| runtime.copy_issue(&copy));
    watched(|| runtime.api_exit(call, LAUNCH, ids, 0, Some(&[0; 8])));
    watched(|| runtime.api_exit(outer, LAUNCH, ids, 0, None));
    watched(|| runtime.dispatch_done(dispatch, &done));
    watched(|| runtime.copy_done(copied, &copy));
    let token = watched(|| runtime.token(1));
    watched(|| runtime.alloc_done(token, &memory));
    watched(|| runtime.scratch_done(token, &memory));
    watched(|| runtime.range_push(ids, &name));
    watched(|| runtime.range_pop(ids));
    for kind in [Kind::Mark, Kind::RangeStart, Kind::RangeStop] {
        watched(|| runtime.mark(kind, ids, at, &name));
    }
    watched(|| runtime.intern(&name));
    watched(|| runtime.fact(Kind::Metadata, 0, &[at, at]));
    watched(|| runtime.agent(&agent));
    watched(|| {
        runtime.operation(
            strandline::events::Operation {
                domain: 1,
                number: at as u16,
            },
            &name,
        )
    });
    watched(|| runtime.stream_created(at));
    watched(|| runtime.stream_destroyed(at));
    watched(|| runtime.code_object(&object));
    watched(|| runtime.code_object_unloaded(at));
    watched(|| runtime.kernel(&kernel));
    watched(|| runtime.metadata(&name, &name));
    watched(|| runtime.thread_name(at as u32, &name));
    watched(|| runtime.label(label::STREAM, at, &name));
    watched(|| runtime.retire(at));
    watched(|| runtime.set_sdk_dropped(0));
}

pub fn watched_body() -> i32 {
    let runtime = work::runtime(|settings| settings.budget_bytes = 32 << 20);
    let dispatches = dispatch_system_calls();
    if !dispatches {
        println!("no syscall user dispatch in this kernel");
    }
    // The claim: one gettid, so only the allocator watches.
    INSIDE_EVENT.set(true);
    runtime.fact(Kind::Metadata, 0, &[1, 1]);
    INSIDE_EVENT.set(false);
    // Without a session, with one, across segments, in a full region, and after the stop.
    every_event(runtime, 1);
    let session = watched(|| runtime.session_open()).expect("a session");
    for at in 2..400 {
        every_event(runtime, at);
    }
    // Fills the region, and goes on.
    let ids = Ids::default();
    for _ in 0..600_000 {
        watched(|| runtime.mark(Kind::Mark, ids, 0, b""));
    }
    for at in 400..420 {
        every_event(runtime, at);
    }
    watched(|| runtime.session_close(session)).expect("a close");
    every_event(runtime, 500);
    assert!(
        work::lost(
            &runtime.trace().expect("a trace"),
            strandline::loss::LossReason::NoSegment
        ) > 0,
        "not full"
    );
    // The alarm rings: an event function that allocates, and one that makes a system call, would have been seen.
    let seen = |code: i32, body: fn()| {
        // SAFETY: the child runs `body` and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            dispatch_system_calls();
            // SAFETY: plain system calls.
            unsafe { libc::close(2) };
            watched(body);
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: as above.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), code);
    };
    seen(81, || drop(std::hint::black_box(Box::new(1))));
    if dispatches {
        // SAFETY: no preconditions.
        seen(82, || _ = unsafe { libc::syscall(libc::SYS_gettid) });
    }
    0
}
