"""Reads a Chrome JSON export with Python's own parser, as strict as it can be, and compares it record by record.

usage: check_json.py EXPORT.json TRUTH.jsonl
"""

import gzip
import json
import sys
from decimal import Decimal

import truth


def refuse(name):
    raise ValueError(f"{name} is no JSON")


def main(path, truth_path):
    opened = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        text = file.read().decode("utf-8", errors="strict")
    value = json.loads(text, parse_constant=refuse, parse_float=Decimal)
    about, rows = truth.load(truth_path)
    events = value["traceEvents"]
    base = value["baseTimeNanoseconds"]

    def vendor(event):
        return int(event["ts"] * 1000) + base - about["unix_offset"]

    def span(event):
        start = vendor(event)
        return start, start + int(event["dur"] * 1000)

    # Times survive a double, as most readers take them.
    for event in events:
        if event["ph"] == "X":
            exact = int(event["ts"] * 1000)
            assert round(float(event["ts"]) * 1000) == exact, event

    kernels = [event for event in events if event.get("cat") == "kernel"]
    truth.equal(
        "kernels",
        [
            (
                *span(event),
                event["args"].get("mangled", event["name"]),
                event["args"]["grid"],
                event["args"]["block"],
                event["args"]["hsa_queue"],
                event["args"]["correlation"],
                event["args"]["dispatch"],
                event["args"].get("stream handle"),
            )
            for event in kernels
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
    copies = [event for event in events if event.get("cat") == "gpu_memcpy"]
    truth.equal(
        "copies",
        [(*span(event), event["args"]["bytes"], event["args"]["correlation"]) for event in copies],
        [(row["start"], row["end"], row["bytes"], row["correlation"]) for row in truth.of(rows, "copy")],
    )
    calls = [event for event in events if event.get("cat") == "cuda_runtime"]
    truth.equal(
        "calls",
        [(*span(event), event["name"], event["tid"], event["args"]["correlation"]) for event in calls],
        [(row["start"], row["end"], row["name"], row["thread"], row["correlation"]) for row in truth.of(rows, "api")],
    )
    ranges = [event for event in events if event.get("cat") == "user_annotation"]
    truth.equal(
        "ranges",
        [(*span(event), event["name"], event["tid"]) for event in ranges],
        [(row["start"], row["end"], row["name"], row["thread"]) for row in truth.of(rows, "range")],
    )
    starts = {}
    for event in events:
        if event["ph"] == "s":
            assert event["id"] not in starts, event
            starts[event["id"]] = event
    ends = [event for event in events if event["ph"] == "f"]
    for event in ends:
        assert starts[event["id"]]["ts"] <= event["ts"], event
    joined = {row["correlation"] for row in truth.of(rows, "api")}
    expected = [row["correlation"] for row in rows if row["kind"] in ("dispatch", "copy") and row["correlation"] in joined]
    truth.equal("arrows", [event["id"] for event in ends], expected)
    print(f"{len(events)} events, {len(text)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
