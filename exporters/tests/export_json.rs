//! Chrome JSON, read back with a strict parser: the dialect, and the cases from the field.

mod export_support;

use std::collections::{BTreeMap, BTreeSet};

use export_support::*;
use serde_json::json;
use strandline::builder::Builder;
use strandline::counters::Counter;
use strandline::loss::{LossReason, Losses};
use strandline::record::{Kind, StreamKind, api_arg, domain, flag, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work};
use strandline_exporters::{Options, export};

#[test]
fn a_launch_and_its_kernel_have_every_field_of_the_dialect() {
    let mut region = region();
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
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!(value["schemaVersion"], 1);
    assert_eq!(value["displayTimeUnit"], "ms");
    assert_eq!(value["traceName"], "out.json");
    assert_eq!(
        value["baseTimeNanoseconds"].as_u64().unwrap() % (7_889_238 * 1_000_000_000),
        0
    );
    assert_eq!(
        value["deviceProperties"],
        json!([{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 192u64 << 30, "warpSize": 64, "numSms": 304}])
    );
    let call = of(&value, "cuda_runtime")[0];
    assert_eq!(call["name"], "hipLaunchKernel");
    assert_eq!(
        (call["pid"].as_u64(), call["tid"].as_u64()),
        (Some(4242), Some(4242))
    );
    assert_eq!(
        call["args"],
        json!({"cid": 214, "correlation": 7, "grid": [4, 1, 1], "block": [64, 1, 1], "shared memory": 256})
    );
    let kernel = of(&value, "kernel")[0];
    assert_eq!(kernel["name"], "add(float*, float*)");
    assert_eq!(vendor_ns(&value, kernel), 2_001);
    assert_eq!(ns(&kernel["dur"]), 10_125);
    assert_eq!(kernel["pid"], 5_000_000);
    assert_eq!(
        kernel["args"],
        json!({"device": 0, "stream": 1, "hsa_queue": 3, "correlation": 7, "kind": "Dispatch Kernel", "grid": [4, 1, 1],
            "block": [64, 1, 1], "dispatch": 5, "shared memory": 512, "mangled": "_Z3addPfS_",
            "stream handle": "0x7f0000000100"})
    );
    let copy = of(&value, "gpu_memcpy")[0];
    assert_eq!(copy["name"], "Memcpy HtoD (Host -> Device)");
    assert_eq!(copy["args"]["bytes"], 4096);
    assert_eq!(copy["args"]["kind"], "HtoD");
    assert_eq!(copy["args"]["memory bandwidth (GB/s)"], 4.096);
    let arrows = arrows(&value);
    assert_eq!(arrows.len(), 1);
    let (start, end) = &arrows[0];
    assert_eq!((&start["ts"], &start["tid"]), (&call["ts"], &call["tid"]));
    assert_eq!(
        (&end["ts"], &end["tid"], &end["pid"]),
        (&kernel["ts"], &kernel["tid"], &kernel["pid"])
    );
    assert_eq!(start["id"], 7);
    assert_eq!(
        (
            report.calls,
            report.kernels,
            report.copies,
            report.arrows,
            report.unlinked
        ),
        (1, 1, 1, 1, 1)
    );
    assert_eq!(
        value["strandline"]["processes"][0]["sessions"][0]["verdict"],
        "complete"
    );
    assert_eq!(value["strandline"]["drawn"]["kernels"], 1);
}

#[test]
fn times_have_exactly_three_decimals_and_rows_have_names() {
    let mut region = region();
    launch(&mut region, 0, 7, 1_500, 1_500);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 7,
            start: 5_000,
            end: 6_000,
            ..Dispatch::default()
        },
    );
    let name = region.string(b"worker");
    region.record(0, Kind::ThreadName, 0, &[4243, name]);
    api_on(&mut region, 0, 4243, LAUNCH, 9, 2_000, 2_010);
    close(&mut region, 1, 0, 90_000);
    let folder = Folder::new();
    let (path, _) = export_named(&[region.trace()], &folder, "out.json");
    let text = std::fs::read_to_string(path).unwrap();
    for key in ["\"ts\":", "\"dur\":"] {
        for found in text.split(key).skip(1) {
            let number: String = found
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let (_, decimals) = number.split_once('.').expect("a decimal point");
            assert_eq!(decimals.len(), 3, "{number}");
        }
    }
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let row = |name: &str, pid: u64, tid: u64| {
        events(&value)
            .iter()
            .find(|event| {
                event["ph"] == "M"
                    && event["name"] == name
                    && event["pid"] == pid
                    && event["tid"] == tid
            })
            .unwrap_or_else(|| panic!("{name} of {pid}/{tid}"))["args"]
            .clone()
    };
    assert_eq!(row("process_name", 4242, 4242)["name"], "synthetic");
    assert_eq!(row("process_labels", 4242, 4242)["labels"], "CPU");
    assert_eq!(row("process_sort_index", 4242, 4242)["sort_index"], 4242);
    assert_eq!(
        row("thread_name", 4242, 4242)["name"],
        "thread 4242 (synthetic)"
    );
    assert_eq!(
        row("thread_name", 4242, 4243)["name"],
        "thread 4243 (worker)"
    );
    assert_eq!(
        row("process_labels", 5_000_000, 5_000_000)["labels"],
        "GPU 0"
    );
    assert_eq!(
        row("process_sort_index", 5_000_000, 5_000_000)["sort_index"],
        5_000_000
    );
    assert_eq!(row("thread_name", 5_000_000, 1)["name"], "stream 1 ");
    assert_eq!(row("thread_sort_index", 5_000_000, 1)["sort_index"], 1);
}

