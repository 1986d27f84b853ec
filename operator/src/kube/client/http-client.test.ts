import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { KINDS, type KubeObject } from "../kinds.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { serverPerTest } from "../testing/server-per-test.ts";
import { type Cluster, ClusterConfigError, clusterAt, fromKubeconfig, inCluster, isInCluster } from "./cluster.ts";
import { KubeError } from "./errors.ts";
import { HttpKubeClient } from "./http-client.ts";

const Thing = { group: "sallyport.dev", version: "v1alpha1", plural: "things", kind: "Thing", namespaced: true };

const api = serverPerTest({ kinds: [Thing] });

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

const ref = { kind: KINDS.ConfigMap, namespace: "edge", name: "a" };

function configMap(value = "1", more: object = {}): ConfigMap {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "edge", name: "a", ...more }, data: { value } };
}

async function failure(call: Promise<unknown>): Promise<KubeError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof KubeError) return error;
    throw error;
  }
  throw new Error("the call succeeded");
}

describe("a client", () => {
  test("creates, reads, lists, replaces, patches, applies and deletes", async () => {
    expect(await api.client.get(ref)).toBeUndefined();
    const made = await api.client.create<ConfigMap>(configMap());
    expect(made.metadata.uid).toBeDefined();
    expect(await api.client.get(ref)).toEqual(made);
    const { items, resourceVersion } = await api.client.list<ConfigMap>(KINDS.ConfigMap, "edge");
    expect(items).toEqual([made]);
    expect(resourceVersion).toBe(String(api.server.store.history.version));
    const replaced = await api.client.replace<ConfigMap>({ ...made, data: { value: "2" } } as ConfigMap);
    expect(replaced.data).toEqual({ value: "2" });
    expect((await failure(api.client.replace(made))).isConflict).toBe(true);
    const patched = await api.client.patch<ConfigMap>(ref, { data: { value: null, other: "3" } });
    expect(patched.data).toEqual({ other: "3" });
    const applied = await api.client.apply<ConfigMap>(configMap("4"));
    expect(applied.data).toEqual({ other: "3", value: "4" });
    expect(await api.client.delete(ref)).toBe(true);
    expect(await api.client.delete(ref)).toBe(false);
  });

  test("applies JSON under the media type of apply, with manager and force", async () => {
    await api.client.apply(configMap());
    const thing = { apiVersion: "sallyport.dev/v1alpha1", kind: "Thing", metadata: { namespace: "edge", name: "t" } };
    await api.client.apply(thing);
    await api.client.apply({ ...thing, status: { id: "x" } } as KubeObject, { status: true });
    expect(api.server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "PATCH /api/v1/namespaces/edge/configmaps/a?fieldManager=sallyport&force=true",
      "PATCH /apis/sallyport.dev/v1alpha1/namespaces/edge/things/t?fieldManager=sallyport&force=true",
      "PATCH /apis/sallyport.dev/v1alpha1/namespaces/edge/things/t/status?fieldManager=sallyport-status&force=true",
    ]);
    expect(api.server.read({ kind: Thing, namespace: "edge", name: "t" })).toMatchObject({ status: { id: "x" } });
  });

  test("says which field another manager owns when it does not force", async () => {
    await api.client.apply(configMap("1"), { manager: "human" });
    const error = await failure(api.client.apply(configMap("2"), { force: false }));
    expect(error.isConflict).toBe(true);
    expect(error.causes).toMatchObject([
      { field: ".data.value", message: expect.stringContaining('conflict with "human"') },
    ]);
  });

  test("a kind that it does not know is an error of the caller", async () => {
    const odd = { apiVersion: "x/v1", kind: "Odd", metadata: { name: "a" } };
    await expect(api.client.apply(odd)).rejects.toThrow(/no kind x\/v1 Odd/);
    await expect(api.client.get({ kind: KINDS.Secret, name: "a" })).rejects.toThrow(/needs a namespace/);
    expect(api.server.requests).toEqual([]);
  });

  test("reads lists in pages, and fills in what the server leaves out of items", async () => {
    for (let i = 0; i < 25; i += 1) api.server.put(KINDS.ConfigMap, configMap("1", { name: `n${i}` }));
    const { items } = await api.client.list<ConfigMap>(KINDS.ConfigMap, undefined, { limit: 10 });
    expect(items).toHaveLength(25);
    expect(items.every(({ apiVersion, kind }) => apiVersion === "v1" && kind === "ConfigMap")).toBe(true);
    expect(api.server.requests).toHaveLength(3);
  });

  test("keeps its connections: a hundred requests one after another use no more than two", async () => {
    for (let i = 0; i < 100; i += 1) await api.client.get(ref);
    expect(api.server.connections).toBeLessThanOrEqual(2);
  });

  test("deletes only the very object when asked to", async () => {
    const { metadata } = await api.client.create(configMap());
    expect((await failure(api.client.delete(ref, { uid: "other" }))).isConflict).toBe(true);
    expect(await api.client.delete(ref, { uid: metadata.uid ?? "" })).toBe(true);
    expect(api.server.requests.at(-1)?.body).toMatchObject({
      propagationPolicy: "Background",
      preconditions: { uid: metadata.uid },
    });
  });
});

