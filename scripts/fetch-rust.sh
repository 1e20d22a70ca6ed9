#!/usr/bin/env bash
# Puts a Rust compiler with its standard library into a folder, as `FOLDER/rustc`: one that Debian has packages of. Nothing is
# installed; apt checks the packages. Ends with an error where there is no such package.
set -euo pipefail
usage="usage: fetch-rust.sh VERSION FOLDER"
version=${1:?$usage}
folder=${2:?$usage}
command -v apt-get >/dev/null && command -v dpkg >/dev/null

# The full version of the package that has this Rust version.
packaged() {
    apt-cache madison rustc-web | awk -v version="$version." 'index($3, version) == 1 { print $3; exit }'
}
full=$(packaged)
if [ -z "$full" ] && [ "$(id -u)" -eq 0 ]; then
    apt-get update -qq
    full=$(packaged)
fi
if [ -z "$full" ]; then
    echo "there is no Debian package of Rust $version here" >&2
    exit 1
fi
library=libstd-rust-web-$version
llvm=$(apt-cache show "$library=$full" | grep -o 'libllvm[0-9]*' | head -n 1)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get download -qq "rustc-web=$full" "$library=$full" "libstd-rust-web-dev=$full" "$llvm") 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
rm -rf "$folder"
mkdir -p "$folder"
for package in "$work"/*.deb; do
    dpkg -x "$package" "$folder"
done
rm -rf "$folder/usr/share"
cat >"$folder/rustc" <<'EOF'
#!/bin/sh
usr=$(dirname "$0")/usr
LD_LIBRARY_PATH=$(echo "$usr"/lib/*-linux-gnu)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$usr/bin/rustc" "$@"
EOF
chmod +x "$folder/rustc"
"$folder/rustc" --version | grep -qF "rustc $version."
