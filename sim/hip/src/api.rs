//! The exported HIP functions.
//!
//! Each goes through [`call`], which registers at the first call, reports ENTER and EXIT to the SDK
//! with the arguments as the SDK lays them out (C order and alignment), and keeps the thread's last
//! error. Functions that are not here make a program fail to link or load, which is better than to
//! pretend.
//!
//! # Safety
//! As HIP's: pointers are valid for what the function does with them, handles are alive.
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    missing_docs,
    reason = "C functions with HIP's names and contracts; see the module's Safety section"
)]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim_interface::{op, op_names};

use crate::device::{self, CopyJob, Launch, Stream};
use crate::graph::{self, Graph, Node};
use crate::kernels::{self, Code, Kernel};
use crate::memory;
use crate::runtime::{
    self, Configuration, Dim3, HIP_VERSION, KIND_COMPILER, KIND_RUNTIME, call, lock, settings,
    thread,
};

type Error = c_int;
type Handle = *mut c_void;

const SUCCESS: Error = 0;
const INVALID_VALUE: Error = 1;
const OUT_OF_MEMORY: Error = 2;
const INVALID_DEVICE_FUNCTION: Error = 98;
const NO_DEVICE: Error = 100;
const INVALID_DEVICE: Error = 101;
const INVALID_IMAGE: Error = 200;
const FILE_NOT_FOUND: Error = 301;
const INVALID_HANDLE: Error = 400;
const NOT_FOUND: Error = 500;
const NOT_READY: Error = 600;
const NOT_SUPPORTED: Error = 801;
const STREAM_CAPTURE_UNSUPPORTED: Error = 900;

/// Names and texts of the errors that the stand-in gives.
static ERRORS: [(Error, &CStr, &CStr); 13] = [
    (SUCCESS, c"hipSuccess", c"no error"),
    (INVALID_VALUE, c"hipErrorInvalidValue", c"invalid argument"),
    (OUT_OF_MEMORY, c"hipErrorOutOfMemory", c"out of memory"),
    (
        INVALID_DEVICE_FUNCTION,
        c"hipErrorInvalidDeviceFunction",
        c"invalid device function",
    ),
    (
        NO_DEVICE,
        c"hipErrorNoDevice",
        c"no ROCm-capable device is detected",
    ),
    (
        INVALID_DEVICE,
        c"hipErrorInvalidDevice",
        c"invalid device ordinal",
    ),
    (
        INVALID_IMAGE,
        c"hipErrorInvalidImage",
        c"device kernel image is invalid",
    ),
    (FILE_NOT_FOUND, c"hipErrorFileNotFound", c"file not found"),
    (
        INVALID_HANDLE,
        c"hipErrorInvalidHandle",
        c"invalid resource handle",
    ),
    (NOT_FOUND, c"hipErrorNotFound", c"named symbol not found"),
    (NOT_READY, c"hipErrorNotReady", c"device not ready"),
    (
        NOT_SUPPORTED,
        c"hipErrorNotSupported",
        c"operation not supported",
    ),
    (
        STREAM_CAPTURE_UNSUPPORTED,
        c"hipErrorStreamCaptureUnsupported",
        c"operation not permitted when stream is capturing",
    ),
];

/// An event: the time of the work that it was recorded after. Its memory is reused, never freed.
struct Event {
    ns: AtomicU64,
}

/// Addresses of destroyed events, used again last in, first out.
static FREE_EVENTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Time of an event that was never recorded.
const NOT_RECORDED: u64 = 0;

impl Event {
    fn create() -> Handle {
        if let Some(address) = lock(&FREE_EVENTS).pop() {
            let handle = address as Handle;
            if let Some(event) = Self::of(handle) {
                event.ns.store(NOT_RECORDED, Ordering::Release);
            }
            return handle;
        }
        Box::into_raw(Box::new(Self {
            ns: AtomicU64::new(NOT_RECORDED),
        }))
        .cast()
    }

    fn of(handle: Handle) -> Option<&'static Self> {
        // SAFETY: module's Safety section; events are never freed.
        unsafe { handle.cast::<Self>().as_ref() }
    }
}

/// Defines exported functions of one kind. `[stream]` names the argument that is the stream.
macro_rules! functions {
    ($kind:expr; $(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $([$stream:ident])? $body:block
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> Error {
            /// Arguments as the SDK lays them out.
            #[repr(C)]
            #[derive(Clone, Copy)]
            struct Arguments {
                $($arg: $ty),*
            }
            #[allow(unused_mut, unused_assignments, reason = "not all have a stream")]
            let mut stream: Option<Handle> = None;
            $(stream = Some($stream);)?
            call($kind, op::$name, stream, || Arguments { $($arg),* }, || $body)
        }
    )*};
}

/// Writes through an out-parameter; null is an invalid value.
fn give<T>(out: *mut T, value: T) -> Error {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null; module's Safety section.
    unsafe { out.write(value) };
    SUCCESS
}

/// Turns "no such thing" into an error.
fn or(result: Option<Error>, error: Error) -> Error {
    result.unwrap_or(error)
}

fn current_gpu() -> u32 {
    thread(|thread| thread.device.get())
}

/// Number of GPUs; at most 64.
fn device_count() -> c_int {
    settings().devices as c_int
}

fn is_device(index: c_int) -> bool {
    (0..device_count()).contains(&index)
}

// ---------------------------------------------------------------- devices

