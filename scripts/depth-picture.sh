#!/usr/bin/env bash
# Makes the picture of README.md: throughput of SET against depth, onrush-server beside redis-server, each on core 0 and in turns,
# onrush-benchmark on core 1. Writes docs/depth.svg, and the raw figures of all rounds to benchmarks/runs.
set -euo pipefail
cd "$(dirname "$0")/.."
server=${ONRUSH_SERVER_BIN:-${CARGO_TARGET_DIR:-target}/release/onrush-server}
tool=${ONRUSH_BENCHMARK_BIN:-${CARGO_TARGET_DIR:-target}/release/onrush-benchmark}
record=benchmarks/runs/$(date -u +%Y-%m-%d)/$(date -u +%Y-%m-%d-%H%M)-$(git describe --always)-depth
mkdir -p "$(dirname "$record")"

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
free_port() {
    python3 -c 'import socket; probe = socket.create_server(("127.0.0.1", 0)); print(probe.getsockname()[1])'
}
ours=$(free_port)
theirs=$(free_port)
taskset -c 0 "$server" --port "$ours" --workers 1 --save '' --dir "$work" >"$work/ours" &
taskset -c 0 redis-server --port "$theirs" --save '' --dir "$work" >"$work/theirs" &
for port in "$ours" "$theirs"; do
    until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.05; done
done

load=(-c 50 -r 1000000 -t set --sweep depth=1,2,4,8,16,32,64,128,256,512,1000)
load+=(--rounds 5 --warmup 200ms --duration 500ms)
taskset -c 1 "$tool" -p "$ours" --versus "127.0.0.1:$theirs" "${load[@]}" \
    --plot docs/depth.svg --json "$record.json" >"$work/table"
name() { # name FILE...: addresses become names
    sed -i "s/127\.0\.0\.1:$ours/Onrush/g; s/127\.0\.0\.1:$theirs/redis-server/g" "$@"
}
name docs/depth.svg "$record.json" "$work/table"
{
    echo "# Throughput against depth, $(date -u +%Y-%m-%d), commit $(git describe --always)"
    echo
    echo "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1), $(nproc) cores, Linux $(uname -r), load average $(cut -d' ' -f1 /proc/loadavg)."
    echo "\`$(redis-server --version)\` against \`$("$server" --version)\`, made by \`scripts/depth-picture.sh\`:"
    echo "\`onrush-benchmark ${load[*]}\`."
    echo
    echo '```'
    grep -E '^(SET|test)' "$work/table" || cat "$work/table"
    echo '```'
} >"$record.md"
echo "docs/depth.svg, $record.md"
