# Everything here needs only python3 (3.11 or newer): each target makes the virtual environment .venv by itself.
#   make PYTHON=python3.12 test      another Python
#   make test SEED=42 ARGS='-k vote' a chosen Hypothesis seed, more arguments for pytest
#   make stress SIZE=0.1             a tenth of the rounds

PYTHON ?= python3
ifndef SEED
SEED   := $(shell date +%s)
endif
ARGS   ?=
WORKERS ?= 5
AUTO   ?=
ALL    ?=
BIN    := .venv/bin
# These start an embedded server, which is an 18.
OF_18  := $(addprefix tests/integration/test_,demo.py embedded_server.py)

# Packages are compiled when they are imported first. Where that may not be kept, every process would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

# The banner of Material for MkDocs about its successor is no concern of a build.
MKDOCS  = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
PYTEST  = echo 'hypothesis seed $(SEED)'; $(BIN)/python -m pytest --hypothesis-seed=$(SEED)

.DEFAULT_GOAL := help
.PHONY: help demo test test-database coverage check docs e2e pictures stress bench constraints clean venv venv-dev venv-e2e venv-bench

help:
	@echo 'make demo           the main job in a local sandbox; AUTO=1 plays it through by itself'
	@echo 'make test           all tests but the slow ones below'
	@echo 'make test-database  tests of the database, on the PostgreSQL whose programs are in POSTGRES=…'
	@echo 'make coverage       all tests, and which branches none of them takes'
	@echo 'make check          ruff, mypy, import contracts, declared dependencies, links of the documentation'
	@echo 'make docs           the documentation as a site, in site/'
	@echo 'make e2e            the sandbox page in a real browser'
	@echo 'make pictures       the pictures of the documentation, taken from the running demo'
	@echo 'make stress         the promises at their full size'
	@echo 'make bench          speed, against peers; ALL=1 measures and publishes every page of docs/benchmarks'
	@echo 'make constraints    resolve every dependency anew and pin it'
	@echo 'make clean          remove .venv and caches; the data in .signoff stays'

demo: venv
	@$(BIN)/signoff demo $(if $(filter-out 0 no,$(AUTO)),--auto) $(ARGS)

# Most tests wait for a database or a socket most of their time, so more workers than cores are no waste.
test: venv-dev
	@$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS)

test-database: venv-dev
	@PYTEST_POSTGRES=$(or $(POSTGRES),$(error name the folder of initdb and postgres: POSTGRES=…)) \
		$(PYTEST) -n $(WORKERS) --dist worksteal $(filter-out $(OF_18),$(wildcard tests/integration/test_*.py)) $(ARGS)

coverage: venv-dev
	@$(PYTEST) -n $(WORKERS) --dist worksteal --cov --cov-report=term --cov-report=html:.coverage-html $(ARGS)

check: venv-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/deptry .
	@$(BIN)/deptry tests benchmarks --exclude '\.venv' --ignore DEP002,DEP004
	@$(BIN)/deptry signoff --config packages/signoff-client/pyproject.toml
	@$(BIN)/deptry packages/signoff-demo/signoff_demo --config packages/signoff-demo/pyproject.toml
	@$(MKDOCS) --quiet

docs: venv-dev
	@$(MKDOCS) && echo 'open site/index.html'

e2e: venv-e2e
	@$(PYTHON) bootstrap.py --browser
	@$(PYTEST) -m e2e $(ARGS)

pictures: venv-e2e
	@$(PYTHON) bootstrap.py --browser
	@$(BIN)/python -m tests.e2e.pictures docs/images

stress: venv-dev
	@$(PYTEST) -m stress -q -p tests.stress.progress $(ARGS)

bench: venv-bench
	@$(BIN)/python -m benchmarks$(if $(filter-out 0 no,$(ALL)),.everything) $(ARGS)

constraints:
	@$(PYTHON) bootstrap.py --pin --upgrade

clean:
	@test ! -L .venv || rm -rf "$$(readlink .venv)"
	@rm -rf .venv .venv.lock build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# One line of make per set of extras; bootstrap.py ends at once when nothing changed, and excludes itself from
# running twice at a time.
MAKE_VENV = @command -v $(PYTHON) >/dev/null || { echo 'signoff: no $(PYTHON) on this machine; install Python 3.11 or newer' >&2; exit 2; }; \
	$(PYTHON) bootstrap.py

venv:
	$(MAKE_VENV)
venv-dev:
	$(MAKE_VENV) dev
venv-e2e:
	$(MAKE_VENV) dev e2e
venv-bench:
	$(MAKE_VENV) dev bench
