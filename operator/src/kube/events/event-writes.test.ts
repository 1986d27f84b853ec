import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { KINDS, type KubeObject } from "../kinds.ts";
import { Metrics } from "../metrics.ts";
import { serverPerTest } from "../testing/server-per-test.ts";
import { EventRecorder } from "./recorder.ts";

const api = serverPerTest();

const router = (name: string, namespace = "edge"): KubeObject => ({
  apiVersion: "sallyport.dev/v1alpha1",
  kind: "EdgeRouter",
  metadata: { namespace, name, uid: `uid-${namespace}-${name}`, resourceVersion: "1" },
});
const POSTS = { method: "POST", path: "/events", times: Number.POSITIVE_INFINITY } as const;

let metrics: Metrics;
let log: RecordingLogger;
let recorder: EventRecorder;

beforeEach(async () => {
  metrics = new Metrics();
  log = new RecordingLogger();
  recorder = new EventRecorder({ client: api.client, controller: "c", instance: "i", log, metrics, retryMs: 1 });
});

afterEach(async () => {
  api.server.faults.clear();
  await recorder.close(0);
});

const tell = (object: KubeObject, note: string): void =>
  recorder.record(object, { type: "Normal", reason: "Happened", action: "Do", note });

/** Notes in the order in which the server was asked to keep them. */
const asked = (): string[] =>
  api.server.requests.flatMap(({ method, body }) => (method === "POST" ? [(body as { note: string }).note] : []));

/** What goes out at the same time goes over different connections, in any order. */
const askedSorted = (): string[] => asked().sort();

/** Notes in the order in which they came to stand in the cluster. */
async function kept(): Promise<string[]> {
  const { items } = await api.client.list<KubeObject & { note: string }>(KINDS.Event);
  return items
    .sort((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
    .map(({ note }) => note);
}

const dropped = async (reason: string): Promise<number> =>
  Number(
    (await metrics.text()).match(
      new RegExp(`sallyport_operator_events_dropped_total\\{reason="${reason}"\\} (\\d+)`),
    )?.[1],
  );

/** An answer that comes when the test says so. */
function gate(): { readonly until: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { until: promise, open: resolve };
}

describe("on a slow API server", () => {
  test("an event that takes long delays no other object's, and its own object's stay in order", async () => {
    const { until, open } = gate();
    api.server.inject({ ...POSTS, times: 1, fault: { kind: "late", until } });
    tell(router("eu"), "eu 1");
    tell(router("eu"), "eu 2");
    await expect.poll(asked).toEqual(["eu 1"]);
    const others = api.server.changed(({ object }) => (object as unknown as { note?: string }).note === "us 2");
    for (const note of ["us 1", "us 2"]) tell(router("us"), note);
    await others;
    expect(asked()).toEqual(["eu 1", "us 1", "us 2"]);
    open();
    await recorder.close();
    expect(await kept()).toEqual(["us 1", "us 2", "eu 1", "eu 2"]);
  });

  test("a few are under way at the same time, of one namespace not all of them", async () => {
    const { until, open } = gate();
    api.server.inject({ ...POSTS, fault: { kind: "late", until } });
    for (let i = 0; i < 5; i++) tell(router(`r${i}`, "web"), `web ${i}`);
    await expect.poll(askedSorted).toEqual(["web 0", "web 1"]);
    for (let i = 0; i < 3; i++) tell(router(`r${i}`), `edge ${i}`);
    await expect.poll(askedSorted).toEqual(["edge 0", "web 0", "web 1"]);
    tell(router("r", "third"), "third");
    await expect.poll(askedSorted).toEqual(["edge 0", "third", "web 0", "web 1"]);
    open();
    await recorder.close();
    expect((await kept()).sort()).toEqual([
      ...["edge 0", "edge 1", "edge 2", "third"],
      ...["web 0", "web 1", "web 2", "web 3", "web 4"],
    ]);
  });

  test("one that is tried again keeps no other waiting, and its place in the order of its object", async () => {
    api.server.inject({ ...POSTS, times: 5, fault: { kind: "status", code: 503 } });
    for (const name of ["a", "b", "c", "d", "e"]) for (const n of [1, 2]) tell(router(name), `${name}${n}`);
    await recorder.close();
    const order = await kept();
    expect(order).toHaveLength(10);
    for (const name of ["a", "b", "c", "d", "e"]) {
      expect(order.filter((note) => note.startsWith(name))).toEqual([`${name}1`, `${name}2`]);
    }
    expect(await dropped("failed")).toBe(0);
  });

  test("too many are dropped, the newest first, which the figures and one line of the log say, and other namespaces have places left", async () => {
    const { until, open } = gate();
    api.server.inject({ ...POSTS, fault: { kind: "late", until } });
    for (let i = 0; i < 1_100; i++) tell(router(`r${i}`, "web"), `web ${i}`);
    expect(await dropped("full")).toBe(100);
    for (let i = 0; i < 300; i++) tell(router(`r${i}`), `edge ${i}`);
    tell(router("r", "third"), "third");
    expect(await dropped("full")).toBe(100);
    expect(log.entries.filter(({ level }) => level === "warn")).toMatchObject([{ fields: { namespace: "web" } }]);
    open();
    await recorder.close(60_000);
    const notes = await kept();
    expect(notes).toHaveLength(1_301);
    expect(notes).toContain("third");
    expect(notes).not.toContain("web 1000");
  });

  test("what was dropped is told when it happens again", async () => {
    api.server.inject({ ...POSTS, times: 1, fault: { kind: "status", code: 422, reason: "Invalid" } });
    tell(router("eu"), "verified");
    await expect.poll(() => dropped("failed")).toBe(1);
    tell(router("eu"), "verified");
    await recorder.close();
    expect(await kept()).toEqual(["verified"]);
  });

  test("closing it ends what is under way when the time is over", async () => {
    api.server.inject({ ...POSTS, fault: { kind: "hang" } });
    for (const name of ["a", "b", "c"]) tell(router(name), name);
    await expect.poll(askedSorted).toEqual(["a", "b"]);
    await recorder.close(1);
    tell(router("d"), "d");
    expect(askedSorted()).toEqual(["a", "b"]);
    expect(await kept()).toEqual([]);
  });
});

test("too many about one object are counted", async () => {
  for (let i = 0; i < 30; i++)
    recorder.record(router("eu"), { type: "Normal", reason: `R${i}`, action: "Do", note: "x" });
  expect(await dropped("limited")).toBe(5);
});
