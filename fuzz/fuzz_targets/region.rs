//! A region with some bytes changed is read: whatever they are, no panic, and the report can be made.
//!
//! The input is a list of changes (offset, value) to a sound region, so that the fuzzer starts behind the header's
//! checksum; one in eight inputs is taken as a whole file instead.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use strandline::Trace;
use strandline::builder::Builder;
use strandline::record::Kind;
use strandline::report;

fn sound() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut region = Builder::new();
        region.gpu(77, 0, "gfx942", "simulated").kernel(1, b"_Z4nodev").stream(1, 0x7f00).session_begin(1, 1_000);
        for id in 1..200 {
            region.record(0, Kind::Enqueue, 1, &[1_000 + id, id, id, 0, 1, 0, 1]);
            region.record(1, Kind::Dispatch, 1, &[2_000 + id, 2_100 + id, id, 0, id, 1, 0, 77, 0, 1]);
        }
        region.bytes()
    })
}

fuzz_target!(|data: &[u8]| {
    let bytes = if data.first().is_some_and(|first| first % 8 == 0) {
        data.to_vec()
    } else {
        let mut bytes = sound().to_vec();
        for change in data.chunks_exact(5) {
            let at = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize % bytes.len();
            bytes[at] = change[4];
        }
        bytes
    };
    if let Ok(trace) = Trace::from_bytes(&bytes, Path::new("fuzz.slt")) {
        let _ = (trace.entries().count(), trace.lanes(), trace.losses(), report::sessions(&trace));
    }
});
