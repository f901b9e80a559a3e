//! Sessions over a real region: membership, proofs, losses, threads, fork. The SDK is played by the test itself.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering as StdOrdering};
use std::time::Duration;

use super::*;
use crate::control::{Control, Token};
use crate::events::{DispatchDone, DispatchIssue, Ids, KernelFact, Operation};
use crate::record::domain;
use crate::report::{self, SessionReport};
use crate::runtime::Vendor;
use crate::settings::Settings;

const LONG: Duration = Duration::from_secs(10);
const LAUNCH: Operation = Operation {
    domain: domain::RUNTIME,
    number: 214,
};

fn runtime_with(change: impl FnOnce(&mut Settings)) -> &'static Runtime {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    let number = NUMBER.fetch_add(1, StdOrdering::Relaxed);
    let name = format!("strandline-unit-{}-{number}.slt", std::process::id());
    settings.out = Some(PathBuf::from("/dev/shm").join(name));
    settings.budget_bytes = 64 << 20;
    change(&mut settings);
    let control = Box::leak(Box::new(Control::new()));
    let runtime = Runtime::make(settings, &Vendor::default(), control).unwrap();
    // The file has done its part once it is mapped.
    std::fs::remove_file(runtime.path()).unwrap();
    runtime
}

fn runtime() -> &'static Runtime {
    runtime_with(|_| ())
}

fn issue(runtime: &Runtime, id: u64) -> Token {
    runtime.dispatch_issue(&DispatchIssue {
        ids: Ids {
            correlation: id,
            thread: 7,
            ..Ids::default()
        },
        dispatch_id: id,
        kernel_id: 1,
        agent: 77,
        queue: 0,
    })
}

fn done(runtime: &Runtime, token: Token, id: u64) {
    let now = clock::vendor_now();
    runtime.dispatch_done(
        token,
        &DispatchDone {
            ids: Ids {
                correlation: id,
                thread: 7,
                ..Ids::default()
            },
            dispatch_id: id,
            kernel_id: 1,
            agent: 77,
            start_ns: now,
            end_ns: now + 10,
            block: [64, 1, 1],
            grid: [640, 1, 1],
            ..DispatchDone::default()
        },
    );
}

fn only_report(runtime: &Runtime) -> SessionReport {
    let mut reports = report::sessions(&runtime.trace().unwrap());
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

#[test]
fn a_session_with_all_its_pairs_is_complete_and_reads_back() {
    let runtime = runtime();
    runtime.kernel(&KernelFact {
        kernel_id: 1,
        name: b"_Z4nodev.kd",
        ..KernelFact::default()
    });
    let session = runtime.session_open().unwrap();
    assert_eq!(runtime.session_open(), Err(Status::SessionOpen));
    let ids = Ids {
        correlation: 1,
        thread: 7,
        ..Ids::default()
    };
    runtime.operation(LAUNCH, b"hipLaunchKernel");
    let stream = runtime.stream(0x7f00, crate::record::StreamKind::Seen, 0);
    let call = runtime.api_enter(LAUNCH, ids, stream);
    let tokens: Vec<_> = (1..=3).map(|id| issue(runtime, id)).collect();
    runtime.api_exit(call, LAUNCH, ids, 0, None);
    for (token, id) in tokens.into_iter().zip(1..) {
        done(runtime, token, id);
    }
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!((end.verdict, end.proof), (Verdict::Complete, Proof::Pairs));
    assert_eq!(
        (
            end.dispatches.issued,
            end.dispatches.recorded,
            end.api_recorded
        ),
        (3, 3, 1)
    );
    assert_eq!((end.low_watermark, end.high_watermark), (3, 3));
    assert!(end.requested_ns <= end.returned_ns && end.last_arrival_ns <= end.returned_ns);
    assert_eq!(
        runtime.session_stop(session, LONG, None).unwrap(),
        end,
        "a second stop gives the same books"
    );
    assert_eq!(
        runtime.session_stop(session + 1, LONG, None),
        Err(Status::NoSuchSession)
    );

    let trace = runtime.trace().unwrap();
    assert_eq!(trace.damage(), []);
    assert_eq!(trace.facts().kernel_name(1), Some(&b"_Z4nodev.kd"[..]));
    assert_eq!(
        trace.facts().operation_name(domain::RUNTIME, 214),
        "hipLaunchKernel"
    );
    assert_eq!(trace.facts().queues, [(0, 77)]);
    let dispatch = trace
        .entries()
        .find(|entry| entry.record.kind() == Some(Kind::Dispatch))
        .unwrap()
        .record;
    assert_eq!(
        (dispatch.stream(), dispatch.flags(), dispatch.grid()),
        (stream, 0, [640, 1, 1])
    );
    let api = trace
        .entries()
        .find(|entry| entry.record.kind() == Some(Kind::Api))
        .unwrap()
        .record;
    assert_eq!(
        (api.thread(), api.correlation_id(), api.depth(), api.cells()),
        (7, 1, 0, 1)
    );
    assert!(api.start() <= api.end());
    let report = only_report(runtime);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(
        report.flagged,
        report::Flagged {
            no_launch: 2,
            ..report::Flagged::default()
        }
    );
}

#[test]
fn case_b02_a_stop_hands_out_a_segment_with_one_record() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    let token = issue(runtime, 1);
    done(runtime, token, 1);
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!(
        (end.verdict, end.dispatches.recorded),
        (Verdict::Complete, 1)
    );
    let trace = runtime.trace().unwrap();
    let dispatches = trace.entries().map(|entry| entry.record);
    let dispatches = dispatches.filter(|record| record.kind() == Some(Kind::Dispatch));
    let ids = dispatches.map(|record| record.word(5));
    assert_eq!(ids.collect::<Vec<_>>(), [1]);
}

