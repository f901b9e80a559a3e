//! Host time: what an append stamps its records with, and how it is tied to the vendor's clock.
//!
//! Ticks are the TSC where the kernel itself uses it as its clock source (then it is invariant and synchronised), else
//! `CLOCK_MONOTONIC_RAW` in ns; `STRANDLINE_CLOCK=raw` asks for the latter. The wall clock is never a source. The vendor's clock is a function that the `ffi` layer sets (`rocprofiler_get_timestamp`
//! on AMD); before that it is `CLOCK_BOOTTIME`. Nothing here assumes that the two are the same clock.
//!
//! Progress: everything on the append path is a handful of instructions, or one vDSO call without TSC.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::anchors::{ClockAnchor, TickAnchor};

/// A vendor's clock: ns, from any thread, no lock, no allocation.
pub type VendorNow = fn() -> u64;

static VENDOR_NOW: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// 0 not looked yet, 1 TSC, 2 CLOCK_MONOTONIC_RAW.
static SOURCE: AtomicU64 = AtomicU64::new(0);
/// Ticks a second, 0 not measured yet.
static RATE: AtomicU64 = AtomicU64::new(0);

/// One clock of the kernel, ns.
pub fn kernel_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; an unknown clock leaves it 0.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// True when ticks are the TSC.
#[inline]
pub fn is_tsc() -> bool {
    // ORD(plain): Relaxed. A number that is written once with the same value by whoever looks first.
    match SOURCE.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => look_for_tsc(),
    }
}

#[cold]
fn look_for_tsc() -> bool {
    let tsc = can_be_tsc(&kernel_source());
    SOURCE.store(if tsc { 1 } else { 2 }, Ordering::Relaxed);
    tsc
}

/// What the kernel keeps its own time by, "" where it does not say.
pub(crate) fn kernel_source() -> String {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
}

/// Whether ticks may be the TSC while the kernel keeps its time by `source`. "tsc" says that the kernel itself relies on
/// it, and goes on watching it; "kvm-clock" says only that the host does, so the processor must promise the rest.
pub(crate) fn can_be_tsc(source: &str) -> bool {
    cfg!(target_arch = "x86_64") && (source == "tsc" || source == "kvm-clock" && invariant_tsc())
}

/// Has ticks be `CLOCK_MONOTONIC_RAW` from now on. Before the process's first runtime is made, or never: ticks of two
/// sources must not meet in one region.
pub(crate) fn use_monotonic_raw() {
    // ORD(plain): Relaxed. As in `is_tsc`; no thread has taken ticks yet.
    SOURCE.store(2, Ordering::Relaxed);
    RATE.store(0, Ordering::Relaxed);
}

