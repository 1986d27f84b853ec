#!/usr/bin/env bash
# Installs the pinned tools of the slower suites into a cache outside the tree, and prints where each one is.
#   scripts/install-tools.sh ziti               OpenZiti's program (CLI, controller, router, tunneler), built from its Go module
#   scripts/install-tools.sh ziti-unversioned   the same as a development build, which announces v0.0.0
#   scripts/install-tools.sh posture-client     e2e/peers/posture-client: a program on the newest SDK of OpenZiti that can be built from its module
#   scripts/install-tools.sh link-relay         e2e/peers/link-relay: both ends of grouped links on OpenZiti's channel module
#   scripts/install-tools.sh nft                the folder with the program nft: the system's, else the one of Debian's packages
#   scripts/install-tools.sh kubernetes         the folder with kube-apiserver, kubelet, kubectl, …, built from e2e/cluster/programs/go.mod
#   scripts/install-tools.sh etcd               the folder with etcd (its program is called server), built from the same
#   scripts/install-tools.sh coredns | pod | health  the program of e2e/cluster/programs/{coredns,pod,health}
#   scripts/install-tools.sh gitops-crds        a folder with the CRDs of Flux, Argo CD and CloudNativePG, as they are in their Go modules
#   scripts/install-tools.sh helm | kubeconform  the program, built from e2e/cluster/programs and its folder kubeconform
#   scripts/install-tools.sh nfpm               the program that makes Debian and RPM packages, built from scripts/release/standalone/nfpm/go.mod
#   scripts/install-tools.sh minisign | rpm | pgbouncer  the program: the system's, else the one of Debian's packages
#   scripts/install-tools.sh faketime           the library libfaketime.so.1, which gives a program another clock: the system's, else the one of Debian's packages
#   scripts/install-tools.sh libatomic-amd64 | libatomic-arm64  the folder with Debian's libatomic1 for that processor, unpacked: libatomic.so.1, copyright, version
#   scripts/install-tools.sh containerd         the root folder of Debian's packages containerd, runc and the CNI plugins, unpacked
#   scripts/install-tools.sh podman             the root folder of Debian's packages podman, netavark and iptables, unpacked
#   scripts/install-tools.sh chromium           the program chromium: the system's, else the one of Debian's packages
#   scripts/install-tools.sh all                all of them, in the order in which `make verify` needs them
#   scripts/install-tools.sh TOOL TOOL...       several of them, in this order
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
  # Suites that start at the same time wait for one build instead of each making its own; for no other, which may take minutes.
  exec 9>"$binary.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -x "$binary" ]; then
    command -v go >/dev/null || { echo "${binary##*/} needs Go to be built, and there is no 'go' on the PATH" >&2; exit 3; }
    echo "building ${binary##*/} (2 to 4 minutes the first time)" >&2
    if ! (cd "$folder" && CGO_ENABLED=0 go build -trimpath -o "$binary.new" -ldflags "$flags" "$package" >&2); then
      echo "${binary##*/} could not be built from its Go module (see above)" >&2
      exit 3
    fi
    mv "$binary.new" "$binary"
  fi
  echo "$binary"
}

# own_program FOLDER: one of our programs, on the modules of others.
own_program() {
  local folder="$here/e2e/$1"
  build "$cache/${1##*/}-$(made_of "$folder")" "$folder" "-s -w" .
}

