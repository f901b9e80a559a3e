//! Strandline: an embedded GPU-tracing runtime.
//!
//! Records are taken from any thread without a lock, an allocation or a system call, into ONE memory-mapped region that
//! is live buffer, trace file and crash dump at once; the trace says of itself whether it is complete.
//!
//! The write side: [`Runtime`] with its sessions ([`Runtime::session_open`], [`Runtime::session_stop`]) and the events
//! that a vendor layer's callbacks report ([`events`]). The read side: [`Trace`], [`facts`], [`report`].

mod bitmap;
mod gate;
mod handover;
mod ring;
mod sync;

#[cfg(all(test, loom))]
mod models;

// loom's atomics can't lie over mapped bytes: under the model checker only the protocols above are compiled.
#[cfg(not(loom))]
pub mod anchors;
#[cfg(not(loom))]
pub mod builder;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
mod clock_watch;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod embed;
#[cfg(not(loom))]
pub mod events;
#[cfg(not(loom))]
pub mod facts;
#[cfg(not(loom))]
pub mod hash;
#[cfg(not(loom))]
pub mod header;
#[cfg(not(loom))]
mod housekeeper;
#[cfg(not(loom))]
mod identity;
#[cfg(not(loom))]
mod lane;
#[cfg(not(loom))]
pub mod limits;
#[cfg(not(loom))]
pub mod loss;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
pub mod record;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod release;
#[cfg(not(loom))]
pub mod report;
#[cfg(not(loom))]
mod retired;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
pub mod segment_entry;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod session_end;
#[cfg(not(loom))]
pub mod settings;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod status;
#[cfg(not(loom))]
pub mod subscribe;
#[cfg(not(loom))]
mod tables;
#[cfg(not(loom))]
mod thread_names;
#[cfg(not(loom))]
mod tls;
#[cfg(not(loom))]
pub mod trace;

#[cfg(not(loom))]
pub use control::{CONTROL, Token};
#[cfg(not(loom))]
pub use gate::Barrier;
#[cfg(not(loom))]
pub use memory::{Memory, MemoryKind};
#[cfg(not(loom))]
pub use runtime::{Runtime, Vendor, default_path};
#[cfg(not(loom))]
pub use session::Ask;
#[cfg(not(loom))]
pub use session_end::{Proof, SessionEnd, Verdict, Work};
#[cfg(not(loom))]
pub use status::Status;
#[cfg(not(loom))]
pub use trace::{Trace, TraceError};
