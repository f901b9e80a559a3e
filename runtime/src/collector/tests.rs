//! Stream mode over a real region, with the host as the collector and with the file. The SDK is played by the tests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use super::*;
use crate::control::Control;
use crate::events::{DispatchDone, DispatchIssue, Ids, Operation};
use crate::record::{Kind, Records, domain};
use crate::report;
use crate::runtime::Vendor;
use crate::session_end::{Proof, Verdict};
use crate::settings::{Backing, Collector, Settings};
use crate::trace::Trace;

const LONG: Duration = Duration::from_secs(10);

fn name() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, StdOrdering::Relaxed);
    let name = format!("strandline-collector-{}-{number}", std::process::id());
    PathBuf::from("/dev/shm").join(name)
}

/// A runtime of stream mode with 2 MiB; the folder holds all its files.
fn runtime(collector: Collector) -> (&'static Runtime, PathBuf) {
    runtime_with(collector, |_| ())
}

fn runtime_with(
    collector: Collector,
    change: impl FnOnce(&mut Settings),
) -> (&'static Runtime, PathBuf) {
    let folder = name();
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.dir = folder.clone();
    settings.out = (collector == Collector::Thread).then(|| folder.join("out.slt"));
    settings.mode = Mode::Stream;
    settings.collector = collector;
    settings.budget_bytes = 2 << 20;
    settings.lane_count = 8;
    change(&mut settings);
    let control = Box::leak(Box::new(Control::new()));
    let runtime = Runtime::make(settings, &Vendor::default(), control).unwrap();
    (runtime, folder)
}

fn mark(runtime: &Runtime, id: u64) {
    runtime.mark(Kind::Mark, Ids::default(), id, b"m");
}

fn ids_in(words: &[u64]) -> Vec<u64> {
    Records::new(words)
        .map(|record| record.expect("a whole record"))
        .filter(|record| record.kind() == Some(Kind::Mark))
        .map(|record| record.word(5))
        .collect()
}

/// That these are 1 to `last`, in order; says where they are not.
fn assert_counted(ids: &[u64], last: u64) {
    let wrong = (0..).zip(ids).find(|(at, id)| at + 1 != **id);
    assert_eq!(wrong, None, "place and id");
    assert_eq!(ids.len() as u64, last);
}