#[test]
fn work_outside_a_session_leaves_no_trace() {
    let runtime = runtime();
    assert!(runtime.api_enter(LAUNCH, Ids::default(), 0).is_none());
    let token = issue(runtime, 1);
    assert!(token.is_none());
    let session = runtime.session_open().unwrap();
    // It completes in the session, but was issued before: its origin decides.
    done(runtime, token, 1);
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!(
        (end.verdict, end.dispatches.recorded, end.late),
        (Verdict::Empty, 0, 0)
    );
    assert_eq!(runtime.trace().unwrap().entries().count(), 0);
}

#[test]
fn past_the_deadline_the_missing_are_counted_and_what_comes_later_is_late() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    let tokens: Vec<_> = (1..=10).map(|id| issue(runtime, id)).collect();
    for id in [1, 2, 3, 5] {
        done(runtime, tokens[id - 1], id as u64);
    }
    let end = runtime
        .session_stop(session, Duration::from_millis(5), None)
        .unwrap();
    assert_eq!((end.verdict, end.proof), (Verdict::Incomplete, Proof::None));
    assert_eq!(
        (
            end.dispatches.missing(),
            end.low_watermark,
            end.high_watermark
        ),
        (6, 3, 10)
    );
    let next = runtime.session_open().unwrap();
    for id in [4, 6, 7, 8, 9, 10] {
        done(runtime, tokens[id - 1], id as u64);
    }
    let end = runtime.session_stop(next, LONG, None).unwrap();
    assert_eq!(
        (end.verdict, end.late),
        (Verdict::Empty, 0),
        "nothing appears in another session"
    );
    let reports = report::sessions(&runtime.trace().unwrap());
    assert_eq!(
        (
            reports[0].late,
            reports[0].dispatches.recorded,
            reports[1].late
        ),
        (6, 4, 0)
    );
    assert!(!reports[0].is_clean());
}

