//! Perfetto's protobuf, read the way its importer reads it: what the importer would drop or bend without a word fails the
//! reader here (see `export_support::import`).

mod export_support;

use std::collections::{BTreeMap, BTreeSet};

use export_support::*;
use strandline::builder::Builder;
use strandline::loss::{LossReason, Losses};
use strandline::record::{Kind, domain, flag, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work};

#[test]
fn a_kernel_has_what_the_gpu_views_look_for() {
    let mut region = region();
    region.record(
        0,
        Kind::KernelSymbol,
        0,
        &[70, 1, 0, 0, pair(512, 16), pair(32, 64), pair(8, 24)],
    );
    launch(&mut region, 0, 7, 1_500, 1_900);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 7,
            id: 5,
            start: 2_001,
            end: 12_126,
            ..Dispatch::default()
        },
    );
    copy(&mut region, 1, 2, 8, 20_000, 21_000, 4096, 1);
    close(&mut region, 1, 1, 90_000);
    let (trace, report) = perfetto(&[region.trace()]);
    let [kernel, copy] = &trace.stages[..] else {
        panic!("{:?}", trace.stages)
    };
    assert_eq!((kernel.start, kernel.duration), (2_001 + BOOT_NS, 10_125));
    assert_eq!(kernel.name, "add(float*, float*)");
    assert_eq!(
        kernel.kernel,
        Some((
            "_Z3addPfS_".to_owned(),
            "add(float*, float*)".to_owned(),
            "gfx942".to_owned()
        ))
    );
    assert_eq!(
        (kernel.category, kernel.pid, kernel.api, kernel.gpu_id),
        (2, 4242, 5, 0)
    );
    assert_eq!(
        (&kernel.grid[..], &kernel.block[..]),
        (&[4, 1, 1][..], &[64, 1, 1][..])
    );
    for (name, value) in [
        ("device", "0"),
        ("stream", "1"),
        ("queue", "3"),
        ("dispatch_id", "5"),
        ("correlation_id", "7"),
        ("workgroup_size", "64"),
        ("grid_size", "4"),
        ("stream_handle", "0x7f0000000100"),
        ("shared_mem_static", "0"),
        ("shared_mem_dynamic", "512"),
        ("process_id", "4242"),
        ("process_name", "synthetic"),
    ] {
        assert_eq!(
            kernel.args.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
    assert_eq!(
        (copy.name.as_str(), copy.category),
        ("Memcpy HtoD (Host -> Device)", 0)
    );
    assert_eq!(copy.args["bytes"], "4096");
    assert_eq!(trace.gpus[0].text(1).unwrap(), "AMD Instinct MI300X");
    assert_eq!(trace.gpus[0].text(2).unwrap(), "AMD");
    assert_eq!(trace.gpus[0].text(4).unwrap(), "gfx942");
    let call = &trace.slices[0];
    assert_eq!(
        (call.name.as_str(), call.start, call.end),
        ("hipLaunchKernel", 1_500 + BOOT_NS, Some(1_900 + BOOT_NS))
    );
    assert_eq!(call.annotations["correlation_id"], "7");
    assert_eq!(trace.thread_of(call), (4242, 4242, "synthetic".to_owned()));
    assert_eq!(trace.arrows(), [(0, 0)]);
    assert_eq!(
        (report.kernels, report.copies, report.calls, report.arrows),
        (1, 1, 1, 1)
    );
}

#[test]
fn a_kernel_of_many_shapes_says_the_right_one_each_time() {
    let mut region = region();
    let mut expected = Vec::new();
    for id in 0..120u64 {
        let groups = id % 40 + 1;
        let stream = 1 + (id % 2) as u32;
        region.stream(2, 0x200);
        let words = [
            2_000 + id * 10,
            2_005 + id * 10,
            0,
            0,
            id,
            1,
            0,
            0xa0,
            3 + id % 3,
            pair(stream, 9),
            pair(64, 1),
            pair(1, groups as u32 * 64),
            pair(1, 1),
            pair(0, (id % 4 * 256) as u32),
            0,
        ];
        region.record(0, Kind::Dispatch, 1, &words);
        let dynamic = id % 4 * 256;
        let handle = ["0x7f0000000100", "0x200"][(id % 2) as usize];
        expected.push(vec![
            groups.to_string(),
            (3 + id % 3).to_string(),
            dynamic.to_string(),
            handle.to_owned(),
            id.to_string(),
        ]);
    }
    close(&mut region, 120, 0, 90_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let seen: Vec<Vec<String>> = trace
        .stages
        .iter()
        .map(|stage| {
            assert_eq!(stage.args["grid_size"], stage.grid[0].to_string());
            assert_eq!(
                stage.queue,
                format!(
                    "Queue {:#x} [4242]",
                    stage.args["queue"].parse::<u64>().unwrap()
                )
            );
            [
                "grid_size",
                "queue",
                "shared_mem_dynamic",
                "stream_handle",
                "dispatch_id",
            ]
            .map(|key| stage.args[key].clone())
            .to_vec()
        })
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_graph_launch_names_each_of_its_kernels() {
    let mut region = region();
    for (call, nodes) in [(40u64, 300u64), (41, 3), (42, 1)] {
        api(
            &mut region,
            0,
            GRAPH_LAUNCH,
            call,
            1_500 + call,
            1_500 + call,
        );
        for node in 0..nodes {
            let start = 3_000 + call + node * 10;
            dispatch(
                &mut region,
                1,
                Dispatch {
                    correlation: call,
                    id: call * 1000 + node,
                    start,
                    end: start + 9,
                    ..Dispatch::default()
                },
            );
        }
    }
    close(&mut region, 304, 0, 90_000);
    let (trace, report) = perfetto(&[region.trace()]);
    let arrows = trace.arrows();
    assert_eq!((arrows.len(), report.arrows), (304, 304));
    let ids: BTreeSet<u64> = trace.stages.iter().map(|stage| stage.event_id).collect();
    assert_eq!(ids.len(), 304);
    for (slice, stage) in arrows {
        assert_eq!(
            trace.slices[slice].annotations["correlation_id"],
            trace.stages[stage].args["correlation_id"]
        );
    }
}

#[test]
fn case_b14_clocks_are_tied_together_before_the_first_time_and_again_at_the_end() {
    // The vendor's clock is MONOTONIC; BOOTTIME is an hour ahead of it.
    let mut region = Builder::new();
    region.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X");
    region.kernel(1, b"k");
    let at = |ns: u64| strandline::anchors::ClockAnchor {
        ticks: ns,
        vendor_ns: ns,
        boottime_ns: ns + 3_600_000_000_000,
        monotonic_ns: ns,
        // 50 parts in a million apart.
        monotonic_raw_ns: ns + ns / 20_000,
        realtime_ns: ns + UNIX_NS,
    };
    region.anchor(at(1_000_000));
    region.anchor(at(3_000_000_000));
    region.session_begin(1, 1_000_000);
    for id in 0..10u64 {
        let start = 2_000_000 + id * 1_000;
        dispatch(
            &mut region,
            0,
            Dispatch {
                id,
                start,
                end: start + 10,
                ..Dispatch::default()
            },
        );
    }
    let (trace, _) = perfetto(&[region.trace()]);
    let starts: Vec<u64> = trace.stages.iter().map(|stage| stage.start).collect();
    let expected: Vec<u64> = (0..10)
        .map(|id| 2_000_000 + id * 1_000 + 3_600_000_000_000)
        .collect();
    assert_eq!(starts, expected);
    let [(first, one), (second, two)] = &trace.snapshots[..] else {
        panic!("{:?}", trace.snapshots)
    };
    assert_eq!(first, second);
    // REALTIME, MONOTONIC, MONOTONIC_RAW, BOOTTIME and the vendor's clock, which only this sequence has.
    assert_eq!(one.keys().copied().collect::<Vec<_>>(), [1, 3, 5, 6, 64]);
    assert_eq!((one[&6], one[&64]), (3_600_001_000_000, 1_000_000));
    assert_eq!((two[&6], two[&64]), (3_603_000_000_000, 3_000_000_000));
}

#[test]
fn without_any_anchor_times_are_the_vendors_own() {
    let mut region = Builder::new();
    region.session_begin(1, 1_000);
    dispatch(&mut region, 0, Dispatch::default());
    let (trace, _) = perfetto(&[region.trace()]);
    assert_eq!(trace.stages[0].start, 2_000);
    assert_eq!(
        trace.snapshots[0].1.keys().copied().collect::<Vec<_>>(),
        [6, 64]
    );
}

#[test]
fn case_b16_id_zero_is_no_arrow() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 29_170, 1_500, 1_600);
    api(&mut region, 0, LAUNCH, 0, 1_700, 1_800);
    for (id, correlation) in [(1, 0), (2, 0), (3, 29_170)] {
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation,
                start: 2_000 + id * 100,
                end: 2_050 + id * 100,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 3, 0, 9_000);
    let (trace, report) = perfetto(&[region.trace()]);
    assert_eq!(trace.arrows(), [(0, 2)]);
    assert_eq!((trace.stages.len(), report.unlinked), (3, 2));
}

#[test]
fn two_calls_with_one_id_claim_their_work_once() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 9, 1_500, 1_600);
    api(&mut region, 0, LAUNCH, 9, 1_700, 1_800);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 9,
            ..Dispatch::default()
        },
    );
    close(&mut region, 1, 0, 9_000);
    let trace = region.trace();
    let (seen, _) = perfetto(std::slice::from_ref(&trace));
    assert_eq!(seen.arrows(), [(0, 0)]);
    let (value, _) = json(&[trace]);
    assert_eq!(arrows(&value).len(), 1);
}

