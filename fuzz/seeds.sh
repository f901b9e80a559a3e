#!/usr/bin/env bash
# Corpus seeds for the fuzz targets, from small real recordings of the simulated runtime. Needs the release build of the
# workspace; adds to fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet
strandline=${CARGO_TARGET_DIR:-target}/release/strandline
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
record() {
    local name=$1
    shift
    STRANDLINE_LANES=8 "$strandline" record --sim -o "$folder/$name.slt" -- "$strandline" sim "$@" >/dev/null 2>"$folder/log" || true
    # A copy has only what is used, and exit code 3 says that something is missing: that is wanted here.
    "$strandline" export "$folder/$name.slt" -o "$folder/small-$name.slt" >/dev/null 2>&1 || [ $? -eq 3 ]
}
record graph graph --nodes 5 --replays 3
record plain graph --nodes 4 --replays 2 --plain --threads 2
record devices graph --nodes 3 --replays 2 --devices 2
record failing graph --nodes 4 --replays 3 --fail-timing 0.3
for target in region export_json export_perfetto; do
    (cd fuzz && cargo run --quiet --release --example seeds -- "corpus/$target" "$folder"/small-*.slt)
done
