//! The export bench: one synthetic trace, as Chrome JSON and as Perfetto's protobuf, and the same events through peers:
//! serde_json and tracing-chrome for JSON, the generated messages of perfetto_protos for Perfetto.
//!
//! Each export runs in a process of its own that first writes a small region and reads it back, then maps the region, and
//! writes to a sink that only counts; the figure is user time of the whole process meanwhile.

mod check;
mod synthetic;
#[cfg(feature = "perfetto-protos")]
mod with_protos;
mod with_serde;
mod with_tracing;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use strandline::Trace;
use strandline_exporters::{Format, Options, export_to};

use crate::arguments::Arguments;
use crate::ours;
use check::Counts;
use synthetic::synthetic;

/// Events of the region that is read back.
const CHECKED: u64 = 2_000;

/// Writers and what they write.
const PEERS: [(&str, &str); 5] = [
    ("strandline", "json"),
    ("serde_json", "json"),
    ("tracing-chrome", "json"),
    ("strandline", "pftrace"),
    ("perfetto_protos", "pftrace"),
];

/// Runs all exports.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let path = ours::region_path();
    let made = std::fs::write(&path, synthetic(arguments.events as u64).bytes());
    let _remove = Remove(path.clone());
    made.map_err(|error| format!("writing {}: {error}", path.display()))?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut rows: Vec<serde_json::Value> = Vec::new();
    for (peer, format) in PEERS.iter().filter(|(peer, _)| arguments.wants(peer)) {
        let output = Command::new(&own)
            .args(["export-child", peer, format])
            .arg(&path)
            .output()
            .map_err(|error| format!("starting {peer}: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().trim_start_matches("strandline-benches: ");
            eprintln!("skipped: {peer} {format}: {why}");
            continue;
        }
        let line = String::from_utf8_lossy(&output.stdout);
        if arguments.json {
            println!("{}", line.trim());
        } else {
            rows.push(serde_json::from_str(&line).map_err(|error| error.to_string())?);
        }
    }
    if !arguments.json {
        print!("{}", table(&rows));
    }
    Ok(())
}

/// A line for each writer; the ratio is ours over the peer's, events a second of user time, in the same format.
fn table(rows: &[serde_json::Value]) -> String {
    use std::fmt::Write;
    let mut out = format!(
        "{:<16} {:<8} {:>10} {:>8} {:>13} {:>8} {:>10} {:>11}\n",
        "writer", "format", "M events/s", "MB/s", "bytes", "user s", "peak MiB", "ours / this"
    );
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        let ours = rows
            .iter()
            .find(|own| own["peer"] == "strandline" && own["format"] == row["format"])
            .and_then(|own| own["events_per_s"].as_f64());
        let _ = writeln!(
            out,
            "{:<16} {:<8} {:>10.2} {:>8.1} {:>13.0} {:>8.2} {:>10.1} {:>11}",
            row["peer"].as_str().unwrap_or(""),
            row["format"].as_str().unwrap_or(""),
            number("events_per_s") / 1e6,
            number("bytes_per_s") / 1e6,
            number("bytes"),
            number("user_s"),
            // The region's own pages are every writer's.
            (number("peak_rss_bytes") - number("mapped_bytes")) / f64::from(1 << 20),
            ours.map_or("-".to_owned(), |ours| format!(
                "{:.1}",
                ours / number("events_per_s")
            )),
        );
    }
    out
}

/// Removes the region when the bench ends, however it ends.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One export.
pub fn child(arguments: &Arguments) -> Result<(), String> {
    let [peer, format, path] = &arguments.words[..] else {
        return Err("export-child: expected a peer, a format and a region".to_owned());
    };
    let trace = Trace::open(Path::new(path)).map_err(|error| error.to_string())?;
    // Mapped pages are read once before: the figure is the export's, not the page cache's.
    let records = trace.entries().count() as u64;
    read_back(peer, format)?;
    let before = user_s();
    let mut sink = Count::default();
    let events = write(peer, format, trace, &mut sink)?;
    let took = (user_s() - before).max(1e-6);
    if events < records / 2 {
        return Err(format!("{events} events came out of {records} records"));
    }
    let bytes = sink.0.load(Ordering::Relaxed);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| {
                rest.trim()
                    .trim_end_matches(" kB")
                    .trim()
                    .parse::<u64>()
                    .ok()
            })
            .unwrap_or(0)
    };
    let peak = kib("VmHWM:") * 1024;
    // The region's pages were all looked at, so all of them are in the peak.
    let mapped = std::fs::metadata(path).map_or(0, |data| data.len());
    println!(
        "{{\"peer\":\"{peer}\",\"format\":\"{format}\",\"events_per_s\":{:.0},\"bytes_per_s\":{:.0},\"user_s\":{took:.4},\
         \"peak_rss_bytes\":{peak},\"mapped_bytes\":{mapped},\"events\":{events},\"bytes\":{}}}",
        events as f64 / took,
        bytes as f64 / took,
        bytes,
    );
    Ok(())
}

