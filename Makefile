# Two commands do all the set-up: `make report` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: report test test-slow bench lint docs clean

report: $(VENV)/.installed
	$(BIN)/custodes report demo -o report.html

# Neighbours stay on one worker, so that most of what tests share is made once.
test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

# What takes long, then the property tests on examples that no run has seen.
test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n auto --dist worksteal -m 'hypothesis and not slow'

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py

# The reference pages of the docs are made from the code; a test fails when they are stale.
docs: $(VENV)/.installed-test
	$(BIN)/python docs/generate.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[learn]'
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group test
	touch $@

clean:
	rm -rf $(VENV) report.html
