//! Who this process is, so that files of many processes and hosts can be told apart and merged without guessing.

use std::fs;

use crate::hash;

/// Identity of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) parent_pid: u32,
    pub(crate) uid: u32,
    pub(crate) start_ns: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) pid_namespace: u64,
    pub(crate) host: String,
    pub(crate) host_hash: u64,
    pub(crate) program: String,
}

impl Identity {
    /// Reads it from the kernel. What can't be read stays 0 or empty.
    pub(crate) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let host = text("/proc/sys/kernel/hostname").trim().to_owned();
        let machine = text("/etc/machine-id");
        let program =
            fs::read_link("/proc/self/exe").map(|path| path.to_string_lossy().into_owned());
        Self {
            pid: std::process::id(),
            // SAFETY: getppid and getuid have no preconditions and can't fail.
            parent_pid: unsafe { libc::getppid() } as u32,
            // SAFETY: as above.
            uid: unsafe { libc::getuid() },
            start_ns: start_ns(&text("/proc/self/stat")),
            boot_id: boot_id(&text("/proc/sys/kernel/random/boot_id")),
            pid_namespace: pid_namespace(),
            host_hash: hash::bytes(format!("{host}\0{machine}").as_bytes()),
            host,
            program: program.unwrap_or_default(),
        }
    }
}

/// Field 22 of `/proc/self/stat`, in clock ticks since boot; the name in field 2 may hold spaces and brackets.
fn start_ns(stat: &str) -> u64 {
    // SAFETY: sysconf has no preconditions.
    let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields
        .split_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0);
    ticks.saturating_mul(1_000_000_000 / ticks_a_second)
}

fn boot_id(text: &str) -> [u8; 16] {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] << 4 | pair[1]) as u8;
    }
    id
}

fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid")
        .map(|meta| meta.ino())
        .unwrap_or(0)
}

/// The kernel's id of the calling thread. One system call.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: gettid has no preconditions and can't fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_the_kernel_writes() {
        assert_eq!(
            boot_id("01234567-89ab-cdef-0123-456789abcdef\n")[..4],
            [0x01, 0x23, 0x45, 0x67]
        );
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 200 21";
        assert_eq!(start_ns(stat), 2_000_000_000);
        let own = Identity::read();
        assert_eq!(own.pid, std::process::id());
        assert!(own.start_ns > 0 && own.pid_namespace > 0 && !own.program.is_empty());
    }
}
