//! The one module that maps memory.
//!
//! Writers map a region file shared and never unmap it: a callback may touch it at any moment until the process ends.
//! Readers map a file read-only and own the mapping.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use crate::sync::{Ordering, Word};

/// A read-only view of a whole file, or of bytes in memory.
#[derive(Debug)]
pub(crate) struct ReadMap {
    base: NonNull<u8>,
    bytes: usize,
    owned: Option<Vec<u64>>,
    mapped: bool,
    /// Counts the views of memory that lives on.
    pin: Option<&'static Word>,
}

// SAFETY: the pages are only read through `&self`; the pointer is owned by this value alone.
unsafe impl Send for ReadMap {}
// SAFETY: as above; no interior mutability.
unsafe impl Sync for ReadMap {}

impl ReadMap {
    /// Maps `file` read-only. An empty file gives an empty view.
    pub(crate) fn file(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            return Ok(Self::memory(&[]));
        }
        // SAFETY: a fresh shared read-only mapping of an open file; the kernel picks the address.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self {
            base,
            bytes,
            owned: None,
            mapped: true,
            pin: None,
        })
    }

    /// Takes a copy of `data`, aligned to words.
    pub(crate) fn memory(data: &[u8]) -> Self {
        let mut words = vec![0u64; data.len().div_ceil(8).max(1)];
        for (word, chunk) in words.iter_mut().zip(data.chunks(8)) {
            let mut bytes = [0u8; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(bytes);
        }
        let base = NonNull::from(&mut words[0]).cast();
        Self {
            base,
            bytes: data.len(),
            owned: Some(words),
            mapped: false,
            pin: None,
        }
    }

    /// Takes words, aligned as they are.
    pub(crate) fn words_owned(mut words: Vec<u64>) -> Self {
        if words.is_empty() {
            words.push(0);
        }
        Self {
            base: NonNull::from(&mut words[0]).cast(),
            bytes: words.len() * 8,
            owned: Some(words),
            mapped: false,
            pin: None,
        }
    }

    /// True when nobody else can change what is seen.
    pub(crate) fn is_owned(&self) -> bool {
        self.owned.is_some()
    }

    /// One word that a live writer changes, or `None` beyond the view.
    pub(crate) fn word(&self, offset: usize) -> Option<&Word> {
        debug_assert!(offset.is_multiple_of(8));
        if offset.checked_add(8)? > self.bytes {
            return None;
        }
        // SAFETY: in bounds (above), aligned to 8, and all writers of such words write them atomically; loads only.
        Some(unsafe { &*self.base.as_ptr().add(offset).cast::<Word>() })
    }

    /// A view of memory that lives as long as the process.
    ///
    /// # Safety
    /// `base` must be readable for `bytes` bytes until the process ends, and aligned to 8. `pin` counts this view while it
    /// lives.
    pub(crate) unsafe fn forever(base: NonNull<u8>, bytes: usize, pin: &'static Word) -> Self {
        // ORD(pin): Relaxed. Ordered against freeing by the lock under which both happen.
        pin.fetch_add(1, Ordering::Relaxed);
        Self {
            base,
            bytes,
            owned: None,
            mapped: false,
            pin: Some(pin),
        }
    }

    /// The bytes. Of a file that a live process writes to, only what its heads publish may be looked at.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: base is valid for `bytes` bytes for as long as `self` lives (constructors).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }

    /// The whole words from byte `offset` on, `words` of them or fewer where the view ends.
    pub(crate) fn words(&self, offset: usize, words: usize) -> &[u64] {
        debug_assert!(offset.is_multiple_of(8));
        let left = self.bytes.saturating_sub(offset) / 8;
        if left == 0 {
            return &[];
        }
        // SAFETY: offset + 8 * min(words, left) lies within the view; base is aligned to 8 and so is offset.
        unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), words.min(left))
        }
    }

    /// One word read atomically with acquire, 0 beyond the view: for words that a live writer changes.
    pub(crate) fn acquire(&self, offset: usize) -> u64 {
        if offset + 8 > self.bytes {
            return 0;
        }
        // SAFETY: in bounds (above), aligned to 8, and all writers of such words write them atomically.
        let word = unsafe {
            &*self
                .base
                .as_ptr()
                .add(offset)
                .cast::<std::sync::atomic::AtomicU64>()
        };
        // ORD(publish): Acquire. Pairs with the Release store in `lane::Lane::publish`.
        word.load(std::sync::atomic::Ordering::Acquire)
    }
}

