/** What a machine that has joined a network keeps. */
import { join } from "node:path";
import { CommandError } from "../../errors.ts";
import { readOwn, writeOwn } from "../../network/own-files.ts";

export interface JoinedState {
  readonly kind: "identity" | "router";
  /** `https://host:port` */
  readonly network: string;
  /** Id of the identity or router. */
  readonly subject: string;
  /** The token was redeemed. */
  readonly isEnrolled: boolean;
  /** Ports of this machine that lead to services, by `service` or `service:udp`. */
  readonly ports: Readonly<Record<string, number>>;
  /** Where a router is reached. */
  readonly host?: string;
  readonly routerPort?: number;
  /** Host names of services that were written into the hosts file. */
  readonly names: readonly string[];
}

/** The first file of a folder. */
export const JOINED_FILE = "joined.json";

/** @throws CommandError for a file that cannot be used */
export async function readJoined(folder: string): Promise<JoinedState | undefined> {
  const file = join(folder, JOINED_FILE);
  const text = await readOwn(file);
  if (text === undefined) return undefined;
  try {
    const { kind, network, subject, isEnrolled, ports, names, host, routerPort } = JSON.parse(
      text,
    ) as Partial<JoinedState>;
    const isKind = kind === "identity" || kind === "router";
    if (isKind && typeof network === "string" && typeof subject === "string") {
      const router = { ...(host !== undefined && { host }), ...(routerPort !== undefined && { routerPort }) };
      const reached = { ports: ports ?? {}, names: names ?? [] };
      return { kind, network, subject, isEnrolled: isEnrolled === true, ...reached, ...router };
    }
  } catch {
    // Said below.
  }
  throw new CommandError(
    `${file} does not say what has joined: restore it, or join again with a new token and another folder (--dir DIR)`,
  );
}

export async function writeJoined(folder: string, state: JoinedState): Promise<void> {
  await writeOwn(join(folder, JOINED_FILE), `${JSON.stringify(state, undefined, 2)}\n`);
}