#[test]
fn calls_that_wait_name_the_last_work_that_they_waited_for() {
    let mut region = region();
    region.operation(domain::RUNTIME, 300, "hipStreamSynchronize");
    region.operation(domain::RUNTIME, 301, "hipDeviceSynchronize");
    region.stream(2, 0x200);
    for (id, stream, start, end) in [
        (1, 1, 2_000, 3_000),
        (2, 1, 3_000, 4_000),
        (3, 2, 2_500, 9_000),
        (4, 1, 4_900, 6_500),
        (5, 1, 6_600, 6_700),
    ] {
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                stream,
                start,
                end,
                ..Dispatch::default()
            },
        );
    }
    // Waits for stream 1 until kernel 2 is done; the next call begins where it ends; the last one waits for all.
    api(&mut region, 0, 300, 10, 2_200, 5_000);
    api(&mut region, 0, LAUNCH, 11, 5_000, 5_100);
    api(&mut region, 0, 301, 12, 5_200, 9_100);
    close(&mut region, 5, 0, 90_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let waits: Vec<(u64, u64, Vec<u64>)> = trace
        .slices
        .iter()
        .map(|slice| {
            let of = |id: &u64| {
                trace
                    .stages
                    .iter()
                    .find(|stage| stage.event_id == *id)
                    .unwrap()
                    .args["dispatch_id"]
                    .parse()
                    .unwrap()
            };
            (
                slice.start - BOOT_NS,
                slice.end.unwrap() - BOOT_NS,
                slice.waits.iter().map(of).collect(),
            )
        })
        .collect();
    assert_eq!(
        waits,
        [
            (2_200, 5_000, vec![2]),
            (5_000, 5_100, vec![]),
            (5_200, 9_100, vec![5, 3])
        ]
    );
}

