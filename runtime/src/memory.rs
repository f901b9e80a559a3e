//! What the region's memory is asked to be beside being there: in huge pages, locked, without a name.
//!
//! All of it is best effort (promise 8): what the system refuses is left as it is, and [`Memory`] says what was got and
//! why not more. Nothing here runs in a callback.
//!
//! - *Huge pages*: segments begin on a multiple of 2 MiB and are backed 2 MiB at a time; each step is faulted in before it
//!   is reserved (a reservation alone would make small pages where huge ones need advice) and collapsed where that did
//!   not give a huge page. The kernel collapses regardless of the policy for shared memory (Linux 6.1 and later), but not
//!   on a disk file.
//! - *Lock*: the whole mapping is locked as it is faulted in, so that it is never swapped out. Where the limit on locked
//!   memory does not allow that, header, lanes and segment table are locked, which every append writes to; never a part
//!   of the segments, which would only use up the host's limit.
//! - *Memfd*: a file without a name, sealed against shrinking and growing: no other process can cut it under us. Others
//!   reach it as `/proc/PID/fd/N` while the process lives. A recorder that gave us its socket gets the descriptor, so
//!   that the region outlives the process however that ends; without one, [`Runtime::write_asked_file`] writes it.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::limits::BACK_STEP_BYTES;
use crate::map;
#[cfg(doc)]
use crate::runtime::Runtime;
use crate::settings::{Backing, Settings};

/// Bytes of a huge page: x86-64's, and arm64's with pages of 4 KiB.
pub(crate) const HUGE_BYTES: u64 = 2 << 20;
const _: () = assert!(BACK_STEP_BYTES.is_multiple_of(HUGE_BYTES));

/// `TMPFS_MAGIC`, from `linux/magic.h`.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Wishes, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    huge: bool,
    lock: bool,
    memfd: bool,
    in_memory: bool,
    mapped_bytes: AtomicU64,
    backed_bytes: AtomicU64,
    huge_bytes: AtomicU64,
    locked_bytes: AtomicU64,
    /// Why not (all of) it, errno; 0 = all was got so far.
    huge_error: AtomicI32,
    lock_error: AtomicI32,
    /// 0 = nobody was asked to keep it, -1 = the recorder has it, else why not.
    kept: AtomicI32,
}

impl Wishes {
    pub(crate) fn new(settings: &Settings, file: &File) -> Self {
        Self {
            huge: settings.huge_pages,
            lock: settings.lock,
            memfd: settings.backing == Backing::Memfd,
            in_memory: is_in_memory(file),
            ..Self::default()
        }
    }

    /// What the segments' place in the file is a multiple of, bytes.
    pub(crate) fn segments_align(&self) -> u64 {
        if self.huge { HUGE_BYTES } else { 4096 }
    }

