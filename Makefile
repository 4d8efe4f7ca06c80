PYTHON ?= python3
BIN := .venv/bin
# tests that stand together run together, and what they share is made once
WORKERS := -n 2 --dist worksteal
# what takes minutes and asks servers, browsers and whole reproductions
LONG := $(addprefix --ignore=tests/,test_holding.py test_api_fuzz.py test_api_roles.py test_serve.py test_client.py \
	test_browser.py test_site.py test_site_ahead.py test_site_making.py test_site_managing.py test_site_proving.py \
	test_cluster.py test_kernel_cache.py test_report.py test_reproduce_cli.py test_sweep_report.py)
# a user's first steps: what the gate has on the oldest dependencies, and on every Python but the oldest, which has all
FIRST := $(addprefix tests/,test_cli.py test_planner.py test_planning.py test_history.py test_team_changes.py test_circumstances.py \
	test_explaining.py test_saving.py test_results.py test_files.py test_plots.py test_store.py test_sweeps.py \
	test_campaign_service.py test_campaign_store.py test_databases.py test_site_rounds.py)

.PHONY: demo test everything lint installed covered interpreted lowest clean

demo: .venv/installed  ## reproduce the paper: every figure, table and claim, in 85 seconds
	$(BIN)/heterobandits reproduce --output demo
	@echo "Open demo/report.html."

test: .venv/installed-test  ## run the tests, but for the longest
	$(BIN)/python -m pytest $(WORKERS) $(LONG)

everything: .venv/installed-test  ## run all tests
	$(BIN)/python -m pytest $(WORKERS)

installed:  ## the tests of the built wheel, on $(PYTHON)
	rm -rf dist
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	.venv-wheel/bin/python -m pip install --quiet "$$(ls dist/*.whl)[test]"
	.venv-wheel/bin/python -m pytest $(WORKERS) -q $(MEASURED) $(if $(LESS),$(FIRST),tests --pyargs heterobandits)

covered: MEASURED = --cov=heterobandits --cov-report=
covered: installed  ## the same, and enough of the lines outside the compiled core are run
	.venv-wheel/bin/python -m coverage report --include='*/site-packages/*' --omit='*/core/*' --fail-under=98

interpreted: .venv/installed-test  ## the core without the compiler
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(WORKERS) -q --cov=heterobandits.core --cov-report=term \
		tests/test_assignment.py tests/test_randomness.py tests/test_team.py tests/test_indices.py

lint: .venv/installed-test  ## lint, format, types and the import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lowest: .venv-lowest/installed  ## the tests of a user's first steps, on the oldest dependencies allowed
	.venv-lowest/bin/python -m pytest $(WORKERS) -q $(FIRST) tests/test_sweep_report.py tests/test_cluster.py tests/test_client.py

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	touch $@

.venv-lowest/installed: pyproject.toml tests/lowest.py
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	$(PYTHON) tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv .venv-lowest .venv-wheel dist demo .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
