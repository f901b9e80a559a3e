//! Exports to Perfetto in parts: each part loads by itself, and all of them hold what one file holds, once.

mod export_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use export_support::mixed::mixed_of;
use export_support::*;
use strandline::record::domain;
use strandline::{Trace, report};
use strandline_exporters::{ExportError, ExportReport, Options, export};

/// A process whose clocks were measured twice.
fn process(rounds: u64, pid: u32, kernels: u64) -> Trace {
    let mut region = mixed_of(rounds, pid, kernels);
    region.anchor(anchor(1_000_000_000));
    region.trace()
}

fn in_parts(traces: &[Trace], limit: u64) -> (Vec<Imported>, ExportReport) {
    let folder = Folder::new();
    let options = Options {
        part_bytes_max: Some(limit),
        ..Options::default()
    };
    let report = export(traces, &folder.file("out.pftrace"), &options).unwrap();
    assert_eq!(folder.names().len(), report.files.len());
    let mut sum = 0;
    let parts = report.files.iter().map(|file| {
        let bytes = std::fs::read(file).unwrap();
        assert!(bytes.len() as u64 <= limit, "{} bytes", bytes.len());
        sum += bytes.len() as u64;
        // Every rule of the format is checked here, without the other parts.
        import(&bytes)
    });
    let parts: Vec<Imported> = parts.collect();
    assert_eq!(report.bytes, sum);
    (parts, report)
}

/// Ids that calls name and that are in the same file.
fn arrows(part: &Imported) -> u64 {
    let ids: BTreeSet<u64> = part.stages.iter().map(|stage| stage.event_id).collect();
    assert_eq!(ids.len(), part.stages.len());
    let named = part.slices.iter().flat_map(|slice| &slice.submits);
    named.filter(|id| ids.contains(id)).count() as u64
}

fn sorted<T: Ord + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort();
    all
}

fn is_note(part: &Imported, slice: &Slice) -> bool {
    let name = part.tracks[&slice.track].text(2);
    name.is_some_and(|name| name.starts_with("Recording quality"))
}

/// What a part says of itself under each process's prefix, taken out of its attributes.
fn marks(
    attributes: &mut BTreeMap<String, String>,
) -> BTreeMap<String, BTreeMap<&'static str, String>> {
    const NAMES: [&str; 7] = [
        "part",
        "next_part",
        "parts",
        "arrows_to_earlier_parts",
        "arrows_between_parts",
        "waits_on_earlier_parts",
        "waits_between_parts",
    ];
    let mut marks: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for name in NAMES {
        let found = attributes.extract_if(.., |key, _| key.ends_with(&format!(".{name}")));
        for (key, value) in found {
            let prefix = key.strip_suffix(&format!(".{name}")).unwrap().to_owned();
            marks.entry(prefix).or_default().insert(name, value);
        }
    }
    marks
}

/// Every part says which one it is, and the arrows between parts are counted where their later end lies.
fn check_marks(parts: &[Imported], report: &ExportReport, processes: usize) {
    let mut part_of = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        part_of.extend(part.stages.iter().map(|stage| (stage.event_id, at)));
    }
    let mut cut = vec![0; parts.len()];
    for (at, part) in parts.iter().enumerate() {
        for id in part.slices.iter().flat_map(|slice| &slice.submits) {
            if part_of[id] != at {
                cut[part_of[id].max(at)] += 1;
            }
        }
    }
    assert_eq!(cut.iter().sum::<u64>(), report.cut_arrows);
    let mut waits = 0;
    for (at, part) in parts.iter().enumerate() {
        let marks = marks(&mut part.attributes.clone());
        if parts.len() == 1 {
            assert!(marks.is_empty(), "{marks:?}");
            continue;
        }
        assert_eq!(marks.len(), processes);
        let sum = |name: &str| -> u64 {
            let all = marks
                .values()
                .map(|mark| mark[name].parse::<u64>().unwrap());
            all.sum()
        };
        assert_eq!(sum("arrows_to_earlier_parts"), cut[at], "part {}", at + 1);
        waits += sum("waits_on_earlier_parts");
        for mark in marks.values() {
            assert_eq!(mark["part"], (at + 1).to_string());
            let next = report
                .files
                .get(at + 1)
                .map(|file| file.file_name().unwrap());
            let next = next.map(|name| name.to_string_lossy().into_owned());
            assert_eq!(mark.get("next_part").cloned(), next);
            assert_eq!(mark.contains_key("parts"), next.is_none());
        }
        if at + 1 == parts.len() {
            assert!(marks.values().all(|mark| mark["parts"] == mark["part"]));
            assert_eq!(sum("arrows_between_parts"), report.cut_arrows);
            assert_eq!(sum("waits_between_parts"), report.cut_waits);
        }
    }
    assert_eq!(waits, report.cut_waits);
}

