//! The same events through Perfetto's messages as generated Rust (crate `perfetto_protos`): a message built for each
//! packet and written out, names of events, categories and annotations interned.
//!
//! Its messages know neither a render stage's kernel nor what a call submitted, so kernels and copies are track events
//! on a track for each stream, a begin and an end each, and arrows are flows.

use std::io::{BufWriter, Write};

use perfetto_protos::debug_annotation::{
    DebugAnnotation, DebugAnnotationName, debug_annotation::Value,
};
use perfetto_protos::interned_data::InternedData;
use perfetto_protos::thread_descriptor::ThreadDescriptor;
use perfetto_protos::trace_packet::{TracePacket, trace_packet::SequenceFlags};
use perfetto_protos::track_descriptor::TrackDescriptor;
use perfetto_protos::track_event::{EventCategory, EventName, TrackEvent, track_event::Type};
use protobuf::{CodedOutputStream, Message, MessageField};
use strandline::Trace;
use strandline::record::Kind;

use super::check::Counts;
use super::synthetic::{GRAPH, GRAPH_LAUNCH, STREAMS, THREAD, kernel_name};

/// Categories; the interned id is the place in this list, from 1.
const CATEGORIES: [&str; 3] = ["cuda_runtime", "kernel", "gpu_memcpy"];
/// Names of annotations; likewise.
const ANNOTATIONS: [&str; 11] = [
    "External id",
    "correlation",
    "device",
    "stream",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "bytes",
];
/// Interned ids of names: the calls' and the copy's, then the kernels'.
const NAMES: [&str; 3] = ["hipGraphLaunch", "hipMemcpyAsync", "Memcpy HtoD"];
const FIRST_KERNEL: u64 = NAMES.len() as u64 + 1;
/// Tracks: the thread's, then the streams'.
const THREAD_TRACK: u64 = 1_000;
const SEQUENCE: u32 = 1;
/// Field of a packet in a trace.
const PACKET: u32 = 1;

fn packet() -> TracePacket {
    let mut packet = TracePacket::new();
    packet.set_trusted_packet_sequence_id(SEQUENCE);
    packet.set_sequence_flags(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE as u32);
    packet
}

fn annotation(name: u64, value: u64) -> DebugAnnotation {
    let mut annotation = DebugAnnotation::new();
    annotation.set_name_iid(name);
    annotation.value = Some(Value::UintValue(value));
    annotation
}

fn event_name(iid: u64, name: &str) -> EventName {
    let mut interned = EventName::new();
    interned.set_iid(iid);
    interned.set_name(name.to_owned());
    interned
}

/// The first packet: the sequence's state, with the names that are known.
fn first() -> TracePacket {
    let mut data = InternedData::new();
    data.event_categories = (1..)
        .zip(CATEGORIES)
        .map(|(iid, name)| {
            let mut category = EventCategory::new();
            category.set_iid(iid);
            category.set_name(name.to_owned());
            category
        })
        .collect();
    data.debug_annotation_names = (1..)
        .zip(ANNOTATIONS)
        .map(|(iid, name)| {
            let mut interned = DebugAnnotationName::new();
            interned.set_iid(iid);
            interned.set_name(name.to_owned());
            interned
        })
        .collect();
    data.event_names = (1..)
        .zip(NAMES)
        .map(|(iid, name)| event_name(iid, name))
        .collect();
    let mut first = packet();
    first.set_sequence_flags(
        SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED as u32
            | SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE as u32,
    );
    first.interned_data = MessageField::some(data);
    first
}

/// The tracks: one thread, the streams.
fn tracks() -> Vec<TracePacket> {
    let mut thread = ThreadDescriptor::new();
    thread.set_pid(4242);
    thread.set_tid(THREAD as i32);
    let mut track = TrackDescriptor::new();
    track.set_uuid(THREAD_TRACK);
    track.thread = MessageField::some(thread);
    let streams = (1..=STREAMS).map(|stream| {
        let mut track = TrackDescriptor::new();
        track.set_uuid(THREAD_TRACK + stream);
        track.set_name(format!("stream {stream}"));
        track
    });
    std::iter::once(track)
        .chain(streams)
        .map(|track| {
            let mut packet = packet();
            packet.set_track_descriptor(track);
            packet
        })
        .collect()
}

