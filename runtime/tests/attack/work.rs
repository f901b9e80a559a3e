//! Work whose every record can be checked word by word: all of its words follow from its number.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use strandline::events::{CopyEvent, DispatchDone, DispatchIssue, Ids, KernelFact, Operation};
use strandline::loss::LossReason;
use strandline::record::{Kind, domain, pair};
use strandline::settings::{Settings, parse_bytes};
use strandline::{Runtime, Token, Trace, Vendor};

pub const LAUNCH: Operation = Operation {
    domain: domain::RUNTIME,
    number: 214,
};

/// All settings are the tests' own, but for the size of segments: `STRANDLINE_SEGMENT=256K` runs them all with another.
pub fn settings(path: &Path) -> Settings {
    let segment = std::env::var("STRANDLINE_SEGMENT").ok();
    let mut settings = Settings::from_lookup(|_| None).expect("defaults");
    settings.segment_bytes = segment.map(|text| parse_bytes(&text).expect("a size"));
    settings.out = Some(path.to_owned());
    settings.budget_bytes = 64 << 20;
    settings.lane_count = 64;
    settings
}

/// The child's runtime, in the file that it was given.
pub fn runtime(change: impl FnOnce(&mut Settings)) -> &'static Runtime {
    let mut settings = settings(&crate::harness::given_file());
    change(&mut settings);
    Runtime::make_global(settings, &Vendor::default())
        .unwrap_or_else(|(status, why)| panic!("{status:?}: {why}"))
}

pub fn keep_house(runtime: &'static Runtime) {
    runtime
        .start_housekeeper(None, None)
        .expect("a housekeeper");
}

/// A spread of one number.
pub fn mix(number: u64) -> u64 {
    strandline::hash::word(number ^ 0x5354_5241)
}

/// Numbers of one source follow each other: source << 32 | 1, 2, 3...
pub fn number(source: u64, at: u64) -> u64 {
    source << 32 | at
}

fn ids(number: u64) -> Ids {
    Ids {
        correlation: number,
        ancestor: mix(number),
        external: mix(number) ^ 1,
        thread: number as u32 | 1,
    }
}

/// Kernels change every 100 numbers; each is announced by who uses it first, with a name that follows from its id.
fn kernel_id(number: u64) -> u64 {
    number / 100 + 1
}

pub fn kernel_name(kernel_id: u64) -> String {
    format!(
        "_Z4node{}{}.kd",
        mix(kernel_id),
        "v".repeat(kernel_id as usize % 90)
    )
}

fn issue_of(number: u64) -> DispatchIssue {
    DispatchIssue {
        ids: ids(number),
        dispatch_id: number,
        kernel_id: kernel_id(number),
        agent: 77,
        queue: 5,
    }
}

fn done_of(number: u64) -> DispatchDone {
    let high = mix(number) >> 8;
    DispatchDone {
        ids: ids(number),
        dispatch_id: number,
        kernel_id: kernel_id(number),
        agent: 77,
        queue: 5,
        start_ns: high,
        end_ns: high + (number & 0xff),
        block: [number as u32, 1, 2],
        grid: [3, number as u32 ^ 7, 4],
        private_bytes: 5,
        group_bytes: number as u32 ^ 9,
        graph: 6,
        node: number as u32,
    }
}

fn copy_of(number: u64) -> CopyEvent {
    CopyEvent {
        ids: ids(number),
        operation: number as u32 & 3,
        bytes: mix(number) ^ 2,
        source_agent: 1,
        destination_agent: 2,
        source: mix(number) ^ 3,
        destination: mix(number) ^ 4,
        start_ns: mix(number) >> 8,
        end_ns: (mix(number) >> 8) + 9,
    }
}

pub fn issue(runtime: &Runtime, number: u64) -> Token {
    if number.is_multiple_of(100) || number & 0xffff_ffff == 1 {
        let name = kernel_name(kernel_id(number));
        announce(runtime, kernel_id(number), &name);
    }
    runtime.dispatch_issue(&issue_of(number))
}

