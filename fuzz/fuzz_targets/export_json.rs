//! A region that says anything at all becomes JSON that a strict parser takes, or an error: no panic, and the same bytes
//! in stretches of any length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_exporters::Format;
use strandline_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    if let Some(input) = Input::new(data) {
        check::keeps(&input, Format::Json, check::json);
    }
});
