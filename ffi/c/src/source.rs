//! Bring your own source: a host that declares its agents, queues and names and appends its records itself.
//!
//! Appending is what the header promises: any thread, no lock, no allocation, no system call, except a thread's first
//! call, which claims a lane. Declaring copies its strings.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use strandline::events::{
    AgentFact, ApiArgs, CopyEvent, DispatchDone, DispatchIssue, Ids, KernelFact, MemoryEvent,
    Operation,
};
use strandline::header::Mode;
use strandline::limits::{
    BUDGET_BYTES_MAX, BUDGET_BYTES_MIN, CELL_WORDS, LANE_COUNT_MAX, is_segment_bytes,
};
use strandline::record::{Kind, StreamKind, label};
use strandline::settings::{Backing, ClockSource, Settings, Start};
use strandline::{Runtime, Status, Token, Vendor, clock, embed};
use strandline_rocprofiler::c_api::runtime;
use strandline_rocprofiler::{own, window};

use crate::abi::{
    SETTINGS_RANK, SETTINGS_SIMULATED, strandline_agent, strandline_api, strandline_copy,
    strandline_dispatch, strandline_kernel, strandline_memory, strandline_now_fn,
    strandline_settings,
};
use crate::border::{answer, argument, not_forked, out, text};

/// The environment's settings, with what the host says in their place; and what the source says of itself.
///
/// # Errors
/// [`Status::BadSetting`] for a bad value in the environment, [`Status::InvalidArgument`] for one of the host's.
///
/// # Safety
/// The strings in `given` are null or terminated.
pub unsafe fn settings(given: &strandline_settings) -> Result<(Settings, Vendor), Status> {
    let mut settings = own::environment().map_err(|_| Status::BadSetting)?;
    let path = |pointer: *const c_char| {
        // SAFETY: null or terminated, as the caller promises.
        unsafe { text(pointer) }.map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)))
    };
    if let Some(out) = path(given.out) {
        settings.out = Some(out);
    }
    if let Some(dir) = path(given.dir) {
        settings.dir = dir;
    }
    match given.mode {
        0 => {}
        1 => settings.mode = Mode::Window,
        2 => settings.mode = Mode::Flight,
        3 => settings.mode = Mode::Stream,
        _ => return Err(Status::InvalidArgument),
    }
    match given.start {
        0 => {}
        1 => settings.start = Start::Load,
        2 => settings.start = Start::Roctx,
        3 => settings.start = Start::Api,
        _ => return Err(Status::InvalidArgument),
    }
    if given.budget_bytes != 0 {
        if !(BUDGET_BYTES_MIN..=BUDGET_BYTES_MAX).contains(&given.budget_bytes) {
            return Err(Status::InvalidArgument);
        }
        settings.budget_bytes = given.budget_bytes;
    }
    if given.lane_count != 0 {
        if given.lane_count as usize > LANE_COUNT_MAX {
            return Err(Status::InvalidArgument);
        }
        settings.lane_count = given.lane_count as usize;
    }
    if given.stop_timeout_ns != 0 {
        settings.stop_timeout_ns = given.stop_timeout_ns;
    }
    if given.flags & !(SETTINGS_RANK | SETTINGS_SIMULATED) != 0
        || given.reserved != 0
        || given.reserved2 != 0
        || given.reserved3 != 0
    {
        return Err(Status::InvalidArgument);
    }
    if given.flags & SETTINGS_RANK != 0 {
        settings.rank = given.rank;
    }
    memory_and_clock(&mut settings, given)?;
    // SAFETY: null or terminated, as the caller promises.
    let name = unsafe { text(given.source_name) }.unwrap_or(b"a source of the program's own");
    let vendor = Vendor {
        number: 0,
        version: given.source_version,
        simulated: given.flags & SETTINGS_SIMULATED != 0,
        description: String::from_utf8_lossy(name).into_owned(),
    };
    Ok((settings, vendor))
}

