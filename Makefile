# The front door. Every task is an npm script or a script below; make only makes sure that the dependencies are there.
SHELL := /bin/bash
export npm_config_update_notifier := false
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
INSTALLED := node_modules/.package-lock.json
# Node keeps what it made of a source file: the next process of the same program starts in half the time.
export NODE_COMPILE_CACHE := $(CURDIR)/node_modules/.cache/node
# Not where figures are taken: a user's program starts without it.
bench bench-check: export NODE_DISABLE_COMPILE_CACHE := 1

.DEFAULT_GOAL := help
.PHONY: bench bench-check check clean demo generate help pack soak test test-crash test-mesh test-namespaces test-oldest test-peers

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | sort | expand -t 24

demo: $(INSTALLED) ## start a whole network, move 100 MiB through two routers, stay up (CHECK=1: exit after the check)
	@npm run --silent demo -- $(if $(CHECK),--check)

test: $(INSTALLED) ## unit, protocol, store and system tests (needs nothing but npm)
	@npm test --silent

test-oldest: $(INSTALLED) ## the tests of store, model and API on PostgreSQL 15, reached by URL, with another collation
	@npm run --silent test:oldest

test-crash: $(INSTALLED) ## controller and database are killed in turns: no acknowledged write is lost
	@npm run --silent test:crash

test-namespaces: $(INSTALLED) ## interception and faults of the network, in network namespaces (needs root on Linux; skipped loudly without)
	@npm run --silent test:namespaces

check: $(INSTALLED) ## types, lint and format, dependency rules, generated files up to date, every program starts
	@npm run --silent check

generate: $(INSTALLED) ## write the generated files again
	@npm run --silent generate

test-mesh: $(INSTALLED) ## a mesh whose links, routers and controller go away and come back: circuits lose nothing
	@npm run --silent test:mesh

soak: $(INSTALLED) ## random faults for MINUTES (10) from SEED: checksums, and what processes hold (needs root and nft; skipped loudly without)
	@npm run --silent soak

test-peers: $(INSTALLED) ## the peer's CLI, tunneler and router against ours (needs Go; skipped loudly without)
	@npm run --silent test:peers

pack: $(INSTALLED) ## the programs as JavaScript, in dist/: smaller and faster to start than from their sources
	@npm run --silent pack

bench: $(INSTALLED) ## figures of the wire and the data plane, ours and the peer's in one run, one JSON line each (needs Go for the peer)
	@npm run --silent bench

bench-check: $(INSTALLED) ## the figures of the data plane beside their targets; fails when one is missed (needs Go; on a quiet machine)
	@npm run --silent bench:dataplane -- --check

clean: ## remove what was installed or left by a demo
	rm -rf node_modules .demo coverage dist

# Not "npm ci": it refuses a lock file whose registry did not serve every platform's optional packages. The pins hold the same.
$(INSTALLED): package.json package-lock.json
	@npm install --no-save --loglevel=error
	@touch $(INSTALLED)