/// As `issue`, for a kernel that is announced already: makes no name, so it can be called in a signal handler.
pub fn issue_known(runtime: &Runtime, number: u64) -> Token {
    runtime.dispatch_issue(&issue_of(number))
}

pub fn announce(runtime: &Runtime, kernel_id: u64, name: &str) {
    runtime.kernel(&KernelFact {
        kernel_id,
        name: name.as_bytes(),
        ..KernelFact::default()
    });
}

/// Announces the kernels of a source's first numbers, so that `issue_known` may be used for them.
pub fn announce_all(runtime: &Runtime, source: u64, numbers: u64) {
    for kernel in kernel_id(number(source, 1))..=kernel_id(number(source, numbers)) {
        announce(runtime, kernel, &kernel_name(kernel));
    }
}

/// An issue and its completion, for a kernel that is announced already: 2 records, no allocation.
pub fn pair_known(runtime: &Runtime, number: u64) {
    let token = issue_known(runtime, number);
    done(runtime, token, number);
}

pub fn done(runtime: &Runtime, token: Token, number: u64) {
    runtime.dispatch_done(token, &done_of(number));
}

/// One dispatch, one copy, one API call, one mark: 7 records, 9 cells.
pub fn round(runtime: &Runtime, number: u64) {
    let call = runtime.api_enter(LAUNCH, ids(number), 3);
    let token = issue(runtime, number);
    let copy = runtime.copy_issue(&copy_of(number));
    runtime.api_exit(call, LAUNCH, ids(number), number as i32, None);
    done(runtime, token, number);
    runtime.copy_done(copy, &copy_of(number));
    runtime.mark(Kind::Mark, ids(number), 0, b"a mark");
}

/// Records of `round`.
pub const ROUND_RECORDS: u64 = 6;

pub fn api_enter(runtime: &Runtime, number: u64) -> Token {
    runtime.api_enter(LAUNCH, ids(number), 3)
}

pub fn api_exit(runtime: &Runtime, token: Token, number: u64) {
    runtime.api_exit(token, LAUNCH, ids(number), number as i32, None);
}

pub fn mark(runtime: &Runtime, number: u64) {
    runtime.mark(Kind::Mark, ids(number), 0, b"a mark");
}

/// What was found of each source: how many of each kind, the highest number and the lowest.
#[derive(Debug, Default)]
pub struct Found {
    pub counts: HashMap<(Kind, u64), u64>,
    pub highest: HashMap<(Kind, u64), u64>,
    pub lowest: HashMap<(Kind, u64), u64>,
}

impl Found {
    pub fn count(&self, kind: Kind, source: u64) -> u64 {
        self.counts.get(&(kind, source)).copied().unwrap_or(0)
    }

    pub fn total(&self, kind: Kind) -> u64 {
        self.counts
            .iter()
            .filter(|((known, _), _)| *known == kind)
            .map(|(_, count)| count)
            .sum()
    }
}

/// Checks every record of a trace word by word, that nothing in it is damaged and that every kernel has its name. With
/// `prefix`, the numbers of each source must be 1 to n without a gap, in the order of its lane.
pub fn check(trace: &Trace, prefix: bool) -> Found {
    check_kinds(trace, prefix, &[])
}

/// As `check` without prefixes, passing over some kinds.
pub fn check_all_but(trace: &Trace, kinds: &[Kind]) -> Found {
    check_kinds(trace, false, kinds)
}

/// Checks a trace of flight mode: whole records with names, and of each kind and source a run without a gap.
pub fn check_newest(trace: &Trace) -> Found {
    let found = check(trace, false);
    for (key, highest) in &found.highest {
        let lowest = found.lowest[key];
        assert_eq!(
            found.counts[key],
            highest - lowest + 1,
            "{key:?}: a gap between {lowest} and {highest}"
        );
    }
    found
}

