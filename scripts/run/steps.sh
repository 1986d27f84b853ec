# Sourced by .ci/run and scripts/run/verify.sh: runs steps one after the other and adds up what they report.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CI=true

reports=$(mktemp -d)
steps=()      # the names of all steps, in the order of their start
lane=()       # process ids of what runs in the background
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

# beside FUNCTION STEP...: runs a function, which has these steps, in the background. Its output appears in one piece, when it ends.
beside() {
  local run=$1
  shift
  steps+=("$@")
  {
    "$run" >"$reports/$run.log" 2>&1
    cat "$reports/$run.log"
  } &
  lane+=($!)
}

# wait_beside: waits for all of them.
wait_beside() {
  wait "${lane[@]}"
}

# build_tools TOOL...: builds tools in the background.
build_tools() {
  {
    scripts/install-tools.sh "$@" >"$reports/tools.log" 2>&1
    echo $? >"$reports/tools.done"
  } &
  tools=$!
}

# need_tools: waits for them, also in the background. Without this step a suite would count the time of a build as its own.
need_tools() {
  step tools tools_built
}

tools_built() {
  until [ -e "$reports/tools.done" ]; do sleep 1; done
  return "$(cat "$reports/tools.done")"
}

node_26() {
  PATH="$PWD/node_modules/.bin:$PATH" node "$@"
}

# close_run: prints every failure, second try and reason of a skip, and the closing line. Returns 1 when anything failed.
close_run() {
  echo
  node_26 scripts/run/closing-line.ts "$reports" "${steps[@]}"
}
