//! Kernels: fat binaries that compilers register, modules that programs load, and their symbols.
//!
//! A code object is loaded on a device when the runtime starts (fat binaries registered before),
//! or at the first launch there (later ones), and announced to the SDK. The addresses of kernel
//! objects are used again after an unload, as on the real runtime: a reused handle is another
//! kernel.
//!
//! Module images are not read as ELF. An image that begins with `ROCSIM\n` lists kernel names, one a
//! line, and is announced at load; any other image gives each name that is asked for, announced
//! when it is first asked for.

use core::ffi::{c_char, c_void};
use std::ffi::{CStr, CString};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use sim_interface::{CodeObjectDesc, KernelDesc};

use crate::runtime::{self, lock};

/// Bytes between the kernel objects of two devices.
const OBJECT_STRIDE: u64 = 0x40;
/// Bytes between the kernel objects of two kernels: 64 devices.
const OBJECT_SPACING: u64 = 0x1000;
/// First line of a module image that lists its kernels.
pub(crate) const IMAGE_MAGIC: &[u8] = b"ROCSIM\n";

/// One kernel. Never freed (I1).
pub(crate) struct Kernel {
    /// Mangled name.
    pub(crate) name: CString,
    /// Name of its descriptor: with `.kd`, unless the name has it.
    pub(crate) symbol: CString,
    object: u64,
    pub(crate) host_function: usize,
    pub(crate) group_segment: u32,
    pub(crate) private_segment: u32,
    code: &'static Code,
}

/// A fat binary or module. Never freed (I1).
pub(crate) struct Code {
    kernels: Mutex<Vec<&'static Kernel>>,
    /// Devices that it is loaded on, one bit each.
    loaded: AtomicU64,
    /// Address of the image, 0 = none.
    image: usize,
    lists_all: bool,
}

/// Fat binaries that were registered, in order.
static REGISTERED: Mutex<Vec<&'static Code>> = Mutex::new(Vec::new());
static NEXT_OBJECT: AtomicU64 = AtomicU64::new(0x7e00_0000_0000);
/// Addresses of unloaded kernel objects.
static FREE_OBJECTS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Host stubs to kernels: open addressing, written under a lock, read without.
const FUNCTIONS: usize = 1 << 16;
static FUNCTION_KEYS: [AtomicUsize; FUNCTIONS] = [const { AtomicUsize::new(0) }; FUNCTIONS];
static FUNCTION_KERNELS: [AtomicPtr<Kernel>; FUNCTIONS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; FUNCTIONS];
static FUNCTION_LOCK: Mutex<usize> = Mutex::new(0);

impl Kernel {
    fn new(
        code: &'static Code,
        name: &CStr,
        host_function: usize,
        private_segment: u32,
        group_segment: u32,
    ) -> &'static Self {
        let mut symbol = name.to_bytes().to_vec();
        if !symbol.ends_with(b".kd") {
            symbol.extend_from_slice(b".kd");
        }
        let object = lock(&FREE_OBJECTS)
            .pop()
            .unwrap_or_else(|| NEXT_OBJECT.fetch_add(OBJECT_SPACING, Ordering::Relaxed));
        let kernel = Box::leak(Box::new(Self {
            name: name.to_owned(),
            symbol: CString::new(symbol).unwrap_or_default(),
            object,
            host_function,
            group_segment,
            private_segment,
            code,
        }));
        lock(&code.kernels).push(kernel);
        kernel
    }

    /// Its kernel object on a device.
    #[inline]
    pub(crate) fn object(&self, gpu: u32) -> u64 {
        self.object + u64::from(gpu) * OBJECT_STRIDE
    }

    /// Loads its code object on a device, if it is not.
    #[inline]
    pub(crate) fn ensure_loaded(&self, gpu: u32) {
        if self.code.loaded.load(Ordering::Acquire) & (1 << gpu) == 0 {
            self.code.load(gpu);
        }
    }

    /// The kernel of a HIP function handle.
    pub(crate) fn of_handle(handle: *mut c_void) -> Option<&'static Self> {
        // SAFETY: HIP's contract: null or what `hipModuleGetFunction` gave; never freed (I1).
        unsafe { handle.cast::<Self>().as_ref() }
    }

    /// The kernel of a host stub.
    #[inline]
    pub(crate) fn of_function(function: *const c_void) -> Option<&'static Self> {
        let key = function as usize;
        if key == 0 {
            return None;
        }
        let mut slot = hash(key);
        for _ in 0..FUNCTIONS {
            match FUNCTION_KEYS[slot].load(Ordering::Acquire) {
                0 => return None,
                found if found == key => {
                    let kernel = FUNCTION_KERNELS[slot].load(Ordering::Acquire);
                    // SAFETY: null (unregistered) or a kernel, never freed (I1).
                    return unsafe { kernel.as_ref() };
                }
                _ => slot = (slot + 1) % FUNCTIONS,
            }
        }
        None
    }
}

