//! Makes packets of records and decisions.

use strandline::record::{Kind, Record, api_arg, domain, high};

use crate::external::Externals;
use crate::model::Process;
use crate::order::Item;
use crate::pipeline::Formatter;
use crate::proto::{bytes, message, uint, varint_bytes};
use crate::text::Line;

use super::names::lane_uuid;
use super::packets::*;
use super::parts::WaitEnd;
use super::work::{shape_args, stream_args};
use super::{Decision, FIRST_KERNEL, Host, STAGE_COPY, STAGE_KERNEL, State, field};

/// Tag of a packet in a trace, and of a render stage in a packet.
const PACKET_TAG: u8 = (field::PACKET << 3 | 2) as u8;
const LAUNCH_TAG: [u8; 2] = [(21 << 3 | 2) as u8 | 0x80, 1];
const STAGE_TAG: [u8; 2] = {
    let tag = field::GPU_RENDER_STAGE << 3 | 2;
    [tag as u8 | 0x80, (tag >> 7) as u8]
};

/// A shape's bytes.
#[derive(Debug)]
struct ShapeFields {
    /// Fields of the render stage: stage, queue, context, GPU, name, kernel.
    stage: Vec<u8>,
    /// Fields of the launch: sizes, device, stream.
    launch: Vec<u8>,
}

/// What the packets of a process need to know of it.
#[derive(Debug)]
struct Texts {
    context: u64,
    api: u64,
    event_base: u64,
    /// Sequence and flags of GPU packets, encoded.
    gpu_header: Vec<u8>,
    /// By interned id.
    shapes: Vec<Option<ShapeFields>>,
}

/// Makes packets.
#[derive(Debug)]
pub(crate) struct Packets {
    /// By process.
    texts: Vec<Texts>,
}

impl Texts {
    /// Fields of a stage but those of its launch.
    fn stage_fields(&self, stage: u64, queue: u32, gpu_id: u64, name: u64) -> Vec<u8> {
        let mut fields = Vec::new();
        uint(&mut fields, 13, queue.into());
        uint(&mut fields, 14, stage);
        uint(&mut fields, 5, self.context);
        uint(&mut fields, 11, gpu_id);
        uint(&mut fields, 20, name);
        fields
    }

    /// Fields of a kernel; all of them for one with an odd shape.
    #[cold]
    fn kernel_fields(
        &self,
        process: &Process<'_>,
        record: &Record<'_>,
        (number, iid, queue): (u32, u32, u32),
        is_odd: bool,
    ) -> ShapeFields {
        let (device, stream) = (process.device(record), process.stream(record));
        let (device, gpu_id) = process.device_ids(device);
        let name = FIRST_KERNEL + u64::from(number);
        let mut stage = self.stage_fields(STAGE_KERNEL, queue, gpu_id, name);
        uint(&mut stage, 19, iid.into());
        let mut launch = Vec::new();
        dim3(&mut launch, 1, process.grid(record));
        dim3(&mut launch, 2, record.block());
        if is_odd {
            let kernel = process.kernel(record.kernel_id());
            shape_args(&mut launch, 3, process, record, &kernel);
        }
        arg(&mut launch, 3, arg!("device"), device);
        arg(
            &mut launch,
            3,
            arg!("stream"),
            process.streams[stream].number,
        );
        if is_odd {
            stream_args(&mut launch, 3, process, stream);
        }
        ShapeFields { stage, launch }
    }
}

impl Packets {
    pub(super) fn new(states: &[State]) -> Self {
        let texts = states.iter().map(|state| {
            let mut gpu_header = Vec::new();
            uint(&mut gpu_header, field::SEQUENCE, state.gpu);
            uint(&mut gpu_header, field::SEQUENCE_FLAGS, NEEDS_STATE);
            Texts {
                context: state.context,
                api: state.api,
                event_base: state.event_base,
                gpu_header,
                shapes: Vec::new(),
            }
        });
        Self {
            texts: texts.collect(),
        }
    }