/// Everything that one file holds is in one of the parts, and nothing else is.
fn compare(traces: &[Trace], limit: u64, parts_min: usize) -> (Vec<Imported>, ExportReport) {
    let (one, whole) = perfetto(traces);
    let (parts, report) = in_parts(traces, limit);
    assert!(parts.len() >= parts_min, "{} parts", parts.len());
    assert_eq!(
        ExportReport {
            files: whole.files.clone(),
            bytes: whole.bytes,
            arrows: report.arrows + report.cut_arrows,
            cut_arrows: 0,
            cut_waits: 0,
            ..report.clone()
        },
        whole
    );
    check_marks(&parts, &report, traces.len());
    let stages = |parts: &[Imported]| sorted(parts.iter().flat_map(|part| part.stages.clone()));
    assert!(stages(&parts) == stages(std::slice::from_ref(&one)));
    // What a call waited for is compared below.
    let slices = |parts: &[Imported]| {
        sorted(parts.iter().flat_map(|part| {
            let events = part.slices.iter().filter(|slice| !is_note(part, slice));
            events.map(|slice| Slice {
                waits: Vec::new(),
                ..slice.clone()
            })
        }))
    };
    assert!(slices(&parts) == slices(std::slice::from_ref(&one)));
    // A note may stand in several parts.
    let notes = |parts: &[Imported]| -> BTreeSet<Slice> {
        let all = parts.iter().flat_map(|part| {
            let notes = part.slices.iter().filter(|slice| is_note(part, slice));
            notes.cloned()
        });
        all.collect()
    };
    assert_eq!(notes(&parts), notes(std::slice::from_ref(&one)));
    let waited = |parts: &[Imported]| -> u64 {
        let slices = parts.iter().flat_map(|part| &part.slices);
        slices.map(|slice| slice.waits.len() as u64).sum()
    };
    let whole_waits = waited(std::slice::from_ref(&one));
    assert_eq!(waited(&parts) + report.cut_waits, whole_waits);
    let waits = |part: &Imported| -> BTreeSet<(u64, u64, u64)> {
        let all = part
            .slices
            .iter()
            .flat_map(|slice| (slice.waits.iter()).map(|&id| (slice.track, slice.start, id)));
        all.collect()
    };
    let (all_waits, mut found_waits) = (waits(&one), BTreeSet::new());
    let mut drawn = 0;
    for part in &parts {
        drawn += arrows(part);
        for (track, start, id) in waits(part) {
            assert!(all_waits.contains(&(track, start, id)));
            assert!(part.stages.iter().any(|stage| stage.event_id == id));
            found_waits.insert(id);
        }
        assert!(!part.slices.is_empty() || !part.stages.is_empty());
        assert_eq!((&part.gpus, part.lost), (&one.gpus, one.lost));
        assert_eq!(
            part.snapshots, one.snapshots,
            "first and last, of each process"
        );
        let mut attributes = part.attributes.clone();
        marks(&mut attributes);
        assert_eq!(attributes, one.attributes);
        for (uuid, track) in &part.tracks {
            assert_eq!(one.tracks.get(uuid), Some(track));
        }
    }
    assert_eq!(drawn, report.arrows);
    assert_eq!(arrows(&one), whole.arrows);
    let uuids: BTreeSet<_> = parts.iter().flat_map(|part| &part.uuids).collect();
    assert_eq!(
        uuids.len(),
        parts.len(),
        "viewers tell parts apart by their id"
    );
    let mut counters: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for (name, values) in parts.iter().flat_map(|part| &part.counters) {
        counters.entry(name.clone()).or_default().extend(values);
    }
    for values in counters.values_mut() {
        values.sort_unstable();
    }
    let mut wanted = one.counters.clone();
    for values in wanted.values_mut() {
        values.sort_unstable();
    }
    assert_eq!(counters, wanted);
    let memory = |parts: &[Imported]| sorted(parts.iter().flat_map(|part| part.memory.clone()));
    assert_eq!(memory(&parts), memory(std::slice::from_ref(&one)));
    (parts, report)
}

#[test]
fn parts_of_any_size_hold_what_one_file_holds() {
    let traces = [process(1_000, 4242, 5)];
    let (_, whole) = perfetto(&traces);
    for limit in [80_000, 100_001, 177_777, 200_000] {
        let (parts, report) = compare(&traces, limit, 3);
        // The program launches, waits and is early all the time: something of each lies on a border.
        assert!(report.cut_arrows > 0 && report.cut_waits > 0);
        let noted = |text: &str| -> Vec<usize> {
            let parts = parts.iter().map(|part| {
                let found = part.slices.iter().filter(|slice| slice.name.contains(text));
                found.count()
            });
            parts.collect()
        };
        let (first, last) = (0, parts.len() - 1);
        let only = |which: usize| -> Vec<usize> {
            (0..parts.len())
                .map(|at| usize::from(at == which))
                .collect()
        };
        assert_eq!(noted("session 1: lost"), only(first), "where it begins");
        assert_eq!(noted("retired without a record"), only(last));
        assert_eq!(
            noted("session 1: incomplete"),
            vec![1; parts.len()],
            "as long as it lasts"
        );
    }
    let (parts, report) = compare(&traces, 1 << 40, 1);
    assert_eq!((parts.len(), report.arrows), (1, whole.arrows));
}

