//! The call-rate workload: many threads make HIP calls of many kinds at full rate, while another
//! loads and unloads code objects.
//!
//! Of 16 calls: 4 launches, 2 asynchronous copies, 4 event records, 3 stream queries, 2 times the
//! current device, and 1 memset, which makes nested calls. Threads slow down only when the runtime's
//! handlers are far behind, so that memory stays bounded.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::GraphArgs;
use crate::graph::load;
use crate::hip::{Dim3, Handle, Hip, Kernels, Library};
use crate::window::{Window, print_json};

const GRID: Dim3 = Dim3 { x: 1, y: 1, z: 1 };
const BLOCK: Dim3 = Dim3 { x: 64, y: 1, z: 1 };
/// `hipMemcpyHostToDevice`.
const HOST_TO_DEVICE: i32 = 1;
const BLOCK_BYTES: usize = 256;
/// Completions that may wait for handlers before the threads pause.
const BACKLOG_MAX: u64 = 50_000;
/// Calls between two looks at the backlog.
const CHECK_EVERY: u64 = 256;
/// An image that the stand-in understands; kernels of the loaded and unloaded modules.
const IMAGE: &core::ffi::CStr = c"ROCSIM\n_Z8module_aPfi\n_Z8module_bPfi\n_Z8module_cPfi\n";

/// What the last line says.
#[derive(Debug, Serialize)]
struct Report {
    workload: &'static str,
    simulated: bool,
    threads: u32,
    calls: u64,
    launches: u64,
    copies: u64,
    modules: u64,
    sessions: u64,
    seconds: f64,
    calls_per_s: f64,
    ns_per_call: f64,
}

/// Runs the workload.
pub(crate) fn run(args: &GraphArgs) -> Result<(), String> {
    let (hip, library, simulated) = load()?;
    let kernels = Kernels::register(&hip, args.nodes as usize);
    let mut devices = 0;
    // SAFETY: writes one number.
    hip.check("hipGetDeviceCount", unsafe {
        (hip.get_device_count)(&raw mut devices)
    })?;
    let mut window = Window::prepare(args.window, &args.symbols(), args.deadline_ms * 1_000_000)?;
    let backlog = backlog(library);
    let threads = args.api_threads as usize;
    let barrier = Barrier::new(threads + 1);
    let done = AtomicBool::new(false);
    let counts = [const { AtomicU64::new(0) }; 3];
    let mut sessions = 0;
    let mut seconds = 0.0;
    let result: Result<(), String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let (hip, kernels, barrier, counts) = (&hip, &kernels, &barrier, &counts);
                scope.spawn(move || {
                    let worker = Worker::prepare(hip, index as u32 % args.devices);
                    barrier.wait();
                    let (launches, copies) =
                        worker?.run(hip, kernels, args.api_calls, index as u64, backlog)?;
                    counts[0].fetch_add(launches, Ordering::Relaxed);
                    counts[1].fetch_add(copies, Ordering::Relaxed);
                    Ok(())
                })
            })
            .collect();
        let modules = scope.spawn(|| load_modules(&hip, &done, &counts[2]));
        let mut problem = window.open().err();
        let start = Instant::now();
        barrier.wait();
        // More sessions while the threads run, if asked for.
        while !workers
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(Duration::from_millis(args.gap_ms.max(1)));
            if args.sessions > 1 && problem.is_none() {
                sessions += 1;
                problem = window.close(0).and_then(|()| window.open()).err();
            }
        }
        seconds = start.elapsed().as_secs_f64();
        done.store(true, Ordering::Release);
        for worker in workers {
            let result: Result<(), String> = worker
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".to_owned()));
            problem = problem.or(result.err());
        }
        let result = modules
            .join()
            .unwrap_or_else(|_| Err("a thread panicked".to_owned()));
        problem = problem.or(result.err());
        problem.map_or(Ok(()), Err)
    });
    result?;
    // SAFETY: takes nothing.
    hip.check("hipDeviceSynchronize", unsafe {
        (hip.device_synchronize)()
    })?;
    let launches = counts[0].load(Ordering::Relaxed);
    window.close(launches)?;
    sessions += 1;
    if let Some(path) = &args.save {
        window.save(path)?;
    }
    let calls = args.api_calls * threads as u64;
    let report = Report {
        workload: "calls",
        simulated,
        threads: args.api_threads,
        calls,
        launches,
        copies: counts[1].load(Ordering::Relaxed),
        modules: counts[2].load(Ordering::Relaxed),
        sessions,
        seconds,
        calls_per_s: calls as f64 / seconds,
        ns_per_call: seconds * 1e9 / calls as f64,
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
            "sim calls: {calls} HIP calls in {seconds:.3} s, {:.0} a second ({what})",
            report.calls_per_s
        );
    }
    Ok(())
}

