import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseRouterConfig } from "@sallyport/router-config";
import {
  BaseType,
  type Channel,
  ControlHello,
  ControlType,
  ctrlPb,
  decodeControl,
  dialChannel,
  EDGE_ALPN,
  EdgeCtrlType,
  EdgeHeader,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Message,
  metricsPb,
  parseVersionInfo,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { readEndpointsFile } from "./control/controllers/endpoints-file.ts";
import { type Router, startRouter } from "./router.ts";
import { ScriptedController } from "./testing/scripted-controller.ts";
import { decodedOf, traceRecords } from "./testing/trace-records.ts";

let authority: TestAuthority;
let controller: ScriptedController;
let dir: string;
const started: Router[] = [];

beforeAll(async () => {
  authority = await TestAuthority.create();
});

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-router-"));
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
});

afterEach(async () => {
  for (const router of started.splice(0)) await router.close();
  await controller.close();
  await rm(dir, { recursive: true });
});

async function router(
  id: string,
  o: { host?: string; edge?: string; listeners?: string; heartbeats?: string; bind?: string; more?: string } = {},
): Promise<Router> {
  const { certPem, keyPem } = await authority.issue({ commonName: id, dns: ["localhost"] });
  await writeFile(join(dir, `${id}.cert`), certPem);
  await writeFile(join(dir, `${id}.key`), keyPem, { mode: 0o600 });
  await writeFile(join(dir, "ca.pem"), authority.certPem);
  const port = await freePort();
  const host = o.host ?? "localhost";
  const bind = o.bind === undefined ? "" : `, bind: ${o.bind}`;
  const { config } = parseRouterConfig(`v: 3
identity: { cert: ${id}.cert, server_cert: ${id}.cert, key: ${id}.key, ca: ca.pem }
ctrl: { endpoint: "tls:localhost:${controller.port.port}", endpointsFile: ${id}.endpoints.yml, startupTimeout: 10s${bind} }
${o.edge ?? "edge: {}"}
link:
  heartbeats: ${o.heartbeats ?? "{ checkInterval: 20ms }"}
  listeners: [{ binding: transport, bind: "tls:127.0.0.1:${port}", advertise: "${host}:${port}", groups: [a, b] }]
  dialers: [{ binding: transport, groups: [b], startupDelay: 0s${bind} }]
listeners: [{ binding: edge, address: "tls:127.0.0.1:${port}", options: { advertise: "localhost:${port}" } }${o.listeners ?? ""}]
${o.more ?? ""}`);
  const made = await startRouter({
    config,
    configFile: join(dir, "router.yml"),
    baseDir: dir,
    log: silentLogger,
    version: "1.2.3",
  });
  started.push(made);
  return made;
}

function listenersOf(channel: Channel): ctrlPb.Listener[] {
  return decodeControl(ctrlPb.ListenersSchema, channel.hello.headers.get(ControlHello.Listeners)!).listeners;
}

/** The message by which a controller tells of a router: what that router said of itself in its hello. */
function announced(id: string, channel: Channel): Buffer {
  const changes = [{ id, version: "v1.6.20", state: ctrlPb.PeerState.Healthy, listeners: listenersOf(channel) }];
  return encodeControl(ctrlPb.PeerStateChangesSchema, { changes });
}

