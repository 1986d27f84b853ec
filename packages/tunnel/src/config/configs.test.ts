import { describe, expect, it } from "vitest";
import type { OverlayService } from "../overlay.ts";
import { hostConfigs } from "./host-config.ts";
import { interceptConfig } from "./intercept-config.ts";
import { duration } from "./loose.ts";

function serviceWith(configs: Record<string, unknown>): OverlayService {
  const permissions = { canDial: true, canBind: true, isEncrypted: true };
  return { id: "id", name: "web", ...permissions, configs: new Map(Object.entries(configs)) };
}

const intercept = { protocols: ["tcp"], addresses: ["Web.Ziti"], portRanges: [{ low: 80, high: 81 }] };
const host = { protocol: "tcp", address: "localhost", port: 80 };

describe("durations", () => {
  it.each([
    ["5s", 5_000],
    ["100ms", 100],
    ["1m30s", 90_000],
    ["1.5h", 5_400_000],
    ["0", 0],
    ["5", undefined],
    ["", undefined],
    ["s", undefined],
    ["5 s", undefined],
    ["-5s", undefined],
  ])("%s", (text, ms) => {
    expect(duration.safeParse(text).data).toBe(ms);
  });
});

describe("how a service is intercepted", () => {
  it("intercept.v1 counts more than the older type", () => {
    const service = serviceWith({
      "ziti-tunneler-client.v1": { hostname: "old", port: 1 },
      "intercept.v1": intercept,
    });
    expect(interceptConfig(service)).toEqual({
      protocols: ["tcp"],
      addresses: ["web.ziti"],
      portRanges: [{ low: 80, high: 81 }],
      allowedSourceAddresses: [],
      sourceIp: undefined,
      instance: undefined,
      connectTimeoutMs: 5_000,
    });
  });

  it("the older type means both protocols", () => {
    const config = interceptConfig(serviceWith({ "ziti-tunneler-client.v1": { hostname: "Old", port: 22 } }));
    expect(config).toMatchObject({
      protocols: ["tcp", "udp"],
      addresses: ["old"],
      portRanges: [{ low: 22, high: 22 }],
    });
  });

  it("keys count whatever their capitals, null as absent, further ones not", () => {
    const config = interceptConfig(
      serviceWith({
        "intercept.v1": {
          PROTOCOLS: ["UDP", "udp"],
          Addresses: ["10.0.0.0/8"],
          portranges: [{ Low: 1, HIGH: 2 }],
          dialoptions: { Identity: "$dst_hostname", connecttimeoutseconds: 12 },
          sourceip: "$src_ip",
          allowedSourceAddresses: null,
          more: true,
        },
      }),
    );
    expect(config).toMatchObject({
      protocols: ["udp"],
      portRanges: [{ low: 1, high: 2 }],
      instance: "$dst_hostname",
      sourceIp: "$src_ip",
      connectTimeoutMs: 12_000,
    });
  });

  it("no config is none", () => {
    expect(interceptConfig(serviceWith({ "host.v1": host }))).toBeUndefined();
  });

  it.each([
    ["protocols", { ...intercept, protocols: [] }],
    ["protocols[0]", { ...intercept, protocols: ["sctp"] }],
    ["addresses", { ...intercept, addresses: undefined }],
    ["portRanges[0]", { ...intercept, portRanges: [{ low: 5, high: 4 }] }],
    ["portRanges[0].high", { ...intercept, portRanges: [{ low: 5, high: 65_536 }] }],
    ["dialOptions.connectTimeoutSeconds", { ...intercept, dialOptions: { connectTimeoutSeconds: -1 } }],
    ["", "text"],
  ])("tells what is wrong with %s, and does not fall back to another type", (path, config) => {
    const service = serviceWith({ "intercept.v1": config, "ziti-tunneler-client.v1": { hostname: "old", port: 1 } });
    expect(() => interceptConfig(service)).toThrow(expect.objectContaining({ configType: "intercept.v1", path }));
  });
});

