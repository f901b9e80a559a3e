//! Opening a vendor's library in a child process and asking it what it is.
//!
//! The child is this program with `doctor --probe LIBRARY`. It prints one `key value` pair a line and leaves by `_exit`,
//! so that none of the library's exit handlers run.

use std::env;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a library may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the child found.
#[derive(Debug, Default)]
pub(super) struct Probed {
    pairs: Vec<(String, String)>,
    /// How the child ended, when not as it should.
    pub(super) died: Option<String>,
}

impl Probed {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a key as a number.
    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// The file that was opened.
    pub(super) fn opened(&self) -> Option<&str> {
        self.get("opened")
    }

    /// Why nothing came of it, in words.
    pub(super) fn why_not(&self) -> String {
        match (self.get("error"), &self.died) {
            (Some(error), _) => error.to_owned(),
            (None, Some(died)) => died.clone(),
            (None, None) => "it gave no answer".to_owned(),
        }
    }
}

/// Opens `library` in a child process.
pub(super) fn probe(library: &OsStr) -> Probed {
    run(library).unwrap_or_else(|error| Probed {
        pairs: Vec::new(),
        died: Some(format!("the child process could not be run: {error}")),
    })
}

fn run(library: &OsStr) -> io::Result<Probed> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["doctor", "--probe"]).arg(library);
    // The SDK would load these tools in the child, and ours would record it; with that value it stays off.
    command.env_remove("ROCP_TOOL_LIBRARIES");
    command.env("STRANDLINE_MODE", "off");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes)?;
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let pairs = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let died = match status {
        None => Some(format!("it did not answer within {} s", PATIENCE.as_secs())),
        Some(status) if status.success() => None,
        Some(status) => Some(format!(
            "the library ended the process that opened it ({status})"
        )),
    };
    Ok(Probed { pairs, died })
}

type Version = unsafe extern "C" fn(*mut u32, *mut u32, *mut u32) -> c_int;
type Query = unsafe extern "C" fn(*mut c_int) -> c_int;
type Configure = unsafe extern "C" fn(u32, *const c_char, u32, *mut c_void) -> *mut ConfigureResult;
type ForceConfigure = unsafe extern "C" fn(Configure) -> c_int;
type CreateContext = unsafe extern "C" fn(*mut u64) -> c_int;

/// `rocprofiler_tool_configure_result_t` (facts: 32 bytes).
#[repr(C)]
struct ConfigureResult {
    size: usize,
    initialize: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    finalize: Option<unsafe extern "C" fn(*mut c_void)>,
    tool_data: *mut c_void,
}

/// Our place among the SDK's tools in the child, -1 when we were not asked.
static PRIORITY: AtomicI32 = AtomicI32::new(-1);
/// What creating a context answered in the child, -1 when it was not tried.
static CONTEXT: AtomicI32 = AtomicI32::new(-1);

/// Runs in the child, and ends it.
pub(super) fn in_child(library: &OsStr) -> ! {
    let mut out = io::stdout();
    let mut tell = |key: &str, value: &str| {
        let _ = writeln!(out, "{key} {}", value.replace('\n', " "));
        let _ = out.flush();
    };
    if let Ok(name) = CString::new(library.as_bytes()) {
        // SAFETY: a valid C string; the child exists to find out what opening the library does.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        if handle.is_null() {
            tell("error", &dl_error());
        } else {
            ask(&Library(handle), library, &mut tell);
        }
    }
    // SAFETY: ends the child without running any exit handler.
    unsafe { libc::_exit(0) }
}

