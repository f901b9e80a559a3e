//! Plays a recording through private functions of the stand-in HIP library.
//!
//! There is one thread for each recorded one, and one event at a time: the thread whose event is
//! next has the turn and the lock, sets the clock, and goes on until another thread's event comes.
//! Completions are handed to the runtime's handler threads by whoever has the turn.

use core::ffi::{c_char, c_void};
use std::ffi::CString;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::Speed;
use crate::graph::HIP_NAMES;
use crate::hip::{Library, table};

use super::{Action, Recording};

/// Callback kind HIP_RUNTIME_API.
const KIND_RUNTIME: u32 = 5;

/// As in the stand-in.
#[repr(C)]
pub(crate) struct RecordedKernel {
    name: *const c_char,
    private_segment: u32,
    group_segment: u32,
}

/// As in the stand-in.
#[repr(C)]
pub(crate) struct RecordedDispatch {
    kernel: *mut c_void,
    stream: *mut c_void,
    queue_id: u64,
    start_ns: u64,
    end_ns: u64,
    gpu: u32,
    grid: [u32; 3],
    workgroup: [u32; 3],
    private_segment: u32,
    group_segment: u32,
}

/// As in the stand-in.
#[repr(C)]
pub(crate) struct RecordedCopy {
    stream: *mut c_void,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    dst: u64,
    src: u64,
    direction: i32,
    gpu: u32,
}

table! {
    /// The private functions.
    Functions {
        begin: c"rocsim_replay_begin" as extern "C" fn(u64) -> bool,
        set_clock: c"rocsim_set_clock" as extern "C" fn(u64),
        set_thread: c"rocsim_set_thread" as extern "C" fn(u64),
        load: c"rocsim_load" as unsafe extern "C" fn(u32, *const RecordedKernel, usize, *mut *mut c_void),
        stream: c"rocsim_stream" as extern "C" fn(u32) -> *mut c_void,
        api_enter: c"rocsim_api_enter" as unsafe extern "C" fn(u32, i32, *const u64) -> *mut c_void,
        api_exit: c"rocsim_api_exit" as unsafe extern "C" fn(*mut c_void, i32),
        dispatch: c"rocsim_dispatch" as unsafe extern "C" fn(*const RecordedDispatch) -> *mut c_void,
        copy: c"rocsim_copy" as unsafe extern "C" fn(*const RecordedCopy) -> *mut c_void,
        complete: c"rocsim_complete" as unsafe extern "C" fn(*mut c_void),
    }
}

/// What moves while a recording is played; under the lock.
struct State {
    /// Index of the next event.
    next: usize,
    clock_ns: u64,
    /// Open calls of each thread, innermost last; as addresses.
    frames: Vec<Vec<usize>>,
    /// Dispatches and copies on their way, as addresses; 0 = not traced.
    dispatches: Vec<usize>,
    copies: Vec<usize>,
}

/// What stays.
struct Player<'a> {
    recording: &'a Recording,
    functions: Functions,
    /// Handles of kernels and streams, as addresses.
    kernels: Vec<usize>,
    streams: Vec<usize>,
    /// Thread of each event: that of the event before for completions.
    threads: Vec<usize>,
    speed: Speed,
    start: Instant,
    start_ns: u64,
}

/// Plays it. True = a tool was there.
pub(super) fn play(recording: &Recording, speed: Speed) -> Result<bool, String> {
    let (library, name) = Library::find(&HIP_NAMES)?;
    let functions = Functions::of(library)
        .map_err(|problem| format!("{name}: {problem}: a replay needs the stand-in HIP library"))?;
    eprintln!("sim: HIP from {name} (stand-in, no GPU)");
    let start_ns = recording.first_ns();
    let traced = (functions.begin)(start_ns.saturating_sub(1));
    let mut kernels = Vec::new();
    for object in &recording.code_objects {
        let names: Result<Vec<CString>, _> = object
            .kernels
            .iter()
            .map(|kernel| CString::new(kernel.name.as_str()))
            .collect();
        let names = names.map_err(|_| "a kernel name with a NUL".to_owned())?;
        let list: Vec<RecordedKernel> = object
            .kernels
            .iter()
            .zip(&names)
            .map(|(kernel, name)| RecordedKernel {
                name: name.as_ptr(),
                private_segment: kernel.private_segment,
                group_segment: kernel.group_segment,
            })
            .collect();
        let mut out = vec![core::ptr::null_mut(); list.len()];
        // SAFETY: the names live across the call, and `out` has room for as many handles.
        unsafe { (functions.load)(object.gpu, list.as_ptr(), list.len(), out.as_mut_ptr()) };
        kernels.extend(out.into_iter().map(|handle| handle as usize));
    }
    let streams = recording
        .streams
        .iter()
        .map(|stream| match stream.number {
            0 => 0,
            _ => (functions.stream)(stream.gpu) as usize,
        })
        .collect();
    let mut threads = Vec::with_capacity(recording.events.len());
    for event in &recording.events {
        let thread = match event.thread {
            usize::MAX => threads.last().copied().unwrap_or(0),
            thread => thread,
        };
        threads.push(thread);
    }
    let count = recording.threads.len().max(1);
    let player = Player {
        recording,
        functions,
        kernels,
        streams,
        threads,
        speed,
        start: Instant::now(),
        start_ns,
    };
    let state = Mutex::new(State {
        next: 0,
        clock_ns: 0,
        frames: vec![Vec::new(); count],
        dispatches: vec![0; recording.dispatches.len()],
        copies: vec![0; recording.copies.len()],
    });
    let turns: Vec<Condvar> = (0..count).map(|_| Condvar::new()).collect();
    std::thread::scope(|scope| {
        for thread in 0..count {
            let (player, state, turns) = (&player, &state, turns.as_slice());
            scope.spawn(move || player.run(thread, state, turns));
        }
    });
    Ok(traced)
}

