//! The C functions that append: for a host that marks its own events between the GPU's.
//!
//! Any thread, any time: in a callback, a signal handler, a finalizer, a forked child. Wait-free; without a session both
//! cost a few instructions. Neither can panic on its common way, and nothing unwinds across the border.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use strandline::Runtime;

/// The id of a name, for strandline_instant: copies the name into the trace the first time. 0 when `name` is null or there
/// is no runtime yet. Once a name, outside hot loops. Wait-free.
///
/// # Safety
/// `name` is null or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_intern(name: *const c_char) -> u64 {
    let Some(runtime) = Runtime::global().filter(|_| !name.is_null()) else {
        return 0;
    };
    // SAFETY: not null, and terminated as the caller promises.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    catch_unwind(AssertUnwindSafe(|| runtime.intern(name))).unwrap_or(0)
}

/// Records an instant on the calling thread, at the time of the call, in its cheapest form: a record of kind MARK. `name` is
/// an id of strandline_intern; `correlation_id` and `ancestor_id` join it to other records, 0 = none. Does nothing while no
/// session is open. Wait-free.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_instant(name: u64, correlation_id: u64, ancestor_id: u64) {
    if let Some(runtime) = Runtime::global() {
        runtime.instant(name, correlation_id, ancestor_id);
    }
}