describe("how a service is hosted", () => {
  it("host.v2 counts more than host.v1, and that more than the oldest", () => {
    const all = {
      "host.v2": { terminators: [host, { ...host, port: 81 }] },
      "host.v1": { ...host, port: 82 },
      "ziti-tunneler-server.v1": { hostname: "old", port: 83, protocol: null },
    };
    const portsOf = (configs: Record<string, unknown>) => hostConfigs(serviceWith(configs))?.map(({ port }) => port);
    expect(portsOf(all)).toEqual([{ fixed: 80 }, { fixed: 81 }]);
    const { "host.v2": _, ...older } = all;
    expect(portsOf(older)).toEqual([{ fixed: 82 }]);
    const oldest = hostConfigs(serviceWith({ "ziti-tunneler-server.v1": all["ziti-tunneler-server.v1"] }));
    expect(oldest).toMatchObject([{ protocol: { fixed: "tcp" }, address: { fixed: "old" }, port: { fixed: 83 } }]);
    expect(portsOf({ "intercept.v1": intercept })).toBeUndefined();
  });

  it("reads everything that can be said", () => {
    const [config] =
      hostConfigs(
        serviceWith({
          "host.v1": {
            forwardProtocol: true,
            allowedProtocols: ["TCP", "udp"],
            forwardAddress: true,
            allowedAddresses: ["*.Ziti", "10.0.0.0/8"],
            forwardPort: true,
            allowedPortRanges: [{ low: 1, high: 9 }],
            allowedSourceAddresses: ["192.0.2.0/24"],
            listenOptions: {
              bindUsingEdgeIdentity: true,
              connectTimeout: "1m",
              cost: 7,
              precedence: "Required",
              identity: "x",
              maxConnections: 9,
            },
            proxy: { type: "http", address: "proxy:3128" },
            portChecks: [
              {
                address: "localhost:22",
                interval: "5s",
                timeout: "500ms",
                actions: [{ trigger: "FAIL", consecutiveEvents: 3, duration: "10s", action: "Increase Cost 20" }],
              },
            ],
            httpChecks: [{ url: "http://localhost/", interval: "1m", timeout: "1s", method: "post", body: "b" }],
          },
        }),
      ) ?? [];
    expect(config).toMatchObject({
      protocol: { allowed: ["tcp", "udp"] },
      port: { allowed: [{ low: 1, high: 9 }] },
      allowedSourceAddresses: ["192.0.2.0/24"],
      proxy: { host: "proxy", port: 3128 },
      connectTimeoutMs: 60_000,
      cost: 7,
      precedence: "required",
      bindUsingEdgeIdentity: true,
      instance: "x",
      checks: [
        {
          kind: "port",
          host: "localhost",
          port: 22,
          intervalMs: 5_000,
          timeoutMs: 500,
          actions: [
            {
              trigger: "fail",
              consecutiveEvents: 3,
              durationMs: 10_000,
              effect: { kind: "increase cost", by: 20 },
            },
          ],
        },
        { kind: "http", method: "POST", body: "b", expectStatus: 200, actions: [] },
      ],
    });
  });

  it.each([
    [{}, 5_000],
    [{ connectTimeoutSeconds: 3 }, 3_000],
    [{ connectTimeoutSeconds: 3, connectTimeout: "2s" }, 2_000],
    [{ connectTimeoutSeconds: 0 }, 5_000],
    [{ connectTimeoutSeconds: 9_000_000_000 }, 2 ** 31 - 1],
    [{ connectTimeout: "1.5us" }, 1],
    [{ connectTimeout: "10000h" }, 2 ** 31 - 1],
  ])("connects for at most what %o says", (listenOptions, ms) => {
    expect(hostConfigs(serviceWith({ "host.v1": { ...host, listenOptions } }))?.[0]?.connectTimeoutMs).toBe(ms);
  });

  const check = { address: "localhost:1", interval: "1s", timeout: "1s" };
  it("keeps the times of checks within what timers take: others would end the process, or keep it busy", () => {
    const times = { interval: "1000000h", timeout: "1.5ms", actions: [{ trigger: "fail", action: "send event" }] };
    const [config] = hostConfigs(serviceWith({ "host.v1": { ...host, portChecks: [{ ...check, ...times }] } })) ?? [];
    expect(config?.checks).toMatchObject([{ intervalMs: 2 ** 31 - 1, timeoutMs: 2 }]);
  });

  const withAction = (action: string) => ({
    ...host,
    portChecks: [{ ...check, actions: [{ trigger: "fail", action }] }],
  });
  it.each([
    ["protocol", { ...host, protocol: undefined }],
    ["allowedProtocols", { ...host, forwardProtocol: true, allowedProtocols: [] }],
    ["address", { ...host, address: undefined }],
    ["allowedAddresses", { ...host, forwardAddress: true }],
    ["allowedAddresses", { ...host, forwardAddress: true, allowedAddresses: ["10.0.0.0/33"] }],
    ["port", { ...host, port: 65_536 }],
    ["allowedPortRanges", { ...host, forwardPort: true }],
    ["forwardAddressTranslations", { ...host, forwardAddressTranslations: [{ from: "x", to: "y", prefixLength: 8 }] }],
    ["allowedSourceAddresses[1]", { ...host, allowedSourceAddresses: ["10.0.0.1", "nowhere"] }],
    ["listenOptions.connectTimeout", { ...host, listenOptions: { connectTimeout: "soon" } }],
    ["listenOptions.cost", { ...host, listenOptions: { cost: 65_536 } }],
    ["proxy.type", { ...host, proxy: { type: "socks", address: "a:1" } }],
    ["proxy.address", { ...host, proxy: { type: "http", address: "nowhere" } }],
    ["portChecks[0].address", { ...host, portChecks: [{ ...check, address: "nowhere" }] }],
    ["portChecks[0].interval", { ...host, portChecks: [{ ...check, interval: "1ms" }] }],
    ["portChecks[0].actions[0].action", withAction("restart")],
    ["portChecks[0].actions[0].action", withAction("increase cost 0")],
    ["portChecks[0].actions[0].action", withAction("increase cost 65536")],
    ["httpChecks[0].url", { ...host, httpChecks: [{ url: "ftp://x", interval: "1s", timeout: "1s" }] }],
  ])("tells what is wrong: %s", (path, config) => {
    expect(() => hostConfigs(serviceWith({ "host.v1": config }))).toThrow(
      expect.objectContaining({ configType: "host.v1", path }),
    );
  });

  it("one bad terminator makes the whole config bad", () => {
    const config = { terminators: [host, { ...host, forwardPort: true }] };
    expect(() => hostConfigs(serviceWith({ "host.v2": config }))).toThrow(
      "terminators[1].allowedPortRanges: must not be empty with forwardPort: true",
    );
  });
});