functions! { KIND_RUNTIME;
    fn hipInit(flags: c_uint) {
        if flags != 0 { INVALID_VALUE } else if device_count() == 0 { NO_DEVICE } else { SUCCESS }
    }

    fn hipGetDeviceCount(count: *mut c_int) {
        match give(count, device_count()) {
            SUCCESS if device_count() == 0 => NO_DEVICE,
            error => error,
        }
    }

    fn hipSetDevice(deviceId: c_int) {
        if !is_device(deviceId) {
            return INVALID_DEVICE;
        }
        thread(|thread| thread.device.set(deviceId.cast_unsigned()));
        SUCCESS
    }

    fn hipGetDevice(deviceId: *mut c_int) {
        give(deviceId, current_gpu().cast_signed())
    }

    fn hipDeviceGet(device: *mut c_int, ordinal: c_int) {
        if is_device(ordinal) { give(device, ordinal) } else { INVALID_DEVICE }
    }

    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        if !is_device(device) || name.is_null() || len <= 0 {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's array has `len` bytes.
        let out = unsafe { core::slice::from_raw_parts_mut(name.cast::<u8>(), len.unsigned_abs() as usize) };
        copy_text(out, &settings().gpu_name);
        SUCCESS
    }

    fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) {
        if is_device(device) { give(bytes, 192 << 30) } else { INVALID_DEVICE }
    }

    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        give(free, 190 << 30).max(give(total, 192 << 30))
    }

    fn hipDeviceGetAttribute(pi: *mut c_int, attr: c_int, deviceId: c_int) {
        if !is_device(deviceId) {
            return INVALID_DEVICE;
        }
        give(pi, match attr {
            5 => 2_100_000,
            56 => 1024,
            63 => 304,
            87 => 64,
            _ => 0,
        })
    }

    fn hipDeviceGetPCIBusId(pciBusId: *mut c_char, len: c_int, device: c_int) {
        if !is_device(device) || pciBusId.is_null() || len <= 0 {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's array has `len` bytes.
        let out = unsafe { core::slice::from_raw_parts_mut(pciBusId.cast::<u8>(), len.unsigned_abs() as usize) };
        copy_text(out, &format!("0000:{:02x}:00.0", device + 1));
        SUCCESS
    }

    fn hipDeviceCanAccessPeer(canAccessPeer: *mut c_int, deviceId: c_int, peerDeviceId: c_int) {
        give(canAccessPeer, c_int::from(is_device(deviceId) && is_device(peerDeviceId) && deviceId != peerDeviceId))
    }

    fn hipDeviceEnablePeerAccess(peerDeviceId: c_int, flags: c_uint) {
        let _ = flags;
        if is_device(peerDeviceId) { SUCCESS } else { INVALID_DEVICE }
    }

    fn hipDeviceDisablePeerAccess(peerDeviceId: c_int) {
        if is_device(peerDeviceId) { SUCCESS } else { INVALID_DEVICE }
    }

    fn hipDeviceGetStreamPriorityRange(leastPriority: *mut c_int, greatestPriority: *mut c_int) {
        give(leastPriority, 1).max(give(greatestPriority, -1))
    }

    fn hipDeviceSynchronize() {
        or(device::current().map(|device| { device.synchronize(); SUCCESS }), NO_DEVICE)
    }

    fn hipDeviceReset() {
        or(device::current().map(|device| { device.synchronize(); SUCCESS }), NO_DEVICE)
    }

    fn hipRuntimeGetVersion(runtimeVersion: *mut c_int) {
        give(runtimeVersion, HIP_VERSION)
    }

    fn hipDriverGetVersion(driverVersion: *mut c_int) {
        give(driverVersion, HIP_VERSION)
    }

    fn hipGetDevicePropertiesR0600(prop: *mut c_void, deviceId: c_int) {
        if !is_device(deviceId) || prop.is_null() {
            return INVALID_DEVICE;
        }
        // SAFETY: the caller's struct of this size.
        let out = unsafe { core::slice::from_raw_parts_mut(prop.cast::<u8>(), PROPERTIES_SIZE) };
        properties(out, deviceId);
        SUCCESS
    }

    fn hipGetLastError() {
        thread(|thread| thread.last_error.take())
    }

    fn hipExtGetLastError() {
        thread(|thread| thread.last_error.take())
    }

    fn hipPeekAtLastError() {
        thread(|thread| thread.last_error.get())
    }
}

/// Size of `hipDeviceProp_tR0600` (HIP 7.1).
const PROPERTIES_SIZE: usize = 1472;

fn copy_text(out: &mut [u8], text: &str) {
    out.fill(0);
    let len = text.len().min(out.len() - 1);
    out[..len].copy_from_slice(&text.as_bytes()[..len]);
}

