PYTHON ?= python3
BIN := .venv/bin
# tests that stand together run together, and what they share is made once
WORKERS := -n 2 --dist worksteal
WHEEL := .venv-wheel/bin/python
# uv, where there is one, makes an environment in seconds, and pip in a minute; `make UV= ...` takes pip
UV ?= $(shell command -v uv)
ifneq ($(UV),)
venv = $(UV) venv --quiet --clear --python $(PYTHON) $(1)
install = $(UV) pip install --quiet --python $(1)/bin/python
wheel = $(UV) build --quiet --wheel --python $(1)/bin/python --out-dir dist
else
venv = $(PYTHON) -m venv --clear $(1)
install = $(1)/bin/python -m pip install --quiet
wheel = $(1)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
endif

.PHONY: demo test everything nightly lint installed smoke covered lowest clean

demo: .venv/installed  ## reproduce the paper: every figure, table and claim
	$(BIN)/heterobandits reproduce --output demo
	@echo "Open demo/report.html."

test: .venv/installed-test  ## the tests that take moments, of every kind
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not nightly"

everything: .venv/installed-test  ## all tests that the gate runs
	$(BIN)/python -m pytest $(WORKERS) -m "not nightly"

nightly: .venv/installed-test  ## what takes too long for the gate; what came of it stands in benchmarks/nightly.md
	$(BIN)/python benchmarks/nightly.py $(WORKERS)

installed:
	rm -rf dist
	$(call venv,.venv-wheel)
	$(call wheel,.venv-wheel)
	$(call install,.venv-wheel) "$$(ls dist/*.whl)[test]"

covered: installed  ## the gate's tests of the built wheel on $(PYTHON); enough of the lines outside the compiled core are run
	COVERAGE_CORE=sysmon $(WHEEL) -m pytest $(WORKERS) -q -m "not nightly" --cov=heterobandits --cov-report= tests --pyargs heterobandits
	$(WHEEL) -m coverage report --include='*/site-packages/*' --omit='*/core/*' --fail-under=98

smoke: installed  ## a user's first steps with the built wheel on $(PYTHON)
	$(WHEEL) -m pytest $(WORKERS) -q -m "smoke and not slow and not nightly" tests

lint: .venv/installed-test  ## lint, format, types and the import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lowest: .venv-lowest/installed  ## a user's first steps on the oldest dependencies allowed
	.venv-lowest/bin/python -m pytest $(WORKERS) -q -m "smoke and not slow and not nightly" tests

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(call venv,.venv)
	$(call install,.venv) --editable .
	touch $@

.venv/installed-test: .venv/installed
	$(call install,.venv) --editable '.[test,lint]'
	touch $@

.venv-lowest/installed: pyproject.toml tests/lowest.py
	test -x .venv-lowest/bin/python || $(call venv,.venv-lowest)
	$(PYTHON) tests/lowest.py > .venv-lowest/constraints.txt
	$(call install,.venv-lowest) --constraint .venv-lowest/constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv .venv-lowest .venv-uv .venv-wheel dist demo .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
