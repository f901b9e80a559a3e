//! `strandline dump`: one JSON object a line for each record, with the vendor's raw numbers.
//!
//! Written by hand into one buffer: a trace has millions of records, and each line is a dozen numbers.

use std::collections::HashMap;
use std::io::{self, Write};

use strandline::Trace;
use strandline::facts::Facts;
use strandline::record::{Kind, Record, flag, high, low};
use strandline::report::{self, IdSet, SessionReport};

use crate::args;
use crate::counts::Counts;
use crate::failure::Failure;
use crate::{input, names};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// Runs the command.
pub(crate) fn run(args: &args::Dump) -> Result<u8, Failure> {
    let trace = input::open(&args.input)?;
    let reports = report::sessions(&trace);
    let mut counts = Counts::default();
    counts.add(&trace, &reports);
    dump(&trace, &reports, &mut io::stdout().lock()).map_err(|error| Failure::stdout(&error))?;
    for damage in trace.damage() {
        crate::failure::say(format_args!("reading {}: {damage}", args.input.display()));
    }
    Ok(counts.code())
}

/// Writes all records to `out`.
fn dump(trace: &Trace, reports: &[SessionReport], out: &mut impl Write) -> io::Result<()> {
    let mut lines = Lines::new(trace, reports);
    for entry in trace.entries() {
        lines.record(&entry.record, 0);
        if lines.buffer.len() >= BUFFER_BYTES {
            out.write_all(&lines.buffer)?;
            lines.buffer.clear();
        }
    }
    for words in &trace.facts().open {
        if let Ok(record) = Record::parse(words) {
            lines.record(&record, flag::OPEN);
        }
    }
    for retired in &trace.facts().retired {
        lines.retired(retired);
    }
    out.write_all(&lines.buffer)?;
    out.flush()
}

struct Lines<'a> {
    trace: &'a Trace,
    facts: &'a Facts,
    launches: IdSet,
    windows: HashMap<u32, (u64, u64)>,
    kernels: HashMap<u64, String>,
    strings: HashMap<u64, String>,
    operations: HashMap<(u8, u16), String>,
    buffer: Vec<u8>,
    digits: itoa::Buffer,
}

impl<'a> Lines<'a> {
    fn new(trace: &'a Trace, reports: &[SessionReport]) -> Self {
        let windows = reports
            .iter()
            .map(|report| (report.id as u32, report.window()))
            .collect();
        Self {
            trace,
            facts: trace.facts(),
            launches: report::launch_ids(trace),
            windows,
            kernels: HashMap::new(),
            strings: HashMap::new(),
            operations: HashMap::new(),
            buffer: Vec::with_capacity(BUFFER_BYTES + 64 * 1024),
            digits: itoa::Buffer::new(),
        }
    }