describe("a router", () => {
  it("introduces itself with version, link listeners and what it can do", async () => {
    const r1 = await router("r1");
    await r1.online;
    const channel = await controller.channel();
    expect(channel.hello.idToken).toBe("r1");
    expect(parseVersionInfo(channel.hello.headers.getString(ControlHello.Version) ?? "").version).toBe("v1.6.20");
    const { headers } = channel.hello;
    const { listeners } = decodeControl(ctrlPb.ListenersSchema, headers.get(ControlHello.Listeners)!);
    expect(listeners).toMatchObject([
      { address: expect.stringMatching(/^tls:localhost:\d+$/), protocol: "tls", groups: ["a", "b"] },
    ]);
    expect(headers.get(ControlHello.RouterMetadata)?.toString("hex")).toBe("0a0101");
    // The same for controllers of OpenZiti 2.x, with what the router can do.
    expect(headers.get(ControlHello.ListenersV2)).toEqual(headers.get(ControlHello.Listeners));
    expect(headers.get(ControlHello.RouterMetadataV2)).toEqual(headers.get(ControlHello.RouterMetadata));
    expect(headers.get(ControlHello.CapabilitiesV2)?.toString("hex")).toBe("4000000000000076");
    const links = await controller.next(ControlType.RouterLinks);
    expect(links.body.length).toBe(0);
  });

  it("serves SDKs at every edge listener", async () => {
    const port = await freePort();
    const more = `, { binding: edge, address: "tls:127.0.0.1:${port}", options: { advertise: "localhost:${port}" } }`;
    const r1 = await router("r1", { listeners: more });
    await r1.online;
    const channel = await dialChannel({
      address: `tls:localhost:${port}`,
      identity: await authority.identity("app"),
      alpn: EDGE_ALPN,
      hello: { idToken: "sdk" },
    });
    expect(channel.remoteId).toBe("r1");
    channel.close();
  });

  it("links to the peers it is told of, has them verified, reports the link and soon its latency", async () => {
    const asked: string[] = [];
    controller.on(ControlType.VerifyRouter, (message, channel) => {
      asked.push(decodeControl(ctrlPb.VerifyRouterSchema, message.body).routerId);
      channel.replyResult(message, true, "router verified");
    });
    const r1 = await router("r1");
    await r1.online;
    const first = await controller.channel();
    const r2 = await router("r2");
    await r2.online;
    const second = await controller.channel();
    first.send({ contentType: ControlType.PeerStateChanges, body: announced("r2", second) });
    const report = async () => {
      for (;;) {
        const message = await controller.next(ControlType.RouterLinks);
        const { links } = decodeControl(ctrlPb.RouterLinksSchema, message.body);
        if (links[0] !== undefined) return links[0];
      }
    };
    const link = await report();
    expect(link).toMatchObject({
      destRouterId: "r2",
      linkProtocol: "tls",
      iteration: 1,
      dialAddress: listenersOf(second)[0]?.address,
    });
    expect(asked).toEqual(["r1"]);
    for (;;) {
      const message = await controller.next(ControlType.Metrics);
      const metrics = decodeControl(metricsPb.MetricsMessageSchema, message.body);
      const latency = metrics.histograms[`link.${link.id}.latency`];
      if (latency === undefined) continue;
      expect(latency.mean).toBeGreaterThan(0);
      break;
    }
  });

  it.runIf(process.platform === "linux")(
    "dials controllers and all connections of its links from the addresses that `bind` names",
    async () => {
      controller.on(ControlType.VerifyRouter, (message, channel) =>
        channel.replyResult(message, true, "router verified"),
      );
      const r1 = await router("r1", { bind: "127.0.0.9" });
      await r1.online;
      const first = await controller.channel();
      expect(first.peer.address).toMatch(/^127\.0\.0\.9:/);
      const r2 = await router("r2");
      await r2.online;
      first.send({ contentType: ControlType.PeerStateChanges, body: announced("r2", await controller.channel()) });
      const sources = () =>
        r2.links.links().flatMap((link) => link.channel.underlays.map((each) => each.remoteAddress));
      await expect.poll(() => sources().length, { timeout: 20_000 }).toBeGreaterThan(1);
      expect(sources().filter((address) => !address.startsWith("127.0.0.9:"))).toEqual([]);
    },
  );

  it("measures how long data of SDKs waits when it is told to", async () => {
    const figures = async (id: string, more: string) => {
      const port = await freePort();
      const server = `{ name: m, apis: [{ binding: metrics }], bindPoints: [{ interface: "127.0.0.1:${port}", address: "localhost:${port}" }] }`;
      await router(id, { more: `web: [${server}]\n${more}` });
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        get({ host: "127.0.0.1", port, path: "/metrics", rejectUnauthorized: false, agent: false }, resolve).on(
          "error",
          reject,
        );
      });
      return await text(answer);
    };
    expect(await figures("r1", "metrics: { enableDataDelayMetric: true }\n")).toContain("long_data_queue_time");
    const plain = await figures("r2", "");
    expect(plain).not.toContain("long_data_queue_time");
    const labels = `program="router",version="1.2.3",node="${process.versions.node}"`;
    expect(plain).toContain(`sallyport_build_info{${labels}} 1\n`);
  });

  it("tells controllers of this machine's interfaces, unless that is disabled", async () => {
    const told: string[] = [];
    controller.on(ControlType.RouterInterfacesUpdate, (message, channel) => {
      told.push(channel.remoteId);
      channel.replyResult(message, true, "success");
    });
    const silent = await router("r1", { more: "interfaceDiscovery: { disabled: true }\n" });
    await silent.online;
    await (await router("r2")).online;
    await expect.poll(() => told).toContain("r2");
    // What is told at all is told right after connecting: the first had all the time of the second.
    expect(told).toEqual(["r2"]);
  });

  it("traces the messages of controllers, links and SDKs into the file of `trace`, until it is closed", async () => {
    const verify = (message: Message, channel: Channel) => channel.replyResult(message, true, "router verified");
    controller.on(ControlType.VerifyRouter, verify);
    const path = join(dir, "trace");
    const port = await freePort();
    const r1 = await router("r1", {
      more: "trace: { path: trace }\n",
      heartbeats: "{ checkInterval: 20ms, sendInterval: 20ms }",
      listeners: `, { binding: edge, address: "tls:127.0.0.1:${port}", options: { advertise: "localhost:${port}" } }`,
    });
    await r1.online;
    const first = await controller.channel();
    const r2 = await router("r2");
    await r2.online;
    first.send({ contentType: ControlType.PeerStateChanges, body: announced("r2", await controller.channel()) });
    await expect.poll(() => r1.links.links().length, { timeout: 20_000 }).toBe(1);
    const app = await authority.identity("app");
    const session = { id: "s1", identityId: "i1", token: "t1", certFingerprints: [app.leafFingerprint] };
    const body = encodeControl(edgeCtrlPb.ApiSessionAddedSchema, { apiSessions: [session] });
    first.send({ contentType: EdgeCtrlType.ApiSessionAdded, body });
    const sdk = await dialChannel({
      address: `tls:localhost:${port}`,
      identity: app,
      alpn: EDGE_ALPN,
      hello: { idToken: "sdk", headers: new Headers().setString(EdgeHeader.SessionToken, session.token) },
    });
    await sdk.request({ contentType: BaseType.Ping });
    const named = async (pattern: RegExp) => (await traceRecords(path)).filter(({ channel }) => pattern.test(channel));
    const messages = (records: Awaited<ReturnType<typeof named>>) =>
      records.flatMap((record) => ("contentType" in record ? [record] : []));
    await expect.poll(async () => messages(await named(/^link\//)).length, { timeout: 20_000 }).toBeGreaterThan(0);
    expect(messages(await named(/^ctrl\/ctrl1$/)).map(decodedOf)).toContainEqual(
      expect.objectContaining({ __message__: "PeerStateChanges", changes: [expect.objectContaining({ id: "r2" })] }),
    );
    expect(messages(await named(/^edge\//)).map(decodedOf)).toContainEqual({
      __decoder__: "channel",
      __message__: "Ping",
    });
    await r1.close();
    await sdk.closed;
    for (const pattern of [/^ctrl\//, /^link\//, /^edge\//])
      expect((await named(pattern)).at(-1), String(pattern)).toMatchObject({ connected: false });
  });

  it("follows its controller to another address and remembers it", async () => {
    const r1 = await router("r1");
    await r1.online;
    const other = await ScriptedController.start(await authority.identity("ctrl2"), "ctrl2");
    try {
      const body = encodeControl(ctrlPb.UpdateCtrlAddressesSchema, {
        addresses: [`tls:localhost:${other.port.port}`],
        index: 1n,
      });
      const channel = await controller.channel();
      channel.send({ contentType: ControlType.UpdateCtrlAddresses, body });
      await other.channel();
      await channel.closed;
      const file = join(dir, "r1.endpoints.yml");
      await vi.waitFor(
        async () => expect(await readEndpointsFile(file, silentLogger)).toMatchObject([{ port: other.port.port }]),
        10_000,
      );
    } finally {
      await r1.close();
      await other.close();
    }
  });

  it("stops completely, and can be stopped twice", async () => {
    const r1 = await router("r1");
    await r1.online;
    const channel = await controller.channel();
    await r1.close();
    await channel.closed;
    await r1.close();
  });
});

describe("a router does not start", () => {
  it.each([
    [
      "when no client could dial what it advertises",
      { host: "elsewhere.example" },
      /link\.listeners\[0\]\.advertise: no certificate .*elsewhere\.example/,
    ],
    ["with an edge listener but edge disabled", { edge: "" }, /no edge section/],
  ])("%s", async (_what, o, message) => {
    await expect(router("r1", o)).rejects.toThrow(message);
  });
});
