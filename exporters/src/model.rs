//! What a whole export needs to know before its first event: identities, numbers and names, found in one pass over the
//! records of each process.
//!
//! Everything here is decided by the content of the records and facts, never by the order in which they lie in the file:
//! the same records give the same numbers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use strandline::Verdict;
use strandline::Work;
use strandline::anchors::ClockAnchor;
use strandline::facts::{Agent, Facts, KernelSymbol};
use strandline::loss::LossReason;
use strandline::record::{Kind, Record, StreamKind, domain, flag, head_word, label, pair};
use strandline::report::{self, SessionReport};
use strandline::{Trace, hash};

use crate::demangle;
use crate::export::{ExportReport, Options};
use crate::external::Externals;
use crate::join::{Drawn, IdMap, LaunchTable};
use crate::lanes::Started;
use crate::order;
use crate::phases::{Phases, Watch};
use crate::scan::{self, Found, Scan, Shown, Span};
use crate::stretch::Stretch;
use crate::windows::Windows;

/// First process id of GPUs: above every id that a Linux kernel hands out (at most 4,194,304).
pub(crate) const GPU_PID_FIRST: u64 = 5_000_000;
/// Ids of the GPUs of one process.
const GPU_PIDS: u64 = 1_000;
/// First process id for processes whose own is taken or missing.
const SPARE_PID_FIRST: u64 = 1_000_000_000;
/// First thread id for threads whose own is missing or too large.
const SPARE_TID_FIRST: u64 = 2_000_000_000;
/// Largest process or thread id that every reader takes.
const ID_MAX: u64 = (1 << 31) - 1;
/// Correlation ids of one process in an export of several.
const CORRELATION_SPAN: u64 = 1 << 40;

/// The clock of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeBase {
    /// REALTIME ns since 1970.
    Unix,
    /// BOOTTIME ns of the first process's machine.
    Boot,
}

/// A GPU, or an agent that work ran on and that no fact describes.
#[derive(Clone, Debug)]
pub(crate) struct Device<'a> {
    /// Number in the output: the process's own device number.
    pub(crate) number: u64,
    /// Number among all GPUs of the machine.
    pub(crate) gpu_id: u64,
    /// What is known of it.
    pub(crate) agent: Option<&'a Agent>,
    /// The agent's handle.
    pub(crate) handle: u64,
}

impl Device<'_> {
    /// The name for people.
    pub(crate) fn name(&self) -> String {
        match self.agent {
            Some(agent) if !agent.product.is_empty() => agent.product.clone(),
            Some(agent) if !agent.name.is_empty() => agent.name.clone(),
            _ => format!("unknown agent {:#x}", self.handle),
        }
    }
}

/// A stream that work ran on.
#[derive(Clone, Debug)]
pub(crate) struct StreamOut {
    /// Number in the output, from 1.
    pub(crate) number: u64,
    /// The API's handle.
    pub(crate) handle: u64,
    /// What is written behind the number, if anything.
    pub(crate) note: String,
    /// False for the lane of work whose stream nobody knows.
    pub(crate) known: bool,
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    /// Mangled, without the descriptor's suffix.
    pub(crate) mangled: Vec<u8>,
    /// For display.
    pub(crate) display: Vec<u8>,
    /// False when the name itself is not in the trace, only its id.
    pub(crate) named: bool,
    /// What the symbol says.
    pub(crate) symbol: KernelSymbol,
    /// Agent of its code object.
    pub(crate) agent: u64,
}

/// An API operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Name.
    pub(crate) name: Vec<u8>,
    /// Domain.
    pub(crate) domain: u8,
    /// Number.
    pub(crate) number: u16,
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadOut {
    /// Id in the output.
    pub(crate) tid: u64,
    /// Its own name, if it has one.
    pub(crate) name: Option<String>,
}