    fn record(&mut self, record: &Record<'_>, more_flags: u16) {
        let Some(kind) = record.kind() else { return };
        let Some(kind_name) = names::kind(kind) else {
            return;
        };
        let device = matches!(
            kind,
            Kind::Dispatch | Kind::Copy | Kind::Alloc | Kind::Scratch
        );
        let open = more_flags & flag::OPEN != 0;
        self.text("{\"kind\":\"");
        self.text(kind_name);
        self.text("\",\"session\":");
        self.number(record.session().into());
        let dispatch = matches!(kind, Kind::Dispatch | Kind::Enqueue);
        self.optional("dispatch_id", dispatch.then(|| record.dispatch_id()));
        self.optional("correlation_id", Some(record.correlation_id()));
        self.text(",\"external_ids\":[");
        if record.external_id() != 0 {
            self.number(record.external_id());
        }
        self.text("]");
        self.optional("thread", Some(record.thread().into()));
        let (agent, queue) = match kind {
            Kind::Dispatch | Kind::Scratch => (Some(record.word(8)), Some(record.word(9))),
            Kind::Enqueue => (None, Some(record.word(6))),
            Kind::Copy => (Some(self.copying_agent(record)), None),
            Kind::Alloc => (Some(record.word(8)), None),
            _ => (None, None),
        };
        self.optional("agent", agent);
        self.optional("queue", queue);
        self.optional(
            "stream",
            (record.stream() != 0).then(|| record.stream().into()),
        );
        self.kernel(match kind {
            Kind::Dispatch => Some(record.word(6)),
            Kind::Enqueue => Some(record.word(5)),
            _ => None,
        });
        self.name(kind, record);
        let (start, end) = if device {
            (record.start(), Some(record.end()))
        } else {
            let ticks = |ticks| self.trace.clock().vendor_ns(ticks);
            let start = ticks(record.start());
            let ends = matches!(kind, Kind::Api | Kind::Range) && !open && record.end() != 0;
            (start, ends.then(|| ticks(record.end())))
        };
        self.optional("start_ns", Some(start));
        self.optional("end_ns", end);
        if kind == Kind::Dispatch {
            let [xy, zx, yz] = [11, 12, 13].map(|index| record.word(index));
            self.triple("grid", [high(zx), low(yz), high(yz)]);
            self.triple("block", [low(xy), high(xy), low(zx)]);
        } else {
            self.text(",\"grid\":null,\"block\":null");
        }
        self.optional("bytes", bytes(kind, record));
        let mut flags = record.flags() | more_flags;
        if matches!(kind, Kind::Dispatch | Kind::Copy) {
            flags |= self.device_flags(record);
        }
        self.flags(flags);
    }

    fn retired(&mut self, retired: &strandline::facts::Retired) {
        self.text("{\"kind\":\"retired\",\"session\":");
        self.number(retired.session);
        self.optional(
            "dispatch_id",
            (!retired.copy).then_some(retired.dispatch_id),
        );
        self.optional("correlation_id", Some(retired.correlation_id));
        self.text(",\"external_ids\":[],\"thread\":null,\"agent\":null,\"queue\":null,\"stream\":null,\"kernel\":null");
        self.text(if retired.copy {
            ",\"name\":\"copies without a record\""
        } else {
            ",\"name\":\"dispatch without a record\""
        });
        self.text(",\"start_ns\":null,\"end_ns\":null,\"grid\":null,\"block\":null,\"bytes\":null,\"count\":");
        self.number(retired.count.into());
        self.flags(0);
    }

    /// The GPU of a copy: its destination, unless only its source is one.
    fn copying_agent(&self, record: &Record<'_>) -> u64 {
        let (source, destination) = (record.word(8), record.word(9));
        let is_gpu = |handle| {
            self.facts
                .agent(handle)
                .is_some_and(strandline::facts::Agent::is_gpu)
        };
        if is_gpu(source) && !is_gpu(destination) {
            source
        } else {
            destination
        }
    }

    /// Which odd things hold for a dispatch or copy.
    fn device_flags(&self, record: &Record<'_>) -> u16 {
        let window = self
            .windows
            .get(&record.session())
            .copied()
            .unwrap_or((0, u64::MAX));
        let mut flags = report::device_flags(record.flags(), record.start(), record.end(), window);
        let joined = [record.correlation_id(), record.ancestor_id()]
            .into_iter()
            .any(|id| id != 0 && self.launches.contains(id));
        if !joined {
            flags |= flag::NO_LAUNCH;
        }
        flags
    }

    fn kernel(&mut self, kernel_id: Option<u64>) {
        self.text(",\"kernel\":");
        let Some(id) = kernel_id else {
            self.text("null");
            return;
        };
        let facts = self.facts;
        let json = self.kernels.entry(id).or_insert_with(|| {
            names::mangled(facts, id).map_or_else(|| "null".to_owned(), |name| quoted(&name))
        });
        self.buffer.extend_from_slice(json.as_bytes());
    }

