//! The exports, read by programs that people use and that share no code with us: Python's own JSON, the protobuf classes of
//! the package `perfetto`, HolisticTraceAnalysis, torch-tb-profiler, trace-lanefix.
//!
//! The scripts lie in `tests/python`, their versions in its `requirements.txt`. A reader that is not installed is skipped,
//! and the test says so; `STRANDLINE_PYTHON` names the interpreter (default `python3`), and with
//! `STRANDLINE_REQUIRE_READERS=1` a missing reader fails.

mod export_support;

use export_support::*;
use strandline::Trace;
use strandline_exporters::{Options, export};

fn read_with(scripts: &[&str], trace: &Trace, name: &str) {
    read_parts(scripts, trace, name, None);
}

/// As [`read_with`], in parts of at most so many bytes.
fn read_parts(scripts: &[&str], trace: &Trace, name: &str, part_bytes_max: Option<u64>) {
    let folder = Folder::new();
    let path = folder.file(name);
    let options = Options {
        part_bytes_max,
        ..Options::default()
    };
    let report = export(std::slice::from_ref(trace), &path, &options).unwrap();
    assert_eq!(report.files.len() > 2, part_bytes_max.is_some());
    let truth = folder.file("truth.jsonl");
    write_truth(trace, &truth);
    for script in scripts {
        let ran = run_reader(script, &path, &truth);
        assert!(ran || std::env::var_os("STRANDLINE_REQUIRE_READERS").is_none());
    }
}

#[test]
fn pythons_json_gives_every_record_back() {
    let trace = mix(5, 90, 4).trace();
    read_with(&["check_json.py"], &trace, "out.json");
    read_with(&["check_json.py"], &trace, "out.json.gz");
}

#[test]
fn perfettos_own_classes_give_every_record_back() {
    read_with(&["check_pftrace.py"], &mix(5, 90, 4).trace(), "out.pftrace");
}

#[test]
fn perfettos_own_classes_give_every_record_back_from_parts() {
    let trace = mix(5, 90, 4).trace();
    read_parts(&["check_pftrace.py"], &trace, "out.pftrace", Some(60_000));
}

#[test]
fn holistic_trace_analysis_gives_the_figures_of_the_records() {
    // It counts only calls that it knows by name: launches and copies, no graphs.
    read_with(&["check_hta.py"], &mix(5, 90, 0).trace(), "out.json");
}

#[test]
fn torch_tb_profiler_and_trace_lanefix_load_it() {
    read_with(&["check_readers.py"], &mix(5, 90, 4).trace(), "out.json");
}
