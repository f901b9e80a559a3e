#!/usr/bin/env python3
"""Prints src/hip/tables.rs or src/names/tables.rs from the SDK's and HIP's own headers.

usage: tables.py hip   HIP_INCLUDE_DIR > ../src/hip/tables.rs
       tables.py names SDK_INCLUDE_DIR STATUS_SOURCE > ../src/names/tables.rs

Names of functions, arguments and enumerators are read from the preprocessed headers. Everything
numeric is printed by a C++ program that this script writes, compiles with $CXX (default g++) and
runs: ids, offsets (offsetof on the real argument union), sizes, pointer depths, typeid names.
README.md says where the headers come from.
"""
import os
import re
import subprocess
import sys
import tempfile

NONE = 255
COMPILER = os.environ.get("CXX", "g++").split()
FLAGS = ["-std=c++17", "-w", "-D__HIP_PLATFORM_AMD__"]


def preprocess(include_dir, headers):
    source = "".join(f"#include <{h}>\n" for h in headers)
    command = COMPILER + FLAGS + [f"-I{include_dir}", "-E", "-P", "-x", "c++", "-"]
    return subprocess.run(command, input=source, text=True, check=True, stdout=subprocess.PIPE).stdout


def evaluate(include_dir, headers, statements):
    """Runs the C++ statements after #include of the headers; returns the lines printed."""
    source = "".join(f"#include <{h}>\n" for h in headers) + """
#include <cstddef>
#include <cstdio>
#include <type_traits>
#include <typeinfo>
template <typename T, int N> struct depth_n { static constexpr int value = N; };
template <typename T, int N> struct depth_n<T*, N> : depth_n<T, N + 1> {};
template <typename T, int N> struct depth_n<T* const, N> : depth_n<T, N + 1> {};
template <typename T> constexpr int depth = depth_n<std::decay_t<T>, 0>::value;
#define ARGUMENT(UNION, MEMBER, FIELD)                                                             \\
    {                                                                                              \\
        using T = decltype(((UNION*) nullptr)->MEMBER.FIELD);                                      \\
        std::printf("%s %s %zu %zu %d %d %s\\n", #MEMBER, #FIELD, offsetof(UNION, MEMBER.FIELD),    \\
                    sizeof(T), depth<T>,                                                           \\
                    std::is_same<T, hipStream_t>::value ? 1                                        \\
                    : std::is_same<T, hipStream_t*>::value ? 2 : 0,                                \\
                    typeid(T).name());                                                             \\
    }
#define VALUE(X) std::printf("%s %lld\\n", #X, (long long) (X));
#define OFFSET(TYPE, FIELD) std::printf("%s.%s %zu\\n", #TYPE, #FIELD, offsetof(TYPE, FIELD));
#define SIZE(TYPE) std::printf("sizeof %s %zu\\n", #TYPE, sizeof(TYPE));
int main() {
""" + "\n".join(statements) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        path, program = os.path.join(folder, "tables.cpp"), os.path.join(folder, "tables")
        with open(path, "w") as file:
            file.write(source)
        subprocess.run(COMPILER + FLAGS + [f"-I{include_dir}", path, "-o", program], check=True)
        return subprocess.run([program], text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()


def enumerators(text, name):
    body = re.search(r"typedef enum(?:\s+\w+)?\s*\{([^{}]*)\}\s*" + name + r"\s*;", text)
    if not body:
        sys.exit(f"no enum {name} in the headers")
    return re.findall(r"^\s*(\w+)\s*(?:=[^,]*)?,?\s*$", body[1].replace(",", ",\n"), re.M)


def values(include_dir, headers, names):
    return {n: int(v) for n, v in
            (line.split() for line in evaluate(include_dir, headers, [f"VALUE({n})" for n in names]))}


def union_members(text, name):
    start = text.index("typedef union " + name)
    body = text[start:text.index("} " + name + ";", start)]
    for fields, member in re.findall(r"struct\s*\{(.*?)\}\s*(\w+)\s*;", body, re.S):
        names = []
        for field in fields.split(";"):
            field = " ".join(field.split())
            if not field:
                continue
            function = re.search(r"\(\s*\*\s*(\w+)\s*\)", field)
            names.append(function[1] if function else re.search(r"(\w+)\s*(\[[^\]]*\])?$", field)[1])
        yield member, [n for n in names if n != "no_args"]


def arguments(include_dir, headers, union):
    """{function: [(name, offset, size, depth, stream, typeid)]}"""
    members = dict(union_members(preprocess(include_dir, headers), union))
    table = {m: [] for m in members}
    for line in evaluate(include_dir, headers,
                         [f"ARGUMENT({union}, {m}, {f})" for m, fs in members.items() for f in fs]):
        member, field, offset, size, depth, stream, typeid = line.split()
        table[member].append((field, int(offset), int(size), int(depth), int(stream), typeid))
    return table


def print_argument_table(name, what, operations, table):
    print(f"/// {what}")
    print(f"pub static {name}: [&[Argument]; {len(operations)}] = [")
    for op, function in enumerate(operations):
        rows = ", ".join(f'a(c"{f}", c"{t}", {o}, {s}, {d})' for f, o, s, d, _, t in table[function])
        print(f"    /* {op} {function} */ &[{rows}],")
    print("];\n")


def print_names(name, what, names):
    """The table as C strings, for callers that must hand out `const char*`, and as Rust strings."""
    print(f"/// {what} As C strings.")
    print(f"pub static {name}_C: [&CStr; {len(names)}] = [")
    for number, text in enumerate(names):
        print(f'    /* {number} */ c"{text}",')
    print("];\n")
    print(f"/// {what}")
    print(f"pub static {name}: [&str; {len(names)}] = rust_strings(&{name}_C);\n")


def print_bytes(name, what, numbers):
    print(f"/// {what}")
    print(f"pub static {name}: [u8; {len(numbers)}] = [")
    for start in range(0, len(numbers), 16):
        print("    " + " ".join(f"{n}," for n in numbers[start:start + 16]) + f" // {start}")
    print("];\n")


def operations_of(include_dir, headers, enum, prefix):
    """Names by id: the enumerators of an API id enum without NONE and LAST, which must be dense."""
    names = [n for n in enumerators(preprocess(include_dir, headers), enum)
             if not n.endswith(("_NONE", "_LAST"))]
    ids = values(include_dir, headers, names)
    by_id = {i: n[len(prefix):] for n, i in ids.items()}
    if sorted(by_id) != list(range(len(names))):
        sys.exit(f"ids of {enum} are not dense")
    return [by_id[i] for i in range(len(names))]


# ------------------------------------------------------------------------------------------ hip

COPIES_IMPLIED = {"HtoH": 0, "HtoD": 1, "HtoA": 1, "DtoH": 2, "AtoH": 2, "DtoD": 3, "DtoA": 3,
                  "AtoD": 3, "AtoA": 3}
ROLES = {
    "function": ("function_address", "func", "f", "fPtr", "hostFunction"),
    "grid": ("numBlocks", "gridDim", "gridDimX", "globalWorkSizeX"),
    "block": ("dimBlocks", "blockDim", "blockDimX", "localWorkSizeX"),
    "shared": ("sharedMemBytes",),
    "params": ("launchParamsList", "config", "p", "pCopy"),
    "param_count": ("numDevices",),
    "dst": ("dst", "dest", "dstArray", "dstDevice", "dstHost"),
    "src": ("src", "srcArray", "srcDevice", "srcHost"),
    "bytes": ("sizeBytes", "count", "ByteCount", "size", "bytesize"),
    "width": ("width",),
    "height": ("height",),
    "copy_kind": ("kind",),
    "value": ("value",),
    "ptr": ("ptr", "dev_ptr", "devPtr", "dptr", "hostPtr"),
    "graph_exec": ("graphExec",),
    "event": ("event",),
}


def classify(function):
    base = function.removesuffix("_spt")
    if base in ("hipLaunchKernel", "hipExtLaunchKernel", "hipLaunchCooperativeKernel", "hipModuleLaunchKernel",
                "hipModuleLaunchCooperativeKernel", "hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel",
                "hipExtLaunchMultiKernelMultiDevice", "hipLaunchCooperativeKernelMultiDevice",
                "hipModuleLaunchCooperativeKernelMultiDevice", "hipLaunchKernelExC", "hipDrvLaunchKernelEx"):
        return "Launch"
    if base == "hipGraphLaunch":
        return "GraphLaunch"
    if re.match(r"hipMemcpy|hipDrvMemcpy", base) and "Batch" not in base:
        return "Copy"
    if re.match(r"hipMemset", base):
        return "Set"
    if base in ("hipMalloc", "hipMallocAsync", "hipMallocManaged", "hipMallocFromPoolAsync", "hipMallocHost",
                "hipExtMallocWithFlags", "hipHostMalloc", "hipHostAlloc", "hipMemAllocHost"):
        return "Alloc"
    if base in ("hipFree", "hipFreeAsync", "hipFreeHost", "hipHostFree"):
        return "Free"
    if base in ("hipEventRecord", "hipEventRecordWithFlags", "hipStreamWaitEvent", "hipEventSynchronize",
                "hipEventQuery"):
        return "Event"
    return None


def roles(function, kind, fields):
    found = {}
    by_name = {f[0]: f for f in fields}
    for role, names in ROLES.items():
        hits = [n for n in names if n in by_name]
        if hits:
            found[role] = by_name[hits[0]]
    if kind == "Copy" and "symbol" in by_name:
        found["dst" if "ToSymbol" in function else "src"] = by_name["symbol"]
    for xyz in ("gridDim", "blockDim", "globalWorkSize", "localWorkSize"):
        if xyz + "Y" in by_name:  # three words in a row, so that the offset of X stands for all
            x, y, z = (by_name[xyz + c] for c in "XYZ")
            assert (y[1], z[1], x[2]) == (x[1] + 4, x[1] + 8, 4), function
    if kind == "Launch" and "params" not in found:
        assert {"function", "grid", "block", "shared"} <= set(found), function
    wanted = {
        "Launch": ("function", "grid", "block", "shared", "params", "param_count"),
        "GraphLaunch": ("graph_exec",), "Event": ("event",), "Alloc": ("ptr", "bytes"), "Free": ("ptr",),
        "Copy": ("dst", "src", "bytes", "width", "height", "copy_kind", "params"),
        "Set": ("dst", "value", "bytes", "width", "height"),
    }[kind]
    return {r: found[r] for r in wanted if r in found}


def print_hip(include_dir):
    headers = ["rocprofiler-sdk/hip/api_args.h", "rocprofiler-sdk/hip/runtime_api_id.h"]
    union = "rocprofiler_hip_api_args_t"
    text = preprocess(include_dir, headers)
    table = arguments(include_dir, headers, union)
    operations = operations_of(include_dir, headers, "rocprofiler_hip_runtime_api_id_t",
                               "ROCPROFILER_HIP_RUNTIME_API_ID_")
    compiler = re.findall(r"\}\s*(__hip\w+)\s*;", text)
    steps = values(include_dir, headers, ["HIP_VERSION", "HIP_RUNTIME_API_TABLE_STEP_VERSION", f"sizeof({union})"])
    version = steps["HIP_VERSION"]
    count = len(operations)
    # HIP renames some functions by macro (hipChooseDevice), and with them the members of the union.
    source = "".join(f"#include <{h}>\n" for h in headers) + "\n".join(f"member {f} {f}_" for f in operations)
    expanded = subprocess.run(COMPILER + FLAGS + [f"-I{include_dir}", "-E", "-P", "-x", "c++", "-"], input=source,
                              text=True, check=True, stdout=subprocess.PIPE).stdout
    for member, function in re.findall(r"^member (\w+) (\w+)_$", expanded, re.M):
        table[function] = table[member]

    print(f"""\
// Generated by regenerate/tables.py; do not edit.
//
// Source: rocprofiler-sdk/hip/api_args.h and runtime_api_id.h of rocprofiler-sdk, compiled with the
// headers of HIP {version // 10000000}.{version // 100000 % 100}.{version % 100000} (runtime table step {steps['HIP_RUNTIME_API_TABLE_STEP_VERSION']}). Copyright (c) 2023-2025 Advanced
// Micro Devices, Inc. All rights reserved. MIT licence; regenerate/LICENSE.rocprofiler-sdk holds its
// text.

use super::{{Argument, HipArgs, HipArgsClass, argument as a}};
use crate::names::rust_strings;
use core::ffi::CStr;

/// How many HIP runtime operations are known here.
pub const HIP_OPERATION_COUNT: usize = {count};
""")
    assert steps[f"sizeof({union})"] == 88
    print_names("HIP_OPERATION_NAMES", "Names of the HIP runtime operations, by operation id.", operations)
    print("/// Ids of the HIP runtime operations, by name.\n#[allow(non_upper_case_globals, reason = \"names as in HIP\")]\npub mod op {")
    for number, name in enumerate(operations):
        print(f"    /// `{name}`.\n    pub const {name}: u32 = {number};")
    print("}\n")

    def first(function, stream):
        return next((f[1] for f in table[function] if f[4] == stream), NONE)

    print_bytes("HIP_STREAM_OFFSET",
                "Offset in the argument union of the (first) `hipStream_t` argument, by operation id; "
                "[`NO_OFFSET`](super::NO_OFFSET): none.",
                [first(f, 1) for f in operations])
    print_bytes("HIP_STREAM_OUT_OFFSET",
                "Offset in the argument union of the `hipStream_t*` argument, by operation id; "
                "[`NO_OFFSET`](super::NO_OFFSET): none.",
                [first(f, 2) for f in operations])

    per_thread = [i for i, f in enumerate(operations)
                  if f.endswith("_spt") and f not in ("hipGetProcAddress_spt", "hipGetDriverEntryPoint_spt")]
    print("/// Operations compiled for per-thread default streams: their null stream, or their lack of a stream\n"
          "/// argument, means the calling thread's own stream. Ascending.")
    print(f"pub static HIP_STREAM_PER_THREAD_VARIANTS: [u32; {len(per_thread)}] = [")
    for start in range(0, len(per_thread), 12):
        print("    " + " ".join(f"{n}," for n in per_thread[start:start + 12]))
    print("];\n")

    rows, index = [], [NONE] * count
    for number, function in enumerate(operations):
        kind = classify(function)
        if kind is None:
            continue
        r = roles(function, kind, table[function])
        index[number] = len(rows)
        implied = next((v for k, v in COPIES_IMPLIED.items() if k in function), NONE) if kind == "Copy" else NONE
        stream = first(function, 1)
        fields = [f"op: {number}", f"class: HipArgsClass::{kind}"]
        fields += [f"{role}: {r[role][1]}" for role in ROLES if role in r]
        if stream != NONE:
            fields.append(f"stream: {stream}")
        if "shared" in r:
            fields.append(f"shared_size: {r['shared'][2]}")
        if "value" in r:
            element = re.search(r"D(8|16|32)(Async)?$", function)
            fields += [f"value_size: {r['value'][2]}", f"element_bytes: {int(element[1]) // 8 if element else 1}"]
        if any(x[0] == "globalWorkSizeX" for x in r.values()):
            fields.append("grid_in_work_items: true")
        if implied != NONE:
            fields.append(f"implied_copy_kind: {implied}")
        rows.append(f"    /* {function} */ HipArgs {{ {', '.join(fields)}, ..HipArgs::NONE }},")
    print("/// Where the arguments are that a tracer reads, for launches, copies, fills, allocations, frees, graph\n"
          "/// launches and events. Ascending by `op`; [`hip_args`](super::hip_args) finds one.")
    print(f"pub static HIP_ARGS: [HipArgs; {len(rows)}] = [")
    print("\n".join(rows))
    print("];\n")
    print_bytes("HIP_ARGS_INDEX", "Index into [`HIP_ARGS`] by operation id; [`NO_OFFSET`](super::NO_OFFSET): none.", index)

    print_argument_table("HIP_ARGUMENTS", "All arguments of each HIP runtime operation, by operation id.",
                         operations, table)
    print_names("HIP_COMPILER_OPERATION_NAMES", "Names of the HIP compiler operations (kind 6), by operation id.", compiler)
    print_argument_table("HIP_COMPILER_ARGUMENTS", "All arguments of each HIP compiler operation, by operation id.",
                         compiler, table)

    structs = {
        "hipLaunchConfig_t": ("LAUNCH_CONFIG", "`hipLaunchConfig_t` (argument `config` of `hipLaunchKernelExC`)",
                              ("gridDim", "blockDim", "dynamicSmemBytes", "stream")),
        "HIP_LAUNCH_CONFIG": ("DRV_LAUNCH_CONFIG", "`HIP_LAUNCH_CONFIG` (argument `config` of `hipDrvLaunchKernelEx`)",
                              ("gridDimX", "blockDimX", "sharedMemBytes", "hStream")),
        "hipLaunchParams": ("LAUNCH_PARAMS", "one `hipLaunchParams` (argument `launchParamsList` of the multi-device launches)",
                            ("func", "gridDim", "blockDim", "sharedMem", "stream")),
        "hipFunctionLaunchParams": ("FUNCTION_LAUNCH_PARAMS",
                                    "one `hipFunctionLaunchParams` (argument `launchParamsList` of "
                                    "`hipModuleLaunchCooperativeKernelMultiDevice`)",
                                    ("function", "gridDimX", "blockDimX", "sharedMemBytes", "hStream")),
    }
    for struct, (name, what, fields) in structs.items():
        lines = evaluate(include_dir, headers, [f"SIZE({struct})"] + [f"OFFSET({struct}, {f})" for f in fields])
        print(f"/// Layout of {what}.\npub mod {name.lower()} {{")
        print(f"    /// Size in bytes.\n    pub const SIZE: usize = {lines[0].split()[2]};")
        for line in lines[1:]:
            field, offset = line.split()
            upper = re.sub(r"([a-z])([A-Z])", r"\1_\2", field.split(".")[1]).upper()
            upper = {"HSTREAM": "STREAM", "H_STREAM": "STREAM", "DYNAMIC_SMEM_BYTES": "SHARED_MEM_BYTES"}.get(upper, upper)
            print(f"    /// Offset of `{field.split('.')[1]}`.\n    pub const {upper}: usize = {offset};")
        print("}\n")


# ---------------------------------------------------------------------------------------- names

def print_names_tables(include_dir, status_source):
    headers = ["rocprofiler-sdk/registration.h", "rocprofiler-sdk/rocprofiler.h"]
    text = preprocess(include_dir, headers)
    print("""\
// Generated by regenerate/tables.py; do not edit.
//
// Source: the headers of rocprofiler-sdk 1.0.0 (github.com/ROCm/rocm-systems, commit 1b1610fc,
// projects/rocprofiler-sdk), and source/lib/rocprofiler-sdk/rocprofiler.cpp for the status strings.
// Copyright (c) 2023-2025 Advanced Micro Devices, Inc. All rights reserved. MIT licence;
// regenerate/LICENSE.rocprofiler-sdk holds its text.

use super::rust_strings;
use crate::hip::{Argument, argument as a};
use core::ffi::CStr;
""")

    def kinds(name, what, enum, prefix):
        names = [n for n in enumerators(text, enum) if not n.endswith("_LAST")]
        ids = values(include_dir, headers, names)
        assert [ids[n] for n in names] == list(range(len(names))), enum
        print_names(name, what, [n[len(prefix):] for n in names])

    kinds("CALLBACK_KIND_NAMES", "Names of the callback tracing kinds, by kind.",
          "rocprofiler_callback_tracing_kind_t", "ROCPROFILER_CALLBACK_TRACING_")
    kinds("BUFFER_KIND_NAMES", "Names of the buffer tracing kinds, by kind.",
          "rocprofiler_buffer_tracing_kind_t", "ROCPROFILER_BUFFER_TRACING_")
    for name, what, enum in (
            ("CODE_OBJECT_OPERATION_NAMES", "code object (callback kind 10)", "rocprofiler_code_object_operation_t"),
            ("SCRATCH_MEMORY_OPERATION_NAMES", "scratch memory", "rocprofiler_scratch_memory_operation_t"),
            ("KERNEL_DISPATCH_OPERATION_NAMES", "kernel dispatch", "rocprofiler_kernel_dispatch_operation_t"),
            ("MEMORY_COPY_OPERATION_NAMES", "memory copy", "rocprofiler_memory_copy_operation_t"),
            ("MEMORY_ALLOCATION_OPERATION_NAMES", "memory allocation", "rocprofiler_memory_allocation_operation_t"),
            ("RUNTIME_INITIALIZATION_OPERATION_NAMES", "runtime initialization", "rocprofiler_runtime_initialization_operation_t"),
            ("HIP_STREAM_OPERATION_NAMES", "HIP stream", "rocprofiler_hip_stream_operation_t")):
        kinds(name, f"Names of the {what} operations, by operation id.", enum, "ROCPROFILER_")

    for name, what, enum, prefix in (
            ("MARKER_CORE_OPERATION_NAMES", "marker core (kind 7)", "rocprofiler_marker_core_api_id_t", "MARKER_CORE"),
            ("MARKER_CONTROL_OPERATION_NAMES", "marker control (kind 8)", "rocprofiler_marker_control_api_id_t", "MARKER_CONTROL"),
            ("MARKER_NAME_OPERATION_NAMES", "marker name (kind 9)", "rocprofiler_marker_name_api_id_t", "MARKER_NAME"),
            ("MARKER_CORE_RANGE_OPERATION_NAMES", "marker core range (callback kind 21)",
             "rocprofiler_marker_core_range_api_id_t", "MARKER_CORE_RANGE"),
            ("RCCL_OPERATION_NAMES", "RCCL", "rocprofiler_rccl_api_id_t", "RCCL"),
            ("HSA_CORE_OPERATION_NAMES", "HSA core (kind 1)", "rocprofiler_hsa_core_api_id_t", "HSA_CORE"),
            ("HSA_AMD_EXT_OPERATION_NAMES", "HSA AMD extension (kind 2)", "rocprofiler_hsa_amd_ext_api_id_t", "HSA_AMD_EXT"),
            ("HSA_IMAGE_EXT_OPERATION_NAMES", "HSA image extension (kind 3)", "rocprofiler_hsa_image_ext_api_id_t", "HSA_IMAGE_EXT"),
            ("HSA_FINALIZE_EXT_OPERATION_NAMES", "HSA finalizer extension (kind 4)",
             "rocprofiler_hsa_finalize_ext_api_id_t", "HSA_FINALIZE_EXT")):
        names = operations_of(include_dir, headers, enum, f"ROCPROFILER_{prefix}_API_ID_")
        print_names(name, f"Names of the {what} operations, by operation id.", names)
        if prefix == "RCCL":
            table = arguments(include_dir, headers, "rocprofiler_rccl_api_args_t")
            print_argument_table("RCCL_ARGUMENTS", "All arguments of each RCCL operation, by operation id.", names, table)
            print_bytes("RCCL_STREAM_OFFSET",
                        "Offset in the RCCL argument union of the `hipStream_t` argument, by operation id; "
                        "[`NO_OFFSET`](crate::hip::NO_OFFSET): none.",
                        [next((f[1] for f in table[n] if f[4] == 1), NONE) for n in names])
        elif prefix.startswith("MARKER"):
            table = arguments(include_dir, headers, "rocprofiler_marker_api_args_t")
            print_argument_table(name.replace("OPERATION_NAMES", "ARGUMENTS"),
                                 f"All arguments of each {what} operation, by operation id.", names, table)

    statuses = [n for n in enumerators(text, "rocprofiler_status_t") if not n.endswith("_LAST")]
    ids = values(include_dir, headers, statuses)
    assert [ids[n] for n in statuses] == list(range(len(statuses)))
    print_names("STATUS_NAMES", "Names of the statuses, by value.", statuses)
    with open(status_source) as file:
        strings = {name: "".join(re.findall(r'"([^"]*)"', parts)) for name, parts in
                   re.findall(r"^ROCPROFILER_STATUS_STRING\(\s*(\w+),\s*((?:\"[^\"]*\"\s*)+)\)", file.read(), re.M)}
    print_names("STATUS_STRINGS", "What `rocprofiler_get_status_string` says, by status value.",
                [strings[n] for n in statuses])


if len(sys.argv) == 3 and sys.argv[1] == "hip":
    print_hip(sys.argv[2])
elif len(sys.argv) == 4 and sys.argv[1] == "names":
    print_names_tables(sys.argv[2], sys.argv[3])
else:
    sys.exit(__doc__)
