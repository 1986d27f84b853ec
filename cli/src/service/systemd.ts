/** The service manager of this machine. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { CommandContext } from "../context.ts";
import { CommandError } from "../errors.ts";
import type { Scope } from "./unit.ts";

/** Why systemd cannot be told; undefined where it runs. */
export function whyNotManaged(
  scope: Scope,
  { PATH: path, XDG_RUNTIME_DIR: runtime }: NodeJS.ProcessEnv,
): string | undefined {
  const socket = scope === "system" ? "/run/systemd/system" : runtime ? join(runtime, "systemd") : undefined;
  if (socket === undefined || !existsSync(socket))
    return scope === "system" ? "systemd does not run here" : "the systemd of this user does not run here";
  const isThere = (path ?? "").split(":").some((folder) => existsSync(join(folder, "systemctl")));
  return isThere ? undefined : "there is no program systemctl";
}

/** The command line of `systemctl`, as a user would write it. */
export function systemctl(scope: Scope, ...args: readonly string[]): readonly string[] {
  return ["systemctl", ...(scope === "user" ? ["--user"] : []), ...args];
}

/** Runs a program that is done in an instant. @throws CommandError with what it said */
export function runNow([program = "", ...args]: readonly string[], env: CommandContext["env"]): void {
  const { status, stderr, error } = spawnSync(program, args, {
    encoding: "utf8",
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  if (status === 0) return;
  const why = error?.message ?? stderr.trim().split("\n").at(-1) ?? "";
  throw new CommandError(`'${[program, ...args].join(" ")}' failed: ${why || `status ${status}`}`);
}
