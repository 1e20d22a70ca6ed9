"""onrush-cli at a terminal: a pty whose screen and keys are ours."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from test_cli_conformance import CLI, ENVIRONMENT, ORACLE, data, empty_keyspace, redis  # noqa: F401

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


class Terminal:
    """A program in a pty. `screen` is what it has written since the last key, without escapes."""

    def __init__(self, binary, port, *args, home, size=None, **environment):
        self.fd, slave = pty.openpty()
        if size:
            # Before the program starts: redis-cli asks a terminal without a size where its cursor is, and waits.
            fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.process = subprocess.Popen(
            [binary, "-p", str(port), *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**ENVIRONMENT, "HOME": str(home), **environment},
        )
        os.close(slave)
        self.raw = b""

    @property
    def screen(self):
        return ESCAPES.sub(b"", self.raw).decode(errors="replace")

    def read(self, timeout):
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return False
        try:
            part = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += part
        return bool(part)

    def wait_for(self, text, seconds=10):
        deadline = time.monotonic() + seconds
        while text not in self.screen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.screen!r}"
            self.read(0.1)
        return self.screen

    def type(self, keys):
        self.raw = b""
        os.write(self.fd, keys.encode())

    def run(self, line, then="> "):
        """Types a line and waits for the next prompt on a line of its own; what stands between is the answer."""
        self.type(line + "\r")
        deadline = time.monotonic() + 10
        while True:
            # The echo ends with the first newline; the prompt is drawn on the line after the answer.
            answer = self.screen.partition("\n")[2]
            if answer.rpartition("\n")[2].rstrip().endswith(then.rstrip()):
                return answer.rpartition("\n")[0]
            assert time.monotonic() < deadline, f"no prompt after {line!r}: {self.screen!r}"
            self.read(0.1)

    def wait_exit(self):
        deadline = time.monotonic() + 10
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "does not end"
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)


@pytest.fixture
def terminal(redis, tmp_path):  # noqa: F811
    opened = []

    def start(*args, binary=CLI, **environment):
        term = Terminal(binary, redis.port, *args, home=tmp_path, **environment)
        opened.append(term)
        return term

    yield start
    for term in opened:
        term.close()


@pytest.fixture
def repl(terminal):
    term = terminal()
    term.wait_for("> ")
    return term


@pytest.mark.parametrize(
    "args",
    [
        ["GET", "text"],
        ["LRANGE", "list", "0", "-1"],
        ["HGETALL", "hash"],
        ["-3", "HGETALL", "hash"],
        ["--raw", "LRANGE", "list", "0", "1"],
        ["--json", "HGETALL", "hash"],
        ["INCR", "text"],
        ["-e", "INCR", "text"],
        ["INFO", "keyspace"],
        ["--scan"],
        ["--scan", "--raw"],
        ["--bigkeys", "--pattern", "l*"],
    ],
    ids=" ".join,
)
def test_replies_at_a_terminal_look_the_same(terminal, args):
    def run(binary):
        term = terminal(*args, binary=binary)
        code = term.wait_exit()
        return sorted(term.raw.splitlines()) if args[0] in ("--bigkeys", "--scan") else term.raw, code

    assert run(CLI) == run(ORACLE)


def test_the_prompt_shows_the_state(repl, redis):  # noqa: F811
    place = f"127.0.0.1:{redis.port}"
    assert place + "> " in repl.screen
    assert repl.run("SELECT 3", "[3]> ") == "OK"
    assert repl.run("MULTI", "[3](TX)> ") == "OK"
    assert repl.run("INCR a", "(TX)> ") == "QUEUED"
    assert repl.run("EXEC", "[3]> ") == "1) (integer) 1"
    repl.run("RESET", f"{place}> ")


def test_lines_run_as_in_redis_cli(repl):
    assert repl.run("SET a '1'") == "OK"
    assert repl.run("3 INCR a") == "(integer) 2\n(integer) 3\n(integer) 4"
    assert repl.run('GET "a') == "Invalid argument(s)"
    assert repl.run("0 GET a") == "Invalid redis-cli repeat command option value."
    assert "SET" in repl.run("help set") and "summary:" in repl.screen
    assert "LPUSH" in repl.run("help @list")
    assert repl.run(":set nohints") == ""


def test_ctrl_d_leaves(repl):
    repl.type("\x04")
    assert repl.wait_exit() == 0


def test_quit_leaves(repl):
    repl.type("quit\r")
    assert repl.wait_exit() == 0


def test_ctrl_c_cancels_a_blocking_command(repl):
    repl.type("BLPOP missing 0\r")
    repl.wait_for("\n")
    time.sleep(0.2)
    repl.type("\x03")
    repl.wait_for("> ")
    assert repl.run("PING") == "PONG"


@pytest.mark.parametrize("typed", ["", "SET a"])
def test_ctrl_c_at_the_prompt_leaves_as_in_redis_cli(terminal, typed):
    def run(binary):
        term = terminal(binary=binary, size=(24, 80), TERM="xterm")
        term.wait_for("> ")
        term.type(typed)
        term.wait_for(typed)
        term.type("\x03")
        return term.wait_exit()

    assert run(CLI) == run(ORACLE) == 0


def test_ctrl_c_drops_a_pipeline_block(repl, redis):  # noqa: F811
    repl.run("pipeline", "pipeline(0)> ")
    repl.run("SET a 1", "pipeline(1)> ")
    repl.type("\x03")
    repl.wait_for(f"{redis.port}> ")
    assert repl.run("EXISTS a") == "(integer) 0"


def test_a_lost_connection_is_made_anew(repl):
    repl.run("CLIENT KILL TYPE normal SKIPME yes")
    identity = repl.run("CLIENT ID")
    subprocess.run([ORACLE, "-p", prompt_port(repl), "CLIENT", "KILL", "TYPE", "normal"], check=True, capture_output=True)
    assert repl.run("CLIENT ID") != identity


def prompt_port(repl):
    return re.search(r":(\d+)", repl.screen).group(1)


def test_no_connection_shows_in_the_prompt(repl):
    repl.run("connect 127.0.0.1 1", "not connected> ")
    assert "Could not connect to Redis at 127.0.0.1:1: Connection refused" in repl.screen


def test_tab_completes_and_hints_tell_arguments(repl):
    repl.type("getran\t")
    repl.wait_for("GETRANGE key start end")
    repl.type("\x15:set nohints\r")
    repl.wait_for("> ")
    repl.type("getrange ")
    time.sleep(0.3)
    repl.read(0.1)
    assert "start end" not in repl.screen
    repl.type("\x15help @lis\t")
    repl.wait_for("help @list")


def test_messages_arrive_until_a_key_is_pressed(repl, redis):  # noqa: F811
    repl.type("SUBSCRIBE ch\r")
    repl.wait_for("Reading messages... (press Ctrl-C to quit or any key to type command)")
    redis.run(ORACLE, ["PUBLISH", "ch", "hello"])
    repl.wait_for('3) "hello"')
    repl.type(" ")
    repl.wait_for("(subscribed mode)> ")
    repl.run("UNSUBSCRIBE ch", f"{redis.port}> ")
    assert repl.run("PING") == "PONG"


def test_a_pipeline_block_goes_out_as_one_batch(repl, redis):  # noqa: F811
    repl.run("pipeline", "pipeline(0)> ")
    repl.run("SET a 1", "pipeline(1)> ")
    repl.run("2 INCR a", "pipeline(3)> ")
    repl.run("INCR text", "pipeline(4)> ")
    assert redis.run(ORACLE, ["EXISTS", "a"]).stdout == b"0\n"
    answer = repl.run("run")
    assert re.fullmatch(
        r"\[1\] [\d.]+ ms  SET a 1\nOK\n\[2\] [\d.]+ ms  INCR a\n\(integer\) 2\n\[3\] [\d.]+ ms  INCR a\n"
        r"\(integer\) 3\n\[4\] [\d.]+ ms  INCR text\n\(error\) ERR .*\n4 replies in [\d.]+ ms, 1 errors",
        answer,
    )


def test_a_pipeline_block_can_be_dropped(repl, redis):  # noqa: F811
    repl.run("pipeline", "pipeline(0)> ")
    repl.run("SET a 1", "pipeline(1)> ")
    repl.run("drop", f"{redis.port}> ")
    assert repl.run("EXISTS a") == "(integer) 0"


def test_discard_in_a_pipeline_block_reaches_the_server(repl):
    repl.run("pipeline", "pipeline(0)> ")
    for count, line in enumerate(["MULTI", "SET a 1", "DISCARD", "SET b 1"], 1):
        repl.run(line, f"pipeline({count})> ")
    answer = repl.run("run")
    assert re.search(r"SET a 1\nQUEUED\n\[3\] [\d.]+ ms  DISCARD\nOK\n.*4 replies in [\d.]+ ms, 0 errors", answer, re.S)
    assert repl.run("EXISTS a b") == "(integer) 1"


def test_a_command_repeated_without_end_takes_no_memory_and_can_be_cancelled(repl):
    repl.run("pipeline", "pipeline(0)> ")
    repl.run("1000000000 PING", "pipeline(1000000000)> ")
    repl.type("run\r")
    while b"[20000] " not in repl.raw:
        assert repl.read(10)
        repl.raw = repl.raw[-100:] + b"" if b"[20000] " not in repl.raw else repl.raw
    with open(f"/proc/{repl.process.pid}/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    assert peak < 50_000, f"{peak} KB"
    repl.type("\x03")
    # What is typed before the next prompt is drawn is echoed by the terminal itself, so wait for the prompt.
    while not repl.screen.partition("Cancelled")[2].endswith("> "):
        assert repl.read(10), repl.raw
        if b"Cancelled" not in repl.raw:
            repl.raw = repl.raw[-1000:]
    assert repl.run("PING") == "PONG"


def test_a_byte_that_is_no_utf8_costs_its_line_alone(repl):
    repl.raw = b""
    os.write(repl.fd, b"SET a \xff")
    told = repl.wait_for("no UTF-8")
    while not told.partition("no UTF-8")[2].endswith("> "):
        assert repl.read(10)
        told = repl.screen
    assert repl.run(r'SET a "\xff\xfe"') == "OK"
    assert repl.run("GET a") == r'"\xff\xfe"'


def test_nothing_of_a_paste_runs_behind_a_byte_that_is_no_utf8(repl):
    assert repl.run("SET kept 1") == "OK"
    for rest in (b"\r", b" FLUSHALL\r", b"\rFLUSHALL\r" + b"FLUSHALL\r" * 2000):
        repl.raw = b""
        paste = b"SET a \xff" + rest
        while paste:
            # The terminal's queue holds 4 KB.
            _, ready, _ = select.select([], [repl.fd], [], 0)
            if ready:
                paste = paste[os.write(repl.fd, paste[:1024]) :]
            repl.read(0.01)
        told = repl.wait_for("no UTF-8")
        while not told.partition("no UTF-8")[2].endswith("> "):
            assert repl.read(10)
            told = repl.screen
        assert repl.run("EXISTS kept a") == "(integer) 1"


def test_history_keeps_lines_but_no_secrets(terminal, tmp_path):
    term = terminal(REDISCLI_HISTFILE=str(tmp_path / "history"))
    term.wait_for("> ")
    lines = ["SET a 1", "AUTH secret", "CONFIG SET requirepass ''", "ACL SETUSER bob >secret", "HELLO 3 AUTH a secret"]
    for line in lines:
        term.run(line)
    term.type("\x04")
    term.wait_exit()
    assert (tmp_path / "history").read_text() == "SET a 1\n"
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    again = terminal(REDISCLI_HISTFILE=str(tmp_path / "history"))
    again.wait_for("> ")
    again.type("\x1b[A")
    again.wait_for("SET a 1")


def test_preferences_are_read_at_the_start(terminal, tmp_path):
    (tmp_path / ".redisclirc").write_text(":set nohints\n:set nonsense\n")
    term = terminal()
    assert ".redisclirc: unknown redis-cli preference 'nonsense'" in term.wait_for("> ")


def echoes(term):
    return bool(termios.tcgetattr(term.fd)[3] & termios.ECHO)


def test_the_password_is_asked_for_behind_stars_and_not_trimmed(terminal, redis):  # noqa: F811
    password = " two words\N{EURO SIGN} "
    redis.run(ORACLE, ["CONFIG", "SET", "requirepass", password])
    try:
        term = terminal("--askpass", "PING", TERM="xterm")
        term.wait_for("password: ")
        term.type(password)
        term.wait_for("*" * len(password))
        term.type("\r")
        assert term.wait_exit() == 0
        assert "words" not in term.screen and "AUTH failed" not in term.screen and "PONG" in term.screen
        assert echoes(term)
    finally:
        redis.run(ORACLE, ["-a", password, "CONFIG", "SET", "requirepass", ""])


def test_whoever_does_not_want_to_tell_a_password_gets_the_terminal_back(terminal):
    term = terminal("--askpass", "PING", TERM="xterm")
    term.wait_for("password: ")
    term.type("secret\x03")
    assert term.wait_exit() == 1
    assert echoes(term) and "PONG" not in term.screen


def test_a_report_ends_with_its_summary_at_ctrl_c(terminal, redis):  # noqa: F811
    redis.run(ORACLE, ["DEBUG", "POPULATE", "100000"])
    term = terminal("--bigkeys", "-i", "0.5")
    term.wait_for("Biggest string")
    term.process.send_signal(signal.SIGINT)
    assert term.wait_exit() == 0
    assert "-------- summary -------" in term.screen


def test_messages_between_a_command_and_its_reply_are_told_apart(repl, redis):  # noqa: F811
    repl.type("SUBSCRIBE ch\r")
    repl.wait_for("Reading messages")
    repl.type(" ")
    repl.wait_for("(subscribed mode)> ")
    redis.run(ORACLE, ["PUBLISH", "ch", "late"])
    repl.type("PING\r")
    assert repl.wait_for('"pong"').index('"late"') < repl.screen.index('"pong"')
    repl.wait_for("Reading messages")


def all_shown(terminal):
    """What was written to a terminal whose other end is closed. The kernel hands it on in parts."""
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # EIO: nobody has the other end any more
            return shown
        if not part:
            return shown
        shown += part


def test_mass_insertion_shows_progress_at_a_terminal(redis):  # noqa: F811
    ours, theirs = pty.openpty()
    feed = subprocess.Popen(["sh", "-c", "for i in 1 2 3 4 5; do echo PING; sleep 0.1; done"], stdout=subprocess.PIPE)
    command = [CLI, "-p", str(redis.port), "--pipe"]
    done = subprocess.run(command, stdin=feed.stdout, stdout=subprocess.PIPE, stderr=theirs, timeout=30)
    feed.wait()
    os.close(theirs)
    shown = all_shown(ours)
    os.close(ours)
    assert (done.returncode, b"errors: 0, replies: 5" in done.stdout) == (0, True)
    assert re.search(rb"\r[\d.]+ MB sent, \d+ replies, \d+ per second", shown)
    assert re.search(rb"\r5 replies in [\d.]+ s, \d+ per second", shown)
