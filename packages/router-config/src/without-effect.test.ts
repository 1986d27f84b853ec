import { formatPath } from "@sallyport/config-file";
import { describe, expect, it } from "vitest";
import { parseRouterConfig } from "./index.ts";
import { configKeys } from "./reference.ts";
import { base } from "./testing/smallest-file.ts";
import { WITHOUT_EFFECT } from "./without-effect.ts";

/** The keys that a file's reader is warned of, with their places. */
const idle = (text: string): string[] => {
  const { idle, placeOf } = parseRouterConfig(text);
  return idle.map(({ path }) => `${placeOf(path)?.line}: ${formatPath(path)}`);
};

describe("keys that change nothing", () => {
  it("are named with their places, whatever their value is", () => {
    expect(
      idle(`${base}
ha: { enabled: false }
forwarder: { latencyProbeInterval: 10, unresponsiveLinkTimeout: 60s, faultTxInterval: 15000 }
transport: { westworld3: { profile_version: 1 }, ws: { readTimeout: 9, pingInterval: 4 } }
link: { dialers: [{ binding: transport, options: { maxOutstandingConnects: 5, outQueueSize: 4 } }] }
listeners:
  - { binding: edge, address: "tls:0.0.0.0:1", options: { advertise: "a:1", mtu: 9, getSessionTimeout: 60 } }
  - { binding: tunnel, options: { mode: host, mtu: 9, getCircuitTimeout: 1s } }
  - { binding: transport, address: "tcp:127.0.0.1:1", advertise: "a:1", options: { mtu: 9, txQueueSize: 2 } }
dialers:
  - { binding: transport, options: { mtu: 1400, connectTimeout: 1s, getCircuitTimeout: 1s } }
  - { binding: transport_udp, options: { mtu: 1400, retxScale: 2 } }
  - { binding: proxy }
  - { binding: udp }
`).map((each) => each.replace(/^\d+: /, "")),
    ).toEqual([
      "ha",
      "forwarder.latencyProbeInterval",
      "forwarder.unresponsiveLinkTimeout",
      "transport.westworld3",
      "transport.ws.readTimeout",
      "link.dialers[0].options.maxOutstandingConnects",
      "listeners[0].options.mtu",
      "listeners[0].options.getSessionTimeout",
      "listeners[1].options.getCircuitTimeout",
      "listeners[2].advertise",
      "listeners[2].options.txQueueSize",
      "dialers[0].options.getCircuitTimeout",
      "dialers[1].options.mtu",
      "dialers[2]",
      "dialers[3]",
    ]);
    expect(idle(`${base}ha: {}\n`)).toEqual([`${base.split("\n").length}: ha`]);
  });

  it.each([
    ["host", ["services", "resolver", "dnsSvcIpRange", "lanIf", "udpIdleTimeout", "udpCheckInterval"]],
    ["proxy", ["resolver", "dnsSvcIpRange", "lanIf", "udpCheckInterval"]],
    ["tproxy", ["services"]],
    ["'tproxy:/bin/diverter'", ["services"]],
  ])("of a tunneler in mode %s are the options of other modes", (mode, keys) => {
    const options = `services: ["a:1"], resolver: "udp://127.0.0.1:53", dnsSvcIpRange: 100.64.0.1/10, lanIf: lo, udpIdleTimeout: 9m, udpCheckInterval: 9s`;
    const found = idle(`${base}\nlisteners: [{ binding: tunnel, options: { mode: ${mode}, ${options} } }]\n`);
    expect(found.map((each) => each.split(".").at(-1))).toEqual(keys);
  });

  it("are keys of the schema, every one of them", () => {
    const all = configKeys();
    const known = new Set(all.flatMap((key) => [key, key.replace(/^(listeners)\[\w+\]/, "$1[]")]));
    const isKnown = (name: string): boolean => {
      const general = name.replace(/^dialers\[\w+\]/, "dialers[]");
      const flow = general.split(".").at(-1) ?? "";
      return (
        known.has(general) ||
        all.some((key) => key.startsWith(`${general}.`) || key.startsWith(`${general}[`)) ||
        (/^(listeners|dialers)\[\w*\]\.options\.\w+$/.test(general) && known.has(flow))
      );
    };
    expect(Object.keys(WITHOUT_EFFECT).filter((name) => !isKnown(name))).toEqual([]);
  });
});