#[test]
fn the_host_gets_each_record_once_and_in_order_though_many_times_the_budget_comes() {
    let (runtime, folder) = runtime(Collector::Host);
    let session = runtime.session_open().unwrap();
    let mut seen: HashMap<u16, Vec<u64>> = HashMap::new();
    let mut next = 0;
    // 2 MiB hold about 30,000 marks.
    for round in 0..200 {
        for _ in 0..1_000 {
            next += 1;
            mark(runtime, next);
        }
        let take = |collected: &Collected<'_>| {
            let ids = ids_in(collected.words);
            seen.entry(collected.lane).or_default().extend(ids);
            Ok(())
        };
        // Now and then also what is open: it must not come again.
        if round % 7 == 0 {
            runtime.collect_all(take).unwrap();
        } else {
            runtime.collect(usize::MAX, take).unwrap();
        }
    }
    let end = runtime.session_stop(session, LONG, None).unwrap();
    runtime
        .collect_all(|collected| {
            seen.entry(collected.lane)
                .or_default()
                .extend(ids_in(collected.words));
            Ok(())
        })
        .unwrap();
    assert_eq!(end.lost.total(), 0);
    let seen = seen.into_values().next().unwrap();
    assert_counted(&seen, next);
    assert!(runtime.collected_segments() > 32, "more than there are");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn case_b10_each_pair_of_eight_writers_comes_once_while_another_thread_takes_them() {
    const WRITERS: u64 = 8;
    const PAIRS: u64 = 20_000;
    let (runtime, folder) = runtime_with(Collector::Host, |settings| {
        // Room for all of them: it is not about losses here.
        settings.budget_bytes = 64 << 20;
        settings.prefault = true;
        settings.lane_count = 16;
    });
    let session = runtime.session_open().unwrap();
    let mut seen: HashMap<u64, u32> = HashMap::new();
    let mut take = |collected: &Collected<'_>| {
        for record in Records::new(collected.words).map(|record| record.expect("whole")) {
            if record.kind() == Some(Kind::Api) {
                // The pair is matched: its begin is that of this very call, which named its id as the operation as well.
                let id = record.word(3);
                assert_eq!(
                    record.word(5) & 0xffff,
                    id & 0xffff,
                    "another call's record"
                );
                assert!(record.word(1) <= record.word(2), "it ends before it begins");
                *seen.entry(id).or_default() += 1;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    for pair in 0..PAIRS {
                        let correlation = writer * PAIRS + pair + 1;
                        let operation = Operation {
                            domain: domain::RUNTIME,
                            number: correlation as u16,
                        };
                        let ids = Ids {
                            correlation,
                            ..Ids::default()
                        };
                        let token = runtime.api_enter(operation, ids, 0);
                        runtime.api_exit(token, operation, ids, 0, None);
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            runtime.collect_all(&mut take).unwrap();
        }
    });
    let end = runtime.session_stop(session, LONG, None).unwrap();
    runtime.collect_all(&mut take).unwrap();
    assert_eq!(end.lost.total(), 0);
    assert_eq!(seen.len() as u64, WRITERS * PAIRS);
    let twice = seen.iter().find(|(_, count)| **count != 1);
    assert_eq!(twice, None, "id and how often it came");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_sink_that_fails_gets_the_same_again_and_what_does_not_fit_meanwhile_is_counted() {
    let (runtime, folder) = runtime(Collector::Host);
    let session = runtime.session_open().unwrap();
    for id in 1..=100_000 {
        mark(runtime, id);
        if id % 1_000 == 0 {
            let refused = runtime.collect(1, |_| Err(io::ErrorKind::StorageFull.into()));
            assert!(matches!(refused, Ok(0) | Err(Status::Output)));
        }
    }
    let mut seen = Vec::new();
    runtime
        .collect_all(|collected| {
            seen.extend(ids_in(collected.words));
            Ok(())
        })
        .unwrap();
    let end = runtime.session_stop(session, LONG, None).unwrap();
    let lost = end.lost.get(crate::loss::LossReason::NoSegment);
    assert!(lost > 0, "2 MiB do not hold them all");
    // The oldest were kept: a producer never waits, and nothing is taken away from under a sink.
    assert_counted(&seen, 100_000 - lost);
    // Memory came free again.
    let session = runtime.session_open().unwrap();
    mark(runtime, 7);
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!(end.lost.total(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn who_may_collect() {
    let (runtime, folder) = runtime(Collector::Thread);
    assert_eq!(
        runtime.collect(1, |_| Ok(())),
        Err(Status::InvalidArgument),
        "the runtime writes a file itself"
    );
    std::fs::remove_dir_all(folder).unwrap();
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.mode = Mode::Stream;
    settings.dir = name();
    let dir = settings.dir.clone();
    let control = Box::leak(Box::new(Control::new()));
    let (status, text) = Runtime::make(settings, &Vendor::default(), control).unwrap_err();
    assert_eq!(status, Status::BadSetting);
    assert!(text.contains("STRANDLINE_OUT"), "{text}");
    std::fs::remove_dir(dir).expect("no region was left");
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    (settings.mode, settings.backing) = (Mode::Stream, Backing::Memfd);
    let control = Box::leak(Box::new(Control::new()));
    let (status, text) = Runtime::make(settings, &Vendor::default(), control).unwrap_err();
    assert_eq!(status, Status::BadSetting);
    assert!(text.contains("STRANDLINE_BACKING"), "{text}");
}

fn dispatch(runtime: &Runtime, id: u64, completes: bool) {
    let ids = Ids {
        correlation: id,
        thread: 7,
        ..Ids::default()
    };
    let token = runtime.dispatch_issue(&DispatchIssue {
        ids,
        dispatch_id: id,
        kernel_id: 1,
        agent: 77,
        queue: 0,
    });
    if completes {
        runtime.dispatch_done(
            token,
            &DispatchDone {
                ids,
                dispatch_id: id,
                kernel_id: 1,
                agent: 77,
                start_ns: 5,
                end_ns: 9,
                ..DispatchDone::default()
            },
        );
    }
}

/// Promise 5 in stream mode: the issue of what is outstanding may long have left the region.
#[test]
fn what_was_retired_is_proven_though_its_issue_left_the_region() {
    let (runtime, folder) = runtime(Collector::Host);
    let session = runtime.session_open().unwrap();
    for id in 1..=20_000 {
        dispatch(runtime, id, id != 17 && id != 19_000);
        if id % 500 == 0 {
            runtime.collect(usize::MAX, |_| Ok(())).unwrap();
        }
    }
    assert!(runtime.collected_segments() > 40);
    runtime.retire(17);
    let mut asked = 0;
    let ask = &mut || {
        asked += 1;
        if asked == 2 {
            runtime.retire(19_000);
        }
    };
    let end = runtime.session_stop(session, LONG, Some(ask)).unwrap();
    assert_eq!(
        (end.verdict, end.proof),
        (Verdict::Complete, Proof::PairsAndRetirement)
    );
    let work = end.dispatches;
    assert_eq!(
        (work.issued, work.recorded, work.retired_without_record),
        (20_000, 19_998, 2)
    );
    // One that is really missing, and left long ago: named by the low watermark.
    let session = runtime.session_open().unwrap();
    for id in 20_001..=30_000 {
        dispatch(runtime, id, id != 20_500);
        if id % 500 == 0 {
            runtime.collect(usize::MAX, |_| Ok(())).unwrap();
        }
    }
    let end = runtime
        .session_stop(session, Duration::from_millis(5), None)
        .unwrap();
    assert_eq!(
        (end.verdict, end.low_watermark),
        (Verdict::Incomplete, 20_499)
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_file_has_everything_at_any_time_and_in_the_end() {
    let (runtime, folder) = runtime(Collector::Thread);
    let session = runtime.session_open().unwrap();
    let count = |trace: &Trace| {
        assert_eq!(trace.damage(), []);
        trace
            .entries()
            .map(|entry| entry.record.word(5))
            .collect::<Vec<_>>()
    };
    for id in 1..=100_000 {
        mark(runtime, id);
        if id % 1_000 == 0 {
            runtime.write_sealed(&mut runtime.collector()).unwrap();
        }
        if id % 30_000 == 0 {
            let trace = runtime.trace().unwrap();
            assert_counted(&count(&trace), id);
            assert_eq!(report::sessions(&trace).len(), 1);
        }
    }
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!(end.lost.total(), 0);
    let live = runtime.region_path().to_owned();
    assert!(live.exists());
    runtime.finalize();
    runtime.discard_unasked_file();
    assert!(!live.exists(), "the file has it all");
    let trace = Trace::open(&folder.join("out.slt")).unwrap();
    assert_counted(&count(&trace), 100_000);
    assert_eq!(trace.header().mode, Mode::Stream);
    let reports = report::sessions(&trace);
    assert!(!reports[0].unfinished && reports[0].verdict == Verdict::Empty);
    assert_eq!(output_of(&trace), None);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_dead_process_left_in_its_region_is_brought_to_the_file_once() {
    let (runtime, folder) = runtime(Collector::Thread);
    let session = runtime.session_open().unwrap();
    for id in 1..=10_000 {
        mark(runtime, id);
        if id == 6_000 {
            // Sealed segments and an open one, whose rest comes later.
            runtime.write_all(&mut runtime.collector()).unwrap();
        }
    }
    let output = folder.join("out.slt");
    let live = runtime.region_path();
    let named = Trace::open(live).unwrap();
    assert_eq!(output_of(&named), Some(&*output));
    assert_eq!(Trace::open(&output).unwrap().entries().count(), 6_000);
    // It dies here: nothing more is written by it.
    assert!(finish(live, &output).unwrap() > 0);
    for _ in 0..2 {
        let trace = Trace::open(&output).unwrap();
        assert_eq!(trace.damage(), []);
        let ids: Vec<u64> = trace.entries().map(|entry| entry.record.word(5)).collect();
        assert_counted(&ids, 10_000);
        assert!(report::sessions(&trace)[0].unfinished);
        assert_eq!(finish(live, &output).unwrap(), 0, "nothing comes twice");
    }
    let other = folder.join("other.slt");
    std::fs::write(&other, crate::builder::Builder::new().bytes()).unwrap();
    let error = finish(live, &other).unwrap_err().to_string();
    assert!(error.contains("is not what"), "{error}");
    let _ = runtime.session_stop(session, LONG, None);
    std::fs::remove_dir_all(folder).unwrap();
}

fn collect_everything(runtime: &Runtime) {
    runtime.collect(usize::MAX, |_| Ok(())).unwrap();
}

#[test]
fn only_segments_that_may_hold_device_work_are_read_for_the_books() {
    let (runtime, folder) = runtime(Collector::Host);
    let session = runtime.session_open().unwrap();
    for id in 1..=10_000 {
        mark(runtime, id);
    }
    let region = runtime.region();
    let noted = || {
        let all = 0..region.backed_count() as u32;
        all.filter(|&at| region.holds_no_device_work(at)).count()
    };
    assert_eq!(noted(), 9, "those that are sealed");
    collect_everything(runtime);
    assert_eq!(noted(), 0, "it says nothing of the next generation");
    let before = runtime.collected_segments();
    assert!(before >= 9);
    assert_eq!(runtime.segments_read_for_books(), 0, "marks alone");
    // One issue among marks, and a pair a few segments on.
    for (id, completes) in [(17, false), (18, true)] {
        dispatch(runtime, id, completes);
        for id in 1..=3_000 {
            mark(runtime, id);
        }
    }
    collect_everything(runtime);
    assert!(runtime.collected_segments() >= before + 5);
    assert_eq!(runtime.segments_read_for_books(), 2);
    let end = runtime
        .session_stop(session, Duration::from_millis(5), None)
        .unwrap();
    assert_eq!((end.verdict, end.low_watermark), (Verdict::Incomplete, 16));
    std::fs::remove_dir_all(folder).unwrap();
}

/// The session of the issue is over when its segment is sealed, and the lane counts for another one.
#[test]
fn device_work_of_an_earlier_session_or_of_an_append_left_in_the_middle_is_not_overlooked() {
    let (runtime, folder) = runtime(Collector::Host);
    let first = runtime.session_open().unwrap();
    for id in 1..=5 {
        dispatch(runtime, id, id != 3);
    }
    runtime.session_close(first).unwrap();
    let second = runtime.session_open().unwrap();
    for id in 1..=5_000 {
        mark(runtime, id);
    }
    collect_everything(runtime);
    assert!(runtime.collected_segments() >= 4);
    assert_eq!(runtime.segments_read_for_books(), 1);
    runtime.retire(3);
    let ask = &mut || ();
    let end = runtime.session_stop(first, LONG, Some(ask)).unwrap();
    assert_eq!(
        (end.verdict, end.proof),
        (Verdict::Complete, Proof::PairsAndRetirement)
    );
    left_in_the_middle(runtime, second as u32);
    runtime.session_stop(second, LONG, None).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// A thread that ends in the middle of an append has stored a record that no counter knows: its segment is read.
fn left_in_the_middle(runtime: &'static Runtime, session: u32) {
    let before = runtime.segments_read_for_books();
    let thread = std::thread::spawn(move || {
        mark(runtime, 1);
        let inside = runtime.lane(session).and_then(|lane| lane.enter(session));
        let inside = inside.expect("in no append");
        let mut words = [0; CELL_WORDS];
        words[0] = crate::record::head_word(Kind::Enqueue, 1, 0, session);
        assert!(inside.append(&words, session));
        std::mem::forget(inside);
    });
    thread.join().unwrap();
    let mut seen = 0;
    runtime
        .collect(usize::MAX, |collected| {
            seen += Records::new(collected.words)
                .flatten()
                .filter(|record| record.kind() == Some(Kind::Enqueue))
                .count();
            Ok(())
        })
        .unwrap();
    assert_eq!((seen, runtime.segments_read_for_books()), (1, before + 1));
}

#[test]
fn a_sink_that_panics_gets_that_segment_again_and_no_other_twice() {
    let (runtime, folder) = runtime(Collector::Host);
    let session = runtime.session_open().unwrap();
    let mut seen = Vec::new();
    let mut next = 0;
    for round in 0..40 {
        for _ in 0..5_000 {
            next += 1;
            mark(runtime, next);
        }
        let mut calls = 0;
        let take = std::panic::AssertUnwindSafe(|| {
            runtime.collect(usize::MAX, |collected| {
                calls += 1;
                assert!(round % 2 == 1 || calls < 4, "told to");
                seen.extend(ids_in(collected.words));
                Ok(())
            })
        });
        assert_eq!(std::panic::catch_unwind(take).is_err(), round % 2 == 0);
    }
    let end = runtime.session_stop(session, LONG, None).unwrap();
    runtime
        .collect_all(|collected| {
            seen.extend(ids_in(collected.words));
            Ok(())
        })
        .unwrap();
    assert_eq!(end.lost.total(), 0);
    assert_counted(&seen, next);
    std::fs::remove_dir_all(folder).unwrap();
}
