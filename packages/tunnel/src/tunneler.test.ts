import { once } from "node:events";
import { lineBounds } from "@sallyport/wire";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { describe, expect, it } from "vitest";
import {
  client,
  configs,
  echo,
  hostAt,
  interceptV1,
  listen,
  log,
  logged,
  open,
  overlay,
  proxyOf,
  RecordingInterceptor,
  says,
  tcpClient,
  tunneler,
} from "./testing/tunneler-in-memory.ts";
import { Tunneler } from "./tunneler.ts";

describe("a client's connection", () => {
  it("reaches the target and comes back, each direction ended on its own", async () => {
    const { port } = await echo();
    const proxyPort = await freePort();
    const running = tunneler({ interceptor: proxyOf("web", proxyPort) });
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "host.v1": hostAt(port) }) } });
    await says("a port is open");
    const socket = await open(proxyPort);
    const { localPort } = socket;
    const sent = Buffer.alloc(3_000_000, "0123456789abc");
    const received: Buffer[] = [];
    socket.on("data", (bytes: Buffer) => void received.push(bytes));
    socket.end(sent);
    await once(socket, "end");
    expect(Buffer.concat(received).equals(sent)).toBe(true);
    expect(overlay.dials).toMatchObject([
      {
        kind: "stream",
        timeoutMs: 5_000,
        appData: { dst_protocol: "tcp", dst_ip: "127.0.0.1", dst_port: String(proxyPort) },
        localAddress: `127.0.0.1:${proxyPort}`,
        remoteAddress: `127.0.0.1:${localPort}`,
      },
    ]);
    await expect.poll(() => running.circuits).toBe(0);
  });

  it("slows down a target that sends more than is read", async () => {
    const piece = Buffer.alloc(1_000_000);
    let written = 0;
    const target = await listen((socket) => {
      const more = () => {
        while (written < 200 && socket.write(piece)) written++;
      };
      socket.on("drain", more);
      more();
    });
    const proxyPort = await freePort();
    tunneler({ interceptor: proxyOf("web", proxyPort) });
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "host.v1": hostAt(target.port) }) } });
    await says("a port is open");
    const socket = await open(proxyPort);
    socket.pause();
    let before = -1;
    await expect
      .poll(() => {
        const isStill = written > 0 && written === before;
        before = written;
        return isStill;
      })
      .toBe(true);
    expect(written).toBeLessThan(100);
    let length = 0;
    socket.on("data", (bytes) => {
      length += bytes.length;
    });
    socket.resume();
    await expect.poll(() => length, { timeout: 20_000 }).toBeGreaterThanOrEqual(200_000_000);
  });

  it("that gets no circuit is not worth a line each time", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    overlay.change({
      web: {
        ...{ canDial: true, canBind: true },
        configs: configs({
          "intercept.v1": interceptV1,
          "host.v1": { protocol: "tcp", address: "127.0.0.1", port: 1 },
        }),
      },
    });
    await expect.poll(() => [interceptor.clients.length, overlay.hosted.length]).toEqual([1, 1]);
    for (let i = 0; i < 12; i++) {
      const { near, far } = await tcpClient();
      const failed = once(near, "error");
      interceptor.clients[0]!.tcp({ addresses: client, socket: far });
      await failed;
    }
    for (const line of ["a client got no circuit", "a dial was refused"]) {
      expect(logged.filter(({ msg }) => msg === line)).toHaveLength(lineBounds.perReason);
    }
  });

  it("that gets no circuit is reset", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    overlay.change({ web: { canDial: true, configs: configs({ "intercept.v1": interceptV1 }) } });
    await expect.poll(() => interceptor.clients.length).toBe(1);
    const { near, far } = await tcpClient();
    const failed = once(near, "error");
    interceptor.clients[0]!.tcp({ addresses: client, socket: far });
    expect((await failed)[0]).toMatchObject({ code: "ECONNRESET" });
    expect(logged).toContainEqual({
      msg: "a client got no circuit",
      fields: { service: "web", client: "192.0.2.2:5000", reason: "service web has no terminators" },
    });
  });

  it("is dialled as the config says: instance, source address, timeout", async () => {
    const interceptor = new RecordingInterceptor();
    overlay.identity = { id: "me", name: "laptop", appData: { site: "b" } };
    tunneler({ interceptor });
    const config = {
      ...interceptV1,
      sourceIp: "$src_ip:$src_port",
      dialOptions: { identity: "$tunneler_id.appData[site]-$dst_hostname", connectTimeoutSeconds: 9 },
      allowedSourceAddresses: ["192.0.2.0/24"],
    };
    overlay.change({ web: { canDial: true, configs: configs({ "intercept.v1": config }) } });
    await expect.poll(() => interceptor.targets.length).toBe(1);
    expect(interceptor.targets[0]).toEqual({
      id: "web",
      name: "web",
      ...interceptV1,
      allowedSourceAddresses: ["192.0.2.0/24"],
    });
    const { far } = await tcpClient();
    interceptor.clients[0]!.tcp({ addresses: client, socket: far });
    await expect.poll(() => overlay.dials.length).toBe(1);
    expect(overlay.dials[0]).toMatchObject({
      instanceId: "b-web.ziti",
      timeoutMs: 9_000,
      appData: { dst_hostname: "web.ziti", dst_ip: "100.64.0.2", source_addr: "192.0.2.2:5000" },
    });
  });

  it("is dialled without a template that is none", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const config = { ...interceptV1, sourceIp: "$tunneler_id.appData[x" };
    overlay.change({ web: { canDial: true, configs: configs({ "intercept.v1": config }) } });
    await expect.poll(() => interceptor.clients.length).toBe(1);
    const { far } = await tcpClient();
    interceptor.clients[0]!.tcp({ addresses: client, socket: far });
    await says("a template cannot be used");
    expect(overlay.dials[0]?.appData).not.toHaveProperty("source_addr");
  });
});

