import { silentLogger } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { clusterAt } from "../client/cluster.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { KINDS, type KubeObject } from "../kinds.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { serverPerTest } from "../testing/server-per-test.ts";
import { Elector, type ElectorOptions, LeadershipLostError, type Lease, leaderCheck, leaderClient } from "./elector.ts";

const api = serverPerTest();

const ref = { kind: KINDS.Lease, namespace: "overlay", name: "sallyport" };
/** Renewed often and lost by no stall of the machine. */
const CALM = { leaseDurationMs: 60_000, renewDeadlineMs: 40_000, retryPeriodMs: 50 };
/** For what comes of a lease that ends. */
const SHORT = { leaseDurationMs: 1_000, renewDeadlineMs: 700, retryPeriodMs: 50 };

let ends: AbortController[];
let running: Promise<unknown>[];

beforeEach(async () => {
  ends = [];
  running = [];
});

afterEach(async () => {
  for (const end of ends) end.abort();
  await Promise.allSettled(running);
});

function lease(): Lease | undefined {
  return api.server.read<Lease>(ref);
}

/** Runs an elector whose work lasts until it is stopped. */
function elect(identity: string, o: Partial<ElectorOptions> & { linger?: Promise<void> } = {}) {
  const elector = new Elector({
    client: api.client,
    namespace: ref.namespace,
    name: ref.name,
    identity,
    log: new RecordingLogger(),
    ...CALM,
    ...o,
  });
  const end = new AbortController();
  ends.push(end);
  const work = { began: 0, ended: 0, reason: undefined as unknown };
  const done = elector.run(async (signal) => {
    work.began += 1;
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    work.reason = signal.reason;
    await o.linger;
    work.ended += 1;
  }, end.signal);
  running.push(done.catch(() => {}));
  return { elector, end, work, done };
}

async function eventually(check: () => void): Promise<void> {
  await vi.waitFor(check, { timeout: 15_000, interval: 5 });
}