#[test]
fn a_graph_launch_has_one_start_and_an_arrow_to_each_kernel() {
    let mut region = region();
    api(&mut region, 0, GRAPH_LAUNCH, 40, 1_500, 1_900);
    for node in 0..300u64 {
        let start = 3_000 + node * 10;
        dispatch(
            &mut region,
            1,
            Dispatch {
                correlation: 40,
                id: node + 1,
                start,
                end: start + 9,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 300, 0, 90_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!(arrows(&value).len(), 300);
    assert_eq!(report.arrows, 300);
    assert!(
        of(&value, "kernel")
            .iter()
            .all(|kernel| kernel["args"]["correlation"] == 40)
    );
}

#[test]
fn case_b01_work_outside_the_window_is_counted_and_not_drawn() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 1, 1_010, 1_020);
    for (id, start) in [(1, 900), (2, 900), (3, 1), (4, 1_100), (5, 1_200)] {
        let end = if start == 1 { 30 } else { start + 50 };
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: 1,
                start,
                end,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 5, 0, 2_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!(of(&value, "kernel").len(), 2);
    assert_eq!(of(&value, "cuda_runtime").len(), 1);
    assert_eq!(report.outside_window, 3);
    let session = &value["strandline"]["processes"][0]["sessions"][0];
    assert_eq!(session["dispatches"]["recorded"], 5);
    assert_eq!(session["flagged"]["outside_window"], 3);
    assert_eq!(value["strandline"]["not_drawn"]["outside_window"], 3);
    assert!(
        of(&value, "strandline")
            .iter()
            .any(|note| note["name"].as_str().unwrap().contains("not drawn: 3"))
    );
}

#[test]
fn case_b11_untimed_kernels_are_counted_and_stretch_nothing() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 1, 1_010, 1_020);
    for (id, start, end) in [(1, 0, 0), (2, 0, 500), (3, 1_100, 1_200)] {
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: 1,
                start,
                end,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 3, 0, 2_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!((report.untimed, of(&value, "kernel").len()), (2, 1));
    let times: Vec<u64> = events(&value)
        .iter()
        .filter(|event| event.get("ts").is_some())
        .map(|event| vendor_ns(&value, event))
        .collect();
    assert_eq!(
        (times.iter().min(), times.iter().max()),
        (Some(&1_010), Some(&2_000))
    );
}

#[test]
fn case_b13_bad_intervals_are_classified_and_nothing_wraps() {
    let mut region = region();
    for (id, (start, end)) in [
        (3_000, 2_000),
        (1_100, 1_300),
        (4_900, 9_000),
        (10, 20),
        (2_000, 2_000),
        (u64::MAX, 5),
    ]
    .into_iter()
    .enumerate()
    {
        dispatch(
            &mut region,
            0,
            Dispatch {
                id: id as u64 + 1,
                start,
                end,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 6, 0, 5_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!(
        (
            report.end_before_start,
            report.outside_window,
            report.kernels
        ),
        (2, 1, 3)
    );
    let durations: Vec<u64> = of(&value, "kernel")
        .iter()
        .map(|kernel| ns(&kernel["dur"]))
        .collect();
    assert_eq!(durations, [200, 0, 4_100]);
}

#[test]
fn case_b16_arrows_only_from_a_call_to_its_own_work() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 29_170, 1_500, 1_600);
    api(&mut region, 0, COPY_ASYNC, 5, 1_700, 1_800);
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
    for stream in 1..=3 {
        region.stream(stream, 0x100 + u64::from(stream));
        copy(
            &mut region,
            1,
            2,
            5,
            3_000 + u64::from(stream),
            4_000,
            64,
            stream,
        );
    }
    close(&mut region, 3, 3, 9_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    let arrows = arrows(&value);
    assert_eq!(arrows.len(), 4);
    assert_eq!(
        arrows.iter().filter(|(start, _)| start["id"] == 5).count(),
        3
    );
    assert!(
        arrows
            .iter()
            .all(|(start, end)| start["pid"] == 4242 && end["pid"] == 5_000_000)
    );
    assert_eq!((report.unlinked, report.kernels, report.copies), (2, 3, 3));
    assert_eq!(
        value["strandline"]["processes"][0]["sessions"][0]["flagged"]["no_launch"],
        2
    );
}

#[test]
fn a_kernel_whose_own_id_has_no_call_is_joined_by_its_ancestor() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 10, 1_500, 1_600);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 77,
            ancestor: 10,
            ..Dispatch::default()
        },
    );
    close(&mut region, 1, 0, 9_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!((arrows(&value).len(), report.unlinked), (1, 0));
    let args = &of(&value, "kernel")[0]["args"];
    assert_eq!(
        (
            args["correlation"].as_u64(),
            args["own correlation"].as_u64()
        ),
        (Some(10), Some(77))
    );
}

