#!/usr/bin/env bash
# Packs the crates that are published, the client library and the tools with what they need of ours, and checks that each holds its
# README and the licence, and that no other crate may be published: package.sh [--build]. With --build, each package is built from nothing but its own files, and the tools are
# installed from theirs into an empty folder. The server is released as an archive: release.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
crates=(onrush-resp onrush-derive onrush-persist onrush onrush-cli onrush-benchmark onrush-check)
tools=(onrush-cli onrush-benchmark onrush-check)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
build=no
[ "${1:-}" = --build ] && build=yes

listed=$(printf '%s\n' "${crates[@]}" | sort)
open=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; [print(p["name"]) for p in json.load(sys.stdin)["packages"] if p["publish"] is None]' | sort)
[ "$listed" = "$open" ] || {
    echo "other crates than those of package.sh lack 'publish = false', or some of them have it:" >&2
    diff <(echo "$listed") <(echo "$open") >&2 || exit 1
}

rm -rf "$target/package"
flags=(--locked --allow-dirty)
[ $build = yes ] || flags+=(--no-verify)
cargo package --quiet "${flags[@]}" $(printf -- '-p %s ' "${crates[@]}")
for crate in "${crates[@]}"; do
    package=$(ls "$target/package/$crate"-[0-9]*.crate)
    files=$(tar -tzf "$package")
    for file in Cargo.toml README.md LICENSE; do
        grep -q "^$crate-[^/]*/$file$" <<<"$files" || {
            echo "$package has no $file" >&2
            exit 1
        }
    done
    tar -xzOf "$package" --wildcards "$crate-*/LICENSE" | cmp - LICENSE
    echo "$crate: $(wc -l <<<"$files") files, $(stat -c %s "$package") bytes"
done

if [ $build = yes ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    for tool in "${tools[@]}"; do
        cargo install --quiet --locked --path "crates/$tool" --root "$work" --target-dir "$target/installed"
        "$work/bin/$tool" --version
    done
fi
