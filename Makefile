# `make demo` and `make test` set up everything they need in .venv; nothing else is required than Python 3.11+.

PYTHON ?= python3
VENV ?= .venv
OUTPUT ?= demo-output
# The CUDA extra that fits this machine's driver; empty without a GPU.
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: \(1[23]\)\..*/,cuda\1/p' | head -n 1)

comma := ,
# Without a GPU the tests still compile the kernels.
EXTRA := $(or $(CUDA),$(comma)nvrtc)
BIN := $(VENV)/bin
# Two processes for each processor; tests/conftest.py says which tests begin first.
PYTEST := -n auto --no-loadscope-reorder

# What `make check` runs: the tests of MOTIF=biclique, of some paths (WHAT="papilio/storage tests/cli"), or of the changed files.
MOTIF ?=
WHAT ?=

.PHONY: demo test test-all check mutants lint docs benchmark wheel clean

demo: $(VENV)/.demo
	@mkdir -p $(OUTPUT)
	$(BIN)/papilio example senate-votes | $(BIN)/papilio convert - $(OUTPUT)/senate-votes --overwrite
	$(BIN)/papilio count butterfly $(OUTPUT)/senate-votes --cluster $(if $(CUDA),cuda,local)

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST) -m "not slow"

test-all: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST)

check: $(VENV)/.dev
	$(BIN)/python -m tools.check $(if $(MOTIF),--motif $(MOTIF)) $(WHAT)

mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants.run

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -b html --quiet --fail-on-warning --keep-going -c docs . build/docs
	@echo "documentation: build/docs/docs/index.html"

benchmark: $(VENV)/.test
	$(BIN)/python -m benchmarks.butterfly --engine $(if $(CUDA),gpu,cpu)

# A wheel and an sdist in dist/, with machine code for GPUs and CPUs, and both tried: each installs into an empty environment and
# counts. The first run compiles some 300 modules for GPUs and 190 files for CPUs; ten of the modules take 17 s of processor time. Later
# runs take what has not changed: names of files are stamps of their sources.
# `make wheel -j4` compiles in four processes, `make wheel` in one for each processor.
JOBS = $(patsubst -j%,%,$(filter -j%,$(MAKEFLAGS)))
wheel: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m tools.build_cubins $(if $(JOBS),-j $(JOBS))
	$(BIN)/python -m tools.build_machine_code $(if $(JOBS),-j $(JOBS))
	rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist
	@for package in dist/*.whl dist/*.tar.gz; do \
	  scratch=$$(mktemp -d) && $(PYTHON) -m venv $$scratch/env && \
	  $$scratch/env/bin/python -m pip install --quiet --disable-pip-version-check $$package && \
	  (cd $$scratch && env/bin/papilio generate complete k --n-u 6 --n-v 6 && env/bin/papilio count butterfly k | grep -qx 225 && \
	   ls env/lib/python3*/site-packages/papilio/kernels/device/cubins/*.sm_90.cubin > env/cubins && \
	   (test "$$(uname -m)" != x86_64 || ls env/lib/python3*/site-packages/papilio/kernels/machine_code/count_total-*.x86-64-v3 > env/code) && \
	   du -sm env/lib/python3*/site-packages/papilio) && \
	  rm -rf $$scratch && echo "$$package counts" || exit 1; done

clean:
	rm -rf build dist $(VENV) $(OUTPUT) .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Papilio needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".$(if $(CUDA),[$(subst $(comma),,$(CUDA))])"
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test$(EXTRA)]"
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev$(EXTRA)]"
	@touch $@
