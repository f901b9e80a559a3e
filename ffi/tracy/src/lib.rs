//! Feeds Tracy from a Strandline subscription.
//!
//! Tracy shows what its client library sends: a context for each queue of a GPU, its name, and a zone for each kernel and
//! copy. Whatever says what something *is* comes from the sticky log, which keeps it from load on, so a profiler that
//! connects late, or a second one, gets every context, its name and the name of every kernel.
//!
//! | module | subject |
//! |---|---|
//! | [`client`] | Tracy's C API, as far as it is needed, and the client itself with the feature `on-demand` or `always-on` |
//! | [`bridge`] | from records to messages |
//! | `plots` | what is under way and what is allocated |
//!
//! The shared library, with one of the features, is a tool for rocprofiler-sdk (`ROCP_TOOL_LIBRARIES`) and starts the
//! bridge by itself. An embedder in Rust calls [`spawn`], or polls a [`Bridge`] on a thread of its own. See
//! `docs/tracy.md`.

pub mod bridge;
pub mod client;
mod names;
mod plots;

pub use bridge::{Bridge, Counts, Options};
pub use client::{Client, Place, Unit};
// The SDK finds the tool by its symbols, which are in this library because of this line.
pub use strandline_rocprofiler as tool;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use strandline::{Runtime, clock};

/// How often the thread of [`spawn`] polls.
const POLL: Duration = Duration::from_millis(1);

/// Starts a thread that bridges `runtime` to a client until `stop` is set, and then sends what waits. Join it before the
/// client goes. Not in a callback.
///
/// # Errors
/// The system has no thread left.
pub fn spawn<C: Client>(
    runtime: &'static Runtime,
    make_client: impl FnOnce() -> C + Send + 'static,
    options: Options,
    stop: Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("strandline-tracy".to_owned())
        .spawn(move || run(runtime, make_client(), options, &stop))
}

fn run(runtime: &'static Runtime, client: impl Client, options: Options, stop: &AtomicBool) {
    let mut bridge = Bridge::new(runtime, client, options);
    let cpu_ns = || clock::kernel_ns(libc::CLOCK_MONOTONIC_RAW);
    while !stop.load(Ordering::Acquire) {
        bridge.poll(clock::vendor_now(), cpu_ns());
        std::thread::sleep(POLL);
    }
    bridge.finish(clock::vendor_now(), cpu_ns());
}

/// The tool library's own start and end.
#[cfg(any(feature = "always-on", feature = "on-demand"))]
mod at_load {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
    use std::time::{Duration, Instant};

    use strandline::Runtime;

    use crate::client::Tracy;
    use crate::{Options, run};

    /// How long the exit of the process waits for the last zones.
    const LEAVE: Duration = Duration::from_secs(1);

    static STOP: AtomicBool = AtomicBool::new(false);
    static DONE: AtomicBool = AtomicBool::new(false);
    static PROCESS: AtomicI32 = AtomicI32::new(0);

    extern "C" fn start() {
        let _ = catch_unwind(|| {
            std::thread::Builder::new()
                .name("strandline-tracy".to_owned())
                .spawn(work)
        });
    }

    fn work() {
        // The SDK makes the runtime when the program first uses HIP, if it ever does.
        let runtime = loop {
            match Runtime::global() {
                Some(runtime) => break runtime,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        PROCESS.store(std::process::id().cast_signed(), Ordering::Relaxed);
        // SAFETY: the function lives as long as the process. It runs before the client's destructor: the client was
        // constructed when the library was loaded, so its destructor was registered before.
        unsafe { libc::atexit(leave) };
        // Nothing of what a panic would leave half done is used again.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            run(runtime, Tracy::default(), Options::default(), &STOP);
        }));
        DONE.store(true, Ordering::Release);
    }

    /// The client is destroyed after this: nothing may be inside it by then.
    extern "C" fn leave() {
        STOP.store(true, Ordering::Release);
        // A forked child has no such thread.
        if PROCESS.load(Ordering::Relaxed) != std::process::id().cast_signed() {
            return;
        }
        let start = Instant::now();
        while !DONE.load(Ordering::Acquire) && start.elapsed() < LEAVE {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: extern "C" fn() = start;
}