/// Writes the events with their flows; returns how many.
pub(super) fn protos_to(trace: &Trace, sink: &mut impl Write) -> Result<u64, String> {
    let mut buffered = BufWriter::with_capacity(1 << 18, sink);
    let mut out = CodedOutputStream::new(&mut buffered);
    let failed = |error: protobuf::Error| error.to_string();
    for packet in std::iter::once(first()).chain(tracks()) {
        out.write_message(PACKET, &packet).map_err(failed)?;
    }
    let mut interned = [false; GRAPH as usize];
    let mut events = 0;
    for entry in trace.entries() {
        let record = entry.record;
        let mut begin = packet();
        let mut event = TrackEvent::new();
        event.debug_annotations = vec![
            annotation(1, record.external_id()),
            annotation(2, record.correlation_id()),
        ];
        let (category, name, track) = match record.kind() {
            Some(Kind::Api) => {
                let graph = record.operation() == u32::from(GRAPH_LAUNCH);
                (1, if graph { 1 } else { 2 }, THREAD_TRACK)
            }
            Some(kind @ (Kind::Dispatch | Kind::Copy)) => {
                let more = &mut event.debug_annotations;
                more.extend([annotation(3, 0), annotation(4, record.stream().into())]);
                let track = THREAD_TRACK + u64::from(record.stream());
                if kind == Kind::Copy {
                    more.push(annotation(11, record.bytes()));
                    (3, 3, track)
                } else {
                    let sizes = record.grid().into_iter().chain(record.block());
                    more.extend(
                        (5..)
                            .zip(sizes)
                            .map(|(iid, size)| annotation(iid, size.into())),
                    );
                    let kernel = record.kernel_id() % GRAPH;
                    let iid = FIRST_KERNEL + kernel;
                    if !std::mem::replace(&mut interned[kernel as usize], true) {
                        let mut data = InternedData::new();
                        data.event_names = vec![event_name(iid, &kernel_name(kernel))];
                        begin.interned_data = MessageField::some(data);
                    }
                    (2, iid, track)
                }
            }
            _ => continue,
        };
        event.set_type(Type::TYPE_SLICE_BEGIN);
        event.category_iids = vec![category];
        event.set_name_iid(name);
        event.set_track_uuid(track);
        event.flow_ids = vec![record.correlation_id()];
        begin.set_timestamp(record.start());
        begin.set_track_event(event);
        out.write_message(PACKET, &begin).map_err(failed)?;
        let mut event = TrackEvent::new();
        event.set_type(Type::TYPE_SLICE_END);
        event.set_track_uuid(track);
        let mut end = packet();
        end.set_timestamp(record.end());
        end.set_track_event(event);
        out.write_message(PACKET, &end).map_err(failed)?;
        events += 1;
    }
    out.flush().map_err(failed)?;
    drop(out);
    buffered.flush().map_err(|error| error.to_string())?;
    Ok(events)
}

/// Reads what was written back with the crate's own parser: events by category, their names and correlation ids.
pub(super) fn counts(bytes: &[u8]) -> Result<Counts, String> {
    let trace = perfetto_protos::trace::Trace::parse_from_bytes(bytes)
        .map_err(|error| format!("reading it back: {error}"))?;
    let mut names = std::collections::HashMap::new();
    let mut counts = Counts::default();
    let mut ends = 0;
    for packet in &trace.packet {
        for name in packet
            .interned_data
            .iter()
            .flat_map(|data| &data.event_names)
        {
            names.insert(name.iid(), name.name());
        }
        if !packet.has_track_event() {
            continue;
        }
        let event = packet.track_event();
        match event.type_() {
            Type::TYPE_SLICE_END => ends += 1,
            Type::TYPE_SLICE_BEGIN => {
                let category = event.category_iids.first().copied().unwrap_or(0) as usize;
                let category = CATEGORIES.get(category.wrapping_sub(1)).unwrap_or(&"");
                let name = names.get(&event.name_iid()).copied().unwrap_or("");
                let correlation = event
                    .debug_annotations
                    .iter()
                    .find(|annotation| annotation.name_iid() == 2)
                    .map_or(0, DebugAnnotation::uint_value);
                counts.add(category, name, correlation);
            }
            _ => {}
        }
    }
    if ends == counts.calls + counts.kernels + counts.copies {
        Ok(counts)
    } else {
        Err(format!("{ends} ends: for {counts}"))
    }
}