fn check_kinds(trace: &Trace, prefix: bool, others: &[Kind]) -> Found {
    assert_eq!(trace.damage(), [], "damage");
    let mut found = Found::default();
    let mut names = BTreeMap::new();
    for entry in trace.entries() {
        let record = entry.record;
        let Some(kind) = record.kind() else {
            panic!("a record of no known kind")
        };
        if others.contains(&kind) {
            continue;
        }
        let word = |at: usize| record.word(at);
        let number = match kind {
            Kind::Api
            | Kind::Enqueue
            | Kind::CopyIssue
            | Kind::Mark
            | Kind::Dispatch
            | Kind::Copy => record.correlation_id(),
            Kind::Thread => continue,
            other => panic!("nobody wrote a {other:?}"),
        };
        let number = if kind == Kind::Mark { word(3) } else { number };
        let id = ids(number);
        let ancestor = word(4);
        assert_eq!(ancestor, id.ancestor, "{kind:?} {number:#x}");
        assert_eq!(record.thread(), id.thread, "{kind:?} {number:#x}");
        match kind {
            Kind::Api => {
                assert_eq!(
                    (word(6), record.return_value()),
                    (id.external, number as i32)
                );
                assert!(word(1) <= word(2) && record.operation() == 214);
            }
            Kind::Enqueue => {
                let issue = issue_of(number);
                assert_eq!(
                    (word(2), word(5), word(6)),
                    (number, issue.kernel_id, issue.queue)
                );
                names.insert(issue.kernel_id, ());
            }
            Kind::Dispatch => {
                let done = done_of(number);
                assert_eq!(
                    (word(1), word(2)),
                    (done.start_ns, done.end_ns),
                    "{number:#x}"
                );
                assert_eq!(
                    (word(5), word(6), word(7)),
                    (number, done.kernel_id, id.external)
                );
                assert_eq!((word(8), word(9)), (77, 5));
                assert_eq!((record.block(), record.grid()), (done.block, done.grid));
                assert_eq!(word(14), pair(done.private_bytes, done.group_bytes));
                assert_eq!(word(15), pair(done.graph, done.node));
                names.insert(done.kernel_id, ());
            }
            Kind::CopyIssue => assert_eq!((word(5), word(6)), (number & 3, copy_of(number).bytes)),
            Kind::Copy => {
                let copy = copy_of(number);
                assert_eq!(
                    (word(1), word(2), word(6)),
                    (copy.start_ns, copy.end_ns, copy.bytes)
                );
                assert_eq!((word(11), word(12)), (copy.source, copy.destination));
            }
            _ => {}
        }
        let (source, at) = (number >> 32, number & 0xffff_ffff);
        let count = found.counts.entry((kind, source)).or_default();
        *count += 1;
        if prefix {
            assert_eq!(
                *count, at,
                "{kind:?} of source {source}: no gap in what is there"
            );
        }
        let highest = found.highest.entry((kind, source)).or_default();
        *highest = at.max(*highest);
        let lowest = found.lowest.entry((kind, source)).or_insert(at);
        *lowest = at.min(*lowest);
    }
    for kernel in names.into_keys() {
        let name = trace.facts().kernel_name(kernel);
        assert_eq!(
            name,
            Some(kernel_name(kernel).as_bytes()),
            "kernel {kernel} has its name"
        );
    }
    found
}

/// Kinds that lie in records' segments.
pub const ALL_KINDS: [Kind; 12] = [
    Kind::Api,
    Kind::Enqueue,
    Kind::Dispatch,
    Kind::CopyIssue,
    Kind::Copy,
    Kind::Alloc,
    Kind::Scratch,
    Kind::Range,
    Kind::Mark,
    Kind::RangeStart,
    Kind::RangeStop,
    Kind::Thread,
];

pub fn lost(trace: &Trace, reason: LossReason) -> u64 {
    trace.losses().get(reason)
}

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0) % limit.max(1)
    }
}
