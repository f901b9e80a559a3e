//! Allocations: host memory that stands for device memory, and who owns which address.

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::Mutex;

use sim_interface::AllocFrame;

use crate::runtime::{self, lock};

/// Device of host allocations.
pub(crate) const HOST: i32 = -1;

#[derive(Clone, Copy)]
struct Block {
    bytes: usize,
    gpu: i32,
}

static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

/// Allocates for a GPU, or pinned host memory ([`HOST`]). Null = out of memory.
pub(crate) fn allocate(bytes: usize, gpu: i32) -> *mut c_void {
    traced(1, gpu, 0, bytes, || {
        let size = bytes.max(1);
        // SAFETY: an anonymous mapping of a non-zero size, at any address; backed on first touch.
        let address = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return core::ptr::null_mut();
        }
        lock(&BLOCKS).insert(address as usize, Block { bytes: size, gpu });
        address
    })
}

/// Frees an allocation. False = not one.
pub(crate) fn free(address: *mut c_void) -> bool {
    if !lock(&BLOCKS).contains_key(&(address as usize)) {
        return false;
    }
    traced(3, HOST, address as u64, 0, || {
        if let Some(block) = lock(&BLOCKS).remove(&(address as usize)) {
            // SAFETY: a mapping of this size that `allocate` made and nobody freed before.
            unsafe { libc::munmap(address, block.bytes) };
        }
        address
    });
    true
}

/// GPU that owns an address; [`HOST`] if none does.
pub(crate) fn owner(address: u64) -> i32 {
    let address = address as usize;
    match lock(&BLOCKS).range(..=address).next_back() {
        Some((&start, block)) if address - start < block.bytes => block.gpu,
        _ => HOST,
    }
}

/// Reports an allocation (1) or free (3) around its work.
fn traced(
    op: i32,
    gpu: i32,
    address: u64,
    bytes: usize,
    body: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let Some(hooks) = runtime::hooks() else {
        return body();
    };
    let mut frame = AllocFrame {
        op,
        gpu,
        address,
        bytes: bytes as u64,
        captured: 0,
        correlation: core::ptr::null_mut(),
        start_ns: 0,
        user_data: [core::mem::MaybeUninit::uninit(); sim_interface::CONTEXTS_MAX],
        external: [core::mem::MaybeUninit::uninit(); sim_interface::CONTEXTS_MAX],
    };
    // SAFETY: the frame lives until `alloc_exit`.
    unsafe { (hooks.alloc_enter)(&raw mut frame) };
    let result = body();
    frame.address = result as u64;
    // SAFETY: `alloc_enter` filled this frame.
    unsafe { (hooks.alloc_exit)(&raw mut frame) };
    result
}
