/**
 * Runs a test suite in network, mount and process namespaces of its own:
 * `node e2e/namespaces/run.ts [CONFIG] [vitest arguments]`, CONFIG being `e2e/namespaces/vitest.config.ts` when it does not end in `.config.ts`.
 *
 * What the tests do to routes, addresses, packet filters and /run/netns is seen by no other process, and two runs at a time do
 * not meet; when the runner ends, in whatever way, the kernel ends all processes and removes everything else.
 * Without root or without nft the suite still runs, but all of its tests are skipped with a message (`setup.ts`).
 */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..");
const SCRIPT = join(ROOT, "scripts", "install-tools.sh");

const [first, ...rest] = process.argv.slice(2);
const isConfig = first?.endsWith(".config.ts") === true;
const config = isConfig ? first : join(import.meta.dirname, "vitest.config.ts");
const vitest = ["vitest", "run", "--config", config, ...(isConfig || first === undefined ? rest : [first, ...rest])];

const found = obstacle();
const env: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: `${join(ROOT, "node_modules", ".bin")}:${found.path ?? ""}:${process.env.PATH}:/usr/sbin:/sbin`,
  ...(found.reason !== undefined && { SALLYPORT_NO_NAMESPACES: found.reason }),
};
// The first process of the new namespaces is a shell, as it buries processes whose parent has ended.
const inside = [
  "mount -t tmpfs -o size=1m tmpfs /run/netns || exit 70",
  "ip link set lo up || exit 70",
  "export SALLYPORT_IN_NAMESPACE=1",
  '"$@"',
  "exit $?",
].join("\n");
const [command = "", ...args] =
  found.reason === undefined
    ? [
        ...[
          "unshare",
          "--net",
          "--mount",
          "--propagation",
          "private",
          "--pid",
          "--fork",
          "--kill-child",
          "--mount-proc",
        ],
        ...["bash", "-c", inside, "namespaces", ...vitest],
      ]
    : vitest;
const child = spawn(command, args, { env, stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => child.kill("SIGKILL"));
child.once("error", (error) => {
  console.error(`${command} could not be started: ${error.message}`);
  process.exitCode = 1;
});
child.once("exit", (code, signal) => {
  if (signal !== null) console.error(`the suite was ended by ${signal}`);
  process.exitCode = code ?? 1;
});

/** Why the suite cannot run here, or where nft is. */
function obstacle(): { reason?: string; path?: string } {
  if (process.platform !== "linux")
    return { reason: `network namespaces are a thing of Linux, and this is ${process.platform}` };
  if (process.getuid?.() !== 0) return { reason: "only root may make network namespaces" };
  const nft = spawnSync(SCRIPT, ["nft"], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 });
  if (nft.status === 3) return { reason: nft.stderr.trim().split("\n").at(-1) ?? "nft cannot be had" };
  if (nft.status !== 0) throw new Error(`installing nft failed (exit code ${nft.status}):\n${nft.stderr}`);
  const attempt = spawnSync("bash", ["-c", "mkdir -p /run/netns && exec unshare --net --mount --pid --fork ip link"], {
    encoding: "utf8",
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
  });
  if (attempt.status !== 0) {
    const why = (attempt.error?.message ?? attempt.stderr).trim().split("\n").at(-1);
    return { reason: `no network namespace can be made here: ${why}` };
  }
  return { path: nft.stdout.trim() };
}
