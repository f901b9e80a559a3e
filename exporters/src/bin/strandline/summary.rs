//! `strandline summary`: the JSON of the contract, and its form for people.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use strandline::header::Mode;
use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::report::{self, SessionReport};
use strandline::{Trace, Work};

use crate::args;
use crate::counts::Counts;
use crate::failure::{Failure, code};
use crate::{input, names};

/// Kernels listed in the text form.
const KERNELS_SHOWN: usize = 20;
/// Widest kernel name in the text form, characters.
const NAME_CHARS: usize = 100;

/// Runs the command.
pub(crate) fn run(args: &args::Summary) -> Result<u8, Failure> {
    let mut exit = code::FINE;
    for path in &args.inputs {
        let trace = input::open(path)?;
        let reports = report::sessions(&trace);
        let mut counts = Counts::default();
        counts.add(&trace, &reports);
        exit = exit.max(counts.code());
        let text = if args.json {
            let summary = Summary::new(&trace, &reports);
            serde_json::to_string(&summary).expect("a summary is plain data") + "\n"
        } else {
            text(&trace, &reports, &counts)
        };
        io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| Failure::stdout(&error))?;
    }
    Ok(exit)
}

/// Schema `strandline.summary/1`; the field names are the contract's.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    schema: &'static str,
    simulated: bool,
    process: Process,
    agents: usize,
    queues: usize,
    streams: usize,
    sessions: Vec<Session>,
    kernels: Vec<Kernel>,
    cost: Cost,
}

#[derive(Debug, Serialize)]
struct Cost {
    records: u64,
    bytes: u64,
    sampled_appends: u64,
    append_ns: u64,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: u32,
    program: String,
    boot_id: String,
    start_ns: u64,
}

#[derive(Debug, Serialize)]
struct Session {
    id: u64,
    verdict: &'static str,
    proof: &'static str,
    dispatches: Counted,
    copies: Counted,
    api: Api,
    low_watermark: u64,
    high_watermark: u64,
    late: u64,
    lost: Lost,
    flagged: Flagged,
    stop: Stop,
}

#[derive(Debug, Serialize)]
struct Counted {
    issued: u64,
    recorded: u64,
    retired_without_record: u64,
    missing: u64,
}

#[derive(Debug, Serialize)]
struct Api {
    recorded: u64,
    open_at_stop: u64,
}

#[derive(Debug, Serialize)]
struct Lost {
    no_segment: u64,
    no_lane: u64,
    after_close: u64,
    reentry: u64,
    sdk_dropped: u64,
    sticky_full: u64,
}

#[derive(Debug, Serialize)]
struct Flagged {
    outside_window: u64,
    untimed: u64,
    end_before_start: u64,
    unknown_stream: u64,
    no_launch: u64,
}

#[derive(Debug, Serialize)]
struct Stop {
    requested_ns: u64,
    last_arrival_ns: u64,
    returned_ns: u64,
}

#[derive(Debug, Serialize)]
struct Kernel {
    name: String,
    mangled: String,
    count: u64,
    total_ns: u64,
}

impl Summary {
    /// What a trace says, from its reports.
    pub(crate) fn new(trace: &Trace, reports: &[SessionReport]) -> Self {
        let header = trace.header();
        Self {
            schema: "strandline.summary/1",
            simulated: header.simulated,
            process: Process {
                pid: header.pid,
                program: header.program.clone(),
                boot_id: names::uuid(&header.boot_id),
                start_ns: header.process_start_ns,
            },
            agents: trace.facts().agents.len(),
            queues: trace.facts().queues.len(),
            streams: trace.facts().streams.len(),
            sessions: reports.iter().map(Session::new).collect(),
            kernels: kernels(trace),
            cost: {
                let cost = trace.cost();
                Cost {
                    records: cost.records,
                    bytes: cost.bytes,
                    sampled_appends: cost.sampled_appends,
                    append_ns: cost.append_ns,
                }
            },
        }
    }
}

