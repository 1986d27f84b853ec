import { ApiError } from "@sallyport/api/client";
import { silentLogger } from "@sallyport/wire";
import { afterEach, expect, test } from "vitest";
import { NetworkNotReadyError } from "../../controller-client/errors.ts";
import type { KubeObject, ObjectKey } from "../../kube/kinds.ts";
import type { AnyResource } from "../../loop/kind-reconciler.ts";
import { followHosting } from "./hosting-watch.ts";

const PATIENT = { timeout: 20_000 };
const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

interface Terminator {
  readonly id: string;
  readonly serviceId: string;
}

/** A network with these terminators, the newest last; `asked` are its requests. */
class Network {
  terminators: Terminator[] = [];
  readonly asked: string[] = [];
  sorts = true;
  hangs = false;

  async listTerminators({ query }: { query: { limit: number; offset?: number; filter?: string } }) {
    const { limit, filter } = query;
    this.asked.push(filter ?? `all ${limit}`);
    if (this.hangs) await new Promise(() => {});
    if (filter !== undefined && !this.sorts) {
      throw new ApiError(400, "INVALID_FILTER", "no");
    }
    const data = filter === undefined ? this.terminators.slice(0, limit) : this.terminators.slice(-limit);
    return { data, meta: { pagination: { totalCount: this.terminators.length } } };
  }

  get counts(): number {
    return this.asked.filter((query) => query === "all 500").length;
  }
}

const service = (name: string, status: object, network = "main") =>
  ({
    kind: "OverlayService",
    metadata: { namespace: "edge", name },
    spec: { networkRef: { name: network } },
    status,
  }) as unknown as AnyResource & KubeObject;

function follow(networks: Readonly<Record<string, Network | undefined>>, services: (AnyResource & KubeObject)[]) {
  const woken: ObjectKey[] = [];
  const stop = new AbortController();
  const forNetwork = ({ name }: { name: string }) => {
    const client = networks[name];
    if (client === undefined) throw new NetworkNotReadyError("NetworkNotFound", "away");
    return { client, settings: {} };
  };
  const running = followHosting(
    {
      networks: { forNetwork } as never,
      known: { resources: <R extends AnyResource>() => services as unknown as R[] },
      signal: stop.signal,
      log: silentLogger,
      wake: (key) => void woken.push(key),
    },
    { askMs: 2 },
  );
  stops.push(async () => {
    stop.abort();
    for (const network of Object.values(networks)) if (network?.hangs) return;
    await running;
  });
  return woken;
}

test("wakes services whose terminators came or went, and counts only when something changed", async () => {
  const network = new Network();
  const services = [service("web", { id: "s1", terminators: 0 }), service("ssh", { id: "s2", terminators: 1 })];
  network.terminators = [{ id: "t0", serviceId: "s2" }];
  const woken = follow({ main: network }, services);
  await expect.poll(() => network.asked.length, PATIENT).toBeGreaterThan(5);
  expect(woken).toEqual([]);
  expect(network.counts).toBe(1);

  network.terminators = [...network.terminators, { id: "t1", serviceId: "s1" }];
  await expect.poll(() => woken, PATIENT).toEqual(["edge/web"]);
  services[0] = service("web", { id: "s1", terminators: 1 });
  const before = network.asked.length;
  await expect.poll(() => network.asked.length, PATIENT).toBeGreaterThan(before + 5);
  expect(woken).toEqual(["edge/web"]);
  expect(network.counts).toBe(2);

  network.terminators = [{ id: "t1", serviceId: "s1" }];
  await expect.poll(() => woken, PATIENT).toEqual(["edge/web", "edge/ssh"]);
});

test("asks nothing of networks without an OverlayService, and goes by the number where a server does not sort", async () => {
  const [network, other] = [new Network(), new Network()];
  network.sorts = false;
  const woken = follow({ main: network, other }, [service("web", { id: "s1" }), service("new", {}, "other")]);
  await expect.poll(() => network.counts, PATIENT).toBe(1);
  network.terminators = [{ id: "t1", serviceId: "s1" }];
  await expect.poll(() => woken, PATIENT).toEqual(["edge/web"]);
  expect(other.asked).toEqual([]);
});

test("a network that hangs or is away keeps no other waiting", async () => {
  const [slow, network] = [new Network(), new Network()];
  slow.hangs = true;
  network.terminators = [{ id: "t1", serviceId: "s1" }];
  const services = [service("a", { id: "s1" }, "slow"), service("b", { id: "s1" }, "away"), service("c", { id: "s1" })];
  const woken = follow({ slow, main: network, away: undefined }, services);
  await expect.poll(() => woken, PATIENT).toEqual(["edge/c"]);
  expect(slow.asked).toHaveLength(1);
});