#[test]
fn case_b17_streams_are_small_integers_and_the_unknown_one_is_its_own() {
    let mut region = region();
    for stream in 2..=6u32 {
        region.stream(stream, 0x7f00_0000_0100 + (u64::from(stream) << 32));
    }
    for stream in 1..=6u32 {
        dispatch(
            &mut region,
            0,
            Dispatch {
                id: stream.into(),
                stream,
                queue: u64::from(stream % 4),
                ..Dispatch::default()
            },
        );
    }
    let words = [
        2_500,
        2_600,
        0,
        0,
        3,
        64,
        0,
        0xa0,
        0xc0,
        pair(u32::MAX, 9),
        0,
        0,
    ];
    region.flagged_record(0, Kind::Copy, 1, flag::UNKNOWN_STREAM, &words);
    close(&mut region, 6, 1, 9_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let streams: BTreeSet<&str> = trace
        .stages
        .iter()
        .map(|stage| stage.args["stream"].as_str())
        .collect();
    assert_eq!(
        streams.into_iter().collect::<Vec<_>>(),
        ["1", "2", "3", "4", "5", "6", "7"]
    );
    let copy = trace
        .stages
        .iter()
        .find(|stage| stage.kernel.is_none())
        .unwrap();
    assert_eq!(
        (
            copy.args["stream"].as_str(),
            copy.args["stream_known"].as_str()
        ),
        ("7", "0")
    );
    let queues: BTreeSet<&str> = trace
        .stages
        .iter()
        .map(|stage| stage.queue.as_str())
        .collect();
    assert_eq!(queues.len(), 5);
}

#[test]
fn case_b27_overlapping_kernels_stay_whole_on_their_queue() {
    let mut region = region();
    let intervals = [(0, 100), (90, 200), (90, 120), (90, 200)];
    for (id, (start, end)) in intervals.into_iter().enumerate() {
        dispatch(
            &mut region,
            1,
            Dispatch {
                id: id as u64,
                start: 2_000 + start,
                end: 2_000 + end,
                ..Dispatch::default()
            },
        );
    }
    // Host calls that overlap only in part would end each other.
    for (id, (start, end)) in [(1_100, 1_200), (1_150, 1_250), (1_160, 1_200)]
        .into_iter()
        .enumerate()
    {
        api(&mut region, 0, LAUNCH, id as u64 + 1, start, end);
    }
    close(&mut region, 4, 0, 9_000);
    let (trace, report) = perfetto(&[region.trace()]);
    let mut drawn: Vec<(u64, u64)> = trace
        .stages
        .iter()
        .map(|stage| (stage.start - BOOT_NS - 2_000, stage.duration))
        .collect();
    drawn.sort_unstable();
    assert_eq!(drawn, [(0, 100), (90, 30), (90, 110), (90, 110)]);
    assert_eq!(
        trace
            .stages
            .iter()
            .map(|stage| &stage.queue)
            .collect::<BTreeSet<_>>()
            .len(),
        1
    );
    let mut calls: Vec<(u64, u64)> = trace
        .slices
        .iter()
        .map(|slice| (slice.start - BOOT_NS, slice.end.unwrap() - BOOT_NS))
        .collect();
    calls.sort_unstable();
    assert_eq!(calls, [(1_100, 1_200), (1_150, 1_250), (1_160, 1_200)]);
    assert_eq!((report.overlaps, report.host_overlaps), (3, 1));
}

#[test]
fn nested_calls_with_equal_edges_keep_their_ends() {
    let mut region = region();
    let spans = [
        (100, 200),
        (100, 200),
        (100, 100),
        (120, 200),
        (200, 200),
        (200, 300),
        (250, 300),
    ];
    for (id, (start, end)) in spans.into_iter().enumerate() {
        let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16 | (id as u64) << 24;
        region.record(
            0,
            Kind::Api,
            1,
            &[
                1_000 + start,
                1_000 + end,
                id as u64 + 1,
                0,
                op,
                0,
                pair(1, 4242),
            ],
        );
    }
    close(&mut region, 0, 0, 9_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let by_id: BTreeMap<usize, (u64, u64)> = trace
        .slices
        .iter()
        .map(|slice| {
            (
                slice.annotations["correlation_id"].parse().unwrap(),
                (
                    slice.start - BOOT_NS - 1_000,
                    slice.end.unwrap() - BOOT_NS - 1_000,
                ),
            )
        })
        .collect();
    assert_eq!(by_id.into_values().collect::<Vec<_>>(), spans);
}

#[test]
fn case_b31_each_thread_is_a_sequence_with_its_own_names() {
    let mut region = region();
    region.operation(domain::RUNTIME, 5, "hipMalloc");
    // Two threads use the same names in another order, interleaved.
    for id in 1..=20u64 {
        let thread = 100 + (id % 2) as u32;
        let operation = [LAUNCH, 5][(id / 2 % 2) as usize];
        api_on(
            &mut region,
            (id % 2) as u16,
            thread,
            operation,
            id,
            1_000 + id * 10,
            1_005 + id * 10,
        );
    }
    close(&mut region, 0, 0, 9_000);
    let (trace, _) = perfetto(&[region.trace()]);
    // The process, its GPU work, two threads.
    assert_eq!(trace.sequences.len(), 4);
    assert_eq!(trace.slices.len(), 20);
    for slice in &trace.slices {
        let id: u64 = slice.annotations["correlation_id"].parse().unwrap();
        assert_eq!(
            slice.name,
            ["hipLaunchKernel", "hipMalloc"][(id / 2 % 2) as usize]
        );
        assert_eq!(trace.thread_of(slice).1, 100 + id % 2);
    }
}

fn rank(rank: i32, host: u64, clock_ns: u64) -> Trace {
    let mut region = Builder::new();
    let header = region.header_mut();
    (header.vendor, header.pid, header.rank, header.host_hash) = (1, 1, rank, host);
    header.boot_id = [host as u8; 16];
    header.process_start_ns = rank as u64;
    region.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X");
    region.operation(domain::RUNTIME, LAUNCH, "hipLaunchKernel");
    region.kernel(1, b"_Z3addPfS_.kd");
    region.stream(1, 0x100);
    let mut at = anchor(clock_ns);
    at.realtime_ns = UNIX_NS;
    at.boottime_ns = clock_ns;
    region.anchor(at);
    region.session_begin(1, clock_ns + 1_000);
    for id in 1..=10u64 {
        let start = clock_ns + 2_000 + id * 1_000;
        let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
        region.record(
            0,
            Kind::Api,
            1,
            &[start, start + 100, id, 0, op, 0, pair(1, 7)],
        );
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: id,
                start: start + 500,
                end: start + 900,
                ..Dispatch::default()
            },
        );
    }
    region.trace()
}

