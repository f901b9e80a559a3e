//! The SDK's clock: `CLOCK_BOOTTIME` in ns, or a time set by a replay.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::settings;

/// Time set by a replay in ns; 0 = the machine's clock.
static FIXED_NS: AtomicU64 = AtomicU64::new(0);

/// Time now in ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    // Relaxed: a number by itself; a replay orders it by handing turns between threads.
    match FIXED_NS.load(Ordering::Relaxed) {
        0 => sim_interface::boottime_ns(),
        fixed => fixed,
    }
}

/// Sets the clock of a replay; 0 = back to the machine's.
pub(crate) extern "C" fn set(ns: u64) {
    FIXED_NS.store(ns, Ordering::Relaxed);
}

/// Takes the first time from the settings, once.
pub(crate) fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A replay may have set it already.
        let _ =
            FIXED_NS.compare_exchange(0, settings().clock_ns, Ordering::Relaxed, Ordering::Relaxed);
    });
}
