# `make demo` and `make test` do all the set-up on a machine with Python 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

# Tests on real data need the benchmark files; they skip with a reason without them.
ifneq ($(wildcard ../shared/data),)
export BAGWISE_DATA ?= $(abspath ../shared/data)
endif
# Parallelism is by process: one thread each.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: help setup demo test test-lowest test-portable lint types unit format bench clean \
	docs docs-quick docs-test dist test-pythons test-studies \
	test-hostile reproduce

help:
	@echo "make demo    compare methods on digit bags and write a report"
	@echo "make test    linter, types, and the test suite"
	@echo "make test-portable  the suite as other processors would compute it (slow)"
	@echo "make test-lowest    the suite against the lowest versions of what it needs (slow)"
	@echo "make test-pythons   the wheel and a part of the suite under Python 3.11 to 3.13"
	@echo "make test-hostile   2,000 damaged data files and model files (10 minutes)"
	@echo "make docs    the site, in build/docs/html"
	@echo "make docs-test      the site, and its tests"
	@echo "make dist    sdist and wheel, tried in an empty environment"
	@echo "make bench   the benchmarks (slow; OPTIONS=--quick runs each of them once)"
	@echo "make reproduce TABLE=safe-table3  re-run a published table (slow); TABLE= lists them"
	@echo "make test-studies   the tests of the studies"
	@echo "make format  format the code"

$(VENV)/.done: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@# This version has a small wheel without CUDA where a plain one pulls gigabytes.
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@# Loops are compiled once, here, and not while the first tests run.
	$(BIN)/python -m bagwise.compile --quiet
	@touch $@

setup: $(VENV)/.done

demo: setup
	$(BIN)/bagwise demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/docstrings
	$(BIN)/python .ci/wording
	git ls-files -z '*.py' '*.md' '*.rst' '*.html' '*.js' '*.toml' | \
		xargs -0 $(BIN)/codespell

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

test: lint types unit

# The suite under other instruction sets and with threads: no answer hangs on rounding.
test-portable: setup
	PYTHON_BIN=$(BIN)/python JOBS=$(JOBS) .ci/portable

# The suite against the lowest versions that pyproject.toml promises, in an
# environment of its own.
LOWEST := .venv-lowest
$(LOWEST)/.done: .ci/lowest.txt pyproject.toml
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade pip
	$(LOWEST)/bin/python -m pip install --quiet --constraint .ci/lowest.txt "torch==2.13.0"
	$(LOWEST)/bin/python -m pip install --quiet --constraint .ci/lowest.txt --editable ".[dev]"
	@touch $@

# Compiled loops apart: one version of the compiler throws away what another kept.
test-lowest: $(LOWEST)/.done
	NUMBA_CACHE_DIR=$(abspath $(LOWEST))/loops \
		$(LOWEST)/bin/python -m pytest -q -r fE -n $(JOBS) --dist worksteal

# The site: warnings are errors. `docs-quick` runs no example.
SITE := build/docs/html
SPHINX = $(BIN)/python -m sphinx -b html -W --keep-going -d build/docs/doctrees
$(VENV)/.docs: $(VENV)/.done
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

docs: $(VENV)/.docs
	$(SPHINX) docs $(SITE)
	@echo "the site: $(SITE)/index.html"

docs-quick: $(VENV)/.docs
	$(SPHINX) -D plot_gallery=0 docs $(SITE)

docs-test: docs
	BAGWISE_SITE=$(abspath $(SITE)) $(BIN)/python -m pytest -q tests/docs

# The archive and the wheel, installed into an empty environment and used from an empty
# folder.
dist: setup
	$(BIN)/python -m pip install --quiet build
	PYTHONS="$(PYTHON)" BUILD=$(BIN)/python .ci/dist

# The same under every Python that is promised, those that are here, with a part of the suite:
# bags, tables, model files and the checks that every estimator must pass.
PYTHONS ?= python3.11 python3.12 python3.13
test-pythons: setup
	$(BIN)/python -m pip install --quiet build
	PYTHONS="$(PYTHONS)" BUILD=$(BIN)/python \
		TESTS="tests/bags tests/io tests/base tests/test_common.py" .ci/dist

# Damaged files in processes of their own; SEED= chooses other changes.
SEED ?= 0
test-hostile: setup
	BAGWISE_HOSTILE_SEED=$(SEED) $(BIN)/python -m pytest -q -rAs -n $(JOBS) tests/hostile

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# OPTIONS go to asv: --quick runs every benchmark once, --bench NAME chooses some.
bench: setup
	$(BIN)/asv machine --yes
	$(BIN)/asv run --python=same $(OPTIONS)

# A published table next to what is measured; OPTIONS go to the command.
reproduce: setup
	$(BIN)/python -m studies reproduce $(TABLE) --jobs $(JOBS) $(OPTIONS)

test-studies: setup
	$(BIN)/python -m pytest -q studies

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
