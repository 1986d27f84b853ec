import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { clusterAt } from "../client/cluster.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { stuckCheck } from "../health.ts";
import { KINDS, type KubeObject, keyOf } from "../kinds.ts";
import { serverPerTest } from "../testing/server-per-test.ts";
import { Reflector, type ReflectorOptions } from "./reflector.ts";

const api = serverPerTest();

const kind = KINDS.ConfigMap;
const FAST = { firstMs: 5, maxMs: 40 };

let stop: AbortController;
let running: Promise<void>[];

beforeEach(async () => {
  stop = new AbortController();
  running = [];
});

afterEach(async () => {
  stop.abort();
  await Promise.all(running);
});

function put(name: string, value = "1", namespace = "edge", labels: Record<string, string> = {}): KubeObject {
  return api.server.put(kind, { metadata: { namespace, name, labels }, data: { value } });
}

function remove(name: string, namespace = "edge"): void {
  api.server.remove({ kind, namespace, name });
}

/** Starts a reflector; `changes` is what it told: `set edge/a`, `change edge/a`, `delete edge/a`. */
function reflect(o: Partial<ReflectorOptions<KubeObject>> = {}) {
  const changes: string[] = [];
  const log = new RecordingLogger();
  const reflector = new Reflector<KubeObject>(api.client, kind, {
    backoff: FAST,
    log,
    on: (change) =>
      changes.push(`${change.type === "set" && change.previous ? "change" : change.type} ${keyOf(change.object)}`),
    ...o,
  });
  running.push(reflector.start(stop.signal));
  return { reflector, changes, log };
}

function paths(part: string): string[] {
  return api.server.requests.map(({ path }) => path).filter((path) => path.includes(part));
}

async function eventually(check: () => void): Promise<void> {
  await vi.waitFor(check, { timeout: 15_000, interval: 5 });
}

