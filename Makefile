# make help lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# For how long make fuzz runs each target.
FUZZTIME ?= 10s
# What make test, bench and fuzz look at.
PKG ?= ./...

.PHONY: demo build test check bench bench-peers fuzz ci help

demo: ## show a whole life on the memory broker, and its report
	@go run ./cmd/lastcall demo

build: ## build bin/lastcall
	go build -o bin/lastcall ./cmd/lastcall

test: ## run all tests with the race detector, beside a RabbitMQ (started if none is there)
	scripts/gotest $(PKG)

check: ## formatting, vet, staticcheck, go.mod, scripts, and the tree's own rules
	@unformatted=$$(gofmt -l .); \
	if [[ $$unformatted ]]; then printf 'gofmt would change:\n%s\n' "$$unformatted"; exit 1; fi
	go mod tidy -diff
	go vet ./...
	go tool staticcheck ./...
	for script in scripts/* .ci/run; do bash -n "$$script"; done
	go test ./internal/arch
	cd benchmarks && go vet .

bench: ## run every benchmark once
	scripts/broker go test -run '^$$' -bench . -benchtime=1x $(PKG)

fuzz: ## run every fuzz target for FUZZTIME
	scripts/fuzz $(FUZZTIME) $(PKG)

bench-peers: ## compare with other clients on one broker; ARGS=-full for every combination
	cd benchmarks && ../scripts/broker go run . -json results.json $(ARGS)

ci: ## what has to pass: check, test, bench, demo, with one RabbitMQ
	scripts/broker $(MAKE) --no-print-directory check test bench demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
