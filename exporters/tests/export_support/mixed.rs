//! A region with every kind of record.

use strandline::builder::Builder;
use strandline::limits::SEGMENT_BYTES_MIN;
use strandline::loss::{LossReason, Losses};
use strandline::record::{Kind, api_arg, domain, flag, head_word, pair};
use strandline::{Proof, SessionEnd, Verdict, Work};

use super::*;

const WAIT: u16 = 300;

/// A program that does everything that shows in an export, in `count` rounds. Records lie in any order.
pub fn mixed(count: u64, pid: u32) -> Builder {
    mixed_of(count, pid, 58)
}

/// As [`mixed`], with so many kernels, at most 59.
pub fn mixed_of(count: u64, pid: u32, kernels: u64) -> Builder {
    mixed_in(count, pid, kernels, SEGMENT_BYTES_MIN)
}

/// As [`mixed_of`], in segments of that size.
pub fn mixed_in(count: u64, pid: u32, kernels: u64, segment_bytes: usize) -> Builder {
    let mut region = region();
    region.header_mut().segment_bytes = segment_bytes as u32;
    region.header_mut().pid = pid;
    region.operation(domain::RUNTIME, WAIT, "hipStreamSynchronize");
    region.operation(domain::RUNTIME, WAIT + 1, "hipDeviceSynchronize");
    for id in 3..60 {
        region.kernel(id, format!("_Z{}kernel_{id:02}Pf.kd", 9).as_bytes());
    }
    region.stream(2, 0x7f00_0000_0200);
    let names: Vec<u64> = (0..50)
        .map(|at| region.string(format!("name {at} \"quoted\" \u{e9}").as_bytes()))
        .collect();
    let odd = region.string(b"no utf-8: \xff");
    let mut random = 1u64;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for round in 1..=count {
        let (now, id) = (2_000 + round * 5_000, round * 4);
        let thread = 4242 + (round % 5) as u32;
        let lane = (round % 5) as u16;
        if round % 7 == 0 {
            api_on(&mut region, lane, thread, GRAPH_LAUNCH, id, now, now + 900);
        } else {
            launch(&mut region, lane, id, now, now + 700);
        }
        // Calls that overlap the next ones in part, on one thread.
        let overlap = if round % 11 == 0 { 6_000 } else { 300 };
        api_on(
            &mut region,
            lane,
            4242,
            COPY_ASYNC,
            id + 1,
            now + 1_000,
            now + 1_000 + overlap,
        );
        let wait = WAIT + (round % 2) as u16;
        if round % 3 == 0 {
            let op = u64::from(wait) | u64::from(domain::RUNTIME) << 16;
            let mut words = [0u64; 15];
            words[..7].copy_from_slice(&[
                now + 2_000,
                now + 9_500,
                id + 2,
                0,
                op,
                0,
                pair(1, thread),
            ]);
            words[7] = api_arg::BYTES;
            words[8] = round;
            region.record(lane, Kind::Api, 1, &words);
        }
        let works = if round % 7 == 0 { 1 + next(9) } else { 1 };
        for work in 0..works {
            // Some begin before their call, some overlap others of their stream.
            let start = (now + work * 400 + next(3_000)).saturating_sub(500);
            let dispatch_id = round * 16 + work;
            let kernel = 1 + next(kernels);
            let words = [
                start,
                start + 100 + next(2_500),
                if round % 13 == 0 { id + 3 } else { id },
                if round % 13 == 0 { id } else { 0 },
                dispatch_id,
                kernel,
                0,
                0xa0,
                3 + next(2),
                pair(1 + (round % 2) as u32, 99),
                pair(64, 1),
                pair(1, 256),
                // More shapes of a kernel than are interned.
                pair(1, 1 + next(40) as u32),
                pair(0, 512),
                if round % 7 == 0 {
                    pair(1, work as u32)
                } else {
                    0
                },
            ];
            region.record(8 + (work % 3) as u16, Kind::Dispatch, 1, &words);
            let words = [
                start.saturating_sub(300),
                id,
                dispatch_id,
                0,
                1,
                3,
                pair(1, thread),
            ];
            region.record(lane, Kind::Enqueue, 1, &words);
        }
        copy(
            &mut region,
            9,
            1 + round % 5,
            id + 1,
            now + 3_000,
            now + 3_400,
            round,
            1,
        );
        let name = names[next(50) as usize];
        match round % 9 {
            0 => {
                let words = [now, now + 4_000, 0, 0, 1, name, pair(0, thread)];
                region.record(lane, Kind::Range, 1, &words);
            }
            1 => {
                let words = [now, 0, 0, 0, 1, odd, pair(0, thread)];
                region.record(lane, Kind::Mark, 1, &words);
            }
            2 => {
                let words = [now, 0, 0, 0, round / 9 % 40, name, pair(0, thread)];
                region.record(lane, Kind::RangeStart, 1, &words);
            }
            3 => {
                let words = [now, 0, 0, 0, round / 9 % 40, 0, pair(0, thread)];
                region.record(lane, Kind::RangeStop, 1, &words);
            }
            4 => {
                let free = if round % 2 == 0 { 2 } else { 3 };
                let words = [
                    now,
                    0,
                    id,
                    0,
                    free,
                    round,
                    0,
                    0xa0,
                    0,
                    pair(0, thread),
                    round / 9,
                ];
                region.record(lane, Kind::Alloc, 1, &words);
            }
            5 => {
                let words = [now, now + 10, 0, 0, 1, 64, 3, 0xa0, 0, pair(0, thread)];
                region.record(lane, Kind::Scratch, 1, &words);
            }
            6 => {
                let words = [now, 0, id, 0, 1, round, pair(0, 1)];
                region.record(lane, Kind::External, 1, &words);
            }
            _ => {}
        }
        if round % 97 == 0 {
            flagged_dispatch(
                &mut region,
                10,
                flag::UNKNOWN_STREAM,
                Dispatch {
                    id: round * 16 + 15,
                    start: now,
                    end: now + 50,
                    stream: 0,
                    ..Dispatch::default()
                },
            );
        }
    }
    let mut open = [0u64; 8];
    open[0] = head_word(Kind::OpenCall, 1, flag::OPEN, 1);
    open[1] = 9_000;
    open[3] = 1;
    open[5] = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    open[7] = pair(1, 4243);
    region.record(0, Kind::OpenCall, 1, &open[1..]);
    let mut lost = Losses::default();
    lost.0[LossReason::NoSegment as usize] = 7;
    let end = 2_000 + count * 5_000 + 100_000;
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Incomplete,
        proof: Proof::Pairs,
        dispatches: Work {
            issued: count * 20,
            recorded: count,
            retired_without_record: 1,
        },
        lost,
        first_loss_ns: 3_500,
        last_loss_ns: 4_500,
        begin_ns: 1_000,
        requested_ns: end - 1,
        returned_ns: end,
        low_watermark: 90,
        high_watermark: count * 4,
        ..SessionEnd::default()
    });
    region
}
