"""Reads a Perfetto export with the protobuf classes of the PyPI package `perfetto`, compares it record by record, and asks
the questions that one would ask the trace processor in SQL.

usage: check_pftrace.py EXPORT.pftrace TRUTH.jsonl

Further parts of the export (`out.part2.pftrace` beside `out.pftrace`) are read each by itself; together they must hold every record.
"""

import os
import sys
from collections import Counter, defaultdict

import truth

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
except ImportError as missing:
    truth.skip(f"{missing}; pip install -r requirements.txt")

# Extensions that the package's classes do not know: (message, field number).
EXTENSIONS = {("InternedData", 1000), ("InternedData", 1001), ("TrackEvent", 3000), ("TrackEvent", 3001)}


def walk(message, unknown):
    """Collects fields that the classes do not know."""
    for field in UnknownFieldSet(message):
        unknown[(message.DESCRIPTOR.name, field.field_number)] += 1
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for inner in value if descriptor.is_repeated else [value]:
            walk(inner, unknown)


def extension(message, number):
    return [field.data for field in UnknownFieldSet(message) if field.field_number == number]


def varints(data):
    """The unpacked varints of GpuCorrelation: those of field 1 (work submitted); field 2 is work waited for."""
    values, at = [], 0
    while at < len(data):
        field = data[at]
        assert field in (0x08, 0x10), "field 1 or 2, not packed"
        at += 1
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if field == 0x08:
            values.append(value)
    return values


