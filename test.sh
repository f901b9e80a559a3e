#!/usr/bin/env bash
# Passes all tests. One step by name: ./test.sh lint   Several: ./test.sh fmt lint test
#
#   fmt      rustfmt changes nothing
#   lint     clippy with warnings as errors
#   build    the release build: the command, the tool library, the stand-in SDK
#   test     unit, property, process-level and acceptance tests, small counts
#   doc      doc tests, and the documentation builds without a warning
#   loom     the models of every hand-over between threads
#   demo     the main job, from the built command
#   readers  independent readers over what the exporters write (Python; skipped where they are not installed)
#   kineto   kineto's logger on Strandline, with the compilers there are, on the stand-in SDK (skipped without g++)
#   tsan     ThreadSanitizer stress (nightly toolchain; skipped without)
#   fuzz     a minute of each fuzz target, from seeds that are recorded first (nightly toolchain and cargo-fuzz; skipped without)
#
# A step whose tool is missing prints "skipped: why" and does not count as passed.
# STRANDLINE_SEEDS, STRANDLINE_KILLS set the counts of the acceptance and kill tests.
set -euo pipefail
cd "$(dirname "$0")"

all=(fmt lint build test doc loom demo readers kineto tsan)
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")

python=${STRANDLINE_PYTHON:-python3}
passed=() skipped=()
skip() { echo "skipped: $*"; return 10; }

step_fmt() { cargo fmt --all --check; }
step_lint() { cargo clippy --workspace --all-targets --quiet -- -D warnings; }
step_build() { cargo build --release; }
step_test() {
    cargo build --release
    cargo test --release --workspace
}
step_doc() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
}
step_loom() {
    RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" \
        cargo test -p strandline --profile loom --target-dir target/loom --lib
}
step_demo() {
    local dir
    dir=$(mktemp -d)
    cargo run --release --quiet -- demo --dir "$dir" >"$dir/out.txt" 2>&1 || { cat "$dir/out.txt"; return 1; }
    cat "$dir/out.txt"
    grep -qx "complete: 6400 of 6400 dispatches" "$dir/out.txt"
    for file in demo.slt demo.json demo.pftrace; do [ -s "$dir/$file" ]; done
    rm -rf "$dir"
}
step_readers() {
    "$python" -c 'import perfetto, hta, torch_tb_profiler' 2>/dev/null || {
        skip "the Python packages of exporters/tests/python/requirements.txt are not installed"
        return
    }
    STRANDLINE_PYTHON="$python" STRANDLINE_REQUIRE_READERS=1 \
        cargo test --release -p strandline-exporters --test export_readers
    # Perfetto's own trace processor is in no package registry: it is asked where there is one.
    if [ -n "${STRANDLINE_TRACE_PROCESSOR:-}" ]; then
        STRANDLINE_PYTHON="$python" cargo test --release -p strandline-exporters --test export_processor -- --nocapture
    else
        echo "skipped: STRANDLINE_TRACE_PROCESSOR names no trace_processor_shell: the exports were not questioned in SQL"
    fi
}
step_kineto() {
    command -v g++ >/dev/null || { skip "g++ is not installed"; return; }
    ffi/kineto/test.sh
}
step_tsan() {
    [ -x runtime/tests/tsan.sh ] || { skip "no ThreadSanitizer programs in this tree"; return; }
    cargo +nightly --version >/dev/null 2>&1 || { skip "no nightly toolchain"; return; }
    runtime/tests/tsan.sh
}
step_fuzz() {
    cargo +nightly fuzz --version >/dev/null 2>&1 || { skip "no nightly toolchain with cargo-fuzz"; return; }
    local target
    fuzz/seeds.sh
    for target in $(cargo +nightly fuzz list); do
        [ "$target" = canary ] || cargo +nightly fuzz run "$target" -- -max_len=16384 -max_total_time="${STRANDLINE_FUZZ_S:-60}"
    done
}

for step in "${steps[@]}"; do
    declare -F "step_$step" >/dev/null || { echo "unknown step $step; the steps: ${all[*]} fuzz" >&2; exit 2; }
    echo "== $step"
    code=0
    # In a subshell with errexit: `set -e` does not reach into a function that stands in a condition.
    set +e
    (set -e; "step_$step")
    code=$?
    set -e
    case $code in
        0) passed+=("$step") ;;
        10) skipped+=("$step") ;;
        *) echo "== $step failed"; exit 1 ;;
    esac
done
echo "steps passed: ${passed[*]:-none}; skipped: ${skipped[*]:-none}"