/// Something that the trace says of its own quality, at a place in time.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// When, vendor ns.
    pub(crate) start: u64,
    /// Until when, for what concerns an interval.
    pub(crate) end: Option<u64>,
    /// What.
    pub(crate) text: String,
    /// Records concerned.
    pub(crate) count: u64,
}

/// One process.
#[derive(Debug)]
pub(crate) struct Process<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) facts: &'a Facts,
    pub(crate) reports: Vec<SessionReport>,
    /// Differs between any two processes of any two machines.
    pub(crate) identity: u64,
    /// Process id in the output.
    pub(crate) pid: u64,
    /// First process id of its GPUs in the output.
    pub(crate) gpu_pid: u64,
    /// Added to correlation ids in the output, so that those of several processes differ.
    pub(crate) correlation_base: u64,
    /// Added to vendor ns: the output's clock.
    pub(crate) offset: i64,
    pub(crate) devices: Vec<Device<'a>>,
    device_of: IdMap<u64, u32>,
    pub(crate) streams: Vec<StreamOut>,
    stream_of: IdMap<u32, u32>,
    pub(crate) threads: BTreeMap<u32, ThreadOut>,
    /// Kernels that were looked up so far.
    kernels: RwLock<IdMap<u64, Arc<Kernel>>>,
    pub(crate) operations: Vec<Operation>,
    operation_of: IdMap<u32, u32>,
    pub(crate) launches: LaunchTable,
    /// External ids of the domains from 1 up; none where each stretch has its own.
    pub(crate) externals: Externals,
    /// Calls and ranges that never ended, as records.
    pub(crate) open: Vec<Vec<u64>>,
    /// True when some of them are what the lanes say that their threads are inside of.
    pub(crate) has_inside: bool,
    pub(crate) shown: Shown<'a>,
    pub(crate) scan: Scan,
    pub(crate) notes: Vec<Note>,
    /// Dispatches that are drawn, by id; none where `windows` stand for the tables.
    pub(crate) drawn: Option<Drawn>,
    /// What stands for the tables of ids where they have no room.
    pub(crate) windows: Option<Windows>,
    /// First and last start of what the output shows of each run of cells, output's clock.
    pub(crate) bounds: Vec<(u64, u64)>,
    /// All records that the output shows, when they are few enough to be held.
    pub(crate) ready: Option<Stretch<'a>>,
}

/// All processes of an export.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    pub(crate) processes: Vec<Process<'a>>,
    /// Start of the first event in the output's clock.
    pub(crate) first: u64,
    /// Samples of start times, sorted; one for so many records.
    pub(crate) samples: Vec<u64>,
    pub(crate) records: u64,
    /// Where the time went so far.
    pub(crate) phases: Phases,
}

/// Unix offset and BOOTTIME offset of a trace's vendor clock, as far as its facts say.
fn offsets(trace: &Trace) -> (i128, Option<i128>) {
    let facts = trace.facts();
    let header = trace.header();
    let anchor = facts
        .clock_anchors
        .iter()
        .find(|anchor| anchor.realtime_ns != 0);
    let unix = match anchor {
        Some(anchor) => i128::from(anchor.realtime_ns) - i128::from(anchor.vendor_ns),
        None => match facts.session_begins.iter().find(|begin| begin.unix_ns != 0) {
            Some(begin) => i128::from(begin.unix_ns) - i128::from(begin.vendor_ns),
            None => {
                let first = facts
                    .session_begins
                    .first()
                    .map_or(0, |begin| begin.vendor_ns);
                i128::from(header.created_unix_ns) - i128::from(first)
            }
        },
    };
    let boot = facts
        .clock_anchors
        .iter()
        .find(|anchor| anchor.boottime_ns != 0)
        .map(|anchor| i128::from(anchor.boottime_ns) - i128::from(anchor.vendor_ns));
    (unix, boot)
}

