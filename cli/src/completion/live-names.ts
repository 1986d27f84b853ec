/** Names of entities of the network, for shells. Nothing is asked and nothing is reported: without an answer there are none. */
import type { CommandContext } from "../context.ts";
import { titleOf } from "../entities/entity.ts";
import { quoted } from "../entities/filter-text.ts";
import { listEntities, listPath } from "../entities/list.ts";
import type { Kind } from "../kinds/kind.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import { withNetwork } from "../network/open-network.ts";

/** A user waits at the keyboard. */
const TIMEOUT_MS = 2_000;
const MAX_NAMES = 200;
/** Kinds whose entities have role attributes, which the API lists. */
const WITH_ATTRIBUTES = ["identity", "service", "edge-router", "posture-check"];

export interface Asked {
  readonly network: string | undefined;
  /** What the user has typed of the name. */
  readonly begin: string;
}

export async function namesLike(kind: Kind, { network, begin }: Asked, context: CommandContext): Promise<string[]> {
  const field = kind.hasName ? "name" : "id";
  const filter = begin === "" || !kind.isPaged ? undefined : `${field} contains ${quoted(begin)}`;
  const found = await quietly(network, context, async (caller) =>
    (await listEntities(kind, { filter, limit: MAX_NAMES }, caller)).map(titleOf),
  );
  return found.filter((name) => name !== "" && name.startsWith(begin));
}

/** Role attributes that are in use. */
export async function attributesLike(
  kind: string,
  { network, begin }: Asked,
  context: CommandContext,
): Promise<string[]> {
  if (!WITH_ATTRIBUTES.includes(kind)) return [];
  const list = { plural: "role attributes", isPaged: true, hasName: false };
  const found = await quietly(network, context, async (caller) => {
    const path = `${MANAGEMENT_API}/${kind}-role-attributes`;
    return (await listPath(path, list, { limit: MAX_NAMES }, caller)).map(String);
  });
  return found.filter((attribute) => attribute.startsWith(begin));
}

async function quietly(
  network: string | undefined,
  context: CommandContext,
  work: (caller: Parameters<typeof listEntities>[2]) => Promise<string[]>,
): Promise<string[]> {
  // A login that would ask the user is none here.
  const stdin = { ...context.stdin, isTTY: false } as unknown as NodeJS.ReadStream;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const quiet = { ...context, stdin, signal, stderr: { write: () => undefined } };
  try {
    return await withNetwork(network, quiet, async ({ caller }) => await work(caller));
  } catch {
    return [];
  }
}
