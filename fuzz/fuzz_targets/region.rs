//! A region that says anything at all is read: no panic, every refusal names file and place, and the report can be made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline::report;
use strandline_fuzz::Input;

fuzz_target!(|data: &[u8]| {
    let Some(input) = Input::new(data) else {
        return;
    };
    for trace in input.traces() {
        let _ = (
            trace.entries().count(),
            trace.lanes(),
            trace.losses(),
            trace.cost(),
            report::sessions(&trace),
        );
        let facts = trace.facts();
        for id in facts.kernels.keys() {
            let _ = facts.kernel_name(*id);
        }
    }
});
