"""The archive of a release: what is in it, and that it works where it is unpacked."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import BINARY

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ["onrush-server", "onrush-cli", "onrush-benchmark", "onrush-check"]


@pytest.fixture
def empty_keyspace():
    """No server is needed."""


def release(folder, **environment):
    command = [ROOT / "scripts" / "release.sh", folder]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture
def binaries(tmp_path):
    """A folder with the programs under test, wherever each was built."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for program in PROGRAMS:
        variable = program.replace("-", "_").upper() + "_BIN"
        (folder / program).symlink_to(Path(os.environ.get(variable, Path(BINARY).parent / program)).resolve())
    return str(folder)


@pytest.mark.slow
def test_an_archive_has_checksums_licences_and_programs_that_run(tmp_path, binaries):
    done = release(tmp_path / "one", ONRUSH_BIN_FOLDER=binaries)
    assert done.returncode == 0, done.stderr
    archive = Path(done.stdout.strip())
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert (archive.parent / "SHA256SUMS").read_text() == f"{digest}  {archive.name}\n"
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    assert archive.name == f"{folder.name}.tar.gz"
    version = folder.name.split("-")[1]
    for program in PROGRAMS:
        told = subprocess.run([folder / "bin" / program, "--version"], capture_output=True, text=True)
        assert version in told.stdout, told
        sections = subprocess.check_output(["readelf", "--sections", folder / "bin" / program], text=True)
        assert ".symtab" not in sections and ".debug_info" not in sections
    for name in ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs/SUMMARY.md", "contrib/onrush.service"]:
        assert (folder / name).is_file(), name
    licences = (folder / "LICENCES.txt").read_text()
    assert "Permission is hereby granted" in licences
    for crate in ["libmimalloc-sys", "mlua-sys", "parking_lot", "rustyline"]:
        assert f"\n{crate} " in licences, crate
    assert "\nproptest " not in licences
    again = release(tmp_path / "two", ONRUSH_BIN_FOLDER=binaries)
    assert Path(again.stdout.strip()).read_bytes() == archive.read_bytes()


def test_programs_of_another_version_make_no_archive(tmp_path):
    wrong = tmp_path / "bin"
    wrong.mkdir()
    for program in PROGRAMS:
        (wrong / program).write_text("#!/bin/sh\necho 9.9.9\n")
        (wrong / program).chmod(0o755)
    done = release(tmp_path / "out", ONRUSH_BIN_FOLDER=str(wrong))
    assert done.returncode == 1
    assert "is not version" in done.stderr
    assert not list((tmp_path / "out").glob("*.tar.gz"))
