//! `cargo bench -p strandline-benches`: what the public append calls cost one thread, beside rtrb. Half a minute once
//! it is built; ratios within one run count, not single nanoseconds.
//!
//! The table against all peers, with many producers, percentiles and cold calls, is the program's own:
//! `cargo run --release -p strandline-benches -- append`. Here the runtime runs in flight mode, which overwrites its oldest
//! records, so that no consumer is needed; rtrb's ring is emptied between the bursts that are timed.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use strandline::clock::ticks;
use strandline::events::{DispatchDone, DispatchIssue, Ids, Operation};
use strandline::record::{Kind, domain};
use strandline::settings::Settings;
use strandline::{Runtime, Vendor};

/// A launch, as HIP numbers it.
const LAUNCH: Operation = Operation {
    domain: domain::RUNTIME,
    number: 214,
};
/// Records of each call that are looked for before it is timed.
const CHECKED: u64 = 1_000;
/// Appends to rtrb between two readings of the clock; its ring has as many places.
const BURST: u64 = 1 << 12;
/// A record for rtrb: 64 bytes, as ours.
type Row = [u64; 8];

fn runtime() -> &'static Runtime {
    let dir = PathBuf::from("/dev/shm");
    let dir = if dir.is_dir() {
        dir
    } else {
        std::env::temp_dir()
    };
    let path = dir.join(format!("strandline-criterion-{}.slt", std::process::id()));
    let settings = Settings::from_lookup(|name| match name {
        "STRANDLINE_OUT" => Some(path.clone().into_os_string()),
        "STRANDLINE_START" => Some("api".into()),
        "STRANDLINE_MODE" => Some("flight".into()),
        "STRANDLINE_BUDGET" => Some((32u64 << 20).to_string().into()),
        "STRANDLINE_PREFAULT" => Some("on".into()),
        _ => None,
    })
    .expect("known settings");
    let runtime = Runtime::make_global(settings, &Vendor::default())
        .map_err(|(_, why)| why)
        .expect("the process's one runtime");
    // Mapped is enough.
    let _ = std::fs::remove_file(runtime.path());
    runtime
        .start_housekeeper(None, None)
        .expect("its housekeeper");
    runtime
}

fn ids(at: u64) -> Ids {
    Ids {
        correlation: at,
        ancestor: 1,
        ..Ids::default()
    }
}

#[inline(always)]
fn mark(runtime: &Runtime, name: u64, at: u64) {
    runtime.instant(name, at, 1);
}

#[inline(always)]
fn api_pair(runtime: &Runtime, at: u64) {
    let token = runtime.api_enter(LAUNCH, ids(at), 1);
    runtime.api_exit(token, LAUNCH, ids(at), 0, None);
}

#[inline(always)]
fn dispatch_pair(runtime: &Runtime, at: u64) {
    let token = runtime.dispatch_issue(&DispatchIssue {
        ids: ids(at),
        dispatch_id: at,
        kernel_id: 3,
        agent: 7,
        queue: 9,
    });
    runtime.dispatch_done(
        token,
        &DispatchDone {
            ids: ids(at),
            dispatch_id: at,
            kernel_id: 3,
            agent: 7,
            queue: 9,
            start_ns: 1_000,
            end_ns: 2_000,
            block: [64, 1, 1],
            grid: [4_096, 1, 1],
            private_bytes: 0,
            group_bytes: 512,
            graph: 0,
            node: 0,
        },
    );
}

#[inline(always)]
fn row(at: u64) -> Row {
    [at, 1, !at, ticks(), at, at, at, at]
}

/// Behaviour before time: each call leaves its records in a session's trace, and none without a session.
fn check(runtime: &Runtime, name: u64) {
    let calls = || {
        for at in 0..CHECKED {
            mark(runtime, name, at);
            api_pair(runtime, at);
            dispatch_pair(runtime, at);
        }
    };
    let count = |kind, session| {
        let trace = runtime.trace().expect("a trace");
        trace
            .entries()
            .filter(|entry| entry.record.kind() == Some(kind))
            .filter(|entry| session == 0 || u64::from(entry.record.session()) == session)
            .count() as u64
    };
    calls();
    assert_eq!(count(Kind::Mark, 0), 0, "no session, no records");
    let session = runtime.session_open().expect("a session");
    calls();
    let end = runtime.session_stop(session, Duration::from_secs(5), None);
    assert_eq!(end.expect("its end").lost.total(), 0);
    for kind in [Kind::Mark, Kind::Api, Kind::Enqueue, Kind::Dispatch] {
        assert_eq!(count(kind, session), CHECKED, "{kind:?}");
    }
}

fn append(criterion: &mut Criterion) {
    let runtime = runtime();
    let name = runtime.intern(b"bench");
    check(runtime, name);

    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(1));
    let mut at = 0;
    let mut next = || {
        at += 1;
        black_box(at)
    };
    group.bench_function("clock reading (R)", |bencher| bencher.iter(ticks));
    group.bench_function("disabled", |bencher| {
        bencher.iter(|| mark(runtime, name, next()));
    });
    let session = runtime.session_open().expect("a session");
    group.bench_function("mark", |bencher| {
        bencher.iter(|| mark(runtime, name, next()));
    });
    group.bench_function("api pair", |bencher| {
        bencher.iter(|| api_pair(runtime, next()));
    });
    group.bench_function("dispatch pair", |bencher| {
        bencher.iter(|| dispatch_pair(runtime, next()));
    });
    let _ = runtime.session_stop(session, Duration::from_secs(5), None);

    let (mut producer, mut consumer) = rtrb::RingBuffer::<Row>::new(BURST as usize);
    group.bench_function("rtrb", |bencher| {
        bencher.iter_custom(|appends| {
            let (mut took, mut left) = (Duration::ZERO, appends);
            while left > 0 {
                let burst = left.min(BURST);
                let began = Instant::now();
                for _ in 0..burst {
                    assert!(producer.push(row(next())).is_ok(), "room for a burst");
                }
                took += began.elapsed();
                left -= burst;
                let mut seen = 0;
                while let Ok(row) = consumer.pop() {
                    assert_eq!(row[2], !row[0]);
                    seen += 1;
                }
                assert_eq!(seen, burst);
            }
            took
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    targets = append
}
criterion_main!(benches);