describe("errors of a server", () => {
  test.each([
    [400, "BadRequest", "isInvalid"],
    [403, "Forbidden", "isForbidden"],
    [409, "Conflict", "isConflict"],
    [409, "AlreadyExists", "isAlreadyExists"],
    [410, "Expired", "isGone"],
    [413, "RequestEntityTooLarge", "isInvalid"],
    [422, "Invalid", "isInvalid"],
  ] as const)("%d %s", async (code, reason, property) => {
    api.server.inject({ fault: { kind: "status", code, reason, message: "because" } });
    const error = await failure(api.client.create(configMap()));
    expect(error).toMatchObject({ status: code, reason });
    expect(error[property]).toBe(true);
    expect(error.message).toContain(
      `POST /api/v1/namespaces/edge/configmaps?fieldManager=sallyport: ${code} ${reason}: because`,
    );
  });

  test("a namespace that is going away has its own mark", async () => {
    api.server.put(KINDS.Namespace, { metadata: { name: "edge", finalizers: ["kubernetes"] } });
    api.server.remove({ kind: KINDS.Namespace, name: "edge" });
    const error = await failure(api.client.create(configMap()));
    expect(error.isForbidden && error.isNamespaceTerminating).toBe(true);
  });

  test("text of a proxy is shown", async () => {
    api.server.inject({ fault: { kind: "text", code: 502, text: "upstream is down" } });
    expect((await failure(api.client.get(ref))).message).toContain("502 Http502: upstream is down");
  });

  test("an answer that is no JSON is refused", async () => {
    api.server.inject({ fault: { kind: "text", code: 200, text: "<html>" } });
    expect(await failure(api.client.get(ref))).toMatchObject({ status: 0, reason: "BadAnswer" });
  });

  test("429 and 503 with Retry-After are repeated after that time, any method", async () => {
    api.server.inject({ fault: { kind: "status", code: 429, reason: "TooManyRequests", retryAfterSeconds: 1 } });
    const at = performance.now();
    await api.client.create(configMap());
    expect(performance.now() - at).toBeGreaterThan(990);
    expect(api.server.requests).toHaveLength(2);
  });

  test("a Retry-After beyond the deadline is told instead of waited for", async () => {
    api.server.inject({ fault: { kind: "status", code: 429, reason: "TooManyRequests", retryAfterSeconds: 60 } });
    const error = await failure(api.client.get(ref, { timeoutMs: 5_000 }));
    expect(error).toMatchObject({ status: 429, retryAfterMs: 60_000 });
    expect(api.server.requests).toHaveLength(1);
  });

  test("500 is not repeated here", async () => {
    api.server.inject({ fault: { kind: "status", code: 500 } });
    expect((await failure(api.client.get(ref))).status).toBe(500);
    expect(api.server.requests).toHaveLength(1);
  });
});

