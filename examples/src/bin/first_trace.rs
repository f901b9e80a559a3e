//! A first trace: a source of one's own, one session, and the top kernels.
//!
//! The "GPU" is a thread that completes dispatches some time after they were issued; the trace waits for it.
//!
//! ```sh
//! cargo run -p strandline-examples --bin first-trace
//! ```

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use strandline::events::{DispatchDone, DispatchIssue, Ids, KernelFact, Operation};
use strandline::record::{Kind, domain};
use strandline::settings::Settings;
use strandline::{Runtime, Vendor, clock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let vendor = Vendor {
        simulated: true,
        description: "an example without a GPU (simulation)".to_owned(),
        ..Vendor::default()
    };
    let runtime = Runtime::make_global(Settings::from_env()?, &vendor)
        .map_err(|(status, why)| format!("{status}: {why}"))?;
    runtime.start_housekeeper(None, None)?;
    runtime.kernel(&KernelFact {
        kernel_id: 1,
        name: b"_Z4axpyPf.kd",
        ..KernelFact::default()
    });
    runtime.kernel(&KernelFact {
        kernel_id: 2,
        name: b"_Z4gemmPf.kd",
        ..KernelFact::default()
    });

    let (issue, issued) = mpsc::channel();
    std::thread::spawn(move || {
        for (token, done) in issued {
            std::thread::sleep(Duration::from_micros(200));
            runtime.dispatch_done(token, &done);
        }
    });

    let session = runtime.session_open()?;
    let launch = Operation {
        domain: domain::USER,
        number: 1,
    };
    runtime.operation(launch, b"launch");
    for id in 1..=100u64 {
        let ids = Ids {
            correlation: id,
            ..Ids::default()
        };
        let call = runtime.api_enter(launch, ids, 0);
        let kernel_id = 1 + id % 2;
        let token = runtime.dispatch_issue(&DispatchIssue {
            ids,
            dispatch_id: id,
            kernel_id,
            ..DispatchIssue::default()
        });
        runtime.api_exit(call, launch, ids, 0, None);
        let start_ns = clock::vendor_now();
        let done = DispatchDone {
            ids,
            dispatch_id: id,
            kernel_id,
            start_ns,
            end_ns: start_ns + 100 * kernel_id,
            ..DispatchDone::default()
        };
        issue.send((token, done))?;
    }
    let end = runtime.session_stop(session, Duration::from_secs(5), None)?;
    println!(
        "{}: {} of {} dispatches (a simulation)",
        end.verdict.name(),
        end.dispatches.recorded,
        end.dispatches.issued
    );

    let trace = runtime.trace()?;
    let mut kernels: HashMap<u64, (u64, u64)> = HashMap::new();
    for entry in trace
        .entries()
        .filter(|entry| entry.record.kind() == Some(Kind::Dispatch))
    {
        let total = kernels.entry(entry.record.kernel_id()).or_default();
        total.0 += 1;
        total.1 += entry.record.end() - entry.record.start();
    }
    let mut kernels: Vec<_> = kernels.into_iter().collect();
    kernels.sort_by_key(|&(_, (_, ns))| std::cmp::Reverse(ns));
    for (kernel, (count, ns)) in kernels {
        let name = trace.facts().kernel_name(kernel).unwrap_or(b"?");
        println!(
            "{:>6} x {ns:>8} ns  {}",
            count,
            String::from_utf8_lossy(name)
        );
    }
    runtime.finalize();
    runtime.discard_unasked_file();
    Ok(())
}
