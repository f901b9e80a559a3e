//! Goal: a program that opens its first session after HIP was initialised gets no silent empty trace (case B38).
//! Method: the same host with its first HIP call before and after the session; the trace's own metadata.

mod support;

use std::process::Command;
use std::time::Duration;

use support::{Scratch, c};

#[test]
fn a_tool_that_came_too_late_says_so_in_the_trace() {
    let built = support::built();
    let hip = format!("-L{}", built.sim.display());
    let flags = [
        "-std=c++17",
        &hip,
        "-Wl,--allow-shlib-undefined",
        "-lamdhip64",
        "-ldl",
    ];
    let host = match c::compile("g++", "late.cpp", "late", &flags) {
        Ok(host) => host,
        Err(why) => return support::skip("a tool that came too late", &why),
    };
    for late in [false, true] {
        let scratch = Scratch::new("late");
        let out = scratch.path("out.json");
        let mut command = Command::new(&host);
        support::clean(&mut command);
        command
            .env("LD_LIBRARY_PATH", &built.sim)
            .env("STRANDLINE_OUT", scratch.path("region.slt"))
            .arg(&built.tool)
            .arg(&out);
        if late {
            command.arg("late");
        }
        let ended = support::run(&mut command, Duration::from_secs(60));
        ended.expect_clean("the host");
        assert_eq!(ended.stdout.trim(), "0 0 0", "late {late}");
        let text = std::fs::read_to_string(&out).expect("the export");
        let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let process = &trace["strandline"]["processes"][0];
        let recorded = support::at(process, "sessions/0/api/recorded");
        let warning = process["metadata"]["warning"].as_str();
        if late {
            // The stand-in is as SDK 1.0.0: it hands nothing over to late tools.
            assert_eq!(recorded, 0);
            assert!(
                warning.is_some_and(|text| text.starts_with("no record came")),
                "{process}"
            );
        } else {
            assert_eq!((recorded, warning), (5, None), "{process}");
        }
    }
}
