//! The kernel and the processor: clock, barriers, what the hot path rests on.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::{Finding, Mark};
use crate::failure::reason;

pub(super) fn findings() -> Vec<Finding> {
    vec![kernel(), clock(), barrier(), fork_safety(), populate()]
}

fn kernel() -> Finding {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: a place of the right type.
    unsafe { libc::uname(names.as_mut_ptr()) };
    // SAFETY: zeroed, then filled by the call above.
    let names = unsafe { names.assume_init() };
    // SAFETY: uname ends its strings with a NUL inside the array.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) }.to_string_lossy();
    // SAFETY: as above.
    let machine = unsafe { CStr::from_ptr(names.machine.as_ptr()) }.to_string_lossy();
    let found = format!("Linux {release} on {machine}");
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version < (4, 14) {
        Finding::new(
            Mark::No,
            "kernel",
            found,
            "membarrier and MADV_WIPEONFORK are missing before Linux 4.14",
        )
        .todo("use a newer kernel")
    } else {
        Finding::new(Mark::Ok, "kernel", found, "new enough")
    }
}

fn clock() -> Finding {
    let what = "host clock";
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let source = match fs::read_to_string(format!("{folder}/current_clocksource")) {
        Ok(source) => source.trim().to_owned(),
        Err(error) => {
            let found = format!("{folder}: {}", reason(&error));
            return Finding::new(
                Mark::Warn,
                what,
                found,
                "clock_gettime is used, slower than the TSC",
            );
        }
    };
    let invariant = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| {
        text.lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|line| {
                ["constant_tsc", "nonstop_tsc"]
                    .iter()
                    .all(|flag| line.contains(flag))
            })
    });
    match (source.as_str(), invariant) {
        ("tsc" | "kvm-clock", true) => Finding::new(
            Mark::Ok,
            what,
            format!("{source}, invariant TSC"),
            "host times cost one TSC read",
        ),
        _ => {
            let found = format!(
                "{source}{}",
                if invariant { "" } else { ", no invariant TSC" }
            );
            Finding::new(
                Mark::Warn,
                what,
                found,
                "clock_gettime is used, slower than the TSC",
            )
            .todo("boot with tsc=reliable if the hardware's TSC is sound")
        }
    }
}

/// `MEMBARRIER_CMD_QUERY` and the bits of its answer, from `linux/membarrier.h`.
const MEMBARRIER_QUERY: libc::c_int = 0;
const MEMBARRIER_EXPEDITED: libc::c_long = 1 << 3 | 1 << 4;

fn barrier() -> Finding {
    let what = "membarrier";
    // SAFETY: the query takes no pointer and changes nothing.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_QUERY, 0, 0) };
    if answer >= 0 && answer & MEMBARRIER_EXPEDITED == MEMBARRIER_EXPEDITED {
        Finding::new(
            Mark::Ok,
            what,
            "private expedited",
            "appends need no fence; a stop orders them from outside",
        )
    } else {
        let found = if answer < 0 {
            reason(&io::Error::last_os_error())
        } else {
            format!("commands {answer:#x}")
        };
        Finding::new(
            Mark::Warn,
            what,
            found,
            "each append carries a fence instead, a few ns",
        )
        .todo("allow membarrier in the container's seccomp profile")
    }
}

/// Gives an anonymous page an advice, and says whether the kernel takes it.
fn page_takes(advice: libc::c_int) -> io::Result<()> {
    let bytes = 4096;
    // SAFETY: a fresh private mapping; the kernel picks the address.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page just mapped.
    let result = match unsafe { libc::madvise(page, bytes, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the page just mapped, used by nobody.
    unsafe { libc::munmap(page, bytes) };
    result
}

fn fork_safety() -> Finding {
    let what = "MADV_WIPEONFORK";
    match page_takes(libc::MADV_WIPEONFORK) {
        Ok(()) => Finding::new(
            Mark::Ok,
            what,
            "works",
            "a forked child never writes to its parent's trace",
        ),
        Err(error) => Finding::new(
            Mark::No,
            what,
            reason(&error),
            "recording refuses to start, to keep forked children out",
        )
        .todo("use Linux 4.14 or newer"),
    }
}

fn populate() -> Finding {
    let what = "MADV_POPULATE_WRITE";
    match page_takes(libc::MADV_POPULATE_WRITE) {
        Ok(()) => Finding::new(
            Mark::Ok,
            what,
            "works",
            "memory is faulted in ahead of the appends",
        ),
        Err(error) => Finding::new(
            Mark::Warn,
            what,
            reason(&error),
            "pages are touched one by one ahead of the appends instead",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_here_fails_to_answer() {
        for finding in findings() {
            assert!(
                !finding.found.is_empty() && !finding.means.is_empty(),
                "{finding:?}"
            );
        }
    }
}
