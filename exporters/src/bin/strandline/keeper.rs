//! Keeping the regions of programs that hold them in a memfd (`STRANDLINE_BACKING=memfd`): such a file has no name, and dies
//! with the last process that has it open.
//!
//! The recorder listens at a socket in its private folder; the tool library connects at load and sends its descriptor
//! (SCM_RIGHTS). Nobody has to accept it then: a descriptor that was sent stays open in the socket's queue, however its
//! sender ends, until the recorder takes it after the program's end.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes that are copied in one go.
const BLOCK: usize = 64 * 1024;

/// The socket.
#[derive(Debug)]
pub(crate) struct Keeper {
    listener: UnixListener,
}

/// A region that was sent.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Whose it is, in that process's own pid namespace.
    pub(crate) process: u32,
    file: File,
}

impl Keeper {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The system's: most likely a path of more than 107 bytes.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        // More than the standard library asks for: each process of the program is one connection that nobody takes yet.
        // SAFETY: an open socket.
        if unsafe { libc::listen(listener.as_raw_fd(), 4_096) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { listener })
    }

    /// Takes all that was sent so far, in the order in which it came. What is no region's descriptor is passed over.
    pub(crate) fn take(&self) -> Vec<Kept> {
        let mut kept = Vec::new();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => kept.extend(receive(&stream)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return kept,
            }
        }
    }
}

impl Kept {
    /// The path under which this process can open it.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Copies it to a new file.
    ///
    /// # Errors
    /// The system's; what was copied until then stays.
    pub(crate) fn copy(&self, to: &Path) -> io::Result<()> {
        let out = File::create_new(to)?;
        let bytes = self.file.metadata()?.len();
        out.set_len(bytes)?;
        let mut block = vec![0; BLOCK];
        let mut at = 0;
        while at < bytes {
            let read = self.file.read_at(&mut block, at)?;
            if read == 0 {
                break;
            }
            // What was never written to stays a hole.
            if block[..read].iter().any(|&byte| byte != 0) {
                out.write_all_at(&block[..read], at)?;
            }
            at += read as u64;
        }
        Ok(())
    }
}

fn receive(stream: &UnixStream) -> Option<Kept> {
    // The message was sent in one piece right after the connection was made.
    stream.set_nonblocking(true).ok()?;
    let mut process = [0u8; 4];
    let mut part = libc::iovec {
        iov_base: process.as_mut_ptr().cast(),
        iov_len: process.len(),
    };
    let mut control = [0u64; 8];
    // SAFETY: plain data; the pointers below live until the end of the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: an open socket and a message with room for what it says.
    let read =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    // SAFETY: the kernel filled the message in.
    let head = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: null, or a header within `control`.
    let head_value = unsafe { head.as_ref() }?;
    if head_value.cmsg_level != libc::SOL_SOCKET || head_value.cmsg_type != libc::SCM_RIGHTS {
        return None;
    }
    // SAFETY: a message of rights has at least one descriptor.
    let fd = unsafe { libc::CMSG_DATA(head).cast::<libc::c_int>().read_unaligned() };
    // SAFETY: the kernel just made it for this process; nobody else has its number.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    (read == process.len() as isize).then(|| Kept {
        process: u32::from_le_bytes(process),
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_no_descriptor_is_passed_over_and_a_copy_has_holes() {
        let folder = std::env::temp_dir().join(format!("strandline-keeper-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let keeper = Keeper::new(&folder.join("keeper")).unwrap();
        for text in ["", "four", "a longer text"] {
            let mut stream = UnixStream::connect(folder.join("keeper")).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(keeper.take().len(), 0);
        let file = File::create_new(folder.join("a")).unwrap();
        file.set_len(10 << 20).unwrap();
        file.write_all_at(b"here", 5 << 20).unwrap();
        let kept = Kept {
            process: 1,
            file: File::open(folder.join("a")).unwrap(),
        };
        kept.copy(&folder.join("b")).unwrap();
        assert!(kept.copy(&folder.join("b")).is_err(), "never overwritten");
        let copy = std::fs::read(folder.join("b")).unwrap();
        assert_eq!(copy, std::fs::read(folder.join("a")).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
