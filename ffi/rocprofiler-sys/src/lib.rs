//! The C ABI of AMD's rocprofiler-sdk 1.0.0, and tables of the names and argument offsets it uses.
//!
//! For both sides of that ABI: the tool library, which calls the SDK through pointers found with
//! `dlsym`, and the stand-in SDK, which exports the functions. Hence no `extern "C"` declaration
//! and nothing to link: for each function `rocprofiler_X` there is a pointer type
//! [`rocprofiler_X_fn`](rocprofiler_create_context_fn).
//!
//! Nothing here needs ROCm or libclang to build: what was generated is checked in, and
//! `regenerate/README.md` says how. Sizes, offsets and values are asserted in `layout` when the
//! crate is compiled, so a regenerated file that differs does not build.

mod bindings;
pub mod hip;
mod layout;
pub mod names;
mod payload;

pub use bindings::*;
pub use payload::*;
