import { ApiError } from "@sallyport/api";
import { describe, expect, test } from "vitest";
import { FIXED_CONFIG_TYPES } from "../seeds.ts";
import { SchemaCache } from "./json-schema.ts";

const schemas = new SchemaCache();
function isTaken(type: string, data: Record<string, unknown>): boolean {
  const found = FIXED_CONFIG_TYPES.find(({ name }) => name === type);
  if (found === undefined) throw new Error(`no config type ${type}`);
  try {
    schemas.check({ ...found.schema }, data);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return false;
  }
}

/** What OpenZiti 2.1, or its branch with the types of frames, takes and refuses. */
describe.each([
  {
    type: "interfaces.v1",
    taken: [{ interfaces: ["eth0"] }, { interfaces: [] }],
    refused: [{}, { interfaces: "eth0" }, { interfaces: [1] }, { interfaces: ["eth0"], more: true }],
  },
  {
    type: "host-interfaces.v1",
    taken: [{ interfaces: ["eth0", "eth1"] }],
    refused: [{}, { interfaces: [null] }, { interfaces: [], portChecks: [] }],
  },
  {
    type: "proxy.v1",
    taken: [
      { port: 1, protocols: ["tcp"] },
      { port: 65535, protocols: ["tcp", "udp"], binding: "lo" },
    ],
    refused: [
      { port: 0, protocols: ["tcp"] },
      { port: 65536, protocols: ["tcp"] },
      { port: "80", protocols: ["tcp"] },
      { port: 80, protocols: [] },
      { port: 80, protocols: ["icmp"] },
      { protocols: ["tcp"] },
      { port: 80 },
      { port: 80, protocols: ["tcp"], address: "x" },
    ],
  },
  {
    type: "router.link.v1",
    taken: [
      {},
      { listeners: [{ bind: "tls:0.0.0.0:6262", groups: "default", options: { outQueueSize: 0 } }], dialers: [{}] },
      { dialers: [{ groups: ["a", "b"], startupDelay: "1m30s", healthyDialBackoff: { retryBackoffFactor: 1.5 } }] },
      { heartbeats: { sendInterval: "1.5s" }, payloadSenderQueueSize: 1, ackSenderQueueSize: 1, gcMode: "changed" },
    ],
    refused: [
      { listeners: [{}] },
      { listeners: [{ bind: "" }] },
      { dialers: [{ maxDefaultConnections: 0 }] },
      { dialers: [{ maxAckConnections: 101 }] },
      { dialers: [{ healthyDialBackoff: { retryBackoffFactor: 0.5 } }] },
      { dialers: [{ options: { maxQueuedConnects: 5001 } }] },
      { dialers: [{ options: { maxOutstandingConnects: 0 } }] },
      { heartbeats: { sendInterval: "10" } },
      { payloadSenderQueueSize: 0 },
      { gcMode: "all" },
      { links: [] },
    ],
  },
  {
    type: "l2.host.v1",
    taken: [{}, { bridgeIfs: ["eth0"], listenOptions: { cost: 5, precedence: "required" } }],
    refused: [{ bridgeIfs: [] }, { bridgeIfs: ["eth0", "eth0"] }, { bridgeIfs: [1] }, { address: "x" }],
  },
  {
    type: "l2.intercept.v1",
    taken: [{ ethTypes: ["0x0800", "0X86dd"], dialOptions: { identity: "x" } }],
    refused: [
      {},
      { ethTypes: [] },
      { ethTypes: ["0800"] },
      { ethTypes: ["0x800"] },
      { ethTypes: ["0x0800"], addresses: [] },
    ],
  },
])("$type", ({ type, taken, refused }) => {
  test.each<Record<string, unknown>>(taken)("takes %j", (data) => expect(isTaken(type, data)).toBe(true));
  test.each<Record<string, unknown>>(refused)("refuses %j", (data) => expect(isTaken(type, data)).toBe(false));
});
