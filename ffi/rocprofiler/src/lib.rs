//! The tool library for AMD's rocprofiler-sdk, `libstrandline_rocprofiler.so`.
//!
//! It exports `rocprofiler_configure`, which the SDK finds by its own rules (`ROCP_TOOL_LIBRARIES`, `LD_PRELOAD`, a
//! global symbol), and the C functions of [`c_api`]. It is not linked to the SDK: the few functions it needs are looked
//! up once, in the copy of the SDK that called (see [`api`]), so it builds and loads on a machine without ROCm.
//!
//! All data comes by the SDK's callback services ([`callbacks`]); the only SDK buffer is the one for correlation-id
//! retirement ([`retirement`]). Nothing in a callback takes a lock, allocates, makes a system call or calls the loader.
//!
//! | module | subject |
//! |---|---|
//! | [`api`] | the SDK's functions, by dlsym |
//! | [`tool`] | configure, initialize, finalize; contexts and services |
//! | [`callbacks`] | SDK records to runtime events |
//! | [`hip`] | streams and arguments of HIP calls |
//! | [`marker`] | roctx |
//! | [`retirement`] | the retirement buffer |
//! | [`own`] | a host with its own settings, or its own source |
//! | [`window`] | opening and closing sessions with their contexts |
//! | [`c_api`] | what embedders call |
//! | [`instant`] | the C functions that append |
//! | [`late`] | a host that configures the SDK after HIP |
//! | [`log`] | the only place that talks |

pub mod api;
pub mod c_api;
pub mod callbacks;
pub mod export;
pub mod hip;
pub mod instant;
pub mod late;
pub mod log;
pub mod marker;
pub mod options;
pub mod own;
pub mod retirement;
pub mod tool;
pub mod window;
