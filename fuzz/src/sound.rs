//! Sound regions to change: together they hold every kind of record.

use std::sync::OnceLock;

use strandline::anchors::ClockAnchor;
use strandline::builder::Builder;
use strandline::record::{Kind, api_arg, domain, flag, label, pair};
use strandline::{Proof, SessionEnd, Verdict, Work};

const LAUNCH: u64 = 214 | (domain::RUNTIME as u64) << 16;
const GRAPH_LAUNCH: u64 = 166 | (domain::RUNTIME as u64) << 16;

fn anchor(ns: u64) -> ClockAnchor {
    ClockAnchor {
        ticks: ns * 3,
        vendor_ns: ns,
        boottime_ns: ns + 50_000_000,
        monotonic_ns: ns + 47_000_000,
        monotonic_raw_ns: ns + 46_999_900,
        realtime_ns: ns + 1_700_000_000_000_000_000,
    }
}

fn facts(region: &mut Builder) {
    region.header_mut().vendor = 1;
    region.header_mut().ticks_per_second = 3_000_000_000;
    region.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X").gpu(
        0xa1,
        1,
        "gfx942",
        "AMD Instinct MI300X",
    );
    region.record(0, Kind::Agent, 0, &[0xc0, pair(1, 0)]);
    region.operation(domain::RUNTIME, 214, "hipLaunchKernel");
    region.operation(domain::RUNTIME, 166, "hipGraphLaunch");
    region.operation(domain::RUNTIME, 17, "hipStreamSynchronize");
    region.operation(domain::COLLECTIVE, 3, "ncclAllReduce");
    region.record(0, Kind::CodeObject, 0, &[1, 0xa0]);
    region
        .kernel(1, b"_Z4nodePfS_i.kd")
        .kernel(2, b"\xff\xfe\"\\")
        .kernel(3, b"");
    region.stream(1, 0x7f00_0000_0100).stream(2, 0);
    region.record(0, Kind::Stream, 0, &[3, 5, pair(1, 77), 900, 4]);
    region.record(0, Kind::Queue, 0, &[9, 0xa0]);
    let (key, value) = (region.string(b"world_size"), region.string(b"8"));
    region.record(0, Kind::Metadata, 0, &[key, value]);
    let name = region.string("a range \u{1}\u{2028}".as_bytes());
    region.record(0, Kind::ThreadName, 0, &[4242, name, 0]);
    region.record(0, Kind::Label, 0, &[pair(label::STREAM, 0), 2, name]);
    region.anchor(anchor(1_000)).anchor(anchor(900_000));
}

