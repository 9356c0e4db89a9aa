# Two commands do everything on a fresh machine:
#   make explore KERNEL=kernels/library/matmul.yaml
#   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The C backend takes $CC, cc, gcc or clang; where there is none, the compiler of the ziglang package.
HAVE_CC := $(firstword $(foreach c,$(CC) cc gcc clang,$(shell command -v $(c) 2>/dev/null)))
EXTRAS := $(if $(HAVE_CC),,zig)
comma := ,

.PHONY: setup explore test check format clean
setup: $(VENV)/.installed

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev$(if $(EXTRAS),$(comma)$(EXTRAS))]'
	touch $@ $(VENV)/.installed

KERNEL ?= kernels/library/matmul.yaml
ARGS ?=
explore: $(VENV)/.installed
	$(BIN)/spacedsl explore $(KERNEL) $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