    #[inline]
    fn kernel(
        &mut self,
        (process, externals): (&Process<'_>, &Externals),
        item: &Item<'_>,
        (event, target): (u64, u64),
        ids: (u32, u32, u32),
        is_odd: bool,
        out: &mut Line,
    ) {
        let record = &item.record;
        // Every dispatch has two cells.
        let Some(words) = record.words().first_chunk::<16>() else {
            return;
        };
        let times = (item.place.start, item.place.end, event);
        let texts = &mut self.texts[item.process()];
        let tail = LaunchTail {
            target,
            own: (target != words[3]).then_some(words[3]),
            external: words[7],
            dispatch: Some(words[5]),
        };
        if is_odd {
            let fields = texts.kernel_fields(process, record, ids, true);
            let fields = (&fields.stage[..], &fields.launch[..]);
            stage(out, externals, &texts.gpu_header, times, fields, tail);
            return;
        }
        let at = ids.1 as usize;
        if !matches!(texts.shapes.get(at), Some(Some(_))) {
            if texts.shapes.len() <= at {
                texts.shapes.resize_with(at + 1, || None);
            }
            let fields = texts.kernel_fields(process, record, ids, false);
            texts.shapes[at] = Some(fields);
        }
        if let Some(Some(fields)) = texts.shapes.get(at) {
            let fields = (&fields.stage[..], &fields.launch[..]);
            stage(out, externals, &texts.gpu_header, times, fields, tail);
        }
    }

    fn copy(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        (event, target, queue): (u64, u64, u32),
        out: &mut Line,
    ) {
        let record = &item.record;
        let texts = &self.texts[item.process()];
        let stream = process.stream(record);
        let (number, gpu_id) = process.device_ids(process.device(record));
        let name = 1 + u64::from(record.operation().min(5));
        let fields = texts.stage_fields(STAGE_COPY, queue, gpu_id, name);
        let mut launch = Vec::new();
        arg(&mut launch, 3, arg!("bytes"), record.bytes());
        if record.word(11) != 0 || record.word(12) != 0 {
            arg(&mut launch, 3, arg!("source"), record.word(11));
            arg(&mut launch, 3, arg!("destination"), record.word(12));
        }
        arg(&mut launch, 3, arg!("device"), number);
        arg(
            &mut launch,
            3,
            arg!("stream"),
            process.streams[stream].number,
        );
        stream_args(&mut launch, 3, process, stream);
        let times = (item.place.start, item.place.end, event);
        let own = record.correlation_id();
        let tail = LaunchTail {
            target,
            own: (target != own).then_some(own),
            external: record.external_id(),
            dispatch: None,
        };
        let fields = (&fields[..], &launch[..]);
        stage(out, externals, &texts.gpu_header, times, fields, tail);
    }

    /// A call: two packets, or one when it waits.
    #[inline]
    fn call(
        &self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        host: Host,
        out: &mut Vec<u8>,
    ) {
        let record = &item.record;
        let texts = &self.texts[item.process()];
        let name = &process.operations[host.name as usize];
        let (category, has_api) = match name.domain {
            domain::DRIVER => (2, true),
            domain::COLLECTIVE => (3, false),
            domain::MARKER | domain::USER => (4, false),
            _ => (1, true),
        };
        let id = record.correlation_id();
        span(out, process, item, host, &name.name, category, |out| {
            if id != 0 {
                annotate(out, annotation!("correlation_id"), id);
            }
            call_annotations(out, record);
            for (domain, id) in externals.of(id) {
                let first = annotation!("external_id_domain_1");
                annotate(out, first + u64::from(domain) - 1, id);
            }
            if host.count > 0 {
                message(out, field::GPU_CORRELATION, |out| {
                    let step = crate::join::step(host.first);
                    for at in 0..u64::from(host.count) {
                        let number = host.first + at * step;
                        uint(out, 1, texts.event_base.wrapping_add(number));
                    }
                });
            }
            if has_api {
                uint(out, field::GPU_API, texts.api);
            }
        });
    }

    fn range(process: &Process<'_>, item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let record = &item.record;
        let open = record.kind() == Some(Kind::OpenRange) || record.end() == 0;
        let name = process.name(record.name_id());
        span(out, process, item, host, &name, 4, |out| {
            annotate(out, annotation!("session"), record.session().into());
            keep_bytes(out, &name);
            if open {
                annotate_flag(out, annotation!("open"));
            }
        });
    }

    fn mark(process: &Process<'_>, item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let (record, start) = (&item.record, item.place.start);
        let name = process.name(record.name_id());
        let iid = u64::from(host.name) + 1;
        packet(out, host.sequence.into(), NEEDS_STATE, Some(start), |out| {
            if host.is_new {
                message(out, field::INTERNED_DATA, |out| {
                    named(out, field::EVENT_NAMES, iid, &name);
                });
            }
            message(out, field::TRACK_EVENT, |out| {
                uint(out, field::EVENT_TYPE, INSTANT);
                uint(out, field::CATEGORY_IID, 4);
                uint(out, field::NAME_IID, iid);
                annotate(out, annotation!("session"), record.session().into());
                keep_bytes(out, &name);
            });
        });
    }

    /// Scratch events: instants on their thread.
    fn scratch(item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let (record, start) = (&item.record, item.place.start);
        let name = match record.operation() {
            1 => "scratch alloc",
            2 => "scratch free",
            3 => "scratch reclaim",
            _ => "scratch",
        };
        packet(out, host.sequence.into(), NEEDS_STATE, Some(start), |out| {
            message(out, field::TRACK_EVENT, |out| {
                uint(out, field::EVENT_TYPE, INSTANT);
                uint(out, field::CATEGORY_IID, 2);
                bytes(out, field::NAME, name.as_bytes());
                annotate(out, annotation!("bytes"), record.bytes());
            });
        });
    }
}

impl Formatter for Packets {
    type Decision = Decision;

