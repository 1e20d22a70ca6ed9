#!/usr/bin/env python3
"""Says how many parts of the client matrix ran, and which tests were skipped and why: test-summary.py TARGET-FOLDER.

Reads what `make test` leaves behind: results/pytest.xml, results/programs.xml if there, results/node.tap, and the file `skipped` of the Rust tests. Ends with 1 when
no part of the matrix ran.
"""

import re
import sys
import xml.etree.ElementTree
from pathlib import Path


def of_pytest(path):
    """The number of parts of the matrix that ran and that there are, and the tests that were skipped."""
    ran, parts, skipped = 0, 0, []
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        is_part = case.get("classname").endswith(("test_matrix", "test_cluster_matrix"))
        skip = case.find("skipped")
        parts += is_part
        ran += is_part and skip is None
        if skip is not None:
            skipped.append((case.get("name"), skip.get("message")))
    return ran, parts, skipped


def of_node(path):
    lines = path.read_text().splitlines()
    found = (re.search(r"ok \d+ - (.*?) # SKIP ?(.*)", line) for line in lines)
    return [(match[1], match[2] or "no reason given") for match in found if match]


def of_rust(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(line.split(": ", 1)) for line in lines]


def main():
    target = Path(sys.argv[1])
    ran, parts, skipped = of_pytest(target / "results" / "pytest.xml")
    programs = target / "results" / "programs.xml"
    if programs.exists():
        skipped += of_pytest(programs)[2]
    skipped += of_node(target / "results" / "node.tap") + of_rust(target / "skipped")
    print(f"Client matrix: {ran} of {parts} parts ran.")
    for name, reason in skipped:
        print(f"Skipped: {name}: {reason}")
    if not skipped:
        print("No test of clients was skipped, and none of the Rust tests that can be.")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
