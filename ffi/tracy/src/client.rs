//! Tracy's C API, as far as the bridge needs it.

use std::ffi::CStr;

/// Where a zone says it is from. The same kernel is always the same place: Tracy keeps at most 32767 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// What the zone is called.
    pub name: &'a [u8],
    /// The mangled symbol.
    pub function: &'a [u8],
    /// The code object.
    pub source: &'a [u8],
}

/// What a plot's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Number,
    /// Bytes of memory.
    Bytes,
}

/// The messages of a GPU timeline, in Tracy's order for them: a context before its name and its zones; a zone's begin,
/// end, and the two times.
///
/// One thread calls it. A message is for the profiler that is connected; an on-demand client keeps contexts and names
/// for every later one.
pub trait Client {
    /// Whether a profiler is connected.
    fn is_connected(&self) -> bool;
    /// A new timeline, whose clock stands at `gpu_ns` now. Calibrated later.
    fn new_context(&mut self, context: u8, gpu_ns: i64);
    /// Its name.
    fn context_name(&mut self, context: u8, name: &[u8]);
    /// A zone begins; `query` stands for its start time.
    fn zone_begin(&mut self, context: u8, query: u16, place: Place<'_>);
    /// The innermost zone ends; `query` stands for its end time.
    fn zone_end(&mut self, context: u8, query: u16);
    /// The time that a query stands for.
    fn time(&mut self, context: u8, query: u16, gpu_ns: i64);
    /// The timeline's clock stands at `gpu_ns` now, and the CPU's has advanced by `cpu_ns` since the last calibration, or
    /// since [`Client::new_context`] for the first one of a connection.
    fn calibrate(&mut self, context: u8, gpu_ns: i64, cpu_ns: i64);
    /// What a plot's numbers are, before its first point of a connection; its line goes in steps. A plot is known by the address of
    /// its name.
    fn plot_unit(&mut self, name: &'static CStr, unit: Unit);
    /// A point of a plot, now.
    fn plot(&mut self, name: &'static CStr, value: i64);
}

#[cfg(any(feature = "always-on", feature = "on-demand"))]
pub use tracy::Tracy;

#[cfg(any(feature = "always-on", feature = "on-demand"))]
mod tracy {
    use std::ffi::{CStr, c_char};

    use tracy_client_sys as sys;

    use super::{Client, Place, Unit};

    /// `GpuContextType::Rocprof` in protocol 82.
    const CONTEXT_TYPE: u8 = 9;
    /// `GpuContextCalibration`.
    const CALIBRATED: u8 = 1;

    /// The client that is linked into this library.
    #[derive(Debug, Default)]
    pub struct Tracy(());

    fn chars(text: &[u8]) -> *const c_char {
        text.as_ptr().cast()
    }

    // The serial queue: one order for all messages, whatever threads the client serves besides.
    impl Client for Tracy {
        fn is_connected(&self) -> bool {
            // SAFETY: no arguments; the client is initialized at load.
            unsafe { sys::___tracy_connected() != 0 }
        }

        fn new_context(&mut self, context: u8, gpu_ns: i64) {
            let data = sys::___tracy_gpu_new_context_data {
                gpuTime: gpu_ns,
                period: 1.0,
                context,
                flags: CALIBRATED,
                type_: CONTEXT_TYPE,
            };
            // SAFETY: numbers.
            unsafe { sys::___tracy_emit_gpu_new_context_serial(data) };
        }

        fn context_name(&mut self, context: u8, name: &[u8]) {
            let len = name.len().min(u16::MAX.into()) as u16;
            let data = sys::___tracy_gpu_context_name_data {
                context,
                name: chars(name),
                len,
            };
            // SAFETY: `len` bytes are there; the client copies them.
            unsafe { sys::___tracy_emit_gpu_context_name_serial(data) };
        }

        fn zone_begin(&mut self, context: u8, query: u16, place: Place<'_>) {
            // The client puts all of a place into one message of at most 64 KiB.
            const LONGEST: usize = 16 << 10;
            let [name, function, source] = [place.name, place.function, place.source]
                .map(|text| &text[..text.len().min(LONGEST)]);
            // SAFETY: the lengths are those of the texts; the client copies them.
            let srcloc = unsafe {
                sys::___tracy_alloc_srcloc_name(
                    0,
                    chars(source),
                    source.len(),
                    chars(function),
                    function.len(),
                    chars(name),
                    name.len(),
                    0,
                )
            };
            let data = sys::___tracy_gpu_zone_begin_data {
                srcloc,
                queryId: query,
                context,
            };
            // SAFETY: `srcloc` was just made, and is the client's from here on.
            unsafe { sys::___tracy_emit_gpu_zone_begin_alloc_serial(data) };
        }

        fn zone_end(&mut self, context: u8, query: u16) {
            let data = sys::___tracy_gpu_zone_end_data {
                queryId: query,
                context,
            };
            // SAFETY: numbers.
            unsafe { sys::___tracy_emit_gpu_zone_end_serial(data) };
        }

        fn time(&mut self, context: u8, query: u16, gpu_ns: i64) {
            let data = sys::___tracy_gpu_time_data {
                gpuTime: gpu_ns,
                queryId: query,
                context,
            };
            // SAFETY: numbers.
            unsafe { sys::___tracy_emit_gpu_time_serial(data) };
        }

        fn calibrate(&mut self, context: u8, gpu_ns: i64, cpu_ns: i64) {
            let data = sys::___tracy_gpu_calibration_data {
                gpuTime: gpu_ns,
                cpuDelta: cpu_ns,
                context,
            };
            // SAFETY: numbers.
            unsafe { sys::___tracy_emit_gpu_calibration_serial(data) };
        }

        fn plot_unit(&mut self, name: &'static CStr, unit: Unit) {
            let format = match unit {
                Unit::Number => sys::TracyPlotFormatEnum_TracyPlotFormatNumber,
                Unit::Bytes => sys::TracyPlotFormatEnum_TracyPlotFormatMemory,
            };
            // SAFETY: terminated, and lives as long as the client.
            unsafe { sys::___tracy_emit_plot_config(name.as_ptr(), format as i32, 1, 1, 0) };
        }

        fn plot(&mut self, name: &'static CStr, value: i64) {
            // SAFETY: as above.
            unsafe { sys::___tracy_emit_plot_int(name.as_ptr(), value) };
        }
    }
}
