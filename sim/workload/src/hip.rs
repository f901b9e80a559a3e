//! HIP's C functions, found at run time.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::links::standin_folder;

/// A handle of HIP: stream, event, graph, module, function.
pub(crate) type Handle = *mut c_void;

/// HIP's `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

/// A shared library that stays open for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library(*mut c_void);

// SAFETY: a loader handle may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens a library by name through the loader, else from the stand-in folder.
    pub(crate) fn find(names: &[&str]) -> Result<(Self, String), String> {
        let mut problem = String::new();
        for name in names {
            match Self::open(Path::new(name)) {
                Ok(library) => return Ok((library, format!("{name} (from the loader's path)"))),
                Err(error) => problem = error,
            }
        }
        if let Some(folder) = standin_folder() {
            let path = folder.join(names[0]);
            let library = Self::open(&path)?;
            return Ok((library, path.display().to_string()));
        }
        Err(format!(
            "cannot load {}: {problem}; there is no stand-in beside this program either",
            names[0]
        ))
    }

    /// Opens a library for all: its symbols become visible to `dlsym(RTLD_DEFAULT)`.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        Self::open_with(path, libc::RTLD_NOW | libc::RTLD_GLOBAL)
    }

    /// The library, if it is loaded already.
    pub(crate) fn loaded(path: &Path) -> Option<Self> {
        Self::open_with(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD).ok()
    }

    fn open_with(path: &Path, mode: c_int) -> Result<Self, String> {
        let text = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| format!("{}: name with a NUL", path.display()))?;
        // SAFETY: NUL-terminated; runs the constructors of a library that the user asked for.
        let handle = unsafe { libc::dlopen(text.as_ptr(), mode) };
        if handle.is_null() {
            // SAFETY: after a failure it is null or a NUL-terminated text.
            let error = unsafe {
                let error = libc::dlerror();
                if error.is_null() {
                    c"unknown error"
                } else {
                    CStr::from_ptr(error)
                }
            };
            return Err(error.to_string_lossy().into_owned());
        }
        Ok(Self(handle))
    }

    /// All libraries that are loaded for everybody.
    pub(crate) fn global() -> Self {
        Self(libc::RTLD_DEFAULT)
    }

    /// Address of a symbol.
    pub(crate) fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: an open handle or a pseudo handle, and a NUL-terminated name.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Makes the table of functions: field, C name and type.
macro_rules! table {
    ($(#[$meta:meta])* $table:ident { $($field:ident: $symbol:literal as $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[allow(missing_docs, reason = "C functions by their names")]
        pub(crate) struct $table {
            $(pub(crate) $field: $type,)*
        }

        impl $table {
            /// Looks up every function.
            pub(crate) fn of(library: Library) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let name: &core::ffi::CStr = $symbol;
                        let address = library
                            .symbol(name)
                            .ok_or_else(|| format!("the library has no {name:?}"))?;
                        // SAFETY: a function of this name has this type by its C header.
                        unsafe { core::mem::transmute::<*mut core::ffi::c_void, $type>(address) }
                    },)*
                })
            }
        }
    };
}
pub(crate) use table;

