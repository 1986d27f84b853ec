import { silentLogger } from "@sallyport/wire";
import { afterEach, expect, test, vi } from "vitest";
import { clusterAt } from "../client/cluster.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { KINDS, type KubeObject } from "../kinds.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { Elector, LeadershipLostError, leaderCheck, leaderClient } from "./elector.ts";

const configMap = (name: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace: "edge", name },
  data: {},
});
const ref = (name: string) => ({ kind: KINDS.ConfigMap, namespace: "edge", name });

afterEach(() => {
  vi.restoreAllMocks();
});

/** As for a process that is not given the processor for so long: no timer of it fires before it goes on. */
function sleepThrough(ms: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => now() + ms);
}

/** What becomes of a leader's writes, the first of which is made before it sleeps for so long. */
async function writesAround(
  sleepMs: number,
  times: { readonly leaseDurationMs: number; readonly renewDeadlineMs: number },
) {
  const server = await FakeApiServer.start();
  const client = new HttpKubeClient(clusterAt(server.url));
  const o = {
    client,
    namespace: "edge",
    name: "operator",
    identity: "one",
    log: silentLogger,
    retryPeriodMs: 50,
    ...times,
  };
  const elector = new Elector(o);
  const check = leaderCheck(() => elector.mayAct);
  const writing = leaderClient(client, check);
  const wrote: (string | Error)[] = [];
  const attempt = async (what: string, write: () => Promise<unknown>): Promise<void> => {
    await write().then(
      () => wrote.push(what),
      (error: Error) => wrote.push(error),
    );
  };
  let isLeader: boolean | undefined;
  const run = elector.run(async () => {
    await attempt("first", () => writing.create(configMap("first")));
    sleepThrough(sleepMs);
    isLeader = elector.isLeader;
    await attempt("second", () => writing.create(configMap("second")));
    await attempt("patch", () => writing.patch(ref("first"), { data: { a: "b" } }));
    await attempt("delete", () => writing.delete(ref("first")));
  }, new AbortController().signal);
  await run.catch(() => {});
  const found = [await writing.get<KubeObject>(ref("first")), await writing.get(ref("second"))];
  await client.close();
  await server.close();
  return { wrote, found, isLeader };
}

const lost = expect.any(LeadershipLostError);

test("a leader that wakes up after its lease is over writes nothing any more, in the middle of its work", async () => {
  const times = { leaseDurationMs: 30_000, renewDeadlineMs: 20_000 };
  const { wrote, found, isLeader } = await writesAround(31_000, times);
  expect(isLeader).toBe(false);
  expect(wrote).toEqual(["first", lost, lost, lost]);
  expect(found).toMatchObject([{ data: {} }, undefined]);
});

test("what is begun has the rest of the lease to arrive: a leader begins nothing once it should have renewed it", async () => {
  const times = { leaseDurationMs: 60_000, renewDeadlineMs: 20_000 };
  const { wrote, isLeader } = await writesAround(25_000, times);
  expect(isLeader).toBe(true);
  expect(wrote).toEqual(["first", lost, lost, lost]);
});

test("a write that the server has put off is not sent again by a process that may not act any more", async () => {
  const server = await FakeApiServer.start();
  const client = new HttpKubeClient(clusterAt(server.url));
  server.inject({ method: "POST", fault: { kind: "status", code: 429, retryAfterSeconds: 0 } });
  let leave = 1;
  const writing = leaderClient(
    client,
    leaderCheck(() => leave-- > 0),
  );
  await expect(writing.create(configMap("first"))).rejects.toThrow(LeadershipLostError);
  expect(server.requests.filter(({ method }) => method === "POST")).toHaveLength(1);
  leave = 2;
  server.inject({ method: "POST", fault: { kind: "status", code: 429, retryAfterSeconds: 0 } });
  await writing.create(configMap("first"));
  expect(await writing.get(ref("first"))).toMatchObject({ data: {} });
  await client.close();
  await server.close();
});