fn hash(key: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % FUNCTIONS
}

fn set_function(key: usize, kernel: *mut Kernel) {
    if key == 0 {
        return;
    }
    let mut used = lock(&FUNCTION_LOCK);
    let mut slot = hash(key);
    loop {
        let found = FUNCTION_KEYS[slot].load(Ordering::Acquire);
        if found == key || (found == 0 && *used < FUNCTIONS / 2) {
            FUNCTION_KERNELS[slot].store(kernel, Ordering::Release);
            if found == 0 {
                // Release: who sees the key sees the kernel.
                FUNCTION_KEYS[slot].store(key, Ordering::Release);
                *used += 1;
            }
            return;
        }
        if found == 0 {
            eprintln!("stand-in HIP: more than {} host functions", FUNCTIONS / 2);
            return;
        }
        slot = (slot + 1) % FUNCTIONS;
    }
}

impl Code {
    fn new(image: usize, lists_all: bool) -> &'static Self {
        Box::leak(Box::new(Self {
            kernels: Mutex::new(Vec::new()),
            loaded: AtomicU64::new(0),
            image,
            lists_all,
        }))
    }

    fn handle(&self, gpu: u32) -> u64 {
        core::ptr::from_ref(self) as u64 + u64::from(gpu)
    }

    /// Loads all its kernels on a device and tells the SDK.
    pub(crate) fn load(&'static self, gpu: u32) {
        let kernels = lock(&self.kernels).clone();
        if self.loaded.fetch_or(1 << gpu, Ordering::AcqRel) & (1 << gpu) != 0 {
            return;
        }
        announce(self, gpu, self.handle(gpu), &kernels);
    }

    /// Unloads it from all devices.
    pub(crate) fn unload(&'static self) {
        let loaded = self.loaded.swap(0, Ordering::AcqRel);
        let kernels = core::mem::take(&mut *lock(&self.kernels));
        if let Some(hooks) = runtime::hooks() {
            for gpu in (0..64).filter(|gpu| loaded & (1 << gpu) != 0) {
                // SAFETY: takes any number.
                unsafe { (hooks.code_object_unload)(self.handle(gpu)) };
                if !self.lists_all {
                    for kernel in &kernels {
                        // SAFETY: as above; kernels asked for one by one were announced alone.
                        unsafe { (hooks.code_object_unload)(kernel.object(gpu)) };
                    }
                }
            }
        }
        for kernel in kernels {
            set_function(kernel.host_function, core::ptr::null_mut());
            lock(&FREE_OBJECTS).push(kernel.object);
        }
    }

    /// The module of a handle.
    pub(crate) fn of_handle(handle: *mut c_void) -> Option<&'static Self> {
        // SAFETY: HIP's contract: null or a module's or fat binary's handle; never freed (I1).
        unsafe { handle.cast::<Self>().as_ref() }
    }

    /// The kernel of this name, for a device.
    pub(crate) fn function(&'static self, name: &CStr, gpu: u32) -> Option<&'static Kernel> {
        let found = lock(&self.kernels)
            .iter()
            .copied()
            .find(|kernel| kernel.name.as_c_str() == name);
        if found.is_some() || self.lists_all {
            return found;
        }
        let kernel = Kernel::new(self, name, 0, 0, 0);
        announce(self, gpu, kernel.object(gpu), &[kernel]);
        Some(kernel)
    }
}