/// Fills `hipDeviceProp_tR0600`, by the offsets of HIP 7.1.
fn properties(out: &mut [u8], device: c_int) {
    out.fill(0);
    let settings = settings();
    copy_text(&mut out[..256], &settings.gpu_name);
    copy_text(
        &mut out[1160..1416],
        &format!("{}:sramecc+:xnack-", settings.gpu_gfx),
    );
    let mut word = |offset: usize, value: i32| {
        out[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    };
    word(304, 65_536);
    word(308, 64);
    word(320, 1024);
    for axis in 0..3 {
        word(324 + axis * 4, 1024);
        word(336 + axis * 4, i32::MAX);
    }
    word(348, 2_100_000);
    word(360, 9);
    word(364, 4);
    word(388, 304);
    word(400, 1);
    word(576, 1);
    word(584, device + 1);
    word(600, 8);
    word(604, 1);
    word(608, 1_300_000);
    word(612, 8192);
    word(616, 4 << 20);
    word(624, 2048);
    word(648, 65_536);
    word(652, 1);
    word(688, 1);
    word(1424, 100_000);
    let mut long = |offset: usize, value: u64| {
        out[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    };
    long(288, 192 << 30);
    long(296, 65_536);
    long(312, i32::MAX as u64);
    long(352, i32::MAX as u64);
    long(640, 65_536);
    long(1416, 65_536);
}

fn error_entry(error: Error) -> (&'static CStr, &'static CStr) {
    ERRORS
        .iter()
        .find(|entry| entry.0 == error)
        .map_or((c"hipErrorUnknown", c"unknown error"), |entry| {
            (entry.1, entry.2)
        })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: Error) -> *const c_char {
    error_entry(error).0.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: Error) -> *const c_char {
    error_entry(error).1.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn hipDrvGetErrorString(error: Error, text: *mut *const c_char) -> Error {
    give(text, error_entry(error).1.as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn hipApiName(id: u32) -> *const c_char {
    static NAMES: std::sync::OnceLock<Vec<std::ffi::CString>> = std::sync::OnceLock::new();
    NAMES
        .get_or_init(|| {
            op_names::HIP_RUNTIME
                .iter()
                .map(|name| std::ffi::CString::new(*name).unwrap_or_default())
                .collect()
        })
        .get(id as usize)
        .map_or(c"unknown".as_ptr(), |name| name.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipKernelNameRef(function: Handle) -> *const c_char {
    kernels::name_of(Kernel::of_handle(function))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipKernelNameRefByPtr(
    function: *const c_void,
    _stream: Handle,
) -> *const c_char {
    kernels::name_of(Kernel::of_function(function))
}

// ---------------------------------------------------------------- memory

/// `hipMemcpyKind`.
const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;

fn allocate(out: *mut *mut c_void, bytes: usize, gpu: i32) -> Error {
    if out.is_null() {
        return INVALID_VALUE;
    }
    if bytes == 0 {
        return give(out, core::ptr::null_mut());
    }
    let address = memory::allocate(bytes, gpu);
    if address.is_null() {
        return OUT_OF_MEMORY;
    }
    give(out, address)
}

fn free(address: *mut c_void) -> Error {
    if address.is_null() || memory::free(address) {
        SUCCESS
    } else {
        INVALID_VALUE
    }
}

/// Moves the bytes, which is what a program can see of a copy.
fn move_bytes(dst: *mut c_void, src: *const c_void, bytes: usize) {
    if bytes > 0 && !dst.is_null() && !src.is_null() {
        // SAFETY: module's Safety section: both ranges are the program's; they may overlap.
        unsafe { core::ptr::copy(src.cast::<u8>(), dst.cast::<u8>(), bytes) };
    }
}

/// What copies `bytes` on a stream: nothing (host to host), the copy engine, or a copy kernel
/// (within one device).
fn copy_node(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: c_int,
    gpu: u32,
) -> Option<Node> {
    let here = gpu.cast_signed();
    let own = |address: u64, device: bool, host: bool| {
        let owner = memory::owner(address);
        if host {
            memory::HOST
        } else if device && owner == memory::HOST {
            here
        } else {
            owner
        }
    };
    let to_device = matches!(kind, HOST_TO_DEVICE | DEVICE_TO_DEVICE);
    let from_device = matches!(kind, DEVICE_TO_HOST | DEVICE_TO_DEVICE);
    let default = kind > DEVICE_TO_DEVICE;
    let dst_gpu = own(dst as u64, to_device, !to_device && !default);
    let src_gpu = own(src as u64, from_device, !from_device && !default);
    if dst_gpu == memory::HOST && src_gpu == memory::HOST {
        return None;
    }
    if dst_gpu == src_gpu {
        return Some(Node::Kernel(blit_launch(kernels::blit(gpu).copy, bytes)));
    }
    Some(Node::Copy(CopyJob {
        dst: dst as u64,
        src: src as u64,
        bytes: bytes as u64,
        dst_gpu,
        src_gpu,
    }))
}

fn blit_launch(kernel: &'static Kernel, bytes: usize) -> Launch {
    let groups = (bytes / 4096 + 1).min(1 << 16) as u32;
    Launch {
        kernel,
        grid: [groups * 256, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
    }
}

fn copy_async(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: Handle,
) -> Error {
    let Some(stream) = Stream::of(stream) else {
        return INVALID_HANDLE;
    };
    if !(HOST_TO_HOST..=4).contains(&kind) {
        return INVALID_VALUE;
    }
    if bytes == 0 {
        return SUCCESS;
    }
    move_bytes(dst, src, bytes);
    if let Some(node) = copy_node(dst, src, bytes, kind, stream.gpu) {
        graph::submit(stream, node);
    }
    SUCCESS
}

/// A copy of `height` rows of `width` bytes: one piece of work.
fn copy_2d(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    [width, height]: [usize; 2],
    kind: c_int,
    stream: Handle,
) -> Error {
    let Some(stream) = Stream::of(stream) else {
        return INVALID_HANDLE;
    };
    if width > dpitch || width > spitch || !(HOST_TO_HOST..=4).contains(&kind) {
        return INVALID_VALUE;
    }
    for row in 0..height {
        let to = dst.cast::<u8>().wrapping_add(row * dpitch);
        let from = src.cast::<u8>().wrapping_add(row * spitch);
        move_bytes(to.cast(), from.cast(), width);
    }
    if width * height > 0
        && let Some(node) = copy_node(dst, src, width * height, kind, stream.gpu)
    {
        graph::submit(stream, node);
    }
    SUCCESS
}

fn copy_sync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int) -> Error {
    let null = core::ptr::null_mut();
    if settings().nested {
        // SAFETY: as the caller says.
        let error = unsafe { hipMemcpyAsync(dst, src, bytes, kind, null) };
        // SAFETY: the null stream.
        return error.max(unsafe { hipStreamSynchronize(null) });
    }
    let error = copy_async(dst, src, bytes, kind, null);
    if let Some(stream) = Stream::of(null) {
        stream.synchronize();
    }
    error
}

fn set_async(dst: *mut c_void, value: u32, element: usize, count: usize, stream: Handle) -> Error {
    let Some(stream) = Stream::of(stream) else {
        return INVALID_HANDLE;
    };
    if dst.is_null() {
        return INVALID_VALUE;
    }
    if count == 0 {
        return SUCCESS;
    }
    let bytes = value.to_le_bytes();
    for index in 0..count {
        let place = dst.cast::<u8>().wrapping_add(index * element);
        // SAFETY: module's Safety section: the program's range of `count` elements.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, element) };
    }
    let launch = blit_launch(kernels::blit(stream.gpu).fill, count * element);
    graph::submit(stream, Node::Kernel(launch));
    SUCCESS
}

fn set_sync(dst: *mut c_void, value: u32, element: usize, count: usize) -> Error {
    let null = core::ptr::null_mut();
    let error = set_async(dst, value, element, count, null);
    if let Some(stream) = Stream::of(null) {
        stream.synchronize();
    }
    error
}

functions! { KIND_RUNTIME;
    fn hipMalloc(ptr: *mut *mut c_void, size: usize) {
        allocate(ptr, size, current_gpu().cast_signed())
    }

    fn hipFree(ptr: *mut c_void) {
        // Freeing waits for the device, as in HIP.
        if let Some(device) = device::current() {
            device.synchronize();
        }
        free(ptr)
    }

    fn hipMallocAsync(dev_ptr: *mut *mut c_void, size: usize, stream: Handle) [stream] {
        or(Stream::of(stream).map(|stream| allocate(dev_ptr, size, stream.gpu.cast_signed())), INVALID_HANDLE)
    }

    fn hipFreeAsync(dev_ptr: *mut c_void, stream: Handle) [stream] {
        or(Stream::of(stream).map(|_| free(dev_ptr)), INVALID_HANDLE)
    }

    fn hipMallocManaged(dev_ptr: *mut *mut c_void, size: usize, flags: c_uint) {
        let _ = flags;
        allocate(dev_ptr, size, current_gpu().cast_signed())
    }

    fn hipHostMalloc(ptr: *mut *mut c_void, size: usize, flags: c_uint) {
        let _ = flags;
        allocate(ptr, size, memory::HOST)
    }

    fn hipHostAlloc(ptr: *mut *mut c_void, size: usize, flags: c_uint) {
        let _ = flags;
        allocate(ptr, size, memory::HOST)
    }

    fn hipMallocHost(ptr: *mut *mut c_void, size: usize) {
        allocate(ptr, size, memory::HOST)
    }

    fn hipHostFree(ptr: *mut c_void) {
        free(ptr)
    }

    fn hipFreeHost(ptr: *mut c_void) {
        free(ptr)
    }

    fn hipHostRegister(hostPtr: *mut c_void, sizeBytes: usize, flags: c_uint) {
        let _ = (sizeBytes, flags);
        if hostPtr.is_null() { INVALID_VALUE } else { SUCCESS }
    }

    fn hipHostUnregister(hostPtr: *mut c_void) {
        if hostPtr.is_null() { INVALID_VALUE } else { SUCCESS }
    }

    fn hipHostGetDevicePointer(devPtr: *mut *mut c_void, hstPtr: *mut c_void, flags: c_uint) {
        let _ = flags;
        give(devPtr, hstPtr)
    }

    fn hipMemcpy(dst: *mut c_void, src: *const c_void, sizeBytes: usize, kind: c_int) {
        copy_sync(dst, src, sizeBytes, kind)
    }

    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, sizeBytes: usize, kind: c_int, stream: Handle) [stream] {
        copy_async(dst, src, sizeBytes, kind, stream)
    }

    fn hipMemcpyWithStream(dst: *mut c_void, src: *const c_void, sizeBytes: usize, kind: c_int, stream: Handle) [stream] {
        let error = copy_async(dst, src, sizeBytes, kind, stream);
        if let Some(stream) = Stream::of(stream) {
            stream.synchronize();
        }
        error
    }

    fn hipMemcpyHtoD(dst: *mut c_void, src: *mut c_void, sizeBytes: usize) {
        copy_sync(dst, src, sizeBytes, HOST_TO_DEVICE)
    }

    fn hipMemcpyDtoH(dst: *mut c_void, src: *mut c_void, sizeBytes: usize) {
        copy_sync(dst, src, sizeBytes, DEVICE_TO_HOST)
    }

    fn hipMemcpyDtoD(dst: *mut c_void, src: *mut c_void, sizeBytes: usize) {
        copy_sync(dst, src, sizeBytes, DEVICE_TO_DEVICE)
    }

    fn hipMemcpyHtoDAsync(dst: *mut c_void, src: *const c_void, sizeBytes: usize, stream: Handle) [stream] {
        copy_async(dst, src, sizeBytes, HOST_TO_DEVICE, stream)
    }

    fn hipMemcpyDtoHAsync(dst: *mut c_void, src: *mut c_void, sizeBytes: usize, stream: Handle) [stream] {
        copy_async(dst, src, sizeBytes, DEVICE_TO_HOST, stream)
    }

    fn hipMemcpyDtoDAsync(dst: *mut c_void, src: *mut c_void, sizeBytes: usize, stream: Handle) [stream] {
        copy_async(dst, src, sizeBytes, DEVICE_TO_DEVICE, stream)
    }

    fn hipMemcpyPeer(dst: *mut c_void, dstDeviceId: c_int, src: *const c_void, srcDeviceId: c_int, sizeBytes: usize) {
        let _ = (dstDeviceId, srcDeviceId);
        copy_sync(dst, src, sizeBytes, 4)
    }

    fn hipMemcpyPeerAsync(dst: *mut c_void, dstDeviceId: c_int, src: *const c_void, srcDevice: c_int, sizeBytes: usize, stream: Handle) [stream] {
        let _ = (dstDeviceId, srcDevice);
        copy_async(dst, src, sizeBytes, 4, stream)
    }

    fn hipMemcpy2D(dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: c_int) {
        let null = core::ptr::null_mut();
        let error = copy_2d(dst, dpitch, src, spitch, [width, height], kind, null);
        if let Some(stream) = Stream::of(null) {
            stream.synchronize();
        }
        error
    }

    fn hipMemcpy2DAsync(dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: c_int, stream: Handle) [stream] {
        copy_2d(dst, dpitch, src, spitch, [width, height], kind, stream)
    }

    fn hipMemset(dst: *mut c_void, value: c_int, sizeBytes: usize) {
        if settings().nested {
            let null = core::ptr::null_mut();
            // SAFETY: as the caller says.
            let error = unsafe { hipMemsetAsync(dst, value, sizeBytes, null) };
            // SAFETY: the null stream.
            return error.max(unsafe { hipStreamSynchronize(null) });
        }
        set_sync(dst, value.cast_unsigned(), 1, sizeBytes)
    }

    fn hipMemsetAsync(dst: *mut c_void, value: c_int, sizeBytes: usize, stream: Handle) [stream] {
        set_async(dst, value.cast_unsigned(), 1, sizeBytes, stream)
    }

    fn hipMemsetD8(dest: *mut c_void, value: u8, count: usize) {
        set_sync(dest, u32::from(value), 1, count)
    }

    fn hipMemsetD8Async(dest: *mut c_void, value: u8, count: usize, stream: Handle) [stream] {
        set_async(dest, u32::from(value), 1, count, stream)
    }

    fn hipMemsetD32(dest: *mut c_void, value: c_int, count: usize) {
        set_sync(dest, value.cast_unsigned(), 4, count)
    }

    fn hipMemsetD32Async(dst: *mut c_void, value: c_int, count: usize, stream: Handle) [stream] {
        set_async(dst, value.cast_unsigned(), 4, count, stream)
    }
}

// ---------------------------------------------------------------- streams and events

/// Tells the SDK of a stream that was created (1) or destroyed (2).
fn stream_event(event: c_int, stream: Handle) {
    if let Some(hooks) = runtime::hooks() {
        // SAFETY: takes any value.
        unsafe { (hooks.stream_event)(event, stream as u64) };
    }
}

fn create_stream(out: *mut Handle, flags: c_uint) -> Error {
    if out.is_null() {
        return INVALID_VALUE;
    }
    let Some(device) = device::current() else {
        return NO_DEVICE;
    };
    let handle = device.create_stream(flags).handle as Handle;
    stream_event(1, handle);
    give(out, handle)
}

fn record(event: Handle, stream: Handle) -> Error {
    let (Some(event), Some(stream)) = (Event::of(event), Stream::of(stream)) else {
        return INVALID_HANDLE;
    };
    let ns = if stream.idle() {
        device::now_ns()
    } else {
        stream.end_ns()
    };
    event.ns.store(ns.max(1), Ordering::Release);
    SUCCESS
}

functions! { KIND_RUNTIME;
    fn hipStreamCreate(stream: *mut Handle) {
        create_stream(stream, 0)
    }

    fn hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) {
        create_stream(stream, flags)
    }

    fn hipStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        let _ = priority;
        create_stream(stream, flags)
    }

    fn hipStreamDestroy(stream: Handle) [stream] {
        if (stream as usize) <= 2 {
            return INVALID_HANDLE;
        }
        or(Stream::of(stream).map(|found| {
            found.destroy();
            stream_event(2, stream);
            SUCCESS
        }), INVALID_HANDLE)
    }

    fn hipStreamSynchronize(stream: Handle) [stream] {
        or(Stream::of(stream).map(|stream| { stream.synchronize(); SUCCESS }), INVALID_HANDLE)
    }

    fn hipStreamQuery(stream: Handle) [stream] {
        or(Stream::of(stream).map(|stream| if stream.idle() { SUCCESS } else { NOT_READY }), INVALID_HANDLE)
    }

    fn hipStreamGetFlags(stream: Handle, flags: *mut c_uint) [stream] {
        or(Stream::of(stream).map(|stream| give(flags, stream.flags)), INVALID_HANDLE)
    }

    fn hipStreamGetPriority(stream: Handle, priority: *mut c_int) [stream] {
        or(Stream::of(stream).map(|_| give(priority, 0)), INVALID_HANDLE)
    }

    fn hipStreamGetDevice(stream: Handle, device: *mut c_int) [stream] {
        or(Stream::of(stream).map(|stream| give(device, stream.gpu.cast_signed())), INVALID_HANDLE)
    }

    fn hipStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) [stream] {
        let _ = flags;
        let (Some(stream), Some(event)) = (Stream::of(stream), Event::of(event)) else {
            return INVALID_HANDLE;
        };
        stream.wait_for(event.ns.load(Ordering::Acquire));
        SUCCESS
    }

    fn hipLaunchHostFunc(stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, userData: *mut c_void) [stream] {
        let (Some(stream), Some(function)) = (Stream::of(stream), function) else {
            return INVALID_VALUE;
        };
        // Run in place after the stream's work: the simulated device has no thread of its own.
        stream.synchronize();
        // SAFETY: the program's function with its own data.
        unsafe { function(userData) };
        SUCCESS
    }

    fn hipStreamBeginCapture(stream: Handle, mode: c_int) [stream] {
        let _ = mode;
        let Some(found) = Stream::of(stream).filter(|found| found.handle != 0) else {
            return STREAM_CAPTURE_UNSUPPORTED;
        };
        let mut capture = lock(&found.capture);
        if capture.is_some() {
            return STREAM_CAPTURE_UNSUPPORTED;
        }
        *capture = Some(Graph::create(Vec::new()));
        found.capturing.store(true, Ordering::Release);
        SUCCESS
    }

    fn hipStreamEndCapture(stream: Handle, pGraph: *mut Handle) [stream] {
        let Some(stream) = Stream::of(stream) else {
            return INVALID_HANDLE;
        };
        stream.capturing.store(false, Ordering::Release);
        let Some(graph) = lock(&stream.capture).take() else {
            return INVALID_VALUE;
        };
        give(pGraph, core::ptr::from_ref(graph).cast_mut().cast())
    }

    fn hipStreamIsCapturing(stream: Handle, pCaptureStatus: *mut c_int) [stream] {
        or(Stream::of(stream).map(|stream| {
            give(pCaptureStatus, c_int::from(stream.capturing.load(Ordering::Acquire)))
        }), INVALID_HANDLE)
    }

    fn hipStreamGetCaptureInfo(stream: Handle, pCaptureStatus: *mut c_int, pId: *mut u64) [stream] {
        or(Stream::of(stream).map(|stream| {
            let capturing = stream.capturing.load(Ordering::Acquire);
            if !pId.is_null() {
                give(pId, u64::from(capturing) * stream.handle);
            }
            give(pCaptureStatus, c_int::from(capturing))
        }), INVALID_HANDLE)
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        if mode.is_null() { INVALID_VALUE } else { SUCCESS }
    }

    fn hipEventCreate(event: *mut Handle) {
        if event.is_null() { INVALID_VALUE } else { give(event, Event::create()) }
    }

    fn hipEventCreateWithFlags(event: *mut Handle, flags: c_uint) {
        let _ = flags;
        if event.is_null() { INVALID_VALUE } else { give(event, Event::create()) }
    }

    fn hipEventRecord(event: Handle, stream: Handle) [stream] {
        record(event, stream)
    }

    fn hipEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) [stream] {
        let _ = flags;
        record(event, stream)
    }

    fn hipEventSynchronize(event: Handle) {
        or(Event::of(event).map(|event| {
            device::wait_clock(event.ns.load(Ordering::Acquire));
            SUCCESS
        }), INVALID_HANDLE)
    }

    fn hipEventQuery(event: Handle) {
        or(Event::of(event).map(|event| {
            if event.ns.load(Ordering::Acquire) <= device::now_ns() { SUCCESS } else { NOT_READY }
        }), INVALID_HANDLE)
    }

    fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) {
        let (Some(start), Some(stop)) = (Event::of(start), Event::of(stop)) else {
            return INVALID_HANDLE;
        };
        let (start, stop) = (start.ns.load(Ordering::Acquire), stop.ns.load(Ordering::Acquire));
        if start == NOT_RECORDED || stop == NOT_RECORDED {
            return INVALID_HANDLE;
        }
        if stop > device::now_ns() {
            return NOT_READY;
        }
        give(ms, stop.wrapping_sub(start).cast_signed() as f32 / 1e6)
    }

    fn hipEventDestroy(event: Handle) {
        or(Event::of(event).map(|_| {
            lock(&FREE_EVENTS).push(event as usize);
            SUCCESS
        }), INVALID_HANDLE)
    }
}

// ---------------------------------------------------------------- launches

fn work_items(groups: [u32; 3], block: [u32; 3]) -> [u32; 3] {
    core::array::from_fn(|axis| groups[axis].wrapping_mul(block[axis]))
}

/// Launches a kernel with its grid in work-items.
fn launch(
    kernel: Option<&'static Kernel>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: usize,
    stream: Handle,
) -> Error {
    let Some(kernel) = kernel else {
        return INVALID_DEVICE_FUNCTION;
    };
    let Some(stream) = Stream::of(stream) else {
        return INVALID_HANDLE;
    };
    if grid.contains(&0) || block.contains(&0) {
        return INVALID_VALUE;
    }
    graph::submit(
        stream,
        Node::Kernel(Launch {
            kernel,
            grid,
            block,
            // A GPU has 64 KiB.
            shared_bytes: shared as u32,
        }),
    );
    SUCCESS
}

fn launch_groups(
    kernel: Option<&'static Kernel>,
    groups: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
) -> Error {
    let (groups, block) = ([groups.x, groups.y, groups.z], [block.x, block.y, block.z]);
    launch(kernel, work_items(groups, block), block, shared, stream)
}

/// `hipLaunchConfig_t`, as far as it is read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
}

functions! { KIND_RUNTIME;
    fn hipLaunchKernel(function_address: *const c_void, numBlocks: Dim3, dimBlocks: Dim3, args: *mut *mut c_void, sharedMemBytes: usize, stream: Handle) [stream] {
        let _ = args;
        launch_groups(Kernel::of_function(function_address), numBlocks, dimBlocks, sharedMemBytes, stream)
    }

    fn hipExtLaunchKernel(function_address: *const c_void, numBlocks: Dim3, dimBlocks: Dim3, args: *mut *mut c_void, sharedMemBytes: usize, stream: Handle, startEvent: Handle, stopEvent: Handle, flags: c_int) [stream] {
        let _ = (args, flags);
        if !startEvent.is_null() {
            record(startEvent, stream);
        }
        let error = launch_groups(Kernel::of_function(function_address), numBlocks, dimBlocks, sharedMemBytes, stream);
        if !stopEvent.is_null() {
            record(stopEvent, stream);
        }
        error
    }

    fn hipLaunchCooperativeKernel(f: *const c_void, gridDim: Dim3, blockDimX: Dim3, kernelParams: *mut *mut c_void, sharedMemBytes: c_uint, stream: Handle) [stream] {
        let _ = kernelParams;
        launch_groups(Kernel::of_function(f), gridDim, blockDimX, sharedMemBytes as usize, stream)
    }

    fn hipLaunchKernelExC(config: *const LaunchConfig, fPtr: *const c_void, args: *mut *mut c_void) {
        let _ = args;
        // SAFETY: module's Safety section.
        or(unsafe { config.as_ref() }.map(|config| {
            launch_groups(Kernel::of_function(fPtr), config.grid, config.block, config.shared_bytes, config.stream)
        }), INVALID_VALUE)
    }

    fn hipModuleLaunchKernel(f: Handle, gridDimX: c_uint, gridDimY: c_uint, gridDimZ: c_uint, blockDimX: c_uint, blockDimY: c_uint, blockDimZ: c_uint, sharedMemBytes: c_uint, stream: Handle, kernelParams: *mut *mut c_void, extra: *mut *mut c_void) [stream] {
        let _ = (kernelParams, extra);
        let (groups, block) = ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]);
        launch(Kernel::of_handle(f), work_items(groups, block), block, sharedMemBytes as usize, stream)
    }

    fn hipModuleLaunchCooperativeKernel(f: Handle, gridDimX: c_uint, gridDimY: c_uint, gridDimZ: c_uint, blockDimX: c_uint, blockDimY: c_uint, blockDimZ: c_uint, sharedMemBytes: c_uint, stream: Handle, kernelParams: *mut *mut c_void) [stream] {
        let _ = kernelParams;
        let (groups, block) = ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]);
        launch(Kernel::of_handle(f), work_items(groups, block), block, sharedMemBytes as usize, stream)
    }

    fn hipExtModuleLaunchKernel(f: Handle, globalWorkSizeX: u32, globalWorkSizeY: u32, globalWorkSizeZ: u32, localWorkSizeX: u32, localWorkSizeY: u32, localWorkSizeZ: u32, sharedMemBytes: usize, hStream: Handle, kernelParams: *mut *mut c_void, extra: *mut *mut c_void, startEvent: Handle, stopEvent: Handle, flags: u32) [hStream] {
        let _ = (kernelParams, extra, flags);
        if !startEvent.is_null() {
            record(startEvent, hStream);
        }
        let error = launch(
            Kernel::of_handle(f),
            [globalWorkSizeX, globalWorkSizeY, globalWorkSizeZ],
            [localWorkSizeX, localWorkSizeY, localWorkSizeZ],
            sharedMemBytes,
            hStream,
        );
        if !stopEvent.is_null() {
            record(stopEvent, hStream);
        }
        error
    }

    fn hipHccModuleLaunchKernel(f: Handle, globalWorkSizeX: u32, globalWorkSizeY: u32, globalWorkSizeZ: u32, blockDimX: u32, blockDimY: u32, blockDimZ: u32, sharedMemBytes: usize, hStream: Handle, kernelParams: *mut *mut c_void, extra: *mut *mut c_void, startEvent: Handle, stopEvent: Handle) [hStream] {
        let _ = (kernelParams, extra, startEvent, stopEvent);
        launch(
            Kernel::of_handle(f),
            [globalWorkSizeX, globalWorkSizeY, globalWorkSizeZ],
            [blockDimX, blockDimY, blockDimZ],
            sharedMemBytes,
            hStream,
        )
    }

    fn hipOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks: *mut c_int, func: *const c_void, blockSize: c_int, dynSharedMemPerBlk: usize) {
        let _ = (func, dynSharedMemPerBlk);
        if blockSize <= 0 { INVALID_VALUE } else { give(numBlocks, (2048 / blockSize).max(1)) }
    }

    fn hipFuncSetAttribute(func: *const c_void, attr: c_int, value: c_int) {
        let _ = (attr, value);
        or(Kernel::of_function(func).map(|_| SUCCESS), INVALID_DEVICE_FUNCTION)
    }

    fn hipFuncSetCacheConfig(func: *const c_void, config: c_int) {
        let _ = config;
        or(Kernel::of_function(func).map(|_| SUCCESS), INVALID_DEVICE_FUNCTION)
    }
}