#[test]
fn case_b34_ranks_merged_or_concatenated_keep_their_arrows_apart() {
    let traces = [rank(0, 10, 5_000_000), rank(1, 11, 11_505_000_000)];
    let (merged, _) = perfetto(&traces);
    let folder = Folder::new();
    let mut bytes = Vec::new();
    for (at, trace) in traces.iter().enumerate() {
        let (path, _) = export_named(
            std::slice::from_ref(trace),
            &folder,
            &format!("{at}.pftrace"),
        );
        bytes.extend(std::fs::read(path).unwrap());
    }
    let concatenated = import(&bytes);
    for trace in [&merged, &concatenated] {
        assert_eq!(trace.stages.len(), 20);
        let arrows = trace.arrows();
        assert_eq!(arrows.len(), 20);
        for (slice, stage) in arrows {
            // Contexts of the two differ, so the rank is known from the process of either end.
            let (slice, stage) = (&trace.slices[slice], &trace.stages[stage]);
            assert_eq!(stage.start - slice.start, 500);
            assert_eq!(trace.thread_of(slice).0, stage.pid);
        }
    }
    // Merged, they lie on one machine's clock, at the same time, with distinct processes and GPUs.
    let starts: BTreeSet<u64> = merged.stages.iter().map(|stage| stage.start).collect();
    assert_eq!(starts.len(), 10);
    assert_eq!(
        merged
            .stages
            .iter()
            .map(|stage| (stage.pid, stage.gpu_id))
            .collect::<BTreeSet<_>>()
            .len(),
        2
    );
    assert_eq!(merged.gpus.len(), 2);
    assert!(
        merged
            .attributes
            .keys()
            .any(|key| key.starts_with("strandline.rank1."))
    );
    // Sequences never meet, and every snapshot has a clock of its own, so that none refuses another.
    assert_eq!(concatenated.sequences.len(), 6);
    assert_eq!(
        concatenated
            .snapshots
            .iter()
            .map(|(sequence, _)| sequence)
            .collect::<BTreeSet<_>>()
            .len(),
        2
    );
}

