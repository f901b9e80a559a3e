//! The graph workload: N kernels captured into a graph and launched R times, or one by one.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::GraphArgs;
use crate::hip::{Dim3, Handle, Hip, Kernels, Library};
use crate::window::{Window, print_json};

/// Names of the HIP library, newest first.
pub(crate) const HIP_NAMES: [&str; 3] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"];
const GRID: Dim3 = Dim3 { x: 64, y: 1, z: 1 };
const BLOCK: Dim3 = Dim3 { x: 256, y: 1, z: 1 };
/// `hipStreamCaptureModeThreadLocal`.
const CAPTURE_THREAD_LOCAL: i32 = 1;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;
/// `hipMemcpyHostToDevice`.
const HOST_TO_DEVICE: i32 = 1;
const COPY_BYTES: usize = 4096;

/// What the last line says.
#[derive(Debug, Serialize)]
struct Report {
    workload: &'static str,
    simulated: bool,
    nodes: u32,
    replays: u64,
    threads: u32,
    sessions: u64,
    dispatches: u64,
    copies: u64,
    seconds: f64,
}

/// Finds HIP and says which. Second: is it the stand-in?
pub(crate) fn load() -> Result<(Hip, Library, bool), String> {
    let (library, name) = Library::find(&HIP_NAMES)?;
    let simulated = library.symbol(c"rocsim_backlog").is_some();
    let what = if simulated {
        "stand-in, no GPU"
    } else {
        "real"
    };
    eprintln!("sim: HIP from {name} ({what})");
    Ok((Hip::of(library)?, library, simulated))
}

/// One launching thread's streams and graph.
struct Worker {
    streams: Vec<Handle>,
    graph: Handle,
}

/// Runs the workload.
pub(crate) fn run(args: &GraphArgs) -> Result<(), String> {
    let (hip, _, simulated) = load()?;
    let kernels = Kernels::register(&hip, args.nodes as usize);
    let mut devices = 0;
    // SAFETY: writes one number.
    hip.check("hipGetDeviceCount", unsafe {
        (hip.get_device_count)(&raw mut devices)
    })?;
    let mut window = Window::prepare(args.window, &args.symbols(), args.deadline_ms * 1_000_000)?;

    let threads = args.threads as usize;
    // All threads are ready; a session begins; a session's work is done; it has ended.
    let barriers = [(); 3].map(|()| Barrier::new(threads + 1));
    let start = Instant::now();
    let result: Result<u64, String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let (hip, kernels, barriers) = (&hip, &kernels, &barriers);
                let share = share(args.replays, threads as u64, index as u64);
                scope.spawn(move || -> Result<(), String> {
                    let worker = prepare(hip, kernels, args, index as u32, devices);
                    barriers[0].wait();
                    let mut result = worker;
                    for _ in 0..args.sessions {
                        barriers[1].wait();
                        // Also after a failure: the others wait at the barriers.
                        result = result.and_then(|worker| {
                            replay(hip, kernels, args, &worker, share).map(|()| worker)
                        });
                        barriers[2].wait();
                    }
                    result.map(|_| ())
                })
            })
            .collect();
        barriers[0].wait();
        let mut launched = 0;
        let mut problem = None;
        for session in 0..args.sessions {
            if session > 0 {
                std::thread::sleep(Duration::from_millis(args.gap_ms));
            }
            let mut step = || -> Result<(), String> {
                window.open()?;
                barriers[1].wait();
                barriers[2].wait();
                Ok(())
            };
            if let Err(error) = step() {
                // The workers still wait for both barriers.
                problem.get_or_insert(error);
                barriers[1].wait();
                barriers[2].wait();
                continue;
            }
            launched += u64::from(args.nodes) * args.replays;
            let mut step = || -> Result<(), String> {
                copies(&hip, args.copies)?;
                if !args.no_device_sync {
                    synchronize(&hip, devices)?;
                }
                window.close(u64::from(args.nodes) * args.replays)?;
                if let Some(path) = &args.save {
                    let path = path.to_string_lossy().replace("{}", &session.to_string());
                    window.save(path.as_ref())?;
                }
                Ok(())
            };
            if let Err(error) = step() {
                problem.get_or_insert(error);
            }
        }
        for worker in workers {
            if let Err(error) = worker
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".to_owned()))
            {
                problem.get_or_insert(error);
            }
        }
        problem.map_or(Ok(launched), Err)
    });
    let report = Report {
        workload: if args.plain { "plain" } else { "graph" },
        simulated,
        nodes: args.nodes,
        replays: args.replays,
        threads: args.threads,
        sessions: args.sessions,
        dispatches: result?,
        copies: args.copies * args.sessions,
        seconds: start.elapsed().as_secs_f64(),
    };
    if args.delivery.json {
        print_json(&report);
    } else {
        let what = if simulated {
            "simulation, no GPU"
        } else {
            "real GPU"
        };
        println!(
            "sim {}: {} dispatches in {:.3} s ({what})",
            report.workload, report.dispatches, report.seconds
        );
    }
    Ok(())
}

