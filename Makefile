PYTHON ?= python3
BIN := .venv/bin
DEMO := $(BIN)/heterobandits simulate --trials 5000 --seed 7

.PHONY: demo test lint lowest clean

demo: .venv/installed  ## compare the paper's five policies on its COVID domain
	@$(DEMO) --problem covid --policy all --output demo
	@echo "The paper's robustness table (t = 300): Min-Width 10.8 / 11.0 / 11.7,"
	@echo "Min-UCB 14.0 / 15.2 / 18.0, No-Sharing 17.5 / 17.6 / 17.5 for sensitivities over- / underestimated / mixed."
	@for case in over under mix; do \
		$(DEMO) --problem covid-$$case --policy min-width --policy min-ucb --policy no-sharing || exit; \
	done
	@echo "The regret curves are in demo/regret.png, the numbers in demo/results.csv."

test: .venv/installed-test  ## run all tests
	$(BIN)/python -m pytest

lint: .venv/installed-test  ## lint, format, types and the import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lowest: .venv-lowest/installed  ## the tests of a user's first steps, on the oldest dependencies allowed
	.venv-lowest/bin/python -m pytest -q tests/test_cli.py tests/test_planner.py tests/test_results.py

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
	rm -rf .venv .venv-lowest demo .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
