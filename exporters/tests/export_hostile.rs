//! Regions whose records say anything at all: every export ends with a file that its readers take, or with an error, and
//! never with a panic.

mod export_support;

use export_support::*;
use strandline::Trace;
use strandline::builder::Builder;
use strandline::record::{Kind, pair};
use strandline_exporters::{ExportError, ExportReport, Options, export};

struct Random {
    state: u64,
    /// No number beyond what a time of these regions could be.
    tame: bool,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.state ^ self.state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }

    /// Small, huge, zero, all ones, or a time that could be.
    fn word(&mut self) -> u64 {
        match self.next() % 8 {
            0 => 0,
            1..=4 if self.tame => self.next() % 8,
            1 => u64::MAX,
            2 => self.next(),
            3 => self.next() % 8,
            4 => 1 << (self.next() % 64),
            _ => 1_000 + self.next() % 10_000,
        }
    }
}

const KINDS: [Kind; 14] = [
    Kind::Api,
    Kind::Enqueue,
    Kind::Dispatch,
    Kind::CopyIssue,
    Kind::Copy,
    Kind::Alloc,
    Kind::Scratch,
    Kind::Range,
    Kind::Mark,
    Kind::RangeStart,
    Kind::RangeStop,
    Kind::Thread,
    Kind::OpenCall,
    Kind::OpenRange,
];

fn random_region(seed: u64) -> Builder {
    random_records(seed, 200, u64::MAX)
}

/// A region of so many records of at most so many threads.
fn random_records(seed: u64, records: usize, threads: u64) -> Builder {
    let mut random = Random {
        state: seed,
        tame: seed.is_multiple_of(2),
    };
    let mut region = region();
    region.record(0, Kind::Agent, 0, &[0xc0, pair(1, 0)]);
    for _ in 0..records {
        let kind = KINDS[random.next() as usize % KINDS.len()];
        let count = if kind.cells() == 1 { 7 } else { 15 };
        let mut words: Vec<u64> = (0..count).map(|_| random.word()).collect();
        words[6] = pair(words[6] as u32, ((words[6] >> 32) % threads) as u32);
        let flags = if random.next().is_multiple_of(4) {
            random.next() as u16
        } else {
            0
        };
        let session = (random.next() % 3) as u32;
        region.flagged_record((random.next() % 3) as u16, kind, session, flags, &words);
    }
    let facts = [
        Kind::Stream,
        Kind::Queue,
        Kind::KernelSymbol,
        Kind::Retired,
        Kind::Label,
    ];
    let clocks: &[Kind] = if random.tame {
        &[]
    } else {
        &[Kind::Anchor, Kind::SessionBegin]
    };
    for &kind in facts.iter().chain(clocks) {
        for _ in 0..random.next() % 3 {
            let words: Vec<u64> = (0..7).map(|_| random.word()).collect();
            region.record(0, kind, 0, &words);
        }
    }
    if random.next().is_multiple_of(2) {
        close(&mut region, random.next() % 100, random.next() % 100, 9_000);
    }
    region
}

#[test]
fn records_that_say_anything_at_all() {
    let folder = Folder::new();
    let mut checked = 0;
    for seed in 0..120 {
        let trace = random_region(seed).trace();
        let mut first = None;
        let whole = Options::default().table_bytes_max;
        for (batch_records_max, threads, table_bytes_max) in [
            (7, 1, whole),
            (7, 3, whole),
            (1 << 20, 1, whole),
            (7, 1, 0),
            (40, 3, 0),
            (1 << 20, 1, 0),
        ] {
            let options = Options {
                force: true,
                batch_records_max,
                threads,
                table_bytes_max,
                ..Options::default()
            };
            let path = folder.file("out.json");
            export(std::slice::from_ref(&trace), &path, &options).unwrap();
            let text = std::fs::read(&path).unwrap();
            let value: serde_json::Value = serde_json::from_slice(&text)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            // Beyond a quarter year a double has no nanoseconds left, and the checks would judge their own rounding.
            let exact = |key: &str| {
                events(&value)
                    .iter()
                    .all(|event| event[key].as_f64().is_none_or(|time| time < 8e12))
            };
            if exact("ts") && exact("dur") {
                checked += 1;
                check_rules(&value);
                arrows(&value);
            }
            let path = folder.file("out.pftrace");
            export(std::slice::from_ref(&trace), &path, &options).unwrap();
            let both = (text, std::fs::read(&path).unwrap());
            assert!(
                *first.get_or_insert_with(|| both.clone()) == both,
                "seed {seed}: other bytes in batches of {batch_records_max} on {threads} threads"
            );
        }
    }
    assert!(checked > 50);
    println!("{checked} of 360 checked to the nanosecond");
}