fn records(region: &mut Builder, session: u32) {
    let name = region.string("a range \u{1}\u{2028}".as_bytes());
    let base = u64::from(session) * 100_000;
    for at in 0..6u64 {
        let (id, now) = (u64::from(session) * 100 + at, base + at * 10_000);
        let graph = at % 3 == 2;
        let operation = if graph { GRAPH_LAUNCH } else { LAUNCH };
        let ticks = |ns: u64| ns * 3;
        let words = [
            ticks(now),
            ticks(now + 3_000),
            id,
            0,
            operation,
            at % 2,
            pair(1, 4242),
            if graph {
                0
            } else {
                api_arg::LAUNCH | api_arg::BYTES | api_arg::DESTINATION | api_arg::SOURCE
            },
            64,
            0x1000,
            0x2000,
            0,
            pair(128, 1),
            pair(1, 512),
            256 | 1 << 16 | 1 << 32,
        ];
        region.record(
            0,
            Kind::Api,
            session,
            if at == 4 { &words[..7] } else { &words },
        );
        for node in 0..if graph { 5 } else { 1 } {
            let dispatch = id * 10 + node;
            let issue = [
                ticks(now + 500),
                dispatch,
                id,
                0,
                1 + node % 4,
                9,
                pair(1, 4242),
            ];
            region.record(0, Kind::Enqueue, session, &issue);
            let start = now + 4_000 + node * 700;
            let words = [
                start,
                start + 900,
                if node == 1 { 5 } else { id },
                if node == 1 { id } else { 0 },
                dispatch,
                1 + node % 4,
                0,
                0xa0 + node % 2,
                9 + node % 2,
                pair(1 + node as u32 % 3, 99),
                pair(256, 1),
                pair(1, 32_768),
                pair(1, 1),
                pair(64, 512),
                if graph { pair(1, node as u32) } else { 0 },
            ];
            let flags = if node == 3 { flag::UNKNOWN_STREAM } else { 0 };
            region.flagged_record(1, Kind::Dispatch, session, flags, &words);
        }
        region.record(
            0,
            Kind::Range,
            session,
            &[ticks(now), ticks(now + 9_000), 0, 0, 0, name, pair(0, 4242)],
        );
        region.record(
            0,
            Kind::Mark,
            session,
            &[ticks(now + 1), 0, 0, 0, 0, name, pair(0, 77)],
        );
        region.record(
            0,
            Kind::CopyIssue,
            session,
            &[ticks(now + 2), 0, id, 0, 2, 4_096, pair(1, 4242)],
        );
        region.record(
            1,
            Kind::Copy,
            session,
            &[
                now + 5_000,
                now + 6_000,
                id,
                0,
                1 + at % 5,
                4_096,
                at,
                0xc0,
                0xa0,
                pair(2, 99),
                0x1000,
                0x2000,
            ],
        );
        region.record(
            1,
            Kind::Alloc,
            session,
            &[
                now + 10,
                now + 20,
                id,
                0,
                1 + at % 4,
                1 << 20,
                0,
                0xa0,
                0,
                pair(0, 4242),
                0x5000 + at / 2,
            ],
        );
        region.record(
            1,
            Kind::Scratch,
            session,
            &[now + 30, now + 40, id, 0, 1 + at % 3, 1 << 12, 0, 0xa0, 9],
        );
        region.record(
            0,
            Kind::RangeStart,
            session,
            &[ticks(now + 3), 0, 0, 0, at / 2, name, pair(0, 4242)],
        );
        region.record(
            0,
            Kind::RangeStop,
            session,
            &[ticks(now + 4), 0, 0, 0, at / 3, 0, pair(0, 77)],
        );
        region.record(
            0,
            Kind::External,
            session,
            &[ticks(now), 0, id, 0, 2, 31, pair(0, 4242)],
        );
    }
    region.record(
        2,
        Kind::Api,
        session,
        &[
            (base + 50) * 3,
            (base + 9_000) * 3,
            7,
            0,
            17 | 1 << 16,
            0,
            pair(1, 77),
        ],
    );
    region.record(2, Kind::Thread, session, &[(base + 60) * 3, 78, 1]);
    let collective = 3 | u64::from(domain::COLLECTIVE) << 16;
    region.record(
        2,
        Kind::Api,
        session,
        &[
            (base + 70) * 3,
            (base + 80) * 3,
            0,
            0,
            collective,
            0,
            pair(0, 78),
        ],
    );
}

fn close(region: &mut Builder, session: u64) {
    let work = |count| Work {
        issued: count,
        recorded: count,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: work(14),
        copies: work(6),
        begin_ns: session * 100_000,
        returned_ns: session * 100_000 + 90_000,
        low_watermark: session * 100 + 3,
        ..SessionEnd::default()
    });
}

/// Two sessions and a bit of everything.
pub fn everything() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut region = Builder::new();
        facts(&mut region);
        for session in [1, 2] {
            region.session_begin(session, session * 100_000 - 1_000);
            records(&mut region, session as u32);
            close(&mut region, session);
        }
        region.record(
            0,
            Kind::OpenCall,
            2,
            &[660_000, 0, 209, 0, GRAPH_LAUNCH, 0, pair(1, 4242)],
        );
        region.record(
            0,
            Kind::OpenRange,
            2,
            &[660_000, 0, 0, 0, 0, 0, pair(0, 4242)],
        );
        region.record(0, Kind::Retired, 0, &[pair(0, 2), 9, 207, 2]);
        region.record(0, Kind::Late, 0, &[1, 3]);
        region.bytes()
    })
}

/// A session that was never closed.
pub fn unfinished() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut region = Builder::new();
        region.header_mut().rank = 3;
        facts(&mut region);
        region.session_begin(1, 99_000);
        records(&mut region, 1);
        region.bytes()
    })
}

/// Another process of the same job.
pub fn other() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut region = Builder::new();
        region.header_mut().pid = 77;
        region.header_mut().rank = 1;
        facts(&mut region);
        region.session_begin(1, 99_000);
        records(&mut region, 1);
        close(&mut region, 1);
        region.bytes()
    })
}
