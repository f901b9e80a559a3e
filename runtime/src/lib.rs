//! Strandline: an embedded GPU-tracing runtime.
//!
//! Records are taken from any thread without a lock, an allocation or a system call, into ONE memory-mapped region that
//! is live buffer, trace file and crash dump at once; the trace says of itself whether it is complete.
//!
//! # A first trace
//!
//! ```
//! use std::time::Duration;
//! use strandline::events::{DispatchDone, DispatchIssue};
//! use strandline::{Runtime, Vendor, Verdict, settings::Settings};
//!
//! let settings = Settings::from_env()?;
//! # let mut settings = settings;
//! # settings.dir = std::env::temp_dir().join(format!("strandline-doc-{}", std::process::id()));
//! # let folder = settings.dir.clone();
//! let runtime = Runtime::make_global(settings, &Vendor::default()).map_err(|(status, _)| status)?;
//! let session = runtime.session_open()?;
//! // In the vendor's callbacks: a dispatch was issued, later it is done.
//! let token = runtime.dispatch_issue(&DispatchIssue { dispatch_id: 1, ..Default::default() });
//! let done = DispatchDone { dispatch_id: 1, start_ns: 100, end_ns: 250, ..Default::default() };
//! runtime.dispatch_done(token, &done);
//! let end = runtime.session_stop(session, Duration::from_secs(5), None)?;
//! assert_eq!((end.verdict, end.dispatches.recorded), (Verdict::Complete, 1));
//! assert_eq!(runtime.trace()?.entries().count(), 2); // the issue and the completion
//! # // A dispatch that never completes: the stop says so, and up to which id the trace is whole.
//! # let session = runtime.session_open()?;
//! # runtime.dispatch_issue(&DispatchIssue { dispatch_id: 2, ..Default::default() });
//! # let end = runtime.session_stop(session, Duration::from_millis(10), None)?;
//! # assert_eq!((end.verdict, end.dispatches.missing()), (Verdict::Incomplete, 1));
//! # runtime.finalize();
//! # runtime.discard_unasked_file();
//! # std::fs::remove_dir(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A dispatch whose completion never comes makes the verdict [`Verdict::Incomplete`], with how many are missing and up to
//! which id the trace is whole. `examples/` has whole programs in Rust, C and C++.
//!
//! # The model
//!
//! - A *record* is one event, 1 to 16 cells of 64 bytes ([`record`]). Events that need no later reader's knowledge (calls,
//!   dispatches, copies, ranges) belong to a session; *facts* (agents, streams, kernels, names, clock anchors; [`facts`])
//!   belong to none and are kept from load on.
//! - A *lane* is what one thread writes to: one writer at a time, ever. It has an open *segment* (64 KiB to 1 MiB) for records and one
//!   for facts. A lane whose thread has ended is handed on with its open segments.
//! - The *region* is one mapped file: header, lane table, segment table, segments. `docs/format.md` has every byte.
//! - A *session* is one start to stop. A record's session is decided once, in the first callback that shows it, and travels in
//!   a [`Token`] to its end: membership by origin, not by arrival.
//! - The *housekeeper* ([`Runtime::start_housekeeper`]) is the runtime's one thread: it backs memory ahead of demand, gives sealed
//!   segments their checksums, accounts for sessions that nobody waits for, and anchors the clocks. Without it everything
//!   works within what is backed already.
//! - *Time* is the vendor's clock ([`clock::set_vendor_now`]). Vendor times are kept raw; host times are ticks, converted by
//!   readers between anchors ([`anchors`]): within a microsecond, unless a clock is slewed or stepped at that moment.
//!
//! The write side: [`Runtime`], the events that a vendor layer's callbacks report ([`events`]), an embedder's own ids
//! ([`embed`]), live readers in the process ([`subscribe`]). The read side: [`Trace`], [`facts`], [`report`]. No vendor's type and no output
//! format is in this crate.
//!
//! # Modes
//!
//! | [`header::Mode`] | keeps | when the budget is used up |
//! |---|---|---|
//! | `Window` | all from start to stop | further records are lost, counted as `no_segment` |
//! | `Flight` | the newest, for ever; [`Runtime::snapshot`] and other processes copy it at any time | each lane reuses its oldest segment, and counts what that held |
//! | `Stream` | all, in a file or with the host ([`collector`]); the region only what is under way | a slow sink drops records, counted as `no_segment` |
//!
//! # What is guaranteed
//!
//! 1. *Wait-free append*: a bounded number of instructions, no lock, allocation, system call or loader call in an event
//!    function. A thread's first event asks the kernel for its id, once.
//! 2. *Never torn*: a record is visible whole or not at all, to a thread, to another process, in the file after SIGKILL and
//!    in a core dump.
//! 3. *Always safe to append*: after stop, while the process exits, in a signal handler. In a forked child nothing is written.
//! 4. *No silent loss*: what is not in the trace is counted by reason ([`loss`]) and session; what is odd is kept and flagged.
//! 5. *Completeness is proven*: each issue has its completion, or the SDK retired it without one. Silence is no proof. Past the
//!    deadline the verdict is incomplete.
//! 6. *Membership by origin*: a late record never appears in another session.
//! 7. *Facts for every reader*: names are copied in the callback and survive what they name; a handle that comes back is another
//!    thing.
//! 8. *The host is untouched*: a runtime that can't work says so by a [`Status`] and is a no-op. Nothing here panics across a
//!    callback, prints, or installs a signal handler.
//! 9. *A region is read for ever*: older formats open, newer ones are refused with a sentence, and damage is listed
//!    ([`Trace::damage`]), never shown as a record.
//!
//! What is not guaranteed: that nothing is lost (a budget is a budget), that a session is complete by its deadline, and, for
//! bytes that no checksum covers yet (a segment that is still open), that damage is noticed.
//!
//! # What it costs
//!
//! An append is one reading of the clock and a few ns; with no session open, the test of one word. `docs/benchmarks.md` has the
//! figures, the machine and the command. Memory is the budget, as far as it is used, and about 9 MiB of private address
//! space; [`limits`] has the arithmetic, and what a record of each kind takes. [`Trace::cost`] is what tracing cost by the runtime's own
//! count, in each trace.
//!
//! Settings come from [`settings::Settings`]; `docs/settings.md` lists the variables of the environment.

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
pub mod collector;
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
#[cfg(all(test, not(loom)))]
mod segment_sizes;
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
pub use control::Token;
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