#[test]
fn what_is_retired_without_a_record_is_no_reason_to_wait() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    let tokens: Vec<_> = (1..=100).map(|id| issue(runtime, id)).collect();
    for id in (1..=100u64).filter(|id| id % 10 != 0) {
        done(runtime, tokens[id as usize - 1], id);
    }
    let mut asked = 0;
    let mut ask = || {
        asked += 1;
        // The SDK hands over its retirements at the second time only.
        if asked == 2 {
            (1..=100).for_each(|id| runtime.retire(id));
        }
    };
    let end = runtime.session_stop(session, LONG, Some(&mut ask)).unwrap();
    assert_eq!(asked, 2);
    assert_eq!(
        (end.verdict, end.proof),
        (Verdict::Complete, Proof::PairsAndRetirement)
    );
    assert_eq!(
        (
            end.dispatches.retired_without_record,
            end.dispatches.missing()
        ),
        (10, 0)
    );
    let trace = runtime.trace().unwrap();
    let retired: Vec<_> = trace
        .facts()
        .retired
        .iter()
        .map(|retired| retired.dispatch_id)
        .collect();
    assert_eq!(retired, (1..=10).map(|ten| ten * 10).collect::<Vec<_>>());
}

#[test]
fn a_stop_waits_for_a_late_completion_and_never_asks_when_pairs_come() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    let token = issue(runtime, 1);
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        done(runtime, token, 1);
    });
    let end = runtime.session_stop(session, LONG, None).unwrap();
    late.join().unwrap();
    assert_eq!(
        (end.verdict, end.dispatches.recorded),
        (Verdict::Complete, 1)
    );
    assert!(end.waited_ns > 10_000_000);
}

#[test]
fn many_sessions_with_records_up_to_three_sessions_late_keep_their_own() {
    let runtime = runtime();
    let mut held: Vec<(u64, Token, u64)> = Vec::new();
    let (mut id, mut late) = (0, HashMap::<u64, u64>::new());
    for round in 0..200u64 {
        let session = runtime.session_open().unwrap();
        let mut own = Vec::new();
        for _ in 0..round % 7 {
            id += 1;
            own.push((id, issue(runtime, id)));
        }
        // Every third piece of work is held back for up to three sessions.
        for (at, (id, token)) in own.into_iter().enumerate() {
            if at % 3 == 2 {
                held.push((session + 1 + id % 3, token, id));
                *late.entry(session).or_default() += 1;
            } else {
                done(runtime, token, id);
            }
        }
        held.retain(|&(due, token, id)| {
            if due == session {
                done(runtime, token, id);
            }
            due != session
        });
        let end = runtime.session_stop(session, Duration::ZERO, None).unwrap();
        let own_late = late.get(&session).copied().unwrap_or(0);
        assert_eq!(
            (end.dispatches.issued, end.dispatches.missing()),
            (round % 7, own_late)
        );
    }
    let trace = runtime.trace().unwrap();
    for entry in trace
        .entries()
        .filter(|entry| entry.record.kind() == Some(Kind::Dispatch))
    {
        let issued = trace.entries().find(|other| {
            other.record.kind() == Some(Kind::Enqueue)
                && other.record.dispatch_id() == entry.record.dispatch_id()
        });
        assert_eq!(issued.unwrap().record.session(), entry.record.session());
    }
    let counted: u64 = (1..=200)
        .filter_map(|session| trace.session_counters(session))
        .map(|block| block.get(Counter::Late))
        .sum::<u64>()
        + trace.older_counters().get(Counter::Late);
    let delivered: u64 = late.values().sum::<u64>() - held.len() as u64;
    assert_eq!(counted, delivered);
}

#[test]
fn a_full_region_counts_every_record_that_it_has_no_room_for() {
    let runtime = runtime_with(|settings| settings.budget_bytes = 1 << 20);
    let session = runtime.session_open().unwrap();
    let offered = 20_000u64;
    for id in 1..=offered {
        let token = issue(runtime, id);
        done(runtime, token, id);
    }
    let end = runtime.session_stop(session, LONG, None).unwrap();
    let trace = runtime.trace().unwrap();
    let stored = trace.entries().count() as u64;
    assert!(stored < 2 * offered);
    assert_eq!(
        stored + end.lost.get(LossReason::NoSegment),
        2 * offered,
        "counts balance to the last record"
    );
    // Losses began after the session did, when the region was full, and went on to the last record.
    assert!(end.begin_ns < end.first_loss_ns, "{end:?}");
    assert!(end.first_loss_ns < end.last_loss_ns, "{end:?}");
    assert!(end.last_loss_ns <= end.returned_ns, "{end:?}");
    let report = &crate::report::sessions(&trace)[0];
    assert_eq!(
        (report.first_loss_ns, report.last_loss_ns),
        (end.first_loss_ns, end.last_loss_ns)
    );
    assert_eq!(end.verdict, Verdict::Incomplete);
    assert_eq!(end.dispatches.issued, offered);
    let whole = trace
        .entries()
        .filter(|entry| entry.record.kind() == Some(Kind::Dispatch))
        .count() as u64;
    assert_eq!(end.dispatches.recorded, whole);
    assert!(
        end.low_watermark < offered && end.low_watermark > 0,
        "{}",
        end.low_watermark
    );
}

