# The few commands that daily work needs. Each is a script or a line that can be run by itself.

.PHONY: help setup run test lint one instructions dist bench fuzz scale connections soak

help:
	@echo 'make run              build and start the gateway for development; prints requests that work'
	@echo 'make test             install what tests need, then lints and all tests'
	@echo 'make lint             format, clippy and, where installed, cargo-deny'
	@echo 'make one CRATE=store  clippy and tests of one crate: the normal loop'
	@echo 'make instructions     count the instructions of a request and compare them with the baseline; ARGS=--rebase re-writes it'
	@echo 'make dist             build the gateway as images carry it, laid out by two profiles of itself at work, and print where it is'
	@echo 'make bench            compare with nginx and a bare Pingora proxy (see benches/README.md)'
	@echo 'make fuzz             requests made from our own OpenAPI document, and bytes for streams and bodies'
	@echo 'make scale            start-up, memory and time per change with 100,000 keys; 10,000 resources to a document and back; ten million records; an export of a million'
	@echo 'make connections  memory of 5,000 idle connections of each kind and 1,000 realtime sessions, and whether they are let go'
	@echo 'make soak             exact limits and the loss tests for a minute each at full load, a batch of 50,000 lines (see benches/README.md)'
	@echo 'make setup            install the system packages that tests and benchmarks need'

setup:
	scripts/setup.sh test
	scripts/setup.sh bench

run:
	@scripts/run.sh $(ARGS)

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

# CRATE is a folder of this repository or the name of a package.
CRATE ?= .
CRATE_FLAGS = $(if $(wildcard $(CRATE)/Cargo.toml),--manifest-path $(CRATE)/Cargo.toml,-p $(CRATE))
one:
	cargo clippy $(CRATE_FLAGS) --all-targets -- -D warnings
	cargo test $(CRATE_FLAGS)

instructions:
	@scripts/setup.sh instructions
	@python3 benches/callgrind.py --check $(ARGS)

dist:
	@scripts/setup.sh dist
	@scripts/dist.sh

bench:
	scripts/setup.sh bench
	cargo bench -p gateway-domain --bench prices
	gateway=$$(scripts/dist.sh) && python3 benches/compare.py --gateway "$$gateway" $(ARGS)

fuzz:
	scripts/fuzz.sh $(ARGS)

scale:
	cargo build --release $(MEASURED) -p records --bin records
	python3 benches/scale.py $${CARGO_TARGET_DIR:-target}/release/gateway --check $(ARGS)
	python3 benches/records.py $${CARGO_TARGET_DIR:-target}/release/gateway $${CARGO_TARGET_DIR:-target}/release/records --check
	SCALE_RESOURCES=10000 cargo test --release -p gateway-admin --test api -- configuration::many --nocapture
	SCALE_RECORDS=1000000 cargo test --release --test e2e -- large_exports:: --nocapture
	SCALE_INTEGRATIONS=10000 cargo test --release --test e2e -- mcp_sync_load:: --nocapture

connections:
	cargo build --release $(MEASURED)
	python3 benches/connections.py $${CARGO_TARGET_DIR:-target}/release/gateway --check $(ARGS)

# As the benchmarks build them: in another company the same crates have other features, and all is built once more.
MEASURED = -p gateway --bin gateway -p bare-proxy --bin bare-proxy -p load --bin load

# The tests of tests/e2e/exact.rs and loss.rs for longer: limits over four processes and one Redis, each round with dice
# of its own; the log store frozen, stopped and started, the journal at its bound, the disk full, the process killed.
# One at a time, so that each has the machine for itself.
# Then a batch of the gateway's own of many lines, with two nodes and five kills.
SOAK_SECONDS ?= 60
SOAK_LINES ?= 50000
soak:
	SOAK_SECONDS=$(SOAK_SECONDS) cargo test --release --test e2e -- loss:: exact:: --nocapture --test-threads 1
	SOAK_LINES=$(SOAK_LINES) cargo test --release --test e2e -- batches::of_many_lines --nocapture
