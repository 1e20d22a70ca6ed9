#!/usr/bin/env bash
# Compares the interface of the client library with that of the last release, by cargo-semver-checks: semver.sh [REVISION]. Without a
# release there is nothing to compare with. The tool is CARGO_SEMVER_CHECKS, else one on the search path, else it is compiled into
# the target folder once, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(git tag --list 'v*' --sort=-version:refname | head -1)}
if [ -z "$base" ]; then
    echo "SKIPPED: the interface is compared with no release, since there is none yet"
    exit 0
fi
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools
tool=${CARGO_SEMVER_CHECKS:-$(command -v cargo-semver-checks || echo "$tools/cargo-semver-checks")}
if [ ! -x "$tool" ]; then
    cargo install --quiet --locked --root "$tools/semver" cargo-semver-checks
    ln -sf semver/bin/cargo-semver-checks "$tools/cargo-semver-checks"
fi
"$tool" semver-checks check-release --package onrush --package onrush-resp --all-features --baseline-rev "$base"