fn announce(code: &Code, gpu: u32, handle: u64, kernels: &[&'static Kernel]) {
    let Some(hooks) = runtime::hooks() else {
        return;
    };
    let image = if code.image == 0 {
        handle as usize
    } else {
        code.image
    };
    let size = 4096 * (kernels.len() as u64 + 1);
    let uri = format!(
        "memory://{}#offset={image:#x}&size={size}",
        std::process::id()
    );
    let uri = CString::new(uri).unwrap_or_default();
    let descs: Vec<KernelDesc> = kernels
        .iter()
        .map(|kernel| KernelDesc {
            name: kernel.symbol.as_ptr(),
            kernel_object: kernel.object(gpu),
            host_function: kernel.host_function as u64,
            device_function: kernel.name.as_ptr(),
            modules: core::ptr::from_ref(code) as u64,
            group_segment: kernel.group_segment,
            private_segment: kernel.private_segment,
            sgpr_count: 32,
            arch_vgpr_count: 24,
            accum_vgpr_count: 0,
        })
        .collect();
    let desc = CodeObjectDesc {
        gpu,
        handle,
        uri: uri.as_ptr(),
        load_base: kernels
            .first()
            .map_or(0x7d00_0000_0000, |kernel| kernel.object(gpu)),
        load_size: size,
        memory_base: image as u64,
        memory_size: size,
        kernels: descs.as_ptr(),
        kernels_len: descs.len() as u64,
    };
    // SAFETY: everything in the description lives across the call, which copies.
    unsafe { (hooks.code_object_load)(&raw const desc) };
}

/// `__hipRegisterFatBinary`: the handle is the code itself.
pub(crate) fn register_fat_binary(data: *const c_void) -> &'static Code {
    let code = Code::new(data as usize, true);
    lock(&REGISTERED).push(code);
    code
}

/// `__hipRegisterFunction`.
pub(crate) fn register_function(code: &'static Code, host_function: usize, name: &CStr) {
    let kernel = Kernel::new(code, name, host_function, 0, 0);
    set_function(host_function, core::ptr::from_ref(kernel).cast_mut());
}

/// `__hipUnregisterFatBinary`.
pub(crate) fn unregister_fat_binary(code: &'static Code) {
    lock(&REGISTERED).retain(|registered| !core::ptr::eq(*registered, code));
    code.unload();
}

/// Loads the fat binaries registered so far on a device.
pub(crate) fn load_registered(gpu: u32) {
    let registered = lock(&REGISTERED).clone();
    for code in registered {
        code.load(gpu);
    }
}

/// Loads a module on a device.
pub(crate) fn load_module(image: &[u8], address: usize, gpu: u32) -> &'static Code {
    let code = if let Some(list) = image.strip_prefix(IMAGE_MAGIC) {
        let code = Code::new(address, true);
        for name in list
            .split(|&b| b == b'\n' || b == 0)
            .filter(|name| !name.is_empty())
        {
            if let Ok(name) = CString::new(name) {
                Kernel::new(code, &name, 0, 0, 0);
            }
        }
        code
    } else {
        Code::new(address, false)
    };
    code.load(gpu);
    code
}

/// Kernels of a recording, as one code object. `names` are as recorded.
pub(crate) fn load_recorded(
    kernels: &[(CString, u32, u32)],
    gpu: u32,
) -> (&'static Code, Vec<&'static Kernel>) {
    let code = Code::new(0, true);
    let kernels = kernels
        .iter()
        .map(|(name, private, group)| {
            let kernel = Kernel::new(code, name, 0, *private, *group);
            set_function(
                core::ptr::from_ref(kernel) as usize,
                core::ptr::from_ref(kernel).cast_mut(),
            );
            kernel
        })
        .collect();
    code.load(gpu);
    (code, kernels)
}

/// The runtime's own kernels: fill and copy. Loaded at first use on a device.
pub(crate) struct Blit {
    pub(crate) fill: &'static Kernel,
    pub(crate) copy: &'static Kernel,
}

/// The runtime's own kernels, loaded on a device.
pub(crate) fn blit(gpu: u32) -> &'static Blit {
    static BLIT: std::sync::OnceLock<Blit> = std::sync::OnceLock::new();
    let blit = BLIT.get_or_init(|| {
        let code = Code::new(0, true);
        Blit {
            fill: Kernel::new(code, c"__amd_rocclr_fillBufferAligned", 0, 0, 0),
            copy: Kernel::new(code, c"__amd_rocclr_copyBuffer", 0, 0, 0),
        }
    });
    blit.fill.ensure_loaded(gpu);
    blit
}

/// Name of a kernel by host stub or handle, as HIP's name functions give it.
pub(crate) fn name_of(kernel: Option<&'static Kernel>) -> *const c_char {
    kernel.map_or(core::ptr::null(), |kernel| kernel.name.as_ptr())
}
