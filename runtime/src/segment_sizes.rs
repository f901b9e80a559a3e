//! Regions of every size of segments do the same: what is appended over several segments is read back in each mode, what has
//! no room is counted, and a size that is not the file's is refused, never misread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use proptest::prelude::*;

use crate::builder::Builder;
use crate::collector::{self, Collected};
use crate::control::Control;
use crate::events::{DispatchDone, DispatchIssue, Ids};
use crate::header::{Header, Mode};
use crate::limits::{CELL_BYTES, LANE_COUNT_DEFAULT, is_segment_bytes};
use crate::loss::LossReason;
use crate::record::{Kind, Records};
use crate::report;
use crate::runtime::{Runtime, Vendor};
use crate::segment_entry::SegmentKind;
use crate::session_end::Verdict;
use crate::settings::{Collector, Settings};
use crate::status::Status;
use crate::subscribe::{From, Subscriber};
use crate::trace::Trace;

const SIZES: [u64; 4] = [64 << 10, 128 << 10, 256 << 10, 1 << 20];
const LONG: Duration = Duration::from_secs(10);

/// A runtime with so many segments of a size; the folder holds all its files.
fn runtime(
    segment_bytes: u64,
    segments: u64,
    change: impl FnOnce(&mut Settings),
) -> (&'static Runtime, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("strandline-sizes-{}-{number}", std::process::id());
    let folder = PathBuf::from("/dev/shm").join(name);
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.dir = folder.clone();
    settings.out = Some(folder.join("out.slt"));
    settings.segment_bytes = Some(segment_bytes);
    settings.budget_bytes = segments * segment_bytes;
    settings.lane_count = 4;
    change(&mut settings);
    let control = Box::leak(Box::new(Control::new()));
    let runtime = Runtime::make(settings, &Vendor::default(), control).unwrap();
    let header = runtime.region().header();
    assert_eq!(
        (u64::from(header.segment_bytes), header.segment_count),
        (segment_bytes, segments as u32)
    );
    (runtime, folder)
}

fn mark(runtime: &Runtime, id: u64) {
    runtime.mark(Kind::Mark, Ids::default(), id, b"m");
}

/// Records of 1 and 2 cells under one number: a mark, an issue, and a completion. 4 cells.
fn round(runtime: &Runtime, id: u64) {
    mark(runtime, id);
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
    let done = DispatchDone {
        ids,
        dispatch_id: id,
        kernel_id: 1,
        start_ns: 1,
        end_ns: 2,
        ..DispatchDone::default()
    };
    runtime.dispatch_done(token, &done);
}

/// Numbers of the marks, of the issues and of the completions, each in the order of the file; no record straddles segments.
fn numbers(trace: &Trace) -> [Vec<u64>; 3] {
    assert_eq!(trace.damage(), &[]);
    let header = trace.header();
    let segment_bytes = u64::from(header.segment_bytes);
    let mut numbers = [const { Vec::new() }; 3];
    for entry in trace.entries() {
        let record = &entry.record;
        let begins = (entry.offset - header.segments_offset) % segment_bytes;
        assert!(begins + (record.cells() * CELL_BYTES) as u64 <= segment_bytes);
        match record.kind() {
            Some(Kind::Mark) => numbers[0].push(record.word(5)),
            Some(Kind::Enqueue) => numbers[1].push(record.word(2)),
            Some(Kind::Dispatch) => numbers[2].push(record.word(5)),
            _ => {}
        }
    }
    numbers
}

/// That these are `first` to `last`, in order; says where they are not.
fn assert_counted(ids: &[u64], first: u64, last: u64) {
    let wrong = (first..).zip(ids).find(|(at, id)| at != *id);
    assert_eq!(wrong, None, "place and id");
    assert_eq!(ids.len() as u64, last + 1 - first);
}

fn all_there(trace: &Trace, rounds: u64) {
    for ids in numbers(trace) {
        assert_counted(&ids, 1, rounds);
    }
}