#[test]
fn ranks_on_one_machine_share_its_gpus() {
    let (trace, _) = perfetto(&[rank(0, 10, 5_000_000), rank(1, 10, 5_000_000)]);
    assert_eq!(trace.gpus.len(), 1);
    assert_eq!(
        trace
            .stages
            .iter()
            .map(|stage| stage.pid)
            .collect::<BTreeSet<_>>()
            .len(),
        2
    );
}

#[test]
fn external_ids_of_every_domain_are_with_the_call_and_its_work() {
    let (trace, _) = perfetto(&[externals().trace()]);
    let call = |id: &str| {
        trace
            .slices
            .iter()
            .find(|slice| slice.annotations.get("correlation_id").map(String::as_str) == Some(id))
            .unwrap()
    };
    assert_eq!(call("1").annotations["external_id_domain_1"], "71");
    assert_eq!(
        call("1").annotations["external_id_domain_3"],
        u64::MAX.to_string()
    );
    assert_eq!(call("2").annotations["external_id_domain_2"], "74");
    let args = |id: &str| {
        let stage = trace
            .stages
            .iter()
            .find(|stage| stage.args["correlation_id"] == id);
        let args = &stage.unwrap().args;
        args.iter()
            .filter(|(key, _)| key.starts_with("external_id"))
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect::<Vec<_>>()
    };
    let max = u64::MAX.to_string();
    assert_eq!(
        args("1"),
        [
            ("external_id", "70"),
            ("external_id_domain_1", "71"),
            ("external_id_domain_3", &max)
        ]
    );
    assert_eq!(args("2"), [("external_id_domain_2", "74")]);
    assert!(
        call("3")
            .annotations
            .keys()
            .all(|key| !key.starts_with("external"))
    );
    assert!(args("3").is_empty());
}

