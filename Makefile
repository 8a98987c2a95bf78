# Everything a clean clone needs: Python 3.11+ and make. `make` alone lists the targets.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
FULL := .venv/.full

.DEFAULT_GOAL := help
.PHONY: help setup environments demo test check bench soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv and install everything into it

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; try: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,relay,web]"
	@touch $@

# What only tests, checks and benchmarks compare with is large: nobody else waits for it.
$(FULL): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,all,compared]"
	@touch $@

environments: $(FULL) ## make the environments of frameworks that can't share .venv (tests do too)
	$(BIN)/python -m tests.framework_environments

demo: $(READY) ## run the offline demonstration; its workspace stays in .demo
	@rm -rf .demo
	$(BIN)/passdown demo --keep .demo

# Three for two cores: tests wait a good deal for processes and connections.
test: $(FULL) ## run the test suite
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not soak" $(ARGS)

check: $(FULL) ## lint, formatting, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright
	$(BIN)/lint-imports --no-cache

bench: $(FULL) ## measure (QUICK=1 for a short run)
	$(BIN)/python -m bench $(if $(filter-out 0,$(QUICK)),--quick)

soak: $(FULL) ## run the long tests
	$(BIN)/python -m pytest -m soak --timeout 3600 $(ARGS)
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -m "hypothesis and not soak" --timeout 3600 $(ARGS)

clean: ## remove .venv and everything that was built
	rm -rf .venv .demo build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache
	find src tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