    fn name(&mut self, kind: Kind, record: &Record<'_>) {
        self.text(",\"name\":");
        let facts = self.facts;
        let json = match kind {
            Kind::Api | Kind::OpenCall => {
                let what = record.word(5);
                let key = ((what >> 16) as u8, what as u16);
                self.operations
                    .entry(key)
                    .or_insert_with(|| quoted(&facts.operation_name(key.0, key.1)))
            }
            Kind::Range | Kind::OpenRange | Kind::Mark | Kind::RangeStart => self
                .strings
                .entry(record.word(6))
                .or_insert_with_key(|&id| quoted(&facts.text(id))),
            Kind::Copy | Kind::CopyIssue | Kind::Alloc | Kind::Scratch => {
                let operation = low(record.word(5));
                // Vendor operations share the map with API calls, under a domain that no API has.
                self.operations
                    .entry((kind as u8 | 0x80, operation as u16))
                    .or_insert_with(|| quoted(&names::device_operation(kind, operation)))
            }
            _ => {
                self.text("null");
                return;
            }
        };
        self.buffer.extend_from_slice(json.as_bytes());
    }

    fn flags(&mut self, flags: u16) {
        self.text(",\"flags\":[");
        let mut first = true;
        for (bit, name) in names::FLAGS {
            if flags & bit != 0 {
                self.text(if first { "\"" } else { ",\"" });
                self.text(name);
                self.text("\"");
                first = false;
            }
        }
        self.text("]}\n");
    }

    fn triple(&mut self, key: &str, values: [u32; 3]) {
        self.text(",\"");
        self.text(key);
        self.text("\":[");
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.text(",");
            }
            self.number(value.into());
        }
        self.text("]");
    }

    fn optional(&mut self, key: &str, value: Option<u64>) {
        self.text(",\"");
        self.text(key);
        self.text("\":");
        match value {
            Some(value) => self.number(value),
            None => self.text("null"),
        }
    }

    fn number(&mut self, value: u64) {
        let text = self.digits.format(value);
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }
}

/// Bytes that a record moves or allocates, if it says.
fn bytes(kind: Kind, record: &Record<'_>) -> Option<u64> {
    use strandline::record::api_arg;
    match kind {
        Kind::Copy | Kind::CopyIssue | Kind::Alloc | Kind::Scratch => Some(record.word(6)),
        Kind::Api | Kind::OpenCall if record.word(8) & api_arg::BYTES != 0 => Some(record.word(9)),
        _ => None,
    }
}

