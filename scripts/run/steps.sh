# Sourced by .ci/run and scripts/run/verify.sh: runs steps one after the other and adds up what they report.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CI=true

reports=$(mktemp -d)
steps=()      # the names of all steps, in the order of their start
lane=()       # process ids of the steps that run in the background
tools=        # process id of the build of the tools
trap 'kill "${lane[@]}" $tools 2>/dev/null; rm -rf "$reports"' EXIT

# step NAME COMMAND...: runs the command, and keeps its exit code, its seconds and the report of its test runner.
step() {
  steps+=("$1")
  run_step "$@"
}

# suite NAME TARGET [VARIABLE=VALUE...]: a step that runs a make target. Whole-system test files that fail run once more.
suite() {
  local name=$1 target=$2 files began=$SECONDS
  shift 2
  step "$name" make "$target" "$@"
  [ "$(cut -d ' ' -f 1 "$reports/$name.exit")" = 0 ] && return
  files=$(node_26 scripts/run/second-try.ts "$reports/$name.json" | tr '\n' ' ')
  [ -n "$files" ] || return
  echo "=== $name: second try of $files"
  run_step "$name.second" make "$target" "$@" FILES="$files"
  echo "$(cut -d ' ' -f 1 "$reports/$name.second.exit") $((SECONDS - began))" >"$reports/$name.exit"
}

run_step() {
  local name=$1 began=$SECONDS
  shift
  echo
  echo "=== $name: $*"
  SALLYPORT_REPORT="$reports/$name.json" "$@" </dev/null
  echo "$? $((SECONDS - began))" >"$reports/$name.exit"
}

# beside step|suite NAME ...: runs it in the background, one at a time. Its output appears in one piece, when it ends.
beside() {
  steps+=("$2")
  {
    flock 8
    "$@" >"$reports/$2.log" 2>&1
    cat "$reports/$2.log"
  } 8>"$reports/beside.lock" &
  lane+=($!)
}

# wait_beside: waits for all of them.
wait_beside() {
  wait "${lane[@]}"
}

# build_tools TOOL...: builds tools in the background, on processor time that nothing else wants.
build_tools() {
  local idle=(nice -n 19)
  if command -v chrt >/dev/null; then idle=(chrt --idle 0); fi
  "${idle[@]}" scripts/install-tools.sh "$@" >"$reports/tools.log" 2>&1 &
  tools=$!
}

# need_tools: waits for them. Without this step a suite would wait for a build that has no processor time.
need_tools() {
  step tools wait "$tools"
}

node_26() {
  PATH="$PWD/node_modules/.bin:$PATH" node "$@"
}

# close_run: prints every failure, second try and reason of a skip, and the closing line. Returns 1 when anything failed.
close_run() {
  echo
  node_26 scripts/run/closing-line.ts "$reports" "${steps[@]}"
}