// ---------------------------------------------------------------- modules

fn load_module(out: *mut Handle, image: *const c_void) -> Error {
    if out.is_null() || image.is_null() {
        return INVALID_VALUE;
    }
    let magic = kernels::IMAGE_MAGIC;
    // SAFETY: an image is at least as long as the magic line: an ELF header is 64 bytes.
    let head = unsafe { core::slice::from_raw_parts(image.cast::<u8>(), magic.len()) };
    let text = if head == magic {
        // SAFETY: images with this magic are NUL-terminated text.
        unsafe { CStr::from_ptr(image.cast()) }.to_bytes()
    } else {
        head
    };
    let code = kernels::load_module(text, image as usize, current_gpu());
    give(out, core::ptr::from_ref(code).cast_mut().cast())
}

functions! { KIND_RUNTIME;
    fn hipModuleLoad(module: *mut Handle, fname: *const c_char) {
        if module.is_null() || fname.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: a NUL-terminated path of the caller's.
        let path = unsafe { CStr::from_ptr(fname) };
        let Ok(mut image) = std::fs::read(OsStr::from_bytes(path.to_bytes())) else {
            return FILE_NOT_FOUND;
        };
        if image.len() < kernels::IMAGE_MAGIC.len() {
            return INVALID_IMAGE;
        }
        image.push(0);
        let code = kernels::load_module(&image, 0, current_gpu());
        give(module, core::ptr::from_ref(code).cast_mut().cast())
    }

    fn hipModuleLoadData(module: *mut Handle, image: *const c_void) {
        load_module(module, image)
    }

    fn hipModuleLoadDataEx(module: *mut Handle, image: *const c_void, numOptions: c_uint, options: *mut c_int, optionValues: *mut *mut c_void) {
        let _ = (numOptions, options, optionValues);
        load_module(module, image)
    }

    fn hipModuleUnload(module: Handle) {
        or(Code::of_handle(module).map(|code| {
            // Unloading waits for the device; late records of its kernels may still come.
            if let Some(device) = device::current() {
                device.synchronize();
            }
            code.unload();
            SUCCESS
        }), INVALID_HANDLE)
    }

    fn hipModuleGetFunction(function: *mut Handle, module: Handle, kname: *const c_char) {
        if function.is_null() || kname.is_null() {
            return INVALID_VALUE;
        }
        let Some(code) = Code::of_handle(module) else {
            return INVALID_HANDLE;
        };
        // SAFETY: a NUL-terminated name of the caller's.
        let name = unsafe { CStr::from_ptr(kname) };
        or(code.function(name, current_gpu()).map(|kernel| {
            give(function, core::ptr::from_ref(kernel).cast_mut().cast())
        }), NOT_FOUND)
    }

    fn hipModuleGetGlobal(dptr: *mut *mut c_void, bytes: *mut usize, hmod: Handle, name: *const c_char) {
        let _ = (dptr, bytes, hmod, name);
        NOT_FOUND
    }
}