describe("a reflector", () => {
  test("is silent for as long as its server is, whatever the clock of the wall does, and not before it was started", async () => {
    const waiting = new Reflector<KubeObject>(api.client, kind, { log: new RecordingLogger(), on: () => undefined });
    const { reflector } = reflect();
    await reflector.synced;
    const jumped = Date.now() + 3_600_000;
    vi.useFakeTimers({ toFake: ["Date"], now: jumped });
    try {
      expect(stuckCheck([reflector, waiting])()).toBeUndefined();
      expect(waiting.silentMs).toBe(0);
      expect(stuckCheck([reflector], -1)()).toContain("nothing heard of configmaps");
    } finally {
      vi.useRealTimers();
    }
  });

  test("lists, then tells every change, without managedFields", async () => {
    put("a");
    const { reflector, changes } = reflect();
    await reflector.synced;
    expect(changes).toEqual(["set edge/a"]);
    put("b");
    put("a", "2");
    remove("b");
    await eventually(() => expect(changes).toEqual(["set edge/a", "set edge/b", "change edge/a", "delete edge/b"]));
    expect(reflector.store.get("edge/a")).toMatchObject({ kind: "ConfigMap", apiVersion: "v1", data: { value: "2" } });
    expect(reflector.store.get("edge/a")?.metadata).not.toHaveProperty("managedFields");
  });

  test("asks for the first list from the cache, for bookmarks, and for an end between 300 and 600 s", async () => {
    const { reflector } = reflect({ labelSelector: "app=x" });
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    const [list, watch] = api.server.requests.map(({ path }) => new URL(path, api.server.url).searchParams);
    expect(list?.get("resourceVersion")).toBe("0");
    expect(list?.get("limit")).toBe("500");
    expect(list?.get("labelSelector")).toBe("app=x");
    expect(watch?.get("allowWatchBookmarks")).toBe("true");
    expect(watch?.get("labelSelector")).toBe("app=x");
    expect(Number(watch?.get("timeoutSeconds"))).toBeGreaterThanOrEqual(300);
    expect(Number(watch?.get("timeoutSeconds"))).toBeLessThanOrEqual(600);
  });

  test("goes on from a bookmark when the watch ends, without a list", async () => {
    const { reflector, changes } = reflect();
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    api.server.put(KINDS.Secret, { metadata: { namespace: "edge", name: "other" } });
    api.server.sendBookmarks();
    const version = api.server.store.history.version;
    api.server.endWatches();
    await eventually(() => expect(paths(`resourceVersion=${version}`)).not.toEqual([]));
    put("a");
    await eventually(() => expect(changes).toEqual(["set edge/a"]));
    expect(paths("limit=")).toHaveLength(1);
  });

  test("a watch that is cut goes on where it was, and nothing is told twice or lost", async () => {
    put("a");
    const { reflector, changes, log } = reflect();
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    put("b");
    await eventually(() => expect(reflector.store.has("edge/b")).toBe(true));
    api.server.cutWatches();
    remove("a");
    put("c");
    await eventually(() => expect(changes).toEqual(["set edge/a", "set edge/b", "delete edge/a", "set edge/c"]));
    expect(paths("limit=")).toHaveLength(1);
    expect(log.entries.some(({ level }) => level === "warn")).toBe(true);
    expect(reflector.lastError).toBeUndefined();
  });

  test.each(["half-line", "bad-line", "odd-event"] as const)(
    "a %s in the stream is a failed watch, and no change is lost",
    async (ends) => {
      api.server.inject({ path: "watch=true", fault: { kind: "stream", afterEvents: 1, ends } });
      const { reflector, changes, log } = reflect();
      await reflector.synced;
      await eventually(() => expect(api.server.watches).toHaveLength(1));
      put("a");
      await eventually(() => expect(paths("watch=true")).toHaveLength(2));
      put("b");
      await eventually(() => expect(changes).toEqual(["set edge/a", "set edge/b"]));
      expect(log.entries.filter(({ level }) => level === "warn")).toHaveLength(1);
    },
  );

  describe("410", () => {
    async function missed(): Promise<ReturnType<typeof reflect>> {
      put("kept");
      put("gone");
      put("again");
      const run = reflect();
      await run.reflector.synced;
      await eventually(() => expect(api.server.watches).toHaveLength(1));
      return run;
    }

    function meanwhile(): void {
      remove("gone");
      remove("again");
      put("again", "2");
      put("new");
    }

    test("as an ERROR event: lists again and tells what vanished and what was recreated", async () => {
      const { reflector, changes } = await missed();
      changes.length = 0;
      const back = api.server.inject({ path: "watch=true", times: 1, fault: { kind: "status", code: 500 } });
      api.server.cutWatches();
      meanwhile();
      api.server.compact();
      await eventually(() => expect(reflector.store.has("edge/new")).toBe(true));
      back();
      expect(changes).toEqual(["delete edge/gone", "delete edge/again", "set edge/again", "set edge/new"]);
      expect(paths("limit=")).toHaveLength(2);
      expect(paths("limit=")[1]).not.toContain("resourceVersion=0");
    });

    test("as an HTTP status", async () => {
      const { reflector, changes } = await missed();
      changes.length = 0;
      api.server.inject({ path: "watch=true", fault: { kind: "status", code: 410, reason: "Gone" } });
      api.server.cutWatches();
      meanwhile();
      await eventually(() => expect(reflector.store.has("edge/new")).toBe(true));
      expect(changes).toEqual(["delete edge/gone", "delete edge/again", "set edge/again", "set edge/new"]);
    });

    test("within a list of several pages starts the list again", async () => {
      for (let i = 0; i < 600; i++) put(`n${i}`);
      const removeFault = api.server.inject({
        path: "continue=",
        fault: { kind: "status", code: 410, reason: "Expired" },
      });
      const { reflector, changes } = reflect();
      await reflector.synced;
      removeFault();
      expect(reflector.store.size).toBe(600);
      expect(changes).toHaveLength(600);
      expect(paths("limit=")).toHaveLength(4);
    });
  });

  test("an ERROR event of another code backs off and goes on from the same place", async () => {
    const { reflector, changes } = reflect();
    api.server.inject({
      path: "watch=true",
      fault: { kind: "stream", afterEvents: 0, ends: { code: 500, reason: "InternalError" } },
    });
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    put("a");
    await eventually(() => expect(changes).toEqual(["set edge/a"]));
    const [first, second] = paths("watch=true").map((path) =>
      new URL(path, api.server.url).searchParams.get("resourceVersion"),
    );
    expect(second).toBe(first);
    expect(paths("limit=")).toHaveLength(1);
  });

  test("429 keeps the position and waits as long as the server says", async () => {
    const { reflector, changes } = reflect();
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    api.server.inject({
      path: "watch=true",
      fault: { kind: "status", code: 429, reason: "TooManyRequests", retryAfterSeconds: 1 },
    });
    const at = performance.now();
    api.server.cutWatches();
    put("a");
    await eventually(() => expect(changes).toEqual(["set edge/a"]));
    expect(performance.now() - at).toBeGreaterThan(990);
    expect(paths("limit=")).toHaveLength(1);
  });

  test("a server that refuses everything for a while is asked again until it answers", async () => {
    put("a");
    api.server.inject({ path: "limit=", times: 3, fault: { kind: "status", code: 500 } });
    api.server.inject({ path: "limit=", times: 2, fault: { kind: "cut", lost: "answer" } });
    const { reflector, changes } = reflect();
    await reflector.synced;
    expect(changes).toEqual(["set edge/a"]);
  });

  test("a right that is missing is what lastError says, until it is given", async () => {
    const back = api.server.inject({
      times: 1000,
      fault: { kind: "status", code: 403, reason: "Forbidden", message: "cannot list configmaps" },
    });
    const { reflector } = reflect();
    await eventually(() => expect(reflector.lastError?.message).toContain("cannot list configmaps"));
    back();
    await reflector.synced;
    expect(reflector.lastError).toBeUndefined();
  });

  test("so is the right to watch, as soon as a watch is open, whether it says anything or not", async () => {
    const fault = { kind: "status", code: 403, reason: "Forbidden", message: "cannot watch configmaps" } as const;
    const back = api.server.inject({ path: "watch=true", times: 1000, fault });
    const { reflector } = reflect();
    await reflector.synced;
    await eventually(() => expect(reflector.lastError?.message).toContain("cannot watch configmaps"));
    back();
    await eventually(() => expect(reflector.lastError).toBeUndefined());
  });

  test("watches that close at once without a change are not hammered, bookmarks or not", async () => {
    api.server.inject({ path: "watch=true", times: 1000, fault: { kind: "stream", afterEvents: 0, ends: "end" } });
    // When they begin here: a stall makes the times between them longer only.
    const begun: number[] = [];
    const metrics = { listed: () => {}, failed: () => {}, watched: () => void begun.push(performance.now()) };
    const { reflector } = reflect({ backoff: { firstMs: 100, maxMs: 10_000 }, metrics });
    await reflector.synced;
    await eventually(() => expect(paths("watch=true").length).toBeGreaterThanOrEqual(4));
    expect(paths("watch=true").length).toBeLessThanOrEqual(begun.length);
    const between = begun.slice(1).map((at, index) => at - (begun[index] ?? 0));
    // Timers may be early by a millisecond.
    expect(Math.min(...between)).toBeGreaterThan(98);
  });

  test("one list and one watch for each namespace; others are not seen", async () => {
    put("a", "1", "one");
    put("b", "1", "two");
    put("c", "1", "three");
    const { reflector, changes } = reflect({ namespaces: ["one", "two"] });
    await reflector.synced;
    expect([...reflector.store.keys()].sort()).toEqual(["one/a", "two/b"]);
    await eventually(() => expect(api.server.watches).toHaveLength(2));
    put("d", "1", "three");
    put("e", "1", "two");
    await eventually(() => expect(changes).toContain("set two/e"));
    expect(changes.join()).not.toContain("three");
    api.server.compact();
    remove("b", "two");
    api.server.compact();
    api.server.cutWatches();
    await eventually(() => expect(changes).toContain("delete two/b"));
    expect(reflector.store.has("one/a")).toBe(true);
  });

  test("an object that loses its label is gone", async () => {
    put("a", "1", "edge", { app: "x" });
    put("b");
    const { reflector, changes } = reflect({ labelSelector: "app=x" });
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    put("a", "2");
    await eventually(() => expect(changes).toEqual(["set edge/a", "delete edge/a"]));
  });

  test("a consumer that throws is logged and misses nothing else", async () => {
    put("a");
    put("b");
    const seen: string[] = [];
    const { reflector, log } = reflect({
      on: ({ object }) => {
        seen.push(object.metadata.name);
        if (object.metadata.name === "a") throw new Error("cannot");
      },
    });
    await reflector.synced;
    expect(seen).toEqual(["a", "b"]);
    expect(log.entries.filter(({ level }) => level === "error")).toHaveLength(1);
  });

  test("a quiet watch that went dead is asked again", async () => {
    const quiet = new HttpKubeClient(clusterAt(api.server.url), { silenceMs: 50 });
    const reflector = new Reflector<KubeObject>(quiet, kind, {
      backoff: FAST,
      log: new RecordingLogger(),
      on: () => {},
    });
    running.push(reflector.start(stop.signal));
    await eventually(() => expect(paths("watch=true").length).toBeGreaterThan(2));
    expect(reflector.lastError).toBeUndefined();
    stop.abort();
    await quiet.close();
  });

  test("stops in every state, and asks nothing any more", async () => {
    const { reflector } = reflect();
    await reflector.synced;
    await eventually(() => expect(api.server.watches).toHaveLength(1));
    stop.abort();
    await Promise.all(running);
    await eventually(() => expect(api.server.watches).toHaveLength(0));
    const never = new Reflector<KubeObject>(api.client, kind, { log: new RecordingLogger(), on: () => {} });
    const count = api.server.requests.length;
    await never.start(stop.signal);
    await expect(never.synced).rejects.toThrow();
    expect(api.server.requests).toHaveLength(count);
  });
});