describe("a server that misbehaves", () => {
  test("cuts the connection: what may be repeated is", async () => {
    api.server.put(KINDS.ConfigMap, configMap());
    api.server.inject({ fault: { kind: "cut", lost: "request" } });
    expect(await api.client.get(ref)).toBeDefined();
    api.server.inject({ fault: { kind: "cut", lost: "answer" } });
    expect(await api.client.apply<ConfigMap>(configMap("5"))).toMatchObject({ data: { value: "5" } });
  });

  test("loses the answer of a create: that is not repeated, the object is there", async () => {
    api.server.inject({ method: "POST", fault: { kind: "cut", lost: "answer" } });
    const error = await failure(api.client.create(configMap()));
    expect(error.isUnreachable).toBe(true);
    expect(api.server.writes).toHaveLength(1);
    expect(api.server.read(ref)).toBeDefined();
  });

  test("cuts within the answer", async () => {
    api.server.put(KINDS.ConfigMap, configMap());
    api.server.inject({ fault: { kind: "half-answer" } });
    expect(await api.client.get(ref)).toBeDefined();
    expect(api.server.requests).toHaveLength(2);
  });

  test("hangs: the deadline ends the request, and the next one goes well", async () => {
    // The deadline may be over before the server sees the request: a fault for one would wait for the next.
    const repair = api.server.inject({ times: Number.POSITIVE_INFINITY, fault: { kind: "hang" } });
    expect(await failure(api.client.get(ref, { timeoutMs: 100 }))).toMatchObject({ status: 0, reason: "Timeout" });
    repair();
    expect(await api.client.get(ref)).toBeUndefined();
  });

  test("sends its answer slowly: the deadline counts for the whole", async () => {
    api.server.put(KINDS.ConfigMap, configMap("x".repeat(1000)));
    api.server.inject({ fault: { kind: "slow", bytes: 10, everyMs: 20 } });
    expect(await failure(api.client.get(ref, { timeoutMs: 200 }))).toMatchObject({ reason: "Timeout" });
    api.server.inject({ fault: { kind: "slow", bytes: 200, everyMs: 1 } });
    expect(await api.client.get<ConfigMap>(ref)).toMatchObject({ data: { value: "x".repeat(1000) } });
  });

  test("sends more than is taken", async () => {
    const small = new HttpKubeClient(clusterAt(api.server.url), { bodyLimit: 500 });
    api.server.put(KINDS.ConfigMap, configMap("x".repeat(1000)));
    expect((await failure(small.get(ref))).message).toContain("more than 500 bytes");
    await small.close();
  });

  test("is not there", async () => {
    const free = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => free.once("listening", resolve));
    const { port } = free.address() as { port: number };
    await new Promise((resolve) => free.close(resolve));
    const lonely = new HttpKubeClient(clusterAt(`http://127.0.0.1:${port}`));
    expect(await failure(lonely.get(ref))).toMatchObject({ status: 0, reason: "Unreachable" });
    await lonely.close();
  });

  test("the signal of a call ends it with its reason", async () => {
    api.server.inject({ fault: { kind: "hang" } });
    const stop = new AbortController();
    const call = api.client.get(ref, { signal: stop.signal });
    await vi.waitFor(() => expect(api.server.requests).toHaveLength(1), { timeout: 20_000 });
    stop.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
  });
});

