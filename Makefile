# `make` or `make help` lists what there is.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Tests wait for processes more than they compute; the longest files come first by their names.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')

# What every tenant's memory must do, wherever it lies.
ON_CLUSTER := tests/cluster tests/interfaces/http/test_api_tenants.py $(patsubst %,tests/memory/test_%.py, \
  consolidation_crash consolidation_states decay_sweep episode_cleanup feedback restore)

# The tests over a cluster run beside the others; their output comes at the end.
BESIDE = $(BIN)/python scripts/beside.py '$(MAKE) --no-print-directory cluster'

.DEFAULT_GOAL := help
.PHONY: help install run test cluster one coverage check hooks bench mutants docs browser

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 20

install: $(VENV)/.installed  ## set up .venv with the product; the command is .venv/bin/butlers

run: install  ## start every butler of the home (ARGS="--port 9000" is handed on)
	@$(BIN)/butlers up $(ARGS)

test: $(VENV)/.tested browser check  ## every check and every test (ARGS="-k name" is handed on)
	@$(if $(CITUS),$(BESIDE),) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)
	@$(if $(CITUS),,echo "Without CITUS=DIRECTORY no test ran over a cluster.")

cluster: $(VENV)/.tested  ## tests over a distributed database (CITUS=DIRECTORY that has Citus)
	@$(BIN)/python scripts/on_cluster.py '$(CITUS)' -n 0 $(ON_CLUSTER) $(ARGS)

one: $(VENV)/.tested  ## one test (T=tests/memory/test_recall.py, a node id, or a word of its name)
	@test -n '$(T)' || { echo "say which: make one T=tests/memory/test_recall.py" >&2; exit 2; }
	@$(BIN)/python -m pytest $(if $(findstring /,$(T)),,-k) '$(T)' $(ARGS)

coverage: override ARGS += --cov --cov-report=term
coverage: test  ## make test, and how much of the code it reached; fails under a floor

check: $(VENV)/.tested  ## formatting, lint, types, import floors
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

hooks: $(VENV)/.tested  ## run the checks of make check before each commit
	@$(INSTALL) --require-hashes --no-deps -r locks/more.txt
	@$(BIN)/pre-commit install

bench: $(VENV)/.tested  ## measure; see bench/README.md
	@$(BIN)/python -m bench $(ARGS)

mutants: $(VENV)/.tested  ## change the product on purpose and see that tests notice (ARGS="-k search")
	@$(BIN)/python tests/mutants/run.py $(ARGS)

docs: $(VENV)/.tested  ## write the pages of docs/ that are made from the code
	@PYTHONPATH=scripts $(BIN)/python -m references docs

browser:
	@scripts/install-chromium

# Every file comes with its hash, so that tomorrow's release of a dependency changes nothing, nor does another file
# under the same name. scripts/supply.py makes locks/ from constraints.txt.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

$(VENV)/.installed: pyproject.toml locks/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "butlers needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "python venv support is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing (once; a minute or two)"
	@$(INSTALL) --require-hashes --no-deps -r locks/run.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed locks/dev.txt
	@$(INSTALL) --require-hashes --no-deps -r locks/dev.txt
	@touch $@
