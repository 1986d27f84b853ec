#!/usr/bin/env bash
# Installs the pinned tools of the slower suites into a cache outside the tree, and prints where each one is.
#   scripts/install-tools.sh ziti               the peer's program (CLI, controller, router, tunneler), built from its Go module
#   scripts/install-tools.sh ziti-unversioned   the same as a development build, which announces v0.0.0
# Exit code 3: the tool cannot be had on this machine (the reason is on standard error); the suite that asked is skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${SALLYPORT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sallyport}/tools
mkdir -p "$cache"

ziti() {
  local version=$1
  local binary="$cache/ziti-$version"
  # Without the version flag the program announces v0.0.0, which every version gate takes for the newest there is.
  local flags="-s -w"
  [ "$version" = v0.0.0 ] || flags="$flags -X github.com/openziti/ziti/common/version.Version=$version"
  # Suites that start at the same time wait for one build instead of each making its own.
  exec 9>"$cache/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -x "$binary" ]; then
    command -v go >/dev/null || { echo "the peer needs Go to be built, and there is no 'go' on the PATH" >&2; exit 3; }
    echo "building the peer as $version (2 to 4 minutes the first time)" >&2
    if ! (cd "$here/e2e/peers" && CGO_ENABLED=0 go build -o "$binary.new" -ldflags "$flags" github.com/openziti/ziti/ziti >&2); then
      echo "the peer could not be built from its Go module (see above)" >&2
      exit 3
    fi
    mv "$binary.new" "$binary"
  fi
  echo "$binary"
}

case "${1:-}" in
  ziti) ziti v1.6.0 ;;
  ziti-unversioned) ziti v0.0.0 ;;
  *) echo "usage: $0 ziti|ziti-unversioned" >&2; exit 2 ;;
esac
