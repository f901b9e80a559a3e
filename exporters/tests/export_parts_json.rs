//! Exports to Chrome JSON in parts: each says by itself which part it is, whether the trace is complete, and what is left out.

mod export_support;

use std::collections::{BTreeMap, BTreeSet};

use export_support::mixed::mixed_of;
use export_support::*;
use serde_json::Value;
use strandline::record::{Kind, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work};
use strandline_exporters::{ExportReport, Options, export};

fn in_parts(traces: &[Trace], limit: u64) -> (Vec<Value>, ExportReport) {
    let folder = Folder::new();
    let options = Options {
        part_bytes_max: Some(limit),
        ..Options::default()
    };
    let report = export(traces, &folder.file("out.json"), &options).unwrap();
    assert_eq!(folder.names().len(), report.files.len());
    let parts = report.files.iter().map(|file| {
        let text = std::fs::read(file).unwrap();
        assert!(text.len() as u64 <= limit, "{} bytes", text.len());
        let value: Value = serde_json::from_slice(&text).unwrap();
        check_rules(&value);
        value
    });
    (parts.collect(), report)
}

/// An end of an arrow: its row and time.
type End = ((u64, u64), u64);

fn end(event: &Value) -> End {
    let row = (event["pid"].as_u64(), event["tid"].as_u64());
    ((row.0.unwrap(), row.1.unwrap()), ns(&event["ts"]))
}

/// Arrows of a file: their ids and ends.
fn arrows_of(value: &Value) -> BTreeSet<(u64, End, End)> {
    let all = arrows(value).into_iter();
    all.map(|(from, to)| (from["id"].as_u64().unwrap(), end(&from), end(&to)))
        .collect()
}

/// The part that has the event on which an arrow ends.
fn part_of(parts: &[Value], id: u64, (row, time): End, categories: &[&str]) -> usize {
    let has = |part: &Value| {
        categories.iter().any(|category| {
            of(part, category).iter().any(|event| {
                let (row_of, start) = end(event);
                let until = start + ns(&event["dur"]);
                (row_of, event["args"]["correlation"].as_u64()) == (row, Some(id))
                    && start <= time
                    && time < until.max(start + 1)
            })
        })
    };
    parts.iter().position(has).unwrap()
}

/// What every part says of the trace and of itself, against the one file that holds all.
fn compare(traces: &[Trace], limit: u64, parts_min: usize) -> (Vec<Value>, ExportReport) {
    let (one, whole) = json(traces);
    assert_eq!((whole.cut_arrows, whole.cut_waits), (0, 0));
    let (parts, report) = in_parts(traces, limit);
    assert!(parts.len() >= parts_min, "{} parts", parts.len());
    assert_eq!(report.arrows + report.cut_arrows, whole.arrows);
    assert_eq!(report.cut_waits, 0, "the dialect has no such arrows");
    // The arrows that are missing, each in the part of its later end.
    let drawn: BTreeSet<_> = parts.iter().flat_map(arrows_of).collect();
    let mut cut = vec![0; parts.len()];
    let all = arrows_of(&one);
    assert!(drawn.is_subset(&all));
    for &(id, from, to) in all.difference(&drawn) {
        let call = part_of(&parts, id, from, &["cuda_runtime"]);
        let work = part_of(&parts, id, to, &["kernel", "gpu_memcpy"]);
        assert_ne!(call, work, "an arrow within part {}", call + 1);
        cut[call.max(work)] += 1;
    }
    assert_eq!(cut.iter().sum::<u64>(), report.cut_arrows);
    for (at, part) in parts.iter().enumerate() {
        let says = &part["strandline"];
        assert_eq!(says["schema"], one["strandline"]["schema"]);
        assert_eq!(says["processes"], one["strandline"]["processes"]);
        assert_eq!(says["part"], at + 1);
        let not_drawn = &says["not_drawn"];
        for (what, count) in one["strandline"]["not_drawn"].as_object().unwrap() {
            assert_eq!(&not_drawn[what], count, "{what}");
        }
        assert_eq!(not_drawn["arrows_to_earlier_parts"], cut[at]);
        match report.files.get(at + 1) {
            Some(next) => {
                assert_eq!(
                    says["next_part"],
                    next.file_name().unwrap().to_str().unwrap()
                );
                for key in ["parts", "drawn"] {
                    assert!(says.get(key).is_none(), "nobody knows yet: {key}");
                }
                assert!(not_drawn.get("arrows_between_parts").is_none());
            }
            None => {
                assert!(says.get("next_part").is_none());
                assert_eq!(says["parts"], parts.len());
                assert_eq!(not_drawn["arrows_between_parts"], report.cut_arrows);
                let mut drawn = one["strandline"]["drawn"].clone();
                drawn["arrows"] = report.arrows.into();
                assert_eq!(says["drawn"], drawn);
            }
        }
    }
    // Events of the program: each in one part.
    let events_of = |values: &[Value]| {
        let all = values.iter().flat_map(events).filter(|event| {
            !["M", "s", "f"].contains(&event["ph"].as_str().unwrap())
                && event["cat"] != "strandline"
        });
        let mut all: Vec<String> = all.map(Value::to_string).collect();
        all.sort_unstable();
        all
    };
    assert!(events_of(&parts) == events_of(std::slice::from_ref(&one)));
    (parts, report)
}