// ---------------------------------------------------------------- graphs

/// `hipKernelNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelNodeParams {
    block: Dim3,
    extra: *mut *mut c_void,
    function: *mut c_void,
    grid: Dim3,
    parameters: *mut *mut c_void,
    shared_bytes: c_uint,
}

const _: () = assert!(size_of::<KernelNodeParams>() == 64);

/// `hipMemsetParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemsetParams {
    dst: *mut c_void,
    element_size: c_uint,
    height: usize,
    pitch: usize,
    value: c_uint,
    width: usize,
}

const _: () = assert!(size_of::<MemsetParams>() == 48);

fn add_node(out: *mut Handle, graph: Handle, node: Node) -> Error {
    or(
        Graph::of_handle(graph).map(|graph| give(out, graph.add(node) as Handle)),
        INVALID_HANDLE,
    )
}

fn instantiate(out: *mut Handle, graph: Handle) -> Error {
    or(
        Graph::of_handle(graph).map(|graph| {
            let nodes = lock(&graph.nodes).clone();
            if let Some(device) = device::current() {
                for node in &nodes {
                    if let Node::Kernel(launch) = node {
                        launch.kernel.ensure_loaded(device.index);
                    }
                }
            }
            give(
                out,
                core::ptr::from_ref(Graph::create(nodes)).cast_mut().cast(),
            )
        }),
        INVALID_HANDLE,
    )
}

