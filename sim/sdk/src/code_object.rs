//! Code objects and kernel symbols: announced once, at load, to the contexts active then.
//!
//! Order at a load: the object, then each device symbol, followed by its host symbol if known.
//! Objects loaded while no context wanted them are announced at the next load that has one. At
//! unload: the object first, then its device symbols, to the contexts of the last load that had
//! any. Names that a callback gets are overwritten with 0xDD when it returns, so that a tool that
//! kept the pointer reads rubbish at once (the real names die later, but they die).
//!
//! Callbacks run under the list's lock: loading another object inside one deadlocks.

use core::ffi::{c_char, c_void};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use sim_interface::{CodeObjectDesc, KernelDesc};

use crate::abi::{
    CodeObjectData, HostSymbolData, KernelSymbolData, PHASE_ENTER, PHASE_EXIT, callback_kind,
};
use crate::context;
use crate::correlation::lock;
use crate::{agents, trace};

const KIND: u32 = callback_kind::CODE_OBJECT;
const LOAD: i32 = 1;
const DEVICE_SYMBOL: i32 = 2;
const HOST_SYMBOL: i32 = 3;
/// `storage_type` of an image in memory.
const STORAGE_MEMORY: u32 = 2;

struct Kernel {
    id: u64,
    name: CString,
    device_function: Option<CString>,
    desc: KernelDesc,
    user_data: HashMap<usize, u64>,
}

struct Object {
    id: u64,
    uri: CString,
    desc: CodeObjectDesc,
    kernels: Vec<Kernel>,
    /// Contexts that heard of its load.
    told: u64,
    announced: bool,
    user_data: HashMap<usize, u64>,
}

// SAFETY: the raw pointers in the descriptions were copied from at load and are not read again.
unsafe impl Send for Object {}

#[derive(Default)]
struct Objects {
    list: Vec<Object>,
    /// Contexts of the last load that had any: those that hear of every unload.
    contexts: u64,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects {
    list: Vec::new(),
    contexts: 0,
});
static NEXT_OBJECT: AtomicU64 = AtomicU64::new(1);
static NEXT_KERNEL: AtomicU64 = AtomicU64::new(1);
static NEXT_HOST: AtomicU64 = AtomicU64::new(1);
/// Kernel ids by the handle that dispatches use.
static KERNEL_IDS: RwLock<Option<HashMap<u64, u64>>> = RwLock::new(None);

/// The id of a kernel; 0 if the SDK never saw its code object.
pub(crate) fn kernel_id(kernel_object: u64) -> u64 {
    KERNEL_IDS
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .as_ref()
        .and_then(|ids| ids.get(&kernel_object).copied())
        .unwrap_or(0)
}

/// An executable was frozen.
pub(crate) unsafe extern "C" fn load(desc: *const CodeObjectDesc) {
    // SAFETY: the runtime's description, for this call.
    let desc = unsafe { *desc };
    let kernels: &[KernelDesc] = if desc.kernels_len == 0 {
        &[]
    } else {
        // SAFETY: the runtime's array of that many kernels.
        unsafe { core::slice::from_raw_parts(desc.kernels, desc.kernels_len as usize) }
    };
    let object = Object {
        id: NEXT_OBJECT.fetch_add(1, Ordering::Relaxed),
        uri: copy(desc.uri).unwrap_or_default(),
        kernels: kernels
            .iter()
            .map(|kernel| Kernel {
                id: NEXT_KERNEL.fetch_add(1, Ordering::Relaxed),
                name: copy(kernel.name).unwrap_or_default(),
                device_function: copy(kernel.device_function),
                desc: *kernel,
                user_data: HashMap::new(),
            })
            .collect(),
        desc,
        told: 0,
        announced: false,
        user_data: HashMap::new(),
    };
    {
        let mut ids = KERNEL_IDS
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let ids = ids.get_or_insert_default();
        for kernel in &object.kernels {
            ids.insert(kernel.desc.kernel_object, kernel.id);
        }
    }
    let mut objects = lock(&OBJECTS);
    objects.list.push(object);
    let receivers = receivers();
    if receivers == 0 {
        return;
    }
    objects.contexts = receivers;
    for object in objects.list.iter_mut().filter(|object| !object.announced) {
        object.announced = true;
        object.told = receivers;
        announce_load(object, receivers);
    }
}

fn receivers() -> u64 {
    let wanted = context::wants_callback(KIND, LOAD)
        | context::wants_callback(KIND, DEVICE_SYMBOL)
        | context::wants_callback(KIND, HOST_SYMBOL);
    context::active() & wanted
}

fn announce_load(object: &mut Object, receivers: u64) {
    tell_object(object, receivers, PHASE_ENTER);
    for index in 0..object.kernels.len() {
        tell_kernel(object, index, receivers, PHASE_ENTER);
        if object.kernels[index].desc.host_function != 0 {
            tell_host(object, index, receivers);
        }
    }
}

fn tell_object(object: &mut Object, receivers: u64, phase: u32) {
    for context in context::each(receivers & context::wants_callback(KIND, LOAD)) {
        let name = Dying::new(&object.uri);
        let mut payload = CodeObjectData {
            size: size_of::<CodeObjectData>() as u64,
            code_object_id: object.id,
            agent_id: agents::gpu_id(object.desc.gpu),
            hsa_agent: agents::hsa_handle(object.desc.gpu),
            uri: name.pointer(),
            load_base: object.desc.load_base,
            load_size: object.desc.load_size,
            load_delta: object.desc.load_base.cast_signed(),
            storage_type: STORAGE_MEMORY,
            padding: 0xdddd_dddd,
            memory_base: object.desc.memory_base,
            memory_size: object.desc.memory_size,
        };
        let slot = object.user_data.entry(context.index).or_default();
        trace::call_back_plain(context, KIND, LOAD, phase, slot, as_payload(&mut payload));
    }
}