    #[inline]
    fn format(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        decision: Decision,
        out: &mut Line,
    ) {
        match decision {
            Decision::Nothing => {}
            Decision::Host(host) => out.by_vec(|out| match item.kind {
                Some(Kind::Api | Kind::OpenCall) => self.call(process, externals, item, host, out),
                Some(Kind::Mark) => Self::mark(process, item, host, out),
                Some(Kind::Scratch) => Self::scratch(item, host, out),
                _ => Self::range(process, item, host, out),
            }),
            Decision::Kernel {
                event,
                target,
                number,
                iid,
                queue,
                is_odd,
                ..
            } => {
                let ids = (number, iid, queue);
                self.kernel(
                    (process, externals),
                    item,
                    (event, target),
                    ids,
                    is_odd,
                    out,
                );
            }
            Decision::Copy {
                event,
                target,
                queue,
                ..
            } => self.copy(process, externals, item, (event, target, queue), out),
        }
    }
}

/// A span on a thread: two packets, or one when its end comes later.
#[inline]
fn span(
    block: &mut Vec<u8>,
    process: &Process<'_>,
    item: &Item<'_>,
    host: Host,
    name: &[u8],
    category: u64,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let (start, end, lane) = (item.place.start, item.place.end, host.lane as usize);
    let (sequence, iid) = (u64::from(host.sequence), u64::from(host.name) + 1);
    let track = (lane > 0).then(|| lane_uuid(process, item.record.thread(), lane));
    packet(block, sequence, NEEDS_STATE, Some(start), |out| {
        if host.is_new {
            message(out, field::INTERNED_DATA, |out| {
                named(out, field::EVENT_NAMES, iid, name);
            });
        }
        message(out, field::TRACK_EVENT, |out| {
            uint(out, field::EVENT_TYPE, BEGIN);
            if let Some(track) = track {
                uint(out, field::TRACK_UUID, track);
            }
            uint(out, field::CATEGORY_IID, category);
            uint(out, field::NAME_IID, iid);
            fill(out);
        });
    });
    if !host.waits {
        let end = WaitEnd {
            call: 0,
            sequence,
            end,
            track,
        };
        end_packet(block, &end, &[]);
    }
}

#[inline]
fn dim3(out: &mut Vec<u8>, number: u32, size: [u32; 3]) {
    message(out, number, |out| {
        uint(out, 1, size[0].into());
        uint(out, 2, size[1].into());
        uint(out, 3, size[2].into());
    });
}

fn call_annotations(out: &mut Vec<u8>, record: &Record<'_>) {
    if record.external_id() != 0 {
        annotate(out, annotation!("external_id"), record.external_id());
    }
    if record.return_value() != 0 {
        message(out, field::ANNOTATION, |out| {
            uint(out, 1, annotation!("return"));
            // An int64 is the two's complement, ten bytes when negative.
            uint(out, 4, i64::from(record.return_value()) as u64);
        });
    }
    let mask = record.word(8);
    if mask & api_arg::BYTES != 0 {
        annotate(out, annotation!("bytes"), record.word(9));
    }
    if mask & (api_arg::DESTINATION | api_arg::EVENT | api_arg::GRAPH) != 0 {
        annotate(out, annotation!("destination"), record.word(10));
    }
    if mask & api_arg::SOURCE != 0 {
        annotate(out, annotation!("source"), record.word(11));
    }
    if mask & api_arg::LAUNCH != 0 && high(record.word(14)) != 0 {
        annotate(out, annotation!("shared_mem"), high(record.word(14)).into());
    }
    if record.kind() == Some(Kind::OpenCall) || record.end() == 0 {
        annotate_flag(out, annotation!("open"));
    }
}

/// Bytes of a [`launch_arg`].
#[inline]
fn launch_arg_bytes(value: u64) -> usize {
    5 + varint_bytes(value)
}

/// As [`arg`], for a launch.
#[inline]
fn launch_arg(out: &mut Line, name: u64, value: u64) {
    let length = 3 + varint_bytes(value) as u8;
    out.put(&[3 << 3 | 2, length, 1 << 3, name as u8, 4 << 3]);
    out.varint(value);
}

/// The last fields of a launch, which differ from record to record.
#[derive(Clone, Copy, Debug)]
struct LaunchTail {
    /// The call that the work leads to, and its own id if that is another.
    target: u64,
    own: Option<u64>,
    external: u64,
    /// For a kernel.
    dispatch: Option<u64>,
}

impl LaunchTail {
    /// How many bytes it takes.
    #[inline]
    fn bytes(&self, externals: &Externals) -> usize {
        let mut bytes = launch_arg_bytes(self.target);
        if self.external != 0 {
            bytes += launch_arg_bytes(self.external);
        }
        for id in [self.own, self.dispatch].into_iter().flatten() {
            bytes += launch_arg_bytes(id);
        }
        let outside = externals.of(self.target);
        bytes + outside.map(|(_, id)| launch_arg_bytes(id)).sum::<usize>()
    }

