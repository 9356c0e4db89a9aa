# Two commands do everything on a fresh machine:
#   make explore KERNEL=kernels/library/matmul.yaml
#   make test
VENV := .venv
BIN := $(VENV)/bin
# The first Python that is new enough.
IS_RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(IS_RECENT)' 2>/dev/null && echo $$python && break; done)
# The C backend takes $CC, cc, gcc or clang; where there is none, the compiler of the ziglang package.
HAVE_CC := $(firstword $(foreach compiler,$(firstword $(CC)) cc gcc clang,$(shell command -v $(compiler) 2>/dev/null)))
comma := ,
ZIG := $(if $(HAVE_CC),,zig)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What `benchmarks/cpu` and `benchmarks/pipelines` compare with lives in an environment of its own: neither product nor tests need it.
PEERS := .venv-peers

KERNEL ?= kernels/library/matmul.yaml
ARGS ?=

.PHONY: setup explore test soak soak-kernels soak-cuda soak-pipelines soak-generated random-batch soak-halide mutants fuzz peers check format clean

setup: $(VENV)/.installed

# An interrupted or failed set-up leaves nothing that looks finished.
$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "spacedsl needs Python 3.11 or later; say which with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c '$(IS_RECENT)' || { echo "$(PYTHON) is older than Python 3.11" >&2; exit 1; }
	@echo "setting up $(VENV) (once)" >&2
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment: install its venv module" >&2; exit 1; }

# Where the compiler that was there at the first set-up is gone, ziglang is still to be installed.
ifneq ($(ZIG),)
ifeq ($(wildcard $(VENV)/lib/python3*/site-packages/ziglang),)
.PHONY: $(VENV)/.installed $(VENV)/.installed-dev
endif
endif

$(VENV)/.installed: pyproject.toml | $(BIN)/pip
	@$(PIP_INSTALL) --editable '.$(if $(ZIG),[$(ZIG)])'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/pip
	@$(PIP_INSTALL) --editable '.[dev$(if $(ZIG),$(comma)$(ZIG))]'
	@touch $@ $(VENV)/.installed

explore: $(VENV)/.installed
	@$(BIN)/spacedsl explore $(KERNEL) $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

# Random spaces against the independent oracles, for SOAK_MINUTES (5 unless said otherwise).
soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.engine.soak

# Random kernel files against NumPy, each by a random implementation of it, for as long; ARGS="SEED --target cuda" for
# twins of code for GPUs.
soak-kernels: $(VENV)/.installed-dev
	$(BIN)/python -m tests.codegen.soak $(ARGS)

# Random implementations for GPUs of the whole library: compiled, and on their corners against NumPy, watched for
# races, some of them under sanitizers, for as long, or ARGS="--kernels A,B --count 300 --seconds 600"; what passed
# before is not tried again. ARGS="--replay KERNEL:SEED" for a batch that failed.
soak-cuda: $(VENV)/.installed-dev
	$(BIN)/python -m tests.codegen.cuda.soak $(ARGS)

# Random schedules of the applications, built and against their references at small sizes, for as long, or
# ARGS="--kernels A,B --count 200 --seconds 600 --target cuda"; what passed before is not tried again.
soak-pipelines: $(VENV)/.installed-dev
	$(BIN)/python -m tests.codegen.pipeline.soak $(ARGS)

# New random pipelines, random schedules of each on both targets, for SOAK_MINUTES; ARGS=SEED.
soak-generated: $(VENV)/.installed-dev
	$(BIN)/python -m tests.codegen.pipeline.soak_generated $(ARGS)

# Random implementations of all kernels and applications, as a batch that a machine with a GPU runs: what twins cannot
# show is seen there. `make random-batch ARGS="-o there --count 10"`
random-batch: $(VENV)/.installed-dev
	$(BIN)/python -m tests.codegen.cuda.random_batch $(ARGS)

# Random schedules of the library's pipelines, run by Halide. `make soak-halide ARGS="--names blur --count 20"`
soak-halide: $(VENV)/.installed-dev
	$(BIN)/python -m tests.codegen.halide.soak $(ARGS)

# Small mistakes in the engine and in the translation to CP-SAT, one at a time, which random spaces have to find;
# ARGS="SECONDS WORD".
mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tests.engine.mutants $(ARGS)

# Files that nobody would write, through the code of `spacedsl check`; ARGS="FILES SEED".
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.language.fuzz $(ARGS)

# ARGS go to pip: torch without the parts for GPUs is at --extra-index-url https://download.pytorch.org/whl/cpu
peers: $(PEERS)/.installed

$(PEERS)/.installed: benchmarks/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< $(ARGS)
	@touch $@

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
