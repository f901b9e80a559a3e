#!/usr/bin/env bash
# Compiles the layer with g++ and clang++ and runs it on the stand-in libraries.
#
#   ffi/kineto/test.sh [PREFIX] [STANDIN]
#
#   PREFIX    an installation of libstrandline (ffi/c/install.sh PREFIX); made in a temporary folder when left out
#   STANDIN   the folder that `strandline tool-path sim` prints; built when left out
#   KINETO_DIR, ROCM_INCLUDE   libkineto's folder and the headers of ROCm: the child profiler is compiled too
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=${1:-}
if [ -z "$prefix" ]; then
    prefix=$work/prefix
    "$root/ffi/c/install.sh" "$prefix" >/dev/null
fi
standin=${2:-}
if [ -z "$standin" ]; then
    cargo build --quiet --release --manifest-path "$root/Cargo.toml"
    standin=$("${CARGO_TARGET_DIR:-$root/target}/release/strandline" tool-path sim)
fi
# Builds the test: compiler, standard, further flags.
build() {
    local compiler=$1 standard=$2
    shift 2
    "$compiler" -std="$standard" -Wall -Wextra -Werror -O1 -g "$@" -I"$here" -I"$here/test/include" -I"$prefix/include" \
        "$here/test/test.cpp" "$here/RocprofLogger.cpp" -o "$work/test" \
        -L"$prefix/lib" -lstrandline -L"$standin" -l:libamdhip64.so -l:librocprofiler-sdk.so.1 \
        -Wl,-rpath,"$prefix/lib" -Wl,-rpath,"$standin"
}
# Runs it under late records, stalls and another order.
pass() {
    local setting
    for setting in ROCSIM_LATE=uniform:5ms:40ms ROCSIM_STALL=1%:20ms:40ms ROCSIM_ORDER=newest-first; do
        env LD_LIBRARY_PATH="$standin" "$setting" timeout 120 "$work/test" >"$work/out" 2>&1 || {
            cat "$work/out"
            echo "failed: $* $setting"
            exit 1
        }
    done
    echo "passed: $*"
}
# What the sanitizers say is a failure, whatever the program makes of it.
export ASAN_OPTIONS=halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1
# The stand-ins keep what they tell tools, and graphs that nobody destroys, for the life of the process.
printf 'leak:librocprofiler-sdk.so\nleak:libamdhip64.so\n' >"$work/lsan"
export LSAN_OPTIONS=print_suppressions=0:suppressions=$work/lsan
export TSAN_OPTIONS="halt_on_error=1 suppressions=$here/test/tsan.supp"
tested=0
for compiler in g++ clang++; do
    if ! command -v "$compiler" >/dev/null; then
        echo "skipped: $compiler is not installed"
        continue
    fi
    for standard in c++17 c++20; do
        build "$compiler" "$standard"
        pass "$compiler" "$standard"
        tested=1
    done
    for sanitizer in address,undefined thread; do
        if ! echo 'int main() {}' | "$compiler" -fsanitize=$sanitizer -x c++ - -o "$work/empty" 2>/dev/null || ! "$work/empty" 2>/dev/null; then
            echo "skipped: $compiler has no $sanitizer sanitizer that runs here"
            continue
        fi
        build "$compiler" c++20 -fsanitize=$sanitizer -fno-sanitize-recover=all
        pass "$compiler" c++20 "$sanitizer sanitizer"
    done
    if [ -n "${KINETO_DIR:-}" ]; then
        "$compiler" -std=c++20 -Wall -Wextra -Werror -O1 -c -DKINETO_NAMESPACE=libkineto -D__HIP_PLATFORM_AMD__ -I"$here" \
            -isystem "$KINETO_DIR/include" -isystem "$KINETO_DIR/src" -isystem "${ROCM_INCLUDE:?where ROCm is}" \
            "$here/StrandlineChild.cpp" -o "$work/child.o"
        echo "passed: $compiler, child profiler"
    fi
done
[ -n "${KINETO_DIR:-}" ] || echo "skipped: the child profiler, KINETO_DIR is not set"
[ $tested = 1 ] || echo "skipped: no C++ compiler"
