import { ApiError, listAll, type ManagementClient } from "@sallyport/api/client";
import { pause } from "@sallyport/async";
import type { OverlayServiceResource } from "@sallyport/resources";
import { NetworkNotReadyError } from "../../controller-client/errors.ts";
import type { NetworkRef } from "../../controller-client/network-clients.ts";
import { keyOf } from "../../kube/kinds.ts";
import type { FollowContext } from "../../loop/kind-reconciler.ts";

/** A network is asked so often: with the look that follows `hosted` is right within five seconds. */
const ASK_MS = 3_000;
/** Of many networks each is asked more rarely: together they take so much of a processor and no more. */
const EACH_MS = 300;
/** So many times as long as it took to count them all, they are not counted again. */
const SPACING = 20;

/** A terminator that comes is the newest one; one that goes changes the number of all. */
const NEWEST = { limit: 1, filter: "true sort by createdAt desc" };
const NUMBER = { limit: 1 };

interface Seen {
  readonly client: ManagementClient;
  /** Undefined: terminators were not counted yet, or the count failed. */
  readonly mark?: string | undefined;
  /** By the monotonic clock, milliseconds. */
  readonly countedUntil: number;
}

interface HostingTimes {
  readonly askMs: number;
}

/**
 * Follows whether services are hosted. A network does not announce terminators, so the operator asks each network for its newest terminator and their
 * number. When that changes, it counts the terminators and wakes the services whose status is out of date.
 */
export async function followHosting(
  context: FollowContext,
  { askMs }: HostingTimes = { askMs: ASK_MS },
): Promise<void> {
  const { known, signal, log } = context;
  const seen = new Map<string, Seen>();
  const underWay = new Map<string, Promise<void>>();
  while (!signal.aborted) {
    const networks = networksOf(known.resources<OverlayServiceResource>("OverlayService"));
    for (const key of seen.keys()) if (!networks.has(key)) seen.delete(key);
    for (const [key, ref] of networks) {
      // One that hangs keeps no other waiting.
      if (underWay.has(key)) continue;
      const asking = checkNetwork(ref, key, seen, context)
        .catch((error: unknown) => {
          const isAway = signal.aborted || error instanceof NetworkNotReadyError;
          if (!isAway) log.debug({ err: error, network: key }, "who hosts services was not told");
        })
        .finally(() => underWay.delete(key));
      underWay.set(key, asking);
    }
    await pause(Math.max(askMs, EACH_MS * networks.size), signal);
  }
  await Promise.all(underWay.values());
}

function networksOf(services: readonly OverlayServiceResource[]): Map<string, NetworkRef> {
  const refs = services.flatMap(({ metadata: { namespace }, spec, status }) =>
    status.id === undefined ? [] : [{ namespace, name: spec.networkRef.name }],
  );
  return new Map(refs.map((ref) => [`${ref.namespace}/${ref.name}`, ref]));
}

async function checkNetwork(
  ref: NetworkRef,
  key: string,
  seen: Map<string, Seen>,
  { networks, known, wake, signal }: FollowContext,
): Promise<void> {
  const { client } = networks.forNetwork(ref);
  const before = seen.get(key);
  const last = before?.client === client ? before : undefined;
  if (last !== undefined && performance.now() < last.countedUntil) return;
  const mark = await markOf(client, signal);
  if (mark === last?.mark) return;
  const began = performance.now();
  const counts = await countsOf(client, signal);
  const ended = performance.now();
  seen.set(key, { client, mark, countedUntil: ended + SPACING * (ended - began) });
  for (const service of known.resources<OverlayServiceResource>("OverlayService", ref.namespace)) {
    const { id, terminators } = service.status;
    if (service.spec.networkRef.name !== ref.name || id === undefined) continue;
    if ((counts.get(id) ?? 0) !== (terminators ?? 0)) wake(keyOf(service));
  }
}

async function markOf(client: ManagementClient, signal: AbortSignal): Promise<string> {
  try {
    return markIn(await client.listTerminators({ query: NEWEST }, { signal }));
  } catch (error) {
    // A server that does not sort tells the number at least.
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    return markIn(await client.listTerminators({ query: NUMBER }, { signal }));
  }
}

const markIn = ({ data, meta }: Awaited<ReturnType<ManagementClient["listTerminators"]>>): string =>
  `${meta.pagination.totalCount} ${data[0]?.id}`;

async function countsOf(client: ManagementClient, signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  const all = await listAll((query) => client.listTerminators({ query }, { signal }));
  for (const { serviceId } of all) counts.set(serviceId, (counts.get(serviceId) ?? 0) + 1);
  return counts;
}