impl Session {
    fn new(report: &SessionReport) -> Self {
        let lost = |reason| report.lost.get(reason);
        let flagged = report.flagged;
        Self {
            id: report.id,
            verdict: report.verdict.name(),
            proof: report.proof.name(),
            dispatches: Counted::new(&report.dispatches),
            copies: Counted::new(&report.copies),
            api: Api {
                recorded: report.api_recorded,
                open_at_stop: report.open_at_stop,
            },
            low_watermark: report.low_watermark,
            high_watermark: report.high_watermark,
            late: report.late,
            lost: Lost {
                no_segment: lost(LossReason::NoSegment),
                no_lane: lost(LossReason::NoLane),
                after_close: lost(LossReason::AfterClose),
                reentry: lost(LossReason::Reentry),
                sdk_dropped: lost(LossReason::SdkDropped),
                sticky_full: lost(LossReason::StickyFull),
            },
            flagged: Flagged {
                outside_window: flagged.outside_window,
                untimed: flagged.untimed,
                end_before_start: flagged.end_before_start,
                unknown_stream: flagged.unknown_stream,
                no_launch: flagged.no_launch,
            },
            stop: Stop {
                requested_ns: report.requested_ns,
                last_arrival_ns: report.last_arrival_ns,
                returned_ns: report.returned_ns,
            },
        }
    }
}

impl Counted {
    fn new(work: &Work) -> Self {
        Self {
            issued: work.issued,
            recorded: work.recorded,
            retired_without_record: work.retired_without_record,
            missing: work.missing(),
        }
    }
}

/// Kernels by total time, longest first. Untimed dispatches count, and add no time.
fn kernels(trace: &Trace) -> Vec<Kernel> {
    let mut by_id: HashMap<u64, (u64, u64)> = HashMap::new();
    for entry in trace.entries() {
        let record = entry.record;
        if record.kind() != Some(Kind::Dispatch) {
            continue;
        }
        let sums = by_id.entry(record.word(6)).or_default();
        sums.0 += 1;
        if record.start() != 0 {
            sums.1 = sums
                .1
                .saturating_add(record.end().saturating_sub(record.start()));
        }
    }
    let mut by_name: HashMap<String, (u64, u64)> = HashMap::new();
    for (id, (count, total)) in by_id {
        let name = names::mangled(trace.facts(), id).unwrap_or_else(|| format!("kernel {id}"));
        let sums = by_name.entry(name).or_default();
        sums.0 += count;
        sums.1 = sums.1.saturating_add(total);
    }
    let mut kernels: Vec<Kernel> = by_name
        .into_iter()
        .map(|(mangled, (count, total_ns))| Kernel {
            name: names::demangled(&mangled),
            mangled,
            count,
            total_ns,
        })
        .collect();
    kernels.sort_by(|one, other| {
        (other.total_ns, other.count, &one.mangled).cmp(&(one.total_ns, one.count, &other.mangled))
    });
    kernels
}

/// The form for people; the last line is the contract's.
pub(crate) fn text(trace: &Trace, reports: &[SessionReport], counts: &Counts) -> String {
    let mut out = String::new();
    // Writing to a `String` can't fail.
    let _ = write_text(&mut out, trace, reports, counts);
    out
}

