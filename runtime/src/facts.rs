//! Facts, as a reader finds them in the sticky segments: everything that records refer to by number.

use std::collections::HashMap;

use crate::anchors::ClockAnchor;
use crate::record::{Kind, Record, StreamKind, flag, high, low};
use crate::session_end::SessionEnd;

/// A string's bytes; names need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The bytes that are there.
    pub bytes: Vec<u8>,
    /// Bytes that the whole string has.
    pub total: usize,
    parts: usize,
}

/// An agent: a CPU or GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the SDK's, listed in `record`")]
pub struct Agent {
    pub handle: u64,
    /// 1 CPU, 2 GPU.
    pub kind: u32,
    pub node: u32,
    pub logical_node: u32,
    /// Index among the agents of its type: what programs call the device number.
    pub type_index: u32,
    pub name: String,
    pub vendor: String,
    pub product: String,
    pub model: String,
    pub compute_units: u32,
    pub wave_front: u32,
    pub pci_domain: u32,
    /// PCI bus << 8 | device << 3 | function.
    pub pci_location: u32,
    pub memory_bytes: u64,
    pub uuid: [u8; 16],
    pub gfx_target: u32,
    pub simd_count: u32,
}

impl Agent {
    /// True for a GPU.
    pub fn is_gpu(&self) -> bool {
        self.kind == 2
    }
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Dense number, from 1; what records carry.
    pub id: u32,
    /// The API's handle; a reused handle is another stream.
    pub handle: u64,
    /// How often the handle had been used before.
    pub generation: u32,
    /// Thread, for a thread's own default stream.
    pub thread: u32,
    /// What kind of stream.
    pub kind: StreamKind,
}

/// A kernel symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the SDK's, listed in `record`")]
pub struct KernelSymbol {
    pub kernel_id: u64,
    pub code_object_id: u64,
    /// String id of the mangled name, as the SDK gave it.
    pub name: u64,
    pub kernel_object: u64,
    pub group_bytes: u32,
    pub private_bytes: u32,
    pub sgpr_count: u32,
    pub vgpr_count: u32,
    pub accum_vgpr_count: u32,
    pub kernarg_bytes: u32,
}

/// A code object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the SDK's, listed in `record`")]
pub struct CodeObject {
    pub id: u64,
    pub agent: u64,
    pub uri: u64,
    pub load_base: u64,
    pub load_size: u64,
    pub load_delta: i64,
    pub unloaded: bool,
}

/// When a session was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionBegin {
    /// The session's number.
    pub session: u64,
    /// Vendor ns.
    pub vendor_ns: u64,
    /// REALTIME ns since 1970.
    pub unix_ns: u64,
}

/// Work that was issued and retired without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// True for copies, false for a dispatch.
    pub copy: bool,
    /// How many.
    pub count: u32,
    /// Dispatch id, 0 for copies.
    pub dispatch_id: u64,
    /// Correlation id.
    pub correlation_id: u64,
    /// Session.
    pub session: u64,
}

/// A name that the program gave to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// [`crate::record::label`].
    pub what: u32,
    /// Agent handle, device index or stream id.
    pub handle: u64,
    /// String id.
    pub name: u64,
}

/// All facts of a region.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Agents, in the order of their handles.
    pub agents: Vec<Agent>,
    /// Queues: id and agent.
    pub queues: Vec<(u64, u64)>,
    /// Streams, in the order of their ids.
    pub streams: Vec<Stream>,
    /// Kernel symbols by kernel id.
    pub kernels: HashMap<u64, KernelSymbol>,
    /// Code objects by id.
    pub code_objects: HashMap<u64, CodeObject>,
    /// String id of an operation's name, by domain and number.
    pub operations: HashMap<(u8, u16), u64>,
    /// Metadata, in the order of their keys; the newest value of a key counts.
    pub metadata: Vec<(String, String)>,
    /// Anchors of all clocks, in the order of their ticks.
    pub clock_anchors: Vec<ClockAnchor>,
    /// Sessions opened, in order.
    pub session_begins: Vec<SessionBegin>,
    /// Sessions accounted for, in order.
    pub session_ends: Vec<SessionEnd>,
    /// Work retired without a record.
    pub retired: Vec<Retired>,
    /// Calls and ranges that were open when their session was accounted for: their words.
    pub open: Vec<Vec<u64>>,
    /// Thread names.
    pub thread_names: HashMap<u32, String>,
    /// Labels.
    pub labels: Vec<Label>,
    /// Late records by session, of lanes whose counters for it went to another session.
    pub late: HashMap<u64, u64>,
    /// Sessions whose records are not kept any longer, in the order of their release.
    pub released: Vec<u64>,
    strings: HashMap<u64, Text>,
    pending_metadata: Vec<(u64, u64)>,
    /// Thread, name, source.
    pending_thread_names: Vec<(u32, u64, u64)>,
    pending_agents: Vec<(Agent, [u64; 4])>,
}