    #[inline]
    fn put(&self, externals: &Externals, out: &mut Line) {
        launch_arg(out, arg!("correlation_id"), self.target);
        if let Some(id) = self.own {
            launch_arg(out, arg!("own_correlation_id"), id);
        }
        if self.external != 0 {
            launch_arg(out, arg!("external_id"), self.external);
        }
        if let Some(id) = self.dispatch {
            launch_arg(out, arg!("dispatch_id"), id);
        }
        for (domain, id) in externals.of(self.target) {
            let name = arg!("external_id_domain_1") + u64::from(domain) - 1;
            launch_arg(out, name, id);
        }
    }
}

/// A packet with a render stage. All its lengths are known before its first byte is written.
#[inline]
fn stage(
    out: &mut Line,
    externals: &Externals,
    header: &[u8],
    (start, end, event): (u64, u64, u64),
    (stage_fields, launch_fields): (&[u8], &[u8]),
    tail: LaunchTail,
) {
    let duration = end - start;
    let launch = launch_fields.len() + tail.bytes(externals);
    let inner = 2
        + varint_bytes(event)
        + varint_bytes(duration)
        + stage_fields.len()
        + LAUNCH_TAG.len()
        + varint_bytes(launch as u64)
        + launch;
    let whole = 1
        + varint_bytes(start)
        + header.len()
        + STAGE_TAG.len()
        + varint_bytes(inner as u64)
        + inner;
    out.text(&[PACKET_TAG]).varint(whole as u64);
    out.put(&[(field::TIMESTAMP << 3) as u8]).varint(start);
    out.text(header);
    out.put(&STAGE_TAG).varint(inner as u64);
    out.put(&[1 << 3]).varint(event);
    out.put(&[2 << 3]).varint(duration);
    out.text(stage_fields);
    out.put(&LAUNCH_TAG).varint(launch as u64);
    out.text(launch_fields);
    tail.put(externals, out);
}
