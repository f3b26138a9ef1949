# `make` or `make help` lists the commands.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Tests wait for processes more than they compute; the longest files come first by their names.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 + (os.cpu_count() or 1))')

# Tests that must also pass on a Citus cluster.
ON_CLUSTER := tests/cluster tests/interfaces/http/test_api_tenants.py $(patsubst %,tests/memory/test_%.py, \
  consolidation_crash consolidation_states decay_sweep episode_cleanup feedback restore)

# The tests over a cluster run beside the others; their output comes at the end.
BESIDE = $(BIN)/python scripts/beside.py '$(MAKE) --no-print-directory cluster'

.DEFAULT_GOAL := help
.PHONY: help install run test cluster one coverage check hooks bench chaos mutants docs site browser

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 20

install: $(VENV)/.installed  ## create .venv with the product; the command is .venv/bin/butlers

run: install  ## install and start the daemon (options: ARGS="--port 9000")
	@$(BIN)/butlers up $(ARGS)

test cluster one: export TMPDIR := $(shell $(PYTHON) scripts/scratch.py)
# Hundreds of processes are started; each would compile every module it imports.
test cluster one: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.tested browser check  ## run every check and every test (options: ARGS="-k name")
	@$(if $(CITUS),$(BESIDE),) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)
	@$(if $(CITUS),,echo "No test ran on a Citus cluster: set CITUS=DIRECTORY to run them.")

cluster: $(VENV)/.tested  ## run the tests of tenants on a Citus cluster (CITUS=DIRECTORY)
	@$(BIN)/python scripts/on_cluster.py '$(CITUS)' -n 0 $(ON_CLUSTER) $(ARGS)

one: $(VENV)/.tested  ## run one test (T=tests/memory/test_recall.py, a node id, or a word of its name)
	@test -n '$(T)' || { echo "choose a test: make one T=tests/memory/test_recall.py" >&2; exit 2; }
	@$(BIN)/python -m pytest $(if $(findstring /,$(T)),,-k) '$(T)' $(ARGS)

coverage: override ARGS += --cov --cov-report=term
coverage: test  ## make test with coverage; fails below the floor

check: $(VENV)/.tested  ## check formatting, lint, types, import layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

hooks: $(VENV)/.tested  ## run make check before each commit
	@$(INSTALL) --require-hashes --no-deps -r locks/more.txt
	@$(BIN)/pre-commit install

bench: $(VENV)/.tested  ## run the benchmarks; see bench/README.md
	@$(BIN)/python -m bench $(ARGS)

chaos: $(VENV)/.tested  ## kill daemons, commands, servers and power, N times (N=30 SEED=1)
	@PYTHONPATH=tests $(BIN)/python -m chaos.rounds $(or $(N),30) $(or $(SEED),1) $(FIGURES)

mutants: $(VENV)/.tested  ## break the code on purpose and list what no test notices (ARGS="-k search")
	@$(BIN)/python tests/mutants/run.py $(ARGS)

docs: $(VENV)/.tested  ## write the generated pages of docs/
	@PYTHONPATH=scripts $(BIN)/python -m references docs

site: $(VENV)/.tested  ## build the documentation as a site (build/site)
	@$(BIN)/python scripts/docs_site.py

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
