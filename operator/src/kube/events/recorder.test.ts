import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { MergePatch } from "../client/client.ts";
import { clusterAt } from "../client/cluster.ts";
import { KubeError } from "../client/errors.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { KINDS, type KubeObject, type ObjectRef } from "../kinds.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { type EventNote, EventRecorder } from "./recorder.ts";

const router: KubeObject = {
  apiVersion: "sallyport.dev/v1alpha1",
  kind: "EdgeRouter",
  metadata: { namespace: "edge", name: "eu", uid: "6a1c", resourceVersion: "4711" },
};

function note(text = "router eu-0 is verified", more: Partial<EventNote> = {}): EventNote {
  return { type: "Normal", reason: "RouterVerified", action: "Enroll", note: text, ...more };
}

describe("a recorder against an API server", () => {
  test("writes an event that the server takes, for a cluster-wide object to namespace default", async () => {
    const server = await FakeApiServer.start();
    const client = new HttpKubeClient(clusterAt(server.url));
    const recorder = new EventRecorder({
      client,
      controller: "sallyport.dev/operator",
      instance: "pod-1",
      log: new RecordingLogger(),
    });
    recorder.record(router, note());
    recorder.record({ ...router, kind: "ClusterThing", metadata: { name: "all" } }, note());
    recorder.record(router, note());
    await recorder.close();
    const { items } = await client.list<KubeObject>(KINDS.Event);
    expect(items.map(({ metadata }) => metadata.namespace).sort()).toEqual(["default", "edge"]);
    expect(items.find(({ metadata }) => metadata.namespace === "edge")).toMatchObject({
      metadata: { name: expect.stringMatching(/^eu\.[0-9a-f]{16}$/) },
      eventTime: expect.stringMatching(/\.\d{6}Z$/),
      reportingController: "sallyport.dev/operator",
      reportingInstance: "pod-1",
      action: "Enroll",
      reason: "RouterVerified",
      type: "Normal",
      note: "router eu-0 is verified",
      regarding: { kind: "EdgeRouter", namespace: "edge", name: "eu", uid: "6a1c", resourceVersion: "4711" },
      series: { count: 2, lastObservedTime: expect.stringMatching(/\.\d{6}Z$/) },
    });
    await client.close();
    await server.close();
  });
});

describe("a recorder", () => {
  let created: KubeObject[];
  let patched: { ref: ObjectRef; patch: MergePatch }[];
  let failures: unknown[];
  let recorder: EventRecorder;
  let log: RecordingLogger;

  beforeEach(() => {
    vi.useFakeTimers();
    created = [];
    patched = [];
    failures = [];
    log = new RecordingLogger();
    const fail = (): void => {
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
    };
    const client = {
      create: async <T extends KubeObject>(object: KubeObject): Promise<T> => {
        fail();
        created.push(object);
        return object as T;
      },
      patch: async <T extends KubeObject>(ref: ObjectRef, patch: MergePatch): Promise<T> => {
        fail();
        patched.push({ ref, patch });
        return {} as T;
      },
    };
    recorder = new EventRecorder({ client, controller: "c", instance: "i", log });
  });

  afterEach(async () => {
    const closing = recorder.close();
    await vi.advanceTimersByTimeAsync(10_000);
    await closing;
    vi.useRealTimers();
  });

  const settle = (ms = 0): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
  const counts = (): unknown[] => patched.map(({ patch }) => (patch.series as { count: number }).count);

  test("merges equal events: the second shows the series, its end is written after six silent minutes", async () => {
    for (let i = 0; i < 20; i += 1) {
      recorder.record(router, note());
      await settle(1_000);
    }
    expect(created).toHaveLength(1);
    expect(counts()).toEqual([2]);
    await settle(8 * 60_000);
    expect(counts()).toEqual([2, 20]);
    recorder.record(router, note());
    await settle();
    expect(created).toHaveLength(2);
  });

  test("brings a series that goes on up to date every half hour", async () => {
    for (let minute = 0; minute < 95; minute += 1) {
      recorder.record(router, note());
      await settle(60_000);
    }
    expect(created).toHaveLength(1);
    expect(counts().length).toBeGreaterThanOrEqual(4);
    expect(counts().length).toBeLessThanOrEqual(5);
  });

  test("does not merge what differs", async () => {
    recorder.record(router, note("a"));
    recorder.record(router, note("b"));
    recorder.record(router, note("a", { reason: "Other" }));
    recorder.record(router, note("a", { type: "Warning" }));
    recorder.record({ ...router, metadata: { ...router.metadata, uid: "new" } }, note("a"));
    await settle();
    expect(created).toHaveLength(5);
    expect(new Set(created.map(({ metadata }) => metadata.name)).size).toBe(5);
  });

  test("combines a flood of similar events", async () => {
    for (let i = 0; i < 30; i += 1) recorder.record(router, note(`attempt ${i}`));
    await settle();
    expect(created).toHaveLength(11);
    expect(created[10]).toMatchObject({ note: "(combined from similar events): attempt 10" });
    expect(counts()).toEqual([20]);
  });

  test("drops what is too much about one object, and lets one through in five minutes", async () => {
    for (let i = 0; i < 40; i += 1) recorder.record(router, note("a", { reason: `R${i}` }));
    recorder.record({ ...router, metadata: { ...router.metadata, name: "us", uid: "2" } }, note());
    await settle();
    expect(created).toHaveLength(26);
    await settle(300_000);
    recorder.record(router, note("a", { reason: "Later" }));
    recorder.record(router, note("a", { reason: "Too" }));
    await settle();
    expect(created).toHaveLength(27);
  });

  test("tries again when the server cannot, not when it will not", async () => {
    const error = (status: number): KubeError => new KubeError({ status, reason: "R", message: "m" });
    failures = [error(0), error(503), error(429)];
    recorder.record(router, note("a"));
    await settle(10_000);
    expect(created).toHaveLength(1);
    failures = [error(403)];
    recorder.record(router, note("b"));
    await settle(60_000);
    expect(created).toHaveLength(1);
    failures = Array(50).fill(error(500));
    recorder.record(router, note("c"));
    await settle(60_000);
    expect(failures).toHaveLength(38);
    expect(log.entries.filter(({ level }) => level === "warn")).toHaveLength(2);
  });

  test("a create whose answer was lost counts as written", async () => {
    failures = [new KubeError({ status: 409, reason: "AlreadyExists", message: "m" })];
    recorder.record(router, note());
    recorder.record(router, note());
    await settle();
    expect(counts()).toEqual([2]);
  });

  test("an event that expired in the cluster is recorded again", async () => {
    recorder.record(router, note());
    await settle();
    failures = [new KubeError({ status: 404, reason: "NotFound", message: "m" })];
    recorder.record(router, note());
    await settle();
    recorder.record(router, note());
    await settle();
    expect(created).toHaveLength(2);
    expect(log.entries).toEqual([]);
  });

  test("cuts notes at 1024 bytes, between characters", async () => {
    recorder.record(router, note("ü".repeat(600)));
    await settle();
    const { note: text } = created[0] as KubeObject & { note: string };
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1024);
    expect(text).toMatch(/^ü+…$/);
  });
});
