//! Goal: the bench itself works: every peer's behaviour is checked, every line is JSON of the documented form.
//! Method: the program with tiny counts. Nothing here looks at a time.

use std::process::Command;

fn lines(words: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline-benches"))
        .args(words)
        .args(["--quick", "--json"])
        .output()
        .expect("the program starts");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {talk}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

fn has(row: &serde_json::Value, names: &[&str]) {
    for name in names {
        assert!(row.get(name).is_some(), "no {name} in {row}");
    }
}

#[test]
fn every_peer_hands_over_every_record() {
    let rows = lines(&["append", "--producers", "1,2"]);
    for peer in [
        "strandline",
        "strandline-flight",
        "rtrb",
        "crossbeam-arrayqueue",
        "crossbeam-channel",
        "std-channel",
        "mutex-vec-box",
        "fastrace",
        "tracing-chrome",
    ] {
        let of_peer: Vec<_> = rows.iter().filter(|row| row["peer"] == peer).collect();
        assert!(
            of_peer.iter().any(|row| row["producers"] == 2),
            "no row of {peer}"
        );
        for row in of_peer {
            has(
                row,
                &[
                    "timestamps",
                    "cells",
                    "ns_mean",
                    "p50",
                    "p99",
                    "p999",
                    "rdtsc_ns",
                    "records_per_s",
                ],
            );
            assert!(
                row["checked"].as_u64().is_some_and(|checked| checked > 0),
                "{row}"
            );
        }
    }
    for row in [
        "strandline/cold",
        "floor/cold",
        "strandline/no-session",
        "strandline/sustained",
        "rtrb/sustained",
        "strandline/consumer",
        "strandline-pairs/consumer",
        "rtrb/consumer",
    ] {
        assert!(rows.iter().any(|known| known["peer"] == row), "no {row}");
    }
}

#[test]
fn exports_write_all_events() {
    let rows = lines(&["export", "--events", "5000"]);
    // The fifth is built only where the feature perfetto-protos is on.
    assert!(matches!(rows.len(), 4 | 5), "{rows:?}");
    for row in &rows {
        has(
            row,
            &[
                "peer",
                "format",
                "events_per_s",
                "bytes_per_s",
                "user_s",
                "peak_rss_bytes",
            ],
        );
        // The same events, whoever writes them.
        assert_eq!(row["events"], rows[0]["events"], "{rows:?}");
    }
    for peer in ["serde_json", "tracing-chrome"] {
        assert!(rows.iter().any(|row| row["peer"] == peer), "no {peer}");
    }
}

#[test]
fn instructions_are_counted_or_the_reason_is_said() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let rows = lines(&["instructions"]);
    for what in ["append", "api-pair", "dispatch-pair", "disabled"] {
        let row = rows.iter().find(|row| row["what"] == what);
        assert!(
            row.and_then(|row| row["instructions"].as_f64())
                .is_some_and(|count| count > 0.0),
            "{what}: {rows:?}"
        );
    }
}
