//! Memory for the live region: its folder, room, limits and what the kernel offers.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use strandline::limits::BUDGET_BYTES_DEFAULT;

use super::{Finding, Mark};
use crate::failure::reason;
use crate::region_folder;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC`, from `linux/magic.h`.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

pub(super) fn findings() -> Vec<Finding> {
    vec![
        region_folder(),
        folder("/dev/shm", Path::new("/dev/shm")),
        file_size_limit(),
        cgroup(),
        huge_pages(),
        locked_memory(),
    ]
}

fn region_folder() -> Finding {
    folder("region folder", &region_folder::path())
}

/// Room and kind of a folder, or of the nearest one above it that is there.
fn folder(what: &'static str, path: &Path) -> Finding {
    let there = path
        .ancestors()
        .find(|above| above.is_dir())
        .unwrap_or(Path::new("/"));
    let (free, size, kind) = match room(there) {
        Ok(room) => room,
        Err(error) => {
            return Finding::new(
                Mark::No,
                what,
                format!("{}: {}", path.display(), reason(&error)),
                "no trace can be kept there",
            )
            .todo("STRANDLINE_DIR names another folder");
        }
    };
    let found = format!("{}, {} of {} free", path.display(), mebi(free), mebi(size));
    let Ok(name) = CString::new(there.as_os_str().as_bytes()) else {
        return Finding::new(Mark::No, what, found, "its name can't be used");
    };
    // SAFETY: a valid C string.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } != 0 {
        let means = format!(
            "{} can't be written to, so nothing can be recorded",
            there.display()
        );
        Finding::new(Mark::No, what, found, means).todo("STRANDLINE_DIR names another folder")
    } else if !IN_MEMORY.contains(&kind) {
        let means = "it is not in memory: appends stall when the kernel writes pages back";
        Finding::new(Mark::Warn, what, found, means)
            .todo("STRANDLINE_DIR names a folder on tmpfs, such as one in /dev/shm")
    } else if free < BUDGET_BYTES_DEFAULT {
        let means = format!(
            "less than the default budget of {}: records beyond it are counted as lost",
            mebi(BUDGET_BYTES_DEFAULT)
        );
        Finding::new(Mark::Warn, what, found, means)
            .todo("set --budget, or give the container more with --shm-size")
    } else {
        Finding::new(
            Mark::Ok,
            what,
            found,
            "in memory, with room for the default budget",
        )
    }
}

/// Bytes free to this user, bytes in all, and the kind of file system.
fn room(path: &Path) -> io::Result<(u64, u64, i64)> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let mut statistics = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a valid C string and a place of the right type.
    if unsafe { libc::statvfs(name.as_ptr(), statistics.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the call above.
    let statistics = unsafe { statistics.assume_init() };
    let mut kind = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: a valid C string and a place of the right type.
    if unsafe { libc::statfs(name.as_ptr(), kind.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the call above.
    let kind = unsafe { kind.assume_init() };
    Ok((
        statistics.f_bavail.saturating_mul(statistics.f_frsize),
        statistics.f_blocks.saturating_mul(statistics.f_frsize),
        kind.f_type,
    ))
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: a valid resource and a place of the right type.
    if unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by the call above.
    let limit = unsafe { limit.assume_init() };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn file_size_limit() -> Finding {
    match limit(libc::RLIMIT_FSIZE) {
        Some(bytes) if bytes < BUDGET_BYTES_DEFAULT => Finding::new(
            Mark::No,
            "file size limit",
            mebi(bytes),
            "the region can't have its default budget",
        )
        .todo("raise it (`ulimit -f unlimited`) or set --budget"),
        Some(bytes) => Finding::new(
            Mark::Ok,
            "file size limit",
            mebi(bytes),
            "the default budget fits",
        ),
        None => Finding::new(Mark::Ok, "file size limit", "none", "any budget fits"),
    }
}

/// The memory limit of this process's control group: regions on tmpfs count against it.
fn cgroup() -> Finding {
    let what = "memory limit (cgroup)";
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let below = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map_or("", |path| path.trim_start_matches('/'));
    let root = Path::new("/sys/fs/cgroup");
    let lowest = root
        .join(below)
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| {
            fs::read_to_string(folder.join("memory.max"))
                .ok()?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .min();
    match lowest {
        Some(bytes) if bytes < 4 * BUDGET_BYTES_DEFAULT => {
            let means = format!(
                "a region of {} counts against it together with the program",
                mebi(BUDGET_BYTES_DEFAULT)
            );
            Finding::new(Mark::Warn, what, mebi(bytes), means)
                .todo("set --budget to what the program leaves free")
        }
        Some(bytes) => Finding::new(
            Mark::Ok,
            what,
            mebi(bytes),
            "regions count against it; the default budget is a small part",
        ),
        None => Finding::new(
            Mark::Ok,
            what,
            "none",
            "only the machine's memory limits the budget",
        ),
    }
}

fn huge_pages() -> Finding {
    let what = "huge pages for shared memory";
    let text =
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or("unknown", |(chosen, _)| chosen);
    let means = match chosen {
        "always" | "within_size" | "advise" | "force" => "the region may get them",
        _ => "the region uses small pages; a little slower to fault in, otherwise the same",
    };
    Finding::new(Mark::Ok, what, chosen, means)
}

fn locked_memory() -> Finding {
    let what = "locked memory limit";
    match limit(libc::RLIMIT_MEMLOCK) {
        None => Finding::new(Mark::Ok, what, "none", "the region can be locked in memory"),
        Some(bytes) => Finding::new(
            Mark::Ok,
            what,
            mebi(bytes),
            "beyond it the region is not locked in memory; it matters only on a machine that swaps",
        ),
    }
}

fn mebi(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(
            [8 << 10, 64 << 20, 24 << 30].map(mebi),
            ["8 KiB", "64 MiB", "24 GiB"]
        );
    }

    #[test]
    fn a_folder_on_disk_is_a_warning_and_a_missing_one_is_judged_by_the_one_above() {
        let proc = folder("test", Path::new("/proc/strandline/none"));
        assert_ne!(proc.mark, Mark::Ok, "{proc:?}");
        assert!(proc.found.starts_with("/proc/strandline/none"), "{proc:?}");
    }
}
