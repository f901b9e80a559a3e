//! Goal: docs/format.md says what the crate writes. Method: the tables of the page are parsed and compared with the
//! crate's constants and with bytes that it wrote; and a reader that was written from the page alone (Python, standard
//! library) reads the same regions as `Trace`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strandline::builder::Builder;
use strandline::counters::Counter;
use strandline::events::{
    AgentFact, CopyEvent, DispatchDone, DispatchIssue, Ids, KernelFact, Operation,
};
use strandline::record::{Kind, Record, domain, flag, head_word, pair};
use strandline::segment_entry::{SegmentKind, SegmentState, StateWord};
use strandline::settings::Settings;
use strandline::{Proof, Runtime, SessionEnd, Trace, Vendor, Verdict, Work};
use strandline::{hash, header, limits, loss};

const PAGE: &str = include_str!("../../docs/format.md");

/// Rows of the `number`th table under a heading, without its head.
fn table(heading: &str, number: usize) -> Vec<Vec<String>> {
    let after = PAGE
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading:?}"))
        .1;
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let mut inside = false;
    for line in after.lines().take_while(|line| !line.starts_with('#')) {
        if line.starts_with('|') {
            if !inside {
                tables.push(Vec::new());
            }
            let cells = line
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned());
            tables.last_mut().unwrap().push(cells.collect());
        }
        inside = line.starts_with('|');
    }
    tables[number].split_off(2)
}

