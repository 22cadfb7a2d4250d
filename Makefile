# make demo · make test: both set everything up by themselves.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
RUN := $(VENV)/bin

.PHONY: help demo test lint types lab lab-all lab-again bench clean

help:
	@echo "make demo   a broken Hermes home, found, asked about and healed, in a temporary folder"
	@echo "make test   the whole suite"
	@echo "make lint   ruff;  make types   mypy"
	@echo "make lab    real Hermes, real systemd, real chat server (root; installs what it needs)"
	@echo "make bench  cost of a check and speed of a replay, beside other tools"

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or newer"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.ready
	$(RUN)/hermes-watchdog demo

test: $(VENV)/.ready
	$(RUN)/python -m pytest -n 2

lint: $(VENV)/.ready
	$(RUN)/ruff check .

types: $(VENV)/.ready
	$(RUN)/mypy

# The wheel of this checkout is what the lab runs, unless LAB_WATCHDOG names another hermes-watchdog.
LAB = export LAB_WATCHDOG="$${LAB_WATCHDOG:-$$($(RUN)/python tests/lab/parts.py watchdog)}" && $(RUN)/python -m pytest tests/lab -rs
LAB_TOGETHER = -n 6 --dist load --maxschedchunk 1

lab: $(VENV)/.ready
	$(LAB) -m 'lab and not thorough' $(LAB_TOGETHER)

lab-all: $(VENV)/.ready
	$(LAB) -m lab $(LAB_TOGETHER)

lab-again: $(VENV)/.ready
	$(LAB) -m lab --lf --lfnf=none

bench: $(VENV)/.ready
	$(RUN)/python bench/run.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
