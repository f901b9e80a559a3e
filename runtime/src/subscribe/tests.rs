//! Subscribers over a real region: facts first, each record once, in the order of each lane, and losses counted.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering as StdOrdering};
use std::time::Duration;

use super::*;
use crate::control::Control;
use crate::events::{DispatchDone, DispatchIssue, Ids, KernelFact};
use crate::header::Mode;
use crate::record::Kind;
use crate::runtime::Vendor;
use crate::settings::Settings;

fn runtime(budget_bytes: u64) -> &'static Runtime {
    runtime_in(Mode::Window, budget_bytes)
}

fn runtime_in(mode: Mode, budget_bytes: u64) -> &'static Runtime {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    let number = NUMBER.fetch_add(1, StdOrdering::Relaxed);
    let name = format!("strandline-subscribe-{}-{number}.slt", std::process::id());
    settings.out = Some(PathBuf::from("/dev/shm").join(name));
    settings.budget_bytes = budget_bytes;
    settings.mode = mode;
    let control = Box::leak(Box::new(Control::new()));
    let runtime = Runtime::make(settings, &Vendor::default(), control).unwrap();
    // The file has done its part once it is mapped.
    std::fs::remove_file(runtime.path()).unwrap();
    runtime
}

fn mark(runtime: &Runtime, id: u64) {
    runtime.mark(Kind::RangeStart, Ids::default(), id, b"mark");
}

/// Ids of the marks that a subscriber hands out until it has nothing, with the lane.
fn marks(subscriber: &mut Subscriber) -> Vec<(u16, u64)> {
    let mut ids = Vec::new();
    while let Some(item) = subscriber.next() {
        if item.record.kind() == Some(Kind::RangeStart) {
            ids.push((item.lane, item.record.word(5)));
        }
    }
    ids
}

#[test]
fn facts_come_first_then_records_each_once_for_any_number_of_subscribers() {
    let runtime = runtime(16 << 20);
    runtime.kernel(&KernelFact {
        kernel_id: 5,
        name: b"early",
        ..KernelFact::default()
    });
    let session = runtime.session_open().unwrap();
    mark(runtime, 1);
    let mut all = Subscriber::new(runtime, From::Oldest);
    let mut late = Subscriber::new(runtime, From::Now);
    mark(runtime, 2);
    for (subscriber, expected) in [(&mut all, vec![1, 2]), (&mut late, vec![2])] {
        let mut facts_over = false;
        let (mut ids, mut kernels) = (Vec::new(), Vec::new());
        while let Some(item) = subscriber.next() {
            match item.record.kind().unwrap() {
                Kind::KernelSymbol => kernels.push(item.record.word(1)),
                Kind::RangeStart => ids.push(item.record.word(5)),
                _ => {}
            }
            let fact = item.record.kind().unwrap().is_sticky();
            assert!(!(fact && facts_over), "a fact after a record of its round");
            facts_over |= !fact;
        }
        assert_eq!((kernels, ids), (vec![5], expected));
        assert!(subscriber.next().is_none());
    }
    mark(runtime, 3);
    assert_eq!(marks(&mut all).len(), 1);
    assert_eq!(marks(&mut late).len(), 1);
    assert_eq!((all.lost(), late.lost()), Default::default());
    runtime
        .session_stop(session, Duration::from_secs(5), None)
        .unwrap();
}

