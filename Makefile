# Two commands do all the set-up: `make report` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-bounds
TESTS := tests

.PHONY: report test test-slow test-bounds bench lint docs clean

report: $(VENV)/.installed
	$(BIN)/custodes report demo -o report.html

# Neighbours stay on one worker, so that most of what tests share is made once.
test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

# What takes long, then the property tests on examples that no run has seen.
test-slow: $(VENV)/.installed-docs
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n auto --dist worksteal -m 'hypothesis and not slow'

# The tests on the oldest versions that pyproject.toml allows, but for oracles and tools, which are the newest. NUTS is left
# out, whose own bounds are above these. Warnings of old packages are no errors.
test-bounds: $(VENV)/.installed-docs
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip compile --quiet --python $(LOWEST) --resolution lowest-direct --extra learn --extra duckdb pyproject.toml -o $(LOWEST)/lowest.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST) --constraint $(LOWEST)/lowest.txt --group test '.[learn,duckdb]'
	$(LOWEST)/bin/python -m pytest -n auto --dist worksteal -W default $(TESTS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py

# The reference pages are made from the code (a test fails when they are stale), then the site: docs/_build/html.
docs: $(VENV)/.installed-docs
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/site.py

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

$(VENV)/.installed-docs: $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --group docs --group package
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) docs/_build report.html
