#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: install-tools.sh [browser]. Installs as root only; otherwise names the
# packages. The browser is large, and only the nightly tests need it.
set -euo pipefail

missing=()
need() { # need COMMAND PACKAGE...
    if ! command -v "$1" >/dev/null; then
        missing+=("${@:2}")
    fi
}

need redis-server redis-server
need redis-cli redis-tools
need redis-benchmark redis-tools
need nc netcat-openbsd
need taskset util-linux
need git git
need openssl openssl
need cc build-essential
need python3 python3 python3-venv
need node nodejs npm
need npm npm
if [ "${1:-}" = browser ]; then
    need chromium chromium
fi
need ruby ruby ruby-redis
need sidekiq ruby-sidekiq
need php php-cli php-redis
need go golang-go
need mvn maven
need javac default-jdk-headless
if command -v ruby >/dev/null && ! ruby -e 'require "redis"' 2>/dev/null; then
    missing+=(ruby-redis)
fi
if command -v php >/dev/null && ! php -r 'exit(extension_loaded("redis") ? 0 : 1);' 2>/dev/null; then
    missing+=(php-redis)
fi
if ! [ -e /usr/include/hiredis/hiredis.h ]; then
    missing+=(libhiredis-dev)
fi
if command -v python3 >/dev/null && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    missing+=(python3-venv)
fi

if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
mapfile -t packages < <(printf '%s\n' "${missing[@]}" | sort -u)
if [ "$(id -u)" -ne 0 ]; then
    echo "missing packages, install them as root: ${packages[*]}" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# RUNLEVEL=1 keeps packages from starting their services: the tests start their own servers.
RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${packages[@]}"
