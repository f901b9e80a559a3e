//! The only door to atomics and fences.
//!
//! Everything else in the crate takes its atomics from here, so that `--cfg loom` swaps all of them for the model
//! checker's. loom's atomics have another size and no `const fn new`: they cannot lie over mapped bytes or in a
//! `static`. So each protocol is written over *references* to [`Word`]s and kept apart from its storage: production
//! lays the words over the region, a model puts them in a `Box`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One 64-bit word of the region or of a protocol's own state.
pub(crate) type Word = AtomicU64;
