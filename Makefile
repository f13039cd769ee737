# The verbs of development. `make` alone lists them.

# A pipe fails when any of its commands does: a test binary that crashes prints no result to count.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

CARGO ?= cargo
# Where the total of the last test run is written; CI reads it again at its end.
TEST_TOTAL ?= /dev/null

# Where `make bench-proxy` and `make bench-import` put what it compares with.
BENCH_PEERS ?= $(abspath $(or $(CARGO_TARGET_DIR),target))/bench-peers

# Each pair is a command, or a module of Python, and the Debian package that brings it.
PACKAGES := chromium=chromium python3=python3 python3:ensurepip=python3-venv cc=gcc git=git initdb=postgresql

.DEFAULT_GOAL := help
.PHONY: help setup setup-lint ui openapi prices build run test bench-core bench-store bench-link bench-insight bench-redact bench-resolve bench-pages bench-proxy \
	bench-reuse bench-import \
	fmt fmt-check lint deny docs book dist clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need (Debian packages, only when missing)
	@.ci/install-missing $(PACKAGES)
	@command -v $(CARGO) >/dev/null || { echo "error: cargo is missing" >&2; echo "hint: install Rust 1.95 or newer" >&2; exit 1; }

# Without optimisation the tool is built in a third of the time; it runs for less than a second.
setup-lint: ## install cargo-deny when it is missing (two minutes)
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked --profile dev

# What the dashboard is built from, and the two things that show whether it has to be built again.
UI_SOURCES := $(shell find ui/src ui/index.html ui/package.json ui/tsconfig.json ui/vite.config.ts -type f)
UI_PACKAGES := ui/node_modules/.package-lock.json
UI_BUILT := ui/dist/site/index.html

ui: $(UI_BUILT) ## build the dashboard, when its sources changed

$(UI_BUILT): $(UI_SOURCES) $(UI_PACKAGES)
	@cd ui && npm run --silent build
	@touch $@

$(UI_PACKAGES): ui/package.json ui/package-lock.json
	@.ci/check-node
	@cd ui && npm ci --no-audit --no-fund
	@touch $@

openapi: $(UI_PACKAGES) ## write the API's document and the dashboard's types anew
	ROPEWALK_WRITE_OPENAPI=1 $(CARGO) test --locked -p ropewalk-server --lib openapi
	@cd ui && npm run --silent types

prices: ## write the built-in prices anew, after genai-prices was updated
	@node .ci/write-prices.mjs

build: ui ## build everything
	$(CARGO) build --workspace --all-targets --locked

run: ui ## build it and let it show itself, without a key or a network
	$(CARGO) run --locked -p ropewalk -- demo

# The browser's tests run the program that the others were built with. All of them run, whichever fail.
test: setup ui ## install what is missing, run every test, print the total
	@{ failed=0; \
	  $(CARGO) test --workspace --locked --no-fail-fast || failed=1; \
	  cd ui; npm run --silent test || failed=1; \
	  ROPEWALK_BIN="$(abspath $(or $(CARGO_TARGET_DIR),target))/debug/ropewalk" npm run --silent test:browser || failed=1; \
	  exit $$failed; } 2>&1 | .ci/count-tests $(TEST_TOTAL)

bench-core: ## decode, chain and split bodies, beside serde_json and SHA-256
	$(CARGO) bench --locked -p ropewalk-wire --bench body
	@.ci/count-instructions

bench-store: ## what recording costs in time and on disk
	$(CARGO) bench --locked -p ropewalk-engine --bench storage
	$(CARGO) bench --locked -p ropewalk-store --bench store
	$(CARGO) bench --locked -p ropewalk-store --bench postgres

bench-link: ## what linking costs, and how well it does on traffic with known truth
	$(CARGO) bench --locked -p ropewalk-engine --bench linking
	$(CARGO) bench --locked -p ropewalk-engine --bench truth

bench-insight: ## how well near-duplicates, templates and merges are found, how fast blame and explanations are
	$(CARGO) bench --locked -p ropewalk-engine --bench insight
	$(CARGO) bench --locked -p ropewalk-engine --bench blame

bench-redact: ## what looking for secrets costs
	$(CARGO) bench --locked -p ropewalk-engine --bench redact

bench-resolve: ## whether time tells what another owner has
	$(CARGO) bench --locked -p ropewalk-engine --bench resolve

bench-pages: ## what a page of a conversation of 100,000 messages costs through the API
	$(CARGO) bench --locked -p ropewalk-server --bench pages

# Ropewalk beside nginx, and beside other recorders where they can be installed.
bench-proxy: ## what standing in between costs, beside nginx and other recorders
	@.ci/install-missing nginx=nginx taskset=util-linux
	@.ci/install-peers "$(BENCH_PEERS)"
	ROPEWALK_BENCH_PEERS="$(BENCH_PEERS)" $(CARGO) bench --locked -p ropewalk --bench proxy

bench-reuse: ## how fast an answer from the store is, beside a provider that takes 50 ms
	$(CARGO) bench --locked -p ropewalk --bench reuse

# Megabytes of logs that are written: `make bench-import MEGABYTES=1000` is the real run.
MEGABYTES ?= 200
bench-import: ## what bringing in logs costs, beside reading them and beside ccusage
	@.ci/install-peers "$(BENCH_PEERS)"
	ROPEWALK_BENCH_PEERS="$(BENCH_PEERS)" $(CARGO) bench --locked -p ropewalk --bench import -- $(MEGABYTES)

fmt: ## format the code
	$(CARGO) fmt --all

fmt-check: ## fail on code that is not formatted
	$(CARGO) fmt --all -- --check

lint: ## clippy, every warning an error
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Not `advisories`: their database is a Git repository, and builds fetch nothing but packages.
deny: ## check licences, bans and sources of all dependencies
	$(CARGO) deny --locked check bans licenses sources

docs: ## build the documentation, every warning an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# CI checks links, pages and commands of the book by tests; drawing it as a site takes mdBook.
book: ## draw docs/ as a site in target/book, where mdbook is installed
	@command -v mdbook >/dev/null || { echo "error: mdbook is missing" >&2; echo "hint: cargo install mdbook --locked" >&2; exit 1; }
	mdbook build

# `make dist PROFILE=dev` tries it out in minutes; `make dist TARGET=x86_64-unknown-linux-musl` is static, where that target is installed.
PROFILE ?= release
dist: ui ## build the archive of a release with man pages, completions, checksums and a bill of materials
	@packaging/dist $(PROFILE) $(TARGET)

clean: ## remove what was built
	rm -rf ui/dist/site ui/node_modules ui/test-results dist
	$(CARGO) clean
