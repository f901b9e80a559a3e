//! The exports, loaded by Perfetto's own trace processor and questioned in SQL: `tests/python/check_processor.py`.
//!
//! `STRANDLINE_TRACE_PROCESSOR` names a `trace_processor_shell` (no package registry has one, so nothing asks for it);
//! without it every test says that it was skipped. Each kind of thing that an export can hold is in one of the files.

mod export_support;

use export_support::mixed::mixed_of;
use export_support::*;
use strandline::builder::Builder;
use strandline::loss::{LossReason, Losses};
use strandline::record::{Kind, domain, flag, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work};
use strandline_exporters::{Options, export};

/// Exports to both formats, and lets the trace processor look at them.
fn check(traces: &[Trace]) {
    let folder = Folder::new();
    let truth = folder.file("truth.jsonl");
    write_truths(traces, &truth);
    for name in ["out.pftrace", "out.json"] {
        let (path, _) = export_named(traces, &folder, name);
        run_reader("check_processor.py", &path, &truth);
    }
}

/// As [`check`], in parts: each is loaded by itself.
fn check_parts(traces: &[Trace], limits: &[(&str, u64)], parts_min: usize) {
    let folder = Folder::new();
    let truth = folder.file("truth.jsonl");
    write_truths(traces, &truth);
    for &(name, limit) in limits {
        let path = folder.file(name);
        let options = Options {
            part_bytes_max: Some(limit),
            ..Options::default()
        };
        let report = export(traces, &path, &options).unwrap();
        assert!(report.files.len() >= parts_min, "{:?}", report.files);
        run_reader("check_processor.py", &path, &truth);
    }
}

/// Everything at once, with calls that wait and work that is early on every border.
#[test]
fn parts() {
    check_parts(
        &[mixed_of(600, 4242, 5).trace()],
        &[("out.pftrace", 80_000), ("out.json", 250_000)],
        4,
    );
    let traces = [
        mixed_of(300, 4242, 5).trace(),
        mixed_of(300, 4300, 9).trace(),
    ];
    check_parts(
        &traces,
        &[("out.pftrace", 130_000), ("out.json", 400_000)],
        3,
    );
}

/// A training step, in parts that begin and end anywhere in it.
#[test]
fn parts_of_a_training_step() {
    check_parts(
        &[mix(5, 90, 4).trace()],
        &[("out.pftrace", 60_000), ("out.json", 300_000)],
        3,
    );
}

#[test]
fn a_training_step() {
    check(&[mix(5, 90, 4).trace()]);
}

#[test]
fn external_ids() {
    check(&[externals().trace()]);
}

/// Work of several streams on several queues of two devices that overlaps in all ways, and calls that overlap and wait.
#[test]
fn overlaps_and_waits() {
    let mut region = region();
    region.gpu(0xb0, 1, "gfx942", "AMD Instinct MI300X");
    region.operation(domain::RUNTIME, 300, "hipStreamSynchronize");
    region.operation(domain::RUNTIME, 301, "hipDeviceSynchronize");
    region.stream(2, 0x200);
    region.stream(3, 0x300);
    let intervals = [
        (0, 100),
        (90, 200),
        (90, 120),
        (90, 200),
        (200, 200),
        (200, 260),
    ];
    let mut id = 0;
    for agent in [0xa0, 0xb0] {
        for queue in [3, 4] {
            for (at, (start, end)) in intervals.into_iter().enumerate() {
                id += 1;
                launch(&mut region, 0, id, 1_000 + id * 10, 1_005 + id * 10);
                dispatch(
                    &mut region,
                    1,
                    Dispatch {
                        id,
                        correlation: id,
                        start: 2_000 + start,
                        end: 2_000 + end,
                        stream: 1 + at as u32 % 3,
                        queue,
                        agent,
                        ..Dispatch::default()
                    },
                );
            }
        }
    }
    for (at, (start, end)) in [
        (1_100, 1_200),
        (1_150, 1_250),
        (1_160, 1_200),
        (1_160, 1_160),
    ]
    .into_iter()
    .enumerate()
    {
        api_on(&mut region, 2, 77, 300, 100 + at as u64, start, end);
    }
    api(&mut region, 0, 300, 200, 2_010, 2_300);
    api(&mut region, 0, 301, 201, 2_300, 2_400);
    close(&mut region, id, 0, 9_000);
    check(&[region.trace()]);
}