#[test]
fn case_b39_losses_are_counted_where_the_importer_counts_its_own() {
    let mut region = region();
    for id in 1..=3u64 {
        region.record(
            0,
            Kind::Enqueue,
            1,
            &[1_000 + id * 1_000, id, id, 0, 1, 3, pair(1, 4242)],
        );
    }
    dispatch(
        &mut region,
        1,
        Dispatch {
            id: 1,
            correlation: 1,
            start: 2_500,
            end: 2_600,
            ..Dispatch::default()
        },
    );
    let mut lost = Losses::default();
    lost.0[LossReason::NoSegment as usize] = 500;
    lost.0[LossReason::SdkDropped as usize] = 7;
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Incomplete,
        proof: Proof::Pairs,
        dispatches: Work {
            issued: 3,
            recorded: 1,
            retired_without_record: 0,
        },
        begin_ns: 1_000,
        returned_ns: 6_000,
        low_watermark: 1,
        lost,
        first_loss_ns: 3_500,
        last_loss_ns: 4_500,
        ..SessionEnd::default()
    });
    let (trace, _) = perfetto(&[region.trace()]);
    assert_eq!(trace.lost, 507);
    let quality: Vec<&Slice> = trace
        .slices
        .iter()
        .filter(|slice| {
            trace.tracks[&slice.track]
                .text(2)
                .is_some_and(|name| name.starts_with("Recording quality"))
        })
        .collect();
    let incomplete = quality
        .iter()
        .find(|slice| slice.name.contains("2 of 3 dispatches missing"))
        .unwrap();
    assert_eq!(
        (incomplete.start, incomplete.end),
        (3_000 + BOOT_NS, Some(6_000 + BOOT_NS))
    );
    assert!(quality.iter().any(
        |slice| slice.name == "session 1: lost: 500 records, no_segment"
            && slice.annotations["count"] == "500"
            && (slice.start, slice.end) == (3_500 + BOOT_NS, Some(4_500 + BOOT_NS))
    ));
    let attribute = |name: &str| {
        let found: Vec<&String> = trace
            .attributes
            .iter()
            .filter(|(key, _)| key.ends_with(name))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0].clone()
    };
    assert_eq!(attribute("session1.verdict"), "incomplete");
    assert_eq!(attribute("session1.dispatches.missing"), "2");
    assert_eq!(attribute("session1.lost.no_segment"), "500");
    assert_eq!(
        attribute("session1.first_loss_ns"),
        (3_500 + BOOT_NS).to_string()
    );
    assert_eq!(
        attribute("session1.last_loss_ns"),
        (4_500 + BOOT_NS).to_string()
    );
}