#[test]
fn the_arrow_to_a_kernel_that_starts_before_its_call_ends_inside_of_the_kernel() {
    let mut region = region();
    // One kernel still runs when the call begins, one ends at that moment, one before.
    api(&mut region, 0, LAUNCH, 10, 2_500, 2_600);
    api(&mut region, 0, LAUNCH, 11, 2_700, 2_800);
    for (id, end) in [(1, 2_501), (2, 2_500), (3, 2_450)] {
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: 10,
                start: 2_400 + id,
                end,
                stream: id as u32,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 3, 0, 9_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    let drawn = arrows(&value);
    assert_eq!(
        (drawn.len(), report.arrows, report.before_launch),
        (1, 1, 3)
    );
    let (start, end) = &drawn[0];
    assert_eq!(
        (vendor_ns(&value, start), vendor_ns(&value, end)),
        (2_500, 2_500)
    );
    let kernel = of(&value, "kernel")
        .into_iter()
        .find(|event| event["args"]["dispatch"] == 1)
        .unwrap();
    assert_eq!((&kernel["pid"], &kernel["tid"]), (&end["pid"], &end["tid"]));
    assert_eq!(vendor_ns(&value, kernel), 2_401);
}

#[test]
fn case_b17_a_row_for_each_stream_and_one_for_the_unknown() {
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
                start: 2_000,
                end: 3_000,
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
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    let names: Vec<&str> = events(&value)
        .iter()
        .filter(|event| event["name"] == "thread_name" && event["pid"] == 5_000_000)
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "stream 1 ",
            "stream 2 ",
            "stream 3 ",
            "stream 4 ",
            "stream 5 ",
            "stream 6 ",
            "unknown stream"
        ]
    );
    let tids: BTreeSet<u64> = of(&value, "kernel")
        .iter()
        .map(|kernel| kernel["tid"].as_u64().unwrap())
        .collect();
    assert_eq!(tids.len(), 6);
    assert_eq!((report.kernels, report.copies, report.overlaps), (6, 1, 0));
    assert_eq!(
        of(&value, "kernel")[1]["args"]["stream handle"],
        "0x7f0200000100"
    );
}

