"""The systemd unit in contrib: systemd understands it, and its command line runs as an unprivileged user."""

import os
import pwd
import re
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import BINARY
from ports import free_port

UNIT = Path(__file__).resolve().parents[3] / "contrib" / "onrush.service"
PROGRAM = "/usr/local/bin/onrush-server"


@pytest.fixture
def empty_keyspace():
    """These tests need no server of others."""


@pytest.fixture
def folder():
    """One that every user may read, with the server in it."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        shutil.copy(BINARY, f"{name}/onrush-server")
        yield Path(name)


def settings(name):
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def verify(unit):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(folder):
    text = UNIT.read_text()
    assert PROGRAM in text
    unit = folder / "onrush.service"
    unit.write_text(text.replace(PROGRAM, str(folder / "onrush-server")))
    assert verify(unit) == (0, "")
    # What it is compared with: a misspelt setting is told.
    unit.write_text(unit.read_text().replace("NoNewPrivileges", "NoNewPrivilege"))
    assert "NoNewPrivilege" in verify(unit)[1]


def test_the_units_command_line_runs_as_an_unprivileged_user(folder):
    assert settings("Type") == ["notify"]
    (command,), (open_files,) = settings("ExecStart"), settings("LimitNOFILE")
    port = free_port()
    # The unit's own words come behind the file's.
    (folder / "onrush.conf").write_text(f"port {port}\nbind 127.0.0.1\ndaemonize yes\ndir /\nsave 3600 1\n")
    state = folder / "state"
    state.mkdir()
    places = {PROGRAM: folder / "onrush-server", "/etc/onrush.conf": folder / "onrush.conf", "/var/lib/onrush": state}
    words = [str(places.get(word, word)) for word in shlex.split(command)]
    assert all(str(place) in words for place in places.values()), words
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(state, nobody.pw_uid, nobody.pw_gid)
        words = ["setpriv", "--reuid", "nobody", "--regid", str(nobody.pw_gid), "--clear-groups", "--no-new-privs", *words]
    limit = min(int(open_files), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    server = subprocess.Popen(
        words,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    try:
        # Nobody waits for its message, so the server only complains that it has nowhere to send it.
        told = b""
        for line in server.stdout:
            told += line
            if b"Ready to accept connections" in line:
                break
        ask = ["redis-cli", "-p", str(port)]
        assert subprocess.run([*ask, "SET", "a", "1"], capture_output=True).stdout == b"OK\n", told
        if limit == int(open_files):
            assert subprocess.run([*ask, "CONFIG", "GET", "maxclients"], capture_output=True).stdout == b"maxclients\n10000\n"
        if os.geteuid() == 0:
            assert os.stat(f"/proc/{server.pid}").st_uid == nobody.pw_uid
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0, server.stdout.read()
        assert [file.name for file in state.iterdir()] == ["dump.rdb"]
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
        server.stdout.close()
