import { once } from "node:events";
import { createServer } from "node:net";
import { pause } from "@sallyport/async";
import { silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, describe, expect, test } from "vitest";
import { NetworkConnection } from "./connection.ts";
import { answer, FakeController, session } from "./testing/fake-controller.ts";

const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end();
});

type Say = Parameters<typeof FakeController.start>[0];
type Asked = Parameters<Say>[0];

const LIST = answer([], { pagination: { limit: 10, offset: 0, totalCount: 0 } });
const loggedIn =
  (then: Say): Say =>
  (asked: Asked) =>
    asked.path.startsWith("/authenticate") ? session("t") : then(asked);

describe("a controller that hangs", () => {
  const never = new Promise<never>(() => {});
  const patience = { callMs: 500, probeMs: 2_000 };

  async function two(say: Say): Promise<{ first: FakeController; second: FakeController; c: NetworkConnection }> {
    const authority = await TestAuthority.create();
    const first = await FakeController.start(loggedIn(say), authority);
    const second = await FakeController.start(
      loggedIn(() => LIST),
      authority,
    );
    const c = new NetworkConnection({
      name: "default/main",
      endpoints: [first.url, second.url],
      ca: first.ca,
      credentials: { method: "password", username: "operator", password: "secret" },
      requestTimeoutMs: 6_000,
      maxRequestsPerSecond: 1_000,
      log: silentLogger,
      patience,
    });
    ending.push(
      () => second.close(),
      () => c.close(),
    );
    return { first, second, c };
  }

  test("is left for another one, also with what deletes, and is not asked again", async () => {
    let hangs = false;
    const { first, second, c } = await two(() => (hangs ? never : LIST));
    ending.push(() => first.close());
    await c.client.listServices();
    hangs = true;
    first.version = undefined;
    const since = performance.now();
    await c.client.deleteService({ params: { id: "s1" } });
    await c.client.listServices();
    expect(performance.now() - since).toBeLessThan(6_000);
    expect(second.log.filter((line) => line.startsWith("GET"))).toEqual(["GET /services"]);
    expect(second.asked.some(({ method, path }) => method === "DELETE" && path === "/services/s1")).toBe(true);
    expect(first.asked.map(({ path }) => path).toSorted()).toEqual([
      ...["/authenticate?method=password", "/services", "/services/s1", "/version"],
    ]);
  });

  test("keeps what it may have done", async () => {
    const { first, second, c } = await two(({ method, path }) =>
      method === "POST" || path === "/version" ? never : LIST,
    );
    ending.push(() => first.close());
    await c.client.listServices();
    first.version = undefined;
    const created = c.client.createService({ body: { name: "a", encryptionRequired: true } });
    await expect(created).rejects.toThrow("could not be called");
    expect(second.asked).toEqual([]);
  });

  test("loses what it cannot have got: no connection to it came about", async () => {
    const { first, second, c } = await two(() => LIST);
    await c.client.listServices();
    await first.close();
    const silent = createServer((socket) => socket.resume()).listen(Number(new URL(first.url).port), "localhost");
    await once(silent, "listening");
    ending.push(() => new Promise((resolve) => silent.close(resolve)));
    await c.client.createService({ body: { name: "a", encryptionRequired: true } });
    expect(second.log).toContain("POST /services");
  });

  test("is none that answers something: it keeps a call that takes long", async () => {
    const { first, second, c } = await two(() => pause(1_500).then(() => LIST));
    ending.push(() => first.close());
    await c.client.listServices();
    expect(second.asked).toEqual([]);
  });
});
