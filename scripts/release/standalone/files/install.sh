#!/bin/sh
# Installs Sallyport @VERSION@ on Linux with glibc 2.28 or later: sh install.sh [--from FOLDER|URL] [--prefix FOLDER | --user] [--remove]
#   --from     where the release is: a folder, or the address of one; the folder of this script when left out
#   --prefix   programs go into FOLDER/bin, the rest into FOLDER/lib/sallyport-@VERSION@; /usr/local when left out
#   --user     the same as --prefix ~/.local
#   --remove   removes it again; what the programs have written stays
# SALLYPORT_PUBLIC_KEY=FILE: the checksums must be signed with this key (needs minisign).
set -eu
fail() { echo "install.sh: $1" >&2; exit 1; }
from=$(dirname "$0") prefix=/usr/local remove=
while [ $# -gt 0 ]; do
  case $1 in
    --from | --prefix) [ $# -gt 1 ] || fail "$1 needs a value"
      if [ "$1" = --from ]; then from=${2%/}; else prefix=$2; fi; shift 2 ;;
    --user) prefix=$HOME/.local; shift ;;
    --remove) remove=1; shift ;;
    *) fail "unknown argument $1; there are --from, --prefix, --user and --remove" ;;
  esac
done
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
case $(uname -s)-$(uname -m) in
  Linux-x86_64) name=sallyport-@VERSION@-linux-x64 ;;
  Linux-aarch64) name=sallyport-@VERSION@-linux-arm64 ;;
  *) fail "there is no archive for $(uname -s) on $(uname -m)" ;;
esac
home=$prefix/lib/sallyport-@VERSION@
unlink_programs() { for link in "$prefix"/bin/sallyport*; do case $(readlink "$link") in "$home"/*) rm "$link" ;; esac; done; }
if [ -n "$remove" ]; then
  [ -d "$home" ] || fail "$home is not there: is --prefix right?"
  unlink_programs; rm -r "$home"; echo "removed $home"; exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work" "$home.new"' EXIT
take() {
  case $from in
    http://* | https://*) if command -v curl >/dev/null; then curl -fsSL -o "$work/$1" "$from/$1"; else wget -qO "$work/$1" "$from/$1"; fi ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || fail "$from has no $1, or it cannot be fetched"
}
take SHA256SUMS; take "$name.tar.gz"
if [ -n "${SALLYPORT_PUBLIC_KEY:-}" ]; then
  take SHA256SUMS.minisig
  minisign -Vqm "$work/SHA256SUMS" -p "$SALLYPORT_PUBLIC_KEY" || fail "SHA256SUMS is not signed with $SALLYPORT_PUBLIC_KEY"
fi
(cd "$work" && grep " $name.tar.gz\$" SHA256SUMS | sha256sum --check --status -) || fail "$name.tar.gz does not have the checksum in SHA256SUMS"
mkdir -p "$prefix/bin" "$prefix/lib" || fail "$prefix cannot be written to: use sudo, --user or --prefix"
rm -rf "$home.new"; mkdir "$home.new"
tar -xzf "$work/$name.tar.gz" -C "$home.new" --strip-components=1 --no-same-owner
LD_LIBRARY_PATH=$home.new/runtime/lib "$home.new/runtime/node" --version >/dev/null || fail "Node does not start here: does this system have glibc 2.28, libstdc++ and libatomic?"
rm -rf "$home"; mv "$home.new" "$home"
for program in "$home"/bin/*; do ln -sfn "$program" "$prefix/bin/${program##*/}"; done
echo "Sallyport @VERSION@ is in $home, its programs in $prefix/bin"
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to your PATH" ;; esac
