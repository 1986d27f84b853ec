#!/usr/bin/env bash
# Installs the pinned tools of the slower suites into a cache outside the tree, and prints where each one is.
#   scripts/install-tools.sh ziti               the peer's program (CLI, controller, router, tunneler), built from its Go module
#   scripts/install-tools.sh ziti-unversioned   the same as a development build, which announces v0.0.0
#   scripts/install-tools.sh posture-client     e2e/peers/posture-client: a program on the newest SDK of the peer that can be built from its module
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
  build "$binary" "$here/e2e/peers" "$flags" github.com/openziti/ziti/ziti
}

# build BINARY FOLDER LINK-FLAGS PACKAGE: builds it unless the cache has it, and prints where it is.
build() {
  local binary=$1 folder=$2 flags=$3 package=$4
  # Suites that start at the same time wait for one build instead of each making its own.
  exec 9>"$cache/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -x "$binary" ]; then
    command -v go >/dev/null || { echo "the peer needs Go to be built, and there is no 'go' on the PATH" >&2; exit 3; }
    echo "building ${binary##*/} (2 to 4 minutes the first time)" >&2
    if ! (cd "$folder" && CGO_ENABLED=0 go build -o "$binary.new" -ldflags "$flags" "$package" >&2); then
      echo "${binary##*/} could not be built from its Go module (see above)" >&2
      exit 3
    fi
    mv "$binary.new" "$binary"
  fi
  echo "$binary"
}

posture_client() {
  local folder="$here/e2e/peers/posture-client"
  # Named after what it is built from: a changed program or pin is built anew.
  local binary
  binary="$cache/posture-client-$(cat "$folder"/go.mod "$folder"/go.sum "$folder"/*.go | cksum | cut -d ' ' -f 1)"
  build "$binary" "$folder" "-s -w" .
}

case "${1:-}" in
  ziti) ziti v1.6.0 ;;
  ziti-unversioned) ziti v0.0.0 ;;
  posture-client) posture_client ;;
  *) echo "usage: $0 ziti|ziti-unversioned|posture-client" >&2; exit 2 ;;
esac