#[test]
fn the_default_stream_comes_first() {
    let mut region = region();
    region.record(0, Kind::Stream, 0, &[9, 0, 0, 0, StreamKind::Null as u64]);
    for stream in [1, 9] {
        dispatch(
            &mut region,
            0,
            Dispatch {
                id: stream.into(),
                stream,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 2, 0, 9_000);
    let (value, _) = json(&[region.trace()]);
    let names: BTreeMap<u64, &str> = events(&value)
        .iter()
        .filter(|event| event["name"] == "thread_name" && event["pid"] == 5_000_000)
        .map(|event| {
            (
                event["tid"].as_u64().unwrap(),
                event["args"]["name"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(names[&1], "stream 1 (default)");
    assert_eq!(names[&2], "stream 2 ");
}

#[test]
fn case_b20_a_kernel_without_a_name_keeps_its_id_and_hash() {
    let mut region = region();
    region.record(0, Kind::KernelSymbol, 0, &[50, 1, 0xdead_beef, 0]);
    for (id, kernel) in [(1, 50), (2, 51)] {
        dispatch(
            &mut region,
            0,
            Dispatch {
                id,
                kernel,
                start: id * 10_000,
                end: id * 10_000 + 1,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 2, 0, 90_000);
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    let kernels = of(&value, "kernel");
    assert_eq!(
        kernels[0]["name"],
        "kernel 50 (name 00000000deadbeef not kept)"
    );
    assert_eq!(kernels[1]["name"], "kernel 51 (symbol not kept)");
    assert_eq!(kernels[0]["args"]["name kept"], false);
}

#[test]
fn case_b21_every_string_goes_through_one_escaper() {
    let hard = "{\"device\": \"cpu\"}\\\n\t\u{1}\u{2028}</script>";
    let mut region = region();
    region.header_mut().program = hard.to_owned();
    region.kernel(60, hard.as_bytes());
    region.operation(domain::RUNTIME, 999, hard);
    api(&mut region, 0, 999, 1, 1_500, 1_600);
    dispatch(
        &mut region,
        0,
        Dispatch {
            kernel: 60,
            ..Dispatch::default()
        },
    );
    let name = region.string(hard.as_bytes());
    region.record(0, Kind::ThreadName, 0, &[4242, name]);
    region.record(
        0,
        Kind::Range,
        1,
        &[1_200, 1_300, 0, 0, 0, name, pair(0, 4242)],
    );
    region.record(0, Kind::Mark, 1, &[1_400, 0, 0, 0, 0, name, pair(0, 4242)]);
    let key = region.string("k\"ey".as_bytes());
    region.record(0, Kind::Metadata, 0, &[key, name]);
    close(&mut region, 1, 0, 9_000);
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!(of(&value, "kernel")[0]["name"], hard);
    assert_eq!(of(&value, "cuda_runtime")[0]["name"], hard);
    assert_eq!(of(&value, "user_annotation")[0]["name"], hard);
    assert_eq!(of(&value, "cpu_instant_event")[0]["name"], hard);
    assert_eq!(
        value["strandline"]["processes"][0]["metadata"]["k\"ey"],
        hard
    );
    let thread = events(&value)
        .iter()
        .find(|event| event["name"] == "thread_name")
        .unwrap();
    assert_eq!(thread["args"]["name"], format!("thread 4242 ({hard})"));
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
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    let named = events(&value).iter().filter(|event| event["ph"] != "M");
    let names: Vec<&str> = named.map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["(no name)"; 4]);
    let process = events(&value)
        .iter()
        .find(|event| event["name"] == "process_name")
        .unwrap();
    assert!(!process["args"]["name"].as_str().unwrap().is_empty());
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
    let (value, _) = json(&[region.trace()]);
    let kernel = of(&value, "kernel")[0];
    assert_eq!(kernel["name"], "ker\u{fffd}nel");
    assert_eq!(kernel["args"]["name bytes"], "6b6572ff6e656c");
    assert_eq!(
        of(&value, "user_annotation")[0]["args"]["name bytes"],
        "72fe"
    );
}

#[test]
fn case_b23_no_bandwidth_without_a_duration() {
    let mut region = region();
    copy(&mut region, 0, 2, 0, 2_000, 2_000, 200, 1);
    copy(&mut region, 0, 3, 0, 3_000, 3_100, 200, 1);
    close(&mut region, 0, 2, 9_000);
    let (value, _) = json(&[region.trace()]);
    let copies = of(&value, "gpu_memcpy");
    assert!(copies[0]["args"].get("memory bandwidth (GB/s)").is_none());
    assert_eq!(copies[1]["args"]["memory bandwidth (GB/s)"], 2);
    assert_eq!(copies[1]["name"], "Memcpy DtoH (Device -> Host)");
}

#[test]
fn case_b27_overlaps_go_to_further_rows_with_their_times() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 1, 1_000, 1_001);
    let intervals = [
        (0, 100),
        (90, 200),
        (90, 120),
        (90, 200),
        (300, 1_000_000_300),
        (400, 410),
        (420, 430),
        (440, 450),
    ];
    for (id, (start, end)) in intervals.into_iter().enumerate() {
        dispatch(
            &mut region,
            1,
            Dispatch {
                id: id as u64,
                correlation: 1,
                start: 2_000 + start,
                end: 2_000 + end,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 8, 0, 2_000_000_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    let mut drawn: Vec<(u64, u64)> = of(&value, "kernel")
        .iter()
        .map(|kernel| (vendor_ns(&value, kernel) - 2_000, ns(&kernel["dur"])))
        .collect();
    let mut expected: Vec<(u64, u64)> = intervals.map(|(start, end)| (start, end - start)).to_vec();
    drawn.sort_unstable();
    expected.sort_unstable();
    assert_eq!(drawn, expected);
    assert!(
        of(&value, "kernel")
            .iter()
            .all(|kernel| kernel["args"]["stream"] == 1)
    );
    assert_eq!(report.overlaps, 6);
    assert_eq!(value["strandline"]["drawn"]["overlaps"], 6);
    // Each arrow ends on the row of its own kernel.
    let kernels: BTreeSet<(String, String)> = of(&value, "kernel")
        .iter()
        .map(|kernel| (kernel["tid"].to_string(), kernel["ts"].to_string()))
        .collect();
    let ends: BTreeSet<(String, String)> = arrows(&value)
        .iter()
        .map(|(_, end)| (end["tid"].to_string(), end["ts"].to_string()))
        .collect();
    assert_eq!(kernels, ends);
}

#[test]
fn host_calls_that_overlap_in_part_go_to_further_rows() {
    let mut region = region();
    for (id, (start, end)) in [(1_100, 1_200), (1_150, 1_250), (1_160, 1_200)]
        .into_iter()
        .enumerate()
    {
        api(&mut region, 0, LAUNCH, id as u64 + 1, start, end);
    }
    close(&mut region, 0, 0, 9_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!((report.calls, report.host_overlaps), (3, 1));
}

#[test]
fn case_b28_ids_are_small_and_never_zero() {
    let mut region = region();
    region.header_mut().pid = 1;
    for (id, thread) in [(1, 0), (2, 1), (3, u32::MAX), (4, u32::MAX - 1)] {
        api_on(
            &mut region,
            0,
            thread,
            LAUNCH,
            id,
            1_000 + id * 100,
            1_050 + id * 100,
        );
    }
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 1,
            ..Dispatch::default()
        },
    );
    close(&mut region, 1, 0, 9_000);
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    let rows: BTreeSet<(u64, u64)> = events(&value)
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| {
            (
                event["pid"].as_u64().unwrap(),
                event["tid"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows.len(), 5);
    let named: BTreeSet<(u64, u64)> = events(&value)
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| {
            (
                event["pid"].as_u64().unwrap(),
                event["tid"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(rows.is_subset(&named));
}

#[test]
fn case_b29_metadata_has_no_time_and_no_time_is_negative() {
    let process = |pid: u32| {
        let mut region = region();
        region.header_mut().pid = pid;
        region.header_mut().process_start_ns = pid.into();
        let name = region.string(b"ipc");
        region.record(0, Kind::ThreadName, 0, &[29, name]);
        api_on(&mut region, 0, 29, LAUNCH, 1, 995, 999);
        close(&mut region, 0, 0, 9_000);
        region.trace()
    };
    let (value, _) = json(&[process(100), process(200)]);
    check_rules(&value);
    let names: Vec<(u64, &str)> = events(&value)
        .iter()
        .filter(|event| event["name"] == "thread_name" && event["tid"] == 29)
        .map(|event| {
            (
                event["pid"].as_u64().unwrap(),
                event["args"]["name"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(names, [(100, "thread 29 (ipc)"), (200, "thread 29 (ipc)")]);
    assert_eq!(vendor_ns(&value, of(&value, "cuda_runtime")[0]), 995);
}

/// A rank: pid 1, calls and kernels 1 to 10.
fn rank(rank: i32, clock_ns: u64) -> Trace {
    let mut region = Builder::new();
    let header = region.header_mut();
    (header.vendor, header.pid, header.rank) = (1, 1, rank);
    header.host_hash = 1000 + rank as u64;
    header.boot_id = [rank as u8; 16];
    region.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X");
    region.operation(domain::RUNTIME, LAUNCH, "hipLaunchKernel");
    region.kernel(1, b"_Z3addPfS_.kd");
    region.stream(1, 0x100);
    // The same moments of REALTIME, on clocks that lie apart.
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
    let work = Work {
        issued: 10,
        recorded: 10,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: work,
        begin_ns: clock_ns + 1_000,
        returned_ns: clock_ns + 100_000,
        ..SessionEnd::default()
    });
    region.trace()
}

#[test]
fn case_b34_two_ranks_on_one_timeline_without_a_false_arrow() {
    let traces = [rank(0, 5_000_000), rank(1, 11_505_000_000)];
    let (value, report) = json(&traces);
    check_rules(&value);
    let arrows = arrows(&value);
    assert_eq!((arrows.len(), report.arrows), (20, 20));
    let gpu_of: BTreeMap<u64, u64> = arrows
        .iter()
        .map(|(start, end)| (start["pid"].as_u64().unwrap(), end["pid"].as_u64().unwrap()))
        .collect();
    assert_eq!(gpu_of.len(), 2);
    for (start, end) in &arrows {
        assert_eq!(
            gpu_of[&start["pid"].as_u64().unwrap()],
            end["pid"].as_u64().unwrap()
        );
    }
    // Both ranks ran at the same time.
    let times: BTreeSet<u64> = of(&value, "kernel")
        .iter()
        .map(|kernel| ns(&kernel["ts"]))
        .collect();
    assert_eq!(times.len(), 10);
    assert_eq!(value["strandline"]["processes"][1]["rank"], 1);
    assert!(value["strandline"]["processes"][1]["clock_anchors"][0]["realtime_ns"].is_u64());
    // The order of the inputs does not matter.
    let folder = Folder::new();
    let (one, _) = export_named(&traces, &folder, "one.json");
    let [first, second] = traces;
    let (other, _) = export_named(&[second, first], &folder, "two.json");
    let read = |path| {
        std::fs::read_to_string(path)
            .unwrap()
            .replace("one.json", "two.json")
    };
    assert_eq!(read(one), read(other));
}

#[test]
fn the_rank_is_where_a_line_search_finds_it() {
    let folder = Folder::new();
    let (path, _) = export_named(&[rank(3, 5_000_000)], &folder, "out.json");
    let text = std::fs::read_to_string(path).unwrap();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("\"rank\": "))
        .collect();
    assert_eq!(found, ["\"distributedInfo\": {\"rank\": 3},"]);
}

#[test]
fn case_b38_an_empty_gpu_part_is_stated_with_its_reason() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 1, 1_500, 1_600);
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Empty,
        begin_ns: 1_000,
        returned_ns: 2_000,
        ..SessionEnd::default()
    });
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    let notes = of(&value, "strandline");
    assert_eq!(
        notes[0]["name"],
        "session 1: no GPU work was issued (SDK: built in memory (simulation))"
    );
}

fn lossy() -> Trace {
    let mut region = region();
    for id in 1..=3u64 {
        let start = 1_000 + id * 1_000;
        region.record(
            0,
            Kind::Enqueue,
            1,
            &[start, id, id, 0, 1, 3, pair(1, 4242)],
        );
        api(&mut region, 0, LAUNCH, id, start, start + 100);
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
        dispatches: Work {
            issued: 3,
            recorded: 1,
            retired_without_record: 1,
        },
        begin_ns: 1_000,
        requested_ns: 5_000,
        returned_ns: 6_000,
        low_watermark: 1,
        high_watermark: 3,
        late: 4,
        lost,
        first_loss_ns: 3_500,
        last_loss_ns: 4_500,
        ..SessionEnd::default()
    });
    region.trace()
}

#[test]
fn external_ids_of_every_domain_are_with_the_call_and_its_work() {
    let (value, _) = json(&[externals().trace()]);
    check_rules(&value);
    let ids = |category: &str, id: u64| {
        let found = of(&value, category)
            .into_iter()
            .find(|event| event["args"]["correlation"] == id)
            .unwrap();
        let args = found["args"].as_object().unwrap();
        args.iter()
            .filter(|(key, _)| key.starts_with("External id"))
            .map(|(key, value)| (key.clone(), value.as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let expected = |pairs: &[(&str, u64)]| {
        pairs
            .iter()
            .map(|&(key, id)| (key.to_owned(), id))
            .collect::<Vec<_>>()
    };
    for category in ["cuda_runtime", "kernel"] {
        let all = [
            ("External id", 70),
            ("External id (domain 1)", 71),
            ("External id (domain 3)", u64::MAX),
        ];
        assert_eq!(ids(category, 1), expected(&all));
        assert_eq!(ids(category, 3), []);
    }
    for category in ["cuda_runtime", "gpu_memcpy"] {
        assert_eq!(
            ids(category, 2),
            expected(&[("External id (domain 2)", 74)])
        );
    }
}

#[test]
fn case_b39_losses_are_in_the_file_and_visible_on_the_timeline() {
    let (value, report) = json(&[lossy()]);
    check_rules(&value);
    assert!(!report.is_clean());
    let session = &value["strandline"]["processes"][0]["sessions"][0];
    assert_eq!(session["lost"]["no_segment"], 500);
    assert_eq!(session["lost"]["sdk_dropped"], 7);
    assert_eq!(
        (&session["first_loss_ns"], &session["last_loss_ns"]),
        (&json!(3_500), &json!(4_500))
    );
    assert_eq!(
        session["dispatches"],
        json!({"issued": 3, "recorded": 1, "retired_without_record": 1, "missing": 1})
    );
    let notes: Vec<(&str, u64, u64)> = of(&value, "strandline")
        .iter()
        .map(|note| {
            (
                note["name"].as_str().unwrap(),
                vendor_ns(&value, note),
                note["args"]["count"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(
        notes.contains(&("session 1: lost: 500 records, no_segment", 3_500, 500)),
        "{notes:?}"
    );
    let interval = of(&value, "strandline")
        .into_iter()
        .find(|note| note["name"] == "session 1: lost: 500 records, no_segment")
        .unwrap();
    assert_eq!(
        (&interval["ph"], ns(&interval["dur"])),
        (&json!("X"), 1_000)
    );
    assert!(notes.contains(&("session 1: lost: 7 records, sdk_dropped", 6_000, 7)));
    // Certainty ends at the first call above the low watermark.
    assert!(notes.contains(&(
        "session 1: incomplete: 1 of 3 dispatches missing; whole up to correlation id 1",
        3_000,
        1
    )));
    assert!(
        notes
            .iter()
            .any(|(name, _, count)| name.contains("late: 4") && *count == 4)
    );
    assert!(
        notes
            .iter()
            .any(|(name, ..)| name.contains("retired without a record: 1 of 3 dispatches"))
    );
}

#[test]
fn case_b40_ranges_last_from_push_to_pop_and_lie_above_calls() {
    let mut region = region();
    let [a, b, c, m] = ["a", "b", "by id", "m"].map(|name| region.string(name.as_bytes()));
    let thread = pair(0, 4242);
    // b ends before a; ranges are written when they end.
    region.record(0, Kind::Range, 1, &[1_200, 1_800, 0, 0, 1 << 24, b, thread]);
    region.record(0, Kind::Range, 1, &[1_100, 2_000, 0, 0, 0, a, thread]);
    api(&mut region, 0, LAUNCH, 1, 1_300, 1_400);
    region.record(0, Kind::RangeStart, 1, &[1_500, 0, 0, 0, 1, c, pair(0, 11)]);
    region.record(1, Kind::RangeStop, 1, &[1_700, 0, 0, 0, 1, 0, pair(0, 12)]);
    region.record(0, Kind::RangeStart, 1, &[1_900, 0, 0, 0, 2, c, pair(0, 11)]);
    region.record(0, Kind::Mark, 1, &[2_100, 0, 0, 0, 0, m, thread]);
    region.record(0, Kind::OpenRange, 1, &[2_200, 0, 0, 0, 0, b, thread]);
    close(&mut region, 0, 0, 3_000);
    let (value, report) = json(&[region.trace()]);
    check_rules(&value);
    let spans: Vec<(&str, u64, u64, u64, bool)> = of(&value, "user_annotation")
        .iter()
        .map(|span| {
            (
                span["name"].as_str().unwrap(),
                span["tid"].as_u64().unwrap(),
                vendor_ns(&value, span),
                ns(&span["dur"]),
                span["args"]["open"] == true,
            )
        })
        .collect();
    assert_eq!(
        spans,
        [
            ("a", 4242, 1_100, 900, false),
            ("b", 4242, 1_200, 600, false),
            ("by id", 1_900_000_000, 1_500, 200, false),
            ("b", 4242, 2_200, 800, true),
            ("by id", 1_900_000_000, 1_900, 1_100, true),
        ]
    );
    let mark = of(&value, "cpu_instant_event")[0];
    assert_eq!(
        (mark["name"].as_str(), vendor_ns(&value, mark)),
        (Some("m"), 2_100)
    );
    assert_eq!((report.ranges, report.instants), (5, 1));
}

#[test]
fn open_calls_are_drawn_to_the_end_of_their_session() {
    let mut region = region();
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    region.record(
        0,
        Kind::OpenCall,
        1,
        &[1_500, 0, 9, 0, op, 0, pair(1, 4242)],
    );
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 9,
            ..Dispatch::default()
        },
    );
    close(&mut region, 1, 0, 9_000);
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    let call = of(&value, "cuda_runtime")[0];
    assert_eq!((vendor_ns(&value, call), ns(&call["dur"])), (1_500, 7_500));
    assert_eq!(call["args"]["open"], true);
    assert_eq!(arrows(&value).len(), 1);
}

#[test]
fn case_b32_a_region_that_nobody_closed_exports_up_to_its_last_record() {
    let mut region = region();
    api(&mut region, 0, LAUNCH, 1, 1_500, 1_600);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 1,
            ..Dispatch::default()
        },
    );
    region.counter(0, 1, Counter::DispatchIssued, 2);
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    assert_eq!(of(&value, "kernel").len(), 1);
    let names: Vec<&str> = of(&value, "strandline")
        .iter()
        .map(|note| note["name"].as_str().unwrap())
        .collect();
    assert!(
        names.iter().any(|name| name.contains("the process ended")),
        "{names:?}"
    );
    assert!(
        names
            .iter()
            .any(|name| name.contains("1 of 2 dispatches missing"))
    );
}

#[test]
fn grids_are_work_groups_also_where_the_api_counts_items() {
    let mut region = region();
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    let mut words = [0u64; 15];
    words[..7].copy_from_slice(&[1_500, 1_600, 1, 0, op, 0, pair(1, 4242)]);
    words[7] = api_arg::LAUNCH | api_arg::GRID_IN_ITEMS;
    words[12] = pair(73_728, 1);
    words[13] = pair(1, 0);
    words[14] = 256 | 1 << 16 | 1 << 32;
    region.record(0, Kind::Api, 1, &words);
    close(&mut region, 0, 0, 9_000);
    let (value, _) = json(&[region.trace()]);
    assert_eq!(
        of(&value, "cuda_runtime")[0]["args"]["grid"],
        json!([288, 1, 1])
    );
}

#[test]
fn allocations_are_instants_with_running_totals() {
    let mut region = region();
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
    close(&mut region, 0, 0, 9_000);
    let (value, _) = json(&[region.trace()]);
    check_rules(&value);
    let seen: Vec<(i64, u64)> = of(&value, "cpu_instant_event")
        .iter()
        .map(|event| {
            (
                event["args"]["Bytes"].as_i64().unwrap(),
                event["args"]["Total Allocated"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(seen, [(100, 100), (50, 150), (-100, 50)]);
}

/// The same records, spread over lanes in another order.
fn shuffled(seed: u64) -> Trace {
    let mut records: Vec<(Kind, Vec<u64>)> = Vec::new();
    let thread = pair(1, 4242);
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    for id in 1..=200u64 {
        let start = 2_000 + id / 3 * 50;
        records.push((Kind::Api, vec![start, start + 10, id, 0, op, 0, thread]));
        records.push((
            Kind::Enqueue,
            vec![start + 1, id, id, 0, 1 + id % 2, 3, thread],
        ));
        let words = vec![
            start + 20,
            start + 60,
            id,
            0,
            id,
            1 + id % 2,
            0,
            0xa0,
            3,
            pair(1 + (id % 3) as u32, 9),
            pair(64, 1),
            pair(1, 256),
            pair(1, 1),
            0,
            0,
        ];
        records.push((Kind::Dispatch, words));
    }
    let mut state = seed;
    for at in (1..records.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        records.swap(at, (state >> 33) as usize % (at + 1));
    }
    let mut region = region();
    for (at, (kind, words)) in records.iter().enumerate() {
        region.record((at as u64 % (seed % 5 + 1)) as u16, *kind, 1, words);
    }
    close(&mut region, 200, 0, 90_000);
    region.trace()
}

#[test]
fn the_same_records_give_the_same_bytes_in_whatever_lanes_and_order() {
    for name in ["out.json", "out.pftrace"] {
        let bytes: Vec<Vec<u8>> = (1..=6)
            .map(|seed| {
                let folder = Folder::new();
                let (path, _) = export_named(&[shuffled(seed)], &folder, name);
                std::fs::read(path).unwrap()
            })
            .collect();
        assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "{name}");
    }
}

#[test]
fn times_before_the_clock_of_the_output_are_in_the_first_batch() {
    // The second process is of another machine, whose REALTIME is years behind: before the first one's BOOTTIME began.
    let mut late = Builder::new();
    late.header_mut().host_hash = u64::MAX;
    late.header_mut().boot_id = *b"another machine1";
    late.session_begin(1, 1_000);
    late.anchor(strandline::anchors::ClockAnchor {
        realtime_ns: 100_000_000_000_000_000,
        ..anchor(1)
    });
    for id in 1..30 {
        launch(&mut late, 0, id, 2_000 + id * 10, 2_005 + id * 10);
    }
    let traces = [shuffled(3), late.trace()];
    let folder = Folder::new();
    let calls = |name: &str, batch_records_max| {
        let options = Options {
            batch_records_max,
            force: true,
            ..Options::default()
        };
        let path = folder.file(name);
        let report = export(&traces, &path, &options).unwrap();
        (report.calls, std::fs::read(path).unwrap())
    };
    for name in ["out.json", "out.pftrace"] {
        let whole = calls(name, 1 << 20);
        assert!(whole.0 >= 29 && whole == calls(name, 7), "{name}");
    }
}

#[test]
fn small_batches_and_any_number_of_threads_give_the_same_bytes() {
    let trace = shuffled(3);
    for name in ["out.json", "out.json.gz", "out.pftrace"] {
        let folder = Folder::new();
        let bytes = |batch_records_max, threads| {
            let options = Options {
                batch_records_max,
                threads,
                force: true,
                ..Options::default()
            };
            let path = folder.file(name);
            export(std::slice::from_ref(&trace), &path, &options).unwrap();
            std::fs::read(path).unwrap()
        };
        let whole = bytes(1 << 20, 1);
        for batch in [1, 50, 599, 600, 1 << 20] {
            for threads in [1, 2, 3, 16] {
                assert!(
                    bytes(batch, threads) == whole,
                    "{name} in batches of {batch} on {threads} threads"
                );
            }
        }
    }
}

#[test]
fn sessions_are_exported_one_by_one() {
    let mut region = region();
    region.session_begin(2, 5_000);
    api(&mut region, 0, LAUNCH, 1, 1_500, 1_600);
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    region.record(0, Kind::Api, 2, &[5_500, 5_600, 2, 0, op, 0, pair(1, 4242)]);
    close(&mut region, 0, 0, 4_000);
    let folder = Folder::new();
    let path = folder.file("two.json");
    let options = Options {
        session: Some(2),
        ..Options::default()
    };
    let traces = [region.trace()];
    export(&traces, &path, &options).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let calls = of(&value, "cuda_runtime");
    assert_eq!(
        (calls.len(), calls[0]["args"]["correlation"].as_u64()),
        (1, Some(2))
    );
    assert_eq!(
        value["strandline"]["processes"][0]["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let error = export(
        &traces,
        &folder.file("three.json"),
        &Options {
            session: Some(3),
            ..Options::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "exporting session 3: no input has that session"
    );
    assert_eq!(folder.names(), ["two.json"]);
}
