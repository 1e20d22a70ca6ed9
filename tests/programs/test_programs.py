"""Programs that use a Redis server, each by a small script. It runs on redis-server and on Onrush and must print on both
what stands in the folder `printed`.

`make programs` installs what they need into the target folder. What each does is in docs/programs.md.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "clients"))

from conftest import Server  # noqa: E402

FOLDER = Path(os.environ["ONRUSH_PROGRAMS_FOLDER"])


class Oracle(Server):
    binary = shutil.which("redis-server")


def java(name):
    jars = FOLDER / "jars"
    done = subprocess.run(["javac", "-d", FOLDER, "-cp", f"{jars}/*", HERE / "java" / f"{name}.java"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ["java", "-cp", f"{FOLDER}:{jars}/*", name]


PROGRAMS = {
    "django-cache": ("python3", lambda: [sys.executable, HERE / "python" / "django_cache.py"]),
    "rq": ("python3", lambda: [sys.executable, HERE / "python" / "rq_jobs.py"]),
    "celery": ("python3", lambda: [sys.executable, HERE / "python" / "celery_tasks.py"]),
    "express-session": ("node", lambda: ["node", HERE / "node" / "sessions.js"]),
    "redis_rate": ("go", lambda: [FOLDER / "limiter"]),
    "sidekiq": ("sidekiq", lambda: ["ruby", HERE / "ruby" / "sidekiq.rb"]),
    "redisson": ("javac", lambda: java("Locks")),
}

# These start servers by themselves: instead of a port they get the program.
STARTERS = {
    "pytest-redis": ("python3", lambda: [sys.executable, HERE / "python" / "redis_fixtures.py"]),
    "redis-memory-server": ("node", lambda: ["node", HERE / "node" / "memory_server.js"]),
    "embedded-redis": ("javac", lambda: java("Embedded")),
}


def run(folder, command, **variables):
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed(kind, folder, command):
    folder.mkdir()
    server = kind(folder)
    try:
        return run(folder, [*command, str(server.port)], PORT=str(server.port))
    finally:
        server.process.kill()
        server.process.wait()


def printed_with_program(kind, folder, command):
    folder.mkdir()
    return run(folder, [*command, kind.binary])


def check(name, printed, programs, tmp_path):
    needs, command = programs[name]
    if shutil.which(needs) is None and not os.environ.get("CI"):
        pytest.skip(f"{needs} is not installed")
    command = command()
    with ThreadPoolExecutor() as both:
        wanted = both.submit(printed, Oracle, tmp_path / "redis", command)
        ours = both.submit(printed, Server, tmp_path / "onrush", command)
    assert wanted.result() == (HERE / "printed" / f"{name}.txt").read_text()
    assert ours.result() == wanted.result()


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_does_the_same_on_both_servers(tmp_path, name):
    check(name, printed, PROGRAMS, tmp_path)


@pytest.mark.parametrize("name", STARTERS)
def test_it_starts_and_ends_both_servers_alike(tmp_path, name):
    check(name, printed_with_program, STARTERS, tmp_path)
