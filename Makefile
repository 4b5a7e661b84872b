# `make` lists the targets. A target that needs the environment makes it first, once: .venv, with the versions of requirements/ci.txt.
#
#   PYTHON   the Python to make it from (3.10 or newer)
#   VENV     where it lies; empty: none is made, and $(PYTHON) has to hold what is needed
#   JOBS     test processes

PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
EXAMPLES ?= 2000
CERTIFICATE ?= build/certificate.json
# kinds of call an estimator under compute-sanitizer, and where its reports go
KINDS ?= 10
REPORTS ?= build
# the oldest and the newest that are supported
TRITONS ?= 3.4.0 3.9.0

STAMP := $(if $(VENV),$(VENV),build)/installed.stamp
PY := $(if $(VENV),$(VENV)/bin/python,$(PYTHON))
PIP := $(PY) -m pip --disable-pip-version-check --quiet install
RLSCAN := $(PY) -m rlscan.cli
# one process where pytest-xdist is not installed
PYTEST = $(PY) -m pytest $$($(PY) -c 'import xdist' 2>/dev/null && printf '%s' '-n $(JOBS) --dist worksteal')
GUARD = $(ONE_THREAD) $(PY) -m pytest tests/test_speed.py -p no:xdist --benchmark-columns=min,median,rounds
# several processes share the cores
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help setup test guard check format gpu sanitize deep mutants peers reproduce end-to-end render docs notebooks claims machine-code paper triton-versions clean

help: ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do printf '  make %-16s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## the environment: made if it is missing or its requirements have changed

$(STAMP): pyproject.toml requirements/ci.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "$(PYTHON) is too old or missing; name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
ifneq ($(VENV),)
	@echo "Setting up $(VENV) (minutes, the first time)"
	@test -x $(PY) && $(PY) -c '' || $(PYTHON) -m venv --clear $(VENV) || \
		{ echo "$(PYTHON) has no venv module; on Debian it is the package python3-venv" >&2; exit 1; }
	$(PIP) --constraint requirements/ci.txt --editable '.[dev]'
else
	$(PIP) --no-deps --no-build-isolation --editable .
endif
	@mkdir -p $(@D) && touch $@

test: $(STAMP) ## the guard, then every test: proofs, portable path, and the kernels in Triton's interpreter
	$(GUARD)
	$(ONE_THREAD) $(PYTEST) --ignore tests/test_speed.py

mutants: $(STAMP) ## small faults made by rule in the source, each of which the verification has to reject (half an hour)
	$(ONE_THREAD) $(PY) -m paper.mutants
	$(PY) -m paper.render

guard: $(STAMP) ## that nothing has become slower, beside a baseline taken in the same run
	$(GUARD)

check: $(STAMP) ## format, lint, types, and that what is rendered is not stale
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m paper.render --check
	$(PY) -m paper.claims --check
	$(PY) -m paper.peers --check
	$(PY) -m paper.api --check
	$(PY) -m paper.boundary_picture --check
	$(PY) -m paper.notebooks --check

format: $(STAMP) ## formats and sorts imports
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

# all of them on one GPU, and they share what they compile
gpu: JOBS = 16
gpu: $(STAMP) ## the tests and the verification of compiled kernels (without a venv: make gpu VENV=)
	@$(PY) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || \
		{ echo "PyTorch sees no GPU here: make test is what runs without one" >&2; exit 1; }
	env -u TRITON_INTERPRET $(ONE_THREAD) $(PYTEST) -m gpu
	@mkdir -p $(dir $(CERTIFICATE))
	env -u TRITON_INTERPRET $(RLSCAN) verify --device cuda --examples $(EXAMPLES) --jobs $(JOBS) --json $(CERTIFICATE)

sanitize: $(STAMP) ## compute-sanitizer's four tools over the kernel's variants at odd sizes (a GPU, and CUDA's tools)
	@command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on the PATH: it comes with CUDA" >&2; exit 1; }
	@mkdir -p $(REPORTS); status=0; for tool in memcheck racecheck initcheck synccheck; do \
		echo "== $$tool"; \
		env -u TRITON_INTERPRET PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
			compute-sanitizer --tool $$tool --error-exitcode 1 $(PY) tests/sanitize.py $(KINDS) > $(REPORTS)/$$tool.txt 2>&1 \
			|| status=1; \
		tail -n 2 $(REPORTS)/$$tool.txt; \
	done; exit $$status

deep: $(STAMP) ## what takes longer than the tests: one certificate and a page to read, build/deep.json and .md (a quarter of an hour and more)
	@mkdir -p build
	$(RLSCAN) verify --deep --json build/deep.json

# in one process: a peer is imported and compiled once
peers: $(STAMP) ## other people's estimators as oracles, and paper/rendered/peers.md (installs JAX, TorchRL and Stable-Baselines3)
	$(PIP) --constraint requirements/ci.txt --editable '.[dev,peers]'
	$(ONE_THREAD) $(PY) -m pytest tests/test_peers.py -p no:xdist
	$(ONE_THREAD) $(PY) -m paper.peers

reproduce: $(STAMP) ## verify, then measure and render the tables that this machine can, then an example on real rollouts
	$(RLSCAN) reproduce
	$(PY) -m paper.claims || true # a ratio that this machine misses is printed, and is no failure
	$(PY) examples/gymnasium_gae.py

end-to-end: $(STAMP) ## whole updates, PPO that learns, and beyond RL: measured and rendered (on a CPU at small sizes)
	for part in synthetic learning llm spiking; do $(ONE_THREAD) $(PY) -m paper.end_to_end --part $$part --resume || exit 1; done
	$(PY) -m paper.render

render: $(STAMP) ## the tables in paper/rendered/ and README.md, and paper/performance.md, from the committed results
	$(PY) -m paper.render

docs: $(STAMP) ## docs/api.md, from signatures and docstrings, and the picture of the boundaries
	$(PY) -m paper.api
	$(PY) -m paper.boundary_picture

notebooks: $(STAMP) ## executes the notebooks in place (a minute; on a GPU the last one measures for some)
	$(ONE_THREAD) $(PY) -m paper.notebooks

claims: $(STAMP) ## PASS, FAIL or NOT RUN for every claim, from the committed evidence; renders README.md's table
	$(PY) -m paper.claims

machine-code: $(STAMP) ## registers and instructions of the kernels behind the speed targets, compiled for an H200 (no GPU; minutes)
	env -u TRITON_INTERPRET $(ONE_THREAD) $(PY) -m paper.machine_code
	$(PY) -m paper.render

paper: $(STAMP) ## paper/manuscript/manuscript.pdf, from the committed results (needs TeX)
	$(PY) -m paper.pdf

triton-versions: $(STAMP) ## the kernels in the interpreter of the oldest and the newest Triton (downloads 0.5 GB, once)
	@set -e; for version in $(TRITONS); do \
		folder=build/triton/$$version; \
		test -e $$folder/installed.stamp || \
			{ rm -rf $$folder; $(PIP) --no-deps --target $$folder triton==$$version; touch $$folder/installed.stamp; }; \
		PYTHONPATH=$$folder $(PY) -c "import triton; print('Triton', triton.__version__); assert triton.__version__ == '$$version'"; \
		PYTHONPATH=$$folder RLSCAN_TEST_INTERPRET=1 $(ONE_THREAD) $(PYTEST) -k interpreter; \
	done

clean: ## removes the environment and what was built
	rm -rf $(VENV) build
