//! case B26: a stop only hands over; the export reads the mapped region beside a program that goes on recording.

mod export_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use export_support::Folder;
use strandline::record::Kind;
use strandline::settings::Settings;
use strandline::{Runtime, Vendor};
use strandline_exporters::{Options, export};

const RECORDS: u64 = 200_000;

#[test]
fn case_b26_an_export_runs_while_the_next_session_records() {
    let folder = Folder::new();
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.out = Some(folder.file("live.slt"));
    let (runtime, first, name) = {
        let runtime = Runtime::make_global(settings, &Vendor::default()).unwrap();
        runtime.start_housekeeper(None, None).unwrap();
        let name = runtime.intern(b"mark");
        (runtime, runtime.session_open().unwrap(), name)
    };
    for number in 1..=RECORDS {
        runtime.instant(name, number, 0);
    }
    let stop = |session| {
        runtime
            .session_stop(session, Duration::from_secs(10), None)
            .unwrap()
    };
    let end = stop(first);
    assert_eq!(end.lost.total(), 0);

    let trace = runtime.trace().unwrap();
    let second = runtime.session_open().unwrap();
    let done = AtomicBool::new(false);
    let path = folder.file("first.json");
    let mut appended = 0;
    let report = std::thread::scope(|scope| {
        let exporter = scope.spawn(|| {
            let options = Options {
                session: Some(first),
                ..Options::default()
            };
            let report = export(&[trace], &path, &options);
            done.store(true, Ordering::Release);
            report
        });
        // As long as the export takes, and in steps that the memory made ahead keeps up with.
        while !done.load(Ordering::Acquire) {
            for _ in 0..100 {
                appended += 1;
                runtime.instant(name, RECORDS + appended, 0);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        exporter.join().unwrap().unwrap()
    });
    let end = stop(second);

    assert_eq!(report.instants, RECORDS);
    let text = std::fs::read(&path).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let marks = events
        .iter()
        .filter(|event| event["name"] == "mark")
        .count();
    assert_eq!(marks as u64, RECORDS);
    let stored = runtime.trace().unwrap();
    let stored = stored
        .entries()
        .filter(|entry| u64::from(entry.record.session()) == second)
        .filter(|entry| entry.record.kind() == Some(Kind::Mark))
        .count() as u64;
    assert!(appended > 0, "nothing was recorded beside the export");
    assert_eq!((stored, end.lost.total()), (appended, 0));
}
