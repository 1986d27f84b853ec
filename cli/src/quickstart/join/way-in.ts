/** How programs of this machine reach the services: by their names, or by ports of this machine. */
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { freePortFrom } from "../addresses.ts";
import type { ReachableService } from "./identity-session.ts";

/** For services that say no port, or one that only root may open. */
const FIRST_PORT = 8_000;
const NEEDED = ["ip", "nft"];
const NET_ADMIN = 1n << 12n;

/** Why connections cannot be intercepted on this machine; undefined where they can. */
export function whyNotIntercepted(env: NodeJS.ProcessEnv): string | undefined {
  if (process.platform !== "linux") return "this is not Linux";
  if (process.getuid?.() !== 0) return "this is not root";
  const [, capabilities = "0"] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  if ((BigInt(`0x${capabilities}`) & NET_ADMIN) === 0n) return "this program has no CAP_NET_ADMIN";
  const missing = NEEDED.find((program) => !isOnPath(program, env));
  return missing === undefined ? undefined : `there is no program '${missing}'`;
}

function isOnPath(program: string, env: NodeJS.ProcessEnv): boolean {
  return (env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

export interface LocalPort {
  readonly service: string;
  readonly protocol: "tcp" | "udp";
  readonly port: number;
}

/**
 * A port of this machine for each service and protocol: the one of an earlier run if it is free, that of the service, or the next free one.
 *
 * @param before by the keys of {@link portKey}
 * @throws CommandError when no port is free
 */
export async function localPorts(
  services: readonly ReachableService[],
  before: Readonly<Record<string, number>>,
): Promise<readonly LocalPort[]> {
  const ports: LocalPort[] = [];
  const wanted = services.flatMap(({ name, protocols, port }) =>
    protocols.map((protocol) => ({ service: name, protocol, port })),
  );
  const reserved = Object.values(before);
  for (const { service, protocol, port } of wanted) {
    const key = portKey(service, protocol);
    // Names of services are any text, such as `__proto__`.
    const own = Object.hasOwn(before, key) ? before[key] : undefined;
    const taken = [...reserved.filter((each) => each !== own), ...ports.map((each) => each.port)];
    ports.push({ service, protocol, port: await freePortNear(own ?? port, taken) });
  }
  return ports;
}

/** From the port on if a user may open it and one is free there, else from {@link FIRST_PORT} on: the network chooses the port. */
async function freePortNear(port: number | undefined, taken: readonly number[]): Promise<number> {
  if (port !== undefined && port >= 1_024) {
    const near = await freePortFrom(port, taken).catch(() => undefined);
    if (near !== undefined) return near;
  }
  return await freePortFrom(FIRST_PORT, taken);
}

/** Whether a command line of the tunneler can name the service: `SERVICE:PORT`. */
export function canHavePort({ name }: ReachableService): boolean {
  return !/[:\s\p{Cc}]/u.test(name);
}

export function portKey(service: string, protocol: "tcp" | "udp"): string {
  return protocol === "udp" ? `${service}:udp` : service;
}