describe("credentials", () => {
  let folder: string;
  let authority: TestAuthority;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sallyport-kube-"));
    authority = await TestAuthority.create("Cluster CA");
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  async function secured(token: string, by = authority): Promise<FakeApiServer> {
    const { certPem, keyPem } = await by.issue({ commonName: "kubernetes", ip: ["127.0.0.1"] });
    return await FakeApiServer.start({ tls: { cert: certPem, key: keyPem }, tokens: new Set([token]) });
  }

  async function mount(token: string, ca: string): Promise<void> {
    await writeFile(join(folder, "token"), `${token}\n`);
    await writeFile(join(folder, "ca.crt"), ca);
    await writeFile(join(folder, "namespace"), "overlay");
  }

  function pod({ url }: { url: string }): Promise<Cluster> {
    const { hostname, port } = new URL(url);
    return inCluster({ KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port }, folder);
  }

  test("of a pod: token and authority from the files, over kept connections", async () => {
    const tls = await secured("first");
    await mount("first", authority.certPem);
    const cluster = await pod(tls);
    expect(cluster.namespace).toBe("overlay");
    const secure = new HttpKubeClient(cluster);
    for (let i = 0; i < 10; i += 1) expect(await secure.get(ref)).toBeUndefined();
    expect(tls.connections).toBeLessThanOrEqual(2);
    expect(tls.requests[0]?.authorization).toBe("Bearer first");
    await secure.close();
    await tls.close();
  });

  test("a token that was replaced is read when the old one is refused, once", async () => {
    const tokens = new Set(["first"]);
    const { certPem, keyPem } = await authority.issue({ commonName: "kubernetes", ip: ["127.0.0.1"] });
    const tls = await FakeApiServer.start({ tls: { cert: certPem, key: keyPem }, tokens });
    await mount("first", authority.certPem);
    const secure = new HttpKubeClient(await pod(tls));
    await secure.get(ref);
    tokens.clear();
    tokens.add("second");
    expect((await failure(secure.get(ref))).status).toBe(401);
    expect(tls.requests).toHaveLength(2); // nothing new in the file: not asked twice
    await mount("second", authority.certPem);
    expect(await secure.get(ref)).toBeUndefined();
    expect(tls.requests.slice(2).map(({ authorization }) => authorization)).toEqual(["Bearer first", "Bearer second"]);
    expect(tls.connections).toBeLessThanOrEqual(2);
    await secure.close();
    await tls.close();
  });

  test("an authority that was replaced is read when the server's certificate is not trusted", async () => {
    const other = await TestAuthority.create("Next CA");
    const tls = await secured("t", other);
    await mount("t", authority.certPem);
    const secure = new HttpKubeClient(await pod(tls));
    const refused = await failure(secure.get(ref));
    expect(refused.isUnreachable).toBe(true);
    expect(refused.message).toContain("check the authorities");
    await mount("t", other.certPem);
    expect(await secure.get(ref)).toBeUndefined();
    await secure.close();
    await tls.close();
  });

  test("without a pod or its files the error says what to do", async () => {
    expect(isInCluster({})).toBe(false);
    await expect(inCluster({})).rejects.toThrow(ClusterConfigError);
    await expect(pod({ url: "https://127.0.0.1:1" })).rejects.toThrow(/automountServiceAccountToken/);
    await writeFile(join(folder, "namespace"), "overlay");
    const { credentials } = await pod({ url: "https://127.0.0.1:1" });
    for (const missing of ["token", "ca.crt"]) {
      await expect(credentials(false)).rejects.toThrow(`cannot read ${join(folder, missing)};`);
      await writeFile(join(folder, missing), "there");
    }
  });

  test("of a kubeconfig file", async () => {
    const plain = await FakeApiServer.start({ tokens: new Set(["secret"]) });
    const path = join(folder, "config");
    await writeFile(path, plain.kubeconfig);
    const cluster = await fromKubeconfig(path);
    expect(cluster.namespace).toBe("default");
    const other = new HttpKubeClient(cluster);
    expect(await other.get(ref)).toBeUndefined();
    expect(plain.requests[0]?.authorization).toBe("Bearer secret");
    await expect(fromKubeconfig(path, "no")).rejects.toThrow(/has no context no; it has fake/);
    await expect(fromKubeconfig(join(folder, "none"))).rejects.toThrow(ClusterConfigError);
    await other.close();
    await plain.close();
  });
});
