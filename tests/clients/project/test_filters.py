"""Filters of the tools that measure: what matches nothing is an error that lists the names, and nothing is run or recorded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCH, EXPERIMENTS = ROOT / "benchmarks/run.py", ROOT / "experiments/run.py"


def call(script, *args):
    environment = {**os.environ, "ONRUSH_SERVER_BIN": sys.executable}
    return subprocess.run([sys.executable, str(script), *args], capture_output=True, text=True, timeout=60, env=environment)


def names(script, *args):
    done = call(script, "--list", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("script, flag, known", [(BENCH, "--cases", "SET P=100"), (EXPERIMENTS, "--only", "batches")])
@pytest.mark.parametrize("words", ["nosuch", "nosuch,{known}", "{known},-"])
def test_a_word_that_matches_nothing_ends_with_the_names(script, flag, known, words):
    runs = sorted((ROOT / "benchmarks/runs").rglob("*"))
    done = call(script, flag, words.format(known=known))
    assert done.returncode == 1 and "matches nothing; the names are:" in done.stderr and f"\n  {known}\n" in done.stderr
    assert done.stdout == "" and sorted((ROOT / "benchmarks/runs").rglob("*")) == runs


def test_a_name_chooses_its_case_and_a_part_all_that_have_it():
    assert names(BENCH, "--cases", "SET-P100,GET-P100") == names(BENCH, "--cases", "SET P=100,GET P=100") == ["SET P=100", "GET P=100"]
    assert names(BENCH, "--cases", "get p=1") == ["GET P=1"]
    assert {"idle RSS", "RSS per item"} <= set(names(BENCH, "--cases", "rss"))
    assert len(names(BENCH)) > 40
    assert names(EXPERIMENTS, "--only", "depth,wait") == ["waiting", "depth"]


def test_the_example_of_the_contributing_page_chooses_something():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    words = text.split('make bench ARGS="--cases ')[1].split('"')[0]
    assert names(BENCH, "--cases", words)