functions! { KIND_RUNTIME;
    fn hipGraphCreate(pGraph: *mut Handle, flags: c_uint) {
        let _ = flags;
        give(pGraph, core::ptr::from_ref(Graph::create(Vec::new())).cast_mut().cast())
    }

    fn hipGraphDestroy(graph: Handle) {
        or(Graph::of_handle(graph).map(|graph| { graph.clear(); SUCCESS }), INVALID_HANDLE)
    }

    fn hipGraphAddKernelNode(pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize, pNodeParams: *const KernelNodeParams) {
        let _ = (pDependencies, numDependencies);
        // SAFETY: module's Safety section.
        let Some(params) = (unsafe { pNodeParams.as_ref() }) else {
            return INVALID_VALUE;
        };
        let Some(kernel) = Kernel::of_function(params.function) else {
            return INVALID_DEVICE_FUNCTION;
        };
        let block = [params.block.x, params.block.y, params.block.z];
        let groups = [params.grid.x, params.grid.y, params.grid.z];
        add_node(pGraphNode, graph, Node::Kernel(Launch {
            kernel,
            grid: work_items(groups, block),
            block,
            shared_bytes: params.shared_bytes,
        }))
    }

    fn hipGraphAddMemsetNode(pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize, pMemsetParams: *const MemsetParams) {
        let _ = (pDependencies, numDependencies);
        // SAFETY: module's Safety section.
        let Some(params) = (unsafe { pMemsetParams.as_ref() }) else {
            return INVALID_VALUE;
        };
        let bytes = params.width * params.height.max(1) * params.element_size as usize;
        let fill = kernels::blit(current_gpu()).fill;
        add_node(pGraphNode, graph, Node::Kernel(blit_launch(fill, bytes)))
    }

    fn hipGraphAddMemcpyNode1D(pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize, dst: *mut c_void, src: *const c_void, count: usize, kind: c_int) {
        let _ = (pDependencies, numDependencies);
        add_node(pGraphNode, graph, copy_node(dst, src, count, kind, current_gpu()).unwrap_or(Node::Empty))
    }

    fn hipGraphAddEmptyNode(pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize) {
        let _ = (pDependencies, numDependencies);
        add_node(pGraphNode, graph, Node::Empty)
    }

    fn hipGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, numDependencies: usize) {
        let _ = (from, to, numDependencies);
        or(Graph::of_handle(graph).map(|_| SUCCESS), INVALID_HANDLE)
    }

    fn hipGraphGetNodes(graph: Handle, nodes: *mut Handle, numNodes: *mut usize) {
        or(Graph::of_handle(graph).map(|graph| {
            let count = lock(&graph.nodes).len();
            if !nodes.is_null() && !numNodes.is_null() {
                // SAFETY: module's Safety section: room for `*numNodes` handles.
                let room = unsafe { *numNodes };
                for index in 0..count.min(room) {
                    // SAFETY: as above.
                    unsafe { nodes.add(index).write((index + 1) as Handle) };
                }
            }
            give(numNodes, count)
        }), INVALID_HANDLE)
    }

    fn hipGraphInstantiate(pGraphExec: *mut Handle, graph: Handle, pErrorNode: *mut Handle, pLogBuffer: *mut c_char, bufferSize: usize) {
        let _ = (pErrorNode, pLogBuffer, bufferSize);
        instantiate(pGraphExec, graph)
    }

    fn hipGraphInstantiateWithFlags(pGraphExec: *mut Handle, graph: Handle, flags: u64) {
        let _ = flags;
        instantiate(pGraphExec, graph)
    }

    fn hipGraphUpload(graphExec: Handle, stream: Handle) [stream] {
        or(Graph::of_handle(graphExec).map(|_| SUCCESS), INVALID_HANDLE)
    }

    fn hipGraphLaunch(graphExec: Handle, stream: Handle) [stream] {
        let (Some(graph), Some(stream)) = (Graph::of_handle(graphExec), Stream::of(stream)) else {
            return INVALID_HANDLE;
        };
        graph.launch(stream);
        SUCCESS
    }

    fn hipGraphExecDestroy(graphExec: Handle) {
        or(Graph::of_handle(graphExec).map(|graph| { graph.clear(); SUCCESS }), INVALID_HANDLE)
    }
}

