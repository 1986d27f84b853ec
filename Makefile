# The front door. Every task is an npm script or a script below; make only makes sure that the dependencies are there.
SHELL := /bin/bash
export npm_config_update_notifier := false
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
# npm writes it at the end of an install, with the tools of development or without.
INSTALLED := node_modules/.package-lock.json
TOOLS := $(wildcard node_modules/vitest/package.json)
# `make demo` alone needs no tools, which are two thirds of an install. It keeps those that are there.
NEEDS_TOOLS := $(or $(filter-out demo,$(MAKECMDGOALS)),$(TOOLS))
FOR_DEMO := --omit=dev --include-workspace-root $(addprefix --workspace=,cli controller e2e router)
# Node caches compiled source files: the next process of the same program starts in half the time.
export NODE_COMPILE_CACHE := $(CURDIR)/node_modules/.cache/node
# Benchmarks run without the cache, as a user's program does.
bench bench-check: export NODE_DISABLE_COMPILE_CACHE := 1

.DEFAULT_GOAL := help
IMAGES ?= $(wildcard dist/images/*.tar)

.PHONY: bench bench-check check clean cluster cluster-down demo generate help images missing-tools pack packages release soak test test-browser test-charts test-cluster test-crash test-images test-legacy-login test-mesh test-namespaces test-oldest test-operator test-peers test-release test-scenarios test-upgrade verify

help: ## list these targets (with a test target, FILES="…" selects test files)
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | sort | expand -t 24

demo: $(INSTALLED) ## start a network, send 100 MiB through two routers, keep it running (CHECK=1: exit after the check)
	@npm run --silent demo -- $(if $(CHECK),--check)

test: $(INSTALLED) ## run the unit, protocol, store and system tests (needs only npm)
	@npm test --silent -- $(FILES)

test-oldest: $(INSTALLED) ## run the tests of store, model and API on PostgreSQL 15, reached by URL, with another collation
	@npm run --silent test:oldest

test-legacy-login: $(INSTALLED) ## run the system tests with programs that log in by POST /authenticate, as where OIDC is turned off
	@npm run --silent test:legacy-login -- $(or $(FILES),e2e/system)

test-browser: $(INSTALLED) ## log in on the login page in Chromium, with and without scripts (fetched from Debian's packages, else skipped with a message)
	@npm run --silent test:browser -- $(FILES)

test-crash: $(INSTALLED) ## kill controllers and database, stop them and set clocks wrong, and check that no acknowledged write is lost
	@npm run --silent test:crash -- $(FILES)

test-upgrade: $(INSTALLED) ## upgrade controllers of the last release one at a time under load, and go back (needs the release's commit, else skipped with a message)
	@npm run --silent test:upgrade -- $(FILES)

test-namespaces: $(INSTALLED) ## test interception and network faults in network namespaces (needs root on Linux, else skipped with a message)
	@npm run --silent test:namespaces -- $(FILES)

test-cluster: $(INSTALLED) ## test resources, operator and pods on a real Kubernetes cluster (needs root on Linux, Go and Debian packages, else skipped with a message)
	@npm run --silent test:cluster -- $(FILES)

test-scenarios: $(INSTALLED) ## test a whole network on real pods, with the operator installed by Helm (E2E_CLUSTER=local|container|kind|k3s|existing)
	@npm run --silent test:scenarios -- $(FILES)

test-charts: $(INSTALLED) ## test the charts: lint, schemas, refused values, releases on an API server (needs root on Linux and Go, else skipped with a message)
	@npm run --silent test:charts -- $(FILES)

test-operator: $(INSTALLED) ## test the operator with real controllers, routers and operators as programs (needs only npm)
	@npm run --silent test:operator -- $(FILES)

cluster: $(INSTALLED) ## start a Kubernetes cluster of NODES (1) nodes with IMAGES (dist/images/*.tar) and print how to reach it with kubectl
	@node e2e/cluster/main.ts up --nodes $(or $(NODES),1) $(IMAGES)

cluster-down: $(INSTALLED) ## remove the cluster that `make cluster` started
	@node e2e/cluster/main.ts down

check: $(INSTALLED) ## check types, lint, format, dependency rules, pages and generated files, and that every program starts
	@npm run --silent check

generate: $(INSTALLED) ## write the generated files
	@npm run --silent generate

test-mesh: $(INSTALLED) ## stop and restart links, routers and controller of a mesh and check that circuits lose nothing
	@npm run --silent test:mesh -- $(FILES)

soak: $(INSTALLED) ## inject random faults for MINUTES (10) from SEED into a network with CONTROLLERS (2, or 1); check checksums and memory (needs root and nft, else skipped with a message)
	@npm run --silent soak -- $(FILES)

test-peers: $(INSTALLED) ## test against OpenZiti's CLI, tunneler, router and controller (needs Go, else skipped with a message)
	@npm run --silent test:peers -- $(FILES)

pack: $(INSTALLED) ## bundle the programs as JavaScript in dist/, smaller and faster to start than from source
	@npm run --silent pack

images: $(INSTALLED) ## build the container images in dist/images/, without a container tool (WITH=podman|docker|buildah: from the Containerfiles)
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} npm run --silent images -- $(if $(WITH),--with $(WITH)) $(if $(BASE),--build-arg BASE=$(BASE)) $(if $(BUILDER),--build-arg BUILDER=$(BUILDER)) $(PROGRAMS)

packages: $(INSTALLED) ## build the npm packages of SDK, tunneler and programs in dist/packages/, for `npm install FILE`
	@npm run --silent packages

release: $(INSTALLED) ## make a release in dist/release/: archives, Debian, RPM and npm packages, images, charts, checksums (VERSION=1.2.3: another version; KEY=FILE: sign)
	@npm run --silent release -- $(if $(VERSION),--version $(VERSION)) $(if $(KEY),--key $(KEY))

test-release: $(INSTALLED) ## make a release twice and install its packages on the oldest and the newest Node (needs git and an npm registry, else skipped with a message)
	@npm run --silent test:release -- $(FILES)

test-images: $(INSTALLED) ## test containers of the images: read-only, no root, no shell, stopped and killed (needs root on Linux, else skipped with a message)
	@npm run --silent test:images -- $(FILES)

verify: $(INSTALLED) ## run everything: the gate (.ci/run) and all slow suites, an hour and a quarter (VERIFY=1/4 … 4/4: one part)
	@VERIFY=$(VERIFY) bash scripts/run/verify.sh

bench: $(INSTALLED) ## measure wire, data plane, API, several controllers and operator, beside OpenZiti, one JSON line per figure (needs Go for OpenZiti)
	@npm run --silent bench

bench-check: $(INSTALLED) ## compare the figures of trust and the data plane with their targets; fails when one is missed (needs Go and a quiet machine)
	@npm run --silent bench:trust -- --check && npm run --silent bench:dataplane -- --check

clean: ## remove node_modules, dist, coverage and the demo's files
	rm -rf node_modules .demo coverage dist

# Installs exactly what the lock file says, and runs only the install scripts that package.json allows.
$(INSTALLED): package.json package-lock.json $(if $(NEEDS_TOOLS),$(if $(TOOLS),,missing-tools))
	@npm ci $(if $(NEEDS_TOOLS),,$(FOR_DEMO) )--loglevel=error
	@npm run --silent setup
	@touch $(INSTALLED)
