"""Compares what HolisticTraceAnalysis says of a Chrome JSON export with the figures of the records themselves.

usage: check_hta.py EXPORT.json TRUTH.jsonl

Times are compared to 1 ns an edge: the reader subtracts doubles. Queue lengths count the calls that it knows by name
(hipLaunchKernel, hipMemcpyAsync, ...), so the truth is filtered by the same names.
"""

import os
import sys
import tempfile

import truth

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as missing:
    truth.skip(f"{missing}; pip install -r requirements.txt")

KNOWN = {"hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync", "hipMemcpyWithStream"}


def close(what, found, expected, tolerance):
    if abs(found - expected) > tolerance:
        sys.exit(f"{what}: found {found}, expected {expected}, tolerance {tolerance}")
    print(f"{what}: {found:.3f} us, expected {expected:.3f}")


def main(path, truth_path):
    _, rows = truth.load(truth_path)
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir=tempfile.gettempdir(), include_last_profiler_step=True)
    kernels = truth.of(rows, "dispatch")
    copies = truth.of(rows, "copy")
    work = kernels + copies
    spans = lambda rows: [(row["start"], row["end"]) for row in rows]
    tolerance = 0.002 * len(work)

    frame = analysis.t.traces[0]
    gpu = frame[frame["stream"] >= 0]
    close("GPU rows", len(gpu), len(work), 0)
    linked = int((frame["index_correlation"] > 0).sum())
    print(f"linked rows: {linked}")

    times = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    busy, compute = truth.union(spans(work)) / 1000, truth.union(spans(kernels)) / 1000
    wall = (max(row["end"] for row in work) - min(row["start"] for row in work)) / 1000
    close("wall", times["kernel_time(us)"], wall, tolerance)
    close("idle", times["idle_time(us)"], wall - busy, tolerance)
    close("compute", times["compute_time(us)"], compute, tolerance)
    close("other", times["non_compute_time(us)"], busy - compute, tolerance)

    _, table = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    expected = {}
    for row in kernels:
        total, count = expected.get(row["display"], (0, 0))
        expected[row["display"]] = (total + row["end"] - row["start"], count + 1)
    computed = table[table["kernel_type"] == "COMPUTATION"]
    found = {row["name"]: row for _, row in computed.iterrows()}
    for name, (total, count) in expected.items():
        close(f"sum of {name[:40]}", found[name]["sum (us)"], total / 1000, 0.002 * count + 0.001)
    print(f"kernel breakdown: {len(expected)} kernels")

    idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    per_stream = {}
    for row in work:
        per_stream.setdefault(row["stream_number"], []).append((row["start"], row["end"]))
    for stream, intervals in per_stream.items():
        intervals.sort()
        gaps = sum(max(0, b[0] - a[1]) for a, b in zip(intervals, intervals[1:])) / 1000
        found = idle[idle["stream"] == stream]["idle_time"].sum()
        close(f"idle of stream {stream}", found, gaps, tolerance)

    lengths = analysis.get_queue_length_time_series(ranks=[0])
    known = {row["correlation"] for row in truth.of(rows, "api") if row["name"] in KNOWN}
    if known:
        series = lengths[0]
        for stream in sorted(per_stream):
            of_stream = [row for row in work if row["stream_number"] == stream and row["correlation"] in known]
            starts = {row["correlation"]: row["start"] for row in truth.of(rows, "api")}
            # A launch adds one at its start, the kernel takes one away at its own.
            steps = [(starts[row["correlation"]], 1) for row in of_stream] + [(row["start"], -1) for row in of_stream]
            depth = most = 0
            for _, step in sorted(steps, key=lambda step: (step[0], -step[1])):
                depth += step
                most = max(most, depth)
            found = series[series["stream"] == stream]["queue_length"].max()
            close(f"longest queue of stream {stream}", float(found), float(most), 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
