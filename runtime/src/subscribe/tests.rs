//! Subscribers over a real region: facts first, each record once, in the order of each lane, and losses counted.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering as StdOrdering};
use std::time::Duration;

use super::*;
use crate::control::Control;
use crate::events::{Ids, KernelFact};
use crate::record::Kind;
use crate::runtime::Vendor;
use crate::settings::Settings;

fn runtime(budget_bytes: u64) -> &'static Runtime {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    let number = NUMBER.fetch_add(1, StdOrdering::Relaxed);
    let name = format!("strandline-subscribe-{}-{number}.slt", std::process::id());
    settings.out = Some(PathBuf::from("/dev/shm").join(name));
    settings.budget_bytes = budget_bytes;
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
    let per_segment = SEGMENT_CELLS as u64;
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
        cells: per_segment - 1,
    };
    assert_eq!(slow.lost(), lost);
    assert_eq!(marks(&mut idle).len(), 10);
    assert_eq!(idle.lost().cells, per_segment);
    runtime
        .session_stop(session, Duration::from_secs(5), None)
        .unwrap();
}
