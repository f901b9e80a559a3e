#!/bin/sh
# Runs the stress programs under ThreadSanitizer. Needs a nightly toolchain; std stays uninstrumented.
set -eu
cd "$(dirname "$0")/../.."
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "skipped: no nightly toolchain, which -Zsanitizer needs"
    exit 0
fi
target=$(rustc +nightly -vV | sed -n 's/^host: //p')
case $target in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
    *)
        echo "skipped: ThreadSanitizer is not tried on $target"
        exit 0
        ;;
esac
export RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="${TSAN_OPTIONS-} halt_on_error=1 second_deadlock_stack=1"
exec cargo +nightly test -p strandline --test tsan_stress --target "$target" \
    --target-dir "${CARGO_TARGET_DIR:-target}/tsan" "$@"
