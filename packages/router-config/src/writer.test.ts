import { ConfigError } from "@sallyport/config-file";
import { describe, expect, it } from "vitest";
import { parseRouterConfig, type RouterConfigFile, writeRouterConfig } from "./index.ts";

const file: RouterConfigFile = {
  ctrl: { endpoint: "tls:ctrl.example:1280" },
  v: 3,
  identity: { cert: "r1.cert", server_cert: "r1.server.cert", key: "r1.key", ca: "r1.ca" },
  csr: {
    country: "NO",
    province: "on",
    locality: "0x10",
    organization: "N",
    sans: { dns: ["r1.example"], ip: ["::1"] },
  },
  edge: {},
  link: { listeners: [{ binding: "transport", bind: "tls:0.0.0.0:3022", advertise: "r1.example:3022" }] },
  listeners: [{ binding: "edge", address: "tls:0.0.0.0:3022", options: { advertise: "r1.example:3022" } }],
};

describe("writeRouterConfig", () => {
  it("writes the same text for the same configuration, sections in a fixed order", () => {
    const text = writeRouterConfig(file, { header: "Made by a test." });
    expect(writeRouterConfig({ ...file, v: 3 }, { header: "Made by a test." })).toBe(text);
    expect(text.startsWith("# Made by a test.\n")).toBe(true);
    expect(text.match(/^\w+:/gm)).toEqual(["v:", "identity:", "ctrl:", "csr:", "edge:", "link:", "listeners:"]);
  });

  it("quotes what another reader would take for a boolean or number", () => {
    const text = writeRouterConfig(file);
    for (const line of ['country: "NO"', 'province: "on"', 'locality: "0x10"', 'organization: "N"']) {
      expect(text).toContain(line);
    }
  });

  it("is read back as what was written", () => {
    const { config, warnings } = parseRouterConfig(writeRouterConfig(file));
    expect(warnings).toEqual([]);
    expect(config.csr).toMatchObject({ country: "NO", province: "on", organization: "N" });
    expect(config.edge).toBeDefined();
    expect(config.link?.listeners[0]?.advertiseText).toBe("tls:r1.example:3022");
  });

  it("refuses to write what could not be read", () => {
    expect(() => writeRouterConfig({ ...file, forwarder: { linkDialWorkerCount: 0 } })).toThrow(ConfigError);
  });
});