fn write_text(
    out: &mut String,
    trace: &Trace,
    reports: &[SessionReport],
    counts: &Counts,
) -> std::fmt::Result {
    let (header, facts) = (trace.header(), trace.facts());
    writeln!(out, "{}", trace.path().display())?;
    if header.simulated {
        writeln!(
            out,
            "  SIMULATED: recorded on a stand-in SDK, no GPU did this work ({})",
            header.sdk
        )?;
    }
    writeln!(
        out,
        "  process   pid {}{} on {}: {}",
        header.pid,
        if header.rank < 0 {
            String::new()
        } else {
            format!(" (rank {})", header.rank)
        },
        or_unknown(&header.host),
        or_unknown(&header.program)
    )?;
    if !header.simulated {
        writeln!(out, "  SDK       {}", or_unknown(&header.sdk))?;
    }
    writeln!(
        out,
        "  machine   {}, {}, {}",
        plural(facts.agents.len(), "agent"),
        plural(facts.queues.len(), "queue"),
        plural(facts.streams.len(), "stream")
    )?;
    if header.mode == Mode::Flight {
        writeln!(
            out,
            "  mode      flight: the newest records are kept; the vendor's SDK itself keeps memory for every traced call, \
             so the process grows although this trace does not"
        )?;
    } else {
        writeln!(out, "  mode      {}", header.mode.name())?;
    }
    for report in reports {
        write_session(out, report)?;
    }
    let cost = trace.cost();
    write!(
        out,
        "  cost      {} records, {} bytes",
        cost.records, cost.bytes
    )?;
    if cost.sampled_appends > 0 {
        write!(
            out,
            "; {} ns an append ({} calls sampled)",
            cost.append_ns, cost.sampled_appends
        )?;
    }
    writeln!(out)?;
    for damage in trace.damage() {
        writeln!(out, "  damaged   {damage}")?;
    }
    write_kernels(out, &kernels(trace))?;
    writeln!(out, "{}", counts.loss_line())?;
    writeln!(out, "{}", counts.verdict_line())
}

