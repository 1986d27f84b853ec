import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { expect, test, vi } from "vitest";
import { clusterAt } from "../client/cluster.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { KINDS, type KubeObject, keyOf } from "../kinds.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import type { Fault } from "../testing/faults.ts";
import { Reflector } from "./reflector.ts";

const kind = KINDS.ConfigMap;
const FAULTS: readonly Fault[] = [
  { kind: "status", code: 500 },
  { kind: "status", code: 410, reason: "Expired" },
  { kind: "status", code: 429, reason: "TooManyRequests" },
  { kind: "text", code: 502, text: "proxy" },
  { kind: "text", code: 200, text: "<html>" },
  { kind: "cut", lost: "request" },
  { kind: "cut", lost: "answer" },
  { kind: "half-answer" },
  { kind: "stream", afterEvents: 0, ends: "end" },
  { kind: "stream", afterEvents: 1, ends: "cut" },
  { kind: "stream", afterEvents: 1, ends: "half-line" },
  { kind: "stream", afterEvents: 2, ends: "bad-line" },
  { kind: "stream", afterEvents: 1, ends: { code: 410, reason: "Expired" } },
  { kind: "stream", afterEvents: 0, ends: { code: 504, reason: "Timeout" } },
];

/** Numbers in 0..1 that a seed decides (a linear congruence is enough here). */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test.each([1, 2, 3, 4])("whatever goes wrong, what is told adds up to what there is (seed %d)", async (seed) => {
  const random = chance(seed);
  const pick = <V>(values: readonly V[]): V => values[Math.floor(random() * values.length)] as V;
  const server = await FakeApiServer.start();
  const client = new HttpKubeClient(clusterAt(server.url));
  const stop = new AbortController();
  /** What a listener knows that only hears the changes. */
  const heard = new Map<string, KubeObject>();
  const contradictions: string[] = [];
  const reflector = new Reflector<KubeObject>(client, kind, {
    namespaces: ["one", "two"],
    log: new RecordingLogger(),
    backoff: { firstMs: 1, maxMs: 10 },
    on: ({ type, object, previous }) => {
      const key = keyOf(object);
      const known = heard.get(key);
      if (known !== previous) contradictions.push(`${type} ${key}: another state was there before`);
      if (type === "set" && known !== undefined && known.metadata.uid !== object.metadata.uid)
        contradictions.push(`${key}: no delete`);
      if (type === "set") heard.set(key, object);
      else heard.delete(key);
    },
  });
  const running = reflector.start(stop.signal);
  for (let step = 0; step < 400; step += 1) {
    const target = { kind, namespace: pick(["one", "two"]), name: pick(["a", "b", "c", "d", "e"]) };
    const there = server.read(target) !== undefined;
    if (there && random() < 0.4) server.remove(target);
    else
      server.put(kind, {
        metadata: { namespace: target.namespace, name: target.name },
        data: { step: String(step) },
      });
    const what = random();
    if (what < 0.1) server.inject({ path: "configmaps", fault: pick(FAULTS) });
    else if (what < 0.15) server.cutWatches();
    else if (what < 0.2) server.endWatches();
    else if (what < 0.25) server.compact();
    else if (what < 0.3) server.sendBookmarks();
    if (random() < 0.3) await new Promise((resolve) => setTimeout(resolve, random() * 5));
  }
  server.faults.clear();
  const versions = (objects: Iterable<KubeObject>): string[] =>
    [...objects].map((object) => `${keyOf(object)} ${object.metadata.uid} ${object.metadata.resourceVersion}`).sort();
  const served = server.store.served(kind.group, kind.version, kind.plural);
  const there = server.store.list(served!) as unknown as KubeObject[];
  await vi.waitFor(() => expect(versions(reflector.store.values())).toEqual(versions(there)), {
    timeout: 15_000,
    interval: 10,
  });
  expect(versions(heard.values())).toEqual(versions(there));
  expect(contradictions).toEqual([]);
  stop.abort();
  await running;
  await client.close();
  await server.close();
});
