#!/usr/bin/env bash
# Runs every fuzz target, and every family of random differential sequences, for the given number of seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}

ONRUSH_FUZZ_SECONDS=$seconds ONRUSH_FUZZ_SEED=$(date +%s) cargo test --locked -p onrush-fuzz --test smoke
if cargo +nightly fuzz --version >/dev/null 2>&1; then
    for target in fuzz/libfuzzer/fuzz_targets/*.rs; do
        cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer "$(basename "$target" .rs)" -- -max_total_time="$seconds"
    done
else
    echo "cargo-fuzz is not installed: the targets ran on random bytes only" >&2
fi

cargo build --locked -p onrush-tests --bin onrush-diff
diff="${CARGO_TARGET_DIR:-target}/debug/onrush-diff"
for family in $("$diff" --list); do
    end=$(($(date +%s) + seconds))
    seed=$(($(date +%s) * 1000))
    while [ "$(date +%s)" -lt "$end" ]; do
        "$diff" "$family" --seed "$seed" --sequences 200
        seed=$((seed + 200))
    done
done