fn clamp(offset: i128) -> i64 {
    offset.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl<'a> Model<'a> {
    pub(crate) fn new(traces: &'a [Trace], base: TimeBase, options: &Options<'_>) -> Self {
        let mut watch = Watch::start();
        let mut order: Vec<&Trace> = traces.iter().collect();
        order.sort_by_key(|trace| {
            let header = trace.header();
            (
                header.rank,
                header.host_hash,
                header.boot_id,
                header.pid_namespace,
                header.pid,
                header.process_start_ns,
            )
        });
        let several = order.len() > 1;
        let mut machines: Vec<([u8; 16], u64, u64)> = Vec::new();
        let mut taken = BTreeSet::new();
        let mut first_of_boot: Vec<([u8; 16], i128)> = Vec::new();
        let mut reference = None;
        let mut processes: Vec<Process<'a>> = Vec::new();
        // Records that may be held, and what tables of ids may have more.
        let mut room = options.batch_records_max;
        let mut table_bytes = options.table_bytes_max;
        let mut bytes = order::ROOM_BYTES;
        for (index, trace) in order.into_iter().enumerate() {
            let header = trace.header();
            let (unix, boot) = offsets(trace);
            // One machine has one offset between BOOTTIME and REALTIME, whatever each process measured.
            let unix = match boot {
                None => unix,
                Some(boot) => match first_of_boot.iter().find(|(id, _)| *id == header.boot_id) {
                    Some((_, between)) => boot + between,
                    None => {
                        first_of_boot.push((header.boot_id, unix - boot));
                        unix
                    }
                },
            };
            let between = *reference.get_or_insert(match boot {
                Some(boot) => unix - boot,
                None => unix,
            });
            let offset = match base {
                TimeBase::Unix => unix,
                TimeBase::Boot if !several => boot.unwrap_or(0),
                TimeBase::Boot => unix - between,
            };
            let machine = match machines.iter().position(|(boot_id, host, _)| {
                (*boot_id, *host) == (header.boot_id, header.host_hash)
            }) {
                Some(at) => at,
                None => {
                    let first = machines.last().map_or(0, |machine| machine.2);
                    machines.push((header.boot_id, header.host_hash, first));
                    machines.len() - 1
                }
            };
            let os_pid = u64::from(header.pid);
            let pid = if (1..GPU_PID_FIRST).contains(&os_pid) && !taken.contains(&os_pid) {
                os_pid
            } else {
                SPARE_PID_FIRST + index as u64
            };
            taken.insert(pid);
            let gpu_first = if machine == 0 {
                0
            } else {
                machines[machine - 1].2
            };
            let mut process = Process::new(
                trace,
                pid,
                clamp(offset),
                gpu_first,
                base == TimeBase::Boot,
                scan::Settings {
                    index,
                    room,
                    threads: options.threads,
                    table_bytes,
                    bytes,
                },
                options,
            );
            let held = process.ready.as_ref().map(Stretch::len);
            room = held.map_or(0, |held| room - held);
            table_bytes = table_bytes.saturating_sub(process.table_bytes());
            let taken = process.table_bytes() + held.unwrap_or(0) as u64 * order::RECORD_BYTES;
            bytes = bytes.saturating_sub(taken);
            process.gpu_pid = GPU_PID_FIRST + index as u64 * GPU_PIDS;
            process.correlation_base = if several {
                index as u64 * CORRELATION_SPAN
            } else {
                0
            };
            let gpus = process
                .devices
                .iter()
                .map(|device| device.gpu_id + 1)
                .max()
                .unwrap_or(0);
            machines[machine].2 = machines[machine].2.max(gpus).max(gpu_first);
            processes.push(process);
        }
        let first = processes
            .iter()
            .filter(|process| process.scan.first_ns != u64::MAX)
            .map(|process| process.out_ns(process.scan.first_ns))
            .min()
            .unwrap_or(0);
        let mut samples: Vec<u64> = processes
            .iter()
            .flat_map(|process| process.scan.samples.iter().copied())
            .collect();
        samples.sort_unstable();
        let records = processes.iter().map(|process| process.scan.records).sum();
        let shared = processes.iter().map(|process| process.scan.shared).sum();
        Self {
            processes,
            first,
            samples,
            records,
            phases: Phases {
                first_pass: watch.lap(),
                first_pass_shared: shared,
                ..Phases::default()
            },
        }
    }

    /// What is known before the first event is written.
    pub(crate) fn report(&self) -> ExportReport {
        let mut report = ExportReport {
            records: self.records,
            ..ExportReport::default()
        };
        for process in &self.processes {
            report.untimed += process.scan.untimed;
            report.end_before_start += process.scan.end_before_start;
            report.outside_window += process.scan.outside_window;
            report.damage += process.trace.damage().len();
            report.sessions.extend(process.reports.iter().cloned());
        }
        report
    }

    /// True when the export holds more than one process.
    pub(crate) fn is_several(&self) -> bool {
        self.processes.len() > 1
    }
}

impl<'a> Process<'a> {
    fn new(
        trace: &'a Trace,
        pid: u64,
        offset: i64,
        gpu_first: u64,
        wants_issues: bool,
        settings: scan::Settings,
        options: &Options<'_>,
    ) -> Self {
        let facts = trace.facts();
        let header = trace.header();
        let only = options.session.map(|session| session as u32);
        let mut reports = report::outlines(trace);
        reports.retain(|report| options.session.is_none_or(|session| report.id == session));
        let shown = Shown {
            trace,
            offset,
            only,
            wants_issues,
            spans: reports.iter().map(Span::new).collect(),
            last_ns: 0,
        };
        let boot_id = header.boot_id.as_chunks::<8>().0;
        let identity = hash::words(
            [
                header.host_hash,
                u64::from_le_bytes(boot_id[0]),
                u64::from_le_bytes(boot_id[1]),
                header.pid_namespace,
                u64::from(header.pid),
                header.process_start_ns,
            ]
            .into_iter(),
        );
        let mut process = Self {
            trace,
            facts,
            reports,
            identity,
            pid,
            gpu_pid: GPU_PID_FIRST,
            correlation_base: 0,
            offset,
            devices: Vec::new(),
            device_of: IdMap::default(),
            streams: Vec::new(),
            stream_of: IdMap::default(),
            threads: BTreeMap::new(),
            kernels: RwLock::default(),
            operations: Vec::new(),
            operation_of: IdMap::default(),
            launches: LaunchTable::default(),
            externals: Externals::default(),
            open: Vec::new(),
            has_inside: false,
            shown,
            scan: Scan::default(),
            notes: Vec::new(),
            drawn: None,
            windows: None,
            bounds: Vec::new(),
            ready: None,
        };
        process.find_open();
        let scan::Result {
            found,
            scan,
            launches,
            externals,
            drawn,
            windows,
            bounds,
            ready,
        } = scan::scan(&mut process, settings);
        process.scan = scan;
        process.launches = launches;
        process.externals = externals;
        process.drawn = drawn;
        process.windows = windows;
        process.bounds = bounds;
        process.ready = ready;
        process.name_devices(&found, gpu_first);
        process.name_streams(&found);
        process.name_threads(&found);
        process.name_operations(&found);
        process.add_fallbacks();
        process.write_notes();
        process
    }

    /// Calls and ranges that were open when the session was accounted for and, where no session was, those that the
    /// lanes say their threads are inside of.
    fn find_open(&mut self) {
        self.open = self
            .facts
            .open
            .iter()
            .filter(|words| self.shown.takes_session((words[0] >> 32) as u32))
            .cloned()
            .collect();
        let unfinished: Vec<u64> = self
            .reports
            .iter()
            .filter(|report| report.unfinished)
            .map(|report| report.id)
            .collect();
        if unfinished.is_empty() {
            return;
        }
        for lane in self.trace.lanes() {
            for (depth, inside) in lane.inside.iter().enumerate() {
                if !unfinished.contains(&u64::from(inside.session)) {
                    continue;
                }
                let mut words = vec![0u64; 8];
                words[0] = head_word(Kind::OpenCall, 1, flag::OPEN, inside.session);
                words[1] = inside.start_ticks;
                words[3] = inside.correlation_id;
                words[5] = u64::from(inside.operation)
                    | u64::from(inside.domain) << 16
                    | (depth as u64) << 24;
                words[7] = pair(0, lane.thread);
                self.open.push(words);
                self.has_inside = true;
            }
        }
    }

    fn name_devices(&mut self, found: &Found, gpu_first: u64) {
        let mut gpus: Vec<&Agent> = self
            .facts
            .agents
            .iter()
            .filter(|agent| agent.is_gpu())
            .collect();
        gpus.sort_by_key(|agent| (agent.type_index, agent.handle));
        let mut numbers = BTreeSet::new();
        for agent in gpus {
            let number = free_number(&mut numbers, u64::from(agent.type_index));
            self.add_device(number, agent.handle, Some(agent), gpu_first);
        }
        for &handle in &found.agents {
            let cpu = self
                .facts
                .agent(handle)
                .is_some_and(|agent| !agent.is_gpu());
            if !self.device_of.contains_key(&handle) && !cpu {
                let number = free_number(&mut numbers, 0);
                self.add_device(number, handle, None, gpu_first);
            }
        }
    }

    fn add_device(&mut self, number: u64, handle: u64, agent: Option<&'a Agent>, gpu_first: u64) {
        self.device_of.insert(handle, self.devices.len() as u32);
        self.devices.push(Device {
            number,
            gpu_id: gpu_first + number,
            agent,
            handle,
        });
    }

    fn name_streams(&mut self, found: &Found) {
        let default = |id: u32| {
            self.facts
                .stream(id)
                .is_some_and(|stream| matches!(stream.kind, StreamKind::Null | StreamKind::Legacy))
        };
        let mut ids: Vec<u32> = found.streams.iter().copied().collect();
        // The default stream first, the unknown one (0) last.
        ids.sort_by_key(|&id| (id == 0, !default(id), id));
        for (at, &id) in ids.iter().enumerate() {
            let fact = self.facts.stream(id);
            let label = self
                .facts
                .labels
                .iter()
                .find(|one| one.what == label::STREAM && one.handle == u64::from(id));
            let note = match (label, fact.map(|stream| stream.kind)) {
                (Some(label), _) => self.facts.text(label.name),
                (None, Some(StreamKind::Null)) => "default".to_owned(),
                (None, Some(StreamKind::Legacy)) => "legacy default".to_owned(),
                (None, Some(StreamKind::PerThread)) => {
                    format!(
                        "default of thread {}",
                        fact.map_or(0, |stream| stream.thread)
                    )
                }
                _ => String::new(),
            };
            self.stream_of.insert(id, at as u32);
            self.streams.push(StreamOut {
                number: at as u64 + 1,
                handle: fact.map_or(0, |stream| stream.handle),
                note,
                known: id != 0,
            });
        }
    }

    fn name_threads(&mut self, found: &Found) {
        let mut spare = SPARE_TID_FIRST;
        for &thread in &found.threads {
            let id = u64::from(thread);
            let tid = if (1..SPARE_TID_FIRST).contains(&id) && id <= ID_MAX {
                id
            } else {
                spare += 1;
                spare - 1
            };
            let name = self.facts.thread_names.get(&thread).cloned();
            let name = name.filter(|name| !name.is_empty());
            self.threads.insert(thread, ThreadOut { tid, name });
        }
    }

    /// Reads and demangles a kernel's name.
    fn read_kernel(&self, id: u64) -> Kernel {
        let symbol = self.facts.kernels.get(&id).copied();
        let mut kernel = match self.facts.kernel_name(id) {
            Some(name) => Kernel {
                mangled: demangle::strip_descriptor(name).to_vec(),
                display: demangle::display_name(name),
                named: true,
                ..Kernel::default()
            },
            // The name did not fit the sticky log: its id is what is left.
            None => {
                let name = match symbol {
                    Some(symbol) => format!("kernel {id} (name {:016x} not kept)", symbol.name),
                    None => format!("kernel {id} (symbol not kept)"),
                };
                Kernel {
                    mangled: name.clone().into_bytes(),
                    display: name.into_bytes(),
                    ..Kernel::default()
                }
            }
        };
        if kernel.display.is_empty() {
            kernel.display = format!("kernel {id} (no name)").into_bytes();
        }
        kernel.symbol = symbol.unwrap_or_default();
        kernel.agent = self
            .facts
            .code_objects
            .get(&kernel.symbol.code_object_id)
            .map_or(0, |object| object.agent);
        kernel
    }

    fn name_operations(&mut self, found: &Found) {
        let mut keys: Vec<u32> = found.operations.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let (domain, number) = ((key >> 16) as u8, key as u16);
            let name = match self.facts.operations.get(&(domain, number)) {
                Some(&name) => self.name(name).into_owned(),
                None => self.facts.operation_name(domain, number).into_bytes(),
            };
            self.operation_of.insert(key, self.operations.len() as u32);
            self.operations.push(Operation {
                name,
                domain,
                number,
            });
        }
    }

    /// Something to point at, should a region that still changes show more than the pass over it found.
    fn add_fallbacks(&mut self) {
        if self.streams.is_empty() {
            self.streams.push(StreamOut {
                number: 1,
                handle: 0,
                note: String::new(),
                known: false,
            });
        }
        if self.operations.is_empty() {
            self.operations.push(Operation {
                name: b"unknown operation".to_vec(),
                domain: 0,
                number: 0,
            });
        }
    }

    /// What the trace must say of its own quality.
    fn write_notes(&mut self) {
        let mut notes = Vec::new();
        for report in &self.reports {
            let session = report.id;
            let end = self.close_ns(session as u32).max(report.begin_ns);
            let mut note = |start: u64, until: Option<u64>, count: u64, text: String| {
                notes.push(Note {
                    start: start.min(end),
                    end: until,
                    text: format!("session {session}: {text}"),
                    count,
                });
            };
            let missing = report.missing();
            let work = [("dispatches", report.dispatches), ("copies", report.copies)];
            let uncertain = self
                .shown
                .span_index(session as u32, &mut 0)
                .map_or(u64::MAX, |at| self.shown.spans[at].first_uncertain_ticks);
            let uncertain = if uncertain == u64::MAX {
                report.begin_ns
            } else {
                self.trace.clock().vendor_ns(uncertain).max(report.begin_ns)
            };
            let parts = |field: fn(&Work) -> u64| {
                work.iter()
                    .filter(|(_, work)| field(work) > 0)
                    .map(|(what, work)| format!("{} of {} {what}", field(work), work.issued))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            if missing > 0 {
                let text = format!(
                    "incomplete: {} missing; whole up to correlation id {}",
                    parts(Work::missing),
                    report.low_watermark
                );
                note(uncertain, Some(end), missing, text);
            } else if report.verdict == Verdict::Incomplete {
                note(uncertain, Some(end), 0, "incomplete".to_owned());
            }
            match report.verdict {
                Verdict::Heuristic => note(
                    report.begin_ns,
                    Some(end),
                    0,
                    "completeness is not proven: this SDK offers no proof".to_owned(),
                ),
                Verdict::Empty => {
                    let sdk = &self.trace.header().sdk;
                    let text = format!("no GPU work was issued (SDK: {sdk})");
                    note(report.begin_ns, None, 0, text);
                }
                _ => {}
            }
            let retired = work
                .iter()
                .map(|(_, work)| work.retired_without_record)
                .fold(0, u64::saturating_add);
            if retired > 0 {
                let parts = parts(|work| work.retired_without_record);
                note(
                    end,
                    None,
                    retired,
                    format!("retired without a record: {parts}"),
                );
            }
            for reason in LossReason::ALL {
                let count = report.lost.get(reason);
                if count > 0 {
                    let text = format!("lost: {count} records, {}", reason.name());
                    // Lanes know when they had no room; the other losses show where the session was accounted for.
                    let of_lanes = matches!(reason, LossReason::NoSegment | LossReason::StickyFull);
                    if of_lanes && report.first_loss_ns != 0 {
                        let until = report.last_loss_ns.max(report.first_loss_ns);
                        note(report.first_loss_ns, Some(until), count, text);
                    } else {
                        note(end, None, count, text);
                    }
                }
            }
            if report.late > 0 {
                let text = format!(
                    "late: {} records came after the session was accounted for",
                    report.late
                );
                note(end, None, report.late, text);
            }
            let flagged = report.flagged;
            for (count, what) in [
                (flagged.untimed, "have no time"),
                (flagged.end_before_start, "end before they start"),
                (flagged.outside_window, "lie outside the session's window"),
            ] {
                if count > 0 {
                    let text = format!("not drawn: {count} kernels or copies {what}");
                    note(end, None, count, text);
                }
            }
            if report.unfinished {
                let text = "the process ended, or still runs, before the session was accounted for";
                note(end, None, 0, text.to_owned());
            }
        }
        for damage in self.trace.damage() {
            notes.push(Note {
                start: self.scan.last_ns,
                end: None,
                text: format!("damaged region: {damage}"),
                count: damage.cells_lost,
            });
        }
        self.notes = notes;
    }

    /// Where open spans of a session end: when it was accounted for, or at its last record.
    pub(crate) fn close_ns(&self, session: u32) -> u64 {
        self.shown.close_ns(session)
    }

    /// Vendor ns in the output's clock. Never wraps.
    #[inline]
    pub(crate) fn out_ns(&self, vendor_ns: u64) -> u64 {
        self.shown.out_ns(vendor_ns)
    }

    /// Where a range that nobody stopped ends, ns of the output's clock.
    pub(crate) fn open_end_ns(&self, started: &Started) -> u64 {
        let end = self.out_ns(self.close_ns(started.session));
        end.max(started.start)
    }

    /// Numbers of a device: the process's own, and among all GPUs of the machine. Zeros for an index that is none.
    pub(crate) fn device_ids(&self, device: usize) -> (u64, u64) {
        self.devices
            .get(device)
            .map_or((0, 0), |device| (device.number, device.gpu_id))
    }

    /// Index of the device that a dispatch or copy is drawn on.
    #[inline]
    pub(crate) fn device(&self, record: &Record<'_>) -> usize {
        self.device_index(self.shown.work_agent(record))
    }

    /// Index of an agent's device; that of the first one for agents that are none.
    pub(crate) fn device_index(&self, handle: u64) -> usize {
        self.device_of.get(&handle).map_or(0, |&at| at as usize)
    }

    /// Index of the stream of a dispatch or copy.
    #[inline]
    pub(crate) fn stream(&self, record: &Record<'_>) -> usize {
        self.stream_of
            .get(&stream_key(record))
            .map_or(0, |&at| at as usize)
    }

    /// A kernel; the first look-up of one reads and demangles its name. Any thread may ask; who asks often remembers.
    #[cold]
    pub(crate) fn kernel(&self, id: u64) -> Arc<Kernel> {
        let known = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = known.get(&id) {
            return kernel.clone();
        }
        drop(known);
        // Two threads may read the same name at once, and get the same.
        let kernel = Arc::new(self.read_kernel(id));
        let mut known = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(id).or_insert(kernel).clone()
    }

    /// Index of the operation of an API record.
    #[inline]
    pub(crate) fn operation(&self, record: &Record<'_>) -> usize {
        self.operation_of
            .get(&order::operation_key(record))
            .map_or(0, |&at| at as usize)
    }

    /// Correlation id in the output.
    #[inline]
    pub(crate) fn correlation(&self, id: u64) -> u64 {
        if id == 0 {
            0
        } else {
            id.wrapping_add(self.correlation_base)
        }
    }

    /// Memory that the tables of ids have, bytes.
    pub(crate) fn table_bytes(&self) -> u64 {
        let drawn = self.drawn.as_ref().map_or(0, Drawn::bytes);
        self.launches.bytes() + drawn + self.externals.bytes()
    }

    /// Index of a stream that drawn work runs on, by the record that issued it.
    pub(crate) fn drawn_stream(&self, record: &Record<'_>) -> Option<usize> {
        self.stream_of
            .get(&stream_key(record))
            .map(|&at| at as usize)
    }

    /// Grid in work-groups.
    #[inline]
    pub(crate) fn grid(&self, record: &Record<'_>) -> [u32; 3] {
        let (grid, block) = (record.grid(), record.block());
        if self.trace.header().vendor == VENDOR_CUPTI {
            return grid;
        }
        std::array::from_fn(|axis| grid[axis].div_ceil(block[axis].max(1)))
    }

    /// Host name, HIP or CUDA: what the device API is.
    pub(crate) fn is_cuda(&self) -> bool {
        self.trace.header().vendor == VENDOR_CUPTI
    }

    /// The program's name without its folder.
    pub(crate) fn program(&self) -> &str {
        let program = &self.trace.header().program;
        Path::new(program)
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or(match program.as_str() {
                "" => "(no name)",
                program => program,
            })
    }

    /// The name with that id, for a slice. Viewers show an empty one as nothing, and some do not take it.
    pub(crate) fn name(&self, id: u64) -> Cow<'_, [u8]> {
        match self.facts.bytes(id) {
            Some(b"") => Cow::Borrowed(b"(no name)"),
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(self.facts.text(id).into_bytes()),
        }
    }

    /// Anchors of all clocks that the output can show: the first, and the last if it is another.
    pub(crate) fn clock_anchors(&self) -> Vec<ClockAnchor> {
        let anchors: Vec<&ClockAnchor> = self
            .facts
            .clock_anchors
            .iter()
            .filter(|anchor| anchor.boottime_ns != 0)
            .collect();
        match anchors[..] {
            [] => Vec::new(),
            [only] => vec![*only],
            [first, .., last] if last.vendor_ns > first.vendor_ns => vec![*first, *last],
            [first, ..] => vec![*first],
        }
    }
}

