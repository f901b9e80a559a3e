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
//!
//! The shared library, with one of the features, is a tool for rocprofiler-sdk (`ROCP_TOOL_LIBRARIES`) and starts the
//! bridge by itself. An embedder in Rust calls [`spawn`], or polls a [`Bridge`] on a thread of its own. See
//! `docs/tracy.md`.

pub mod bridge;
pub mod client;
mod names;

pub use bridge::{Bridge, Counts, Options};
pub use client::{Client, Place};
// The SDK finds the tool by its symbols, which are in this library because of this line.
pub use strandline_rocprofiler as tool;

use std::time::Duration;

use strandline::{Runtime, clock};

/// How often the thread of [`spawn`] polls.
const POLL: Duration = Duration::from_millis(1);

/// Starts a thread that bridges `runtime` to a client until the process finalizes. Not in a callback.
///
/// # Errors
/// The system has no thread left.
pub fn spawn<C: Client>(
    runtime: &'static Runtime,
    make_client: impl FnOnce() -> C + Send + 'static,
    options: Options,
) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("strandline-tracy".to_owned())
        .spawn(move || run(runtime, make_client(), options))
        .map(drop)
}

fn run(runtime: &'static Runtime, client: impl Client, options: Options) {
    let mut bridge = Bridge::new(runtime, client, options);
    let cpu_ns = || clock::kernel_ns(libc::CLOCK_MONOTONIC_RAW);
    while !runtime.is_finalizing() {
        bridge.poll(clock::vendor_now(), cpu_ns());
        std::thread::sleep(POLL);
    }
    bridge.finish(clock::vendor_now(), cpu_ns());
}

/// The tool library's own start.
#[cfg(any(feature = "always-on", feature = "on-demand"))]
mod at_load {
    use std::panic::catch_unwind;
    use std::time::Duration;

    use strandline::Runtime;

    use crate::client::Tracy;
    use crate::{Options, run};

    extern "C" fn start() {
        let _ = catch_unwind(|| {
            std::thread::Builder::new()
                .name("strandline-tracy".to_owned())
                .spawn(|| {
                    // The SDK makes the runtime when the program first uses HIP, if it ever does.
                    let runtime = loop {
                        match Runtime::global() {
                            Some(runtime) => break runtime,
                            None => std::thread::sleep(Duration::from_millis(10)),
                        }
                    };
                    run(runtime, Tracy::default(), Options::default());
                })
        });
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: extern "C" fn() = start;
}
