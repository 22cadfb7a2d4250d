# Every target sets up what it needs; `make help` lists them.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
TOOLS ?= .venv.tools
RUN := $(VENV)/bin
PIP_INSTALL = -m pip install -q --disable-pip-version-check -c constraints.txt
# What runs in child processes (most of watchdog/sqlite) is not counted.
COVERAGE_FLOOR = 80

.DEFAULT_GOAL := help
.PHONY: help setup demo test thorough fuzz coverage format lint types imports schema schema-check docs serve wheel build ci release hashes arm64 pins audit \
	bench bench-databases lab lab-all lab-again picture check clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'
	@echo
	@echo "  one test:  $(RUN)/python -m pytest tests/config/test_rules.py -k unknown-key"

# -- set up ------------------------------------------------------------------------------------------------------------------

setup: $(VENV)/.ready  ## a virtual environment in .venv with the package (editable) and the tools for tests

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or newer; name it with make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python $(PIP_INSTALL) -e '.[dev]'
	@touch $@

# MkDocs needs a package called `watchdog`, as ours is, so these tools live apart.
$(TOOLS)/.ready: requirements/tools.txt constraints.txt
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or newer; name it with make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python $(PIP_INSTALL) -r requirements/tools.txt
	@touch $@

# -- try it and test it ------------------------------------------------------------------------------------------------------

demo: $(VENV)/.ready  ## a broken Hermes home in a temporary folder: found, asked about, healed
	$(RUN)/hermes-watchdog demo

# Hundreds of tests start a child: without compiled modules each reads the package anew.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.ready  ## the whole suite, under three minutes on two cores
	$(RUN)/python -m pytest -n 2 --dist worksteal $(PYTEST)

thorough: export HERMES_WATCHDOG_EFFORT = 10
thorough: test  ## the suite with ten times as many rounds of random input, about twenty minutes

# atheris is built for some versions of Python only, and nothing else needs it.
FUZZ_SECONDS ?= 60
TARGETS ?= records rules settings sqlite salvage text replies crontab files notes engines journald

.venv.fuzz/.ready: constraints.txt
	$(PYTHON) -m venv .venv.fuzz
	.venv.fuzz/bin/python $(PIP_INSTALL) atheris pyyaml regex
	@touch $@

fuzz: .venv.fuzz/.ready  ## made-up bytes for everything that reads bytes of others, FUZZ_SECONDS for each of TARGETS
	@for target in $(TARGETS); do mkdir -p build/fuzz/$$target && echo "== $$target" && \
	  PYTHONPATH=. .venv.fuzz/bin/python tests/fuzz/fuzz.py $$target build/fuzz/$$target -max_total_time=$(FUZZ_SECONDS) \
	    -timeout=90 -rss_limit_mb=2048 -max_len=16384 -verbosity=0 -artifact_prefix=build/fuzz/found-$$target- || exit 1; done

coverage: PYTEST = --cov=watchdog --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE_FLOOR)
coverage: test  ## the suite with a coverage figure; fails below COVERAGE_FLOOR per cent

check: lint types imports schema-check  ## everything quick that CI checks: lint, format, types, imports, schema

# -- code --------------------------------------------------------------------------------------------------------------------

format: $(VENV)/.ready  ## ruff format, and the fixes ruff can make
	$(RUN)/ruff check --fix-only -q .
	$(RUN)/ruff format .

lint: $(VENV)/.ready  ## ruff, and that everything is formatted
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: $(VENV)/.ready  ## mypy
	$(RUN)/mypy

imports: $(VENV)/.ready  ## the import contract: which package may know which (pyproject.toml)
	$(RUN)/lint-imports

schema: $(VENV)/.ready  ## write rules/rule.schema.json from what the rule reader accepts
	$(RUN)/python scripts/make_schema.py

schema-check: $(VENV)/.ready
	$(RUN)/python scripts/make_schema.py --check

# -- documents ---------------------------------------------------------------------------------------------------------------

docs: $(TOOLS)/.ready  ## the site, in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(TOOLS)/bin/mkdocs build --strict

serve: $(TOOLS)/.ready  ## the site on http://127.0.0.1:8000, rebuilt as you write
	$(TOOLS)/bin/mkdocs serve

picture: $(VENV)/.ready  ## record docs/demo.svg anew
	$(RUN)/python scripts/record-demo.py

# -- release -----------------------------------------------------------------------------------------------------------------

release: $(TOOLS)/.ready  ## wheel, sdist, bill of materials and checksums in dist/, built twice and compared
	$(TOOLS)/bin/python scripts/release.py dist

wheel build: release

ci: ## everything that must hold before a change lands, as .ci/run does it; under 20 minutes
	.ci/run

hashes: $(TOOLS)/.ready  ## requirements/install.txt: what the package needs, with hashes, from constraints.txt
	$(TOOLS)/bin/python scripts/lock.py hashes

# For the Python of contrib/docker and that of Debian 12; such a machine is not here, so nothing is run.
arm64: $(VENV)/.ready  ## that everything the image installs is there as a wheel for arm64, by its hash
	@for python in 3.11 3.12; do $(RUN)/python -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
	  --require-hashes -r requirements/install.txt --python-version $$python --platform manylinux2014_aarch64 -d build/arm64/$$python \
	  && echo "$$(ls build/arm64/$$python | wc -l) wheels for Python $$python on arm64" || exit 1; done

pins: $(VENV)/.ready $(TOOLS)/.ready  ## constraints.txt: the versions that are installed now
	$(TOOLS)/bin/python scripts/lock.py pins $(VENV) $(TOOLS)

audit: $(TOOLS)/.ready  ## known vulnerabilities of what the package needs
	$(TOOLS)/bin/python scripts/audit.py

# -- measure -----------------------------------------------------------------------------------------------------------------

bench: $(VENV)/.ready  ## cost of a check and speed of a replay, beside other tools; writes docs/performance.md
	$(RUN)/python bench/run.py

bench-databases: $(VENV)/.ready  ## rows saved per kind of damage, beside other tools; then thousands of generated faults
	$(RUN)/python bench/databases.py
	$(RUN)/python bench/databases.py --rounds 3000
	$(RUN)/python bench/databases.py --rounds 3000 --harder
	$(RUN)/python bench/databases.py --rounds 3000 --rare

# The wheel of this checkout is what the lab runs, unless LAB_WATCHDOG names another hermes-watchdog.
LAB = export LAB_WATCHDOG="$${LAB_WATCHDOG:-$$($(RUN)/python tests/lab/parts.py watchdog)}" && $(RUN)/python -m pytest tests/lab -rfEs --tb=short --durations=5
LAB_TOGETHER = -n 6 --dist load --maxschedchunk 1

lab: $(VENV)/.ready  ## real Hermes, real systemd, real chat server (root; installs what it needs)
	$(LAB) -m 'lab and not thorough' $(LAB_TOGETHER)

lab-all: $(VENV)/.ready  ## the same with every scenario on every version
	$(LAB) -m lab $(LAB_TOGETHER)

lab-again: $(VENV)/.ready
	$(LAB) -m lab --lf --lfnf=none

clean:  ## remove everything that make made
	rm -rf $(VENV) $(TOOLS) .venv.fuzz build dist *.egg-info .coverage .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
