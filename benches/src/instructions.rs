//! Instructions of one call, counted by callgrind: twice the calls less once the calls, so that start-up and set-up
//! cancel out. The count does not depend on the machine's clock or on its neighbours.

use std::hint::black_box;
use std::process::{Command, Stdio};

use crate::arguments::Arguments;
use crate::{c_abi, ours};

/// What is counted; each is one whole public call (or pair of calls), with the bench's own loop in it.
pub const WHAT: [&str; 8] = [
    "append",
    "append-c-abi",
    "append-no-timestamp",
    "api-pair",
    "dispatch-pair",
    "disabled",
    "disabled-c-abi",
    "empty-loop",
];

/// Counts and prints.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: instructions: valgrind is not installed");
        return Ok(());
    }
    let calls = if arguments.quick { 2_000 } else { 48_000 };
    c_abi::bring_up_to_date(arguments);
    for what in WHAT {
        check(what)?;
        let counted = count(what, calls).and_then(|once| Ok((once, count(what, 2 * calls)?)));
        match counted {
            Ok((once, twice)) => {
                let each = twice.saturating_sub(once) as f64 / calls as f64;
                if arguments.json {
                    println!("{{\"what\":\"{what}\",\"instructions\":{each:.2}}}");
                } else {
                    println!("{what:<20} {each:>8.2} instructions");
                }
            }
            Err(why) => eprintln!("skipped: {what}: {why}"),
        }
    }
    Ok(())
}

/// The calls do what they should: a child that counts its records.
fn check(what: &str) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(own)
        .args(["instructions-child", what, "2000", "--quick"])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() || what.ends_with("c-abi") {
        return Ok(());
    }
    Err(format!(
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

/// All instructions of a child that makes `calls` calls.
fn count(what: &str, calls: usize) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Only inside of `each`: start-up waits for clocks, and no two waits are alike.
        .arg("--toggle-collect=*instructions*each*")
        .arg(own)
        .args(["instructions-child", what, &calls.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let why = text
            .lines()
            .find(|line| !line.starts_with("=="))
            .unwrap_or("it failed");
        return Err(why.trim_start_matches("strandline-benches: ").to_owned());
    }
    text.lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, number)| number.trim().parse().ok())
        .ok_or_else(|| "callgrind printed no count".to_owned())
}

/// Makes the calls.
pub fn child(arguments: &Arguments) -> Result<(), String> {
    let [what, calls] = &arguments.words[..] else {
        return Err("instructions-child: expected what and how often".to_owned());
    };
    let calls: u64 = calls.parse().map_err(|_| "expected a number".to_owned())?;
    if let Some(what) = what.strip_suffix("-c-abi") {
        return c_abi_calls(what, calls);
    }
    if what == "empty-loop" {
        each(calls, |at| {
            black_box(at);
        });
        return Ok(());
    }
    let runtime = ours::Process::start(64 << 20)?;
    let session = runtime.open()?;
    let name = runtime.name;
    if what == "disabled" {
        runtime.stop(session)?;
    }
    match what.as_str() {
        "append" | "disabled" => each(calls, |at| ours::append(runtime.runtime, name, at, 1)),
        "append-no-timestamp" => {
            each(calls, |at| {
                ours::append_at(runtime.runtime, name, at, 1, 77)
            });
        }
        "api-pair" => each_one(calls, |at| ours::api_pair(runtime.runtime, at, 1)),
        "dispatch-pair" => each_one(calls, |at| ours::dispatch_pair(runtime.runtime, at, 1)),
        other => return Err(format!("{other}: unknown")),
    }
    if arguments.quick && what != "disabled" {
        // Behaviour before counting; what is counted is not this.
        runtime.stop_and_count(session, calls)?;
    }
    Ok(())
}

/// `calls` calls; for what is too long to be inlined eight times.
#[inline(never)]
fn each_one(calls: u64, call: impl FnMut(u64)) {
    (0..calls).for_each(call);
}

/// `calls` calls, eight a turn, so that the loop itself hardly counts.
#[inline(never)]
fn each(calls: u64, mut call: impl FnMut(u64)) {
    for turn in 0..calls / 8 {
        let first = turn * 8;
        call(first);
        call(first + 1);
        call(first + 2);
        call(first + 3);
        call(first + 4);
        call(first + 5);
        call(first + 6);
        call(first + 7);
    }
}

fn c_abi_calls(what: &str, calls: u64) -> Result<(), String> {
    let library = c_abi::Library::load(64 << 20)?;
    let session = library.start()?;
    let name = library.name("instructions");
    if what == "disabled" {
        library.stop(session)?;
    }
    each(calls, |at| library.mark(name, at, 1));
    Ok(())
}
