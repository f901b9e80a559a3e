//! How arguments come in and results go out.
//!
//! A struct starts with its size, which the caller fills. Of an argument as much is read as both sides know: a caller of
//! an older version passes less, of a newer one more, and then the rest must be zero (a field that we don't know and that
//! says something is refused, not ignored). Of a result as much is written as the caller has room for.

use std::ffi::{CStr, c_char};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline::Status;
pub use strandline_rocprofiler::c_api::answer;

/// A struct of the header.
///
/// # Safety
/// `repr(C)`, starts with a `u64` that is its size, and any bytes are a value of it (no references, no enums).
pub unsafe trait Struct: Copy {
    /// Bytes that its first version had: a caller with fewer is refused.
    const BYTES_MIN: usize;
}

/// The largest struct that a newer caller may pass, bytes.
const BYTES_MAX: usize = 4096;

/// An argument, as much of it as the caller knows; the rest is zero.
///
/// # Errors
/// [`Status::InvalidArgument`] for null, or for a field that this version does not know and that is not zero;
/// [`Status::StructTooSmall`].
///
/// # Safety
/// `from` is null or readable for the bytes that its first word says.
#[inline]
pub unsafe fn argument<T: Struct>(from: *const T) -> Result<T, Status> {
    if from.is_null() {
        return Err(Status::InvalidArgument);
    }
    // SAFETY: not null; every struct starts with its size, and the caller promises that it is readable.
    let bytes = unsafe { from.cast::<u64>().read_unaligned() } as usize;
    if bytes == size_of::<T>() {
        // SAFETY: readable for `bytes`, and any bytes are a value (trait).
        return Ok(unsafe { from.read_unaligned() });
    }
    // SAFETY: as the caller of this function promises.
    unsafe { other_size(from, bytes) }
}

#[cold]
unsafe fn other_size<T: Struct>(from: *const T, bytes: usize) -> Result<T, Status> {
    if bytes < T::BYTES_MIN {
        return Err(Status::StructTooSmall);
    }
    if bytes > BYTES_MAX {
        return Err(Status::InvalidArgument);
    }
    let known = bytes.min(size_of::<T>());
    // SAFETY: any bytes are a value, zeros are (trait).
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's struct is readable for `bytes` and ours is `size_of::<T>()` long.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), known);
    }
    for at in known..bytes {
        // SAFETY: below `bytes`.
        if unsafe { from.cast::<u8>().add(at).read() } != 0 {
            return Err(Status::InvalidArgument);
        }
    }
    Ok(value)
}

/// Room for a result.
#[derive(Debug)]
pub struct Room<T> {
    to: *mut T,
    bytes: usize,
}

/// Checks the caller's room for a result, before anything is done.
///
/// # Errors
/// [`Status::InvalidArgument`] for null, [`Status::StructTooSmall`].
///
/// # Safety
/// `to` is null or readable and writable for the bytes that its first word says.
#[inline]
pub unsafe fn room<T: Struct>(to: *mut T) -> Result<Room<T>, Status> {
    if to.is_null() {
        return Err(Status::InvalidArgument);
    }
    // SAFETY: not null; every struct starts with its size, and the caller promises that it is readable.
    let bytes = unsafe { to.cast::<u64>().read_unaligned() } as usize;
    if bytes < T::BYTES_MIN {
        return Err(Status::StructTooSmall);
    }
    Ok(Room { to, bytes })
}

impl<T: Struct> Room<T> {
    /// Writes the result, all but its size, as far as there is room.
    #[inline]
    pub fn fill(self, value: &T) {
        let bytes = self.bytes.min(size_of::<T>());
        // SAFETY: the caller promised that many writable bytes (`room`); both are longer than the size field.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(value).cast::<u8>().add(8),
                self.to.cast::<u8>().add(8),
                bytes - 8,
            );
        }
    }
}

/// Writes a plain result.
///
/// # Errors
/// [`Status::InvalidArgument`] for null.
///
/// # Safety
/// `to` is null or valid for writing.
pub unsafe fn out<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::InvalidArgument);
    }
    // SAFETY: not null, and valid as the caller promises.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// A string's bytes; `None` for null.
///
/// # Safety
/// `text` is null or terminated, and lives as long as `'a`.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and terminated as the caller promises.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// Refuses a forked child: another thread of the parent may have held one of our locks. To be called before any lock is
/// taken.
///
/// # Errors
/// [`Status::NotReady`].
pub fn not_forked() -> Result<(), Status> {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    if FORKED.load(Ordering::Relaxed) {
        return Err(Status::NotReady);
    }
    ONCE.call_once(|| {
        // SAFETY: the handler stores to one word of a static and lives as long as the process.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    Ok(())
}