#[test]
fn a_full_region_still_says_what_it_lacks() {
    let runtime = runtime_with(|settings| settings.budget_bytes = 1 << 20);
    for _ in 0..3 {
        let session = runtime.session_open().unwrap();
        for id in 1..=20_000 {
            done(runtime, issue(runtime, id), id);
        }
        // Whoever stops has written nothing before, and nobody has left it a lane: its facts need a segment of their own.
        let stopped = std::thread::spawn(move || runtime.session_stop(session, LONG, None));
        let end = stopped.join().unwrap().unwrap();
        assert!(end.lost.get(LossReason::NoSegment) > 0);
        let trace = runtime.trace().unwrap();
        let reports = report::sessions(&trace);
        let report = reports.iter().find(|report| report.id == session);
        let report = report.expect("the session is in its trace");
        assert_eq!(report.lost.get(LossReason::StickyFull), 0);
        assert_eq!(report.lost.total(), end.lost.total());
        assert_eq!(trace.facts().session_ends.len() as u64, session);
        runtime.session_release(session).unwrap();
    }
}

#[test]
fn thousands_of_threads_in_turn_lose_nothing_and_too_many_at_once_are_counted() {
    let runtime = runtime_with(|settings| settings.lane_count = 8);
    let session = runtime.session_open().unwrap();
    for id in 1..=2_000 {
        std::thread::spawn(move || {
            let token = issue(runtime, id);
            done(runtime, token, id);
        })
        .join()
        .unwrap();
    }
    // case B36: 20 threads at once on 8 lanes; those without a lane run on, untouched, and are counted.
    let barrier = std::sync::Barrier::new(20);
    std::thread::scope(|scope| {
        for id in 3_001..=3_020 {
            let barrier = &barrier;
            scope.spawn(move || {
                let token = issue(runtime, id);
                barrier.wait();
                done(runtime, token, id);
            });
        }
    });
    let end = runtime.session_stop(session, LONG, None).unwrap();
    // Threads without a lane at their issue lose that record, and the completion too if none came free meanwhile;
    // nobody waits for what can't come.
    let (lost, missing) = (end.lost.get(LossReason::NoLane), end.dispatches.missing());
    assert_eq!(end.dispatches.issued, 2_020);
    assert_eq!(end.dispatches.recorded + missing, 2_020);
    assert!(lost - missing >= 12, "{end:?}");
    assert!(end.waited_ns < 5_000_000_000, "{end:?}");
    let trace = runtime.trace().unwrap();
    assert!(
        trace
            .entries()
            .filter(|entry| entry.record.kind() == Some(Kind::Thread))
            .count()
            > 1_900
    );
}

#[test]
fn a_thread_without_a_lane_opens_stops_and_names() {
    let runtime = runtime_with(|settings| settings.lane_count = 4);
    std::thread::scope(|scope| {
        // Held until this end of the channel is dropped, also when a check fails.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Arc::new(std::sync::Mutex::new(held));
        let (ready, took) = std::sync::mpsc::channel();
        for number in 0..8u8 {
            let (held, ready) = (held.clone(), ready.clone());
            scope.spawn(move || {
                // What nobody has announced takes a lane.
                runtime.intern(&[b'a' + number]);
                ready.send(()).unwrap();
                let _ = held.lock().map(|held| held.recv());
            });
        }
        (0..8).for_each(|_| took.recv().unwrap());
        let others = scope.spawn(move || {
            let session = runtime.session_open().unwrap();
            done(runtime, issue(runtime, 1), 1);
            let name = runtime.intern(b"of a thread without a lane");
            (session, name, runtime.session_stop(session, LONG, None))
        });
        let (session, name, end) = others.join().unwrap();
        let end = end.unwrap();
        // Its records are lost and counted, two of them; its facts are not.
        assert_eq!((end.session, end.lost.total()), (session, 2));
        assert_eq!(end.lost.get(LossReason::NoLane), 2);
        let trace = runtime.trace().unwrap();
        let facts = trace.facts();
        assert_eq!(facts.text(name), "of a thread without a lane");
        assert_eq!(facts.session_begins.len(), 1);
        assert_eq!(facts.session_ends, [end]);
        assert_eq!(report::sessions(&trace)[0].verdict, Verdict::Incomplete);
        drop(hold);
    });
}