impl Player<'_> {
    fn run(&self, thread: usize, state: &Mutex<State>, turns: &[Condvar]) {
        if let Some(Some(id)) = self.recording.threads.get(thread) {
            (self.functions.set_thread)(*id);
        }
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.threads.get(state.next) {
                None => break,
                Some(&turn) if turn == thread => self.step(thread, &mut state),
                Some(&turn) => {
                    turns[turn].notify_one();
                    state = turns[thread]
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        // The others wait for a turn that will not come.
        for turn in turns {
            turn.notify_all();
        }
    }

    fn step(&self, thread: usize, state: &mut State) {
        let event = &self.recording.events[state.next];
        state.next += 1;
        if event.time_ns > state.clock_ns {
            if self.speed == Speed::Recorded {
                let due = Duration::from_nanos(event.time_ns - self.start_ns);
                std::thread::sleep(due.saturating_sub(self.start.elapsed()));
            }
            state.clock_ns = event.time_ns;
            (self.functions.set_clock)(event.time_ns);
        }
        match event.action {
            Action::Enter {
                op,
                mut args,
                stream,
            } => {
                if let Some((word, stream)) = stream {
                    args[word] = self.streams[stream] as u64;
                }
                // SAFETY: 11 words that live across the call.
                let frame = unsafe { (self.functions.api_enter)(KIND_RUNTIME, op, args.as_ptr()) };
                state.frames[thread].push(frame as usize);
            }
            Action::Exit => {
                if let Some(frame) = state.frames[thread].pop() {
                    // SAFETY: the innermost frame of this thread, given back once.
                    unsafe { (self.functions.api_exit)(frame as *mut c_void, 0) };
                }
            }
            Action::Dispatch(index) => state.dispatches[index] = self.dispatch(index),
            Action::Copy(index) => state.copies[index] = self.copy(index),
            Action::DispatchDone(index) => self.complete(&mut state.dispatches[index]),
            Action::CopyDone(index) => self.complete(&mut state.copies[index]),
        }
    }

    fn dispatch(&self, index: usize) -> usize {
        let dispatch = &self.recording.dispatches[index];
        let recorded = RecordedDispatch {
            kernel: self.kernels[dispatch.kernel] as *mut c_void,
            stream: self.streams[dispatch.stream] as *mut c_void,
            queue_id: dispatch.queue,
            start_ns: dispatch.start_ns,
            end_ns: dispatch.end_ns,
            gpu: dispatch.gpu,
            grid: dispatch.grid,
            workgroup: dispatch.workgroup,
            private_segment: dispatch.private_segment,
            group_segment: dispatch.group_segment,
        };
        // SAFETY: lives across the call; its handles are the stand-in's.
        unsafe { (self.functions.dispatch)(&raw const recorded) as usize }
    }

    fn copy(&self, index: usize) -> usize {
        let copy = &self.recording.copies[index];
        let recorded = RecordedCopy {
            stream: self.streams[copy.stream] as *mut c_void,
            start_ns: copy.start_ns,
            end_ns: copy.end_ns,
            bytes: copy.bytes,
            dst: copy.dst,
            src: copy.src,
            direction: copy.direction,
            gpu: copy.gpu,
        };
        // SAFETY: lives across the call; its stream is the stand-in's or null.
        unsafe { (self.functions.copy)(&raw const recorded) as usize }
    }

    fn complete(&self, pending: &mut usize) {
        let pending = core::mem::take(pending);
        // SAFETY: null or a handle that was not given back yet: it was just taken.
        unsafe { (self.functions.complete)(pending as *mut c_void) };
    }
}