fn tell_kernel(object: &mut Object, index: usize, receivers: u64, phase: u32) {
    let kernel = &mut object.kernels[index];
    for context in context::each(receivers & context::wants_callback(KIND, DEVICE_SYMBOL)) {
        let name = Dying::new(&kernel.name);
        let mut payload = KernelSymbolData {
            size: size_of::<KernelSymbolData>() as u64,
            kernel_id: kernel.id,
            code_object_id: object.id,
            kernel_name: name.pointer(),
            kernel_object: kernel.desc.kernel_object,
            kernarg_segment_size: 64,
            kernarg_segment_alignment: 64,
            group_segment_size: kernel.desc.group_segment,
            private_segment_size: kernel.desc.private_segment,
            sgpr_count: kernel.desc.sgpr_count,
            arch_vgpr_count: kernel.desc.arch_vgpr_count,
            accum_vgpr_count: kernel.desc.accum_vgpr_count,
            padding: 0xdddd_dddd,
            kernel_code_entry_byte_offset: 256,
            kernel_address: kernel.desc.kernel_object + 256,
        };
        let slot = kernel.user_data.entry(context.index).or_default();
        trace::call_back_plain(
            context,
            KIND,
            DEVICE_SYMBOL,
            phase,
            slot,
            as_payload(&mut payload),
        );
    }
}

/// Host symbols ignore the operation filter: they come whenever device symbols are wanted.
fn tell_host(object: &mut Object, index: usize, receivers: u64) {
    let kernel = &mut object.kernels[index];
    let wanted =
        context::wants_callback(KIND, DEVICE_SYMBOL) | context::wants_callback(KIND, HOST_SYMBOL);
    let id = NEXT_HOST.fetch_add(1, Ordering::Relaxed);
    let empty = CString::default();
    for context in context::each(receivers & wanted) {
        let name = Dying::new(kernel.device_function.as_ref().unwrap_or(&empty));
        let mut payload = HostSymbolData {
            size: size_of::<HostSymbolData>() as u64,
            host_function_id: id,
            kernel_id: kernel.id,
            code_object_id: object.id,
            host_function: kernel.desc.host_function,
            modules: kernel.desc.modules,
            device_function: name.pointer(),
            thread_limit: u32::MAX,
            thread_ids: [0; 3],
            block_ids: [0; 3],
            block_dims: [0; 3],
            grid_dims: [0; 3],
            padding: 0xdddd_dddd,
            workgroup_size: 0,
        };
        let slot = kernel.user_data.entry(context.index).or_default();
        trace::call_back_plain(
            context,
            KIND,
            HOST_SYMBOL,
            PHASE_ENTER,
            slot,
            as_payload(&mut payload),
        );
    }
}

fn announce_unload(object: &mut Object, receivers: u64) {
    if receivers & !object.told != 0 {
        eprintln!(
            "stand-in SDK: a second CODE_OBJECT context was started between two loads: the real SDK \
             throws std::out_of_range at the unload of the older object; aborting"
        );
        std::process::abort();
    }
    tell_object(object, receivers, PHASE_EXIT);
    for index in 0..object.kernels.len() {
        tell_kernel(object, index, receivers, PHASE_EXIT);
    }
}

/// An executable is about to be destroyed.
pub(crate) unsafe extern "C" fn unload(handle: u64) {
    let mut objects = lock(&OBJECTS);
    let Some(index) = objects
        .list
        .iter()
        .position(|object| object.desc.handle == handle)
    else {
        return;
    };
    let mut object = objects.list.remove(index);
    let receivers = objects.contexts;
    // Kernel ids of the handles stay: the real SDK cleans that map with the wrong key.
    if object.announced {
        announce_unload(&mut object, receivers);
    }
}

/// Announces the unload of everything, for finalization.
pub(crate) fn unload_all() {
    let mut objects = lock(&OBJECTS);
    let receivers = objects.contexts;
    for mut object in objects.list.drain(..) {
        if object.announced {
            announce_unload(&mut object, receivers);
        }
    }
}

fn as_payload<T>(payload: &mut T) -> *mut c_void {
    core::ptr::from_mut(payload).cast()
}

fn copy(text: *const c_char) -> Option<CString> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and NUL-terminated by the interface.
    Some(unsafe { CStr::from_ptr(text) }.to_owned())
}

/// A name for one callback: overwritten when dropped, and never freed, so that a late reader finds
/// 0xDD and a NUL, not chance.
struct Dying(*mut [u8]);

impl Dying {
    fn new(name: &CStr) -> Self {
        Self(Box::into_raw(
            name.to_bytes_with_nul().to_vec().into_boxed_slice(),
        ))
    }

    fn pointer(&self) -> *const c_char {
        self.0.cast::<c_char>().cast_const()
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        // SAFETY: the bytes are this object's and never freed; other readers break the rules.
        let bytes = unsafe { &mut *self.0 };
        let last = bytes.len() - 1;
        bytes[..last].fill(0xdd);
    }
}
