//! Goal: a region of each format version that was ever released opens for ever and says the same, whatever is added later;
//! what a newer writer may add is passed over; what must be understood is refused with a sentence. Method: regions as
//! they were written then, kept as text (`data/region-VERSION.txt`: the lines of 64 bytes that are not zero) beside
//! what they say (`data/region-VERSION.expected.txt`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strandline::builder::Builder;
use strandline::events::{
    AgentFact, CodeObjectFact, CopyEvent, DispatchDone, DispatchIssue, Ids, KernelFact,
    MemoryEvent, Operation,
};
use strandline::header::{Header, HeaderError, VERSION};
use strandline::limits::{CELL_WORDS, HEADER_BYTES, SEGMENT_ENTRY_BYTES};
use strandline::record::{Kind, StreamKind, domain, label};
use strandline::settings::Settings;
use strandline::trace::TraceError;
use strandline::{Runtime, Trace, Vendor, embed};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A region as text: its size, then offset and bytes of each line that is not zero.
fn to_text(bytes: &[u8]) -> String {
    let mut text = format!("{}\n", bytes.len());
    for (at, line) in bytes.chunks(64).enumerate() {
        if line.iter().any(|&byte| byte != 0) {
            let end = line
                .iter()
                .rposition(|&byte| byte != 0)
                .map_or(0, |at| at + 1);
            write!(text, "{:x} ", at * 64).unwrap();
            for byte in &line[..end] {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
    }
    text
}

fn from_text(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let mut bytes = vec![0; lines.next().unwrap().parse().unwrap()];
    for line in lines {
        let (at, hex) = line.split_once(' ').unwrap();
        let at = usize::from_str_radix(at, 16).unwrap();
        for (index, pair) in hex.as_bytes().chunks(2).enumerate() {
            let pair = std::str::from_utf8(pair).unwrap();
            bytes[at + index] = u8::from_str_radix(pair, 16).unwrap();
        }
    }
    bytes
}

/// All that a trace says, one thing a line.
fn listing(trace: &Trace) -> String {
    let mut out = String::new();
    let header = trace.header();
    writeln!(
        out,
        "version {} pid {} rank {} mode {} program {} host {} sdk {}",
        header.version,
        header.pid,
        header.rank,
        header.mode.name(),
        header.program,
        header.host,
        header.sdk
    )
    .unwrap();
    for damage in trace.damage() {
        writeln!(out, "damage {damage}").unwrap();
    }
    let facts = trace.facts();
    for agent in &facts.agents {
        writeln!(
            out,
            "agent {} {} {}",
            agent.handle, agent.name, agent.product
        )
        .unwrap();
    }
    for stream in &facts.streams {
        writeln!(
            out,
            "stream {} {:#x} {}",
            stream.id, stream.handle, stream.generation
        )
        .unwrap();
    }
    let mut kernels: Vec<_> = facts.kernels.keys().collect();
    kernels.sort_unstable();
    for &kernel in kernels {
        let name = String::from_utf8_lossy(facts.kernel_name(kernel).unwrap_or(b"?"));
        writeln!(out, "kernel {kernel} {name}").unwrap();
    }
    let mut objects: Vec<_> = facts.code_objects.values().collect();
    objects.sort_unstable_by_key(|object| object.id);
    for object in objects {
        let uri = facts.text(object.uri);
        writeln!(out, "object {} {uri} {}", object.id, object.unloaded).unwrap();
    }
    let mut operations: Vec<_> = facts.operations.iter().collect();
    operations.sort_unstable();
    for ((domain, number), name) in operations {
        writeln!(out, "operation {domain} {number} {}", facts.text(*name)).unwrap();
    }
    for (key, value) in &facts.metadata {
        writeln!(out, "metadata {key} {value}").unwrap();
    }
    for label in &facts.labels {
        let name = facts.text(label.name);
        writeln!(out, "label {} {} {name}", label.what, label.handle).unwrap();
    }
    let mut threads: Vec<_> = facts.thread_names.values().collect();
    threads.sort_unstable();
    writeln!(out, "threads {threads:?}").unwrap();
    writeln!(out, "anchors {}", facts.clock_anchors.len()).unwrap();
    for report in strandline::report::sessions(trace) {
        writeln!(
            out,
            "session {} {} dispatches {} {} copies {} {} api {} open {} low {} high {} late {} lost {:?} unfinished {}",
            report.id,
            report.verdict.name(),
            report.dispatches.issued,
            report.dispatches.recorded,
            report.copies.issued,
            report.copies.recorded,
            report.api_recorded,
            report.open_at_stop,
            report.low_watermark,
            report.high_watermark,
            report.late,
            report.lost.0,
            report.unfinished
        )
        .unwrap();
    }
    for words in &facts.open {
        writeln!(out, "open {words:x?}").unwrap();
    }
    for lane in trace.lanes() {
        writeln!(out, "lane {} inside of {:?}", lane.lane, lane.inside).unwrap();
    }
    for entry in trace.entries() {
        let record = entry.record;
        write!(out, "lane {} {:?}", entry.lane, record.kind()).unwrap();
        for word in record.words() {
            write!(out, " {word:x}").unwrap();
        }
        let start = trace.clock().vendor_ns(record.start());
        writeln!(out, " at {start}").unwrap();
    }
    out
}

#[test]
fn every_version_s_region_says_what_it_said() {
    for version in 1..=VERSION {
        let text = fs::read_to_string(data(&format!("region-{version}.txt"))).unwrap();
        let expected = fs::read_to_string(data(&format!("region-{version}.expected.txt"))).unwrap();
        let bytes = from_text(&text);
        assert_eq!(to_text(&bytes), text);
        let trace = Trace::from_bytes(&bytes, Path::new("old.slt")).unwrap();
        let found = listing(&trace);
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "version {version}");
        }
        assert_eq!(found.len(), expected.len());
        // All that the version knows is in it.
        for part in [
            "Dispatch", "Copy", "Alloc", "Scratch", "Range", "External", "complete",
        ] {
            assert!(found.contains(part), "{part}");
        }
    }
}

