//! The region that is exported: the mix of a graph-driven inference service. Graph launches of 36 kernels, a copy and its
//! call every eighth, four streams.

use strandline::anchors::ClockAnchor;
use strandline::builder::Builder;
use strandline::counters::Counter;
use strandline::record::{Kind, api_arg, domain, pair};
use strandline::{Proof, SessionEnd, Verdict, Work};

/// Kernels of one graph.
pub(super) const GRAPH: u64 = 36;
/// HIP's numbers of the two calls; only their names matter here.
pub(super) const GRAPH_LAUNCH: u16 = 300;
const COPY_ASYNC: u16 = 301;
/// The region's one process and GPU.
const AGENT: u64 = 77;
/// Streams.
pub(super) const STREAMS: u64 = 4;
/// The thread of all calls.
pub(super) const THREAD: u32 = 4243;

/// A kernel's name.
pub(super) fn kernel_name(kernel: u64) -> String {
    format!(
        "void gemm::kernel_{kernel}<float, {}, 128, true>(float const*, float const*, float*, int)",
        1 << (kernel % 8)
    )
}

/// A region of about `events` events.
pub(super) fn synthetic(events: u64) -> Builder {
    const START: u64 = 1_000_000_000;
    let mut region = Builder::new();
    region.gpu(AGENT, 0, "gfx942", "AMD Instinct MI300X");
    for kernel in 0..GRAPH {
        region.kernel(kernel, kernel_name(kernel).as_bytes());
    }
    region.operation(domain::RUNTIME, GRAPH_LAUNCH, "hipGraphLaunch");
    region.operation(domain::RUNTIME, COPY_ASYNC, "hipMemcpyAsync");
    for stream in 1..=STREAMS {
        region.stream(stream as u32, 0x1000 * stream);
    }
    let anchor = |ns: u64| ClockAnchor {
        ticks: ns,
        vendor_ns: ns,
        boottime_ns: ns,
        monotonic_ns: ns,
        monotonic_raw_ns: ns,
        realtime_ns: 1_700_000_000_000_000_000 + ns,
    };
    region.anchor(anchor(START));
    region.session_begin(1, START);
    let (mut now, mut correlation, mut dispatch, mut copies, mut calls) = (START, 0, 0, 0, 0);
    while dispatch + copies + calls < events {
        correlation += 1;
        calls += 1;
        let stream = correlation % STREAMS + 1;
        let place = |thread: u32| pair(stream as u32, thread);
        let operation = |number: u16| u64::from(number) | u64::from(domain::RUNTIME) << 16;
        let launch = [
            now,
            now + 9_000,
            correlation,
            0,
            operation(GRAPH_LAUNCH),
            correlation,
            place(THREAD),
            api_arg::GRAPH,
            0,
            0xfeed,
            0,
            0,
            0,
            0,
            0,
        ];
        region.record(0, Kind::Api, 1, &launch);
        let mut gpu = now + 10_000;
        for kernel in 0..GRAPH {
            dispatch += 1;
            let took = 2_000 + kernel * 137 % 3_000;
            region.record(
                0,
                Kind::Enqueue,
                1,
                &[
                    now + kernel,
                    dispatch,
                    correlation,
                    0,
                    kernel,
                    9,
                    place(THREAD),
                ],
            );
            let done = [
                gpu,
                gpu + took,
                correlation,
                0,
                dispatch,
                kernel,
                correlation,
                AGENT,
                9,
                place(THREAD),
                pair(256, 1),
                pair(1, 256 * 1024),
                pair(4, 1),
                pair(0, 4_096),
                pair(1, kernel as u32),
            ];
            region.record(1, Kind::Dispatch, 1, &done);
            gpu += took + 400;
        }
        if correlation % 8 == 0 {
            calls += 1;
            copies += 1;
            correlation += 1;
            let bytes = 4_096 * (correlation % 64 + 1);
            let call = [
                now + 20_000,
                now + 24_000,
                correlation,
                0,
                operation(COPY_ASYNC),
                correlation,
                place(THREAD),
                api_arg::BYTES,
                bytes,
                0,
                0,
                0,
                0,
                0,
                0,
            ];
            region.record(0, Kind::Api, 1, &call);
            let copy = [
                gpu,
                gpu + 3_000,
                correlation,
                0,
                2,
                bytes,
                correlation,
                AGENT,
                AGENT,
                place(THREAD),
                0,
                0,
                0,
                0,
                0,
            ];
            region.record(1, Kind::Copy, 1, &copy);
            gpu += 3_400;
        }
        now += 30_000.max((gpu - now) / STREAMS);
    }
    region.anchor(anchor(now + 1_000_000));
    for (counter, value) in [
        (Counter::DispatchIssued, dispatch),
        (Counter::DispatchDone, dispatch),
        (Counter::DispatchRecorded, dispatch),
        (Counter::CopyIssued, copies),
        (Counter::CopyDone, copies),
        (Counter::CopyRecorded, copies),
        (Counter::ApiRecorded, calls),
    ] {
        region.counter(0, 1, counter, value);
    }
    let work = |count| Work {
        issued: count,
        recorded: count,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: work(dispatch),
        copies: work(copies),
        api_recorded: calls,
        begin_ns: START,
        returned_ns: now + 1_000_000,
        ..SessionEnd::default()
    });
    region
}
