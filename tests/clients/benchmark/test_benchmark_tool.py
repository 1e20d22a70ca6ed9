"""onrush-benchmark against redis-benchmark on the same server: flags, names and formats; and what it has beyond.

ONRUSH_BENCHMARK_BIN names the binary; without it, the release build is taken.
"""

import csv
import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

TOOL = os.environ.get(
    "ONRUSH_BENCHMARK_BIN", str(Path(__file__).resolve().parents[3] / "target" / "release" / "onrush-benchmark")
)


def call(tool, server, *args, **options):
    command = [tool, "-p", str(server.port), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def lines(output):
    """What is left of the output when progress is taken away and numbers are masked."""
    kept = [line for line in output.replace("\r", "\n").split("\n") if line.strip() and "rps=" not in line]
    return [re.sub(r"\d+(\.\d+)?|\binf\b", "N", line.rstrip()) for line in kept]


def both(server, *args):
    return [lines(call(tool, server, *args).stdout) for tool in (TOOL, "redis-benchmark")]


@pytest.mark.parametrize(
    "args",
    [
        ("-q", "-n", "200"),
        ("-q", "-n", "200", "-t", "set,get,lrange_300", "-P", "5", "-c", "3", "-r", "100"),
        ("-q", "-n", "200", "-t", "PING,mset", "--threads", "2"),
        ("-q", "-n", "100", "-r", "100", "set", "key:__rand_int__", "value"),
        ("--csv", "-n", "200", "-t", "ping,set,zadd,lrange"),
        ("--csv", "-n", "200", "-3", "--dbnum", "2", "-d", "100", "hset", "h", "f", "v"),
    ],
)
def test_formats_are_redis_benchmarks(server, args):
    ours, theirs = both(server, *args)
    if "-t" not in args and not any(line.startswith("XADD") for line in theirs):
        # A test of redis-benchmark 8.
        ours = [line for line in ours if not line.startswith("XADD")]
    assert ours == theirs


def test_entries_are_added_to_a_stream(server):
    done = call(TOOL, server, "-q", "-n", "300", "-t", "xadd", "-d", "7")
    assert done.stdout.startswith("XADD: ")
    assert server.cli("XLEN", "mystream").strip() == "300"
    entry = server.cli("XRANGE", "mystream", "-", "+", "COUNT", "1").splitlines()
    assert entry[-2:] == ["myfield", "x" * 7]


def test_imported_data_is_written_and_verified(server, tmp_path):
    items = tmp_path / "items.csv"
    rows = [(f"item:{n}", "x" * (n % 50) + f",\"{n}\n") for n in range(1_000)]
    with open(items, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["dumpflags", "key", "data"])
        writer.writerows([0, *row] for row in rows)
    load = ["-q", "-n", "1000", "-P", "16", "--data-import", str(items)]
    done = call(TOOL, server, *load, "-t", "set,get", "--data-verify", "-c", "7")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert server.cli("DBSIZE").strip() == "1000"
    key, value = rows[777]
    request = f"GET {key}\r\n".encode()
    reply = f"${len(value)}\r\n{value}\r\n".encode()
    assert server.talk(request, len(reply)) == reply
    # What differs, and what is missing, is counted, and the first is named.
    server.cli("SET", "item:10", "other")
    server.cli("DEL", "item:20")
    data = tmp_path / "data.json"
    done = call(TOOL, server, *load, "-c", "1", "-t", "get", "--data-verify", "--json", str(data))
    assert done.returncode == 1
    assert "2 of 1000 replies are not the data of their keys; the first is that of item:10" in done.stderr
    cell = json.loads(data.read_text())["cells"][0]["median"]
    assert (cell["checked_replies"], cell["wrong_replies"]) == (1_000, 2)
    assert call(TOOL, server, *load, "-t", "get").returncode == 0
    mixed = call(TOOL, server, *load, "--mix", "set=1,get=3", "--key-pattern", "set=sequential,get=zipf")
    assert mixed.stdout.startswith("MIX set=1,get=3: "), mixed.stderr
    for wrong, reason in [(["-t", "incr"], "tests set and get"), ([], "tests set and get"), (["-t", "set", "-d", "5"], "-d")]:
        done = call(TOOL, server, "-q", "--data-import", str(items), *wrong)
        assert done.returncode == 1 and reason in done.stderr, done.stderr


def test_a_report_says_when_and_against_what_it_was_made(server, tmp_path):
    report, data = tmp_path / "report.html", tmp_path / "data.json"
    call(TOOL, server, "-q", "-n", "100", "-t", "set", "--report", str(report), "--json", str(data))
    told = json.loads(data.read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", told["date"]) and "processors" in told["machine"]
    assert told["servers"] == [{"server": f"127.0.0.1:{server.port}", "is": told["servers"][0]["is"]}]
    assert re.match(r"Onrush \d+\.\d+\.\d+, Linux ", told["servers"][0]["is"])
    for part in [told["date"], told["machine"], told["servers"][0]["is"]]:
        assert part in report.read_text()


def test_the_long_format_has_the_same_parts(server):
    ours, theirs = both(server, "-n", "500", "-t", "set", "--threads", "2", "-c", "4")
    parts = re.compile(r"=====|requests completed|parallel|payload|keep|host|multi|threads:|Latency|Cumulative|Summary|summary|avg")
    assert [line for line in ours if parts.search(line)] == [line for line in theirs if parts.search(line)]
    assert ours[-1].split() == theirs[-1].split() == ["N"] * 6


def test_unknown_options_of_a_url_are_told(server):
    url = f"redis://127.0.0.1:{server.port}/?pool_size=7&read_timeout=3s"
    done = call(TOOL, server, "-u", url, "-q", "-n", "10", "-c", "1", "PING")
    assert done.returncode == 0 and "requests per second" in done.stdout
    assert done.stderr.splitlines()[0] == "Ignored options of the URL: pool_size, read_timeout"


def test_errors_end_the_run_with_the_same_text(server):
    for args in (("-n", "10", "-q", "nosuch", "x"), ("-n", "10", "-q", "lpush"), ("--nosuch",)):
        ours, theirs = (call(tool, server, *args) for tool in (TOOL, "redis-benchmark"))
        assert ours.returncode == theirs.returncode == 1
        assert ours.stderr.split("\n")[0].strip() in (theirs.stderr + theirs.stdout)
    refused = subprocess.run([TOOL, "-p", "1", "-q"], capture_output=True, text=True, timeout=20)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Could not connect to Redis at 127.0.0.1:1: Connection refused")
    for flag in ("--cluster", "--tls"):
        assert call(TOOL, server, flag).returncode == 1


@pytest.mark.parametrize("form", [[], ["-q"], ["--csv"], ["--sweep", "depth=1,2"], ["--sweep", "depth=1,2", "--csv"]])
def test_files_are_written_though_nobody_reads_the_output(server, tmp_path, form):
    data = tmp_path / "data.json"
    reader, writer = os.pipe()
    os.close(reader)
    command = [TOOL, "-p", str(server.port), "-n", "100", "-t", "set,get", *form, "--json", str(data)]
    # Standard error is gone, too, as behind `2>&1 | head`.
    done = subprocess.run(command, stdout=writer, stderr=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 0
    assert len(json.loads(data.read_text())["cells"]) == (4 if "--sweep" in form else 2)


def test_what_was_measured_before_an_error_is_shown_and_written(server, tmp_path):
    data, table = tmp_path / "data.json", tmp_path / "data.csv"
    before = server.cli("CONFIG", "GET", "maxclients").split()[1]
    server.cli("CONFIG", "SET", "maxclients", "20")
    files = ["--json", str(data), "--csv-file", str(table)]
    done = call(TOOL, server, "-t", "set", "-n", "1000", "--sweep", "clients=1,2,60", *files)
    server.cli("CONFIG", "SET", "maxclients", before)
    assert done.returncode == 1 and done.stderr
    assert [row.split()[2] for row in done.stdout.splitlines()] == ["connections", "1", "2"]
    assert [cell["value"] for cell in json.loads(data.read_text())["cells"]] == ["1", "2"]
    assert len(table.read_text().splitlines()) == 3
    # Without anything measured, what an earlier run has written stays.
    nothing = call(TOOL, server, "-q", "-n", "10", "--json", str(data), "nosuch")
    assert nothing.returncode == 1 and len(json.loads(data.read_text())["cells"]) == 2


def test_a_server_that_is_gone_in_a_comparison_leaves_the_other(server, tmp_path):
    data = tmp_path / "data.json"
    done = call(TOOL, server, "-t", "set", "-n", "1000", "--versus", "127.0.0.1:1", "--json", str(data))
    assert done.returncode == 1 and "Connection refused" in done.stderr
    assert f"127.0.0.1:{server.port}" in done.stdout and "times the throughput" not in done.stdout
    told = json.loads(data.read_text())
    assert len(told["cells"]) == 1 and told["ratios"] == []


def test_files_that_cannot_be_written_are_told_before_any_load(server, tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("of an earlier run")
    for flag, place in [
        ("--csv-file", tmp_path / "none" / "data.csv"),
        ("--report", tmp_path),
        ("--plot", tmp_path / "plot.gif"),
        ("--hdr", tmp_path / "none" / "data.hdr"),
    ]:
        done = call(TOOL, server, "-n", "10", "-t", "set", "--json", str(kept), flag, str(place))
        assert done.returncode == 1 and done.stderr.startswith(f"{place}: "), done.stderr
        assert done.stdout == ""
    assert server.cli("DBSIZE").strip() == "0"
    assert kept.read_text() == "of an earlier run" and list(tmp_path.iterdir()) == [kept]


def test_a_file_that_cannot_be_written_does_not_skip_the_others(server, tmp_path):
    names = {"--csv-file": "data.csv", "--plot": "plot.svg", "--report": "page.html"}
    files = [word for flag, name in names.items() for word in (flag, str(tmp_path / name))]
    done = call(TOOL, server, "-q", "-n", "10", "-t", "set", "--json", "/dev/full", *files, "--hdr", "/dev/full")
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["/dev/full"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names.values())
    assert all(path.read_text() for path in tmp_path.iterdir())


def test_exactly_the_commands_asked_for_are_sent(server):
    for number, args in enumerate([("-P", "7"), ("-c", "3", "--window", "4"), ("--rate", "50000"), ("-k", "0", "-c", "5")]):
        key = f"counter:{number}"
        done = call(TOOL, server, "-q", "-n", "1000", *args, "incr", key)
        assert done.returncode == 0, done.stderr
        assert server.talk(f"GET {key}\r\n".encode(), 10) == b"$4\r\n1000\r\n"


def test_the_last_argument_may_come_from_standard_input(server):
    done = call(TOOL, server, "-q", "-n", "10", "-x", "set", "from-stdin", input="hello")
    assert done.returncode == 0, done.stderr
    assert server.talk(b"GET from-stdin\r\n", 11) == b"$5\r\nhello\r\n"


def test_an_open_loop_keeps_its_rate_and_a_round_trip_its_time(server, tmp_path):
    at = tmp_path / "rate.json"
    call(TOOL, server, "-q", "--rate", "2000", "--duration", "1s", "--warmup", "200ms", "-c", "4", "-t", "get", "--json", str(at))
    assert 1_900 < json.loads(at.read_text())["cells"][0]["median"]["rps"] < 2_100
    call(TOOL, server, "-q", "--rtt", "40ms", "-n", "20", "-P", "5", "-c", "1", "-t", "get", "--json", str(at))
    latency = json.loads(at.read_text())["cells"][0]["median"]["latency_ms"]
    assert 40 <= latency["p50"] < 80


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    done = call(
        TOOL, server, "-t", "set", "-n", "3000", "--sweep", "depth=1,10,100", "--versus", f"127.0.0.1:{server.port}",
        "--rounds", "3", "--report", str(folder / "r.html"), "--json", str(folder / "r.json"), "--plot",
        str(folder / "r.svg"), "--csv-file", str(folder / "r.csv"), "--hdr", str(folder / "r.hdr"),
    )
    assert done.returncode == 0, done.stderr
    assert "times the throughput of the second server (95 % within" in done.stdout
    return folder


def test_results_are_written_in_every_form(report):
    data = json.loads((report / "r.json").read_text())
    assert [cell["value"] for cell in data["cells"]] == ["1", "1", "10", "10", "100", "100"]
    assert all(len(cell["rounds"]) == 3 for cell in data["cells"]) and len(data["ratios"]) == 3
    rows = list(csv.DictReader(open(report / "r.csv")))
    assert len(rows) == 6 and float(rows[5]["rps"]) > float(rows[0]["rps"])
    assert (report / "r.svg").read_text().startswith("<svg")
    assert "#[Mean" in (report / "r.hdr").read_text()
    tags = Tags()
    tags.feed((report / "r.html").read_text())
    assert tags.open == [] and tags.seen.count("svg") == 5 and tags.seen.count("tr") == 7


def test_a_plot_can_be_a_png(server, tmp_path):
    picture = tmp_path / "plot.png"
    done = call(TOOL, server, "-q", "-t", "set", "-n", "2000", "--sweep", "depth=1,10", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (980, 480)
    parts, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        parts += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    # Lines, letters and a white ground.
    pixels = zlib.decompress(parts)
    assert len(pixels) == 480 * (980 * 3 + 1) and len(set(pixels)) > 50
    wrong = call(TOOL, server, "-q", "-t", "set", "-n", "10", "--plot", str(tmp_path / "plot.gif"))
    assert wrong.returncode == 1 and "SVG or PNG" in wrong.stderr


@pytest.mark.nightly
def test_a_browser_shows_the_report(report):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{report}/r.html"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "<title>onrush-benchmark</title>" in dom and dom.count("<svg") == 5