/// Graph launches, kernels that only their ancestor joins, captured calls that launched nothing, kernels of no call, copies
/// with and without a stream, and work that is counted and not drawn.
#[test]
fn graphs_captures_and_copies() {
    let mut region = region();
    region.stream(2, 0x200);
    api(&mut region, 0, LAUNCH, 1, 1_100, 1_150);
    api(&mut region, 0, GRAPH_LAUNCH, 2, 1_200, 1_900);
    api(&mut region, 0, GRAPH_LAUNCH, 3, 1_900, 2_100);
    api(&mut region, 0, COPY_ASYNC, 4, 2_200, 2_300);
    api(&mut region, 0, LAUNCH, 0, 2_300, 2_310);
    let mut id = 0;
    for (correlation, ancestor, count) in [(2, 0, 40), (500, 3, 20), (0, 0, 3), (900, 0, 2)] {
        for node in 0..count {
            id += 1;
            let start = 3_000 + id * 100;
            let words = [
                start,
                start + 90,
                correlation,
                ancestor,
                id,
                1 + node % 2,
                0,
                0xa0,
                3,
                pair(1 + (node % 2) as u32, 99),
                pair(64, 1),
                // As many shapes of one kernel as are interned, and more.
                pair(1, 64 * (1 + node as u32)),
                pair(1, 1),
                pair(16, 512),
                pair(7, node as u32),
            ];
            region.record(1, Kind::Dispatch, 1, &words);
        }
    }
    for operation in 0..=5 {
        let start = 20_000 + operation * 1_000;
        copy(&mut region, 1, operation, 4, start, start + 500, 1 << 20, 1);
    }
    copy(&mut region, 1, 2, 0, 30_000, 30_000, 0, 2);
    let unknown = [
        31_000,
        31_500,
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
    region.flagged_record(1, Kind::Copy, 1, flag::UNKNOWN_STREAM, &unknown);
    for (flags, start, end) in [
        (flag::UNTIMED, 0, 0),
        (flag::END_BEFORE_START, 3_000, 2_000),
        (flag::OUTSIDE_WINDOW, 200, 300),
    ] {
        id += 1;
        flagged_dispatch(
            &mut region,
            1,
            flags,
            Dispatch {
                id,
                start,
                end,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, id, 8, 90_000);
    check(&[region.trace()]);
}

/// Ranges of all kinds, marks, memory, queue depth, scratch, calls that never ended, names that are no UTF-8 or empty.
#[test]
fn ranges_counters_and_odd_names() {
    let mut region = region();
    let [a, b, c, m, odd, empty] =
        [&b"a"[..], b"b", b"by id", b"m", b"\xff\x00\"\\\n", b""].map(|name| region.string(name));
    let thread = pair(0, 4242);
    region.kernel(3, b"_Z\xff\xfe\"odd\\.kd");
    region.record(0, Kind::Range, 1, &[1_200, 1_800, 0, 0, 1 << 24, b, thread]);
    region.record(0, Kind::Range, 1, &[1_100, 2_000, 0, 0, 0, a, thread]);
    region.record(
        0,
        Kind::Range,
        1,
        &[1_250, 1_260, 0, 0, 2 << 24, odd, thread],
    );
    region.record(
        0,
        Kind::Range,
        1,
        &[1_270, 1_280, 0, 0, 2 << 24, empty, thread],
    );
    region.record(0, Kind::RangeStart, 1, &[1_500, 0, 0, 0, 1, c, pair(0, 11)]);
    region.record(
        0,
        Kind::RangeStart,
        1,
        &[1_550, 0, 0, 0, 3, odd, pair(0, 11)],
    );
    region.record(1, Kind::RangeStop, 1, &[1_700, 0, 0, 0, 1, 0, pair(0, 12)]);
    region.record(1, Kind::RangeStop, 1, &[1_750, 0, 0, 0, 3, 0, pair(0, 12)]);
    region.record(0, Kind::RangeStart, 1, &[1_900, 0, 0, 0, 2, c, pair(0, 11)]);
    region.record(0, Kind::Mark, 1, &[2_100, 0, 0, 0, 0, m, thread]);
    region.record(0, Kind::Mark, 1, &[2_110, 0, 0, 0, 0, empty, thread]);
    region.record(0, Kind::OpenRange, 1, &[2_200, 0, 0, 0, 0, b, thread]);
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    region.record(
        0,
        Kind::OpenCall,
        1,
        &[2_300, 0, 9, 0, op, 0, pair(1, 4243)],
    );
    for (at, (operation, bytes)) in [(1, 4096), (1, 8192), (2, 4096)].into_iter().enumerate() {
        let at = at as u64;
        let words = [
            1_000 + at * 100,
            1_010 + at * 100,
            0,
            0,
            operation,
            bytes,
            0,
            0xa0,
            0,
            thread,
            0x1000 + at % 2,
        ];
        region.record(1, Kind::Alloc, 1, &words);
        let words = [2_500 + at, 2_501 + at, 0, 0, at, 64, 0, 0xa0, 3, thread];
        region.record(1, Kind::Scratch, 1, &words);
    }
    region.record(0, Kind::Queue, 0, &[3, 0xa0]);
    for id in 1..=3 {
        launch(&mut region, 0, id, 2_400 + id * 10, 2_405 + id * 10);
        let issue = [2_402 + id * 10, id, id, 0, 1, 3, pair(1, 4242)];
        region.record(0, Kind::Enqueue, 1, &issue);
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: id,
                kernel: id,
                start: 2_500 + id * 20_000,
                end: 2_600 + id * 20_000,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 3, 0, 90_000);
    check(&[region.trace()]);
}

/// A trace that is not whole says so, where the processor counts its own losses.
#[test]
fn losses() {
    let mut region = region();
    for id in 1..=3u64 {
        let start = 1_000 + id * 1_000;
        let issue = [start, id, id, 0, 1, 3, pair(1, 4242)];
        region.record(0, Kind::Enqueue, 1, &issue);
        api(&mut region, 0, LAUNCH, id, start, start + 100);
    }
    dispatch(
        &mut region,
        1,
        Dispatch {
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
    check(&[region.trace()]);
}

/// A region that nobody closed, without any clock anchor.
#[test]
fn a_process_that_died() {
    let mut region = Builder::new();
    region.session_begin(1, 1_000);
    region.kernel(1, b"_Z3addPfS_.kd");
    api(&mut region, 0, LAUNCH, 1, 1_500, 0);
    dispatch(
        &mut region,
        1,
        Dispatch {
            correlation: 1,
            ..Dispatch::default()
        },
    );
    check(&[region.trace()]);
}

#[test]
fn nothing_at_all() {
    let mut region = region();
    close(&mut region, 0, 0, 9_000);
    check(&[region.trace()]);
}

fn rank(rank: i32, pid: u32, host: u64, clock_ns: u64) -> Trace {
    let mut region = region();
    let header = region.header_mut();
    (header.pid, header.rank, header.host_hash) = (pid, rank, host);
    header.boot_id = [host as u8; 16];
    header.process_start_ns = rank as u64;
    let mut at = anchor(clock_ns);
    (at.realtime_ns, at.boottime_ns) = (UNIX_NS + clock_ns, clock_ns);
    region.anchor(at);
    region.stream(2, 0x200);
    for id in 1..=20u64 {
        let start = clock_ns + 2_000 + id * 1_000;
        launch(&mut region, 0, id, start, start + 100);
        dispatch(
            &mut region,
            1,
            Dispatch {
                id,
                correlation: id,
                start: start + 500,
                end: start + 900 + id % 2 * 400,
                stream: 1 + (id % 2) as u32,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 20, 0, clock_ns + 90_000);
    region.trace()
}

#[test]
fn ranks_of_one_machine_and_of_several() {
    check(&[rank(0, 1, 10, 5_000_000), rank(1, 1, 10, 5_000_300)]);
    check(&[rank(0, 1, 10, 5_000_000), rank(1, 1, 11, 11_505_000_000)]);
}

/// The bytes of an archive (ustar) with these files.
fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        let mut header = [0u8; 512];
        let mut put = |at: usize, text: &str| {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, name);
        put(100, "0000644\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", content.len()));
        put(136, "00000000000\0");
        // The checksum is taken with spaces in its own place.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

/// Files of several ranks in one archive, whose manifest names a machine for each: equal process ids, on one host (two
/// containers) and on several, stay apart, and so do the GPUs; clocks meet in REALTIME. docs/cli.md tells users to do this.
#[test]
fn ranks_with_equal_process_ids_in_an_archive() {
    for (hosts, clocks) in [
        ([10, 10], [5_000_000, 5_000_300]),
        ([10, 11], [5_000_000, 11_505_000_000]),
    ] {
        let traces = [
            rank(0, 1, hosts[0], clocks[0]),
            rank(1, 1, hosts[1], clocks[1]),
        ];
        let folder = Folder::new();
        let truth = folder.file("truth.jsonl");
        write_truths(&traces, &truth);
        let (mut files, mut entries) = (Vec::new(), Vec::new());
        for (at, trace) in traces.iter().enumerate() {
            let name = format!("{at}.pftrace");
            let (path, _) = export_named(std::slice::from_ref(trace), &folder, &name);
            entries.push(format!(
                r#"{{"path":"{name}","machine":{{"name":"rank {at}"}}}}"#
            ));
            files.push((name, std::fs::read(path).unwrap()));
        }
        let manifest = format!(
            r#"{{"perfetto_manifest":{{"version":1,"files":[{}]}}}}"#,
            entries.join(",")
        );
        files.push(("perfetto_manifest.json".to_owned(), manifest.into_bytes()));
        let path = folder.file("ranks.tar");
        std::fs::write(&path, archive(&files)).unwrap();
        run_reader("check_processor.py", &path, &truth);
    }
}

/// Files of several ranks, one behind the other. The processor shows the GPU work of equal process ids in one process (see
/// above for those), so they differ here.
#[test]
fn concatenated_ranks() {
    for (hosts, clocks) in [
        ([10, 10], [5_000_000, 5_000_300]),
        ([10, 11], [5_000_000, 11_505_000_000]),
    ] {
        let traces = [
            rank(0, 100, hosts[0], clocks[0]),
            rank(1, 101, hosts[1], clocks[1]),
        ];
        let folder = Folder::new();
        let truth = folder.file("truth.jsonl");
        write_truths(&traces, &truth);
        let mut bytes = Vec::new();
        for trace in &traces {
            let (path, _) = export_named(
                std::slice::from_ref(trace),
                &folder,
                &format!("{}.pftrace", bytes.len()),
            );
            bytes.extend(std::fs::read(path).unwrap());
        }
        let path = folder.file("both.pftrace");
        std::fs::write(&path, bytes).unwrap();
        run_reader("check_processor.py", &path, &truth);
    }
}