describe("changes of services", () => {
  it("disturb only what they are about", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const web = (dial: object, host: object, more = {}) => ({
      web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": dial, "host.v1": host }), ...more },
    });
    overlay.change(web(interceptV1, hostAt(1)));
    await expect.poll(() => [interceptor.targets.length, overlay.hosted.length]).toEqual([1, 1]);
    overlay.change(web(interceptV1, hostAt(1)));
    overlay.change(web(interceptV1, hostAt(2)));
    await expect.poll(() => overlay.hosted.map(({ isClosed }) => isClosed)).toEqual([true, false]);
    expect(interceptor.targets.length).toBe(1);
    overlay.change(web({ ...interceptV1, addresses: ["other"] }, hostAt(2)));
    await expect.poll(() => interceptor.targets.map(({ addresses }) => addresses)).toEqual([["web.ziti"], ["other"]]);
    expect([interceptor.closed, overlay.hosted.length]).toEqual([["web"], 2]);
    overlay.change(web({ ...interceptV1, addresses: ["other"] }, hostAt(2), { canDial: false }));
    await expect.poll(() => interceptor.closed.length).toBe(2);
    overlay.change({ web: undefined });
    await expect.poll(() => overlay.hosted.every(({ isClosed }) => isClosed)).toBe(true);
  });

  it("with a config that cannot be used cost that permission only, and the log says where", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const bad = { ...interceptV1, portRanges: [{ low: 9, high: 1 }] };
    overlay.change({
      web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": bad, "host.v1": hostAt(1) }) },
    });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    expect(interceptor.targets).toEqual([]);
    expect(logged).toContainEqual({
      msg: "a config cannot be used; this permission of the service is not used",
      fields: {
        service: "web",
        permission: "Dial",
        configType: "intercept.v1",
        path: "portRanges[0]",
        reason: "portRanges[0]: expected low not to be above high",
      },
    });
  });

  it("that make no sense are told: no hosting config, no interception in host mode", async () => {
    tunneler();
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": interceptV1 }) } });
    await says("service is hostable but no compatible host config found");
    await says("failed to intercept service: can not intercept services in host mode");
    expect(overlay.hosted).toEqual([]);
  });

  it("meet a failing interceptor: it is told, and the rest goes on", async () => {
    const interceptor = new RecordingInterceptor();
    interceptor.failure = new Error("no permission");
    tunneler({ interceptor });
    overlay.change({
      web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": interceptV1, "host.v1": hostAt(1) }) },
    });
    await says("the service cannot be intercepted");
    await expect.poll(() => overlay.hosted.length).toBe(1);
  });
});

describe("closing", () => {
  it("waits for open circuits up to the limit, and ends those that are left", async () => {
    const { port } = await echo();
    const proxyPort = await freePort();
    const running = tunneler({ interceptor: proxyOf("web", proxyPort) });
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "host.v1": hostAt(port) }) } });
    await says("a port is open");
    const ending = await open(proxyPort);
    ending.write("x");
    await once(ending, "data");
    const closing = running.close({ drainMs: 60_000 });
    await expect.poll(() => overlay.hosted.every(({ isClosed }) => isClosed)).toBe(true);
    await expect(open(proxyPort)).rejects.toThrow("ECONNREFUSED");
    ending.end("y");
    expect(String((await once(ending, "data"))[0])).toBe("y");
    await closing;

    const second = new Tunneler({ overlay, interceptor: proxyOf("web", proxyPort), log });
    logged.length = 0;
    second.start();
    await says("a port is open");
    const staying = await open(proxyPort);
    staying.write("x");
    await once(staying, "data");
    // Not an end: the application must not take what came for all there is.
    const cut = once(staying.resume(), "error");
    await second.close({ drainMs: 0 });
    expect((await cut)[0]).toMatchObject({ code: "ECONNRESET" });
    expect(logged).toContainEqual({
      msg: "circuits were still open and had to be ended",
      fields: { circuits: 2 },
    });
  });
});

describe("a service that was asked for by name", () => {
  it("is logged once while it cannot be dialled, with the nearest name", async () => {
    const missing = () => logged.filter(({ msg }) => msg === "a service cannot be dialled; the tunneler waits for it");
    overlay.change({ report: { canDial: true } });
    tunneler({ interceptor: proxyOf("reports", await freePort()) });
    await says("there is a service");
    const reason = "reports does not exist, or no service policy of type Dial allows it; perhaps report is meant";
    await expect.poll(missing).toMatchObject([{ fields: { reason } }]);
    overlay.change({ other: { canDial: true } });
    overlay.change({ reports: { canBind: true } });
    const forbidden = "reports may be hosted, but not dialled: no service policy of type Dial allows it";
    await expect.poll(missing).toMatchObject([{ fields: { reason } }, { fields: { reason: forbidden } }]);
    overlay.change({ reports: { canDial: true } });
    await says("a port is open");
    expect(missing()).toHaveLength(2);
    overlay.change({ reports: undefined });
    await expect.poll(missing).toHaveLength(3);
  });

  it("is not missing when another identity has opened its port", async () => {
    const interceptor = proxyOf("web", await freePort());
    tunneler({ interceptor });
    overlay.change({ web: { canDial: true } });
    await says("a port is open");
    expect(interceptor.missing([{ name: "other", canDial: true }])).toEqual([]);
  });
});
