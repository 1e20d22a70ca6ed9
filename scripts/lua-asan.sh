#!/usr/bin/env bash
# Runs the tests of the Lua interpreter with AddressSanitizer and UndefinedBehaviorSanitizer in Lua's C code (gcc).
# Rust's allocator is behind AddressSanitizer's too, so it also sees blocks that Lua's code overruns into.
# Leaks are not looked for: Rust's runtime keeps some memory until the end. Arguments go to the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
runtime=$(gcc -print-file-name=libasan.so)
if [ ! -e "$runtime" ]; then
    echo "skipped: gcc has no libasan"
    exit 0
fi
export CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=float-cast-overflow -fno-omit-frame-pointer -g"
export RUSTFLAGS="-Clink-arg=-lasan -Clink-arg=-lubsan"
export ASAN_OPTIONS="detect_leaks=0 detect_stack_use_after_return=0"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
# The sanitizer's runtime has to come first; only the test program gets it.
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$runtime" \
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$runtime" \
    cargo test --locked -p onrush-lua --lib -- "$@"
