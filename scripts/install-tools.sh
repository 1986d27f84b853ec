#!/usr/bin/env bash
# Installs the pinned tools of the slower suites into a cache outside the tree, and prints where each one is.
#   scripts/install-tools.sh ziti     the peer's program (CLI, controller, router, tunneler), built from its Go module
# Exit code 3: the tool cannot be had on this machine (the reason is on standard error); the suite that asked is skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${SALLYPORT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sallyport}/tools
mkdir -p "$cache"

ziti() {
  local version=v1.6.0
  local binary="$cache/ziti-$version"
  if [ ! -x "$binary" ]; then
    command -v go >/dev/null || { echo "the peer needs Go to be built, and there is no 'go' on the PATH" >&2; exit 3; }
    echo "building the peer $version (2 to 4 minutes the first time)" >&2
    # Without the version flag it announces v0.0.0, which every version gate takes for the newest there is.
    if ! (cd "$here/e2e/peers" && CGO_ENABLED=0 go build -trimpath -o "$binary.new" \
      -ldflags "-s -w -X github.com/openziti/ziti/common/version.Version=$version" github.com/openziti/ziti/ziti >&2); then
      echo "the peer could not be built from its Go module (see above)" >&2
      exit 3
    fi
    mv "$binary.new" "$binary"
  fi
  echo "$binary"
}

case "${1:-}" in
  ziti) ziti ;;
  *) echo "usage: $0 ziti" >&2; exit 2 ;;
esac