    /// The region was mapped: `tables` bytes of header and tables first of all.
    pub(crate) fn mapped(&self, file: &File, base: NonNull<u8>, bytes: usize, tables: usize) {
        self.mapped_bytes.store(bytes as u64, Ordering::Relaxed);
        self.backed_bytes.store(tables as u64, Ordering::Relaxed);
        if self.memfd {
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
            // SAFETY: an open file; a kernel that refuses leaves it unsealed.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        }
        if self.huge
            && let Err(error) = map::advise_huge(base, bytes)
        {
            note(&self.huge_error, &error);
        }
        if self.lock {
            let mut locked = bytes;
            let mut done = map::lock_on_fault(base, bytes);
            if let Err(error) = &done {
                note(&self.lock_error, error);
                locked = tables;
                done = map::lock_on_fault(base, tables);
            }
            if done.is_ok() {
                self.locked_bytes.store(locked as u64, Ordering::Relaxed);
            }
        }
    }

    /// Hands the descriptor to the recorder, if there is one.
    pub(crate) fn hand_over(&self, file: &File, settings: &Settings, pid: u32) {
        if let (Backing::Memfd, Some(keeper)) = (settings.backing, &settings.keeper) {
            let kept = match hand_to(keeper, file, pid) {
                Ok(()) => KEPT,
                Err(error) => error.raw_os_error().unwrap_or(libc::EINVAL),
            };
            self.kept.store(kept, Ordering::Relaxed);
        }
    }

    /// Before a step is reserved: where huge pages are wished for, a fault makes one.
    pub(crate) fn before_reserve(&self, start: NonNull<u8>, bytes: u64) {
        if self.huge {
            // Without room this fails, and so does the reservation, which says so.
            let _ = map::populate(start, bytes as usize);
        }
    }

    /// After a step was reserved and faulted in.
    pub(crate) fn backed(&self, start: NonNull<u8>, bytes: u64) {
        self.backed_bytes.fetch_add(bytes, Ordering::Relaxed);
        if !self.huge {
            return;
        }
        for at in (0..bytes / HUGE_BYTES).map(|at| at * HUGE_BYTES) {
            // SAFETY: within the step, which is part of the mapping.
            let page = unsafe { start.add(at as usize) };
            match map::collapse(page, HUGE_BYTES as usize) {
                Ok(()) => _ = self.huge_bytes.fetch_add(HUGE_BYTES, Ordering::Relaxed),
                Err(error) => note(&self.huge_error, &error),
            }
        }
    }

    /// What was got so far.
    pub(crate) fn memory(&self) -> Memory {
        let why = |error: &AtomicI32| match error.load(Ordering::Relaxed) {
            0 | KEPT => None,
            error => Some(io::Error::from_raw_os_error(error)),
        };
        Memory {
            kind: match (self.memfd, self.in_memory) {
                (true, _) => MemoryKind::Memfd,
                (false, true) => MemoryKind::File,
                (false, false) => MemoryKind::DiskFile,
            },
            mapped_bytes: self.mapped_bytes.load(Ordering::Relaxed),
            backed_bytes: self.backed_bytes.load(Ordering::Relaxed),
            huge_bytes: self.huge.then(|| self.huge_bytes.load(Ordering::Relaxed)),
            huge_refused: why(&self.huge_error),
            locked_bytes: self.lock.then(|| self.locked_bytes.load(Ordering::Relaxed)),
            lock_refused: why(&self.lock_error),
            is_kept: self.kept.load(Ordering::Relaxed) == KEPT,
            keeping_refused: why(&self.kept),
        }
    }
}

/// In `Wishes::kept`: the recorder has it. No errno is negative.
const KEPT: i32 = -1;

/// Keeps the first reason.
fn note(place: &AtomicI32, error: &io::Error) {
    let error = error.raw_os_error().unwrap_or(libc::EINVAL);
    let _ = place.compare_exchange(0, error, Ordering::Relaxed, Ordering::Relaxed);
}

/// What holds the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryKind {
    /// A file on tmpfs.
    File,
    /// A file on a disk: at each writeback the kernel write-protects its pages, and the next store to each takes 1 us to
    /// some ms.
    DiskFile,
    /// A memfd.
    Memfd,
}

/// What the region's memory is, and what of the wishes was got.
#[derive(Debug)]
#[non_exhaustive]
pub struct Memory {
    /// What holds it.
    pub kind: MemoryKind,
    /// Address space, bytes.
    pub mapped_bytes: u64,
    /// Memory that is reserved and faulted in so far, bytes.
    pub backed_bytes: u64,
    /// Of these in huge pages, bytes; `None` = not asked for.
    pub huge_bytes: Option<u64>,
    /// Why not all of the segments.
    pub huge_refused: Option<io::Error>,
    /// Locked, bytes (what is not backed yet is locked when it is); `None` = not asked for.
    pub locked_bytes: Option<u64>,
    /// Why not all.
    pub lock_refused: Option<io::Error>,
    /// The recorder has the memfd's descriptor: the region outlives this process.
    pub is_kept: bool,
    /// Why it has not, though there is a recorder.
    pub keeping_refused: Option<io::Error>,
}