/// Text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use strandline::builder::Builder;
    use strandline::record::{domain, pair};
    use strandline::{Proof, SessionEnd, Verdict, Work};

    fn lines(region: &Builder) -> Vec<Value> {
        let mut out = Vec::new();
        let trace = region.trace();
        dump(&trace, &report::sessions(&trace), &mut out).unwrap();
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn every_kind_has_the_fields_of_the_contract() {
        let mut region = Builder::new();
        region
            .session_begin(1, 1_000)
            .kernel(9, b"_Z1kv.kd")
            .operation(domain::RUNTIME, 214, "hipLaunchKernel");
        let range = region.string(b"a \"range\"\n\x01\xff");
        let place = pair(3, 42);
        region.record(
            0,
            Kind::Api,
            1,
            &[1_010, 1_020, 7, 0, 214 | 1 << 16, 99, pair(3, 42)],
        );
        region.record(0, Kind::Enqueue, 1, &[1_015, 5, 7, 0, 9, 0, place]);
        region.record(
            0,
            Kind::Dispatch,
            1,
            &[
                1_100,
                1_200,
                7,
                0,
                5,
                9,
                88,
                11,
                0,
                place,
                pair(64, 2),
                pair(1, 256),
                pair(4, 5),
                0,
                0,
            ],
        );
        region.record(
            0,
            Kind::Copy,
            1,
            &[0, 1_300, 8, 0, 2, 4096, 0, 10, 11, pair(0, 42)],
        );
        region.record(
            0,
            Kind::Range,
            1,
            &[1_001, 1_900, 0, 0, 0, range, pair(0, 42)],
        );
        region.record(0, Kind::Mark, 1, &[1_002, 0, 0, 0, 0, range, pair(0, 42)]);
        region.record(
            0,
            Kind::OpenCall,
            1,
            &[1_950, 0, 12, 0, 214 | 1 << 16, 0, place],
        );
        region.record(0, Kind::Retired, 1, &[pair(0, 1), 6, 9, 1]);
        region.record(0, Kind::Thread, 1, &[1_000, 42, 1]);
        region.session_end(&SessionEnd {
            session: 1,
            verdict: Verdict::Complete,
            proof: Proof::Pairs,
            dispatches: Work {
                issued: 1,
                ..Work::default()
            },
            begin_ns: 1_000,
            returned_ns: 2_000,
            ..SessionEnd::default()
        });
        let lines = lines(&region);
        let fields = [
            "kind",
            "session",
            "dispatch_id",
            "correlation_id",
            "external_ids",
            "thread",
            "agent",
            "queue",
            "stream",
            "kernel",
            "name",
            "start_ns",
            "end_ns",
            "grid",
            "block",
            "bytes",
            "flags",
        ];
        for line in &lines {
            for field in fields {
                assert!(line.get(field).is_some(), "{field} of {line}");
            }
        }
        let kinds: Vec<_> = lines
            .iter()
            .map(|line| line["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "api", "enqueue", "dispatch", "copy", "range", "mark", "api", "retired"
            ]
        );
        assert_eq!(
            lines[2],
            json!({"kind": "dispatch", "session": 1, "dispatch_id": 5, "correlation_id": 7, "external_ids": [88],
                "thread": 42, "agent": 11, "queue": 0, "stream": 3, "kernel": "_Z1kv", "name": null, "start_ns": 1100,
                "end_ns": 1200, "grid": [256, 4, 5], "block": [64, 2, 1], "bytes": null, "flags": []})
        );
        assert_eq!(
            (&lines[0]["name"], &lines[0]["external_ids"]),
            (&json!("hipLaunchKernel"), &json!([99]))
        );
        assert_eq!(
            (&lines[3]["flags"], &lines[3]["start_ns"]),
            (&json!(["untimed", "no_launch"]), &json!(0))
        );
        assert_eq!(
            (&lines[3]["stream"], &lines[3]["name"]),
            (&Value::Null, &json!("HostToDevice"))
        );
        assert_eq!(lines[4]["name"], json!("a \"range\"\n\u{1}\u{fffd}"));
        assert_eq!(
            (&lines[6]["flags"], &lines[6]["end_ns"]),
            (&json!(["open"]), &Value::Null)
        );
    }

    #[test]
    fn host_times_are_in_the_vendors_clock_and_vendor_times_are_raw() {
        let mut region = Builder::new();
        let clock = |ticks, vendor_ns| strandline::anchors::ClockAnchor {
            ticks,
            vendor_ns,
            ..Default::default()
        };
        region
            .anchor(clock(1_000, 500_000))
            .anchor(clock(2_000, 502_000));
        region.session_begin(1, 500_000);
        region.record(0, Kind::Api, 1, &[1_500, 1_600, 7]);
        region.record(0, Kind::Dispatch, 1, &[u64::MAX, 5, 7]);
        let lines = lines(&region);
        assert_eq!(
            (&lines[0]["start_ns"], &lines[0]["end_ns"]),
            (&json!(501_000), &json!(501_200))
        );
        assert_eq!(lines[1]["start_ns"], json!(u64::MAX));
        assert_eq!(lines[1]["flags"], json!(["end_before_start"]));
        assert_eq!(lines[1]["kernel"], Value::Null);
    }

    #[test]
    fn a_closed_pipe_is_an_error_of_that_kind() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut region = Builder::new();
        region.session_begin(1, 0).record(0, Kind::Mark, 1, &[1]);
        let error = dump(&region.trace(), &[], &mut Closed).unwrap_err();
        assert_eq!(Failure::stdout(&error).code, 0);
    }
}
