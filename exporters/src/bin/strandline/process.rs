//! Whether the process that wrote a region still lives.

use std::fs;

use strandline::header::Header;

use crate::names;

/// How far apart two readings of a start time may lie: the kernel counts it in hundredths of a second.
const START_SLACK_NS: u64 = 30_000_000;

/// True when the region's writer is a live process of this machine and pid namespace.
pub(crate) fn is_alive(header: &Header) -> bool {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if boot.trim() != names::uuid(&header.boot_id) {
        return false;
    }
    match start_ns(header.pid) {
        Some(start) => {
            header.process_start_ns == 0
                || start.abs_diff(header.process_start_ns) <= START_SLACK_NS
        }
        None => false,
    }
}

/// When a process started, BOOTTIME ns; `None` when there is no such process or it is a zombie.
fn start_ns(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name, in parentheses, may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let ticks: u64 = fields.nth(18)?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks
        .checked_mul(1_000_000_000)?
        .checked_div(u64::try_from(ticks_per_second).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_and_none_has_the_highest_id() {
        assert!(start_ns(std::process::id()).is_some());
        assert_eq!(start_ns(u32::MAX), None);
    }
}