/// Thread `index`'s part of `total`.
fn share(total: u64, threads: u64, index: u64) -> u64 {
    total / threads + u64::from(index < total % threads)
}

fn prepare(
    hip: &Hip,
    kernels: &Kernels,
    args: &GraphArgs,
    index: u32,
    devices: i32,
) -> Result<Worker, String> {
    let device = (index % args.devices.min(devices.unsigned_abs().max(1))).cast_signed();
    // SAFETY: takes any number.
    hip.check("hipSetDevice", unsafe { (hip.set_device)(device) })?;
    let mut streams = Vec::new();
    for _ in 0..args.streams {
        let mut stream: Handle = core::ptr::null_mut();
        // SAFETY: writes one handle.
        let error = unsafe { (hip.stream_create)(&raw mut stream, NON_BLOCKING) };
        hip.check("hipStreamCreateWithFlags", error)?;
        streams.push(stream);
    }
    let mut graph: Handle = core::ptr::null_mut();
    if !args.plain {
        let mut captured: Handle = core::ptr::null_mut();
        // SAFETY: a stream made above.
        let error = unsafe { (hip.stream_begin_capture)(streams[0], CAPTURE_THREAD_LOCAL) };
        hip.check("hipStreamBeginCapture", error)?;
        launch_all(hip, kernels, args, streams[0])?;
        // SAFETY: the stream that is being captured; writes one handle.
        let error = unsafe { (hip.stream_end_capture)(streams[0], &raw mut captured) };
        hip.check("hipStreamEndCapture", error)?;
        let null: *mut Handle = core::ptr::null_mut();
        // SAFETY: the graph just captured; writes one handle; no log is asked for.
        let error =
            unsafe { (hip.graph_instantiate)(&raw mut graph, captured, null, null.cast(), 0) };
        hip.check("hipGraphInstantiate", error)?;
    }
    Ok(Worker { streams, graph })
}

fn launch_all(
    hip: &Hip,
    kernels: &Kernels,
    args: &GraphArgs,
    stream: Handle,
) -> Result<(), String> {
    let null = core::ptr::null_mut();
    for node in 0..args.nodes as usize {
        // SAFETY: a registered stub, and a live stream; these kernels read no arguments.
        let error =
            unsafe { (hip.launch_kernel)(kernels.stub(node), GRID, BLOCK, null, 0, stream) };
        hip.check("hipLaunchKernel", error)?;
    }
    Ok(())
}

fn replay(
    hip: &Hip,
    kernels: &Kernels,
    args: &GraphArgs,
    worker: &Worker,
    count: u64,
) -> Result<(), String> {
    for (_, &stream) in (0..count).zip(worker.streams.iter().cycle()) {
        if args.plain {
            launch_all(hip, kernels, args, stream)?;
        } else {
            // SAFETY: an executable graph and a live stream.
            let error = unsafe { (hip.graph_launch)(worker.graph, stream) };
            hip.check("hipGraphLaunch", error)?;
        }
        if args.sync {
            // SAFETY: a live stream.
            let error = unsafe { (hip.stream_synchronize)(stream) };
            hip.check("hipStreamSynchronize", error)?;
        }
    }
    Ok(())
}

fn synchronize(hip: &Hip, devices: i32) -> Result<(), String> {
    for device in 0..devices {
        // SAFETY: takes any number.
        hip.check("hipSetDevice", unsafe { (hip.set_device)(device) })?;
        // SAFETY: takes nothing.
        hip.check("hipDeviceSynchronize", unsafe {
            (hip.device_synchronize)()
        })?;
    }
    Ok(())
}

/// Copies from the host to the current device, asynchronous, on the null stream.
fn copies(hip: &Hip, count: u64) -> Result<(), String> {
    if count == 0 {
        return Ok(());
    }
    let (mut device, mut host) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: writes one pointer.
    hip.check("hipMalloc", unsafe {
        (hip.malloc)(&raw mut device, COPY_BYTES)
    })?;
    // SAFETY: writes one pointer.
    let error = unsafe { (hip.host_malloc)(&raw mut host, COPY_BYTES, 0) };
    hip.check("hipHostMalloc", error)?;
    for _ in 0..count {
        let null = core::ptr::null_mut();
        // SAFETY: both blocks have this size.
        let error = unsafe { (hip.memcpy_async)(device, host, COPY_BYTES, HOST_TO_DEVICE, null) };
        hip.check("hipMemcpyAsync", error)?;
    }
    // The blocks stay: freeing waits for the copies, which would hide late records.
    Ok(())
}
