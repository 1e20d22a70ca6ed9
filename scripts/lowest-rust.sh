#!/usr/bin/env bash
# Builds the client library, with all features, with the lowest Rust version that it names: by the toolchain of that version, where
# rustup has it, else by the compiler of Debian's package, which is kept in the target folder. Where neither can be had, clippy
# looks for what is newer in the standard library.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' crates/onrush/Cargo.toml)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
compiler=$target/tools/rust-$version/rustc

check() { # check RUSTC
    # The macros of others run only once: they need not be fast.
    RUSTC=$1 CARGO_TARGET_DIR=$target/rust-$version \
        cargo check -p onrush --all-features --locked --config 'profile.dev.package."*".opt-level=0'
    echo "onrush builds with $("$1" --version)"
}

if toolchain=$(rustup which --toolchain "$version" rustc 2>/dev/null); then
    check "$toolchain"
elif [ -x "$compiler" ] || scripts/fetch-rust.sh "$version" "$(dirname "$compiler")"; then
    check "$compiler"
else
    cargo clippy -p onrush --all-features --locked -- -D warnings -D clippy::incompatible_msrv
    echo "SKIPPED: Rust $version cannot be had; clippy found nothing in onrush that is newer"
fi
