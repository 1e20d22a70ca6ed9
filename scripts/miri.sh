#!/usr/bin/env bash
# Runs the tests of modules with `unsafe` under Miri: miri.sh [MINUTES for each]. Needs a nightly Rust with `miri` and
# `rust-src`. The store exposes addresses on purpose (`entries/compact.rs`), so provenance is permissive. Not here, since
# Miri cannot run them: what calls C (`onrush-lua`, mimalloc) or system calls that it does not know (`huge.rs`, `os.rs`).
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-15}
toolchain=${MIRI_TOOLCHAIN:-nightly}
command -v rustup >/dev/null && rustup run "$toolchain" cargo miri --version >/dev/null || {
    echo "there is no Rust called $toolchain with miri here: rustup toolchain install $toolchain --component miri,rust-src" >&2
    exit 1
}
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
export CARGO_TARGET_DIR="$(realpath -m "${CARGO_TARGET_DIR:-target}")/miri"
failed=0
for filter in keyspace:: entries:: strings::bitmap; do
    echo "== $filter"
    status=0
    timeout --verbose "${minutes}m" rustup run "$toolchain" cargo miri test --locked -p onrush-store --lib -- "$filter" || status=$?
    case $status in
    0) ;;
    124) echo "the time is over: what has not run is not checked" ;;
    *) failed=1 ;;
    esac
done
exit $failed
