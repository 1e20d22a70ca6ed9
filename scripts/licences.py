#!/usr/bin/env python3
"""The licences of all crates that are in programs, with their texts: licences.py PROGRAM-CRATE..."""

import json
import subprocess
import sys
from pathlib import Path

NAMES = ("licen[cs]e*", "LICEN[CS]E*", "Licen[cs]e*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")

# Crates that carry C sources have the licences of those further down.
CODE = {".rs", ".c", ".h"}


def crates(programs):
    host = next(line.split()[1] for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines() if line.startswith("host:"))
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    metadata = json.loads(subprocess.check_output(command))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, left = set(), [id for id, package in packages.items() if package["name"] in programs]
    assert len(left) == len(programs), programs
    while left:
        id = left.pop()
        if id not in found:
            found.add(id)
            # What only tests need is not in the programs; what only builds need may be (code that is generated), so it is listed.
            left += [dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
    return sorted((packages[id] for id in found), key=lambda package: (package["name"], package["version"]))


def texts(package):
    folder = Path(package["manifest_path"]).parent
    paths = {path for name in NAMES for path in folder.rglob(name) if path.is_file() and path.suffix not in CODE}
    return [(path.relative_to(folder), path.read_text(errors="replace").strip()) for path in sorted(paths)]


def main():
    # Equal texts are shown once, behind the names of all who have them.
    shown, lines = {}, []
    for package in crates(sys.argv[1:]):
        if package["source"] is None:
            continue
        lines.append(f"{package['name']} {package['version']}: {package['license'] or package['license_file']}")
        for name, text in texts(package):
            shown.setdefault(text, []).append(f"{package['name']} {package['version']} ({name})")
    print("Onrush is under the Apache License 2.0, in LICENSE. These crates are in its programs:\n")
    print("\n".join(lines))
    for text, owners in shown.items():
        print(f"\n{'-' * 100}\n{', '.join(owners)}\n\n{text}")


if __name__ == "__main__":
    main()