fn range(text: &str) -> std::ops::Range<usize> {
    match text.split_once("..") {
        Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
        None => text.parse().unwrap()..text.parse::<usize>().unwrap() + 1,
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn sizes_are_the_crate_s() {
    let known: BTreeMap<&str, usize> = [
        ("CELL_BYTES", limits::CELL_BYTES),
        ("CELL_WORDS", limits::CELL_WORDS),
        ("RECORD_CELLS_MAX", limits::RECORD_CELLS_MAX),
        ("SEGMENT_BYTES_MIN", limits::SEGMENT_BYTES_MIN),
        ("SEGMENT_BYTES_MAX", limits::SEGMENT_BYTES_MAX),
        ("SEGMENT_ENTRY_BYTES", limits::SEGMENT_ENTRY_BYTES),
        ("SEGMENT_COUNT_MAX", limits::SEGMENT_COUNT_MAX),
        ("LANE_BYTES", limits::LANE_BYTES),
        ("LANE_COUNT_MAX", limits::LANE_COUNT_MAX),
        ("HEADER_BYTES", limits::HEADER_BYTES),
        ("SESSION_SLOTS", limits::SESSION_SLOTS),
        ("SESSION_SLOT_WORDS", limits::SESSION_SLOT_WORDS),
        ("INSIDE_DEPTH", limits::INSIDE_DEPTH),
        ("INSIDE_WORDS", limits::INSIDE_WORDS),
        ("RANGE_DEPTH", limits::RANGE_DEPTH),
        ("STRING_BYTES_MAX", limits::STRING_BYTES_MAX),
        ("LANE_REUSED_OFFSET", limits::LANE_REUSED_OFFSET),
        ("LANE_COUNTERS_OFFSET", limits::LANE_COUNTERS_OFFSET),
        ("LANE_INSIDE_OFFSET", limits::LANE_INSIDE_OFFSET),
        ("LANE_RANGES_OFFSET", limits::LANE_RANGES_OFFSET),
        ("LANELESS_OFFSET", header::LANELESS_OFFSET),
        ("LANELESS_WORDS", header::LANELESS_WORDS),
    ]
    .into();
    let page: BTreeMap<String, usize> = table("## Sizes", 0)
        .into_iter()
        .map(|row| (row[0].clone(), row[1].parse().unwrap()))
        .collect();
    for (name, value) in &page {
        assert_eq!(known.get(name.as_str()), Some(value), "{name}");
    }
    assert_eq!(page.len(), known.len());
    let example = PAGE.split("hash(\"strandline\") = 0x").nth(1).unwrap();
    assert_eq!(
        &example[..16],
        format!("{:016x}", hash::bytes(b"strandline"))
    );
}

#[test]
fn the_header_lies_where_the_page_says() {
    let mut region = Builder::new();
    let header = region.header_mut();
    (header.pid, header.parent_pid, header.rank, header.uid) = (96, 100, -104, 108);
    (
        header.process_start_ns,
        header.host_hash,
        header.pid_namespace,
    ) = (112, 120, 128);
    (header.created_unix_ns, header.ticks_per_second) = (152, 168);
    (
        header.clock,
        header.vendor,
        header.runtime_version,
        header.sdk_version,
    ) = (1, 2, 176, 180);
    (header.features_may_ignore, header.mode) = (16, header::Mode::Flight);
    header.segment_bytes = 128 << 10;
    header.boot_id = *b"0123456789abcdef";
    (header.program, header.host, header.sdk) = ("program".into(), "host".into(), "sdk".into());
    region.session_begin(3, 1).counter(2, 3, Counter::Late, 9);
    let bytes = region.bytes();
    let read = region.trace();
    let header = read.header();
    let mut expected: BTreeMap<&str, u64> = [
        ("version", u64::from(header::VERSION)),
        ("header_bytes", limits::HEADER_BYTES as u64),
        ("features_may_ignore", 16),
        ("features_must_understand", 0),
        ("region_bytes", bytes.len() as u64),
        ("lane_table_offset", header.lane_table_offset),
        ("lane_count", 3),
        ("lane_bytes", limits::LANE_BYTES as u64),
        ("segment_table_offset", header.segment_table_offset),
        ("segment_count", 1),
        ("segment_entry_bytes", limits::SEGMENT_ENTRY_BYTES as u64),
        ("segments_offset", header.segments_offset),
        ("segment_bytes", 128 << 10),
        ("cell_bytes", limits::CELL_BYTES as u64),
        ("mode", 1),
        ("flags", 1),
        ("pid", 96),
        ("parent_pid", 100),
        ("rank", u64::from(-104i32 as u32)),
        ("uid", 108),
        ("process_start_ns", 112),
        ("host_hash", 120),
        ("pid_namespace", 128),
        ("created_unix_ns", 152),
        ("clock", 1),
        ("vendor", 2),
        ("ticks_per_second", 168),
        ("runtime_version", 176),
        ("sdk_version", 180),
        ("phase", header::Phase::Finalize as u64),
        ("newest_session", 3),
        ("open_session", 0),
        ("heartbeat", 0),
        ("control", 0),
        ("sdk_dropped", 0),
        (
            "checksum",
            hash::bytes(&bytes[..248]) ^ hash::bytes(&bytes[1024..4096]).rotate_left(1),
        ),
    ]
    .into();
    let mut next = 0;
    for row in table("## Header", 0) {
        let (place, name) = (
            range(&row[0]),
            row[2].split([':', ' ']).next().unwrap().to_owned(),
        );
        assert_eq!(place.start, next, "no gap before {name}");
        next = place.end;
        let field = &bytes[place.clone()];
        match row[1].as_str() {
            "u32" | "i32" | "u64" | "word" => {
                let mut wide = [0; 8];
                wide[..field.len()].copy_from_slice(field);
                assert_eq!(
                    Some(u64::from_le_bytes(wide)),
                    expected.remove(&*name),
                    "{name}"
                );
            }
            "text" => assert!(field.starts_with(format!("{name}\0").as_bytes()), "{name}"),
            _ if name == "magic" => assert_eq!(field, b"STRNDLN1"),
            _ if name == "boot_id" => assert_eq!(field, b"0123456789abcdef"),
            _ if name == "laneless" => assert_eq!(
                (place.start, place.len()),
                (header::LANELESS_OFFSET, 9 * header::LANELESS_WORDS * 8)
            ),
            _ => assert!(
                name == "reserved" && field.iter().all(|&byte| byte == 0),
                "{name}"
            ),
        }
    }
    assert_eq!(next, limits::HEADER_BYTES);
    assert!(expected.is_empty(), "not on the page: {expected:?}");
    for (name, offset) in [
        ("phase", header::PHASE_OFFSET),
        ("heartbeat", header::HEARTBEAT_OFFSET),
        ("newest_session", header::NEWEST_SESSION_OFFSET),
        ("open_session", header::OPEN_SESSION_OFFSET),
        ("sdk_dropped", header::SDK_DROPPED_OFFSET),
    ] {
        let row = table("## Header", 0)
            .into_iter()
            .find(|row| row[2].starts_with(name));
        assert_eq!(range(&row.unwrap()[0]).start, offset, "{name}");
    }
    // The counter that was set, found by the page's places.
    let block = header.lane_table_offset as usize + 2 * limits::LANE_BYTES + 128 + 3 * 256;
    assert_eq!(
        (word_at(&bytes, block), word_at(&bytes, block + 8 * 8)),
        (3, 9)
    );
}

#[test]
fn enumerations_are_the_crate_s() {
    use Counter::*;
    let counters = [
        Session,
        DispatchIssued,
        CopyIssued,
        DispatchDone,
        CopyDone,
        DispatchRecorded,
        CopyRecorded,
        ApiRecorded,
        Late,
        HighId,
        LostIssueId,
        LastArrivalTicks,
        OtherRecorded,
        SampledTicks,
        SampledAppends,
        IssueLost,
        Lost,
        FirstLossTicks,
        LastLossTicks,
    ];
    let mut rows = table("### Counters", 0);
    rows.retain(|row| row[1] != "reserved");
    assert_eq!(rows.len(), counters.len());
    for (row, counter) in rows.iter().zip(counters) {
        let name = row[1].split(':').next().unwrap();
        assert_eq!(
            (row[0].parse(), name),
            (Ok(counter as usize), &*format!("{counter:?}"))
        );
    }
    let rows = table("### Losses", 0);
    assert_eq!(rows.len(), loss::Losses::COUNT);
    for (row, reason) in rows.iter().zip(loss::LossReason::ALL) {
        assert_eq!(
            (row[0].parse(), &*row[1]),
            (Ok(reason as usize), reason.name())
        );
    }
    for (row, state) in table("## Segment table", 1).iter().zip(0..) {
        let word = StateWord::unpack(state).unwrap();
        assert_eq!(
            (&*row[0], &*row[1]),
            (&*state.to_string(), &*format!("{:?}", word.state))
        );
    }
    for (row, kind) in table("## Segment table", 2).iter().zip(0..) {
        let word = StateWord::unpack(kind << 8).unwrap();
        assert_eq!(
            (&*row[0], &*row[1]),
            (&*kind.to_string(), &*format!("{:?}", word.kind))
        );
    }
    let mut kinds = table("## Records", 0).into_iter();
    for number in 0..=255u8 {
        let Some(kind) = Kind::from_u8(number) else {
            continue;
        };
        let row = kinds
            .next()
            .unwrap_or_else(|| panic!("{kind:?} is not on the page"));
        let cells = match kind.cells() {
            0 => "varies".to_owned(),
            cells => cells.to_string(),
        };
        assert_eq!(row, [number.to_string(), format!("{kind:?}"), cells]);
    }
    assert_eq!(kinds.next(), None);
    let flags = [
        flag::UNTIMED,
        flag::END_BEFORE_START,
        flag::OUTSIDE_WINDOW,
        flag::UNKNOWN_STREAM,
        flag::NO_LAUNCH,
        flag::OPEN,
        flag::CUT,
        flag::PARTIAL,
    ];
    let rows = table("## Records", 1);
    assert_eq!(rows.len(), flags.len());
    for (row, value) in rows.iter().zip(flags) {
        assert_eq!(row[0], value.to_string(), "{}", row[1]);
    }
}

#[test]
fn a_segment_s_entry_lies_where_the_page_says() {
    let mut region = Builder::new();
    region.record(5, Kind::Mark, 1, &[7]);
    let bytes = region.bytes();
    let trace = region.trace();
    let entry = trace.header().segment_table_offset as usize;
    let cells = &bytes[trace.header().segments_offset as usize..][..64];
    let word = |index: usize| word_at(&bytes, entry + index * 8);
    let state = StateWord {
        state: SegmentState::Sealed,
        kind: SegmentKind::Records,
        lane: 5,
        generation: 0,
    };
    assert_eq!((word(0), word(1)), (state.pack(), 1));
    assert_eq!(word(0), 2 | 5 << 16, "state u8, kind u8, lane u16");
    assert_eq!((word(6), word(7)), (hash::bytes(cells), 1));
    let rows = table("## Segment table", 0);
    for (index, what) in [
        "state",
        "committed",
        "thread",
        "lowest",
        "anchor",
        "anchor",
        "checksum",
        "covered",
    ]
    .iter()
    .enumerate()
    {
        assert!(rows[index][0] == index.to_string() && rows[index][1].starts_with(what));
    }
}

/// The page's tables of words are those at the top of record.rs, which the accessors stand beside.
#[test]
fn the_words_of_records_are_those_in_the_source() {
    let source = include_str!("../src/record.rs");
    let plain = |text: &str| {
        text.replace("[`crate::SessionEnd`]", "the table below")
            .replace("[`", "`")
            .replace("`]", "`")
    };
    let mut rows = source
        .lines()
        .filter_map(|line| line.strip_prefix("//! |"))
        .map(|line| plain(&format!("|{line}")));
    assert!(rows.all(|row| PAGE.lines().any(|line| line == row)));
    // And the accessors: each word holds its own number.
    let numbered = |kind: Kind, cells: usize| {
        let mut words: Vec<u64> = (0..cells as u64 * 8).collect();
        words[0] = head_word(kind, cells, 0, 3);
        words
    };
    let words = numbered(Kind::Dispatch, 2);
    let record = Record::parse(&words).unwrap();
    assert_eq!(
        [
            record.start(),
            record.end(),
            record.correlation_id(),
            record.ancestor_id()
        ],
        [1, 2, 3, 4]
    );
    assert_eq!(
        [
            record.dispatch_id(),
            record.kernel_id(),
            record.external_id()
        ],
        [5, 6, 7]
    );
    assert_eq!(
        (record.agent(), record.queue(), record.stream()),
        (8, 9, 10)
    );
    let words = numbered(Kind::Enqueue, 1);
    let record = Record::parse(&words).unwrap();
    assert_eq!(
        (
            record.dispatch_id(),
            record.kernel_id(),
            record.queue(),
            record.stream()
        ),
        (2, 5, 6, 7)
    );
    let words = numbered(Kind::Copy, 2);
    let record = Record::parse(&words).unwrap();
    assert_eq!(
        (
            record.bytes(),
            record.external_id(),
            record.agent(),
            record.destination_agent()
        ),
        (6, 7, 8, 9)
    );
    let words = numbered(Kind::Mark, 1);
    assert_eq!(Record::parse(&words).unwrap().name_id(), 6);
}

fn numbered_end() -> SessionEnd {
    let work = |at| Work {
        issued: at,
        recorded: at + 1,
        retired_without_record: at + 2,
    };
    SessionEnd {
        session: 1,
        verdict: Verdict::Heuristic,
        proof: Proof::FinalizeDrain,
        dispatches: work(4),
        copies: work(7),
        api_recorded: 10,
        open_at_stop: 11,
        low_watermark: 12,
        high_watermark: 13,
        late: 14,
        requested_ns: 15,
        last_arrival_ns: 16,
        returned_ns: 17,
        begin_ns: 18,
        waited_ns: 19,
        retirement_off: true,
        first_loss_ns: 21,
        last_loss_ns: 22,
        lost: loss::Losses([32, 33, 34, 35, 36, 37]),
    }
}

#[test]
fn the_words_of_a_session_end_are_those_on_the_page() {
    let mut region = Builder::new();
    region.session_end(&numbered_end());
    let bytes = region.bytes();
    let start = region.trace().header().segments_offset as usize;
    let word = |index: usize| word_at(&bytes, start + index * 8);
    let mut checked = 0;
    for row in table("### Words of a SessionEnd", 0) {
        let place = range(&row[0].replace("32..37", "32..38"));
        for at in place {
            let expected = match at {
                2 => Verdict::Heuristic as u64,
                3 => Proof::FinalizeDrain as u64,
                1 | 20 => 1,
                _ => at as u64,
            };
            assert_eq!(word(at), expected, "word {at}");
            checked += 1;
        }
    }
    assert_eq!(checked, 22 + loss::Losses::COUNT);
}

/// What the Python reader prints for a file, or `None` where there is no Python.
fn python(path: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/read_region.py");
    match Command::new("python3")
        .arg("-B")
        .arg(script)
        .arg(path)
        .output()
    {
        Err(error) => {
            println!("skipped: python3 can't be run: {error}");
            None
        }
        Ok(output) => {
            let (out, errors) = (
                output.stdout,
                String::from_utf8_lossy(&output.stderr).into_owned(),
            );
            assert!(output.status.success(), "{errors}");
            Some(String::from_utf8(out).unwrap())
        }
    }
}

/// The same summary from `Trace`, in the same form: one line for each value.
fn summary(trace: &Trace, kinds: &[(Kind, u64)]) -> Vec<String> {
    let mut lines = vec![
        format!("\"version\": {},", trace.header().version),
        format!("\"pid\": {},", trace.header().pid),
        format!("\"program\": \"{}\",", trace.header().program),
        "\"damage\": 0,".to_owned(),
        format!("\"cells\": {},", trace.cells()),
    ];
    lines.extend(
        kinds
            .iter()
            .map(|(kind, count)| format!("\"{kind:?}\": {count}")),
    );
    for report in strandline::report::sessions(trace) {
        lines.push(format!("\"session\": {},", report.id));
        let works = [report.dispatches, report.copies];
        lines.push(format!(
            "\"issued\": {},",
            works.iter().map(|work| work.issued).sum::<u64>()
        ));
        lines.push(format!(
            "\"recorded\": {},",
            works.iter().map(|work| work.recorded).sum::<u64>()
        ));
        lines.push(format!("\"verdict\": \"{}\"", report.verdict.name()));
    }
    let mut kernels: Vec<_> = trace.facts().kernels.keys().copied().collect();
    kernels.sort_unstable();
    for kernel in kernels {
        let name = String::from_utf8_lossy(trace.facts().kernel_name(kernel).unwrap()).into_owned();
        lines.push(format!("\"{kernel}\": \"{name}\""));
    }
    lines
}

fn counts(trace: &Trace) -> Vec<(Kind, u64)> {
    let mut counts = BTreeMap::new();
    for entry in trace.entries() {
        *counts.entry(entry.record.kind().unwrap()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

fn compare(path: &Path) {
    let Some(printed) = python(path) else { return };
    let trace = Trace::open(path).unwrap();
    assert_eq!(trace.damage(), []);
    let printed: Vec<&str> = printed.lines().map(str::trim).collect();
    for line in summary(&trace, &counts(&trace)) {
        assert!(
            printed
                .iter()
                .any(|found| found.trim_end_matches(',') == line.trim_end_matches(',')),
            "{line} is not in {printed:#?}"
        );
    }
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!(
        "strandline-format-{}-{name}.slt",
        std::process::id()
    ))
}

#[test]
fn python_reads_a_built_region_as_trace_does() {
    let mut region = Builder::new();
    region
        .kernel(7, b"_Z4nodePfi.kd")
        .kernel(9, "größe".repeat(400).as_bytes());
    region.session_begin(1, 1_000);
    for id in 0..2_500 {
        region.record(0, Kind::Enqueue, 1, &[1_000, id, 5, 0, 7]);
        region.record(1, Kind::Dispatch, 1, &[1_200, 1_300, 5, 0, id, 7]);
    }
    let issued = Work {
        issued: 2_500,
        recorded: 2_500,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: issued,
        ..SessionEnd::default()
    });
    let path = temporary("built");
    std::fs::write(&path, region.bytes()).unwrap();
    compare(&path);
    // The checksum is really computed by the page's rule: a flipped byte must count as damage.
    let mut bytes = region.bytes();
    let at = region.trace().header().segments_offset as usize + 100;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    if let Some(printed) = python(&path) {
        assert!(printed.contains("\"damage\": 1"), "{printed}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn python_reads_a_live_region_as_trace_does() {
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.out = Some(temporary("live"));
    settings.budget_bytes = 16 << 20;
    settings.lane_count = 16;
    let runtime = Runtime::make_global(settings, &Vendor::default()).unwrap();
    runtime.agent(&AgentFact {
        handle: 77,
        kind: 2,
        name: b"gfx942",
        ..AgentFact::default()
    });
    runtime.kernel(&KernelFact {
        kernel_id: 4,
        name: b"_Z3addv.kd",
        ..KernelFact::default()
    });
    let launch = Operation {
        domain: domain::RUNTIME,
        number: 214,
    };
    runtime.operation(launch, b"hipLaunchKernel");
    let session = runtime.session_open().unwrap();
    let work = |thread: u64| {
        for at in 1..=3_000u64 {
            let ids = Ids {
                correlation: thread << 32 | at,
                ..Ids::default()
            };
            let call = runtime.api_enter(launch, ids, 0);
            let dispatch = DispatchIssue {
                ids,
                dispatch_id: thread << 32 | at,
                kernel_id: 4,
                agent: 77,
                queue: 1,
            };
            let token = runtime.dispatch_issue(&dispatch);
            let copy = runtime.copy_issue(&CopyEvent {
                ids,
                ..CopyEvent::default()
            });
            runtime.api_exit(call, launch, ids, 0, None);
            let done = DispatchDone {
                ids,
                dispatch_id: thread << 32 | at,
                kernel_id: 4,
                agent: 77,
                start_ns: 1,
                end_ns: 2,
                ..DispatchDone::default()
            };
            runtime.dispatch_done(token, &done);
            runtime.copy_done(
                copy,
                &CopyEvent {
                    ids,
                    ..CopyEvent::default()
                },
            );
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || work(thread));
        }
    });
    let ids = Ids {
        correlation: 99,
        ..Ids::default()
    };
    let _open = runtime.api_enter(launch, ids, 0);
    runtime.range_push(ids, b"step");
    let path = runtime.path().to_owned();
    lane_header_is_where_the_page_says(&std::fs::read(&path).unwrap());
    runtime
        .session_stop(session, Duration::from_secs(10), None)
        .unwrap();
    compare(&path);
    assert_eq!(
        counts(&Trace::open(&path).unwrap())
            .iter()
            .find(|(kind, _)| *kind == Kind::Dispatch),
        Some(&(Kind::Dispatch, 12_000))
    );
    std::fs::remove_file(path).unwrap();
}

/// This thread is inside of call 99, and has the range "step" open.
fn lane_header_is_where_the_page_says(bytes: &[u8]) {
    let rows = table("## Lane header", 0);
    let place = |what: &str| {
        let row = rows.iter().find(|row| row[1].starts_with(what));
        range(&row.unwrap_or_else(|| panic!("no {what}"))[0]).start
    };
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread: u64 = thread
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let trace = Trace::from_bytes(bytes, Path::new("live")).unwrap();
    let offset = trace.header().lane_table_offset as usize;
    let lane = (0..trace.header().lane_count as usize)
        .map(|lane| offset + lane * limits::LANE_BYTES)
        .find(|&lane| word_at(bytes, lane) & 0xffff_ffff == thread)
        .expect("this thread's lane");
    assert_eq!(word_at(bytes, lane + place("how many calls")), 1);
    assert_eq!(word_at(bytes, lane + place("how many ranges")), 1);
    let call = lane + place("calls that the thread");
    assert_eq!(
        word_at(bytes, call),
        pair(214 | 1 << 16, 1),
        "op, domain, session"
    );
    assert_eq!(
        (word_at(bytes, call + 16), word_at(bytes, call + 24)),
        (99, 0)
    );
    let range = lane + place("ranges that the thread");
    assert_eq!((word_at(bytes, range), word_at(bytes, range + 16)), (1, 99));
    assert_eq!(word_at(bytes, range + 24), hash::bytes(b"step"));
}