#[test]
fn parts_of_several_processes() {
    let traces = [process(400, 4242, 5), process(600, 4300, 9)];
    compare(&traces, 180_000, 3);
}

#[test]
fn a_part_has_the_names_of_those_before_it() {
    // Each name is met in the first part only for the first time.
    let mut region = mix(40, 60, 3);
    close(&mut region, 1, 0, 100_000_000);
    compare(&[region.trace()], 120_000, 3);
}

/// Calls of many threads that wait over many parts end in their own, at their own time; an end names work of its part.
#[test]
fn calls_that_wait_over_parts_end_where_they_began() {
    let mut region = region();
    region.operation(domain::RUNTIME, 301, "hipDeviceSynchronize");
    for thread in 0..200 {
        let (id, start) = (100_000 + u64::from(thread), 1_700 + u64::from(thread));
        api_on(&mut region, 2, 77 + thread, 301, id, start, 250_000);
    }
    for id in 1..=3_000u64 {
        let start = 2_000 + id * 100;
        launch(&mut region, 0, id, start, start + 5);
        let it = Dispatch {
            id,
            correlation: id,
            start: start + 10,
            end: start + 90,
            ..Dispatch::default()
        };
        dispatch(&mut region, 1, it);
        // The kernel ends while this call waits, and may lie in the part before.
        let (start, end) = (start + 80, start + 95);
        api_on(&mut region, 3, 4, 301, 200_000 + id, start, end);
    }
    close(&mut region, 3_000, 0, 600_000);
    let traces = [region.trace()];
    let (one, _) = perfetto(&traces);
    let waits = |parts: &[Imported]| -> usize {
        let slices = parts.iter().flat_map(|part| &part.slices);
        slices.map(|slice| slice.waits.len()).sum()
    };
    let (mut cut, all) = (0, waits(std::slice::from_ref(&one)));
    assert_eq!(all, 3_200);
    for limit in (220_000..700_000).step_by(90_007) {
        let (parts, _) = compare(&traces, limit, 2);
        let long = parts.iter().enumerate().flat_map(|(at, part)| {
            let slices = part.slices.iter().map(move |slice| (at, slice));
            slices.filter(|(_, slice)| slice.end.unwrap() - slice.start > 200_000)
        });
        let long: Vec<_> = long.collect();
        assert_eq!(long.len(), 200);
        for (part, slice) in long {
            assert!(part == 0 && slice.waits.is_empty(), "{slice:?}");
        }
        cut += all - 200 - waits(&parts);
    }
    assert!(cut > 3, "work before a border, the call behind it: {cut}");
}

/// A clock that is off: all work begins before its call.
#[test]
fn work_of_a_call_in_a_later_part_has_no_arrow() {
    let (parts, report) = compare(&[early_work(90)], 60_000, 4);
    assert_eq!(report.before_launch, 2_000);
    let borders = parts.len() as u64 - 1;
    let cut = 2_000 - report.arrows;
    assert!((2 * borders..=3 * borders).contains(&cut), "{cut}");
}

fn too_small(error: &ExportError) -> (u64, u64) {
    let ExportError::PartSize { bytes_max, needed } = error else {
        panic!("{error}")
    };
    (*bytes_max, *needed)
}

#[test]
fn a_limit_that_is_too_small_says_what_would_do() {
    let traces = [process(1_000, 4242, 58)];
    for (name, most) in [
        ("out.pftrace", 30_000),
        ("out.json", 8_000),
        ("out.json.gz", 8_000),
    ] {
        for limit in [0, 1, 5_000, most] {
            let folder = Folder::new();
            let options = |limit| Options {
                part_bytes_max: Some(limit),
                ..Options::default()
            };
            let path = folder.file(name);
            let error = export(&traces, &path, &options(limit)).unwrap_err();
            let (bytes_max, needed) = too_small(&error);
            assert!(bytes_max == limit && needed > limit / 2, "{error}");
            assert_eq!(folder.names(), [""; 0], "nothing is left behind");
            let text = error.to_string();
            let advice = text.strip_suffix("M or more").unwrap();
            let megabytes: u64 = advice[advice.rfind(' ').unwrap() + 1..].parse().unwrap();
            export(&traces, &path, &options(megabytes << 20)).unwrap();
        }
    }
}

#[test]
fn a_shorter_export_with_force_leaves_no_part_of_a_longer_one() {
    let folder = Folder::new();
    let path = folder.file("out.pftrace");
    let options = |limit| Options {
        part_bytes_max: Some(limit),
        force: true,
        ..Options::default()
    };
    let traces = [process(1_000, 4242, 5)];
    let report = export(&traces, &path, &options(130_000)).unwrap();
    assert!(report.files.len() > 2);
    assert_eq!(
        report.files[1].file_name(),
        Path::new("out.part2.pftrace").file_name()
    );
    export(&traces, &path, &options(1 << 30)).unwrap();
    assert_eq!(folder.names(), ["out.pftrace"]);
    assert_eq!(report::sessions(&traces[0]).len(), report.sessions.len());
}
