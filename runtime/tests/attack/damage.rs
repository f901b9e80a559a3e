//! Goal: whatever byte of a region is changed, reading it never panics and never gives a wrong record for a sound one
//! where a checksum covers it. Method: every byte of the header, a lane, the segment table and a segment is changed, one
//! at a time (all its bits, or one of them), and the file is read through `Trace::open` and all that it offers.

use std::path::Path;

use strandline::Trace;
use strandline::builder::Builder;
use strandline::counters::Counter;
use strandline::limits::{CELL_BYTES, HEADER_BYTES, LANE_BYTES, SEGMENT_ENTRY_BYTES};
use strandline::record::Kind;
use strandline::{Proof, SessionEnd, Verdict, Work};

use crate::harness::{File, Outcome};

/// Reads all that there is; returns the words of all records.
fn read(path: &Path) -> Option<Vec<Vec<u64>>> {
    let trace = Trace::open(path).ok()?;
    let reports = strandline::report::sessions(&trace);
    for report in &reports {
        std::hint::black_box((report.is_clean(), trace.session_counters(report.id)));
    }
    for lane in trace.lanes() {
        std::hint::black_box(lane);
    }
    std::hint::black_box((
        trace.losses(),
        trace.older_counters(),
        trace.phase(),
        trace.cells(),
        trace.damage().len(),
    ));
    let mut records = Vec::new();
    for entry in trace.entries() {
        let record = entry.record;
        std::hint::black_box((
            record.grid(),
            record.bytes(),
            trace.clock().vendor_ns(record.start()),
        ));
        std::hint::black_box(trace.facts().kernel_name(record.kernel_id()));
        records.push(record.words().to_vec());
    }
    Some(records)
}

pub fn every_byte_changed_one_at_a_time() -> Outcome {
    let mut region = Builder::new();
    region
        .kernel(3, b"_Z4nodev.kd")
        .stream(1, 0x7f00)
        .operation(1, 214, "hipLaunchKernel");
    region.session_begin(1, 1_000);
    for id in 1..=30 {
        region.record(0, Kind::Api, 1, &[1_010, 1_020, id, 0, 214 | 1 << 16]);
        region.record(0, Kind::Enqueue, 1, &[1_015, id, id, 0, 3]);
        region.record(0, Kind::Dispatch, 1, &[1_100, 1_200, id, 0, id, 3]);
    }
    region
        .counter(0, 1, Counter::DispatchIssued, 30)
        .counter(0, 1, Counter::DispatchRecorded, 30);
    let issued = Work {
        issued: 30,
        recorded: 30,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: issued,
        ..SessionEnd::default()
    });
    let mut bytes = region.bytes();
    let header = region.trace().header().clone();
    let (table, segments) = (
        header.segment_table_offset as usize,
        header.segments_offset as usize,
    );
    // The segment of records is the last one.
    let (entry, segment) = (
        table + (header.segment_count as usize - 1) * SEGMENT_ENTRY_BYTES,
        header.segment_offset(header.segment_count - 1) as usize,
    );
    let file = File::new();
    std::fs::write(file.path(), &bytes).expect("a file");
    let whole = read(file.path()).expect("a sound region");
    assert_eq!(whole.len(), 90);
    let used = 30 * 4 * CELL_BYTES;
    type Check<'a> = &'a dyn Fn(Option<Vec<Vec<u64>>>);
    let changed_by = |bytes: &mut Vec<u8>, at: usize, by: u8, check: Check<'_>| {
        use std::os::unix::fs::FileExt;
        bytes[at] ^= by;
        let out = std::fs::OpenOptions::new()
            .write(true)
            .open(file.path())
            .expect("the file");
        out.write_at(&bytes[at..=at], at as u64).expect("a byte");
        check(read(file.path()));
        bytes[at] ^= by;
        out.write_at(&bytes[at..=at], at as u64).expect("a byte");
    };
    // All bits of the byte, or one of them.
    let changed = |bytes: &mut Vec<u8>, at: usize, check: Check<'_>| {
        let by = if at.is_multiple_of(2) {
            0xff
        } else {
            1 << (at / 2 % 8)
        };
        changed_by(bytes, at, by, check);
    };
    for at in 0..HEADER_BYTES {
        changed(&mut bytes, at, &|read| {
            let fixed = !(256..1024).contains(&at);
            assert_eq!(read.is_none(), fixed, "header byte {at}");
            assert!(
                read.is_none_or(|records| records == whole),
                "header byte {at}"
            );
        });
    }
    for at in header.lane_table_offset as usize..header.lane_table_offset as usize + LANE_BYTES {
        changed(&mut bytes, at, &|read| {
            assert!(read.as_ref() == Some(&whole), "lane byte {at}")
        });
    }
    // Cells of an earlier use lie behind what is published: nobody may take them for records.
    let behind = segment + used;
    bytes.copy_within(segment..segment + 40 * CELL_BYTES, behind);
    bytes[behind + 9] ^= 1;
    std::fs::write(file.path(), &bytes).expect("a file");
    assert_eq!(read(file.path()), Some(whole.clone()));
    // Each bit of the table alone, and all bits of each byte: a record that nobody wrote is never shown, and one that is
    // not shown is missed.
    for at in table..table + header.segment_count as usize * SEGMENT_ENTRY_BYTES {
        for by in (0..8).map(|bit| 1 << bit).chain([0xff]) {
            changed_by(&mut bytes, at, by, &|read| {
                let records = read.expect("a region whose segment table is damaged opens");
                let known = records.iter().all(|record| whole.contains(record));
                assert!(
                    known,
                    "segment table byte {}: a record that nobody wrote",
                    at - table
                );
                let damage = Trace::open(file.path()).expect("a region").damage().len();
                assert!(
                    records.len() == whole.len() || damage > 0,
                    "segment table byte {}, bits {by:#x}: records are gone and nobody says so",
                    at - table
                );
            });
        }
    }
    bytes[behind..behind + 40 * CELL_BYTES].fill(0);
    std::fs::write(file.path(), &bytes).expect("a file");
    // What the checksum covers: no record of the segment is believed any more. Behind it, nothing changes.
    for at in segment..segment + used + 10 * CELL_BYTES {
        changed(&mut bytes, at, &|read| {
            let records = read.expect("a region with a damaged segment opens");
            let covered = at < segment + used;
            assert!(
                if covered {
                    records.is_empty()
                } else {
                    records == whole
                },
                "segment byte {}",
                at - segment
            );
        });
    }
    // The same for the facts.
    for at in segments..segments + 12 * CELL_BYTES {
        changed(&mut bytes, at, &|read| {
            assert!(read.as_ref() == Some(&whole), "fact byte {at}")
        });
    }
    // A segment that was never sealed has no checksum, as after a crash: its bytes may be wrong, reading never panics.
    bytes[entry] = 1;
    bytes[entry + 48..entry + 64].fill(0);
    std::fs::write(file.path(), &bytes).expect("a file");
    assert_eq!(read(file.path()), Some(whole.clone()));
    for at in segment..segment + used {
        changed(&mut bytes, at, &|read| {
            let records = read.expect("a region with a damaged segment opens");
            assert!(records.len() <= 91, "segment byte {}", at - segment);
        });
    }
    // Cut at every kind of place.
    for length in (0..bytes.len()).step_by(397) {
        std::fs::write(file.path(), &bytes[..length]).expect("a file");
        let records = read(file.path()).unwrap_or_default();
        assert!(
            records.iter().zip(&whole).all(|(one, other)| one == other),
            "cut at {length}"
        );
    }
    Outcome::Passed
}
