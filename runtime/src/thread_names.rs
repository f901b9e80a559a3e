//! Names of the threads that own lanes, as the kernel keeps them (`/proc/self/task/TID/comm`, 15 bytes).
//!
//! Read by the housekeeper and once more by the finalizer, never in a callback. A name that the program gives itself
//! (a marker) counts more than the kernel's; readers decide by the fact's source word.

use crate::record::{Kind, low};
use crate::runtime::Runtime;
use crate::sync::Ordering;

/// Word 3 of a ThreadName fact: where the name comes from.
pub(crate) mod source {
    /// The kernel.
    pub(crate) const KERNEL: u64 = 1;
}

impl Runtime {
    /// Announces the names of threads that own a lane and were not named yet.
    pub(crate) fn name_threads(&self) {
        let Ok(mut named) = self.named_threads.try_lock() else {
            return;
        };
        let lanes = self.lanes().len();
        named.resize(lanes, 0);
        for (lane, known) in named.iter_mut().enumerate() {
            // ORD(lane): Acquire. Pairs with the Release in `Lane::claim`: thread and generation together.
            let state = self.region().lane_word(lane, 0).load(Ordering::Acquire);
            let thread = low(state);
            if thread == 0 || *known == state {
                continue;
            }
            *known = state;
            let Ok(name) = std::fs::read(format!("/proc/self/task/{thread}/comm")) else {
                continue;
            };
            let name = self.intern(name.trim_ascii_end());
            self.fact(Kind::ThreadName, 0, &[thread.into(), name, source::KERNEL]);
        }
    }
}