#[test]
fn threads_that_write_while_it_reads_are_read_once_and_in_order() {
    const THREADS: u64 = 3;
    const EACH: u64 = 20_000;
    let runtime = runtime(64 << 20);
    runtime.start_housekeeper(None, None).unwrap();
    let session = runtime.session_open().unwrap();
    let over = AtomicBool::new(false);
    let mut subscriber = Subscriber::new(runtime, From::Now);
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || (0..EACH).for_each(|id| mark(runtime, thread << 32 | id)))
            })
            .collect();
        let over = &over;
        scope.spawn(move || {
            writers
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
            over.store(true, StdOrdering::SeqCst);
        });
        loop {
            let last = over.load(StdOrdering::SeqCst);
            got.extend(marks(&mut subscriber));
            if last {
                break;
            }
        }
    });
    assert_eq!(got.len() as u64, THREADS * EACH);
    let unique: HashSet<u64> = got.iter().map(|&(_, id)| id).collect();
    assert_eq!(unique.len(), got.len());
    for lane in got.iter().map(|&(lane, _)| lane).collect::<HashSet<_>>() {
        let ids: Vec<u64> = got
            .iter()
            .filter(|&&(from, _)| from == lane)
            .map(|&(_, id)| id)
            .collect();
        assert!(
            ids.is_sorted_by_key(|id| id & 0xffff_ffff) || ids.len() as u64 > EACH,
            "lane {lane} out of order"
        );
    }
    assert_eq!(subscriber.lost(), Lost::default());
    runtime
        .session_stop(session, Duration::from_secs(5), None)
        .unwrap();
    runtime.finalize();
}

#[test]
fn what_is_reused_before_it_is_read_is_lost_with_a_count() {
    let runtime = runtime(16 << 20);
    let session = runtime.session_open().unwrap();
    let mut slow = Subscriber::new(runtime, From::Now);
    let mut idle = Subscriber::new(runtime, From::Now);
    mark(runtime, 0);
    assert_eq!(marks(&mut slow).len(), 1);
    let per_segment = runtime.region().segment_cells() as u64;
    for id in 1..per_segment + 10 {
        mark(runtime, id);
    }
    let region = runtime.region();
    let sealed = (0..region.backed_count() as u32)
        .find(|&segment| {
            let state = region.entry(segment, word::STATE).load(Ordering::Acquire);
            StateWord::unpack(state).is_some_and(|state| state.state == SegmentState::Sealed)
        })
        .expect("a full segment is sealed");
    region.recycle(sealed);
    let rest: Vec<u64> = marks(&mut slow).into_iter().map(|(_, id)| id).collect();
    assert_eq!(rest, (per_segment..per_segment + 10).collect::<Vec<_>>());
    let lost = Lost {
        segments: 1,
        records: per_segment - 1,
        cells: per_segment - 1,
    };
    assert_eq!(slow.lost(), lost);
    assert_eq!(marks(&mut idle).len(), 10);
    assert_eq!(
        (idle.lost().records, idle.lost().cells),
        (per_segment, per_segment)
    );
    runtime
        .session_stop(session, Duration::from_secs(5), None)
        .unwrap();
}

/// Records of 1 and 2 cells: `count` dispatches and marks, 3 records for each.
fn work(runtime: &Runtime, first: u64, count: u64) {
    for id in first..first + count {
        let ids = Ids {
            correlation: id,
            ..Ids::default()
        };
        let token = runtime.dispatch_issue(&DispatchIssue {
            ids,
            dispatch_id: id,
            kernel_id: 1,
            agent: 1,
            queue: 1,
        });
        runtime.dispatch_done(
            token,
            &DispatchDone {
                ids,
                dispatch_id: id,
                start_ns: 1,
                end_ns: 2,
                ..DispatchDone::default()
            },
        );
        mark(runtime, id);
    }
}

/// How many records of sessions a subscriber hands out until it has nothing, at most `most`.
fn handed(subscriber: &mut Subscriber, most: u64) -> u64 {
    let mut count = 0;
    while count < most
        && let Some(item) = subscriber.next()
    {
        count += u64::from(is_of_a_session(&item.record));
    }
    count
}

