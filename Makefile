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
IMAGES ?= $(wildcard dist/images/*.tar)

.PHONY: bench bench-check check clean cluster cluster-down demo generate help images pack release soak test test-charts test-cluster test-crash test-images test-mesh test-namespaces test-oldest test-operator test-peers test-release test-scenarios verify

help: ## list these targets (FILES="…" with a test target: only these test files)
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | sort | expand -t 24

demo: $(INSTALLED) ## start a whole network, move 100 MiB through two routers, stay up (CHECK=1: exit after the check)
	@npm run --silent demo -- $(if $(CHECK),--check)

test: $(INSTALLED) ## unit, protocol, store and system tests (needs nothing but npm)
	@npm test --silent -- $(FILES)

test-oldest: $(INSTALLED) ## the tests of store, model and API on PostgreSQL 15, reached by URL, with another collation
	@npm run --silent test:oldest

test-crash: $(INSTALLED) ## controller and database are killed in turns: no acknowledged write is lost
	@npm run --silent test:crash -- $(FILES)

test-namespaces: $(INSTALLED) ## interception and faults of the network, in network namespaces (needs root on Linux; skipped loudly without)
	@npm run --silent test:namespaces -- $(FILES)

test-cluster: $(INSTALLED) ## what needs a real Kubernetes cluster: resources, operator, pods (needs root on Linux, Go and Debian's packages; skipped loudly without)
	@npm run --silent test:cluster -- $(FILES)

test-scenarios: $(INSTALLED) ## the whole network on real pods, the operator installed by Helm (E2E_CLUSTER=local|container|kind|k3s|existing)
	@npm run --silent test:scenarios -- $(FILES)

test-charts: $(INSTALLED) ## the charts: lint, what they render against schemas, refused values, releases on an API server (needs root on Linux, Go; skipped loudly without)
	@npm run --silent test:charts -- $(FILES)

test-operator: $(INSTALLED) ## stories of the operator with controllers, routers and operators as programs (needs nothing but npm)
	@npm run --silent test:operator -- $(FILES)

cluster: $(INSTALLED) ## start a Kubernetes cluster of NODES (1) nodes with IMAGES (dist/images/*.tar), and print the line for kubectl
	@node e2e/cluster/main.ts up --nodes $(or $(NODES),1) $(IMAGES)

cluster-down: $(INSTALLED) ## remove the cluster that `make cluster` started
	@node e2e/cluster/main.ts down

check: $(INSTALLED) ## types, lint and format, dependency rules, generated files up to date, every program starts
	@npm run --silent check

generate: $(INSTALLED) ## write the generated files again
	@npm run --silent generate

test-mesh: $(INSTALLED) ## a mesh whose links, routers and controller go away and come back: circuits lose nothing
	@npm run --silent test:mesh -- $(FILES)

soak: $(INSTALLED) ## random faults for MINUTES (10) from SEED: checksums, and what processes hold (needs root and nft; skipped loudly without)
	@npm run --silent soak -- $(FILES)

test-peers: $(INSTALLED) ## the peer's CLI, tunneler and router against ours (needs Go; skipped loudly without)
	@npm run --silent test:peers -- $(FILES)

pack: $(INSTALLED) ## the programs as JavaScript, in dist/: smaller and faster to start than from their sources
	@npm run --silent pack

images: $(INSTALLED) ## container images of all programs in dist/images/, without any tool for them (WITH=podman|docker|buildah: by the Containerfiles)
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} npm run --silent images -- $(if $(WITH),--with $(WITH)) $(if $(BASE),--build-arg BASE=$(BASE)) $(if $(BUILDER),--build-arg BUILDER=$(BUILDER)) $(PROGRAMS)

release: $(INSTALLED) ## everything that a user takes, in dist/release/: packages of npm, images, charts, CRDs, checksums (VERSION=1.2.3: under another version)
	@npm run --silent release -- $(if $(VERSION),--version $(VERSION))

test-release: $(INSTALLED) ## a release is made twice, and its packages are installed on the oldest and the newest Node (needs git and a registry of npm; skipped loudly without)
	@npm run --silent test:release -- $(FILES)

test-images: $(INSTALLED) ## containers of the images: read-only, no root, no shell, stopped and killed (needs root on Linux; skipped loudly without)
	@npm run --silent test:images -- $(FILES)

verify: $(INSTALLED) ## everything: the gate (.ci/run) and all slow suites, an hour and a quarter (VERIFY=1/4 … 4/4: one part)
	@VERIFY=$(VERIFY) bash scripts/run/verify.sh

bench: $(INSTALLED) ## figures of the wire and the data plane, ours and the peer's in one run, one JSON line each (needs Go for the peer)
	@npm run --silent bench

bench-check: $(INSTALLED) ## the figures of trust and the data plane beside their targets; fails when one is missed (needs Go; on a quiet machine)
	@npm run --silent bench:trust -- --check && npm run --silent bench:dataplane -- --check

clean: ## remove what was installed or left by a demo
	rm -rf node_modules .demo coverage dist

# Exactly what the lock file says; of the packages' install scripts those that package.json allows.
$(INSTALLED): package.json package-lock.json
	@npm ci --loglevel=error
	@npm run --silent setup
	@touch $(INSTALLED)