impl Facts {
    /// The bytes of string `id`, if it is there. An incomplete string is given as far as it goes.
    pub fn bytes(&self, id: u64) -> Option<&[u8]> {
        self.strings.get(&id).map(|text| text.bytes.as_slice())
    }

    /// String `id` as text, or `#` and its id in hex when the string itself is not there.
    pub fn text(&self, id: u64) -> String {
        match self.bytes(id) {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None if id == 0 => String::new(),
            None => format!("#{id:016x}"),
        }
    }

    /// The mangled name of a kernel, as the SDK gave it.
    pub fn kernel_name(&self, kernel_id: u64) -> Option<&[u8]> {
        self.bytes(self.kernels.get(&kernel_id)?.name)
    }

    /// The name of an API operation, or its domain and number.
    pub fn operation_name(&self, domain: u8, operation: u16) -> String {
        match self.operations.get(&(domain, operation)) {
            Some(&name) => self.text(name),
            None => format!("operation {domain}/{operation}"),
        }
    }

    /// The agent with that handle.
    pub fn agent(&self, handle: u64) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.handle == handle)
    }

    /// The stream with that id.
    pub fn stream(&self, id: u32) -> Option<&Stream> {
        self.streams
            .binary_search_by_key(&id, |stream| stream.id)
            .ok()
            .map(|index| &self.streams[index])
    }

    /// Takes one fact. Duplicates are normal: the first one counts, except for metadata.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        let word = |index| record.word(index);
        match record.kind() {
            Some(Kind::String) => self.take_string(record),
            Some(Kind::Agent) => {
                let mut uuid = [0; 16];
                uuid[..8].copy_from_slice(&word(11).to_le_bytes());
                uuid[8..].copy_from_slice(&word(12).to_le_bytes());
                let agent = Agent {
                    handle: word(1),
                    kind: low(word(2)),
                    node: high(word(2)),
                    logical_node: low(word(3)),
                    type_index: high(word(3)),
                    compute_units: low(word(8)),
                    wave_front: high(word(8)),
                    pci_domain: low(word(9)),
                    pci_location: high(word(9)),
                    memory_bytes: word(10),
                    uuid,
                    gfx_target: low(word(13)),
                    simd_count: high(word(13)),
                    ..Agent::default()
                };
                if !self
                    .pending_agents
                    .iter()
                    .any(|(known, _)| known.handle == agent.handle)
                {
                    self.pending_agents
                        .push((agent, [word(4), word(5), word(6), word(7)]));
                }
            }
            Some(Kind::Queue) => self.queues.push((word(1), word(2))),
            Some(Kind::Stream) => self.streams.push(Stream {
                id: low(word(1)),
                handle: word(2),
                generation: low(word(3)),
                thread: high(word(3)),
                kind: StreamKind::from_u32(low(word(5))),
            }),
            Some(Kind::CodeObject) => {
                self.code_objects.entry(word(1)).or_insert(CodeObject {
                    id: word(1),
                    agent: word(2),
                    uri: word(3),
                    load_base: word(4),
                    load_size: word(5),
                    load_delta: word(6) as i64,
                    unloaded: false,
                });
            }
            Some(Kind::CodeObjectUnload) => {
                let object = self.code_objects.entry(word(1)).or_default();
                (object.id, object.unloaded) = (word(1), true);
            }
            Some(Kind::KernelSymbol) => {
                self.kernels.entry(word(1)).or_insert(KernelSymbol {
                    kernel_id: word(1),
                    code_object_id: word(2),
                    name: word(3),
                    kernel_object: word(4),
                    group_bytes: low(word(5)),
                    private_bytes: high(word(5)),
                    sgpr_count: low(word(6)),
                    vgpr_count: high(word(6)),
                    accum_vgpr_count: low(word(7)),
                    kernarg_bytes: high(word(7)),
                });
            }
            Some(Kind::Operation) => {
                let place = low(word(1));
                self.operations
                    .entry(((place >> 16) as u8, place as u16))
                    .or_insert(word(2));
            }
            Some(Kind::Metadata) => self.pending_metadata.push((word(1), word(2))),
            Some(Kind::Anchor) => self.clock_anchors.push(ClockAnchor {
                ticks: word(1),
                vendor_ns: word(2),
                boottime_ns: word(3),
                monotonic_ns: word(4),
                monotonic_raw_ns: word(5),
                realtime_ns: word(6),
            }),
            Some(Kind::SessionBegin) => {
                self.session_begins.push(SessionBegin {
                    session: word(1),
                    vendor_ns: word(3),
                    unix_ns: word(4),
                });
            }
            Some(Kind::SessionEnd) => self.session_ends.push(SessionEnd::decode(record)),
            Some(Kind::Retired) => self.retired.push(Retired {
                copy: low(word(1)) != 0,
                count: high(word(1)),
                dispatch_id: word(2),
                correlation_id: word(3),
                session: word(4),
            }),
            Some(Kind::OpenCall | Kind::OpenRange) => self.open.push(record.words().to_vec()),
            Some(Kind::ThreadName) => {
                self.pending_thread_names
                    .push((low(word(1)), word(2), word(3)));
            }
            Some(Kind::SessionReleased) => self.released.push(word(1)),
            Some(Kind::Label) => {
                self.labels.push(Label {
                    what: low(word(1)),
                    handle: word(2),
                    name: word(3),
                });
            }
            Some(Kind::Late) => {
                let count = self.late.entry(word(1)).or_default();
                *count = count.saturating_add(word(2));
            }
            _ => {}
        }
    }

    fn take_string(&mut self, record: &Record<'_>) {
        let (id, total, offset) = (
            record.word(1),
            low(record.word(2)) as usize,
            high(record.word(2)) as usize,
        );
        if total > crate::limits::STRING_BYTES_MAX || offset > total {
            return;
        }
        let text = self.strings.entry(id).or_insert_with(|| Text {
            total,
            ..Text::default()
        });
        // Parts of one string follow each other in one lane, but two lanes may announce the same string: a part
        // that is there already is skipped, one that does not fit waits for nothing and is left out.
        if offset != text.bytes.len() || text.total != total {
            return;
        }
        let bytes: Vec<u8> = record.words()[3..]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let part = bytes.len().min(total - offset);
        text.bytes.extend_from_slice(&bytes[..part]);
        text.parts += 1;
        if record.flags() & flag::CUT != 0 {
            text.total = total;
        }
    }

    /// Resolves what needed strings, and sorts. Call once, after the last [`Facts::take`].
    pub(crate) fn finish(&mut self) {
        for (mut agent, names) in std::mem::take(&mut self.pending_agents) {
            [agent.name, agent.vendor, agent.product, agent.model] =
                names.map(|name| self.text(name));
            self.agents.push(agent);
        }
        self.agents.sort_by_key(|agent| agent.handle);
        for (key, value) in std::mem::take(&mut self.pending_metadata) {
            let (key, value) = (self.text(key), self.text(value));
            match self.metadata.iter_mut().find(|(known, _)| *known == key) {
                Some(known) => known.1 = value,
                None => self.metadata.push((key, value)),
            }
        }
        self.metadata.sort();
        // The kernel's names first: what the program says of itself counts more.
        self.pending_thread_names
            .sort_by_key(|&(thread, _, source)| (thread, std::cmp::Reverse(source)));
        for (thread, name, _) in std::mem::take(&mut self.pending_thread_names) {
            self.thread_names.insert(thread, self.text(name));
        }
        self.queues.sort_unstable();
        self.queues.dedup();
        self.streams.sort_by_key(|stream| stream.id);
        self.streams.dedup_by_key(|stream| stream.id);
        self.clock_anchors.sort_by_key(|anchor| anchor.ticks);
        self.session_begins.sort_by_key(|begin| begin.session);
        self.session_begins.dedup_by_key(|begin| begin.session);
        self.session_ends.sort_by_key(|end| end.session);
        self.session_ends.dedup_by_key(|end| end.session);
    }
}
