//! Stand-in for AMD's `librocprofiler-sdk.so.1`, version 1.0.0: the true C ABI and the behaviour of
//! the real library, over a simulated device. No GPU, nothing of AMD's code.
//!
//! Tools see what the real SDK shows them: registration in its order, contexts captured at enqueue,
//! a stop that waits for nothing, records on the runtime's handler threads after the device is
//! idle, retirement only to contexts active at that instant, buffers with the real hazards, and a
//! finalization that drains dispatches and flushes nothing. Where a tool would hang the real SDK
//! for ever (a flush inside a buffer callback), this one says so and aborts, so that tests notice.
//!
//! | module | what |
//! |---|---|
//! | `abi` | structs, enum values, statuses of the C ABI |
//! | `registration` | tools, their order, initialization and finalization |
//! | `context` | contexts and what they want, as bit masks |
//! | `correlation` | internal ids, references, retirement, external ids |
//! | `trace` | API calls, dispatches, copies, allocations, scratch |
//! | `code_object` | code objects and kernel symbols |
//! | `buffer` | buffers and callback threads |
//! | `agents`, `names` | the queries |
//! | `exports` | the C functions |
//!
//! Invariants that comments cite:
//! - I1: contexts, buffers, callback threads and correlation chunks are never freed.
//! - I2: services are added only during initialization, before the context can be active.
//! - I3: a call that is traced uses the contexts captured at its start, until its end.

mod abi;
mod agents;
mod buffer;
mod clock;
mod code_object;
mod context;
mod correlation;
mod exports;
mod names;
mod registration;
mod trace;

use std::sync::OnceLock;

use sim_interface::settings::Settings;

/// The settings of this process; complains once about bad ones.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        // The HIP stand-in reports bad values, and reads the same ones: not twice.
        Settings::from_env().0
    })
}
