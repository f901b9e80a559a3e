//! The trace window around a workload: none, roctx pause and resume, or three C functions of a tool.

use core::ffi::{c_char, c_int};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::hip::{Library, table};

/// How the window is opened and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Not at all: the tool traces from load to exit.
    None,
    /// `roctxProfilerResume` and `roctxProfilerPause`.
    Roctx,
    /// Session functions of the tool library.
    Api,
}

/// What a session's stop said; all words as the C struct has them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct StopResult {
    size: u64,
    verdict: u64,
    session: u64,
    issued: u64,
    recorded: u64,
    retired_without_record: u64,
    missing: u64,
    low_watermark: u64,
    high_watermark: u64,
    late: u64,
    lost: u64,
    waited_ns: u64,
}

/// One line about a stop.
#[derive(Debug, Serialize)]
struct StopLine {
    stop_status: c_int,
    launched: u64,
    #[serde(flatten)]
    result: StopResult,
}

table! {
    /// Pause and resume.
    Roctx {
        pause: c"roctxProfilerPause" as unsafe extern "C" fn(u64) -> c_int,
        resume: c"roctxProfilerResume" as unsafe extern "C" fn(u64) -> c_int,
    }
}

/// Session functions of a tool.
#[derive(Debug, Clone, Copy)]
struct Api {
    start: unsafe extern "C" fn(*mut u64) -> c_int,
    stop: unsafe extern "C" fn(u64, u64, *mut StopResult) -> c_int,
    export: unsafe extern "C" fn(u64, *const c_char) -> c_int,
}

/// Names of the session functions, without NUL.
#[derive(Debug, Clone)]
pub(crate) struct Symbols {
    pub(crate) start: String,
    pub(crate) stop: String,
    pub(crate) export: String,
    /// Library that has them; else those in `ROCP_TOOL_LIBRARIES` and all global symbols.
    pub(crate) library: Option<PathBuf>,
}

/// The window.
#[derive(Debug)]
pub(crate) enum Window {
    None,
    Roctx(RoctxWindow),
    Api(ApiWindow),
}

/// A window by roctx.
#[derive(Debug)]
pub(crate) struct RoctxWindow(Roctx);

/// A window by session functions.
#[derive(Debug)]
pub(crate) struct ApiWindow {
    api: Api,
    session: u64,
    deadline_ns: u64,
}

impl Window {
    /// Finds what the window needs. After the first HIP call, so that tools are loaded.
    pub(crate) fn prepare(kind: Kind, symbols: &Symbols, deadline_ns: u64) -> Result<Self, String> {
        match kind {
            Kind::None => Ok(Self::None),
            Kind::Roctx => {
                let (library, _) = Library::find(&[
                    "librocprofiler-sdk-roctx.so.1",
                    "librocprofiler-sdk-roctx.so",
                ])?;
                Ok(Self::Roctx(RoctxWindow(Roctx::of(library)?)))
            }
            Kind::Api => Ok(Self::Api(ApiWindow {
                api: find_api(symbols)?,
                session: 0,
                deadline_ns,
            })),
        }
    }

    /// Opens the window.
    pub(crate) fn open(&mut self) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            // SAFETY: takes any thread id; 0 is the process.
            Self::Roctx(RoctxWindow(roctx)) => match unsafe { (roctx.resume)(0) } {
                0 => Ok(()),
                error => Err(format!("roctxProfilerResume: {error}")),
            },
            // SAFETY: writes one word.
            Self::Api(window) => match unsafe { (window.api.start)(&raw mut window.session) } {
                0 => Ok(()),
                status => Err(format!("session start: status {status}")),
            },
        }
    }

    /// Closes the window and prints the stop's result as one JSON line.
    pub(crate) fn close(&mut self, launched: u64) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            // SAFETY: takes any thread id; 0 is the process.
            Self::Roctx(RoctxWindow(roctx)) => match unsafe { (roctx.pause)(0) } {
                0 => Ok(()),
                error => Err(format!("roctxProfilerPause: {error}")),
            },
            Self::Api(window) => {
                let mut result = StopResult {
                    size: size_of::<StopResult>() as u64,
                    ..StopResult::default()
                };
                // SAFETY: the struct lives across the call, and `size` says how large it is.
                let stop_status = unsafe {
                    (window.api.stop)(window.session, window.deadline_ns, &raw mut result)
                };
                let line = StopLine {
                    stop_status,
                    launched,
                    result,
                };
                print_json(&line);
                Ok(())
            }
        }
    }

    /// Saves the session to a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let Self::Api(window) = self else {
            return Err("--save needs --window api".to_owned());
        };
        let text = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| format!("{}: name with a NUL", path.display()))?;
        // SAFETY: a NUL-terminated path that lives across the call.
        match unsafe { (window.api.export)(window.session, text.as_ptr()) } {
            0 => Ok(()),
            status => Err(format!("saving to {}: status {status}", path.display())),
        }
    }
}

/// Prints one JSON line on stdout; a closed pipe is not an error of the workload.
pub(crate) fn print_json(value: &impl Serialize) {
    use std::io::Write as _;
    if let Ok(text) = serde_json::to_string(value) {
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

fn find_api(symbols: &Symbols) -> Result<Api, String> {
    let mut libraries = Vec::new();
    if let Some(path) = &symbols.library {
        libraries.push(Library::open(path)?);
    }
    libraries.push(Library::global());
    if let Some(list) = std::env::var_os("ROCP_TOOL_LIBRARIES") {
        for path in list
            .as_bytes()
            .split(|&b| b == b':')
            .filter(|path| !path.is_empty())
        {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            libraries.extend(Library::loaded(path));
        }
    }
    let find = |name: &str| {
        let name = CString::new(name).map_err(|_| "symbol name with a NUL".to_owned())?;
        libraries
            .iter()
            .find_map(|library| library.symbol(&name))
            .ok_or_else(|| {
                format!("no loaded library has {name:?}: is the tool in ROCP_TOOL_LIBRARIES?")
            })
    };
    let (start, stop, export) = (
        find(&symbols.start)?,
        find(&symbols.stop)?,
        find(&symbols.export)?,
    );
    // SAFETY: functions of these names have these types by the tool's contract.
    unsafe {
        Ok(Api {
            start: core::mem::transmute::<
                *mut core::ffi::c_void,
                unsafe extern "C" fn(*mut u64) -> c_int,
            >(start),
            stop: core::mem::transmute::<
                *mut core::ffi::c_void,
                unsafe extern "C" fn(u64, u64, *mut StopResult) -> c_int,
            >(stop),
            export: core::mem::transmute::<
                *mut core::ffi::c_void,
                unsafe extern "C" fn(u64, *const c_char) -> c_int,
            >(export),
        })
    }
}