/// How many notes with this text each part has.
fn noted(parts: &[Value], text: &str) -> Vec<usize> {
    let parts = parts.iter().map(|part| {
        let notes = of(part, "strandline").into_iter();
        let found = notes.filter(|note| note["name"].as_str().unwrap().contains(text));
        found.count()
    });
    parts.collect()
}

#[test]
fn each_part_says_which_it_is_and_whether_the_trace_is_complete() {
    let traces = [mixed_of(1_000, 4242, 5).trace()];
    for limit in [150_000, 230_001, 400_000] {
        let (parts, report) = compare(&traces, limit, 4);
        assert!(report.cut_arrows > 0);
        for part in &parts {
            let session = &part["strandline"]["processes"][0]["sessions"][0];
            assert_eq!(session["verdict"], "incomplete");
            assert_eq!(session["lost"]["no_segment"], 7);
        }
        let (first, last) = (0, parts.len() - 1);
        let only = |which: usize| -> Vec<usize> {
            (0..parts.len())
                .map(|at| usize::from(at == which))
                .collect()
        };
        assert_eq!(noted(&parts, "lost: 7"), only(first), "where it begins");
        assert_eq!(noted(&parts, "retired without a record"), only(last));
        assert_eq!(
            noted(&parts, "incomplete"),
            vec![1; parts.len()],
            "as long as it lasts"
        );
    }
}

#[test]
fn parts_of_several_processes() {
    let traces = [
        mixed_of(400, 4242, 5).trace(),
        mixed_of(600, 4300, 9).trace(),
    ];
    compare(&traces, 400_000, 3);
}

#[test]
fn one_file_says_nothing_of_parts() {
    let (one, _) = json(&[mixed_of(50, 4242, 5).trace()]);
    let says = one["strandline"].as_object().unwrap();
    assert_eq!(says["part"], 1);
    for key in ["next_part", "parts"] {
        assert!(!says.contains_key(key), "{key}");
    }
    let keys: Vec<_> = says["not_drawn"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["end_before_start", "outside_window", "untimed"]);
}

/// A clock that is off: all work begins before its call, and still runs then.
#[test]
fn arrows_that_end_when_the_call_begins_are_cut_and_counted_too() {
    let (parts, report) = compare(&[early_work(290)], 150_000, 4);
    assert_eq!(report.before_launch, 2_000);
    let borders = parts.len() as u64 - 1;
    assert!((2 * borders..=4 * borders).contains(&report.cut_arrows));
}

/// The report of many sessions is larger than the room that a part would leave for a usual one.
#[test]
fn no_part_is_too_large_for_its_own_report() {
    let mut region = region();
    let sessions = 300;
    for session in 1..=sessions {
        let begin = u64::from(session) * 10_000;
        region.session_begin(session.into(), begin);
        for call in 0..20u64 {
            let id = u64::from(session) * 20 + call;
            let start = begin + call * 100;
            let op = u64::from(LAUNCH) | u64::from(strandline::record::domain::RUNTIME) << 16;
            let words = [start, start + 50, id, 0, op, 0, pair(0, 4242)];
            region.record(0, Kind::Api, session, &words);
        }
        region.session_end(&SessionEnd {
            session: session.into(),
            verdict: Verdict::Empty,
            proof: Proof::Pairs,
            dispatches: Work::default(),
            begin_ns: begin,
            requested_ns: begin + 5_000,
            returned_ns: begin + 6_000,
            ..SessionEnd::default()
        });
    }
    let traces = [region.trace()];
    let mut counts = BTreeMap::new();
    for limit in [600_000, 700_000, 800_000] {
        let (parts, report) = compare(&traces, limit, 2);
        assert_eq!(report.calls, 6_000);
        for part in &parts {
            let all = &part["strandline"]["processes"][0]["sessions"];
            assert_eq!(all.as_array().unwrap().len(), sessions as usize);
        }
        counts.insert(limit, parts.len());
    }
    assert!(counts.values().is_sorted_by(|more, less| more >= less));
}
