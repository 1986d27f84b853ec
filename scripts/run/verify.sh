#!/usr/bin/env bash
# Everything: what the gate runs, and the slow suites. Ends with the same closing line.
# VERIFY=1/4 … 4/4 runs one part of four, for a machine that has no hour and a quarter at a time.
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

case "${VERIFY:-}" in
  "") parts="1 2 3 4" ;;
  [1-4]/4) parts=${VERIFY%/4} ;;
  *) echo "VERIFY=$VERIFY: expected 1/4, 2/4, 3/4 or 4/4, or nothing for all parts" >&2; exit 2 ;;
esac
has_part() { [[ " $parts " = *" $1 "* ]]; }

build_tools all

if has_part 1; then
  step check make check
  suite test test
  suite legacy-login test-legacy-login
  step oldest make test-oldest
  suite crash test-crash
  suite upgrade test-upgrade
  suite browser test-browser
  step demo make demo CHECK=1
  suite images test-images
fi
if has_part 2; then
  suite mesh test-mesh
  suite operator test-operator
  suite peers test-peers
  # Ten minutes before a release.
  suite soak soak MINUTES=4
fi
if has_part 3; then
  # These two run beside the suites on clusters, which wait for pods most of the time.
  beside_clusters() {
    suite namespaces test-namespaces
    suite release test-release
  }
  beside beside_clusters namespaces release
  need_tools
  suite charts test-charts
  suite cluster test-cluster
  wait_beside
fi
if has_part 4; then
  has_part 3 || need_tools
  suite scenarios test-scenarios
  suite container test-scenarios E2E_CLUSTER=container FILES="e2e/scenarios/network/quickstart.test.ts e2e/scenarios/blocked"
fi

close_run