type BacklogFn = extern "C" fn() -> u64;

/// The stand-in's count of waiting completions; a real runtime has none.
fn backlog(library: Library) -> BacklogFn {
    extern "C" fn none() -> u64 {
        0
    }
    match library.symbol(c"rocsim_backlog") {
        // SAFETY: the stand-in's function of this name has this type.
        Some(address) => unsafe {
            core::mem::transmute::<*mut core::ffi::c_void, BacklogFn>(address)
        },
        None => none,
    }
}

struct Worker {
    stream: Handle,
    event: Handle,
    device: *mut core::ffi::c_void,
    host: *mut core::ffi::c_void,
}

impl Worker {
    fn prepare(hip: &Hip, gpu: u32) -> Result<Self, String> {
        let mut worker = Self {
            stream: core::ptr::null_mut(),
            event: core::ptr::null_mut(),
            device: core::ptr::null_mut(),
            host: core::ptr::null_mut(),
        };
        // SAFETY: takes any number.
        hip.check("hipSetDevice", unsafe {
            (hip.set_device)(gpu.cast_signed())
        })?;
        // SAFETY: each of these writes one handle or pointer.
        unsafe {
            hip.check(
                "hipStreamCreateWithFlags",
                (hip.stream_create)(&raw mut worker.stream, 1),
            )?;
            hip.check("hipEventCreate", (hip.event_create)(&raw mut worker.event))?;
            hip.check(
                "hipMalloc",
                (hip.malloc)(&raw mut worker.device, BLOCK_BYTES),
            )?;
            hip.check(
                "hipHostMalloc",
                (hip.host_malloc)(&raw mut worker.host, BLOCK_BYTES, 0),
            )?;
        }
        Ok(worker)
    }

    fn run(
        &self,
        hip: &Hip,
        kernels: &Kernels,
        calls: u64,
        first: u64,
        backlog: BacklogFn,
    ) -> Result<(u64, u64), String> {
        let null = core::ptr::null_mut();
        let (mut launches, mut copies) = (0, 0);
        for call in 0..calls {
            // SAFETY: handles and blocks of this worker; these kernels read no arguments.
            let error = unsafe {
                match call % 16 {
                    0 | 4 | 8 | 12 => {
                        launches += 1;
                        let stub = kernels.stub((first + call) as usize);
                        (hip.launch_kernel)(stub, GRID, BLOCK, null, 0, self.stream)
                    }
                    2 | 10 => {
                        copies += 1;
                        (hip.memcpy_async)(
                            self.device,
                            self.host,
                            BLOCK_BYTES,
                            HOST_TO_DEVICE,
                            self.stream,
                        )
                    }
                    1 | 5 | 9 | 13 => (hip.event_record)(self.event, self.stream),
                    // "Not ready" is an answer, not a failure.
                    3 | 7 | 11 => {
                        let _ = (hip.stream_query)(self.stream);
                        0
                    }
                    15 => {
                        launches += 1;
                        (hip.memset)(self.device, 0, 64)
                    }
                    _ => {
                        let mut device = 0;
                        (hip.get_device)(&raw mut device)
                    }
                }
            };
            if error != 0 {
                hip.check("a HIP call", error)?;
            }
            if call % CHECK_EVERY == 0 {
                while backlog() > BACKLOG_MAX {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        }
        Ok((launches, copies))
    }
}

/// Loads and unloads a module, with one launch between, until the others are done.
fn load_modules(hip: &Hip, done: &AtomicBool, count: &AtomicU64) -> Result<(), String> {
    let null = core::ptr::null_mut();
    while !done.load(Ordering::Acquire) {
        let (mut module, mut function) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: an image that the stand-in understands, its own handles, a name in the image.
        unsafe {
            let error = (hip.module_load_data)(&raw mut module, IMAGE.as_ptr().cast());
            hip.check("hipModuleLoadData", error)?;
            let name = c"_Z8module_bPfi".as_ptr();
            let error = (hip.module_get_function)(&raw mut function, module, name);
            hip.check("hipModuleGetFunction", error)?;
            let error = (hip.module_launch_kernel)(
                function,
                1,
                1,
                1,
                64,
                1,
                1,
                0,
                null,
                null.cast(),
                null.cast(),
            );
            hip.check("hipModuleLaunchKernel", error)?;
            hip.check("hipModuleUnload", (hip.module_unload)(module))?;
        }
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