#[test]
fn each_record_is_handed_out_or_counted_as_lost() {
    const ROUNDS: u64 = 60;
    const EACH: u64 = 700;
    let runtime = runtime_in(Mode::Flight, 4 << 20);
    let session = runtime.session_open().unwrap();
    work(runtime, 1, 100);
    // Of different pace: one that reads all, one that now and then reads a little, one that looks at the end only.
    let mut subscribers: Vec<(Subscriber, u64, u64)> = [u64::MAX, 555, 0]
        .map(|most| (Subscriber::new(runtime, From::Now), most, 0))
        .into();
    let mut oldest = Subscriber::new(runtime, From::Oldest);
    for round in 0..ROUNDS {
        // Threads in turn: their lanes are handed on with what is in them, and reused meanwhile.
        std::thread::scope(|scope| {
            for thread in 0..1 + round % 3 {
                scope.spawn(move || work(runtime, round * 1000 + thread, EACH));
            }
        });
        for (subscriber, most, count) in &mut subscribers {
            *count += handed(subscriber, *most);
        }
    }
    let appended = (0..ROUNDS).map(|round| 1 + round % 3).sum::<u64>() * EACH * 3;
    runtime
        .session_stop(session, Duration::from_secs(5), None)
        .unwrap();
    for (subscriber, most, count) in &mut subscribers {
        *count += handed(subscriber, u64::MAX);
        let lost = subscriber.lost();
        assert_eq!(*count + lost.records, appended, "{most}: {lost:?}");
        if *most != u64::MAX {
            assert!(lost.records > 0, "{most}: the region is too large");
        }
    }
    let all = handed(&mut oldest, u64::MAX) + oldest.lost().records;
    assert_eq!(all, appended + 300);
}

#[test]
fn a_release_under_a_subscriber_is_lost_with_its_records() {
    let runtime = runtime(4 << 20);
    let mut slow = Subscriber::new(runtime, From::Now);
    let mut appended = 0;
    for round in 0..20 {
        let session = runtime.session_open().unwrap();
        work(runtime, round * 1000, 700);
        appended += 2100;
        runtime
            .session_stop(session, Duration::from_secs(5), None)
            .unwrap();
        runtime.session_release(session).unwrap();
    }
    let handed = handed(&mut slow, u64::MAX);
    assert!(slow.lost().records > 0);
    assert_eq!(handed + slow.lost().records, appended);
}

#[test]
fn issues_without_room_are_not_among_what_is_stored() {
    let runtime = runtime(1 << 20);
    let session = runtime.session_open().unwrap();
    let mut slow = Subscriber::new(runtime, From::Now);
    // More than fits: the last ones are lost to the trace itself. Then there is room again, and the segment in which they would
    // have been goes on.
    let mut lost = 0;
    for session in [session, session + 1] {
        work(runtime, 1, 10_000);
        let end = runtime
            .session_stop(session, Duration::from_secs(5), None)
            .unwrap();
        assert!(end.lost.total() > 0);
        lost += end.lost.total();
        runtime.session_release(session).unwrap();
        assert_eq!(runtime.session_open().unwrap(), session + 1);
    }
    let handed = handed(&mut slow, u64::MAX);
    assert_eq!(handed + slow.lost().records + lost, 60_000);
}

#[test]
fn a_subscriber_that_reads_under_fire_misses_nothing_and_counts_nothing_twice() {
    const THREADS: u64 = 3;
    const EACH: u64 = 30_000;
    let runtime = runtime_in(Mode::Flight, 2 << 20);
    let session = runtime.session_open().unwrap();
    let over = AtomicBool::new(false);
    let mut subscriber = Subscriber::new(runtime, From::Now);
    let mut count = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(runtime, thread << 32, EACH)))
            .collect();
        let over = &over;
        scope.spawn(move || {
            writers
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
            over.store(true, StdOrdering::SeqCst);
        });
        loop {
            let last = over.load(StdOrdering::SeqCst);
            count += handed(&mut subscriber, if last { u64::MAX } else { 5_000 });
            if last {
                break;
            }
            std::thread::yield_now();
        }
    });
    let lost = subscriber.lost();
    assert_eq!(count + lost.records, THREADS * EACH * 3, "{lost:?}");
    runtime
        .session_stop(session, Duration::from_secs(5), None)
        .unwrap();
}
