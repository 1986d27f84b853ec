import type { ChildProcess } from "node:child_process";

/** How a server is started and stopped, so that it does not outlive this process. */
export interface Guard {
  readonly command: string;
  readonly args: readonly string[];
  /** Asks the started server for a fast shutdown: connections are ended, the data written. */
  stop(child: ChildProcess): void;
}

// PostgreSQL must end when we are killed, and must not see the Ctrl-C of our terminal: a small shell in a session of its own
// holds our pipe, and stops the server when it closes.
const SCRIPT = `exec 3<&0
"$@" 3<&- </dev/null &
server=$!
{ read -r _ <&3; kill -INT "$server"; } 2>/dev/null &
guard=$!
exec 3<&-
wait "$server"
status=$?
kill "$guard" 2>/dev/null
exit "$status"`;

/**
 * @param env of this process. `SALLYPORT_CONTAINER=1` says that it is alone in a container, which ends with it and all that it started, and that there is
 *   no shell (docs/images.md, "The controller's PostgreSQL")
 */
export function guarded(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Guard {
  if (env.SALLYPORT_CONTAINER === "1") return { command: program, args, stop: (child) => child.kill("SIGINT") };
  return {
    command: "/bin/sh",
    args: ["-c", SCRIPT, "sh", program, ...args],
    stop: (child) => child.stdin?.end(),
  };
}