/// Losses that began before the first missing dispatch, and ended after it: neither takes the other's end.
#[test]
fn what_is_said_of_quality_keeps_its_times_where_it_overlaps() {
    let mut region = region();
    for (id, start) in [(1, 1_200), (2, 3_000)] {
        let issue = [start, id, id, 0, 1, 3, pair(1, 4242)];
        region.record(0, Kind::Enqueue, 1, &issue);
    }
    let mut lost = Losses::default();
    lost.0[LossReason::NoSegment as usize] = 7;
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Incomplete,
        proof: Proof::Pairs,
        dispatches: Work {
            issued: 2,
            recorded: 1,
            retired_without_record: 0,
        },
        begin_ns: 1_000,
        requested_ns: 5_000,
        returned_ns: 6_000,
        low_watermark: 1,
        high_watermark: 2,
        lost,
        first_loss_ns: 1_500,
        last_loss_ns: 4_000,
        ..SessionEnd::default()
    });
    let (file, _) = perfetto(&[region.trace()]);
    let found = |about: &str| {
        let mut slices = file.slices.iter();
        let slice = slices.find(|slice| slice.name.contains(about)).unwrap();
        (slice.start - BOOT_NS, slice.end.unwrap() - BOOT_NS)
    };
    assert_eq!(found("lost: 7 records"), (1_500, 4_000));
    assert_eq!(found("incomplete: "), (3_000, 6_000));
}

#[test]
fn a_clean_trace_has_no_mark_of_loss() {
    let mut region = region();
    launch(&mut region, 0, 7, 1_500, 1_900);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 7,
            ..Dispatch::default()
        },
    );
    close(&mut region, 1, 0, 9_000);
    let (trace, report) = perfetto(&[region.trace()]);
    assert!(report.is_clean());
    assert_eq!(trace.lost, 0);
    assert!(trace.tracks.values().all(|track| track.text(2).is_none()));
}

