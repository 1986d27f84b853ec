#!/usr/bin/env bash
# Installs the pinned tools of the slower suites into a cache outside the tree, and prints where each one is.
#   scripts/install-tools.sh ziti               the peer's program (CLI, controller, router, tunneler), built from its Go module
#   scripts/install-tools.sh ziti-unversioned   the same as a development build, which announces v0.0.0
#   scripts/install-tools.sh posture-client     e2e/peers/posture-client: a program on the newest SDK of the peer that can be built from its module
#   scripts/install-tools.sh link-relay         e2e/peers/link-relay: both ends of grouped links on the peer's channel module
#   scripts/install-tools.sh nft                the folder with the program nft: the system's, else the one of Debian's packages
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

# own_program NAME: one of ours on the peer's modules.
own_program() {
  local folder="$here/e2e/peers/$1"
  # Named after what it is built from: a changed program or pin is built anew.
  local binary
  binary="$cache/$1-$(cat "$folder"/go.mod "$folder"/go.sum "$folder"/*.go | cksum | cut -d ' ' -f 1)"
  build "$binary" "$folder" "-s -w" .
}

# Debian's packages (those that are missing) are unpacked into the cache; nothing is installed on the machine.
nft() {
  local found folder="$cache/nft"
  found=$(PATH="$PATH:/usr/sbin:/sbin" type -P nft || true)
  if [ -n "$found" ]; then
    dirname "$found"
    return
  fi
  exec 9>"$cache/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -x "$folder/bin/nft" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "nft is not installed, and there is no apt-get to fetch it with" >&2; exit 3; }
    rm -rf "$folder"
    mkdir -p "$folder/archives/partial" "$folder/root" "$folder/bin"
    fetch_nft "$folder/archives" || { apt-get update >&2 && fetch_nft "$folder/archives"; } ||
      { echo "nft is not installed, and its Debian packages could not be fetched (see above)" >&2; exit 3; }
    local package
    for package in "$folder/archives"/*.deb; do dpkg -x "$package" "$folder/root"; done
    local libraries
    libraries=$(find "$folder/root" -name 'libnftables.so*' -printf '%h\n' | head -n 1)
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$libraries" "$folder/root/usr/sbin/nft" >"$folder/bin/nft"
    chmod +x "$folder/bin/nft"
    "$folder/bin/nft" --version >&2 || { rm -rf "$folder"; echo "nft of the Debian packages does not start here" >&2; exit 3; }
  fi
  echo "$folder/bin"
}

fetch_nft() {
  apt-get -qq -y --download-only --no-install-recommends -o Dir::Cache::archives="$1" install nftables >&2
}

case "${1:-}" in
  ziti) ziti v1.6.0 ;;
  ziti-unversioned) ziti v0.0.0 ;;
  posture-client | link-relay) own_program "$1" ;;
  nft) nft ;;
  *) echo "usage: $0 nft|ziti|ziti-unversioned|posture-client|link-relay" >&2; exit 2 ;;
esac