table! {
    /// What the workloads use of HIP.
    Hip {
        get_device_count: c"hipGetDeviceCount" as unsafe extern "C" fn(*mut c_int) -> c_int,
        set_device: c"hipSetDevice" as unsafe extern "C" fn(c_int) -> c_int,
        get_device: c"hipGetDevice" as unsafe extern "C" fn(*mut c_int) -> c_int,
        device_synchronize: c"hipDeviceSynchronize" as unsafe extern "C" fn() -> c_int,
        error_string: c"hipGetErrorString" as unsafe extern "C" fn(c_int) -> *const c_char,
        malloc: c"hipMalloc" as unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int,
        host_malloc: c"hipHostMalloc" as unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int,
        memcpy_async: c"hipMemcpyAsync"
            as unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int, Handle) -> c_int,
        memset: c"hipMemset" as unsafe extern "C" fn(*mut c_void, c_int, usize) -> c_int,
        stream_create: c"hipStreamCreateWithFlags" as unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
        stream_synchronize: c"hipStreamSynchronize" as unsafe extern "C" fn(Handle) -> c_int,
        stream_query: c"hipStreamQuery" as unsafe extern "C" fn(Handle) -> c_int,
        stream_begin_capture: c"hipStreamBeginCapture" as unsafe extern "C" fn(Handle, c_int) -> c_int,
        stream_end_capture: c"hipStreamEndCapture" as unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
        event_create: c"hipEventCreate" as unsafe extern "C" fn(*mut Handle) -> c_int,
        event_record: c"hipEventRecord" as unsafe extern "C" fn(Handle, Handle) -> c_int,
        launch_kernel: c"hipLaunchKernel"
            as unsafe extern "C" fn(*const c_void, Dim3, Dim3, *mut *mut c_void, usize, Handle) -> c_int,
        graph_instantiate: c"hipGraphInstantiate"
            as unsafe extern "C" fn(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> c_int,
        graph_launch: c"hipGraphLaunch" as unsafe extern "C" fn(Handle, Handle) -> c_int,
        module_load_data: c"hipModuleLoadData" as unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int,
        module_unload: c"hipModuleUnload" as unsafe extern "C" fn(Handle) -> c_int,
        module_get_function: c"hipModuleGetFunction"
            as unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int,
        module_launch_kernel: c"hipModuleLaunchKernel"
            as unsafe extern "C" fn(
                Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
                *mut *mut c_void, *mut *mut c_void,
            ) -> c_int,
        register_fat_binary: c"__hipRegisterFatBinary" as unsafe extern "C" fn(*const c_void) -> *mut *mut c_void,
        register_function: c"__hipRegisterFunction"
            as unsafe extern "C" fn(
                *mut *mut c_void, *const c_void, *mut c_char, *const c_char, c_uint,
                *mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_int,
            ),
    }
}

impl Hip {
    /// Turns a HIP error into a message that names the call.
    pub(crate) fn check(&self, what: &str, error: c_int) -> Result<(), String> {
        if error == 0 {
            return Ok(());
        }
        // SAFETY: returns a static NUL-terminated text for any number.
        let text = unsafe { CStr::from_ptr((self.error_string)(error)) };
        Err(format!(
            "{what}: HIP error {error}: {}",
            text.to_string_lossy()
        ))
    }
}

/// Kernels of a program as a compiler would register them: mangled C++ names, one host stub each.
#[derive(Debug)]
pub(crate) struct Kernels {
    /// One address for each stub.
    stubs: &'static [u8],
    count: usize,
}

impl Kernels {
    /// Registers `node_000`, `node_001`, ... with signature `(float*, int)`.
    pub(crate) fn register(hip: &Hip, count: usize) -> Self {
        /// `__CudaFatBinaryWrapper`, with no image in it.
        #[repr(C)]
        struct FatBinary {
            magic: u32,
            version: u32,
            binary: *const c_void,
            unused: *const c_void,
        }
        let wrapper = Box::leak(Box::new(FatBinary {
            magic: 0x4849_5046,
            version: 1,
            binary: core::ptr::null(),
            unused: core::ptr::null(),
        }));
        let stubs = vec![0_u8; count.max(1)].leak();
        // SAFETY: the wrapper lives for ever.
        let modules = unsafe { (hip.register_fat_binary)(core::ptr::from_ref(wrapper).cast()) };
        for (index, stub) in stubs.iter().enumerate().take(count) {
            let name = CString::new(mangled(index)).unwrap_or_default().into_raw();
            let null = core::ptr::null_mut();
            // SAFETY: `modules` is the handle just made; stub and name live for ever.
            unsafe {
                (hip.register_function)(
                    modules,
                    core::ptr::from_ref(stub).cast(),
                    name,
                    name,
                    u32::MAX,
                    null,
                    null,
                    null,
                    null,
                    null.cast(),
                );
            };
        }
        Self { stubs, count }
    }

    /// Host stub of a kernel.
    pub(crate) fn stub(&self, index: usize) -> *const c_void {
        core::ptr::from_ref(&self.stubs[index % self.count.max(1)]).cast()
    }
}

/// Mangled name of kernel `index`: `node_007(float*, int)` is `_Z8node_007Pfi`.
pub(crate) fn mangled(index: usize) -> String {
    let name = format!("node_{index:03}");
    format!("_Z{}{name}Pfi", name.len())
}