// ---------------------------------------------------------------- what compilers call

/// Variables, surfaces and textures are accepted and ignored.
macro_rules! registrations {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}

registrations! {
    __hipRegisterVar
    __hipRegisterManagedVar
    __hipRegisterSurface
    __hipRegisterTexture
}

/// Does not start the registration with the SDK: it runs in static constructors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFatBinary(data: *const c_void) -> *mut *mut c_void {
    core::ptr::from_ref(kernels::register_fat_binary(data))
        .cast_mut()
        .cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFunction(
    modules: *mut *mut c_void,
    host_function: *const c_void,
    _device_function: *mut c_char,
    device_name: *const c_char,
    _thread_limit: c_uint,
    _thread_ids: *mut c_void,
    _block_ids: *mut c_void,
    _block_dims: *mut c_void,
    _grid_dims: *mut c_void,
    _warp_size: *mut c_int,
) {
    if let Some(code) = Code::of_handle(modules.cast())
        && !device_name.is_null()
    {
        // SAFETY: a NUL-terminated name in the caller's image.
        let name = unsafe { CStr::from_ptr(device_name) };
        kernels::register_function(code, host_function as usize, name);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipUnregisterFatBinary(modules: *mut *mut c_void) {
    if let Some(code) = Code::of_handle(modules.cast()) {
        kernels::unregister_fat_binary(code);
    }
}

functions! { KIND_COMPILER;
    fn __hipPushCallConfiguration(gridDim: Dim3, blockDim: Dim3, sharedMem: usize, stream: Handle) {
        thread(|thread| {
            let depth = thread.configuration_depth.get();
            let Some(place) = thread.configurations.get(depth) else {
                return INVALID_VALUE;
            };
            place.set(Configuration { grid: gridDim, block: blockDim, shared_bytes: sharedMem, stream });
            thread.configuration_depth.set(depth + 1);
            SUCCESS
        })
    }

    fn __hipPopCallConfiguration(gridDim: *mut Dim3, blockDim: *mut Dim3, sharedMem: *mut usize, stream: *mut Handle) {
        let popped = thread(|thread| {
            let depth = thread.configuration_depth.get().checked_sub(1)?;
            thread.configuration_depth.set(depth);
            Some(thread.configurations[depth].get())
        });
        or(popped.map(|popped| {
            give(gridDim, popped.grid)
                .max(give(blockDim, popped.block))
                .max(give(sharedMem, popped.shared_bytes))
                .max(give(stream, popped.stream))
        }), INVALID_VALUE)
    }
}
