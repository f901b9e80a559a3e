//! A region that says anything at all becomes well-formed packets, or an error: no panic, and the same bytes in stretches
//! of any length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_exporters::Format;
use strandline_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    if let Some(input) = Input::new(data) {
        check::keeps(&input, Format::Perfetto, check::perfetto);
    }
});
