import { execFile } from "node:child_process";
import { InterceptError } from "../interceptor.ts";

/** Where `ip` and `nft` are on hosts that leave them out of the PATH of services. */
const SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";
const TIME_LIMIT_MS = 20_000;
const PACKAGES: Readonly<Record<string, string>> = { ip: "iproute2", nft: "nftables", iptables: "iptables" };

/**
 * Runs a program of the host to its end and resolves with what it printed.
 * @throws InterceptError `NO_PROGRAM`, `NOT_PERMITTED` or `COMMAND_FAILED`, with the program's words and what to do
 */
export async function runOnHost(program: string, args: readonly string[], input?: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const env = { ...process.env, PATH: `${process.env.PATH ?? ""}:${SYSTEM_FOLDERS}`, LC_ALL: "C" };
    const options = { timeout: TIME_LIMIT_MS, maxBuffer: 64 * 1024 * 1024, env };
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(failure(program, args, error, stderr.trim()));
    });
    // A program that ends before it has read everything says why on its own.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input ?? "");
  });
}

function failure(
  program: string,
  args: readonly string[],
  cause: Error & { code?: unknown },
  words: string,
): InterceptError {
  const what = `${program} ${args.join(" ")}`;
  // EACCES: a program of that name is somewhere on the PATH, but not for this user.
  if (cause.code === "ENOENT" || cause.code === "EACCES") {
    const advice = `install the package ${PACKAGES[program] ?? program}`;
    return new InterceptError("NO_PROGRAM", `the program ${program} is not on this host: ${advice}`, { cause });
  }
  if (/operation not permitted|permission denied|must be root/i.test(words)) {
    const advice = "run as root or give the process the capability CAP_NET_ADMIN";
    return new InterceptError("NOT_PERMITTED", `"${what}" is not permitted: ${advice}`, { cause });
  }
  return new InterceptError("COMMAND_FAILED", `"${what}" failed: ${words === "" ? cause.message : words}`, { cause });
}