/// What the host says of memory and of the clock of host times.
fn memory_and_clock(settings: &mut Settings, given: &strandline_settings) -> Result<(), Status> {
    if given.segment_bytes != 0 {
        if !is_segment_bytes(given.segment_bytes) {
            return Err(Status::InvalidArgument);
        }
        settings.segment_bytes = Some(given.segment_bytes);
    }
    // Too few segments: by the host's wish, or by the environment's for a budget that it did not know of.
    let refused = match given.segment_bytes {
        0 => Status::BadSetting,
        _ => Status::InvalidArgument,
    };
    settings.segment_size().map_err(|_| refused)?;
    for (given, setting) in [
        (given.prefault, &mut settings.prefault),
        (given.huge_pages, &mut settings.huge_pages),
        (given.lock, &mut settings.lock),
    ] {
        match given {
            0 => {}
            1 => *setting = true,
            2 => *setting = false,
            _ => return Err(Status::InvalidArgument),
        }
    }
    match given.backing {
        0 => {}
        1 => settings.backing = Backing::Dir,
        2 => settings.backing = Backing::Memfd,
        _ => return Err(Status::InvalidArgument),
    }
    match given.clock {
        0 => {}
        1 => settings.clock = ClockSource::Auto,
        2 => settings.clock = ClockSource::MonotonicRaw,
        _ => return Err(Status::InvalidArgument),
    }
    Ok(())
}

/// The host's clock, as a number.
static NOW: AtomicUsize = AtomicUsize::new(0);

fn now() -> u64 {
    match NOW.load(Ordering::Acquire) {
        0 => clock::kernel_ns(libc::CLOCK_BOOTTIME),
        now => {
            // SAFETY: only `strandline_init` stores here, a function of that type, which lives as long as the process.
            let now = unsafe { std::mem::transmute::<usize, unsafe extern "C" fn() -> u64>(now) };
            // SAFETY: the host promises that it may be called from any thread at any time.
            unsafe { now() }
        }
    }
}

/// Makes the runtime for a source of the program's own. Null settings: all as the environment says. Once in a process; not
/// together with rocprofiler-sdk. Registers strandline_shutdown for exit.
/// Errors: ALREADY_THERE, BAD_SETTING, NO_REGION; INVALID_ARGUMENT for a field that is out of its range.
///
/// # Safety
/// `given` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_init(given: *const strandline_settings) -> i32 {
    answer(|| {
        not_forked()?;
        let given = if given.is_null() {
            strandline_settings::default()
        } else {
            // SAFETY: as the caller promises.
            unsafe { argument(given) }?
        };
        // SAFETY: as the caller promises.
        let (settings, vendor) = unsafe { settings(&given) }?;
        set_clock(given.now_ns);
        let at_load = settings.start == Start::Load;
        let runtime = own::make(settings, &vendor)?;
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            extern "C" fn at_exit() {
                strandline_shutdown();
            }
            // SAFETY: the function lives as long as the process: the library is never unmapped.
            unsafe { libc::atexit(at_exit) };
        });
        if at_load {
            window::open(runtime)?;
        }
        Ok(())
    })
}

fn set_clock(given: strandline_now_fn) {
    if let Some(given) = given
        && Runtime::global().is_none()
    {
        NOW.store(given as usize, Ordering::Release);
        clock::set_vendor_now(now);
    }
}

/// Ends it: closes the open session and its books without waiting, and removes a region file that nobody named. Appending
/// stays safe and is refused. There is no second strandline_init. Errors: FINALIZING (again), NOT_READY.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_shutdown() -> i32 {
    answer(|| {
        not_forked()?;
        let runtime = runtime()?;
        if !own::is_own() {
            // The SDK finalizes it.
            return Err(Status::NotReady);
        }
        if runtime.is_finalizing() {
            return Err(Status::Finalizing);
        }
        runtime.finalize();
        let written = runtime.write_asked_file();
        runtime.discard_unasked_file();
        written.map(|_| ()).map_err(|_| Status::Output)
    })
}

// Declaring.