def read(path, boot, tracks, stages, slices):
    """Reads a part: adds its tracks, stages and slices; gives its GPUs and the number of its packets."""
    with open(path, "rb") as file:
        data = file.read()
    trace = pb.Trace.FromString(data)
    unknown = Counter()
    walk(trace, unknown)
    odd = {field: count for field, count in unknown.items() if field not in EXTENSIONS}
    assert not odd, f"unknown fields: {odd}"

    sequences = {}
    # Nothing of another part helps.
    own_tracks = set()
    events, gpus, snapshots = [], [], []
    for at, packet in enumerate(trace.packet):
        sequence_id = packet.trusted_packet_sequence_id
        assert sequence_id, "every packet has a sequence"
        if packet.sequence_flags & 1:
            sequences[sequence_id] = defaultdict(dict)
        else:
            assert packet.sequence_flags == 2 and sequence_id in sequences
        state = sequences[sequence_id]
        if packet.HasField("trace_packet_defaults"):
            state["defaults"] = packet.trace_packet_defaults
        if packet.HasField("interned_data"):
            interned = packet.interned_data
            for name in ("event_names", "debug_annotation_names", "gpu_specifications", "graphics_contexts", "event_categories"):
                for entry in getattr(interned, name):
                    assert entry.iid and entry.iid not in state[name]
                    state[name][entry.iid] = entry
            for entry in interned.debug_annotation_string_values:
                state["strings"][entry.iid] = entry.str.decode()
            for raw in extension(interned, 1000):
                kernel = pb.InternedComputeKernel.FromString(raw)
                state["kernels"][kernel.iid] = kernel
            for raw in extension(interned, 1001):
                name = pb.InternedComputeArgName.FromString(raw)
                state["args"][name.iid] = name.name
        if packet.HasField("clock_snapshot"):
            snapshots.append({clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
        if packet.HasField("timestamp"):
            assert state["defaults"].timestamp_clock_id == 6 and snapshots
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            own_tracks.add(packet.track_descriptor.uuid)
        if packet.HasField("gpu_info"):
            gpus = list(packet.gpu_info.gpus)
        if packet.HasField("gpu_render_stage_event"):
            event = packet.gpu_render_stage_event
            kernel = state["kernels"].get(event.kernel_iid)
            args = {}
            for arg in [*(kernel.args if kernel else []), *event.launch.args]:
                kind = arg.WhichOneof("value")
                value = getattr(arg, kind)
                args[state["args"][arg.name_iid]] = state["strings"][value] if kind == "string_value_iid" else value
            stages.append(
                {
                    "id": event.event_id,
                    "has_id": event.HasField("event_id"),
                    "start": packet.timestamp - boot,
                    "end": packet.timestamp - boot + event.duration,
                    "name": state["event_names"][event.name_iid].name,
                    "kernel": kernel,
                    "args": args,
                    "queue": state["gpu_specifications"][event.hw_queue_iid],
                    "stage": state["gpu_specifications"][event.stage_iid],
                    "context": state["graphics_contexts"][event.context],
                    "gpu": event.gpu_id,
                    "launch": event.launch,
                }
            )
        if packet.HasField("track_event"):
            event = packet.track_event
            track = event.track_uuid or state["defaults"].track_event_defaults.track_uuid
            name = state["event_names"][event.name_iid].name if event.name_iid else event.name
            notes = {}
            for note in event.debug_annotations:
                notes[state["debug_annotation_names"][note.name_iid].name] = getattr(note, note.WhichOneof("value"))
            submits = [id for raw in extension(event, 3000) for id in varints(raw)]
            events.append((packet.timestamp, at, track, event.type, name, notes, submits))

    # Track events pair up by time, in file order where times are equal.
    events.sort(key=lambda event: event[:2])
    open_slices = defaultdict(list)
    for time, _, track, kind, name, notes, submits in events:
        assert track in own_tracks
        if kind == pb.TrackEvent.TYPE_SLICE_BEGIN:
            assert name
            slices.append({"start": time - boot, "track": track, "name": name, "notes": notes, "submits": submits})
            open_slices[track].append(slices[-1])
        elif kind == pb.TrackEvent.TYPE_SLICE_END:
            open_slices[track].pop()["end"] = time - boot
    assert not any(open_slices.values()), "every begin has an end"
    return gpus, len(trace.packet)


def main(path, truth_path):
    about, rows = truth.load(truth_path)
    parts = [path]
    while os.path.exists(further := f".part{len(parts) + 1}".join(os.path.splitext(path))):
        parts.append(further)
    tracks, stages, slices = {}, [], []
    packets, named_here = 0, 0
    for part in parts:
        before = len(slices), len(stages)
        gpus, more = read(part, about["boot_offset"], tracks, stages, slices)
        packets += more
        ids = {stage["id"] for stage in stages[before[1] :]}
        named_here += sum(id in ids for slice in slices[before[0] :] for id in slice["submits"])

    size = lambda dim: [dim.x, dim.y, dim.z]
    kernels = [stage for stage in stages if stage["stage"].category == 2]
    truth.equal(
        "kernels",
        [
            (
                stage["start"],
                stage["end"],
                stage["kernel"].name,
                size(stage["launch"].grid_size),
                size(stage["launch"].workgroup_size),
                stage["args"]["queue"],
                stage["args"]["correlation_id"],
                stage["args"]["dispatch_id"],
                stage["args"].get("stream_handle"),
            )
            for stage in kernels
        ],
        [
            (
                row["start"],
                row["end"],
                row["kernel"],
                row["grid"],
                row["block"],
                row["queue"],
                row["correlation"],
                row["dispatch"],
                row["stream_handle"],
            )
            for row in truth.of(rows, "dispatch")
        ],
    )
    truth.equal(
        "copies",
        [
            (stage["start"], stage["end"], stage["args"]["bytes"], stage["args"]["correlation_id"])
            for stage in stages
            if stage["stage"].category == 0
        ],
        [(row["start"], row["end"], row["bytes"], row["correlation"]) for row in truth.of(rows, "copy")],
    )

    def thread(slice):
        track = tracks[slice["track"]]
        if not track.HasField("thread"):
            track = tracks[track.parent_uuid]
        return track.thread

    calls = [slice for slice in slices if "correlation_id" in slice["notes"]]
    truth.equal(
        "calls",
        [
            (slice["start"], slice["end"], slice["name"], thread(slice).tid, slice["notes"]["correlation_id"])
            for slice in calls
        ],
        [(row["start"], row["end"], row["name"], row["thread"], row["correlation"]) for row in truth.of(rows, "api")],
    )
    ranges = [slice for slice in slices if "session" in slice["notes"]]
    truth.equal(
        "ranges",
        [(slice["start"], slice["end"], slice["name"], thread(slice).tid) for slice in ranges],
        [(row["start"], row["end"], row["name"], row["thread"]) for row in truth.of(rows, "range")],
    )

    # The questions of SQL: each list must be empty.
    by_id = defaultdict(list)
    for stage in stages:
        by_id[stage["id"]].append(stage)
    launches = defaultdict(list)
    for slice in slices:
        for id in slice["submits"]:
            launches[id].append(slice)
    joined = {row["correlation"] for row in truth.of(rows, "api")}
    questions = {
        "stages without an id": [stage for stage in stages if not stage["has_id"]],
        "event ids of two stages": [id for id, found in by_id.items() if len(found) > 1],
        "kernels whose launch is recorded and that no launch names": [
            stage for stage in stages if stage["args"]["correlation_id"] in joined and stage["id"] not in launches
        ],
        "launches that name an id and reach no stage": [id for id in launches if id not in by_id],
        "stages with two launches": [id for id, found in launches.items() if len(found) > 1],
        "arrows between processes": [
            id
            for id, found in launches.items()
            for slice in found
            for stage in by_id[id]
            if thread(slice).pid != stage["context"].pid
        ],
        "arrows to the work of another call": [
            id
            for id, found in launches.items()
            for slice in found
            for stage in by_id[id]
            if slice["notes"]["correlation_id"] != stage["args"]["correlation_id"]
        ],
        "unnamed stages": [stage for stage in stages if not stage["name"]],
        "kernels without a kernel": [stage for stage in kernels if not stage["kernel"]],
        "stages without a process": [stage for stage in stages if not stage["context"].pid],
        "device or stream that is no integer": [
            stage
            for stage in stages
            if not all(isinstance(stage["args"].get(key), int) and stage["args"][key] < 1 << 31 for key in ("device", "stream"))
        ],
        "doubled threads": [
            key
            for key, count in Counter(
                (track.thread.pid, track.thread.tid) for track in tracks.values() if track.HasField("thread")
            ).items()
            if count > 1
        ],
        "unnamed threads": [
            track for track in tracks.values() if track.HasField("thread") and not track.thread.thread_name
        ],
        "GPUs without a name": [gpu for gpu in gpus if not gpu.name],
        "negative spans": [slice for slice in slices if slice["end"] < slice["start"]],
        "undescribed parents": [
            track for track in tracks.values() if track.parent_uuid and track.parent_uuid not in tracks
        ],
    }
    for question, found in questions.items():
        if found:
            sys.exit(f"{question}: {len(found)}, the first: {found[0]}")
        print(f"{question}: 0")
    size = sum(map(os.path.getsize, parts))
    print(f"{len(parts)} parts, {packets} packets, {size} bytes, {named_here} of {sum(map(len, launches.values()))} arrows in a part")


if __name__ == "__main__":
    main(*sys.argv[1:])