fn write_session(out: &mut String, report: &SessionReport) -> std::fmt::Result {
    write!(
        out,
        "  session {}: {}, proof {}",
        report.id,
        report.verdict.name(),
        report.proof.name()
    )?;
    if report.unfinished {
        write!(out, ", never closed: the process died or still runs")?;
    }
    if report.retirement_off {
        write!(out, ", retirement was switched off")?;
    }
    writeln!(out)?;
    for (what, work) in [
        ("dispatches", &report.dispatches),
        ("copies", &report.copies),
    ] {
        writeln!(
            out,
            "    {what:<10} issued {}, recorded {}, retired without a record {}, missing {}",
            work.issued,
            work.recorded,
            work.retired_without_record,
            work.missing()
        )?;
    }
    writeln!(
        out,
        "    API calls  recorded {}, open at stop {}",
        report.api_recorded, report.open_at_stop
    )?;
    let flagged = report.flagged;
    let odd: Vec<String> = [
        ("outside the window", flagged.outside_window),
        ("untimed", flagged.untimed),
        ("end before start", flagged.end_before_start),
        ("unknown stream", flagged.unknown_stream),
        ("no launch", flagged.no_launch),
    ]
    .into_iter()
    .filter(|&(_, count)| count > 0)
    .map(|(what, count)| format!("{what} {count}"))
    .collect();
    if !odd.is_empty() {
        writeln!(out, "    flagged    {}", odd.join(", "))?;
    }
    writeln!(
        out,
        "    watermark  whole up to correlation id {}, highest issued {}",
        report.low_watermark, report.high_watermark
    )?;
    if report.requested_ns != 0 && report.returned_ns >= report.requested_ns {
        write!(
            out,
            "    stop       took {}",
            duration(report.returned_ns - report.requested_ns)
        )?;
        if report.last_arrival_ns > report.requested_ns {
            write!(
                out,
                ", {} after the last arrival",
                duration(report.returned_ns.saturating_sub(report.last_arrival_ns))
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_kernels(out: &mut String, kernels: &[Kernel]) -> std::fmt::Result {
    if kernels.is_empty() {
        return Ok(());
    }
    writeln!(out, "  kernels      count        total      average  name")?;
    for kernel in kernels.iter().take(KERNELS_SHOWN) {
        let average = kernel.total_ns.checked_div(kernel.count).unwrap_or(0);
        let mut name: String = kernel.name.chars().take(NAME_CHARS).collect();
        if name.len() < kernel.name.len() {
            name.push_str("...");
        }
        writeln!(
            out,
            "          {:>10} {:>12} {:>12}  {}",
            kernel.count,
            duration(kernel.total_ns),
            duration(average),
            printable(&name)
        )?;
    }
    if kernels.len() > KERNELS_SHOWN {
        writeln!(
            out,
            "             and {} more (--json lists all)",
            kernels.len() - KERNELS_SHOWN
        )?;
    }
    Ok(())
}

/// Text that can't move a terminal's cursor: names come from the traced program.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        printable(text)
    }
}

fn plural(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// A duration with a unit that suits it.
pub(crate) fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::builder::Builder;
    use strandline::{Proof, SessionEnd, Verdict};

    fn sample() -> Builder {
        let mut region = Builder::new();
        region.session_begin(1, 1_000).gpu(7, 0, "gfx942", "MI300X");
        region
            .kernel(5, b"_Z3foov.kd")
            .kernel(6, b"bar.kd")
            .kernel(9, b"bar.kd");
        for (id, kernel, ns) in [(1, 5, 100), (2, 6, 500), (3, 9, 300), (4, 5, 0)] {
            let start = if ns == 0 { 0 } else { 1_100 };
            region.record(
                0,
                Kind::Dispatch,
                1,
                &[start, start + ns, id, 0, id, kernel],
            );
        }
        region.session_end(&SessionEnd {
            session: 1,
            verdict: Verdict::Complete,
            proof: Proof::Pairs,
            dispatches: Work {
                issued: 4,
                ..Work::default()
            },
            begin_ns: 1_000,
            requested_ns: 2_000,
            last_arrival_ns: 2_500,
            returned_ns: 2_600,
            ..SessionEnd::default()
        });
        region
    }

    #[test]
    fn the_json_has_the_fields_of_the_contract_in_their_order() {
        let trace = sample().trace();
        let json = serde_json::to_string(&Summary::new(&trace, &report::sessions(&trace))).unwrap();
        let expected = concat!(
            r#"{"schema":"strandline.summary/1","simulated":true,"#,
            r#""process":{"pid":4242,"program":"synthetic","boot_id":"73796e74-6865-7469-632d-626f6f742d31","start_ns":500},"#,
            r#""agents":1,"queues":0,"streams":0,"sessions":[{"id":1,"verdict":"complete","proof":"pairs","#,
            r#""dispatches":{"issued":4,"recorded":4,"retired_without_record":0,"missing":0},"#,
            r#""copies":{"issued":0,"recorded":0,"retired_without_record":0,"missing":0},"#,
            r#""api":{"recorded":0,"open_at_stop":0},"low_watermark":0,"high_watermark":0,"late":0,"#,
            r#""lost":{"no_segment":0,"no_lane":0,"after_close":0,"reentry":0,"sdk_dropped":0,"sticky_full":0},"#,
            r#""flagged":{"outside_window":0,"untimed":1,"end_before_start":0,"unknown_stream":0,"no_launch":4},"#,
            r#""stop":{"requested_ns":2000,"last_arrival_ns":2500,"returned_ns":2600}}],"#,
            r#""kernels":[{"name":"bar","mangled":"bar","count":2,"total_ns":800},"#,
            r#"{"name":"foo()","mangled":"_Z3foov","count":2,"total_ns":100}],"#,
            r#""cost":{"records":0,"bytes":2048,"sampled_appends":0,"append_ns":0}}"#
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn the_text_ends_with_the_verdict_and_names_the_simulation() {
        let trace = sample().trace();
        let reports = report::sessions(&trace);
        let text = text(&trace, &reports, &Counts::of(&trace));
        assert!(text.contains("SIMULATED"), "{text}");
        assert!(
            text.contains("stop       took 600 ns, 100 ns after the last arrival"),
            "{text}"
        );
        assert!(
            text.ends_with("\nlost 0, late 0\ncomplete: 4 of 4 dispatches\n"),
            "{text}"
        );
    }

    #[test]
    fn flight_mode_says_that_the_sdk_grows() {
        let mut region = sample();
        region.header_mut().mode = Mode::Flight;
        let trace = region.trace();
        let text = text(&trace, &report::sessions(&trace), &Counts::of(&trace));
        assert!(text.contains("the process grows"), "{text}");
    }

    #[test]
    fn durations_and_terminals() {
        assert_eq!(
            [0, 999, 1_000, 1_500_000, 2_000_000_000].map(duration),
            ["0 ns", "999 ns", "1.000 us", "1.500 ms", "2.000 s"]
        );
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
