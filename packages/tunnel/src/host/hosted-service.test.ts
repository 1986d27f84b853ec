import { createSocket } from "node:dgram";
import { once } from "node:events";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { describe, expect, it } from "vitest";
import {
  client,
  configs,
  echo,
  hostAt,
  interceptV1,
  logged,
  overlay,
  proxyOf,
  RecordingInterceptor,
  says,
  stops,
  tcpClient,
  tunneler,
} from "../testing/tunneler-in-memory.ts";
import type { LocalRoutes } from "./source-addresses.ts";

describe("a hosted service", () => {
  it("forwards what the dialer asked for, and says why not", async () => {
    const { port } = await echo();
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const forwarding = {
      forwardProtocol: true,
      allowedProtocols: ["tcp"],
      forwardAddress: true,
      allowedAddresses: ["100.64.0.0/10"],
      forwardAddressTranslations: [{ from: "100.64.0.0", to: "127.0.0.0", prefixLength: 30 }],
      forwardPort: true,
      allowedPortRanges: [{ low: port, high: port }],
    };
    overlay.change({
      web: {
        canDial: true,
        canBind: true,
        configs: configs({ "intercept.v1": interceptV1, "host.v1": forwarding }),
      },
    });
    await expect.poll(() => [interceptor.clients.length, overlay.hosted.length]).toEqual([1, 1]);
    const { destinationHostname: _, ...unnamed } = client;
    const { near, far } = await tcpClient();
    const addresses = { ...unnamed, destinationIp: "100.64.0.1", destinationPort: port };
    interceptor.clients[0]!.tcp({ addresses, socket: far });
    near.write("hello");
    expect(String((await once(near, "data"))[0])).toBe("hello");

    const second = await tcpClient();
    interceptor.clients[0]!.tcp({ addresses: unnamed, socket: second.far });
    await says("a client got no circuit");
    expect(logged.at(-1)?.fields).toMatchObject({ reason: "port 80 is not in allowed port ranges" });
  });

  it("carries datagrams message by message", async () => {
    const target = createSocket("udp4");
    target.on("message", (datagram, from) => target.send(datagram, from.port, from.address));
    target.bind(0, "127.0.0.1");
    await once(target, "listening");
    stops.push(() => target.close());
    const proxyPort = await freePort();
    const config = hostAt(target.address().port, { protocol: "udp" });
    const running = tunneler({ interceptor: proxyOf("dns", proxyPort, "udp") });
    overlay.change({ dns: { canDial: true, canBind: true, configs: configs({ "host.v1": config }) } });
    await says("a port is open");
    const socket = createSocket("udp4");
    stops.push(() => socket.close());
    for (const size of [1, 1_400, 16_000, 60_000]) {
      const answer = once(socket, "message");
      socket.send(Buffer.alloc(size, size), proxyPort, "127.0.0.1");
      expect(Buffer.alloc(size, size).equals((await answer)[0])).toBe(true);
    }
    expect(running.circuits).toBe(2);
  });

  it("answers questions for names on a connection of that kind", async () => {
    tunneler();
    const config = { ...hostAt(1), forwardAddress: true, allowedAddresses: ["*.example.com"] };
    overlay.change({ web: { canBind: true, configs: configs({ "host.v1": config }) } });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    const connection = await overlay.dial(overlay.hosted[0]!.service, {
      kind: "datagrams",
      appData: { connType: "resolver" },
      timeoutMs: 1_000,
    });
    const answers: string[] = [];
    connection.start({
      data: (buffer, start, end) => answers.push(buffer.toString("utf8", start, end)) > 0,
      endOfData: () => {},
      writable: () => {},
      closed: () => {},
    });
    const ask = (question: object) => {
      const bytes = Buffer.from(JSON.stringify({ id: 3, question: [question] }));
      connection.write(bytes, 0, bytes.length);
    };
    ask({ name: "other.com", type: 15 });
    ask({ name: "x.example.com", type: 1 });
    await expect.poll(() => answers.length).toBe(2);
    expect(answers.map((text) => JSON.parse(text))).toMatchObject([
      { id: 3, status: 3, question: [{ name: "other.com", type: 15 }] },
      { id: 3, status: 4 },
    ]);
    connection.close();
  });

  it("is offered by what the identity, the config and the identity's values for the service say", async () => {
    overlay.identity = { id: "me", name: "laptop", appData: { site: "b" } };
    tunneler();
    const terminators = [
      hostAt(1),
      hostAt(2, { listenOptions: { cost: 20, precedence: "failed", identity: "$tunneler_id.appData[site]" } }),
      hostAt(3, { listenOptions: { bindUsingEdgeIdentity: true, identity: "x" } }),
    ];
    const web = { canBind: true, defaultCost: 5, defaultPrecedence: "required" as const };
    overlay.change({ web: { ...web, configs: configs({ "host.v2": { terminators } }) } });
    await expect.poll(() => overlay.hosted.length).toBe(3);
    const offers = () => overlay.hosted.map(({ o }) => [o.index, o.cost, o.precedence, o.instanceId]);
    expect(offers()).toEqual([
      [0, 5, "required", undefined],
      [1, 20, "failed", "b"],
      [2, 5, "required", "laptop"],
    ]);
    overlay.change({
      web: { ...web, cost: 7, precedence: "default", configs: configs({ "host.v2": { terminators } }) },
    });
    await expect.poll(() => overlay.hosted.length).toBe(6);
    expect(offers().slice(3)).toEqual([
      [0, 7, "default", undefined],
      [1, 7, "default", "b"],
      [2, 7, "default", "laptop"],
    ]);
    expect(overlay.hosted.map(({ isClosed }) => isClosed)).toEqual([true, true, true, false, false, false]);
  });

  it("makes its source addresses local as long as a terminator needs them", async () => {
    const changes: string[] = [];
    const localRoutes: LocalRoutes = {
      add: async (prefix) => void changes.push(`+${prefix}`),
      remove: async (prefix) => void changes.push(`-${prefix}`),
    };
    const running = tunneler({ localRoutes });
    const config = (prefixes: string[]) => configs({ "host.v1": hostAt(1, { allowedSourceAddresses: prefixes }) });
    overlay.change({
      one: { canBind: true, configs: config(["192.0.2.0/24", "198.51.100.1"]) },
      two: { canBind: true, configs: config(["192.0.2.0/24"]) },
    });
    await expect.poll(() => overlay.hosted.length).toBe(2);
    expect(changes).toEqual(["+192.0.2.0/24", "+198.51.100.1"]);
    overlay.change({ one: undefined });
    await expect.poll(() => changes.slice(2)).toEqual(["-198.51.100.1"]);
    await running.close();
    expect(changes.slice(3)).toEqual(["-192.0.2.0/24"]);
  });

  it("goes on without a source address that cannot be made local", async () => {
    const failing = async () => Promise.reject(new Error("no permission"));
    tunneler({ localRoutes: { add: failing, remove: failing } });
    const config = hostAt(1, { allowedSourceAddresses: ["192.0.2.1"] });
    overlay.change({ web: { canBind: true, configs: configs({ "host.v1": config }) } });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    await says("the route of a source address could not be changed");
  });

  it("whose port answers no more is offered last, then again as before", async () => {
    // Of a port that no other test is given while it is closed.
    const target = await echo(await freePort());
    tunneler();
    const portChecks = [
      {
        address: `127.0.0.1:${target.port}`,
        interval: "100ms",
        timeout: "10s",
        actions: [
          { trigger: "fail", action: "mark unhealthy" },
          { trigger: "change", action: "send event" },
          { trigger: "change", action: "increase cost 100" },
          { trigger: "pass", action: "mark healthy" },
        ],
      },
    ];
    overlay.change({ web: { canBind: true, configs: configs({ "host.v1": hostAt(target.port, { portChecks }) }) } });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    const [terminator] = overlay.hosted;
    await new Promise((resolve) => target.close(resolve));
    await expect.poll(() => terminator!.updates).toEqual([{ precedence: "failed" }]);
    await once(target.listen(target.port, "127.0.0.1"), "listening");
    await expect.poll(() => terminator!.updates).toEqual([{ precedence: "failed" }, { precedence: "default" }]);
    expect(terminator!.events).toEqual([false, true]);
    overlay.change({ web: undefined });
    await expect.poll(() => terminator!.isClosed).toBe(true);
  });
});
