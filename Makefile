# Every target does its own set-up, on a fresh Debian or Ubuntu too: `make run` is all it takes.
#
#   make run                                  a node on 127.0.0.1:9092 (HTTP on 9324), data in ./data
#   make test                                 all tests                   [ARGS="tests/wire -k crc"]
#   make check                                lint, types, layers, tidy, docs, then the tests: what CI runs
#   make torture [NAME] [MINUTES=n] [SEED=n]  the same tests at larger scale; evidence in docs/evidence/
#   make bench                                Penstock beside Apache Kafka [ARGS="--quick"]
#   make docs                                 write docs/reference/ anew from the declarations

PYTHON := .venv/bin/python
ARGS ?=

# `make torture kills`: the word behind `torture` is a name, not a target.
ifeq (torture,$(firstword $(MAKECMDGOALS)))
NAMES := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(NAMES)
$(NAMES): torture
	@:
endif

.PHONY: setup clients run test check torture bench docs

setup: .venv/.installed

# What is compiled in place, and is run instead of its source as long as that is not compiled again. One that is changed
# while it is compiled is compiled once more.
KERNELS := $(wildcard src/penstock/spark/*.pyx)
COMPILED := $(shell sed -n 's|^ *"\(src/penstock/.*\.py\)",$$|\1|p' pyproject.toml)

.venv/.installed: pyproject.toml setup.py tools/setup.sh $(KERNELS) $(COMPILED)
	mkdir -p .cache && touch .cache/setup-began
	tools/setup.sh install
	touch -r .cache/setup-began $@

clients: setup
	tools/setup.sh clients

run: setup
	$(PYTHON) -m penstock serve $(ARGS)

test: clients
	$(PYTHON) -m tools.test $(ARGS)

check: clients
	$(PYTHON) -m tools.check

torture: clients
	$(PYTHON) -m tools.torture $(NAMES) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

bench: setup
	$(PYTHON) -m benchmarks $(ARGS)

docs: setup
	$(PYTHON) -m tools.generate_docs
