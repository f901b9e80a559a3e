"""Loads an export with Perfetto's own trace processor and asks it, in SQL, what must hold.

usage: check_processor.py EXPORT [TRUTH.jsonl]

Further parts of the export (`out.part2.pftrace` beside `out.pftrace`) are loaded each by itself, and what is counted is counted
over all of them.

`STRANDLINE_TRACE_PROCESSOR` names a `trace_processor_shell` of v56 or later; without it the check is skipped. Without the
truth, what depends on it is printed and not compared.
"""

import csv
import io
import os
import subprocess
import sys
import tempfile

import truth

# Work on the GPU; the view `gpu_slice` holds other things as well.
STAGES = "select s.*, t.dimension_arg_set_id from gpu_slice s join track t on t.id = s.track_id where t.type = 'gpu_render_stage'"
# Arrows from a call to the work that it launched.
LAUNCHES = "select f.* from flow f join gpu_slice s on s.id = f.slice_in join thread_slice l on l.id = f.slice_out"
# Info, but a sign of a broken export all the same.
SIGNS = (
    "'interned_data_tokenizer_errors', 'track_event_parser_errors', 'track_hierarchy_missing_uuid', "
    "'flow_end_without_start', 'flow_step_without_start', 'flow_without_direction', 'json_parser_failure'"
)
STATS = f"select name from stats where value > 0 and (severity <> 'info' or name in ({SIGNS}))"

BOTH = {
    "complaints of the processor": f"{STATS} and name <> 'traced_buf_trace_writer_packet_loss'",
    "slices of negative length, or open": "select 1 from slice where dur < 0",
    "slices without a name": "select 1 from slice where name is null or name = ''",
    "slices deeper than the processor takes": "select 1 from slice where depth >= 512",
    "arrows from or to nothing": """select 1 from flow f left join slice a on a.id = f.slice_out
        left join slice b on b.id = f.slice_in where a.id is null or b.id is null""",
    "threads with slices and without a name": "select 1 from thread_slice where coalesce(thread_name, '') = ''",
    "processes without a name": """select 1 from process p where p.pid <> 0 and coalesce(p.name, '') = ''
        and exists (select 1 from process_track t join slice s on s.track_id = t.id where t.upid = p.upid)""",
    "doubled threads": """select 1 from thread t join process p using (upid) where tid <> 0
        group by p.machine_id, pid, tid having count(*) > 1""",
    "a trace of more than a day": "select 1 from trace_bounds where end_ts - start_ts > 86400000000000",
}

# What must find nothing in Perfetto's own format; see the names.
PROTO = {
    "work with two launches": f"select 1 from ({LAUNCHES}) group by slice_in having count(*) > 1",
    "arrows between processes": """select 1 from flow f join gpu_slice s on s.id = f.slice_in
        join thread_slice l on l.id = f.slice_out where l.upid is not s.upid""",
    "arrows to the work of another call": """select 1 from flow f join gpu_slice s on s.id = f.slice_in
        join thread_slice l on l.id = f.slice_out where extract_arg(s.arg_set_id, 'correlation_id')
        is not extract_arg(l.arg_set_id, 'debug.correlation_id')""",
    "waits that end before what they waited for": """select 1 from flow f join gpu_slice s on s.id = f.slice_out
        join thread_slice w on w.id = f.slice_in where w.ts + w.dur < s.ts + s.dur""",
    "work without a category, or kernels without a kernel": f"""select 1 from ({STAGES}) where render_stage_category is null
        or (render_stage_category = 2 and extract_arg(arg_set_id, 'kernel_name') is null)""",
    "work without a process": f"select 1 from ({STAGES}) s left join process p using (upid) where p.pid is null or p.pid = 0",
    "contexts that are unknown, ambiguous or of another process": """select s.context_id from gpu_slice s
        left join gpu_context c on c.context_id = s.context_id left join process p using (upid)
        where s.context_id is not null group by 1
        having max(c.id is null) or max(p.pid <> c.pid) or count(distinct c.id) > 1""",
    "device or stream that is no integer": f"""select 1 from ({STAGES}) where
        typeof(extract_arg(arg_set_id, 'device')) <> 'integer' or typeof(extract_arg(arg_set_id, 'stream')) <> 'integer'
        or extract_arg(arg_set_id, 'stream') < 0""",
    "queues that nobody described": "select 1 from track where name like 'Unknown GPU Queue%'",
    "tracks of no process": """select 1 from track where type like 'global_%track_event'
        and name not like 'Recording quality%'""",
    "GPUs without a name": "select 1 from gpu where coalesce(name, '') = ''",
    "counters that fall below zero": "select 1 from counter where value < 0",
}