/// `header.vendor` of CUPTI.
const VENDOR_CUPTI: u32 = 2;

fn free_number(taken: &mut BTreeSet<u64>, wanted: u64) -> u64 {
    let mut number = wanted;
    while !taken.insert(number) {
        number += 1;
    }
    number
}

/// The stream id that tracks are kept by: 0 where no call named the stream.
#[inline]
pub(crate) fn stream_key(record: &Record<'_>) -> u32 {
    if record.flags() & flag::UNKNOWN_STREAM != 0 {
        0
    } else {
        record.stream()
    }
}

/// Category of an API domain in kineto's dialect, which knows CUDA's names only.
pub(crate) fn category(of: u8) -> &'static str {
    match of {
        domain::DRIVER => "cuda_driver",
        domain::COLLECTIVE => "collective_api",
        domain::MARKER | domain::USER => "user_annotation",
        _ => "cuda_runtime",
    }
}

/// Kind and full name of a copy, as kineto writes them.
pub(crate) fn copy_names(operation: u32) -> (&'static str, &'static str) {
    match operation {
        1 => ("HtoH", "Memcpy HtoH (Host -> Host)"),
        2 => ("HtoD", "Memcpy HtoD (Host -> Device)"),
        3 => ("DtoH", "Memcpy DtoH (Device -> Host)"),
        4 => ("DtoD", "Memcpy DtoD (Device -> Device)"),
        _ => ("<unknown>", "Memcpy <unknown> (? -> ?)"),
    }
}