#[cfg(target_arch = "x86_64")]
fn invariant_tsc() -> bool {
    // Leaf 0x8000_0007 EDX bit 8 (AMD64 APM 3, Intel SDM 2A): the TSC runs at a constant rate in all states.
    let highest = std::arch::x86_64::__cpuid(0x8000_0000).eax;
    highest >= 0x8000_0007 && std::arch::x86_64::__cpuid(0x8000_0007).edx >> 8 & 1 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant_tsc() -> bool {
    false
}

/// Host ticks now. Call [`is_tsc`] once, outside a callback, before the first use.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_tsc() {
        // SAFETY: RDTSC is part of every x86-64 processor; the kernel itself uses it (checked in `look_for_tsc`).
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    kernel_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// The TSC, read before it is known whether it is the clock: what comes of it counts only where [`is_tsc`] holds. On the
/// fast ways the time is read first of all but the test for an open session: it is the time before our own work, and where
/// readings of the clock wait for each other and for what stands before them (Emerald Rapids), the caller's next one waits
/// for no more of our cache misses than that test's (docs/benchmarks.md, "Cold").
#[inline(always)]
pub(crate) fn early_tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC is part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Ticks a second, nominal: measured over about a millisecond, once a process.
pub fn ticks_per_second() -> u64 {
    let known = RATE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let rate = if is_tsc() {
        measure_rate(|| {
            let before = ticks();
            let ns = kernel_ns(libc::CLOCK_MONOTONIC_RAW);
            (before, ns, ticks())
        })
    } else {
        1_000_000_000
    };
    RATE.store(rate.max(1), Ordering::Relaxed);
    rate.max(1)
}

/// Ticks a second over a millisecond of `read`, which gives ticks before, ns, and ticks after. A reading during which the
/// thread lost the processor says nothing of when the ns were read: it would make the rate several times too high or low.
fn measure_rate(mut read: impl FnMut() -> (u64, u64, u64)) -> u64 {
    /// Ticks that a reading takes at most if nothing came between: a quarter of a microsecond or more.
    const UNDISTURBED: u64 = 1_000;
    const TRIES: usize = 100;
    let mut pair = || {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..TRIES {
            let (before, ns, after) = read();
            let took = after.wrapping_sub(before);
            if took < best.0 {
                best = (took, before.wrapping_add(took / 2), ns);
            }
            if took <= UNDISTURBED {
                break;
            }
        }
        (best.1, best.2)
    };
    let (start, start_ns) = pair();
    loop {
        let (end, end_ns) = pair();
        let ns = end_ns.wrapping_sub(start_ns);
        if ns >= 1_000_000 {
            let ticks = u128::from(end.wrapping_sub(start));
            return u64::try_from(ticks * 1_000_000_000 / u128::from(ns)).unwrap_or(u64::MAX);
        }
    }
}

/// Sets the vendor's clock.
pub fn set_vendor_now(now: VendorNow) {
    // ORD(plain): Release for form; the function is code, nothing else is published with it.
    VENDOR_NOW.store(now as *mut (), Ordering::Release);
}

/// The vendor's clock now, ns.
#[inline]
pub fn vendor_now() -> u64 {
    let now = VENDOR_NOW.load(Ordering::Acquire);
    if now.is_null() {
        return kernel_ns(libc::CLOCK_BOOTTIME);
    }
    // SAFETY: only `set_vendor_now` stores here, and it stores a `VendorNow`.
    let now = unsafe { std::mem::transmute::<*mut (), VendorNow>(now) };
    now()
}

/// Ticks and vendor ns of one moment: of up to three tries the one that took the least time, so that a preempted try
/// does not count. Usable in a callback.
#[inline]
pub fn tick_anchor() -> TickAnchor {
    let mut best = TickAnchor {
        ticks: 0,
        vendor_ns: 0,
    };
    let mut least = u64::MAX;
    for _ in 0..3 {
        let before = ticks();
        let vendor_ns = vendor_now();
        let took = ticks().wrapping_sub(before);
        if took < least {
            (least, best) = (
                took,
                TickAnchor {
                    ticks: before.wrapping_add(took / 2),
                    vendor_ns,
                },
            );
        }
        if took < 1_000 {
            break;
        }
    }
    best
}

/// One moment in all clocks: of up to eight tries the one that took the least time. Not for callbacks.
pub fn clock_anchor() -> ClockAnchor {
    let mut best = ClockAnchor::default();
    let mut least = u64::MAX;
    for _ in 0..8 {
        let start = ticks();
        let TickAnchor {
            ticks: at,
            vendor_ns,
        } = tick_anchor();
        let anchor = ClockAnchor {
            ticks: at,
            vendor_ns,
            boottime_ns: kernel_ns(libc::CLOCK_BOOTTIME),
            monotonic_ns: kernel_ns(libc::CLOCK_MONOTONIC),
            monotonic_raw_ns: kernel_ns(libc::CLOCK_MONOTONIC_RAW),
            realtime_ns: kernel_ns(libc::CLOCK_REALTIME),
        };
        let took = ticks().wrapping_sub(start);
        if took < least {
            (least, best) = (took, anchor);
        }
        if took < 4_000 {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_loses_the_processor_measures_the_same_rate() {
        // A simulated clock of 2.5 GHz, read by a thread that is interrupted for 3 ms after every `each`th step.
        for each in [1, 2, 3, 5, 7, 1_000] {
            for first in 0..each {
                let (mut ns, mut steps) = (5_000_000u64, first);
                let mut step = || {
                    steps += 1;
                    ns += if steps % each == 0 { 3_000_000 } else { 20 };
                    ns
                };
                let rate = measure_rate(|| {
                    let before = step() * 5 / 2;
                    (before, step(), step() * 5 / 2)
                });
                // Interrupted at each step there is no good reading; the best of many is as good as it gets.
                let allowed = if each < 3 { u64::MAX } else { 2_500_000 };
                assert!(rate.abs_diff(2_500_000_000) <= allowed, "{each} {rate}");
            }
        }
    }
}