/// Every byte of an old region changed: nothing panics, and a record is as it was, or its segment has no checksum.
#[test]
fn an_old_region_may_be_damaged_anywhere() {
    let text = fs::read_to_string(data("region-1.txt")).unwrap();
    let mut bytes = from_text(&text);
    let whole = listing(&Trace::from_bytes(&bytes, Path::new("old.slt")).unwrap());
    let path = std::env::temp_dir().join(format!("strandline-old-{}.slt", std::process::id()));
    fs::write(&path, &bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let put = |bytes: &[u8], at: usize| {
        use std::os::unix::fs::FileExt;
        file.write_at(&bytes[at..=at], at as u64).unwrap();
    };
    let mut refused = 0;
    for line in text.lines().skip(1) {
        let start = usize::from_str_radix(line.split_once(' ').unwrap().0, 16).unwrap();
        for at in (start..start + 64).step_by(if start < HEADER_BYTES { 1 } else { 5 }) {
            bytes[at] ^= 1 << (at % 8);
            put(&bytes, at);
            match Trace::open(&path) {
                Ok(trace) => _ = std::hint::black_box(listing(&trace)),
                Err(_) => refused += 1,
            }
            bytes[at] ^= 1 << (at % 8);
            put(&bytes, at);
        }
    }
    // The fixed part of the header, and nothing else, makes a region unreadable.
    assert!(refused > 0);
    assert_eq!(listing(&Trace::open(&path).unwrap()), whole);
    fs::remove_file(path).unwrap();
}

fn with_header(bytes: &[u8], change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = Header::decode(bytes, bytes.len() as u64).unwrap();
    change(&mut header);
    let mut changed = bytes.to_vec();
    let fixed = header.encode();
    changed[..256].copy_from_slice(&fixed[..256]);
    changed[1024..HEADER_BYTES].copy_from_slice(&fixed[1024..]);
    changed
}

fn refusal(bytes: &[u8]) -> HeaderError {
    match Trace::from_bytes(bytes, Path::new("new.slt")) {
        Err(TraceError::Header { error, .. }) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn what_may_be_ignored_is_and_what_must_be_understood_is_refused() {
    let bytes = from_text(&fs::read_to_string(data("region-1.txt")).unwrap());
    let whole = listing(&Trace::from_bytes(&bytes, Path::new("old.slt")).unwrap());
    let ignored = with_header(&bytes, |header| header.features_may_ignore = u64::MAX);
    let trace = Trace::from_bytes(&ignored, Path::new("new.slt")).unwrap();
    assert_eq!(trace.header().features_may_ignore, u64::MAX);
    assert_eq!(listing(&trace), whole);
    for bit in 0..64 {
        let needed = with_header(&bytes, |header| header.features_must_understand = 1 << bit);
        let error = refusal(&needed);
        assert_eq!(error, HeaderError::Features { bits: 1 << bit });
    }
    assert_eq!(
        HeaderError::Features { bits: 4 }.to_string(),
        "offset 24: needs features 0x4 that this program does not know; read it with a newer strandline"
    );
    for version in [VERSION + 1, u32::MAX] {
        let newer = with_header(&bytes, |header| header.version = version);
        let error = refusal(&newer);
        assert_eq!(error, HeaderError::Newer { version });
        assert!(
            error
                .to_string()
                .ends_with("read it with a newer strandline")
        );
    }
    // There never was a version 0.
    let none = with_header(&bytes, |header| header.version = 0);
    assert!(matches!(
        refusal(&none),
        HeaderError::Field {
            name: "version",
            ..
        }
    ));
}

/// What docs/format.md lets a newer writer of the same version add.
#[test]
fn what_may_be_added_without_a_new_version_is_passed_over() {
    let mut region = Builder::new();
    region.session_begin(1, 1_000);
    region.record(0, Kind::Mark, 1, &[1_001, 0, 7, 0, 0, 0, 0]);
    region.kernel(3, b"a kernel");
    let plain = region.bytes();
    let trace = Trace::from_bytes(&plain, Path::new("plain.slt")).unwrap();
    let (header, whole) = (trace.header().clone(), listing(&trace));
    let mut added = plain.clone();
    let put = |bytes: &mut [u8], at: u64, words: std::ops::Range<u64>| {
        for word in words {
            let at = (at + word * 8) as usize;
            bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        }
    };
    // Reserved words: of the header's changing part, of each lane, of each segment's entry.
    put(&mut added, 0, 38..64);
    put(&mut added, header.lane_table_offset, 2..16);
    put(&mut added, header.lane_table_offset, 504..512);
    for segment in 0..u64::from(header.segment_count) {
        let entry = header.segment_table_offset + segment * SEGMENT_ENTRY_BYTES as u64;
        put(&mut added, entry, 8..16);
    }
    let trace = Trace::from_bytes(&added, Path::new("added.slt")).unwrap();
    assert_eq!(listing(&trace), whole);
    // Kinds that this version does not know, in both places, of any size; and a flag.
    for (kind, cells) in [(40u64, 1u64), (40, 16), (63, 3), (120, 2), (255, 16)] {
        let mut more = Builder::new();
        more.session_begin(1, 1_000);
        more.flagged_record(0, Kind::Mark, 1, 1 << 15, &[1_001, 0, 7, 0, 0, 0, 0]);
        let mut words = vec![kind | cells << 8 | 1 << 32];
        words.resize(cells as usize * 8, u64::MAX);
        more.raw_record(0, kind >= 64, &words);
        more.record(0, Kind::Mark, 1, &[1_002, 0, 8, 0, 0, 0, 0]);
        more.kernel(3, b"a kernel");
        let trace = more.trace();
        assert_eq!(trace.damage(), [], "kind {kind}");
        let marks = trace
            .entries()
            .filter(|entry| entry.record.kind() == Some(Kind::Mark));
        assert_eq!(marks.count(), 2, "kind {kind}");
        assert_eq!(trace.facts().kernel_name(3), Some(&b"a kernel"[..]));
    }
}

/// Writes this version's region, once: what is there already is never written again.
/// `cargo test -p strandline --test old_regions -- --ignored`
#[test]
#[ignore = "writes the data of a new format version"]
fn write_this_version_s_region() {
    let names = ["", ".expected"].map(|part| data(&format!("region-{VERSION}{part}.txt")));
    if names.iter().any(|name| name.exists()) {
        return;
    }
    let path = Path::new("/dev/shm").join(format!("strandline-new-{}.slt", std::process::id()));
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.out = Some(path.clone());
    settings.budget_bytes = 1 << 20;
    settings.lane_count = 3;
    let runtime = Runtime::make_global(settings, &Vendor::default()).unwrap();
    everything(runtime);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    // Nothing of the machine that it was made on.
    let bytes = with_header(&bytes, |header| {
        (header.pid, header.parent_pid, header.uid) = (4_242, 1, 0);
        (header.host_hash, header.pid_namespace) = (0x5eed, 1);
        header.boot_id = *b"synthetic-boot-1";
        header.created_unix_ns = 1_700_000_000_000_000_000;
        header.program = "/opt/model/train".to_owned();
        header.host = "node1".to_owned();
        header.sdk = "none".to_owned();
    });
    let bytes = seal_one(bytes);
    let trace = Trace::from_bytes(&bytes, Path::new("new.slt")).unwrap();
    fs::create_dir_all(data("")).unwrap();
    fs::write(&names[0], to_text(&bytes)).unwrap();
    fs::write(&names[1], listing(&trace)).unwrap();
}

/// Seals the first open segment of records and gives it its checksum, as a lane and the housekeeper do with a full one:
/// 64 KiB of records would only make the file long.
fn seal_one(mut bytes: Vec<u8>) -> Vec<u8> {
    let header = Header::decode(&bytes, bytes.len() as u64).unwrap();
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    };
    for segment in 0..header.segment_count as usize {
        let entry = header.segment_table_offset as usize + segment * SEGMENT_ENTRY_BYTES;
        // Open, of records.
        if word(&bytes, entry) & 0xffff != 1 {
            continue;
        }
        let cells = word(&bytes, entry + 8);
        let start = header.segment_offset(segment as u32) as usize;
        let words = (0..cells as usize * CELL_WORDS).map(|at| word(&bytes, start + at * 8));
        let sum = strandline::hash::words(words);
        bytes[entry] = 2;
        bytes[entry + 48..entry + 56].copy_from_slice(&sum.to_le_bytes());
        bytes[entry + 56..entry + 64].copy_from_slice(&cells.to_le_bytes());
        return bytes;
    }
    panic!("no open segment");
}

/// A session with every kind of record, and one that is still open.
fn everything(runtime: &'static Runtime) {
    const LAUNCH: Operation = Operation {
        domain: domain::RUNTIME,
        number: 214,
    };
    runtime.agent(&AgentFact {
        handle: 77,
        kind: 2,
        name: b"gfx942",
        product: b"a GPU",
        ..AgentFact::default()
    });
    runtime.operation(LAUNCH, b"hipLaunchKernel");
    runtime.code_object(&CodeObjectFact {
        id: 5,
        agent: 77,
        uri: b"file:///a.so",
        ..CodeObjectFact::default()
    });
    let long = "a long name of a template ".repeat(60);
    for (kernel_id, name) in [(1, b"_Z4nodePf.kd".as_slice()), (2, long.as_bytes())] {
        runtime.kernel(&KernelFact {
            kernel_id,
            code_object_id: 5,
            name,
            ..KernelFact::default()
        });
    }
    runtime.metadata(b"model", b"small");
    runtime.label(label::STREAM, 0x7f00, b"main stream");
    runtime.thread_name(1_001, b"worker");
    let session = runtime.session_open().unwrap();
    let round = |at: u64| {
        let ids = Ids {
            correlation: at,
            ancestor: at / 2,
            external: 900 + at,
            thread: 1_001,
        };
        let stream = runtime.stream(0x7f00 + at % 2, StreamKind::Seen, 0);
        let call = runtime.api_enter(LAUNCH, ids, stream);
        embed::push(1, 500 + at).unwrap();
        runtime.external_ids(at);
        let issue = DispatchIssue {
            ids,
            dispatch_id: at,
            kernel_id: 1 + at % 2,
            agent: 77,
            queue: 3,
        };
        let dispatch = runtime.dispatch_issue(&issue);
        let copy = CopyEvent {
            ids,
            operation: 2,
            bytes: 4_096 * at,
            start_ns: 2_000 * at,
            end_ns: 2_000 * at + 500,
            ..CopyEvent::default()
        };
        let copied = runtime.copy_issue(&copy);
        let arguments = at.is_multiple_of(2).then_some([1, 2, 3, 4, 5, 6, 7, at]);
        runtime.api_exit(call, LAUNCH, ids, at as i32, arguments.as_ref());
        embed::pop(1).unwrap();
        runtime.dispatch_done(
            dispatch,
            &DispatchDone {
                ids,
                dispatch_id: at,
                kernel_id: 1 + at % 2,
                agent: 77,
                queue: 3,
                start_ns: 1_000 * at,
                end_ns: 1_000 * at + 700,
                block: [64, 1, 1],
                grid: [1_024, 2, 1],
                ..DispatchDone::default()
            },
        );
        runtime.copy_done(copied, &copy);
        let memory = MemoryEvent {
            ids,
            bytes: 1 << 20,
            agent: 77,
            start_ns: 3_000 * at,
            end_ns: 3_000 * at + 9,
            ..MemoryEvent::default()
        };
        let token = runtime.token(1);
        runtime.alloc_done(token, &memory);
        runtime.scratch_done(token, &memory);
        runtime.range_push(ids, b"step");
        runtime.range_pop(ids);
        for kind in [Kind::Mark, Kind::RangeStart, Kind::RangeStop] {
            runtime.mark(kind, ids, at, b"a mark");
        }
    };
    for at in 1..=4 {
        round(at);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| round(5));
    });
    // A call and a range that are open at the stop.
    let ids = Ids {
        correlation: 6,
        ..Ids::default()
    };
    let call = runtime.api_enter(LAUNCH, ids, 0);
    runtime.range_push(ids, b"open");
    runtime
        .session_stop(session, Duration::from_secs(10), None)
        .unwrap();
    runtime.range_pop(ids);
    runtime.api_exit(call, LAUNCH, ids, 0, None);
    runtime.stream_destroyed(0x7f00);
    runtime.code_object_unloaded(5);
    // The process dies within the second session.
    runtime.session_open().unwrap();
    round(7);
    runtime.dispatch_issue(&DispatchIssue {
        ids: Ids {
            correlation: 8,
            ..Ids::default()
        },
        dispatch_id: 8,
        ..DispatchIssue::default()
    });
}
