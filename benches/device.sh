#!/usr/bin/env bash
# A whole run on another machine, in under 10 minutes: the append table, the exports. Needs neither Rust nor cargo there.
#
#   benches/device.sh [DIR]     DIR holds what was built (default: the folder of this script):
#                               strandline-benches               cargo build --release -p strandline-benches --features cxx,tracy
#                               libstrandline_rocprofiler.so     cargo build --release
#                               libsim_rocprofiler_sdk.so        likewise
#
#   benches/device.sh --pack DIR    copies and strips them from target/release (or $CARGO_TARGET_DIR) into DIR
#
# OUT, where set, is a folder for the raw JSON lines and the table.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
files=(strandline-benches libstrandline_rocprofiler.so libsim_rocprofiler_sdk.so)

if [ "${1:-}" = --pack ]; then
    to=${2:?a folder to pack into}
    mkdir -p "$to"
    for file in "${files[@]}"; do
        strip -o "$to/$file" "${CARGO_TARGET_DIR:-$here/../target}/release/$file"
    done
    cp "$0" "$to/"
    du -sh "$to"
    exit
fi

from=$(cd "${1:-$here}" && pwd)
out=${OUT:-$(mktemp -d)}
began=$SECONDS
bench=$from/strandline-benches
unset CARGO

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, Linux $(uname -r)," \
    "clock source $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null || echo unknown)"

# Regions lie on tmpfs: a row with 32 producers needs some gigabytes of it.
need_kib=$((8 * 1024 * 1024))
free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -1 || echo 0)
if [ "${free_kib:-0}" -lt "$need_kib" ]; then
    mount -o remount,size=16G /dev/shm 2>/dev/null \
        || mount -t tmpfs -o size=16G tmpfs /dev/shm 2>/dev/null \
        || echo "/dev/shm has only $free_kib KiB: rows with many producers may be skipped"
fi

"$bench" append --json --seconds "${SECONDS_A_ROW:-0.15}" >"$out/append.jsonl" 2>"$out/append.log" || true
cat "$out/append.log"
"$bench" table "$out/append.jsonl" | tee "$out/table.txt"
"$bench" readings | tee "$out/readings.txt"
"$bench" export --json >"$out/export.jsonl" 2>"$out/export.log" || cat "$out/export.log"
cat "$out/export.jsonl"
echo "took $((SECONDS - began)) s"
