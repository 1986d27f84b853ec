import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { Agent } from "@sallyport/wire/agent";
import { agentSocketPath } from "@sallyport/wire/agent/socket";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ROUTER_APPLICATION, RouterRequest } from "./router-request.ts";
import { type StatusReport, status, statusText } from "./status.ts";

const SAMPLE: StatusReport = {
  ...{ id: "r1", pid: 7, version: "0.1.0", protocol: "v1.6.20", startedAt: "2026-01-02T03:04:05.000Z" },
  uptimeSeconds: 93_784,
  healthy: false,
  checks: [
    { id: "controllerPing", healthy: true, hasRun: true },
    { id: "link.health", healthy: false, hasRun: true, error: "link count 1 less than configured minimum of 2" },
  ],
  controllers: [
    { address: "tls:a:1280", connected: true, id: "ctrl1", version: "v1.6.20", responsive: true, latencyMs: 1.234 },
    { address: "tls:b:1280", connected: false },
  ],
  links: [{ id: "l1", routerId: "r2", dialed: true, address: "tls:r2:3022", connections: 4, latencyMs: 12.3 }],
  listeners: [{ kind: "edge", address: "tls:0.0.0.0:3022", advertise: "r1:3022" }],
  ...{ circuits: 3, circuitEnds: 2, sdks: 1, hostedBySdks: 5, cpuSeconds: 1.25 },
  memory: { rssBytes: 100 * 1024 * 1024, heapBytes: 1024 * 1024, externalBytes: 0 },
};

let folder: string;
const agents: Agent[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sallyport-status-"));
});

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.close();
  await rm(folder, { recursive: true });
});

async function running(pid: number, type = "router"): Promise<void> {
  const agent = await Agent.start({
    application: {
      info: { type, id: `r${pid}` },
      operations: {
        applicationId: ROUTER_APPLICATION,
        request: (code) => (code === RouterRequest.Status && type === "router" ? JSON.stringify(SAMPLE) : undefined),
        serve: () => {},
      },
    },
    path: agentSocketPath(pid, folder),
    log: silentLogger,
  });
  if (agent !== undefined) agents.push(agent);
}

it.each<[first: string, checks: StatusReport["checks"]]>([
  ["healthy", [{ id: "controllerPing", healthy: true, hasRun: true }]],
  [
    "starting: checks that have not run yet: controllerPing, link.health",
    ["controllerPing", "link.health"].map((id) => ({ id, healthy: false, hasRun: false, error: "didn't run yet" })),
  ],
  [
    "unhealthy: controllerPing (control channels are slow)",
    [
      { id: "controllerPing", healthy: false, hasRun: true, error: "control channels are slow" },
      { id: "link.health", healthy: false, hasRun: false, error: "didn't run yet" },
    ],
  ],
])("says in the first line: %s", (first, checks) => {
  const healthy = checks.every((check) => check.healthy);
  expect(statusText({ ...SAMPLE, healthy, checks }).split("\n")[0]).toBe(`router r1, ${first}`);
});

it("is one screen for people", () => {
  expect(statusText(SAMPLE)).toBe(`router r1, unhealthy: link.health (link count 1 less than configured minimum of 2)
  process   pid 7, up 1d 2h, since 2026-01-02T03:04:05.000Z
  version   0.1.0 (protocol v1.6.20)
  memory    100.0 MiB resident, 1.0 MiB heap, 0.0 MiB buffers
  CPU       1.3 s
  circuits  3 (2 ends here)
  SDKs      1 connected, 5 terminators hosted

controllers: 1 of 2 connected
  ctrl1  tls:a:1280  v1.6.20  1.23 ms
  -      tls:b:1280           not connected

links: 1
  l1  to  r2  tls:r2:3022  4 connections  12 ms

listeners: 1
  edge  tls:0.0.0.0:3022  as r1:3022
`);
  expect(statusText({ ...SAMPLE, healthy: true, uptimeSeconds: 0 })).toMatch(/^router r1, healthy\n.*up 0s,/);
});

it("never writes to the terminal what would move its cursor", () => {
  const [link] = SAMPLE.links;
  const text = statusText({ ...SAMPLE, id: "r\u001b[2J1", links: [{ ...link!, address: "tls:\u009b31m\nx:1" }] });
  expect(text.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
  expect(text.split("\n")).toHaveLength(statusText(SAMPLE).split("\n").length);
});

it("asks the only router there is, or the one that is named, and gives JSON to programs", async () => {
  await running(process.pid);
  await running(process.ppid, "controller");
  expect(await status({ json: false, folder })).toBe(statusText(SAMPLE));
  expect(JSON.parse(await status({ json: true, pid: process.pid, folder }))).toEqual(SAMPLE);
  expect(JSON.parse(await status({ json: true, socket: agentSocketPath(process.pid, folder) }))).toEqual(SAMPLE);
});

it("says why there is no status, and what to do", async () => {
  await expect(status({ json: false, folder })).rejects.toThrow(/no router of this user runs .* sallyport-router run/);
  await expect(status({ json: false, pid: 1, folder })).rejects.toThrow(
    /no router listens on .*\.1\.sock: there is no such/,
  );
  await running(process.ppid, "controller");
  await expect(status({ json: false, pid: process.ppid, folder })).rejects.toThrow(
    /is no router of this kind: invalid/,
  );
  await running(process.pid);
  await agents.find((agent) => agent.path === agentSocketPath(process.ppid, folder))?.close();
  await running(process.ppid);
  await expect(status({ json: false, folder })).rejects.toThrow(
    new RegExp(
      `^2 routers run here; name one of them:\n(  --pid (${process.pid}|${process.ppid})   router r\\d+\n?){2}$`,
    ),
  );
});