/// Declares an agent. Wait-free.
///
/// # Safety
/// `agent` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_declare_agent(agent: *const strandline_agent) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let agent = unsafe { argument(agent) }?;
        let [name, vendor, product, model] =
            // SAFETY: null or terminated, as the caller promises.
            [agent.name, agent.vendor, agent.product, agent.model].map(|pointer| unsafe { text(pointer) });
        runtime()?.agent(&AgentFact {
            handle: agent.handle,
            kind: agent.kind,
            node: agent.node,
            logical_node: agent.logical_node,
            type_index: agent.type_index,
            name: name.unwrap_or_default(),
            vendor: vendor.unwrap_or_default(),
            product: product.unwrap_or_default(),
            model: model.unwrap_or_default(),
            compute_units: agent.compute_units,
            wave_front: agent.wave_front,
            pci_domain: agent.pci_domain,
            pci_location: agent.pci_location,
            memory_bytes: agent.memory_bytes,
            uuid: agent.uuid,
            gfx_target: agent.gfx_target,
            simd_count: agent.simd_count,
        });
        Ok(())
    })
}

/// Declares a queue of an agent. Wait-free.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_declare_queue(queue: u64, agent: u64) -> i32 {
    answer(|| {
        runtime()?.fact(Kind::Queue, 0, &[queue, agent]);
        Ok(())
    })
}

/// Declares a kernel. Wait-free.
///
/// # Safety
/// `kernel` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_declare_kernel(kernel: *const strandline_kernel) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let kernel = unsafe { argument(kernel) }?;
        // SAFETY: null or terminated, as the caller promises.
        let name = unsafe { text(kernel.name) }.ok_or(Status::InvalidArgument)?;
        runtime()?.kernel(&KernelFact {
            kernel_id: kernel.kernel_id,
            code_object_id: kernel.code_object_id,
            name,
            kernel_object: kernel.kernel_object,
            group_bytes: kernel.group_bytes,
            private_bytes: kernel.private_bytes,
            sgpr_count: kernel.sgpr_count,
            vgpr_count: kernel.vgpr_count,
            accum_vgpr_count: kernel.accum_vgpr_count,
            kernarg_bytes: kernel.kernarg_bytes,
        });
        Ok(())
    })
}

fn operation(domain: u32, number: u32) -> Result<Operation, Status> {
    Ok(Operation {
        domain: u8::try_from(domain).map_err(|_| Status::InvalidArgument)?,
        number: u16::try_from(number).map_err(|_| Status::InvalidArgument)?,
    })
}

/// The name of an operation: domain 0 to 255, number 0 to 65535.
///
/// # Safety
/// `name` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_declare_operation(
    domain: u32,
    number: u32,
    name: *const c_char,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name) }.ok_or(Status::InvalidArgument)?;
        let operation = operation(domain, number)?;
        runtime()?.operation(operation, name);
        Ok(())
    })
}

/// The number of a stream (0: no room), for the `stream` of calls. `kind`: enum strandline_stream_kind; `thread` for
/// a thread's own default stream, else 0. The same handle gives the same number until strandline_stream_destroyed, or
/// until it is declared as created again.
///
/// # Safety
/// `stream` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_declare_stream(
    handle: u64,
    kind: u32,
    thread: u32,
    stream: *mut u32,
) -> i32 {
    answer(|| {
        if kind > StreamKind::PerThread as u32 || stream.is_null() {
            return Err(Status::InvalidArgument);
        }
        let runtime = runtime()?;
        let number = match StreamKind::from_u32(kind) {
            StreamKind::Created => runtime.stream_created(handle),
            kind => runtime.stream(handle, kind, thread),
        };
        // SAFETY: as the caller promises.
        unsafe { out(stream, number) }
    })
}

/// Says that a stream's handle stands for it no longer: declared again it is another stream. Wait-free.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_stream_destroyed(handle: u64) -> i32 {
    answer(|| {
        runtime()?.stream_destroyed(handle);
        Ok(())
    })
}

/// Names a thread by its id; 0 = the calling one.
///
/// # Safety
/// `name` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_name_thread(thread: u32, name: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name) }.ok_or(Status::InvalidArgument)?;
        let thread = match thread {
            // SAFETY: gettid has no preconditions.
            0 => unsafe { libc::syscall(libc::SYS_gettid) as u32 },
            thread => thread,
        };
        runtime()?.thread_name(thread, name);
        Ok(())
    })
}