#[test]
fn a_window_over_several_segments_is_read_back_and_proved() {
    for segment_bytes in SIZES {
        let (runtime, folder) = runtime(segment_bytes, 16, |_| ());
        let session = runtime.session_open().unwrap();
        // Three segments and a half, so that a record of 2 cells meets a segment's last one now and then.
        let rounds = segment_bytes / CELL_BYTES as u64 * 7 / 8;
        (1..=rounds).for_each(|id| round(runtime, id));
        let end = runtime.session_stop(session, LONG, None).unwrap();
        assert_eq!(
            (end.verdict, end.lost.total()),
            (Verdict::Complete, 0),
            "{end:?}"
        );
        let trace = runtime.trace().unwrap();
        all_there(&trace, rounds);
        let sealed = trace.header().segment_cells() as u64;
        assert!(trace.cells() > 3 * sealed && trace.runs() >= 5);
        assert_eq!(report::sessions(&trace)[0].verdict, Verdict::Complete);
        // The file says the same, and so does a copy.
        all_there(&Trace::open(runtime.path()).unwrap(), rounds);
        let copy = runtime.snapshot(&folder.join("copy.slt")).unwrap();
        all_there(&Trace::open(&copy).unwrap(), rounds);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn what_has_no_room_is_counted_to_the_last_record() {
    for segment_bytes in SIZES {
        let (runtime, folder) = runtime(segment_bytes, 16, |_| ());
        let session = runtime.session_open().unwrap();
        let offered = 20 * segment_bytes / CELL_BYTES as u64;
        (1..=offered).for_each(|id| mark(runtime, id));
        let end = runtime.session_stop(session, LONG, None).unwrap();
        let lost = end.lost.get(LossReason::NoSegment);
        let [marks, ..] = numbers(&runtime.trace().unwrap());
        assert_counted(&marks, 1, offered - lost);
        // All segments but those that facts have and are left.
        let segment_cells = segment_bytes / CELL_BYTES as u64;
        assert!(marks.len() as u64 >= 13 * segment_cells, "{}", marks.len());
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn flight_mode_keeps_the_newest_without_a_gap() {
    for segment_bytes in SIZES {
        let (runtime, folder) = runtime(segment_bytes, 16, |settings| {
            settings.mode = Mode::Flight;
        });
        let session = runtime.session_open().unwrap();
        let segment_cells = segment_bytes / CELL_BYTES as u64;
        let mut slow = Subscriber::new(runtime, From::Oldest);
        let offered = 40 * segment_cells;
        (1..=offered).for_each(|id| mark(runtime, id));
        let trace = runtime.trace().unwrap();
        let [marks, ..] = numbers(&trace);
        assert_counted(&marks, marks[0], offered);
        // A part stays for other lanes and for facts.
        assert!(marks.len() as u64 > 6 * segment_cells);
        assert_eq!(trace.reused_cells() % segment_cells, 0);
        assert_eq!(trace.reused_cells() + marks.len() as u64, offered);
        let mut handed = 0;
        while let Some(item) = slow.next() {
            handed += u64::from(item.record.kind() == Some(Kind::Mark));
        }
        assert_eq!(
            handed + slow.lost().records,
            offered,
            "each record is handed out or counted"
        );
        assert_eq!(slow.lost().cells % segment_cells, 0);
        let end = runtime.session_stop(session, LONG, None).unwrap();
        assert_eq!(end.lost.total(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_stream_to_the_host_and_to_a_file_has_each_record_once() {
    for segment_bytes in SIZES {
        let segment_cells = segment_bytes / CELL_BYTES as u64;
        let (host, host_folder) = runtime(segment_bytes, 16, |settings| {
            (settings.mode, settings.collector) = (Mode::Stream, Collector::Host);
            settings.out = None;
        });
        let session = host.session_open().unwrap();
        let mut seen = Vec::new();
        let mut take = |collected: &Collected<'_>| {
            assert!(collected.words.len() <= segment_cells as usize * 8);
            if collected.kind == SegmentKind::Records {
                let marks = Records::new(collected.words)
                    .map(Result::unwrap)
                    .filter(|record| record.kind() == Some(Kind::Mark));
                seen.extend(marks.map(|record| record.word(5)));
            }
            Ok(())
        };
        let offered = 40 * segment_cells;
        for id in 1..=offered {
            mark(host, id);
            if id.is_multiple_of(3 * segment_cells) {
                host.collect(usize::MAX, &mut take).unwrap();
            }
        }
        let end = host.session_stop(session, LONG, None).unwrap();
        assert_eq!(end.lost.total(), 0);
        host.collect_all(&mut take).unwrap();
        assert_counted(&seen, 1, offered);
        std::fs::remove_dir_all(host_folder).unwrap();

        // To a file; the process dies, as far as the file knows, with the last part in its region only.
        let (streamed, folder) = runtime(segment_bytes, 16, |settings| {
            settings.mode = Mode::Stream;
        });
        let session = streamed.session_open().unwrap();
        let out = folder.join("out.slt");
        for id in 1..=offered {
            mark(streamed, id);
            if id.is_multiple_of(3 * segment_cells) {
                assert!(streamed.flush_output());
                let [marks, ..] = numbers(&Trace::open(&out).unwrap());
                assert_counted(&marks, 1, id);
            }
        }
        let known = Trace::open(&out).unwrap();
        assert_eq!(u64::from(known.header().segment_bytes), segment_bytes);
        let [marks, ..] = numbers(&known);
        assert!((marks.len() as u64) < offered);
        drop(known);
        let region = streamed.region_path().to_owned();
        assert!(collector::finish(&region, &out).unwrap() > 0);
        assert_eq!(collector::finish(&region, &out).unwrap(), 0);
        let [marks, ..] = numbers(&Trace::open(&out).unwrap());
        assert_counted(&marks, 1, offered);
        let end = streamed.session_stop(session, LONG, None).unwrap();
        assert_eq!(end.lost.total(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// `limits` has these figures: at load, and later with the default budget.
#[test]
fn so_many_threads_can_begin_at_once() {
    let at_load = SIZES
        .into_iter()
        .zip([479, 239, 119, 29])
        .map(|row| (row, 64, false));
    let later = SIZES
        .into_iter()
        .zip([479, 239, 239, 59])
        .map(|row| (row, 512, true));
    for ((segment_bytes, threads), budget_mib, backed_ahead) in at_load.chain(later) {
        let segments = (budget_mib << 20) / segment_bytes;
        let (runtime, folder) = runtime(segment_bytes, segments, |settings| {
            settings.lane_count = 2 * LANE_COUNT_DEFAULT;
        });
        if backed_ahead {
            // The housekeeper's first look, in a runtime that has none.
            runtime.back_ahead();
        }
        let session = runtime.session_open().unwrap();
        // Announces the name, and has a segment of records.
        mark(runtime, 1);
        let offered = threads + 10;
        let all_there = Arc::new(Barrier::new(offered));
        let handles: Vec<_> = (1..=offered)
            .map(|_| {
                let all_there = all_there.clone();
                let body = move || {
                    mark(runtime, 2);
                    all_there.wait();
                };
                std::thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn(body)
                    .unwrap()
            })
            .collect();
        handles
            .into_iter()
            .for_each(|handle| handle.join().unwrap());
        let [marks, ..] = numbers(&runtime.trace().unwrap());
        assert_eq!(marks.len(), threads, "segments of {segment_bytes}");
        let end = runtime.session_stop(session, LONG, None).unwrap();
        let lost = end.lost.get(LossReason::NoSegment);
        assert_eq!(marks.len() as u64 + lost, offered as u64 + 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_budget_that_has_too_few_segments_is_refused_by_name() {
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.budget_bytes = 15 << 20;
    settings.segment_bytes = Some(1 << 20);
    settings.out = Some(PathBuf::from("/dev/shm/strandline-sizes-never.slt"));
    let control = Box::leak(Box::new(Control::new()));
    let (status, why) = Runtime::make(settings, &Vendor::default(), control).unwrap_err();
    assert_eq!(status, Status::BadSetting);
    assert!(why.starts_with("STRANDLINE_SEGMENT=\"1048576\""), "{why}");
    assert!(!Path::new("/dev/shm/strandline-sizes-never.slt").exists());
}

#[test]
fn a_size_that_is_not_the_file_s_is_refused_not_misread() {
    for segment_bytes in SIZES {
        let mut region = Builder::new();
        region.header_mut().segment_bytes = segment_bytes as u32;
        region.session_begin(1, 0);
        for id in 0..3 * segment_bytes / CELL_BYTES as u64 {
            region.record(0, Kind::Mark, 1, &[id, 0, 0, 0, id]);
        }
        let sound = region.bytes();
        let read = |bytes: &[u8]| Trace::from_bytes(bytes, Path::new("sizes.slt"));
        let [marks, ..] = numbers(&read(&sound).unwrap());
        assert_counted(&marks, 0, 3 * segment_bytes / CELL_BYTES as u64 - 1);
        for bit in 0..32 {
            let mut bytes = sound.clone();
            bytes[80 + bit / 8] ^= 1 << (bit % 8);
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains("offset 248"), "{error}");
            // Whoever mends the checksum finds that the sizes do not fit each other.
            let mut header = Header::decode(&sound, sound.len() as u64).unwrap();
            header.segment_bytes ^= 1 << bit;
            bytes[..256].copy_from_slice(&header.encode()[..256]);
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains("which cannot be"), "{error}");
        }
        for other in SIZES.into_iter().filter(|&other| other != segment_bytes) {
            assert!(is_segment_bytes(other));
            let mut header = Header::decode(&sound, sound.len() as u64).unwrap();
            header.segment_bytes = other as u32;
            let mut bytes = sound.clone();
            bytes[..256].copy_from_slice(&header.encode()[..256]);
            let error = read(&bytes).unwrap_err().to_string();
            assert!(
                error.contains("offset 32") || error.contains("offset 72"),
                "{error}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Records of any sizes, in segments of any size, come back as they were.
    #[test]
    fn records_of_any_size_come_back(
        size in 0..SIZES.len(),
        cells in proptest::collection::vec((1usize..=16, 0u16..3), 1..4_000),
    ) {
        let mut region = Builder::new();
        region.header_mut().segment_bytes = SIZES[size] as u32;
        let mut expected: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for (id, &(cells, lane)) in cells.iter().enumerate() {
            // A kind that no version knows: it is skipped by its size, and comes out as it is.
            let mut words = vec![id as u64; cells * 8];
            words[0] = 40 | (cells as u64) << 8 | 1 << 32;
            region.raw_record(lane, false, &words);
            expected[usize::from(lane)].push(id as u64);
        }
        let trace = region.trace();
        numbers(&trace);
        let mut found: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for entry in trace.entries() {
            let id = entry.record.word(1);
            prop_assert_eq!(entry.record.cells(), cells[id as usize].0);
            found[usize::from(entry.lane)].push(id);
        }
        prop_assert_eq!(found, expected);
    }
}
