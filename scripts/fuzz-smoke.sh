#!/usr/bin/env bash
# Runs every fuzz target, and every family of random differential sequences, for the given number of seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}

if [ -d fuzz/fuzz_targets ]; then
    if cargo fuzz --version >/dev/null 2>&1; then
        for target in fuzz/fuzz_targets/*.rs; do
            cargo fuzz run "$(basename "$target" .rs)" -- -max_total_time="$seconds"
        done
    else
        echo "cargo-fuzz is not installed: the fuzz targets are left out" >&2
    fi
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
