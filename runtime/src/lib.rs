//! Strandline: an embedded GPU-tracing runtime.
//!
//! Records are taken from any thread without a lock, an allocation or a system call, into ONE memory-mapped region that
//! is live buffer, trace file and crash dump at once; the trace says of itself whether it is complete.

pub mod anchors;
pub mod builder;
pub mod counters;
pub mod facts;
pub mod hash;
pub mod header;
pub mod limits;
pub mod loss;
mod map;
pub mod record;
pub mod report;
pub mod segment_entry;
mod session_end;
mod sync;
pub mod trace;

pub use session_end::{Proof, SessionEnd, Verdict, Work};
pub use trace::{Trace, TraceError};
