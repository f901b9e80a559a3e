//! A record as C sees it: its words where they lie, and beside them what they say, with the names resolved.

use std::collections::HashMap;
use std::ffi::c_char;

use strandline::record::{Kind, Record, flag, high, low};

use crate::abi::strandline_record;

/// Where names and times come from.
pub trait Resolve {
    /// String `id`, terminated, and its bytes without the terminator.
    fn text(&self, id: u64) -> Option<(*const c_char, u64)>;
    /// String id of a kernel's name.
    fn kernel_name(&self, kernel_id: u64) -> Option<u64>;
    /// String id of an operation's name.
    fn operation_name(&self, domain: u8, operation: u16) -> Option<u64>;
    /// Host ticks in the timeline's ns.
    fn ns(&self, ticks: u64) -> u64;
    /// The external id of the API call with that correlation id, 0 = none.
    fn external_id(&self, correlation: u64) -> u64;
    /// Flags of a dispatch or copy: the writer's, and those that can only be told from the whole trace.
    fn device_flags(&self, record: &Record<'_>) -> u16;
}

/// The kind under which C sees a record: a call that was open at stop is a call.
pub fn kind_number(record: &Record<'_>) -> u32 {
    match record.kind() {
        Some(Kind::OpenCall) => Kind::Api as u32,
        Some(Kind::OpenRange) => Kind::Range as u32,
        _ => (record.words()[0] & 0xff) as u32,
    }
}

/// True when the record's times are the vendor's ns; else they are host ticks.
pub fn is_ns(kind: u32) -> bool {
    [Kind::Dispatch, Kind::Copy, Kind::Alloc, Kind::Scratch]
        .into_iter()
        .any(|ns| ns as u32 == kind)
}

/// Describes a record.
pub fn describe(record: &Record<'_>, lane: u16, resolve: &impl Resolve) -> strandline_record {
    let kind = kind_number(record);
    let mut out = strandline_record {
        words: record.words().as_ptr(),
        kind,
        cells: record.cells() as u32,
        flags: match record.kind() {
            Some(Kind::Dispatch | Kind::Copy) => resolve.device_flags(record).into(),
            _ => record.flags().into(),
        },
        session: record.session(),
        lane: lane.into(),
        ..strandline_record::default()
    };
    let name = if kind >= Kind::String as u32 {
        describe_fact(record, &mut out)
    } else {
        describe_event(record, &mut out, resolve)
    };
    if let Some((name, bytes)) = name.and_then(|id| resolve.text(id)) {
        (out.name, out.name_bytes) = (name, bytes);
    }
    out
}

/// Fills in what a record of a session says; returns the string id of its name.
fn describe_event(
    record: &Record<'_>,
    out: &mut strandline_record,
    resolve: &impl Resolve,
) -> Option<u64> {
    let word = |index| record.word(index);
    if is_ns(out.kind) {
        (out.start_ns, out.end_ns) = (record.start(), record.end());
    } else {
        let ns = |ticks| {
            if ticks == 0 { 0 } else { resolve.ns(ticks) }
        };
        out.start_ns = ns(record.start());
        if matches!(
            record.kind(),
            Some(Kind::Api | Kind::Range | Kind::OpenCall | Kind::OpenRange)
        ) {
            out.end_ns = ns(record.end());
        }
    }
    out.thread = record.thread();
    if record.kind() == Some(Kind::Thread) {
        out.thread = low(word(2));
        return None;
    }
    (out.correlation_id, out.ancestor_id) = (record.correlation_id(), record.ancestor_id());
    out.external_id = record.external_id();
    out.stream = record.stream();
    out.dispatch_id = record.dispatch_id();
    out.kernel_id = record.kernel_id();
    out.agent = record.agent();
    out.queue = record.queue();
    out.bytes = record.bytes();
    match record.kind()? {
        Kind::Api | Kind::OpenCall => {
            out.domain = record.domain().into();
            out.operation = record.operation();
            out.depth = record.depth().into();
            out.return_value = record.return_value();
            resolve.operation_name(record.domain(), record.operation() as u16)
        }
        Kind::Enqueue => resolve.kernel_name(record.kernel_id()),
        Kind::Dispatch => {
            (out.block, out.grid) = (record.block(), record.grid());
            (out.private_bytes, out.group_bytes) = (low(word(14)), high(word(14)));
            (out.graph, out.node) = (low(word(15)), high(word(15)));
            if out.external_id == 0 {
                out.external_id = resolve.external_id(out.correlation_id);
            }
            resolve.kernel_name(record.kernel_id())
        }
        Kind::Copy | Kind::CopyIssue => {
            out.operation = record.operation();
            if record.kind() == Some(Kind::Copy) {
                out.destination_agent = record.destination_agent();
                out.address = word(12);
                if out.external_id == 0 {
                    out.external_id = resolve.external_id(out.correlation_id);
                }
            }
            None
        }
        Kind::Alloc | Kind::Scratch => {
            out.operation = record.operation();
            out.address = word(11);
            None
        }
        Kind::Range | Kind::OpenRange => {
            out.depth = record.depth().into();
            Some(record.name_id())
        }
        Kind::Mark => Some(record.name_id()),
        Kind::RangeStart => {
            out.range_id = word(5);
            Some(record.name_id())
        }
        Kind::RangeStop => {
            out.range_id = word(5);
            None
        }
        Kind::External => {
            out.external_domain = low(word(5));
            None
        }
        _ => None,
    }
}

/// Fills in what a fact says; returns the string id of its name.
fn describe_fact(record: &Record<'_>, out: &mut strandline_record) -> Option<u64> {
    let word = |index| record.word(index);
    match record.kind()? {
        Kind::Agent => {
            out.agent = word(1);
            Some(word(4))
        }
        Kind::Queue => {
            (out.queue, out.agent) = (word(1), word(2));
            None
        }
        Kind::Stream | Kind::StreamEnd => {
            (out.stream, out.address) = (low(word(1)), word(2));
            None
        }
        Kind::CodeObject => {
            out.agent = word(2);
            Some(word(3))
        }
        Kind::KernelSymbol => {
            out.kernel_id = word(1);
            Some(word(3))
        }
        Kind::Operation => {
            out.domain = low(word(1)) >> 16 & 0xff;
            out.operation = low(word(1)) & 0xffff;
            Some(word(2))
        }
        Kind::Metadata => Some(word(1)),
        Kind::SessionBegin | Kind::SessionEnd => {
            out.session = word(1) as u32;
            None
        }
        Kind::Retired => {
            (out.dispatch_id, out.correlation_id) = (word(2), word(3));
            None
        }
        Kind::ThreadName => {
            out.thread = low(word(1));
            Some(word(2))
        }
        Kind::Label => {
            out.address = word(2);
            Some(word(3))
        }
        _ => None,
    }
}

/// Terminated copies of strings. An entry never moves and never goes before the table does.
#[derive(Debug, Default)]
pub struct Texts(HashMap<u64, Box<[u8]>>);

impl Texts {
    /// String `id`; `bytes` is asked once.
    pub fn get_or(
        &mut self,
        id: u64,
        bytes: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<(*const c_char, u64)> {
        use std::collections::hash_map::Entry;
        let text = match self.0.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut bytes = bytes()?;
                bytes.push(0);
                entry.insert(bytes.into_boxed_slice())
            }
        };
        Some((text.as_ptr().cast(), text.len() as u64 - 1))
    }
}

/// The flag of a call or range that was open at stop.
pub const OPEN: u32 = flag::OPEN as u32;
