import { createHmac, hkdfSync, randomBytes, X509Certificate } from "node:crypto";
import { ApiTransportError } from "@sallyport/api/client";
import { afterEach, describe, expect, test } from "vitest";
import { FakeController, type Said } from "./testing/fake-controller.ts";
import { fetchPinnedAuthority, fetchProvenBundle, TrustError } from "./trust.ts";

const KEY = randomBytes(32).toString("base64");
const o = { timeoutMs: 5_000 };
const servers: FakeController[] = [];

async function serve(say: (path: string) => Said | undefined): Promise<FakeController> {
  const server = await FakeController.start(({ path }) => say(path));
  servers.push(server);
  return server;
}

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** As a controller with this key proves it. */
function proofOf(key: string, nonce: string, bundle: string): string {
  const derived = Buffer.from(hkdfSync("sha256", Buffer.from(key, "base64"), "", "sallyport trust bundle 1", 32));
  return createHmac("sha256", derived).update(`${nonce}\n${bundle}`).digest("base64");
}

const said = (data: unknown): Said => ({ status: 200, body: { data, meta: {} } });
const nonceIn = (path: string): string => new URL(path, "https://x").searchParams.get("nonce") ?? "";

describe("what a controller says is to be trusted", () => {
  let bundle = "";

  test("is believed when it has the network's key", async () => {
    const server = await serve((path) => said({ bundle, proof: proofOf(KEY, nonceIn(path), bundle) }));
    bundle = server.ca;
    expect(await fetchProvenBundle(server.url, `${KEY}\n`, o)).toBe(server.ca);
    const [first, second] = [
      await fetchProvenBundle(server.url, KEY, o),
      server.asked.map(({ path }) => nonceIn(path)),
    ];
    expect(first).toBe(server.ca);
    expect(new Set(second).size).toBe(2);
  });

  // biome-ignore format: a table
  test.each<[string, (path: string) => Said | undefined]>([
    ["another key", (path) => said({ bundle, proof: proofOf(randomBytes(32).toString("base64"), nonceIn(path), bundle) })],
    ["an old proof", () => said({ bundle, proof: proofOf(KEY, "00".repeat(32), bundle) })],
    ["a proof of another bundle", (path) => said({ bundle, proof: proofOf(KEY, nonceIn(path), `${bundle}x`) })],
    ["no proof", () => said({ bundle })],
    ["nothing to trust", (path) => said({ bundle: "", proof: proofOf(KEY, nonceIn(path), "") })],
    ["something else", () => ({ status: 200, body: "hello" })],
    ["no such page", () => ({ status: 404 })],
  ])("is not believed: %s", async (_name, say) => {
    const server = await serve(say);
    bundle = server.ca;
    await expect(fetchProvenBundle(server.url, KEY, o)).rejects.toThrow(TrustError);
  });

  test("a server that doesn't answer is no liar", async () => {
    const server = await serve(() => undefined);
    await expect(fetchProvenBundle(server.url, KEY, o)).rejects.toThrow(ApiTransportError);
    const ended = new AbortController();
    ended.abort(new Error("the test ends"));
    await expect(fetchProvenBundle(server.url, KEY, { ...o, signal: ended.signal })).rejects.toThrow("the test ends");
  });
});

describe("an authority that is pinned", () => {
  test("is not taken from an answer that is no CA store, nor without an answer", async () => {
    const server = await serve(() => ({ status: 200, body: ["no certificates"] }));
    const { fingerprint256 } = new X509Certificate(server.ca);
    await expect(fetchPinnedAuthority([server.url], fingerprint256, o)).rejects.toThrow(/can't be read/);
    const silent = await serve(() => undefined);
    await expect(fetchPinnedAuthority([silent.url], fingerprint256, o)).rejects.toThrow(ApiTransportError);
    // The next one is asked where one doesn't answer.
    await expect(fetchPinnedAuthority([silent.url, server.url], fingerprint256, o)).rejects.toThrow(TrustError);
  });
});
