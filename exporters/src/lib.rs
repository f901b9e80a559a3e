//! Exports of Strandline traces: Chrome JSON in kineto's dialect, Perfetto's protobuf, and a compact copy of the region.
//!
//! Exporters know the runtime's read side and nothing of any vendor. [`export`] is the one entry; a file's extension
//! names its format.
#![forbid(unsafe_code)]

mod chrome;
mod clock;
mod completeness;
mod copy;
pub mod demangle;
mod export;
mod external;
mod gzip;
mod join;
mod lanes;
mod memory;
mod model;
mod no_launch;
mod notes;
mod order;
mod out;
mod perfetto;
mod phases;
mod pipeline;
mod proto;
mod scan;
mod stretch;
mod text;
mod windows;

pub use export::{
    ExportError, ExportReport, Format, JSON_PART_BYTES_MAX, Options, PERFETTO_PART_BYTES_MAX,
    Progress, export, export_to,
};
pub use phases::Phases;