fn ask(library: &Library, name: &OsStr, tell: &mut dyn FnMut(&str, &str)) {
    tell(
        "opened",
        &library
            .path()
            .unwrap_or_else(|| name.to_string_lossy().into_owned()),
    );
    if library.symbol(c"rocprofiler_configure").is_some() {
        tell("rocprofiler_configure", "yes");
    }
    if let Some(symbol) = library.symbol(c"rocprofiler_get_version") {
        // SAFETY: the symbol has this type in every version of the SDK (facts, section I).
        let version: Version = unsafe { std::mem::transmute(symbol) };
        let [mut major, mut minor, mut patch] = [0u32; 3];
        // SAFETY: three valid places.
        unsafe { version(&raw mut major, &raw mut minor, &raw mut patch) };
        tell("version", &format!("{major}.{minor}.{patch}"));
    }
    for name in [c"cuDriverGetVersion", c"cuptiGetVersion"] {
        if let Some(symbol) = library.symbol(name) {
            // SAFETY: both functions take one pointer to a 32-bit number and return a status.
            let version: Query = unsafe { std::mem::transmute(symbol) };
            let mut number = 0;
            // SAFETY: a valid place.
            if unsafe { version(&raw mut number) } == 0 {
                tell("version", &number.to_string());
            }
        }
    }
    if let Some(symbol) = library.symbol(c"rocprofiler_is_initialized") {
        // SAFETY: the symbol has this type (facts, A.4).
        let query: Query = unsafe { std::mem::transmute(symbol) };
        let mut status = 0;
        // SAFETY: a valid place.
        unsafe { query(&raw mut status) };
        tell("initialized", &status.to_string());
    }
    if let Some(symbol) = library.symbol(c"rocprofiler_create_context") {
        CREATE_CONTEXT.store(symbol.addr(), Ordering::SeqCst);
    }
    if let Some(symbol) = library.symbol(c"rocprofiler_force_configure") {
        // SAFETY: the symbol has this type (facts, A.3).
        let force: ForceConfigure = unsafe { std::mem::transmute(symbol) };
        tell("asking", "force_configure");
        // SAFETY: `configure` follows the SDK's rules for tools and lives as long as the process.
        let status = unsafe { force(configure) };
        tell("forced", &status.to_string());
        tell("priority", &PRIORITY.load(Ordering::SeqCst).to_string());
        tell("context", &CONTEXT.load(Ordering::SeqCst).to_string());
    }
}

static CREATE_CONTEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

unsafe extern "C" fn configure(
    _version: u32,
    _runtime: *const c_char,
    priority: u32,
    _client: *mut c_void,
) -> *mut ConfigureResult {
    PRIORITY.store(priority as i32, Ordering::SeqCst);
    // The SDK copies the result and may keep the pointer: it is never freed.
    Box::into_raw(Box::new(ConfigureResult {
        size: size_of::<ConfigureResult>(),
        initialize: Some(initialize),
        finalize: None,
        tool_data: std::ptr::null_mut(),
    }))
}

unsafe extern "C" fn initialize(_finalize: *mut c_void, _data: *mut c_void) -> c_int {
    let address = CREATE_CONTEXT.load(Ordering::SeqCst);
    if address != 0 {
        let pointer = std::ptr::with_exposed_provenance::<c_void>(address);
        // SAFETY: the address is that of `rocprofiler_create_context`, which has this type (facts, section B).
        let create: CreateContext = unsafe { std::mem::transmute(pointer) };
        let mut context = 0;
        // SAFETY: a valid place; contexts may be created in `initialize`.
        CONTEXT.store(unsafe { create(&raw mut context) }, Ordering::SeqCst);
    }
    0
}

/// An open library, never closed.
struct Library(*mut c_void);

impl Library {
    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open and the name is a C string.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    }

    fn path(&self) -> Option<String> {
        let mut map: *mut LinkMap = std::ptr::null_mut();
        // SAFETY: RTLD_DI_LINKMAP stores a pointer to the loader's entry for an open handle.
        let failed = unsafe { libc::dlinfo(self.0, RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        if failed != 0 || map.is_null() {
            return None;
        }
        // SAFETY: the entry lives as long as the library is open; its name is a C string.
        let name = unsafe { CStr::from_ptr((*map).name) };
        (!name.is_empty()).then(|| name.to_string_lossy().into_owned())
    }
}

/// `dlinfo` request, from `dlfcn.h`.
const RTLD_DI_LINKMAP: c_int = 2;

/// The start of `struct link_map`, from `link.h`.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const c_char,
}

fn dl_error() -> String {
    // SAFETY: dlerror has no preconditions; its string lives until the next dl call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: not null, and a C string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
