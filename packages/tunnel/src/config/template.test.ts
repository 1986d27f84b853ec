import { describe, expect, it } from "vitest";
import type { ClientAddresses } from "../interceptor.ts";
import { appDataOf, parseAppData } from "./app-data.ts";
import { fillClient, fillIdentity } from "./template.ts";

const identity = { id: "i", name: "laptop", appData: { site: "berlin", floor: 3, tags: ["a"], none: null } };
const client: ClientAddresses = {
  protocol: "tcp",
  sourceIp: "192.0.2.2",
  sourcePort: 50_123,
  destinationIp: "100.64.0.2",
  destinationPort: 80,
  destinationHostname: "web.ziti",
};

describe("templates", () => {
  it.each([
    ["plain text", "plain text"],
    ["$tunneler_id.name", "laptop"],
    ["at $tunneler_id.appData[site], $tunneler_id.appData[floor]!", "at berlin, 3!"],
    ["$tunneler_id.appData[tags]", '["a"]'],
    ["<$tunneler_id.appData[unknown]$tunneler_id.appData[none]>", "<>"],
    ["$tunneler_id.appData[toString]", ""],
    ["$src_ip", "$src_ip"],
  ])("know the identity: %s", (template, text) => {
    expect(fillIdentity(template, identity)).toBe(text);
  });

  it("with a bracket that is not closed are no templates", () => {
    expect(() => fillIdentity("$tunneler_id.appData[site", identity)).toThrow("expected ]");
  });

  it.each([
    ["$src_ip:$src_port", client, "192.0.2.2:50123"],
    ["$src_ip:$src_port", { ...client, sourceIp: "fd00::1" }, "[fd00::1]:50123"],
    ["a $src_ip:$src_port", { ...client, sourceIp: "fd00::1" }, "a fd00::1:50123"],
    ["$dst_ip $dst_port $dst_hostname", client, "100.64.0.2 80 web.ziti"],
    ["$dst_hostname", { ...client, destinationHostname: undefined }, "$dst_hostname"],
    ["$dst_protocol", client, "$dst_protocol"],
    ["$dst_hostname", { ...client, destinationHostname: "$&" }, "$&"],
  ])("know the client: %s", (template, addresses, text) => {
    expect(fillClient(template, addresses)).toBe(text);
  });
});

describe("app data", () => {
  it("tells what the host needs, in this form", () => {
    expect(JSON.stringify(appDataOf(client, "192.0.2.2:50123"))).toBe(
      '{"dst_hostname":"web.ziti","dst_ip":"100.64.0.2","dst_port":"80","dst_protocol":"tcp","source_addr":"192.0.2.2:50123"}',
    );
    const unnamed = { ...client, protocol: "udp" as const, destinationHostname: undefined };
    expect(appDataOf(unnamed, undefined)).toEqual({ dst_ip: "100.64.0.2", dst_port: "80", dst_protocol: "udp" });
  });

  it("is read as texts; everything else in it is left out", () => {
    expect(parseAppData(undefined)).toEqual({});
    expect(parseAppData(Buffer.alloc(0))).toEqual({});
    expect(parseAppData(Buffer.from('{"dst_ip":"1.2.3.4","src_ip":"x","dst_port":80}'))).toEqual({
      dst_ip: "1.2.3.4",
      src_ip: "x",
    });
    expect(() => parseAppData(Buffer.from("{"))).toThrow("not JSON");
    expect(() => parseAppData(Buffer.from("[]"))).toThrow("not a JSON object");
  });
});