/// Names an agent (handle), device (number) or stream (number): enum strandline_label_what.
///
/// # Safety
/// `name` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_label(what: u32, handle: u64, name: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name) }.ok_or(Status::InvalidArgument)?;
        if !(label::AGENT..=label::STREAM).contains(&what) {
            return Err(Status::InvalidArgument);
        }
        runtime()?.label(what, handle, name);
        Ok(())
    })
}

// Appending.

/// The runtime to append to. Whatever made it, an armed one takes appends; else why there is none.
#[inline]
fn appending() -> Result<&'static Runtime, Status> {
    match Runtime::global() {
        Some(runtime) if runtime.is_armed() => Ok(runtime),
        _ => runtime(),
    }
}

/// True for a right argument while no session is open: then a first call has nothing to do but to say so.
///
/// # Safety
/// `from` and `token` are null or valid as the header says.
#[inline(always)]
unsafe fn nothing_to_begin<T>(from: *const T, token: *mut u64) -> bool {
    if from.is_null() || token.is_null() || !embed::is_quiet() {
        return false;
    }
    // SAFETY: not null; every struct starts with its size, and the caller promises that it is readable.
    let bytes = unsafe { from.cast::<u64>().read_unaligned() };
    // SAFETY: not null, and valid as the caller promises.
    unsafe { token.write_unaligned(0) };
    bytes == size_of::<T>() as u64
}

/// True for a right argument of work that no session saw: then a last call has nothing to do.
///
/// # Safety
/// `from` is null or valid as the header says.
#[inline(always)]
unsafe fn nothing_to_end<T>(token: u64, from: *const T) -> bool {
    if token != 0 || from.is_null() || !embed::is_quiet() {
        return false;
    }
    // SAFETY: not null; every struct starts with its size, and the caller promises that it is readable.
    let bytes = unsafe { from.cast::<u64>().read_unaligned() };
    bytes == size_of::<T>() as u64
}

#[inline]
fn ids(correlation: u64, ancestor: u64, external: u64, thread: u32) -> Ids {
    Ids {
        correlation,
        ancestor,
        external: if external == 0 {
            embed::top(0).unwrap_or(0)
        } else {
            external
        },
        thread,
    }
}

/// A token that the caller hands back.
#[inline]
fn token_of(runtime: &Runtime, token: u64) -> Result<Token, Status> {
    let token = Token(token);
    if runtime.knows(token) {
        Ok(token)
    } else {
        Err(Status::InvalidArgument)
    }
}

/// A call begins on this thread. Calls nest; end each on its own thread.
///
/// # Safety
/// `call` and `token` are null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_api_enter(call: *const strandline_api, token: *mut u64) -> i32 {
    // SAFETY: as the caller promises.
    if unsafe { nothing_to_begin(call, token) } {
        return Status::Ok as i32;
    }
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(token, 0) }?;
        // SAFETY: as the caller promises.
        let call = unsafe { argument(call) }?;
        let operation = operation(call.domain, call.operation)?;
        let runtime = appending()?;
        let ids = ids(
            call.correlation_id,
            call.ancestor_id,
            call.external_id,
            call.thread,
        );
        let entered = runtime.api_enter(operation, ids, call.stream);
        if !entered.is_none() {
            runtime.external_ids(call.correlation_id);
        }
        // SAFETY: as the caller promises.
        unsafe { out(token, entered.0) }
    })
}

