# Every target does its own set-up: a virtual environment in .venv, the native build, then the work.
#   make demo    a small training, stopped and resumed, with a live display (a few minutes)
#   make quick   one case of each of Python's tests, without damage, servers, trainers and what takes a second (under two minutes on two cores, once built)
#   make test    all tests, Rust and Python          make lint    what the code must look like
#   make test-long   all tests at full size and every variant: before a release, and after work on a parser
#   make exporters   tests of what figures are exported to, with trackers and XProf in an environment of their own
#   make bench   ours and the peers, side by side    make docs    the documentation as pages in site/
#   make gpu     checks and figures on a GPU, in less than ten minutes; needs Python, PyTorch and the built package, and builds nothing
#   make wheel   a wheel for Python 3.11 and newer, in dist/
#   make fuzz    every parser of foreign bytes, for FUZZ_SECONDS each (needs the nightly toolchain)
# What the set-up prints goes to target/setup/*.log.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
QUIETLY := scripts/quietly.sh
FUZZ_SECONDS ?= 60
BENCH ?=
# How hard tests try, in thousandths of the full size (tests/support/tries.py); what the caller's shell says counts.
TRIES_QUICK := $(or $(PENSTOCK_TRIES),10)
TRIES_LONG := $(or $(PENSTOCK_TRIES),1000)
MATURIN := $(BIN)/maturin develop --release --locked
# Three at once, also on two cores: half of the time a test waits, for servers and processes.
# A process that dies ends the run: xdist 3.8 would start another one, and wait for it for ever (pytest-xdist 1378).
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# maturin builds for the environment that is active: this one, whatever the caller's shell has active.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
unexport CONDA_PREFIX
# Tests start many interpreters, which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test test-long exporters lint bench gpu docs fuzz wheel build clean tools prepare servers shipped compiled
.DELETE_ON_ERROR:

demo: build
	@$(BIN)/penstock demo

test: build servers
	cargo test --locked --no-default-features
	$(PYTEST)

quick: build
	PENSTOCK_TRIES=$(TRIES_QUICK) $(PYTEST) -q -m "not (long or slow or servers or trainers)" --ignore tests/damage

test-long: build servers shipped
	cargo test --locked --no-default-features
	PENSTOCK_TRIES=$(TRIES_LONG) $(PYTEST) -m "" -o timeout=1200
	scripts/exporter_tests.sh $(BIN)/python

# Where figures go, beside what is too large for .venv: Weights & Biases, MLflow, Trackio, XProf.
exporters: build
	@scripts/exporter_tests.sh $(BIN)/python

lint: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest penstock._core --ignore-disjoint-bases
	$(BIN)/python scripts/check_user_code.py
	$(BIN)/lint-imports
	cargo fmt --all --check
	cargo clippy --locked --all-targets -- -D warnings

bench: build
	$(BIN)/python benches/run.py $(BENCH)
	test -n "$(BENCH)" || $(BIN)/python benches/s3.py
	test -n "$(BENCH)" || $(BIN)/python benches/order.py
	test -n "$(BENCH)" || $(BIN)/python benches/image_ops.py
	test -n "$(BENCH)" || $(BIN)/python benches/tokenise_pack.py --json
	test -n "$(BENCH)" || $(BIN)/python benches/clean_text.py --json
	test -n "$(BENCH)" || $(BIN)/python benches/workers.py --json
	test -n "$(BENCH)" || $(BIN)/python benches/isolation.py --json
	test -n "$(BENCH)" || $(BIN)/python benches/beside_training.py --json
	test -n "$(BENCH)" || $(BIN)/python benches/dropin.py
	test -n "$(BENCH)" || $(BIN)/python benches/migration.py
	test -n "$(BENCH)" || $(BIN)/python benches/tuning.py

gpu:
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) benches/gpu.py

# What lint and test fetch and compile, side by side: make -j 2 prepare. pip takes one core and waits for the network.
prepare: $(VENV)/installed compiled servers

compiled: $(BIN)/maturin
	@$(QUIETLY) native "Building the native code" $(MATURIN) --skip-install
	@$(QUIETLY) rust-tests "Compiling the Rust tests" cargo test --locked --no-default-features --no-run
	@$(QUIETLY) clippy "Compiling for clippy" cargo clippy --locked --all-targets -- -D warnings

servers:
	@scripts/test_servers.sh

shipped: $(VENV)/made
	@$(QUIETLY) shipped "Fetching packages that ship tokenizers, whose ids a long test compares" \
		$(BIN)/python -m pip install --progress-bar off --no-compile --no-deps --upgrade --target target/shipped -r tests/support/shipped_tokenizers.txt

docs: build
	@$(QUIETLY) docs "Installing what builds the documentation" $(BIN)/python -m pip install --progress-bar off zensical
	$(BIN)/python scripts/api_reference.py docs/api
	$(BIN)/zensical build --clean --strict

fuzz: tools
	scripts/fuzz.sh $(FUZZ_SECONDS)

# The wheel needs neither the tests' packages nor PyTorch.
wheel: tools $(BIN)/maturin
	@$(QUIETLY) wheel "Building the wheel" $(BIN)/maturin build --release --locked --out dist
	@du -h dist/*.whl

build: tools $(VENV)/installed
	@$(QUIETLY) native "Building the native code (a minute the first time)" $(MATURIN)

$(VENV)/made: | tools
	@$(QUIETLY) environment "Making a virtual environment in $(VENV)" $(PYTHON) -m venv --upgrade-deps $(VENV)
	@touch $@

$(BIN)/maturin: | $(VENV)/made
	@$(QUIETLY) maturin "Installing maturin" $(BIN)/python -m pip install --progress-bar off --no-compile maturin

$(VENV)/installed: $(BIN)/maturin pyproject.toml constraints.txt
	@$(BIN)/python scripts/requirements.py dev demo > $(VENV)/requirements.txt
	@$(QUIETLY) packages "Installing what tests, lints and the demo need (PyTorch is large: a few minutes the first time)" \
		$(BIN)/python -m pip install --progress-bar off --no-compile -r $(VENV)/requirements.txt
	@touch $@

tools:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.89 or newer (https://rustup.rs), then run make again" >&2; exit 1; }
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { echo "$(PYTHON) is missing or older than 3.11: install Python 3.11 or newer, or name one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c "import ensurepip, venv" 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv), then run make again" >&2; exit 1; }

clean:
	rm -rf $(VENV) target site dist docs/api
