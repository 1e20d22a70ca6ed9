#!/usr/bin/env bash
# Runs black-box tests against a server with a sanitizer in its Rust and C code: sanitizer.sh address|thread [SUITE ...].
# The tests themselves, and redis-server, are as ever. Needs a nightly Rust with `rust-src`. What fails by its limits of
# memory or time, which a sanitizer multiplies, is told as failed; what counts is whether the sanitizer has reported
# anything, which is the exit code.
set -euo pipefail
usage="usage: sanitizer.sh address|thread [SUITE ...]"
sanitizer=${1:?$usage}
shift
suites=("$@")
[ $# -gt 0 ] || suites=(commands server persistence)
cd "$(dirname "$0")/.."
toolchain=${SANITIZER_TOOLCHAIN:-nightly}
case $sanitizer in
address | thread) ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
command -v rustup >/dev/null && rustup run "$toolchain" rustc --version >/dev/null || {
    echo "there is no Rust called $toolchain here: rustup toolchain install $toolchain --component rust-src" >&2
    exit 1
}
host=$(rustup run "$toolchain" rustc -vV | sed -n 's/^host: //p')
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
built=$target/sanitizer-$sanitizer
reports=$built/reports
rm -rf "$reports"
mkdir -p "$reports"

# The standard library waits and locks too. The system's allocator stands in for mimalloc, which a sanitizer cannot see into.
RUSTFLAGS="-Zsanitizer=$sanitizer -Cforce-frame-pointers=yes" \
    CFLAGS="-fsanitize=$sanitizer -fno-omit-frame-pointer -g" \
    CARGO_TARGET_DIR=$built CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_INCREMENTAL=0 \
    rustup run "$toolchain" cargo build -Zbuild-std --target "$host" --locked -p onrush-server --no-default-features

# Leaks are not looked for: the table of a shard leads to its entries by tagged words.
options="log_path=$reports/report:exitcode=66:detect_leaks=0"
# Threads end with the process, and waiting is by futex.
[ $sanitizer = thread ] && options="log_path=$reports/report:exitcode=66:report_thread_leaks=0:history_size=7:suppressions=$PWD/scripts/thread-sanitizer.txt"
export ASAN_OPTIONS=$options TSAN_OPTIONS=$options
export ONRUSH_SERVER_BIN=$built/$host/debug/onrush-server
failed=0
for suite in "${suites[@]}"; do
    timeout --verbose 60m cargo test --locked --no-fail-fast -p onrush-tests --test "$suite" -- --test-threads=2 || failed=1
done
count=$(find "$reports" -type f | wc -l)
echo "tests failed: $([ $failed = 0 ] && echo no || echo yes); reports of the sanitizer: $count ($reports)"
[ "$count" = 0 ]