impl Memory {
    /// True when something that was asked for was not got.
    pub fn is_less_than_wished(&self) -> bool {
        self.huge_refused.is_some() || self.lock_refused.is_some() || self.keeping_refused.is_some()
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let kind = match self.kind {
            MemoryKind::File => "a file in memory",
            MemoryKind::DiskFile => {
                "a file on a disk (stores wait for the kernel at each writeback; STRANDLINE_DIR names a folder on tmpfs)"
            }
            MemoryKind::Memfd => "a memfd",
        };
        write!(
            f,
            "{kind}, {:.1} of {:.1} MiB backed",
            mib(self.backed_bytes),
            mib(self.mapped_bytes)
        )?;
        if self.is_kept {
            write!(f, "; kept by the recorder")?;
        }
        if let Some(why) = &self.keeping_refused {
            write!(f, "; not kept by the recorder ({why})")?;
        }
        if let Some(bytes) = self.huge_bytes {
            write!(f, "; {:.1} MiB in huge pages", mib(bytes))?;
            if let Some(why) = &self.huge_refused {
                write!(f, " (not more: {why})")?;
            }
        }
        if let Some(bytes) = self.locked_bytes {
            if self.lock_refused.is_none() {
                write!(f, "; locked")?;
            } else {
                write!(f, "; {:.1} MiB locked", mib(bytes))?;
            }
            if let Some(why) = &self.lock_refused {
                write!(
                    f,
                    " (not more: {why}; the limit on locked memory is {})",
                    match lock_limit() {
                        libc::RLIM_INFINITY => "not the reason".to_owned(),
                        bytes => format!("{} KiB", bytes / 1024),
                    }
                )?;
            }
        }
        Ok(())
    }
}

fn lock_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is valid for writing.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    limit.rlim_cur
}

fn is_in_memory(file: &File) -> bool {
    let mut kind = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: an open file, and a place for the answer.
    let failed = unsafe { libc::fstatfs(file.as_raw_fd(), kind.as_mut_ptr()) } != 0;
    // SAFETY: zeros, or what the kernel wrote; plain data either way.
    let kind = unsafe { kind.assume_init() };
    !failed && kind.f_type == TMPFS_MAGIC
}

/// A file without a name, and the path under which others reach it while this process lives.
///
/// # Errors
/// What the system said.
pub(crate) fn memfd(pid: u32) -> io::Result<(File, PathBuf)> {
    let name = CString::new(format!("strandline-{pid}")).unwrap_or_default();
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a terminated string; the flags are the kernel's own.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, nobody else's.
    let file = unsafe { File::from_raw_fd(fd) };
    Ok((file, PathBuf::from(format!("/proc/{pid}/fd/{fd}"))))
}

/// Sends the descriptor of `file` to the process that listens at `keeper`, with our pid. At load; waits a second at most,
/// and only where the recorder's queue is full.
///
/// # Errors
/// What the system said: nobody listens there, or the queue stays full.
fn hand_to(keeper: &Path, file: &File, pid: u32) -> io::Result<()> {
    const WORDS: usize = 8;
    let path = keeper.as_os_str().as_bytes();
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if path.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, &byte) in address.sun_path.iter_mut().zip(path) {
        *place = byte as libc::c_char;
    }
    let answer = |failed: bool| {
        if failed {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: no preconditions.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    answer(socket < 0)?;
    // SAFETY: a descriptor just made, nobody else's; closed when this is dropped.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let wait = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    // SAFETY: an open socket and a value of the option's type and size. It counts for `connect` too.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDTIMEO,
            (&raw const wait).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    } != 0;
    answer(failed)?;
    // SAFETY: an open socket, and an address of that size.
    let failed = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_un>() as libc::socklen_t,
        )
    } != 0;
    answer(failed)?;
    let mut text = pid.to_le_bytes();
    let mut part = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: text.len(),
    };
    let mut control = [0u64; WORDS];
    let descriptor = size_of::<libc::c_int>() as u32;
    // SAFETY: plain data; the pointers below live until the end of the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(descriptor) } as _;
    // SAFETY: the message has room for one header and one descriptor (64 bytes; it takes 24), aligned to 8.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(descriptor) as _;
        libc::CMSG_DATA(head)
            .cast::<libc::c_int>()
            .write_unaligned(file.as_raw_fd());
    }
    // SAFETY: an open socket and a whole message. No SIGPIPE: the host must not see one of ours.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    answer(sent != text.len() as isize)
}