/// It ends: one record.
///
/// # Safety
/// `call` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_api_exit(token: u64, call: *const strandline_api) -> i32 {
    // SAFETY: as the caller promises.
    if unsafe { nothing_to_end(token, call) } {
        return Status::Ok as i32;
    }
    answer(|| {
        // SAFETY: as the caller promises.
        let call = unsafe { argument(call) }?;
        let operation = operation(call.domain, call.operation)?;
        let mut arguments = None;
        if !call.arguments.is_null() {
            let mut words: ApiArgs = [0; CELL_WORDS];
            // SAFETY: the caller promises 8 readable words.
            unsafe {
                std::ptr::copy_nonoverlapping(call.arguments, words.as_mut_ptr(), CELL_WORDS);
            }
            arguments = Some(words);
        }
        let ids = ids(
            call.correlation_id,
            call.ancestor_id,
            call.external_id,
            call.thread,
        );
        let runtime = appending()?;
        runtime.api_exit(
            token_of(runtime, token)?,
            operation,
            ids,
            call.return_value,
            arguments.as_ref(),
        );
        Ok(())
    })
}

/// A dispatch is issued by this thread, usually inside a call.
///
/// # Safety
/// `dispatch` and `token` are null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_dispatch_issue(
    dispatch: *const strandline_dispatch,
    token: *mut u64,
) -> i32 {
    // SAFETY: as the caller promises.
    if unsafe { nothing_to_begin(dispatch, token) } {
        return Status::Ok as i32;
    }
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(token, 0) }?;
        // SAFETY: as the caller promises.
        let dispatch = unsafe { argument(dispatch) }?;
        let issued = appending()?.dispatch_issue(&DispatchIssue {
            ids: ids(
                dispatch.correlation_id,
                dispatch.ancestor_id,
                dispatch.external_id,
                dispatch.thread,
            ),
            dispatch_id: dispatch.dispatch_id,
            kernel_id: dispatch.kernel_id,
            agent: dispatch.agent,
            queue: dispatch.queue,
        });
        // SAFETY: as the caller promises.
        unsafe { out(token, issued.0) }
    })
}

/// It completed. A thread that calls this delivers completions: it is never made to wait for one.
///
/// # Safety
/// `dispatch` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_dispatch_done(
    token: u64,
    dispatch: *const strandline_dispatch,
) -> i32 {
    // SAFETY: as the caller promises.
    if unsafe { nothing_to_end(token, dispatch) } {
        return Status::Ok as i32;
    }
    answer(|| {
        // SAFETY: as the caller promises.
        let done = unsafe { argument(dispatch) }?;
        let runtime = appending()?;
        runtime.dispatch_done(
            token_of(runtime, token)?,
            &DispatchDone {
                ids: Ids {
                    correlation: done.correlation_id,
                    ancestor: done.ancestor_id,
                    external: done.external_id,
                    thread: done.thread,
                },
                dispatch_id: done.dispatch_id,
                kernel_id: done.kernel_id,
                agent: done.agent,
                queue: done.queue,
                start_ns: done.start_ns,
                end_ns: done.end_ns,
                block: done.block,
                grid: done.grid,
                private_bytes: done.private_bytes,
                group_bytes: done.group_bytes,
                graph: done.graph,
                node: done.node,
            },
        );
        Ok(())
    })
}

fn copy_event(copy: &strandline_copy) -> CopyEvent {
    CopyEvent {
        ids: Ids {
            correlation: copy.correlation_id,
            ancestor: copy.ancestor_id,
            external: copy.external_id,
            thread: copy.thread,
        },
        operation: copy.operation,
        bytes: copy.bytes,
        source_agent: copy.source_agent,
        destination_agent: copy.destination_agent,
        source: copy.source,
        destination: copy.destination,
        start_ns: copy.start_ns,
        end_ns: copy.end_ns,
    }
}

/// A copy is issued by this thread, usually inside a call.
///
/// # Safety
/// `copy` and `token` are null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_copy_issue(
    copy: *const strandline_copy,
    token: *mut u64,
) -> i32 {
    // SAFETY: as the caller promises.
    if unsafe { nothing_to_begin(copy, token) } {
        return Status::Ok as i32;
    }
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(token, 0) }?;
        // SAFETY: as the caller promises.
        let copy = unsafe { argument(copy) }?;
        let issued = appending()?.copy_issue(&copy_event(&copy));
        // SAFETY: as the caller promises.
        unsafe { out(token, issued.0) }
    })
}

