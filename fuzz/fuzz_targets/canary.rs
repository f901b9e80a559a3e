//! The alarm rings: this target must find its planted panic within seconds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    assert!(!data.starts_with(b"SL"), "planted");
});
