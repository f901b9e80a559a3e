//! Strandline through the C functions of its tool library, loaded as a C program would: `dlopen`, `dlsym`, calls.
//!
//! The tool library works under an SDK; here that is the stand-in one, which is loaded beside it. Both are looked for
//! beside this program. Where cargo runs the program it is asked to bring them up to date first.

use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments::Arguments;
use crate::ours;

const TOOL: &str = "libstrandline_rocprofiler.so";
const SDK: &str = "libsim_rocprofiler_sdk.so";

type Start = unsafe extern "C" fn(*mut u64) -> i32;
type Stop = unsafe extern "C" fn(u64, u64, *mut c_void) -> i32;
type Name = unsafe extern "C" fn(*const c_char) -> u64;
type Mark = unsafe extern "C" fn(u64, u64, u64);

/// The library's functions.
#[derive(Clone, Copy, Debug)]
struct Functions {
    start: Start,
    stop: Stop,
    name: Name,
    mark: Mark,
}

/// The loaded library, with a region of its own.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    path: PathBuf,
}

fn beside(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let dir = own.parent().unwrap_or(Path::new("."));
    [dir, dir.parent().unwrap_or(dir)]
        .into_iter()
        .map(|dir| dir.join(name))
        .find(|path| path.exists())
        .ok_or_else(|| format!("{name} is not beside the program; cargo build --release makes it"))
}

/// Where cargo runs this program: has it build the libraries as well. Elsewhere they are what they are.
pub fn bring_up_to_date(arguments: &Arguments) {
    let (Some(cargo), Ok(own)) = (std::env::var_os("CARGO"), std::env::current_exe()) else {
        return;
    };
    let Some(dir) = own.parent().filter(|_| !arguments.quick) else {
        return;
    };
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "strandline-rocprofiler"]);
    build.args(["-p", "sim-rocprofiler-sdk", "--manifest-path"]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    if dir.ends_with("release") {
        build.arg("--release");
    }
    if let Some(target) = dir.parent() {
        build.arg("--target-dir").arg(target);
    }
    if !build.status().is_ok_and(|status| status.success()) {
        eprintln!("the tool library could not be built; what is there is used");
    }
}

fn open(path: &Path) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a terminated name; the libraries' constructors are ours.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        return Err(format!("{}: the loader refused it", path.display()));
    }
    Ok(handle)
}

fn symbol(handle: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let text = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: a handle of the loader and a terminated name.
    let symbol = unsafe { libc::dlsym(handle, text.as_ptr()) };
    if symbol.is_null() {
        return Err(format!("{TOOL} has no {name}"));
    }
    Ok(symbol)
}

impl Library {
    /// Loads the libraries. The process's environment is set first, as `strandline record` would; call it before any
    /// thread exists.
    pub fn load(budget_bytes: u64) -> Result<Self, String> {
        let (sdk, tool) = (beside(SDK)?, beside(TOOL)?);
        let path = ours::region_path();
        for (name, value) in [
            ("STRANDLINE_OUT", path.as_os_str().to_owned()),
            ("STRANDLINE_START", "api".into()),
            ("STRANDLINE_BUDGET", budget_bytes.to_string().into()),
            ("STRANDLINE_PREFAULT", "on".into()),
        ] {
            // SAFETY: no other thread exists yet (the caller's promise).
            unsafe { std::env::set_var(name, value) };
        }
        open(&sdk)?;
        let handle = open(&tool)?;
        let get = |name| symbol(handle, name);
        // SAFETY: the functions have these types (the library's header).
        let functions = unsafe {
            Functions {
                start: std::mem::transmute::<*mut c_void, Start>(get("strandline_session_start")?),
                stop: std::mem::transmute::<*mut c_void, Stop>(get("strandline_session_stop")?),
                name: std::mem::transmute::<*mut c_void, Name>(get("strandline_intern")?),
                mark: std::mem::transmute::<*mut c_void, Mark>(get("strandline_instant")?),
            }
        };
        Ok(Self { functions, path })
    }

    /// Opens a session.
    pub fn start(&self) -> Result<u64, String> {
        let mut session = 0;
        // SAFETY: `session` is valid for writing.
        match unsafe { (self.functions.start)(&mut session) } {
            0 => Ok(session),
            status => Err(format!("strandline_session_start: status {status}")),
        }
    }

    /// The region's file, still readable though its name is gone. After the first start.
    pub fn file(&self) -> Result<std::fs::File, String> {
        let file = std::fs::File::open(&self.path)
            .map_err(|error| format!("opening {}: {error}", self.path.display()))?;
        let _ = std::fs::remove_file(&self.path);
        Ok(file)
    }

    /// Stops a session.
    pub fn stop(&self, session: u64) -> Result<(), String> {
        // SAFETY: no result is asked for.
        match unsafe { (self.functions.stop)(session, 5_000_000_000, std::ptr::null_mut()) } {
            0 => Ok(()),
            status => Err(format!("strandline_session_stop: status {status}")),
        }
    }

    /// The id of a name.
    pub fn name(&self, name: &str) -> u64 {
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: a terminated string.
        unsafe { (self.functions.name)(text.as_ptr()) }
    }

    /// The append that is timed.
    #[inline(always)]
    pub fn mark(&self, name: u64, sequence: u64, producer: u64) {
        // SAFETY: callable from any thread at any time.
        unsafe { (self.functions.mark)(name, sequence, producer) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
