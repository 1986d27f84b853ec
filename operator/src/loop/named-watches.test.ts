import { silentLogger } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, expect, test } from "vitest";
import { KINDS } from "../kube/kinds.ts";
import { serverPerTest } from "../kube/testing/server-per-test.ts";
import { NamedWatches } from "./named-watches.ts";

const api = serverPerTest();

const PATIENT = { timeout: 20_000 };

let watches: NamedWatches;
beforeEach(async () => {
  watches = new NamedWatches({ client: api.client, log: silentLogger, limit: 2 });
});
afterEach(async () => {
  await watches.close();
});

const ref = (name: string) => ({ kind: KINDS.Secret, namespace: "edge", name });
const put = (name: string, value: string) =>
  api.server.put(KINDS.Secret, {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: "edge" },
    data: { value },
  }).metadata.resourceVersion;

/** What a reconcile does: it reads, and is told of changes. */
async function read(user: string, name: string, told: string[]): Promise<void> {
  const object = await api.client.get(ref(name));
  const onChange = (): void => {
    told.push(`${user} ${name}`);
    // The last one may come to an end with the server.
    read(user, name, told).catch(() => {});
  };
  watches.use(user, KINDS.Secret, "edge", name, object?.metadata.resourceVersion, onChange);
}

test("tells of what appears, changes and vanishes, each once", async () => {
  const told: string[] = [];
  await read("a", "s", told);
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(1);
  expect(told).toEqual([]);
  put("s", "1");
  await expect.poll(() => told, PATIENT).toEqual(["a s"]);
  put("s", "2");
  await expect.poll(() => told, PATIENT).toEqual(["a s", "a s"]);
  api.server.remove(ref("s"));
  await expect.poll(() => told, PATIENT).toEqual(["a s", "a s", "a s"]);
});

test("tells of what changed between the read and the watch", async () => {
  put("s", "1");
  const before = (await api.client.get(ref("s")))?.metadata.resourceVersion;
  put("s", "2");
  const told: string[] = [];
  watches.use("a", KINDS.Secret, "edge", "s", before, () => void told.push("changed"));
  await expect.poll(() => told, PATIENT).toEqual(["changed"]);
  put("gone", "1");
  const seen = (await api.client.get(ref("gone")))?.metadata.resourceVersion;
  api.server.remove(ref("gone"));
  watches.use("a", KINDS.Secret, "edge", "gone", seen, () => void told.push("gone"));
  await expect.poll(() => told, PATIENT).toEqual(["changed", "gone"]);
});

test("tells one who comes later of what the watch knew already and his read did not", async () => {
  put("s", "1");
  const told: string[] = [];
  await read("a", "s", told);
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(1);
  const before = (await api.client.get(ref("s")))?.metadata.resourceVersion;
  put("s", "2");
  await expect.poll(() => told, PATIENT).toEqual(["a s"]);
  watches.use("b", KINDS.Secret, "edge", "s", before, () => void told.push("b s"));
  expect(told).toEqual(["a s", "b s"]);
  const now = (await api.client.get(ref("s")))?.metadata.resourceVersion;
  watches.use("c", KINDS.Secret, "edge", "s", now, () => void told.push("c s"));
  expect(told).toEqual(["a s", "b s"]);
});

test("tells one who read an older version than those who read after it", async () => {
  put("s", "1");
  const told: string[] = [];
  const readBy = async (user: string) => {
    const version = (await api.client.get(ref("s")))?.metadata.resourceVersion;
    watches.use(user, KINDS.Secret, "edge", "s", version, () => void told.push(user));
  };
  await readBy("a");
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(1);
  // The second one reads the change before the watch tells the first of it.
  const changed = put("s", "2");
  watches.use("b", KINDS.Secret, "edge", "s", changed, () => void told.push("b"));
  await expect.poll(() => told, PATIENT).toEqual(["a"]);
  api.server.remove(ref("s"));
  watches.use("b", KINDS.Secret, "edge", "s", undefined, () => void told.push("b"));
  await expect.poll(() => told.filter((user) => user === "a"), PATIENT).toEqual(["a", "a"]);
});

test("tells one who comes later, and read what had vanished before the watch began, once", async () => {
  put("s", "1");
  const before = (await api.client.get(ref("s")))?.metadata.resourceVersion;
  api.server.remove(ref("s"));
  const told: string[] = [];
  await read("a", "s", told);
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(1);
  const late = (): void => watches.use("b", KINDS.Secret, "edge", "s", before, () => void told.push("b"));
  late();
  await expect.poll(() => told, PATIENT).toEqual(["b"]);
  late();
  expect(told).toEqual(["b"]);
});

test("one watch serves all that read the object, and ends with the last of them", async () => {
  const told: string[] = [];
  await read("a", "s", told);
  await read("b", "s", told);
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(1);
  watches.keepOnly("a", []);
  put("s", "1");
  await expect.poll(() => told, PATIENT).toEqual(["b s"]);
  watches.keepOnly("b", []);
  expect(watches.size).toBe(0);
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(0);
});

test("asks for nothing but the object, and keeps nothing of it", async () => {
  put("other", "1");
  await read("a", "s", []);
  await expect.poll(() => api.server.watches.length, PATIENT).toBe(1);
  const lists = api.server.requests.filter(({ path }) => path.includes("/secrets?"));
  expect(lists.length).toBeGreaterThan(0);
  expect(
    lists.every(({ path }) => path.startsWith("/api/v1/namespaces/edge/") && path.includes("metadata.name%3Ds")),
  ).toBe(true);
});

test("has a limit for each namespace, and says once that it is reached", async () => {
  const log = new RecordingLogger();
  const limited = new NamedWatches({ client: api.client, log, limit: 2 });
  const use = (namespace: string, name: string): void =>
    limited.use("a", KINDS.Secret, namespace, name, undefined, () => undefined);
  for (const name of ["s1", "s2", "s3", "s4", "s3"]) use("web", name);
  expect(limited.size).toBe(2);
  use("edge", "s1");
  expect(limited.size).toBe(3);
  expect(log.entries.filter(({ level }) => level === "warn").length).toBe(1);
  await limited.close();
});

test("has a limit, beyond which nothing is watched", async () => {
  for (const name of ["s1", "s2", "s3"]) await read("a", name, []);
  expect(watches.size).toBe(2);
  watches.keepOnly("a", [ref("s3")]);
  expect(watches.size).toBe(0);
  await read("a", "s3", []);
  expect(watches.size).toBe(1);
});
