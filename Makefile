# Every target sets up what it needs in .venv: Python 3.11 or later with pip, and make, are enough.
# Paths are relative, so the folder of the checkout may have any name.

PYTHON ?= python3
DEMO_ARGS ?=
DEV_ARGS ?=
ITEMS ?= 20000
FRAMES ?= 10000

N ?= 2000
SEED ?= 0
SEEDS ?= 1000
MINUTES ?= 5
CHAOS_ARGS ?=
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq

# A virtual environment holds absolute paths, so the stamp records where it was made; one that was moved is made anew.
MADE_AT := $(shell cat .venv/.ready 2>/dev/null)
ifneq ($(MADE_AT),$(CURDIR))
MOVED := moved
endif

.DEFAULT_GOAL := help
.PHONY: help demo test check map props sim sabotage chaos mutants bench fmt dev clean moved timers backlog pages cluster hosts

help:
	@echo 'make demo    a real job on worker processes; options: make demo DEMO_ARGS="--yes --kill-worker"'
	@echo 'make dev     a store, the API and two workers on this machine, until Ctrl-C'
	@echo 'make test    make check, then all tests, on the embedded server and on those that WF_TEST_*_URL name'
	@echo 'make check   lint, format, types, import rules'
	@echo 'make map     which rules of the core are shown by which tests, and whether any is not'
	@echo 'make props   random workflows over every engine: make props N=2000 SEED=0'
	@echo 'make mutants small changes to the core, one at a time, each of which a test has to notice'
	@echo 'make sim     random workflows under faults: make sim SEEDS=10000 SEED=0'
	@echo 'make sabotage  rules of the store switched off, one at a time, each of which make sim has to notice'
	@echo 'make chaos   real processes killed, stopped and cut off at random: make chaos MINUTES=5 CHAOS_ARGS="--seed 1"'
	@echo 'make cluster the store suite on clusters of one node and of three, the system suite on the three'
	@echo 'make hosts   workers on three hosts (network namespaces; needs root), one of which is cut off and healed'
	@echo 'make bench   the in-memory engine on 10,000 and 100,000 items'
	@echo 'make timers  thousands of retry delays: what a worker holds of them; options: make timers ITEMS=20000'
	@echo 'make backlog ready frames behind one slow worker, and the messages sent for them: make backlog MINUTES=10'
	@echo 'make pages   the page of a large run, opened by ten clients: make pages ITEMS=20000'
	@echo 'make fmt     format, and repair what the linter can'
	@echo 'make clean   remove .venv, caches, builds and the data of dev and demo'
	@echo 'The first one takes a minute: it installs into .venv. Another Python: make PYTHON=python3.12 ...'

.venv/.ready: pyproject.toml $(MOVED)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "wf needs Python 3.11 or later; '$(PYTHON)' is $$("$(PYTHON)" --version 2>/dev/null || echo not there)." >&2; \
		echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@if [ -s .venv/.ready ] && [ "$$(cat .venv/.ready)" != "$$(pwd -P)" ]; then rm -rf .venv; fi
	@echo 'installing into .venv ...'
	@# Debian ships venv without ensurepip: then the pip of the system fills the environment.
	@"$(PYTHON)" -m venv .venv >/dev/null 2>&1 || "$(PYTHON)" -m venv --without-pip .venv
	@$(PY) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m pip --quiet --python $(PY) install pip
	@$(PIP) install --editable '.[dev]'
	@pwd -P > .venv/.ready

demo: .venv/.ready
	@$(PY) -m wf_api.cli.main demo $(DEMO_ARGS)

dev: .venv/.ready
	@$(PY) -m wf_api.cli.main dev $(DEV_ARGS)

check: .venv/.ready
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m basedpyright
	@.venv/bin/lint-imports
	@echo 'check: lint, format, types and import rules hold'

props: .venv/.ready
	@$(PY) -m tests.props --count $(N) --seed $(SEED)

mutants: .venv/.ready
	@$(PY) -m tests.mutants

sim: .venv/.ready
	@$(PY) -m tests.sim --seeds $(SEEDS) --first $(SEED)

sabotage: .venv/.ready
	@$(PY) -m tests.sabotage

chaos: .venv/.ready
	@$(PY) -m tests.chaos --minutes $(MINUTES) $(CHAOS_ARGS)

cluster: .venv/.ready
	@$(PY) -m tests.cluster

hosts: .venv/.ready
	@$(PY) -m tests.hosts

bench: .venv/.ready
	@$(PY) -m bench.core

timers: .venv/.ready
	@$(PY) -m bench.timers --items $(ITEMS)

pages: .venv/.ready
	@$(PY) -m bench.pages --items $(ITEMS)

backlog: MINUTES = 10
backlog: .venv/.ready
	@$(PY) -m bench.backlog --frames $(FRAMES) --minutes $(MINUTES)

# Reads documents and tests only, and needs no package: no environment is made for it.
map:
	@"$(PYTHON)" tests/conformance_map.py

test: check
	@$(PY) -m pytest -q -n 2 --dist loadfile
	@echo 'test: every check and every test passed'

fmt: .venv/.ready
	@$(PY) -m ruff check --fix --quiet . || true
	@$(PY) -m ruff format --quiet .

clean:
	@rm -rf .venv .wf mutants build dist ./*.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