#[test]
fn calls_and_ranges_open_at_stop_are_in_the_trace_as_open_and_their_end_is_not_late() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    let ids = Ids {
        correlation: 9,
        thread: 7,
        ..Ids::default()
    };
    let call = runtime.api_enter(LAUNCH, ids, 0);
    runtime.range_push(ids, b"step \"1\"");
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!((end.open_at_stop, end.api_recorded), (2, 0));
    runtime.api_exit(call, LAUNCH, ids, 0, None);
    runtime.range_pop(ids);
    let trace = runtime.trace().unwrap();
    assert_eq!(trace.facts().open.len(), 2);
    assert_eq!(
        trace
            .session_counters(session)
            .map_or(0, |block| block.get(Counter::Late)),
        0
    );
    assert!(trace.lanes().iter().all(|lane| lane.inside.is_empty()));
}

#[test]
fn ranges_nest_and_pops_without_a_push_are_ignored() {
    // case B40
    let runtime = runtime();
    runtime.range_pop(Ids::default());
    runtime.range_push(Ids::default(), b"before any session");
    let session = runtime.session_open().unwrap();
    runtime.range_push(Ids::default(), b"a");
    runtime.range_push(Ids::default(), b"b");
    runtime.mark(Kind::Mark, Ids::default(), 0, b"m");
    runtime.range_pop(Ids::default());
    runtime.range_pop(Ids::default());
    runtime.range_pop(Ids::default());
    runtime.session_stop(session, LONG, None).unwrap();
    let trace = runtime.trace().unwrap();
    let ranges: Vec<_> = trace
        .entries()
        .filter(|entry| matches!(entry.record.kind(), Some(Kind::Range | Kind::Mark)))
        .map(|entry| {
            (
                trace.facts().text(entry.record.name_id()),
                entry.record.depth(),
            )
        })
        .collect();
    assert_eq!(ranges, [("m".into(), 0), ("b".into(), 2), ("a".into(), 1)]);
}

#[test]
fn a_forked_child_is_inert_and_writes_nothing() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    let token = issue(runtime, 1);
    let before = runtime.region().read_map().bytes()[..1 << 20].to_vec();
    // SAFETY: the child only runs the few lines below, all of them safe after fork, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut code = 0;
        code |= i32::from(!issue(runtime, 2).is_none());
        done(runtime, token, 1);
        code |= i32::from(runtime.session_open() != Err(Status::NotReady)) << 1;
        code |= i32::from(runtime.session_stop(session, LONG, None) != Err(Status::NotReady)) << 2;
        runtime.finalize();
        runtime.set_phase(Phase::Exit);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just forked.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(
        libc::WEXITSTATUS(status),
        0,
        "bits: issue, open, stop were not refused"
    );
    assert!(
        runtime.region().read_map().bytes()[..1 << 20] == before[..],
        "the child wrote to the parent's region"
    );
    done(runtime, token, 1);
    assert_eq!(
        runtime.session_stop(session, LONG, None).unwrap().verdict,
        Verdict::Complete
    );
}