/// It completed. Any thread.
///
/// # Safety
/// `copy` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_copy_done(token: u64, copy: *const strandline_copy) -> i32 {
    // SAFETY: as the caller promises.
    if unsafe { nothing_to_end(token, copy) } {
        return Status::Ok as i32;
    }
    answer(|| {
        // SAFETY: as the caller promises.
        let copy = unsafe { argument(copy) }?;
        let runtime = appending()?;
        runtime.copy_done(token_of(runtime, token)?, &copy_event(&copy));
        Ok(())
    })
}

/// Memory was allocated or freed.
///
/// # Safety
/// `memory` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_alloc_done(memory: *const strandline_memory) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let memory = unsafe { argument(memory) }?;
        let runtime = appending()?;
        let event = MemoryEvent {
            ids: ids(
                memory.correlation_id,
                memory.ancestor_id,
                memory.external_id,
                memory.thread,
            ),
            operation: memory.operation,
            flags: memory.flags,
            bytes: memory.bytes,
            agent: memory.agent,
            queue: memory.queue,
            address: memory.address,
            start_ns: memory.start_ns,
            end_ns: memory.end_ns,
        };
        runtime.alloc_done(runtime.token(1), &event);
        Ok(())
    })
}

/// Work under that correlation id is over and will get no record. Takes a lock; not in a callback.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_retire(correlation_id: u64) -> i32 {
    // The runtime takes retirements from one thread at a time.
    static ONE: Mutex<()> = Mutex::new(());
    answer(|| {
        let runtime = runtime()?;
        let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        runtime.retire(correlation_id);
        Ok(())
    })
}

/// Pushes a range on the calling thread. Ranges nest, 32 deep; a deeper one is not recorded, and its pop is ignored as well.
///
/// # Safety
/// `name` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_range_push(name: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name) }.ok_or(Status::InvalidArgument)?;
        runtime()?.range_push(Ids::default(), name);
        Ok(())
    })
}

/// Pops the calling thread's innermost range: one record. Without one nothing happens.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_range_pop() -> i32 {
    answer(|| {
        runtime()?.range_pop(Ids::default());
        Ok(())
    })
}

/// Starts a range that strandline_range_stop ends on any thread; pairs by `range_id`.
///
/// # Safety
/// `name` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_range_start(range_id: u64, name: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name) }.ok_or(Status::InvalidArgument)?;
        runtime()?.mark(Kind::RangeStart, Ids::default(), range_id, name);
        Ok(())
    })
}

/// Stops a range by its id.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_range_stop(range_id: u64) -> i32 {
    answer(|| {
        runtime()?.mark(Kind::RangeStop, Ids::default(), range_id, b"");
        Ok(())
    })
}

/// Marks an instant.
///
/// # Safety
/// `name` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_mark(name: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name) }.ok_or(Status::InvalidArgument)?;
        runtime()?.mark(Kind::Mark, Ids::default(), 0, name);
        Ok(())
    })
}

/// Pushes an external id on the calling thread: the program's own number for what it is doing, per domain (0 to
/// STRANDLINE_EXTERNAL_DOMAINS - 1) and thread, STRANDLINE_EXTERNAL_DEPTH deep; a deeper one is not recorded, and its pop stays in
/// step. With any source. The top of domain 0 is the external_id of the thread's calls, and of the dispatches and copies that a
/// cursor joins to them; those of the other domains are records of kind EXTERNAL with the call's correlation id. A thread's first
/// push allocates: not in a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_external_push(domain: u32, id: u64) -> i32 {
    answer(|| {
        not_forked()?;
        embed::push(domain, id)
    })
}

/// Pops the calling thread's newest id of a domain and writes it to `id`, which may be null. Errors: NOTHING (none pushed).
///
/// # Safety
/// `id` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_external_pop(domain: u32, id: *mut u64) -> i32 {
    answer(|| {
        not_forked()?;
        let popped = embed::pop(domain)?;
        if !id.is_null() {
            // SAFETY: as the caller promises.
            unsafe { id.write_unaligned(popped) };
        }
        Ok(())
    })
}
