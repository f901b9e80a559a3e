//! The C API of Strandline: what `strandline.h` declares. The header is made of this crate by `cbindgen` (`tests/header.rs`).
//!
//! | module | subject |
//! |---|---|
//! | [`abi`] | the structs of the header, with their layout asserted |
//! | [`enums`] | its numbers |
//! | [`border`] | how arguments come in and results go out |
//! | [`handles`] | handles that can be used wrongly without a crash |
//! | [`whole_tool`] | configuring rocprofiler-sdk from a host that owns `rocprofiler_configure` |
//! | [`source`] | bring your own source: declaring, appending, external ids |
//! | [`sessions`] | what the tool library has not: closing without waiting, results |
//! | [`records`] | a record as C sees it |
//! | [`reader`] | traces and cursors |
//! | [`subscriber`] | subscriptions |
//!
//! `strandline_session_start`, `strandline_session_stop`, `strandline_export`, `strandline_metadata` and
//! `strandline_status_string` are those of the tool library (`strandline_rocprofiler::c_api`): one implementation, in
//! both libraries.
//!
//! Every function may be called from any thread at any time, and answers with a status; nothing panics across the
//! border. In a forked child of a process that used the library every function answers `STRANDLINE_NOT_READY`.

pub mod abi;
pub mod border;
pub mod enums;
pub mod handles;
pub mod reader;
pub mod records;
pub mod sessions;
pub mod source;
pub mod subscriber;
pub mod whole_tool;

// The functions of the tool library, so that they are in the archive whoever links it.
pub use strandline_rocprofiler::c_api;
