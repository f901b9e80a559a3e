//! Stand-in for AMD's `libamdhip64.so`: HIP's C functions over a simulated device. No GPU, nothing
//! of AMD's code; kernels do not compute, they only take time.
//!
//! With no tool present it runs alone: that is the baseline of measurements. At the first HIP
//! runtime call it looks for tools by the rules of rocprofiler-register, and if there are any, gives
//! the SDK its table and gets hooks. Each HIP function then reports ENTER and EXIT, each kernel
//! packet its enqueue and completion, each copy and allocation likewise.
//!
//! | module | what |
//! |---|---|
//! | `api` | the exported C functions |
//! | `runtime` | settings, first-call registration, hooks, state of a thread |
//! | `device` | clock, hardware queues, streams, submission of packets and copies |
//! | `handlers` | the runtime's event threads: completions, late ones, stalls, overflow |
//! | `kernels` | fat binaries, modules, kernel symbols |
//! | `memory` | allocations and their owners |
//! | `graph` | graphs and capture |
//! | `ledger` | ground truth as JSON lines |
//! | `replay` | private functions by which a recording is played back |
//!
//! Invariants that comments cite:
//! - I1: queues, streams, events, kernels, code objects, graphs and handlers are never freed; a
//!   destroyed stream's or event's memory is only used for another stream or event.
//! - I2: device time is computed, not waited for: a packet's start and end are known when it is
//!   written, and only those who synchronize wait for the clock.
//! - I3: a traced packet's or copy's completion is reported exactly once, on a handler thread.

mod api;
mod device;
mod graph;
mod handlers;
mod kernels;
mod ledger;
mod memory;
mod replay;
mod runtime;