describe("an elector", () => {
  test("makes the lease, leads, renews, and gives it up at the end of the work", async () => {
    const { elector, end, work, done } = elect("one");
    await eventually(() => expect(work.began).toBe(1));
    expect(elector.isLeader).toBe(true);
    const first = lease();
    expect(first?.spec).toMatchObject({ holderIdentity: "one", leaseDurationSeconds: 60, leaseTransitions: 0 });
    expect(first?.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    await eventually(() => expect(lease()?.spec?.renewTime).not.toBe(first?.spec?.renewTime));
    expect(lease()?.spec?.acquireTime).toBe(first?.spec?.acquireTime);
    end.abort();
    await done;
    expect(work.ended).toBe(1);
    expect(elector.isLeader).toBe(false);
    expect(lease()?.spec).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1 });
  });

  test("leaves the lease to an owner, also one that others have made, and keeps their owners", async () => {
    const owner = { apiVersion: "v1", kind: "ServiceAccount", name: "me", uid: "u1" };
    const one = elect("one", { owner });
    await eventually(() => expect(one.work.began).toBe(1));
    expect(lease()?.metadata.ownerReferences).toEqual([owner]);
    one.end.abort();
    await one.done;
    const theirs = { ...owner, name: "other", uid: "u2" };
    api.server.put(KINDS.Lease, { metadata: { namespace: ref.namespace, name: ref.name, ownerReferences: [theirs] } });
    const two = elect("two", { owner });
    await eventually(() => expect(two.work.began).toBe(1));
    expect(lease()?.metadata.ownerReferences).toEqual([theirs, owner]);
    const first = lease()?.spec?.renewTime;
    await eventually(() => expect(lease()?.spec?.renewTime).not.toBe(first));
    expect(lease()?.metadata.ownerReferences).toEqual([theirs, owner]);
  });

  test("keeps the lease while work takes its time to end", async () => {
    const { promise: linger, resolve } = Promise.withResolvers<void>();
    const { end, work, done } = elect("one", { linger });
    await eventually(() => expect(work.began).toBe(1));
    end.abort();
    const version = lease()?.metadata.resourceVersion;
    await eventually(() => expect(lease()?.metadata.resourceVersion).not.toBe(version));
    expect(lease()?.spec?.holderIdentity).toBe("one");
    resolve();
    await done;
    expect(lease()?.spec?.holderIdentity).toBe("");
  });

  test("waits as standby; the next leads at once after a release, with one transition more", async () => {
    const one = elect("one");
    await eventually(() => expect(one.work.began).toBe(1));
    const two = elect("two");
    await eventually(() => expect(two.elector.holder).toBe("one"));
    expect(two.elector.isLeader).toBe(false);
    one.end.abort();
    await one.done;
    await eventually(() => expect(two.work.began).toBe(1));
    expect(lease()?.spec).toMatchObject({ holderIdentity: "two", leaseTransitions: 2 - 1 });
    two.end.abort();
    await two.done;
  });

  test("takes over from a leader that died, only after it saw no change for the lease's duration", async () => {
    const past = "2001-01-01T00:00:00.000000Z"; // its clock says nothing
    api.server.put(KINDS.Lease, {
      metadata: { namespace: ref.namespace, name: ref.name },
      spec: {
        holderIdentity: "dead",
        leaseDurationSeconds: 1,
        renewTime: past,
        acquireTime: past,
        leaseTransitions: 4,
      },
    });
    const at = performance.now();
    const { work } = elect("two");
    await eventually(() => expect(work.began).toBe(1));
    expect(performance.now() - at).toBeGreaterThan(950);
    expect(lease()?.spec).toMatchObject({ holderIdentity: "two", leaseTransitions: 5 });
    expect(lease()?.spec?.acquireTime).not.toBe(past);
  });

  test("does not take over from a leader whose clock is far ahead or behind while it renews", async () => {
    let renewals = 0;
    const spec = () => {
      renewals += 1;
      const renewTime = `${renewals % 2 === 0 ? 2001 : 2101}-01-01T00:00:00.${String(renewals).padStart(6, "0")}Z`;
      return { holderIdentity: "odd", leaseDurationSeconds: 1, renewTime };
    };
    api.server.put(KINDS.Lease, { metadata: { namespace: ref.namespace, name: ref.name }, spec: spec() });
    // With every look: else a stall of the machine would be a leader that does not renew.
    api.server.inject({
      method: "GET",
      path: "leases",
      times: 10_000,
      fault: { kind: "writer", change: (object) => Object.assign(object, { spec: spec() }) },
    });
    const { elector, work } = elect("two");
    await eventually(() => expect(elector.holder).toBe("odd"));
    const at = performance.now();
    await eventually(() => expect(performance.now() - at).toBeGreaterThan(1_500));
    expect(renewals).toBeGreaterThan(3);
    expect(work.began).toBe(0);
    expect(elector.holder).toBe("odd");
  });

  test("a jump of its own clock does not make it take over", async () => {
    const one = elect("one");
    await eventually(() => expect(one.work.began).toBe(1));
    const two = elect("two");
    await eventually(() => expect(two.elector.holder).toBe("one"));
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
    for (let i = 0; i < 3; i += 1) {
      const version = lease()?.metadata.resourceVersion;
      await eventually(() => expect(lease()?.metadata.resourceVersion).not.toBe(version));
    }
    vi.useRealTimers();
    expect(lease()?.spec).toMatchObject({ holderIdentity: "one", leaseTransitions: 0 });
    expect(two.work.began).toBe(0);
  });

  test("of several that ask at the same time one leads", async () => {
    const all = ["one", "two", "three", "four"].map((identity) => elect(identity));
    await eventually(() => expect(all.filter(({ elector }) => elector.isLeader)).toHaveLength(1));
    await eventually(() => expect(all.every(({ elector }) => elector.holder !== undefined)).toBe(true));
    expect(all.reduce((sum, { work }) => sum + work.began, 0)).toBe(1);
  });

  test("stops its work when the lease cannot be renewed in time, and before the lease is over", async () => {
    const { elector, work, done } = elect("one", SHORT);
    await eventually(() => expect(work.began).toBe(1));
    api.server.inject({ path: "leases", times: 10_000, fault: { kind: "status", code: 500 } });
    await expect(done).rejects.toThrow(LeadershipLostError);
    expect(work.ended).toBe(1);
    expect(work.reason).toBeInstanceOf(LeadershipLostError);
    expect(elector.isLeader).toBe(false);
    expect(lease()?.spec?.holderIdentity).toBe("one");
  });

  test("stops its work when the API server hangs", async () => {
    const { work, done } = elect("one", SHORT);
    await eventually(() => expect(work.began).toBe(1));
    api.server.inject({ path: "leases", times: 10_000, fault: { kind: "hang" } });
    await expect(done).rejects.toThrow(/could not be renewed within 700 ms/);
    expect(work.ended).toBe(1);
  });

  test("work that does not stop is waited for no longer than the lease lasts", async () => {
    const never = new Promise<void>(() => {});
    const { work, done } = elect("one", { ...SHORT, linger: never });
    await eventually(() => expect(work.began).toBe(1));
    api.server.inject({ path: "leases", times: 10_000, fault: { kind: "status", code: 503 } });
    await expect(done).rejects.toThrow(LeadershipLostError);
    expect(work.ended).toBe(0);
  });

  test("stops at once when another took the lease, and leaves it to that one", async () => {
    const { work, done } = elect("one");
    await eventually(() => expect(work.began).toBe(1));
    api.server.change(ref, { spec: { holderIdentity: "thief" } });
    await expect(done).rejects.toThrow(/belongs to thief/);
    expect(work.ended).toBe(1);
    expect(lease()?.spec?.holderIdentity).toBe("thief");
  });

  test("makes a lease again that was deleted, and goes on", async () => {
    const { elector, work, end, done } = elect("one");
    await eventually(() => expect(work.began).toBe(1));
    const { uid } = lease()?.metadata ?? {};
    api.server.remove(ref);
    await eventually(() => expect(lease()?.metadata.uid).toBeDefined());
    expect(lease()?.metadata.uid).not.toBe(uid);
    expect(lease()?.spec).toMatchObject({ holderIdentity: "one" });
    expect(elector.isLeader).toBe(true);
    expect(work).toMatchObject({ began: 1, ended: 0 });
    end.abort();
    await done;
  });

  test("a renewal that fails now and then costs nothing", async () => {
    const { elector, work, end, done } = elect("one");
    await eventually(() => expect(work.began).toBe(1));
    api.server.inject({ path: "leases", times: 2, fault: { kind: "status", code: 500 } });
    api.server.inject({ path: "leases", times: 1, fault: { kind: "cut", lost: "answer" } });
    const count = api.server.requests.length;
    await eventually(() => expect(api.server.requests.length).toBeGreaterThan(count + 6));
    expect(elector.isLeader).toBe(true);
    end.abort();
    await done;
  });

  test("work that fails gives the lease up and is what run throws", async () => {
    const elector = new Elector({ client: api.client, ...ref, identity: "one", log: new RecordingLogger(), ...CALM });
    const failing = elector.run(() => Promise.reject(new Error("broken")), new AbortController().signal);
    await expect(failing).rejects.toThrow("broken");
    expect(lease()?.spec?.holderIdentity).toBe("");
  });

  test.each([
    [10, 10, 1],
    [15, 10, 9],
    [15, 10, 0],
  ])("refuses a lease of %d, deadline %d, retry %d", (leaseDurationMs, renewDeadlineMs, retryPeriodMs) => {
    const o = {
      client: api.client,
      ...ref,
      identity: "one",
      log: new RecordingLogger(),
      leaseDurationMs,
      renewDeadlineMs,
      retryPeriodMs,
    };
    expect(() => new Elector(o)).toThrow(RangeError);
  });
});

describe("the client of a leader", () => {
  const configMap = (name: string) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: "edge", name },
    data: {},
  });
  const configMapRef = (name: string) => ({ kind: KINDS.ConfigMap, namespace: "edge", name });

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
      await attempt("patch", () => writing.patch(configMapRef("first"), { data: { a: "b" } }));
      await attempt("delete", () => writing.delete(configMapRef("first")));
    }, new AbortController().signal);
    await run.catch(() => {});
    const found = [await writing.get<KubeObject>(configMapRef("first")), await writing.get(configMapRef("second"))];
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
    expect(await writing.get(configMapRef("first"))).toMatchObject({ data: {} });
    await client.close();
    await server.close();
  });
});