impl Drop for ReadMap {
    fn drop(&mut self) {
        if let Some(pin) = self.pin {
            // ORD(pin): Release. Pairs with the Acquire load in `free_released`: all reads were made before.
            pin.fetch_sub(1, Ordering::Release);
        }
        if self.mapped && self.owned.is_none() {
            // SAFETY: this value made the mapping in `file` and nobody else holds its address.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }
}

/// Maps `bytes` of `file` shared and writable, for ever, at a multiple of `align` (a power of two of whole pages).
///
/// # Errors
/// The kernel's error, when it refuses.
pub(crate) fn map_shared(file: &File, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
    let page = 4096;
    let spare = if align > page { align } else { 0 };
    let (mut place, mut fixed) = (ptr::null_mut::<libc::c_void>(), 0);
    if spare != 0 {
        // Address space with room for any alignment; what lies beside the file's place stays reserved, without access.
        // SAFETY: a fresh mapping that nothing can be read from or written to; the kernel picks the address.
        let reserved = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes + spare,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let up = (reserved as usize).next_multiple_of(align) - reserved as usize;
        // SAFETY: up < align = spare, so the place and `bytes` from it on lie within the reservation.
        (place, fixed) = (unsafe { reserved.byte_add(up) }, libc::MAP_FIXED);
    }
    // SAFETY: a fresh shared mapping, where the kernel picks or over the reservation just made; never unmapped.
    let base = unsafe {
        libc::mmap(
            place,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | fixed,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
}

/// Anonymous private zeroed pages, for ever. With `wipe_on_fork` a forked child finds zeros in them.
///
/// # Errors
/// The kernel's error, when it refuses the pages or (before Linux 4.14) the advice.
pub(crate) fn map_private(bytes: usize, wipe_on_fork: bool) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh anonymous mapping; the kernel picks the address; never unmapped.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if wipe_on_fork {
        // SAFETY: the range is the mapping just made.
        let refused = unsafe { libc::madvise(base, bytes, libc::MADV_WIPEONFORK) };
        if refused != 0 {
            let error = io::Error::last_os_error();
            // SAFETY: the mapping just made, not yet given to anybody.
            unsafe { libc::munmap(base, bytes) };
            return Err(error);
        }
    }
    NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
}

/// Asks for huge pages. Best effort: it is the kernel's policy that decides.
pub(crate) fn advise_huge(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller passes a range of its own mapping; the advice changes no content.
    answer(unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) })
}

/// Makes huge pages of what is faulted in; done already is fine. Linux 6.1 and later.
pub(crate) fn collapse(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    const MADV_COLLAPSE: libc::c_int = 25;
    // SAFETY: the caller passes a range of its own mapping; collapsing changes no content.
    answer(unsafe { libc::madvise(base.as_ptr().cast(), bytes, MADV_COLLAPSE) })
}

/// Locks pages in memory, each when it is faulted in. Linux 4.4 and later.
pub(crate) fn lock_on_fault(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    const MLOCK_ONFAULT: libc::c_int = 1;
    // SAFETY: the caller passes a range of its own mapping; locking changes no content.
    let failed = unsafe { libc::syscall(libc::SYS_mlock2, base.as_ptr(), bytes, MLOCK_ONFAULT) };
    answer(failed as libc::c_int)
}

fn answer(failed: libc::c_int) -> io::Result<()> {
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Faults in `bytes` from `base` on, for writing. Best effort: older kernels touch the pages on first use.
pub(crate) fn populate(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller passes a range of its own mapping; populating changes no content.
    if unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