# The same, where the work cannot lie in another part.
PROTO_WHOLE = {
    "launches that name work and reach none": """select 1 from thread_slice l where
        extract_arg(l.arg_set_id, 'gpu_correlation.render_stage_submission_event_ids[0]') is not null and not exists
        (select 1 from flow f join gpu_slice s on s.id = f.slice_in where f.slice_out = l.id)""",
}

# What must find nothing in Chrome's JSON.
JSON = {
    "work with two launches": "select slice_in from flow group by 1 having count(*) > 1",
    "arrows to the work of another call": """select 1 from flow f join slice a on a.id = f.slice_out
        join slice b on b.id = f.slice_in where extract_arg(a.arg_set_id, 'args.correlation')
        is not extract_arg(b.arg_set_id, 'args.correlation')""",
    # The processor turns an arrow round whose second event began first: work that still ran when its call began.
    "arrows that do not lead from a call to work": """select 1 from flow f join slice a on a.id = f.slice_out
        join slice b on b.id = f.slice_in where not (a.category in ('cuda_runtime', 'cuda_driver', 'collective_api')
        and b.category in ('kernel', 'gpu_memcpy', 'gpu_memset'))
        and not (b.category in ('cuda_runtime', 'cuda_driver', 'collective_api')
        and a.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and a.ts < b.ts and b.ts < a.ts + a.dur)""",
    "device or stream that is no integer": """select 1 from slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
        and (typeof(extract_arg(arg_set_id, 'args.device')) <> 'integer'
        or typeof(extract_arg(arg_set_id, 'args.stream')) <> 'integer')""",
}

PROTO_FIGURES = {
    "kernels": f"select count(*) from ({STAGES}) where render_stage_category = 2",
    "kernel ns": f"select coalesce(sum(dur), 0) from ({STAGES}) where render_stage_category = 2",
    "copies": f"select count(*) from ({STAGES}) where render_stage_category <> 2",
    "copy ns": f"select coalesce(sum(dur), 0) from ({STAGES}) where render_stage_category <> 2",
    "ns between starts": f"select coalesce(max(ts) - min(ts), 0) from ({STAGES})",
    "arrows": f"select count(*) from ({LAUNCHES})",
    "work that launches name": """select count(*) from thread_slice l join args a on a.arg_set_id = l.arg_set_id
        where a.key glob 'gpu_correlation.render_stage_submission_event_ids*'""",
    "lost": "select coalesce(sum(value), 0) from stats where name = 'traced_buf_trace_writer_packet_loss'",
    "work that starts before its launch": """select count(*) from flow f join gpu_slice s on s.id = f.slice_in
        join thread_slice l on l.id = f.slice_out where s.ts < l.ts""",
    "processes with calls": "select count(distinct upid) from thread_slice where category in ('api', 'driver')",
    "processes with work": f"select count(distinct upid) from ({STAGES})",
    "queues drawn in several lanes": """select count(*) from (select 1 from track where type = 'gpu_render_stage'
        group by track_group_id having count(*) > 1)""",
}

JSON_FIGURES = {
    "kernels": "select count(*) from slice where category = 'kernel'",
    "kernel ns": "select coalesce(sum(dur), 0) from slice where category = 'kernel'",
    "copies": "select count(*) from slice where category = 'gpu_memcpy'",
    "copy ns": "select coalesce(sum(dur), 0) from slice where category = 'gpu_memcpy'",
    "ns between starts": """select coalesce(max(ts) - min(ts), 0) from slice
        where category in ('kernel', 'gpu_memcpy', 'gpu_memset')""",
    "arrows": "select count(*) from flow",
    "work that starts before its launch": """select count(*) from flow f join slice a on a.id = f.slice_out
        join slice b on b.id = f.slice_in where b.ts < a.ts""",
}