/// User time of the process so far, all threads.
fn user_s() -> f64 {
    // SAFETY: plain data, valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_utime.tv_sec as f64 + usage.ru_utime.tv_usec as f64 / 1e6
}

/// Counts the bytes that are written to it, from whatever thread.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = std::hint::black_box(bytes).len() as u64;
        // Relaxed: read after the writing thread was joined, if there is one.
        self.0.fetch_add(count, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The export that is timed; returns how many events it wrote.
fn write(peer: &str, format: &str, trace: Trace, sink: &mut Count) -> Result<u64, String> {
    match (peer, format) {
        ("strandline", "json") => ours_to(trace, Format::Json, sink),
        ("strandline", "pftrace") => ours_to(trace, Format::Perfetto, sink),
        ("serde_json", "json") => with_serde::serde_to(&trace, sink),
        ("tracing-chrome", "json") => with_tracing::tracing_to(&trace, sink.clone(), true),
        #[cfg(feature = "perfetto-protos")]
        ("perfetto_protos", "pftrace") => with_protos::protos_to(&trace, sink),
        #[cfg(not(feature = "perfetto-protos"))]
        ("perfetto_protos", "pftrace") => {
            Err("built without the feature perfetto-protos".to_owned())
        }
        _ => Err(format!("{peer} {format}: no such export")),
    }
}

/// Writes a small region the same way and reads it back: behaviour before time.
fn read_back(peer: &str, format: &str) -> Result<(), String> {
    let trace = synthetic(CHECKED).trace();
    let expected = Counts::of(&trace);
    let mut file = Vec::new();
    let found = match (peer, format) {
        ("strandline", "json") => {
            ours_to(trace, Format::Json, &mut file)?;
            Counts::of_json(&file)?
        }
        ("strandline", "pftrace") => {
            ours_to(trace, Format::Perfetto, &mut file)?;
            let found = Counts::of_our_packets(&file)?;
            return if found == (expected.calls, expected.on_gpu()) {
                Ok(())
            } else {
                Err(format!(
                    "{} calls and {} GPU stages: came out of {expected}",
                    found.0, found.1
                ))
            };
        }
        ("serde_json", "json") => {
            file.push(b'[');
            with_serde::serde_to(&trace, &mut file)?;
            // The last row's comma.
            file.truncate(file.len() - 2);
            file.push(b']');
            Counts::of_json(&file)?
        }
        ("tracing-chrome", "json") => {
            let path = ours::region_path().with_extension("json");
            let _remove = Remove(path.clone());
            let sink = std::fs::File::create(&path).map_err(|error| error.to_string())?;
            with_tracing::tracing_to(&trace, sink, false)?;
            Counts::of_json(&std::fs::read(&path).map_err(|error| error.to_string())?)?
        }
        #[cfg(feature = "perfetto-protos")]
        ("perfetto_protos", "pftrace") => {
            with_protos::protos_to(&trace, &mut file)?;
            with_protos::counts(&file)?
        }
        // What is not there says so itself.
        _ => return Ok(()),
    };
    if found == expected {
        Ok(())
    } else {
        Err(format!("{found}: came out of {expected}"))
    }
}

fn ours_to(trace: Trace, format: Format, sink: &mut impl Write) -> Result<u64, String> {
    let report = export_to(&[trace], format, sink, &Options::default())
        .map_err(|error| error.to_string())?;
    Ok(report.calls + report.kernels + report.copies)
}