/// How many packets of each kind of event there are. Notes of quality do not count: they may stand in several parts.
fn events_of(bytes: &[u8]) -> [usize; 3] {
    let packets: Vec<Message> = (Message::read(bytes).0.iter())
        .map(|(_, packet)| packet.message())
        .collect();
    let tracks = packets.iter().filter_map(|packet| packet.message(60));
    let quality: Vec<u64> = tracks
        .filter(|track| {
            let name = track.text(2);
            name.is_some_and(|name| name.starts_with("Recording quality"))
        })
        .map(|track| track.number(1).unwrap())
        .collect();
    let mut counts = [0; 3];
    for packet in packets {
        let track = packet.message(11).and_then(|event| event.number(11));
        if track.is_some_and(|track| quality.contains(&track)) {
            continue;
        }
        for (at, number) in [11, 53, 71].into_iter().enumerate() {
            counts[at] += packet.all(number).count();
        }
    }
    counts
}

/// Exports random regions as one file and in parts of these tenths of it, where that is allowed; `check` gets the bytes of the one
/// file and of each part. How many exports had parts, and how many arrows those left out.
fn in_parts(
    name: &str,
    tenths: [u64; 2],
    check: impl Fn(u64, &[u8], &[Vec<u8>], &ExportReport),
) -> (usize, u64) {
    let folder = Folder::new();
    let (mut split, mut cut) = (0, 0);
    for seed in 0..40 {
        let traces = [random_records(seed, 3_000, 5).trace()];
        let path = folder.file(name);
        let options = |part_bytes_max, threads| Options {
            force: true,
            part_bytes_max,
            threads,
            batch_records_max: 500,
            ..Options::default()
        };
        let whole = export(&traces, &path, &options(None, 1)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for limit in tenths.map(|tenths| whole.bytes * tenths / 10) {
            let threads = 1 + seed as usize % 3;
            let report = match export(&traces, &path, &options(Some(limit), threads)) {
                Ok(report) => report,
                Err(ExportError::PartSize { .. }) => continue,
                Err(other) => panic!("seed {seed}: {other}"),
            };
            let files = report.files.iter();
            let parts: Vec<_> = files.map(|file| std::fs::read(file).unwrap()).collect();
            assert!(
                parts.iter().all(|part| part.len() as u64 <= limit),
                "seed {seed}"
            );
            assert_eq!(
                report.arrows + report.cut_arrows,
                whole.arrows,
                "seed {seed}"
            );
            check(seed, &bytes, &parts, &report);
            split += usize::from(parts.len() > 1);
            cut += report.cut_arrows;
        }
    }
    (split, cut)
}

#[test]
fn parts_of_records_that_say_anything_at_all() {
    let (split, _) = in_parts("out.pftrace", [6, 9], |seed, whole, parts, _| {
        let mut found = [0; 3];
        for part in parts {
            for (sum, more) in found.iter_mut().zip(events_of(part)) {
                *sum += more;
            }
        }
        assert_eq!(found, events_of(whole), "seed {seed}");
    });
    assert!(split > 20, "{split} exports");
}

#[test]
fn json_parts_of_records_that_say_anything_at_all() {
    let (split, cut) = in_parts("out.json", [4, 9], |seed, _, parts, report| {
        let mut drawn = 0;
        for part in parts {
            let value: serde_json::Value = serde_json::from_slice(part).unwrap();
            let ids = |phase: &str| -> Vec<u64> {
                let all = events(&value).iter();
                let of_phase = all.filter(|event| event["ph"] == phase);
                of_phase
                    .map(|event| event["id"].as_u64().unwrap())
                    .collect()
            };
            let (starts, ends) = (ids("s"), ids("f"));
            assert!(ends.iter().all(|id| starts.contains(id)), "seed {seed}");
            drawn += ends.len() as u64;
        }
        assert_eq!(drawn, report.arrows, "seed {seed}");
    });
    assert!(split > 20 && cut > 20, "{split} exports, {cut} arrows");
}

#[test]
fn bytes_that_were_flipped_or_cut_off() {
    let folder = Folder::new();
    let mut region = mix(2, 30, 2);
    region.kernel(500, "k".repeat(5_000).as_bytes());
    let whole = region.bytes();
    let mut random = Random {
        state: 7,
        tame: false,
    };
    for round in 0..150 {
        let mut bytes = whole.clone();
        if round % 3 == 0 {
            bytes.truncate(4096 + random.next() as usize % (bytes.len() - 4096));
        }
        // Not the header: it has a checksum of its own, and would be refused.
        for _ in 0..random.next() % 20 {
            let at = 4096 + random.next() as usize % (bytes.len() - 4096);
            bytes[at] ^= 1 << (random.next() % 8);
        }
        let source = folder.file("in.slt");
        std::fs::write(&source, &bytes).unwrap();
        let Ok(trace) = Trace::open(&source) else {
            continue;
        };
        let damaged = !trace.damage().is_empty();
        let options = Options {
            force: true,
            ..Options::default()
        };
        let traces = [trace];
        for name in ["out.json", "out.pftrace", "out.slt"] {
            let report = export(&traces, &folder.file(name), &options).unwrap();
            assert_eq!(report.damage > 0, damaged);
        }
        let value: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.file("out.json")).unwrap()).unwrap();
        let listed = value["strandline"]["processes"][0]["damage"]
            .as_array()
            .unwrap();
        assert_eq!(!listed.is_empty(), damaged);
    }
}