def ask(processor, path, nothing, figures):
    """One load, one statement with an answer: (number, first row) by question."""
    queries = [f"select '{what}' as what, ({sql}) as n, null as first" for what, sql in figures.items()]
    for what, sql in nothing.items():
        queries.append(f"select '{what}' as what, count(*) as n, (select * from ({sql}) limit 1) as first from ({sql})")
    script = "INCLUDE PERFETTO MODULE slices.with_context;\nINCLUDE PERFETTO MODULE std.gpu.context;\n"
    script += "\nunion all\n".join(" ".join(query.split()) for query in queries) + ";\n"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [processor, "-q", file.name, path], capture_output=True, text=True, timeout=600, check=False
        )
    if done.returncode != 0:
        sys.exit(f"{processor} ended with {done.returncode}: {done.stderr[-2000:]}")
    rows = [row for row in csv.reader(io.StringIO(done.stdout)) if len(row) == 3 and row[0] != "what"]
    found = {row[0]: (int(row[1]), row[2]) for row in rows}
    missing = (nothing.keys() | figures.keys()) - found.keys()
    assert not missing, f"no answer to {missing}: {done.stdout[-2000:]}"
    return found


def expected(truth_path, in_parts):
    about, rows = truth.load(truth_path)
    kernels, copies = truth.of(rows, "dispatch"), truth.of(rows, "copy")
    calls = {(row.get("process", 0), row["correlation"]) for row in truth.of(rows, "api")} - {(0, 0)}
    length = lambda work: sum(row["end"] - row["start"] for row in work)
    joined = lambda row: any((row.get("process", 0), row[key]) in calls for key in ("correlation", "ancestor") if row[key])
    starts = [row["start"] for row in kernels + copies]
    wanted = {
        "kernels": len(kernels),
        "kernel ns": length(kernels),
        "copies": len(copies),
        "copy ns": length(copies),
        "work that launches name": sum(joined(row) for row in kernels + copies),
        "lost": about["lost"],
    }
    # No arrow leads from one part to another, and each has the processes anew.
    if not in_parts:
        wanted["arrows"] = wanted["work that launches name"]
        wanted["processes with calls"] = len({row.get("process", 0) for row in truth.of(rows, "api")})
        wanted["processes with work"] = len({row.get("process", 0) for row in kernels + copies})
    # Clocks of several processes are shifted against each other.
    if not in_parts and all(row.get("process", 0) == 0 for row in rows):
        wanted["ns between starts"] = max(starts, default=0) - min(starts, default=0)
    return wanted


def main(path, truth_path=None):
    processor = os.environ.get("STRANDLINE_TRACE_PROCESSOR")
    if not processor:
        truth.skip("STRANDLINE_TRACE_PROCESSOR does not name a trace_processor_shell")
    # An archive holds files of Perfetto's own format.
    proto = path.endswith((".pftrace", ".tar"))
    parts = [path]
    while os.path.exists(further := f".part{len(parts) + 1}".join(os.path.splitext(path))):
        parts.append(further)
    nothing = BOTH | (PROTO if proto else JSON)
    if proto and len(parts) == 1:
        nothing |= PROTO_WHOLE
    figures = PROTO_FIGURES if proto else JSON_FIGURES
    loads = [ask(processor, part, nothing, figures) for part in parts]
    wrong = []
    wanted = expected(truth_path, len(parts) > 1) if truth_path else {}
    for what in figures:
        values = [found[what][0] for found in loads]
        # Every part says what was lost of the whole.
        value = values[0] if what == "lost" and len(set(values)) == 1 else sum(values)
        said = f"{what}: {value}"
        if len(parts) > 1:
            said += f" in {len(parts)} parts, {min(values)} to {max(values)} in one"
        if what in wanted and wanted[what] != value:
            wrong.append(f"{said}, expected {wanted[what]}")
        print(said + (", as expected" if what in wanted else ""))
    for what in nothing:
        count = sum(found[what][0] for found in loads)
        if count:
            first = next(found[what][1] for found in loads if found[what][0])
            wrong.append(f"{what}: {count}, the first: {first}")
        print(f"{what}: {count}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