#[test]
fn case_b40_ranges_and_marks_are_on_their_tracks() {
    let mut region = region();
    let [a, b, c, m] = ["a", "b", "by id", "m"].map(|name| region.string(name.as_bytes()));
    let thread = pair(0, 4242);
    region.record(0, Kind::Range, 1, &[1_200, 1_800, 0, 0, 1 << 24, b, thread]);
    region.record(0, Kind::Range, 1, &[1_100, 2_000, 0, 0, 0, a, thread]);
    api(&mut region, 0, LAUNCH, 1, 1_300, 1_400);
    region.record(0, Kind::RangeStart, 1, &[1_500, 0, 0, 0, 1, c, pair(0, 11)]);
    region.record(0, Kind::RangeStart, 1, &[1_600, 0, 0, 0, 2, c, pair(0, 11)]);
    region.record(1, Kind::RangeStop, 1, &[1_700, 0, 0, 0, 1, 0, pair(0, 12)]);
    region.record(0, Kind::Mark, 1, &[2_100, 0, 0, 0, 0, m, thread]);
    close(&mut region, 0, 0, 3_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let seen: Vec<(&str, u64, u64)> = trace
        .slices
        .iter()
        .map(|slice| {
            (
                slice.name.as_str(),
                slice.start - BOOT_NS,
                slice.end.unwrap() - BOOT_NS,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("a", 1_100, 2_000),
            ("b", 1_200, 1_800),
            ("hipLaunchKernel", 1_300, 1_400),
            ("by id", 1_500, 1_700),
            ("by id", 1_600, 3_000),
            ("m", 2_100, 2_100),
        ]
    );
    assert_ne!(trace.slices[3].track, trace.slices[4].track);
    assert_eq!(trace.slices[4].annotations["open"], "1");
}

#[test]
fn counters_show_the_queue_and_the_memory() {
    let mut region = region();
    for id in 1..=100u64 {
        let at = 2_000 + id * 100;
        region.record(0, Kind::Enqueue, 1, &[at, id, id, 0, 1, 3, pair(1, 4242)]);
        let start = 50_000 + id * 20_000;
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: id,
                start,
                end: start + 10_000,
                ..Dispatch::default()
            },
        );
    }
    // Never completed: it must not stay in the queue for ever.
    region.record(
        0,
        Kind::Enqueue,
        1,
        &[2_000, 500, 500, 0, 1, 3, pair(1, 4242)],
    );
    for (operation, address, bytes, at) in [
        (1u64, 0x10u64, 100u64, 2_000u64),
        (1, 0x20, 50, 2_100),
        (3, 0x10, 0, 2_200),
    ] {
        region.record(
            0,
            Kind::Alloc,
            1,
            &[
                at,
                at + 5,
                1,
                0,
                operation,
                bytes,
                0,
                0xa0,
                0,
                pair(0, 4242),
                address,
            ],
        );
    }
    close(&mut region, 100, 0, 9_000_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let depth = &trace.counters["queue depth d0 s1"];
    assert_eq!(depth.iter().map(|(_, value)| *value).max(), Some(100));
    assert_eq!(depth.last().unwrap().1, 0);
    assert_eq!(
        depth.last().unwrap().0,
        50_000 + 100 * 20_000 + 10_000 + BOOT_NS
    );
    assert!(depth.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let totals: Vec<u64> = trace
        .memory
        .iter()
        .filter(|(_, _, pid, _)| *pid == 4242)
        .map(|(.., total)| *total)
        .collect();
    assert_eq!(totals, [100, 150, 50]);
    assert_eq!(
        trace
            .memory
            .iter()
            .filter(|(_, _, pid, _)| *pid == 0)
            .count(),
        3
    );
}

#[test]
fn an_empty_name_is_said_to_be_none() {
    let mut region = region();
    region.header_mut().program = String::new();
    region.operation(domain::RUNTIME, 999, "");
    let empty = region.string(b"");
    let thread = pair(0, 4242);
    region.record(0, Kind::Range, 1, &[1_100, 2_000, 0, 0, 0, empty, thread]);
    region.record(0, Kind::RangeStart, 1, &[1_200, 0, 0, 0, 1, empty, thread]);
    region.record(0, Kind::RangeStop, 1, &[1_300, 0, 0, 0, 1, 0, thread]);
    region.record(0, Kind::Mark, 1, &[1_400, 0, 0, 0, 0, empty, thread]);
    api(&mut region, 0, 999, 1, 1_500, 1_600);
    close(&mut region, 0, 0, 9_000);
    let (trace, _) = perfetto(&[region.trace()]);
    let names: Vec<&str> = trace
        .slices
        .iter()
        .map(|slice| slice.name.as_str())
        .collect();
    assert_eq!(names, ["(no name)"; 4]);
    let process = trace.tracks.values().find_map(|track| track.message(3));
    assert_eq!(process.unwrap().text(6).unwrap(), "(no name)");
}

#[test]
fn names_that_are_no_utf8_are_valid_and_keep_their_bytes() {
    let mut region = region();
    region.kernel(60, b"ker\xffnel.kd");
    dispatch(
        &mut region,
        0,
        Dispatch {
            kernel: 60,
            ..Dispatch::default()
        },
    );
    let name = region.string(b"r\xfe");
    region.record(
        0,
        Kind::Range,
        1,
        &[1_200, 1_300, 0, 0, 0, name, pair(0, 4242)],
    );
    close(&mut region, 1, 0, 9_000);
    let (trace, _) = perfetto(&[region.trace()]);
    assert_eq!(trace.stages[0].name, "ker\u{fffd}nel");
    assert_eq!(trace.stages[0].args["name_bytes"], "6b6572ff6e656c");
    assert_eq!(trace.slices[0].annotations["name_bytes"], "72fe");
}

#[test]
fn open_calls_end_with_their_session() {
    let mut region = region();
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    region.record(
        0,
        Kind::OpenCall,
        1,
        &[1_500, 0, 9, 0, op, 0, pair(1, 4242)],
    );
    close(&mut region, 0, 0, 9_000);
    let (trace, _) = perfetto(&[region.trace()]);
    assert_eq!(
        (trace.slices[0].start, trace.slices[0].end),
        (1_500 + BOOT_NS, Some(9_000 + BOOT_NS))
    );
    assert_eq!(trace.slices[0].annotations["open"], "1");
}