# made_of FOLDER: tells what a program is built from, for its name in the cache: a changed program or pin is built again.
made_of() {
  # Not every folder has each of them.
  { cat "$1"/go.mod "$1"/go.sum "$1"/*.go "$1"/coredns/*.go 2>/dev/null || true; } | cksum | cut -d ' ' -f 1
}

# cluster_tools NAME MODULE LINK-FLAGS PACKAGE...: builds packages of a module below e2e/cluster/programs into one folder; prints where it is.
cluster_tools() {
  local name=$1 module="$here/e2e/cluster/programs/$2" flags=$3 folder
  shift 3
  folder="$cache/$name-$(made_of "$module")"
  # A lock of its own: it takes minutes, and other suites' tools need not wait for it.
  exec 9>"$cache/$name.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -d "$folder" ]; then
    command -v go >/dev/null || { echo "$name needs Go to be built, and there is no 'go' on the PATH" >&2; exit 3; }
    echo "building $name from its Go modules (the first time; Kubernetes takes 6 to 11 minutes on two cores, and the others share much of it)" >&2
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    if ! (cd "$module" && CGO_ENABLED=0 go build -trimpath -o "$folder.new/" -ldflags "$flags" "$@" >&2); then
      echo "$name could not be built from its Go modules (see above)" >&2
      exit 3
    fi
    mv "$folder.new" "$folder"
  fi
  echo "$folder"
}

# pinned MODULE: the version of a module of the cluster's programs.
pinned() {
  grep -oP "^\s*$1 \Kv\S+" "$here/e2e/cluster/programs/go.mod" | head -n 1
}

# Kubernetes, etcd, CoreDNS and Helm are built from one go.mod: they share modules, so that packages are compiled once for all of them.
# Without these flags every program of Kubernetes calls itself v0.0.0-master.
kubernetes() {
  local version minor flags package=k8s.io/component-base/version
  version=$(pinned k8s.io/kubernetes)
  minor=${version#v1.}
  flags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
  cluster_tools kubernetes . "$flags -X $package.gitTreeState=clean -X $package.buildDate=2026-01-01T00:00:00Z" \
    k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-proxy,kube-scheduler,kubectl,kubelet}
}

coredns() {
  local folder
  folder=$(cluster_tools coredns . "-s -w" ./coredns)
  echo "$folder/coredns"
}

# Without these flags it calls itself v3.19, and takes every chart for one that is to run on Kubernetes 1.20.
helm() {
  local folder modules package=helm.sh/helm/v3
  modules=$(pinned k8s.io/client-go)
  modules=${modules#v0.}
  modules=${modules%%.*}
  folder=$(cluster_tools helm . "-s -w -X $package/internal/version.version=$(pinned $package) -X $package/pkg/chartutil.k8sVersionMajor=1 \
    -X $package/pkg/chartutil.k8sVersionMinor=$modules -X $package/pkg/lint/rules.k8sVersionMajor=1 -X $package/pkg/lint/rules.k8sVersionMinor=$modules" \
    $package/cmd/helm)
  echo "$folder/helm"
}

kubeconform() {
  local folder
  folder=$(cluster_tools kubeconform kubeconform "-s -w" tool)
  echo "$folder/kubeconform"
}

nfpm() {
  local module="$here/scripts/release/standalone/nfpm"
  build "$cache/nfpm-$(made_of "$module")" "$module" "-s -w" tool
}

# The modules are only unpacked: nothing of them is built.
gitops_crds() {
  local pins="github.com/fluxcd/source-controller@v1.7.0/config/crd/bases github.com/fluxcd/kustomize-controller@v1.7.3/config/crd/bases
    github.com/fluxcd/helm-controller@v1.4.0/config/crd/bases github.com/argoproj/argo-cd/v3@v3.2.0/manifests/crds
    github.com/cloudnative-pg/cloudnative-pg@v1.27.1/config/crd/bases"
  local folder pin module version unpacked
  folder="$cache/gitops-crds-$(echo "$pins" | cksum | cut -d ' ' -f 1)"
  exec 9>"$cache/gitops-crds.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -d "$folder" ]; then
    command -v go >/dev/null || { echo "the CRDs of Flux, Argo CD and CloudNativePG are in Go modules, and there is no 'go' on the PATH" >&2; exit 3; }
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    for pin in $pins; do
      module=${pin%%@*} version=${pin#*@}
      unpacked=$(cd "$folder.new" && go mod download -json "$module@${version%%/*}" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || true
      [ -d "$unpacked/${version#*/}" ] || { echo "the module $module@${version%%/*} cannot be had here" >&2; exit 3; }
      cp "$unpacked/${version#*/}"/*.yaml "$folder.new/"
    done
    rm -f "$folder.new/kustomization.yaml"
    chmod u+w "$folder.new"/*
    mv "$folder.new" "$folder"
  fi
  echo "$folder"
}

# Unpacked into the cache whether they are installed or not: a container runtime of the machine's own is left alone.
containerd() {
  local folder="$cache/containerd"
  exec 9>"$cache/containerd.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -d "$folder" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "containerd and runc come from Debian's packages, and there is no apt-get" >&2; exit 3; }
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    fetch_containerd "$folder.new" || { apt-get update >&2 && fetch_containerd "$folder.new"; } ||
      { echo "Debian's packages of containerd and runc could not be fetched (see above)" >&2; exit 3; }
    local package
    for package in "$folder.new"/*.deb; do dpkg -x "$package" "$folder.new"; done
    rm "$folder.new"/*.deb
    for package in usr/bin/containerd usr/bin/ctr usr/sbin/runc; do
      "$folder.new/$package" --version >&2 || { echo "$package of Debian's packages does not start here" >&2; exit 3; }
    done
    mv "$folder.new" "$folder"
  fi
  echo "$folder"
}

fetch_containerd() {
  # As the user "_apt" it could not write into the cache of root.
  (cd "$1" && apt-get -qq -o APT::Sandbox::User=root download containerd runc containernetworking-plugins >&2)
}

# Debian's packages (those that are missing) are unpacked into the cache; nothing is installed on the machine.
nft() {
  local found folder="$cache/nft"
  found=$(PATH="$PATH:/usr/sbin:/sbin" type -P nft || true)
  if [ -n "$found" ]; then
    dirname "$found"
    return
  fi
  exec 9>"$cache/nft.lock"
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

# Unpacked with everything that they need and the machine does not have. A podman that is installed is left alone: then there is
# nothing to fetch, and it is used where it is.
podman() {
  local folder="$cache/podman"
  if [ -x /usr/bin/podman ] && [ -x /usr/lib/podman/netavark ] && [ -x /usr/sbin/iptables ]; then
    echo /
    return
  fi
  exec 9>"$cache/podman.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -d "$folder" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "podman is not installed, and there is no apt-get to fetch it with" >&2; exit 3; }
    rm -rf "$folder.new"
    mkdir -p "$folder.new/archives/partial"
    fetch_podman "$folder.new/archives" || { apt-get update >&2 && fetch_podman "$folder.new/archives"; } ||
      { echo "podman is not installed, and its Debian packages could not be fetched (see above)" >&2; exit 3; }
    local package libraries
    for package in "$folder.new/archives"/*.deb; do dpkg -x "$package" "$folder.new"; done
    rm -rf "$folder.new/archives"
    # What the installation of the package would link.
    for package in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
      [ -e "$folder.new/usr/sbin/$package" ] || ln -s xtables-nft-multi "$folder.new/usr/sbin/$package"
    done
    libraries="$folder.new/usr/lib/$(uname -m)-linux-gnu"
    for package in usr/bin/podman usr/lib/podman/netavark usr/sbin/iptables; do
      LD_LIBRARY_PATH=$libraries "$folder.new/$package" --version >&2 || { echo "$package of Debian's packages does not start here" >&2; exit 3; }
    done
    mv "$folder.new" "$folder"
  fi
  echo "$folder"
}

fetch_podman() {
  apt-get -qq -y --download-only --no-install-recommends -o Dir::Cache::archives="$1" install podman netavark aardvark-dns iptables >&2
}

# Unpacked with all libraries that the machine lacks; one that is installed is used where it is.
chromium() {
  local found folder="$cache/chromium"
  found=$(type -P chromium || true)
  if [ -n "$found" ]; then
    echo "$found"
    return
  fi
  exec 9>"$cache/chromium.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -x "$folder/bin/chromium" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "chromium is not installed, and there is no apt-get to fetch it with" >&2; exit 3; }
    rm -rf "$folder"
    mkdir -p "$folder/archives/partial" "$folder/root" "$folder/bin"
    fetch_chromium "$folder/archives" || { apt-get update >&2 && fetch_chromium "$folder/archives"; } ||
      { echo "chromium is not installed, and its Debian packages could not be fetched (see above)" >&2; exit 3; }
    local package
    for package in "$folder/archives"/*.deb; do dpkg -x "$package" "$folder/root"; done
    rm -rf "$folder/archives"
    # Not the shell script of Debian, which knows the folders of an installed one only. The library of PulseAudio looks for its other half in such a folder, too.
    local libraries="$folder/root/usr/lib/$(uname -m)-linux-gnu"
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$libraries:$libraries/pulseaudio" "$folder/root/usr/lib/chromium/chromium" >"$folder/bin/chromium"
    chmod +x "$folder/bin/chromium"
    "$folder/bin/chromium" --version >&2 || { rm -rf "$folder"; echo "chromium of Debian's packages does not start here" >&2; exit 3; }
  fi
  echo "$folder/bin/chromium"
}

fetch_chromium() {
  apt-get -qq -y --download-only --no-install-recommends -o Dir::Cache::archives="$1" install chromium fonts-dejavu-core >&2
}

# Of any processor, whatever this machine has: apt keeps lists of its own for it.
libatomic() {
  local architecture=$1 folder="$cache/libatomic-$1" apt base
  exec 9>"$folder.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -d "$folder" ]; then
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "libatomic1 comes from Debian's packages, and there is no apt-get" >&2; exit 3; }
    rm -rf "$folder.new"
    mkdir -p "$folder.new/lists/partial" "$folder.new/root"
    apt=(apt-get -qq -o APT::Sandbox::User=root -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture"
      -o "Dir::State::lists=$folder.new/lists" -o Acquire::Languages=none)
    (
      cd "$folder.new"
      "${apt[@]}" update && "${apt[@]}" download "libatomic1:$architecture" || exit
      # The licence is in the package that all libraries of GCC share.
      base=$(dpkg-deb -f libatomic1_*.deb Depends | grep -o 'gcc-[0-9]*-base')
      "${apt[@]}" download "$base:$architecture" && dpkg-deb -f libatomic1_*.deb Version >version
    ) >&2 || { echo "Debian's package libatomic1 for $architecture could not be fetched (see above)" >&2; exit 3; }
    local package
    for package in "$folder.new"/*.deb; do dpkg-deb -x "$package" "$folder.new/root"; done
    cp -L "$folder.new"/root/usr/lib/*/libatomic.so.1 "$folder.new/"
    cp "$folder.new"/root/usr/share/doc/gcc-*-base/copyright "$folder.new/"
    rm -r "$folder.new"/*.deb "$folder.new/lists" "$folder.new/root"
    mv "$folder.new" "$folder"
  fi
  echo "$folder"
}

# Preloaded into a program, whose system clock is wrong then.
faketime() {
  local folder="$cache/faketime" library
  library=usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1
  if [ -f "/$library" ]; then
    echo "/$library"
    return
  fi
  exec 9>"$cache/faketime.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -f "$folder/$library" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "libfaketime is not installed, and there is no apt-get to fetch it with" >&2; exit 3; }
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    fetch_faketime "$folder.new" || { apt-get update >&2 && fetch_faketime "$folder.new"; } ||
      { echo "libfaketime is not installed, and Debian's package could not be fetched (see above)" >&2; exit 3; }
    dpkg -x "$folder.new"/*.deb "$folder.new"
    rm "$folder.new"/*.deb
    mv "$folder.new" "$folder"
  fi
  echo "$folder/$library"
}

fetch_faketime() {
  (cd "$1" && apt-get -qq -o APT::Sandbox::User=root download libfaketime >&2)
}

# unpacked PROGRAM PACKAGE: the system's program, else the one of Debian's package, unpacked with all libraries that the machine lacks.
unpacked() {
  local program=$1 package=$2 found folder="$cache/$1"
  found=$(type -P "$program" || true)
  if [ -n "$found" ]; then
    echo "$found"
    return
  fi
  exec 9>"$folder.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -x "$folder/bin/$program" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "$program is not installed, and there is no apt-get to fetch it with" >&2; exit 3; }
    rm -rf "$folder"
    mkdir -p "$folder/archives/partial" "$folder/root" "$folder/bin"
    fetch_package "$folder/archives" "$package" || { apt-get update >&2 && fetch_package "$folder/archives" "$package"; } ||
      { echo "$program is not installed, and Debian's package $package could not be fetched (see above)" >&2; exit 3; }
    local archive
    for archive in "$folder/archives"/*.deb; do dpkg -x "$archive" "$folder/root"; done
    rm -r "$folder/archives"
    printf '#!/bin/sh\nRPM_CONFIGDIR=%q LD_LIBRARY_PATH=%q exec %q "$@"\n' "$folder/root/usr/lib/rpm" "$folder/root/usr/lib/$(uname -m)-linux-gnu" "$(ls "$folder"/root/usr/{bin,sbin}/"$program" 2>/dev/null)" >"$folder/bin/$program"
    chmod +x "$folder/bin/$program"
  fi
  echo "$folder/bin/$program"
}

fetch_package() {
  apt-get -qq -y --download-only --no-install-recommends -o APT::Sandbox::User=root -o Dir::Cache::archives="$1" install "$2" >&2
}

# several TOOL...: installs what this machine can have. A suite that needs another one asks for it again, and is told why.
several() {
  local tool
  for tool in "$@"; do "$0" "$tool" || true; done
}

if [ $# -gt 1 ]; then
  several "$@"
  exit
fi
case "${1:-}" in
  ziti) ziti v1.6.0 ;;
  ziti-unversioned) ziti v0.0.0 ;;
  posture-client | link-relay) own_program "peers/$1" ;;
  nft) nft ;;
  kubernetes) kubernetes ;;
  etcd) cluster_tools etcd . "-s -w" go.etcd.io/etcd/server/v3 ;;
  coredns | helm | kubeconform) "$1" ;;
  pod | health) own_program "cluster/programs/$1" ;;
  gitops-crds) gitops_crds ;;
  containerd) containerd ;;
  podman) podman ;;
  faketime) faketime ;;
  nfpm) nfpm ;;
  minisign | rpm | pgbouncer) unpacked "$1" "$1" ;;
  libatomic-*) libatomic "${1#libatomic-}" ;;
  chromium) chromium ;;
  all) several nft ziti ziti-unversioned link-relay posture-client containerd podman chromium minisign rpm pgbouncer faketime libatomic-amd64 libatomic-arm64 gitops-crds pod nfpm kubeconform health etcd coredns kubernetes helm ;;
  *) echo "usage: $0 all|nft|ziti|ziti-unversioned|posture-client|link-relay|kubernetes|etcd|coredns|pod|health|gitops-crds|helm|kubeconform|containerd|podman|nfpm|minisign|rpm|pgbouncer|faketime|libatomic-amd64|libatomic-arm64|chromium" >&2; exit 2 ;;
esac
