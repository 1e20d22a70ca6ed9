# Onrush: build, run, test, measure. `make help` lists the targets.

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
ONRUSH_SERVER_BIN ?= $(TARGET)/release/onrush-server
# The tests take the server as it is released, and the tools as they are built beside the tests.
ONRUSH_CLI_BIN ?= $(TARGET)/debug/onrush-cli
ONRUSH_CHECK_BIN ?= $(TARGET)/debug/onrush-check
ONRUSH_BENCHMARK_BIN ?= $(TARGET)/debug/onrush-benchmark
VENV := $(TARGET)/venv
NODE_FOLDER := $(TARGET)/node
ORACLE := $(TARGET)/oracle
REDIS_NEWER_SERVER_BIN ?= $(ORACLE)/redis-server
VALKEY_SERVER_BIN ?= $(ORACLE)/valkey-server
TOOLS := $(TARGET)/tools
PROGRAMS := $(TARGET)/programs
CARGO_DENY ?= $(TOOLS)/cargo-deny
MDBOOK ?= $(TOOLS)/mdbook
# deny.toml is about the main workspace: a smaller tree has not all that it allows.
DENY_QUIET := -A license-not-encountered -A license-exception-not-encountered -A unmatched-skip
CLIENTS := tests/clients
UNIT_TESTS := $(basename $(notdir $(wildcard crates/*/tests/*.rs fuzz/tests/*.rs)))
# In `make test` the build of the tests is Clippy's as well. (It is another one than that of `cargo test` by itself.)
ifdef LINTED
DEV := env RUSTC_WORKSPACE_WRAPPER=clippy-driver RUSTFLAGS="-D warnings" cargo
else
DEV := cargo
endif
# All tests are built as parts of the whole workspace: with the same features everything is built once.
CARGO_TEST := $(DEV) test --workspace --all-features --locked
# Ends a test that hangs, and says so.
IN_TIME := timeout --verbose --kill-after=10s
ARGS ?=
# What the tests themselves are told.
HARNESS ?=
FUZZ_SECONDS ?= 30
# What the tests are run on. `make test` builds it once, before it runs several of them beside each other.
BUILT = tools server testbuild
# How often `make loom` interrupts the threads of a model.
PREEMPTIONS ?= 2

export ONRUSH_SERVER_BIN ONRUSH_CLI_BIN ONRUSH_CHECK_BIN ONRUSH_BENCHMARK_BIN REDIS_NEWER_SERVER_BIN VALKEY_SERVER_BIN

.PHONY: help build run server testbuild installed suites faults apart summary test lint lintmore unit blackbox clients programs release bench book docs audit crates experiments fuzz siege chaos soak failovers slow nightly semver browser shapes sim loom asan tsan miri tools packages

help: ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## the release build of the server, the command line, the load tool and the checker of files
	cargo build --release --locked -p onrush-server -p onrush-cli -p onrush-benchmark -p onrush-check

server: # the server as it is released
	cargo build --release --locked -p onrush-server

testbuild: # all crates, tests, tools and examples with the same features, once
	$(DEV) build --workspace --all-targets --all-features --locked

installed: tools $(CARGO_DENY) $(MDBOOK) $(VENV)/.installed $(NODE_FOLDER)/.installed $(PROGRAMS)/.installed # what the tests need

run: server ## start the server with defaults; more options through ARGS="--port 7000"
	$(ONRUSH_SERVER_BIN) $(ARGS)

test: export LINTED = 1
test: ## everything: lint, the book, unit and property tests, black-box tests, real programs and clients
	@# What is fetched and what is built wait for different things, and so do the clients and all beside them. The
	@# server's linking leaves a core to the build of the tests.
	command -v cc >/dev/null || scripts/install-tools.sh
	@$(MAKE) installed & installed=$$!; $(MAKE) -j2 server testbuild || { kill $$installed; exit 1; }; wait $$installed
	@$(MAKE) suites loom & suites=$$!; $(MAKE) BUILT= lint book programs clients unit faults || { kill $$suites; exit 1; }; wait $$suites
	$(MAKE) apart summary

lint: $(CARGO_DENY) ## formatting, clippy, licences and duplicates of the dependencies
	cargo fmt --all --check
ifndef LINTED
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
endif
	$(CARGO_DENY) --locked check -A license-exception-not-encountered licenses bans sources
	$(CARGO_DENY) --locked --manifest-path models/Cargo.toml --config deny.toml check $(DENY_QUIET) licenses sources
	scripts/package.sh

lintmore: $(CARGO_DENY) ## what seldom fails: no features, the oldest Rust, the docs of the code, Lua under AddressSanitizer
	cargo clippy --workspace --no-default-features --locked -- -D warnings
	[ -f fuzz/libfuzzer/Cargo.lock ] || cargo generate-lockfile --manifest-path fuzz/libfuzzer/Cargo.toml
	for tree in benchmarks/clients fuzz/libfuzzer; do \
		$(CARGO_DENY) --locked --manifest-path $$tree/Cargo.toml --config deny.toml check $(DENY_QUIET) licenses sources || exit 1; \
	done
	scripts/lowest-rust.sh
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --all-features --no-deps --document-private-items --locked
	scripts/lua-asan.sh -q

crates: ## the packages of the crates that are published; ARGS="--build" builds each from its own files
	scripts/package.sh $(ARGS)

docs: server $(ORACLE)/.installed ## write the pages of docs anew that are made from the code
	UPDATE_DOCS=1 cargo test -q -p onrush-server --lib --locked config::docs
	UPDATE_DOCS=1 cargo test -q -p onrush-tests --test commands --locked the_table_of_commands

book: $(MDBOOK) ## docs as a book, in the target folder; the test `docs` checks its links
	$(MDBOOK) build docs -d $(TARGET)/book
	@# Links out of docs lead to the repository.
	sed -i 's|href="\.\./|href="https://github.com/onrush/onrush/blob/main/|g' $(TARGET)/book/*.html

unit: testbuild ## unit and property tests beside the code
	@# The examples are built with all else, and have no tests: with --examples they would be built once more as such.
	$(CARGO_TEST) --lib --bins $(addprefix --test ,$(UNIT_TESTS)) -- $(HARNESS)
	$(CARGO_TEST) --doc

blackbox: suites faults apart ## the server against redis-server, the pipelining contract, life and death

suites: tools server testbuild # the black-box tests that any machine can run beside others
	rm -f $(TARGET)/skipped
	@# Those of the first three wait much of the time, and would leave a core unused by themselves.
	@$(IN_TIME) 40m $(CARGO_TEST) --no-fail-fast --test persistence --test replication --test cluster -- --test-threads=3 $(HARNESS) & waiting=$$!; \
		$(IN_TIME) 40m $(CARGO_TEST) --no-fail-fast --test commands --test server --test client -- --test-threads=2 $(HARNESS); busy=$$?; \
		wait $$waiting && exit $$busy

faults: testbuild # faults drawn by a seed, in the simulator
	$(TARGET)/debug/onrush-sim --seed 1 --seconds 10 & fixed=$$!; $(TARGET)/debug/onrush-sim --seconds 10 && wait $$fixed

apart: tools server testbuild # those that measure, or use the whole machine
	$(IN_TIME) 20m $(CARGO_TEST) --no-fail-fast --test apart -- --test-threads=1 $(HARNESS) --skip chaos:: --skip memory::
	@# Faults drawn by a seed need no quiet machine, nor do those who measure memory.
	$(IN_TIME) 10m $(CARGO_TEST) --no-fail-fast --test apart -- --test-threads=1 $(HARNESS) chaos:: & chaos=$$!; \
		{ $(IN_TIME) 10m $(CARGO_TEST) --no-fail-fast --test apart -- --test-threads=1 $(HARNESS) memory:: && \
		python3 benchmarks/shapes.py --scale 0.001 --no-record; } || { kill $$chaos; exit 1; }; wait $$chaos

clients: $(BUILT) $(VENV)/.installed $(NODE_FOLDER)/.installed ## redis-cli, redis-benchmark, netcat, the matrix of client libraries, onrush-cli, onrush-benchmark
	mkdir -p $(TARGET)/results
	rm -f $(TARGET)/results/node.tap $(TARGET)/results/pytest.xml
	NODE_PATH=$(NODE_FOLDER)/node_modules node --test --test-reporter=spec --test-reporter-destination=stdout \
		--test-reporter=tap --test-reporter-destination=$(TARGET)/results/node.tap $(CLIENTS)
	NODE_PATH=$(NODE_FOLDER)/node_modules $(VENV)/bin/python -m pytest -q -rs -n 2 --dist loadfile -o verbosity_assertions=2 -p no:cacheprovider -m "not nightly and not slow" --junitxml=$(TARGET)/results/pytest.xml $(CLIENTS)
	$(MAKE) summary

summary: # what was skipped, and why
	python3 scripts/test-summary.py $(TARGET)

browser: server tools testbuild $(VENV)/.installed $(NODE_FOLDER)/.installed ## a report of onrush-benchmark in Chromium, which is installed, and the clients of clusters of redis-server
	scripts/install-tools.sh browser
	NODE_PATH=$(NODE_FOLDER)/node_modules $(VENV)/bin/python -m pytest -q -rs -o verbosity_assertions=2 -p no:cacheprovider -m nightly $(CLIENTS)

programs: $(BUILT) $(PROGRAMS)/.installed ## programs that use a Redis server, on Onrush as on redis-server: docs/programs.md
	mkdir -p $(TARGET)/results
	ONRUSH_PROGRAMS_FOLDER=$(PROGRAMS) NODE_PATH=$(PROGRAMS)/node/node_modules \
		$(PROGRAMS)/venv/bin/python -m pytest -q -rs -o verbosity_assertions=2 -p no:cacheprovider --junitxml=$(TARGET)/results/programs.xml tests/programs

release: ## the archive of a release with its checksum, in the target folder's `dist`
	scripts/release.sh

bench: tools server ## measure against redis-server; options through ARGS="--quick"
	if [ -f benchmarks/store-bench/Cargo.toml ]; then cargo build --release --locked -p onrush-store-bench; fi
	python3 benchmarks/run.py $(ARGS)

audit: tools server ## what every command costs on its worst shapes of data up to 1,000,000, beside redis-server; ARGS="--only sets"
	cargo run --locked -p onrush-tests --bin onrush-audit -- --out benchmarks/runs/$(shell date -u +%Y-%m-%d)/$(shell date -u +%Y-%m-%d-%H%M)-$(shell git describe --always --dirty)-audit.md $(ARGS)

experiments: build $(NODE_FOLDER)/.installed ## the experiments of docs/pipelining.md on this machine; ARGS="--quick" for a tenth
	cargo build --release --locked -p onrush --example experiments
	ONRUSH_BENCHMARK_BIN=$(TARGET)/release/onrush-benchmark python3 experiments/run.py $(ARGS)

fuzz: tools build ## fuzz targets and random differential sequences for FUZZ_SECONDS each
	scripts/fuzz-smoke.sh $(FUZZ_SECONDS)

siege: server ## hostile clients together against the server, polite ones beside them checked; options through ARGS="--seconds 3600"
	cargo run --release --locked -p onrush-tests --bin onrush-siege -- $(ARGS)

chaos: server ## faults drawn by a seed while clients check every reply: disks that fail, scripts without end, kills; ARGS="--seconds 600 --seed N"
	cargo run --release --locked -p onrush-tests --bin onrush-chaos -- $(ARGS)

soak: server ## three hours of every kind of work at a bounded rate: memory stays flat, the state is what the log says; ARGS="--seconds 600"
	cargo run --release --locked -p onrush-tests --bin onrush-soak -- $(ARGS)

failovers: server tools ## fail-overs by Redis's Sentinel or of a cluster under load, no acknowledged write may be lost; ARGS="--cluster --rounds 200"
	cargo run --release --locked -p onrush-tests --bin onrush-failovers -- $(ARGS)

slow: $(BUILT) $(VENV)/.installed $(NODE_FOLDER)/.installed ## what `make test` has no time for: slow tests, and random ones four times as often
	@# All of them, also behind one that fails; those beside the clients with the ones that they build on.
	status=0; ONRUSH_TEST_NIGHTLY=1 $(MAKE) -k unit suites faults apart HARNESS=--include-ignored || status=1; \
	NODE_PATH=$(NODE_FOLDER)/node_modules $(VENV)/bin/python -m pytest -q -rs -n 2 --dist loadfile -o verbosity_assertions=2 -p no:cacheprovider -m "not nightly" $(CLIENTS) || status=1; exit $$status

nightly: ## an hour of the long runs, recorded: more lint, slow tests, and with fresh seeds chaos, the siege, the simulator, fuzz targets; ARGS="--minutes 120"
	scripts/nightly.py $(ARGS)

semver: ## the interface of the client library against that of the last release
	scripts/semver.sh

shapes: server ## 20,000,000 keys and huge collections from Onrush to redis-server and back, as files of some GB; ARGS="--scale 0.1"
	python3 benchmarks/shapes.py $(ARGS)

loom: ## models of the locks, the gate, the inbox and the waiters, all interleavings of their threads; PREEMPTIONS=4
ifndef LINTED
	cargo clippy --manifest-path models/Cargo.toml --target-dir $(TARGET)/models --locked --lib --tests -- -D warnings
endif
	LOOM_MAX_PREEMPTIONS=$(PREEMPTIONS) $(IN_TIME) 20m \
		$(DEV) test --manifest-path models/Cargo.toml --target-dir $(TARGET)/models --locked -q

asan: tools ## black-box tests on a server with AddressSanitizer in Rust and C code; ARGS="commands"; needs a nightly Rust
	scripts/sanitizer.sh address $(ARGS)

tsan: tools ## the same with ThreadSanitizer
	scripts/sanitizer.sh thread $(ARGS)

miri: ## the modules with `unsafe` that Miri can run; ARGS="MINUTES"; needs a nightly Rust
	scripts/miri.sh $(ARGS)

sim: ## the engine under one seeded scheduler, what its clients saw checked against a model; ARGS="--seconds 3600"
	cargo run --profile sim --locked -p onrush-sim -- $(ARGS)

tools: packages $(ORACLE)/.installed ## what the tests need and is missing: Debian packages (as root), a newer redis-server and Valkey in the target folder

packages:
	@scripts/install-tools.sh

$(ORACLE)/.installed: scripts/fetch-oracle.sh | packages
	scripts/fetch-oracle.sh $(ORACLE)
	touch $@

$(TOOLS)/cargo-deny $(TOOLS)/mdbook: scripts/fetch-tool.sh
	scripts/fetch-tool.sh $(notdir $@) $(TOOLS)

$(VENV)/.installed: $(CLIENTS)/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(PROGRAMS)/.installed: tests/programs/python/requirements.txt tests/programs/node/package-lock.json tests/programs/go/go.sum tests/programs/java/pom.xml
	python3 -m venv $(PROGRAMS)/venv
	$(PROGRAMS)/venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	mkdir -p $(PROGRAMS)/node
	cp tests/programs/node/*.json $(PROGRAMS)/node/
	cd $(PROGRAMS)/node && npm ci --ignore-scripts --silent --no-audit --no-fund
	cd tests/programs/go && go build -mod=readonly -o $(PROGRAMS)/limiter .
	cd tests/programs/java && mvn -q -B -DoutputDirectory=$(PROGRAMS)/jars dependency:copy-dependencies
	touch $@

$(NODE_FOLDER)/.installed: $(CLIENTS)/package.json $(CLIENTS)/package-lock.json
	mkdir -p $(NODE_FOLDER)
	cp $^ $(NODE_FOLDER)/
	cd $(NODE_FOLDER) && npm ci --silent --no-audit --no-fund
	touch $@
