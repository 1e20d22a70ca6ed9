#!/usr/bin/env bash
# Builds the client library with the lowest Rust version it names, where that toolchain is installed
# (`rustup toolchain install VERSION --profile minimal`). Elsewhere clippy looks for what is newer in the standard library.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' crates/onrush/Cargo.toml)
if rustup toolchain list 2>/dev/null | grep -q "^$version"; then
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/rust-$version cargo "+$version" check -p onrush --all-features --locked
    echo "onrush builds with Rust $version"
else
    cargo clippy -p onrush --all-features --locked -- -D warnings -D clippy::incompatible_msrv
    echo "SKIPPED: Rust $version is not installed; clippy found nothing in onrush that is newer"
fi
