#!/usr/bin/env bash
# Makes the archive of a release: release.sh [FOLDER]. Builds the programs, or takes those of ONRUSH_BIN_FOLDER, strips them and puts them
# with the docs, the licences of all crates in them, the systemd unit and the Dockerfile into FOLDER/onrush-VERSION-TARGET.tar.gz, beside
# SHA256SUMS. The same programs give the same archive: times and owners are set.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${CARGO_TARGET_DIR:-target}/dist}
version=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "onrush-server"))')
target=$(rustc -vV | sed -n 's/^host: //p')
programs=(onrush-server onrush-cli onrush-benchmark onrush-check)
if ! grep -qE "^## (${version//./\\.}|Unreleased)( |$)" CHANGELOG.md; then
    echo "CHANGELOG.md has no section for $version" >&2
    exit 1
fi

if [ -z "${ONRUSH_BIN_FOLDER:-}" ]; then
    cargo build --release --locked $(printf -- '-p %s ' "${programs[@]}")
    ONRUSH_BIN_FOLDER=${CARGO_TARGET_DIR:-target}/release
fi
for program in "${programs[@]}"; do
    "$ONRUSH_BIN_FOLDER/$program" --version | grep -qF "$version" || {
        echo "$ONRUSH_BIN_FOLDER/$program is not version $version" >&2
        exit 1
    }
done

name=onrush-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/bin" "$folder"
for program in "${programs[@]}"; do
    strip -o "$work/$name/bin/$program" "$ONRUSH_BIN_FOLDER/$program"
done
cp -r README.md CHANGELOG.md SECURITY.md LICENSE docs contrib "$work/$name/"
scripts/licences.py "${programs[@]}" >"$work/$name/LICENCES.txt"
epoch=$(git log -1 --format=%ct)
tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -C "$work" -c "$name" | gzip -n9 >"$folder/$name.tar.gz"
(cd "$folder" && sha256sum "$name.tar.gz" >SHA256SUMS)
echo "$folder/$name.tar.gz"