#[test]
fn the_finalizer_closes_the_books_by_pairs_and_later_records_are_late() {
    let runtime = runtime();
    runtime.session_open().unwrap();
    let tokens: Vec<_> = (1..=3).map(|id| issue(runtime, id)).collect();
    done(runtime, tokens[0], 1);
    done(runtime, tokens[1], 2);
    runtime.finalize();
    // Retirements during finalization are the SDK's own doing and prove nothing.
    runtime.retire(3);
    done(runtime, tokens[2], 3);
    runtime.finalize();
    let report = only_report(runtime);
    assert_eq!(
        (report.verdict, report.proof),
        (Verdict::Incomplete, Proof::FinalizeDrain)
    );
    assert_eq!(
        (
            report.dispatches.recorded,
            report.dispatches.missing(),
            report.late
        ),
        (2, 1, 1)
    );
    assert_eq!(runtime.session_open(), Err(Status::Finalizing));
    assert_eq!(runtime.trace().unwrap().phase(), Some(Phase::Finalize));
}

#[test]
fn a_closed_session_is_accounted_for_by_the_housekeeper() {
    let runtime = runtime();
    runtime.start_housekeeper(None, None).unwrap();
    for _ in 0..30 {
        let session = loop {
            match runtime.session_open() {
                Ok(session) => break session,
                Err(Status::TooManyPending) => std::thread::sleep(LOOK),
                Err(other) => panic!("{other:?}"),
            }
        };
        let token = issue(runtime, session);
        runtime.session_close(session).unwrap();
        done(runtime, token, session);
    }
    let deadline = Instant::now() + LONG;
    while runtime.trace().unwrap().facts().session_ends.len() < 30 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let reports = report::sessions(&runtime.trace().unwrap());
    assert_eq!(reports.len(), 30);
    assert!(
        reports
            .iter()
            .all(|report| report.verdict == Verdict::Complete && !report.unfinished),
        "{reports:?}"
    );
    runtime.finalize();
}

#[test]
fn a_finished_region_holds_no_memory_that_it_does_not_use() {
    use std::os::unix::fs::MetadataExt;
    let runtime = runtime();
    let blocks = || runtime.region().file_metadata().unwrap().blocks() * 512;
    let session = runtime.session_open().unwrap();
    let token = issue(runtime, 1);
    done(runtime, token, 1);
    runtime.session_stop(session, LONG, None).unwrap();
    assert!(blocks() > 16 << 20, "backed ahead: {}", blocks());
    runtime.finalize();
    assert!(blocks() < 4 << 20, "given back: {}", blocks());
    let trace = runtime.trace().unwrap();
    assert_eq!((trace.damage().len(), trace.entries().count()), (0, 2));
}

#[test]
fn threads_have_the_kernels_name_unless_the_program_gave_one() {
    let runtime = runtime();
    runtime.session_open().unwrap();
    let named = |name: &str, own: Option<&'static [u8]>| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let run = thread.spawn(move || {
            let thread = crate::identity::thread_id();
            let token = issue(runtime, thread.into());
            done(runtime, token, thread.into());
            if let Some(own) = own {
                runtime.thread_name(thread, own);
            }
            runtime.name_threads();
            thread
        });
        run.unwrap().join().unwrap()
    };
    let (plain, own) = (named("worker-7", None), named("worker-8", Some(b"loader")));
    runtime.finalize();
    let names = runtime.trace().unwrap().facts().thread_names.clone();
    assert_eq!(names[&plain], "worker-7");
    assert_eq!(names[&own], "loader");
}

#[test]
fn the_trace_says_what_it_cost() {
    let runtime = runtime();
    let session = runtime.session_open().unwrap();
    for correlation in 1..=50_000 {
        let ids = Ids {
            correlation,
            thread: 7,
            ..Ids::default()
        };
        let call = runtime.api_enter(LAUNCH, ids, 0);
        runtime.api_exit(call, LAUNCH, ids, 0, None);
    }
    let end = runtime.session_stop(session, LONG, None).unwrap();
    assert_eq!(
        end.api_recorded, 50_000,
        "sampled calls are recorded like others"
    );
    let cost = runtime.trace().unwrap().cost();
    assert_eq!(cost.records, 50_000);
    assert!(cost.bytes >= 50_000 * 64);
    // About one in 1,024: that it is neither none nor all is what matters.
    assert!((1..5_000).contains(&cost.sampled_appends), "{cost:?}");
    assert!(cost.append_ns > 0);
}
