/** Connections to controllers and to the API server go through the proxy of the environment, and through none where that says so. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createClient } from "@sallyport/api/client";
import { fetchCaBundle } from "@sallyport/sdk";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { clusterAt } from "../kube/client/cluster.ts";
import { HttpKubeClient } from "../kube/client/http-client.ts";
import { KINDS } from "../kube/kinds.ts";
import { FakeApiServer } from "../kube/testing/fake-api-server.ts";
import { byProxy } from "./proxies.ts";
import { answer, FakeController } from "./testing/fake-controller.ts";
import { fetchPinnedAuthority } from "./trust.ts";

const CONTROLLER = "ctrl.overlay.test";
const closers: (() => unknown)[] = [];
let tunnels: string[];
/** Where names of the test are. */
let places: Map<string, number>;

beforeEach(async () => {
  tunnels = [];
  places = new Map();
  const proxy = createServer();
  const sockets = new Set<Socket>();
  proxy.on("connect", (request: IncomingMessage, client: Socket) => {
    const authority = request.url ?? "";
    tunnels.push(authority);
    const port = places.get(authority);
    if (port === undefined) return void client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    const target = connect(port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      target.pipe(client).pipe(target);
    });
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  vi.stubEnv("HTTPS_PROXY", `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  vi.stubEnv("NO_PROXY", "");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const close of closers.splice(0)) await close();
});

const portOf = (url: string): number => Number(new URL(url).port);

describe("a controller", () => {
  let controller: FakeController;
  let baseUrl: string;
  let authority: TestAuthority;
  beforeEach(async () => {
    authority = await TestAuthority.create();
    controller = await FakeController.start(
      () => answer([], { pagination: { limit: 1, offset: 0, totalCount: 0 } }),
      authority,
    );
    closers.push(() => controller.close());
    baseUrl = `https://${CONTROLLER}:1280`;
    places.set(`${CONTROLLER}:1280`, portOf(controller.url));
  });

  test("is called through the proxy, over one kept connection, with its certificate checked", async () => {
    // The certificate is for localhost.
    const client = createClient("management", {
      baseUrl,
      ca: controller.ca,
      ...byProxy(),
      tls: { servername: "localhost" },
    });
    closers.push(() => client.close());
    await client.listTerminators({ query: { limit: 1 } });
    await client.listTerminators({ query: { limit: 1 } });
    expect(tunnels).toEqual([`${CONTROLLER}:1280`]);
    const strict = createClient("management", { baseUrl, ca: controller.ca, ...byProxy() });
    closers.push(() => strict.close());
    await expect(strict.listTerminators({ query: { limit: 1 } })).rejects.toThrow(/altnames|does not match/i);
  });

  test("that the proxy does not reach is told with what the proxy says", async () => {
    places.clear();
    const client = createClient("management", { baseUrl, ca: controller.ca, ...byProxy() });
    closers.push(() => client.close());
    await expect(client.listTerminators({ query: { limit: 1 } })).rejects.toThrow(/proxy .* 502 Bad Gateway/);
  });

  test.each(["localhost", "main-controller.edge.svc", "main-controller.edge.svc.cluster.local"])(
    "%s is called directly",
    async (host) => {
      expect(await byProxy().connect?.({ host, port: 1280 })).toBeUndefined();
      expect(tunnels).toEqual([]);
    },
  );

  test("of which the authority is asked for", async () => {
    const asked = fetchPinnedAuthority([baseUrl], "00".repeat(32), { timeoutMs: 20_000 });
    await expect(asked).rejects.toThrow();
    expect(tunnels).toEqual([`${CONTROLLER}:1280`]);
    expect(controller.asked).toHaveLength(1);
  });
});

test("an enrollment goes through the proxy", async () => {
  const authority = await TestAuthority.create();
  const controller = await FakeController.start(() => answer({}), authority);
  closers.push(() => controller.close());
  places.set(`${CONTROLLER}:443`, portOf(controller.url));
  const asked = fetchCaBundle(new URL(`https://${CONTROLLER}`), { caPem: controller.ca }, undefined, byProxy().connect);
  // The certificate is for localhost: the tunnel was made, and nothing is trusted for that.
  await expect(asked).rejects.toMatchObject({ code: "UNREACHABLE" });
  expect(tunnels).toEqual([`${CONTROLLER}:443`]);
});

describe("an API server", () => {
  const start = async () => {
    const authority = await TestAuthority.create();
    const { certPem: cert, keyPem: key } = await authority.issue({ dns: ["api.cluster.test"] });
    const server = await FakeApiServer.start({ tls: { cert, key } });
    closers.push(() => server.close());
    places.set("api.cluster.test:6443", portOf(server.url));
    return clusterAt("https://api.cluster.test:6443", { ca: authority.certPem });
  };

  test("is asked through the proxy", async () => {
    const client = new HttpKubeClient(await start());
    closers.push(() => client.close());
    expect((await client.list(KINDS.Secret)).items).toEqual([]);
    expect(tunnels).toEqual(["api.cluster.test:6443"]);
  });

  test.each(["near", "excepted"])("that is %s is asked directly", async (way) => {
    const cluster = await start();
    if (way === "excepted") vi.stubEnv("NO_PROXY", ".cluster.test");
    const client = new HttpKubeClient(way === "near" ? { ...cluster, isNear: true } : cluster);
    closers.push(() => client.close());
    await expect(client.list(KINDS.Secret)).rejects.toThrow();
    expect(tunnels).toEqual([]);
  });
});
