import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  BaseType,
  ControlType,
  ctrlPb,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Logger,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import type { Controllers } from "../control/controllers/controllers.ts";
import { ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import { decodedOf, traceRecords as records } from "../testing/trace-records.ts";
import { TraceFile } from "./trace-file.ts";

let authority: TestAuthority;
let controller: ScriptedController;
let controllers: Controllers;
let dir: string;

beforeAll(async () => {
  authority = await TestAuthority.create();
});

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-trace-"));
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
  controllers = testControllers(await authority.identity("r1"));
});

afterEach(async () => {
  controllers.stop();
  await controller.close();
  await rm(dir, { recursive: true });
});

async function traced(o: { path: string; log?: Logger; maxWaiting?: number }): Promise<TraceFile> {
  const file = await TraceFile.open({ routerId: "r1", log: silentLogger, ...o });
  controllers.onConnected(({ id, channel }) => file.follow(`ctrl/${id}`, channel));
  return file;
}

it("holds what passes a channel from its start on, whole records only, decoded", async () => {
  const path = join(dir, "trace");
  await writeFile(path, "what an earlier run left");
  const file = await traced({ path });
  controllers.setEndpoints([controller.address]);
  const channel = await controller.channel();
  controller.on(ControlType.VerifyRouter, (message) => channel.replyResult(message, true, "verified"));
  await expect.poll(() => controllers.all().length).toBe(1);
  const body = encodeControl(ctrlPb.VerifyRouterSchema, { routerId: "r2", fingerprints: ["ab"] });
  await controllers.request("a test", { contentType: ControlType.VerifyRouter, body });
  controllers.stop();
  await expect.poll(() => controllers.all().length).toBe(0);
  await file.close();
  const all = await records(path);
  const common = { identity: "r1", channel: "ctrl/ctrl1" };
  expect(all[0]).toMatchObject({
    ...common,
    connected: true,
    remoteAddress: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
  });
  const sent = all.find((record) => "contentType" in record && record.contentType === ControlType.VerifyRouter);
  if (sent === undefined || !("contentType" in sent)) throw new Error("the request is not in the file");
  expect(sent).toMatchObject({ ...common, isRx: false, length: body.length, replyFor: -1 });
  expect(decodedOf(sent)).toEqual({
    ...{ __decoder__: "ctrl", __message__: "VerifyRouter" },
    ...{ routerId: "r2", fingerprints: ["ab"] },
  });
  expect(all).toContainEqual(
    expect.objectContaining({
      ...common,
      isRx: true,
      contentType: BaseType.Result,
      replyFor: sent.sequence,
      length: 8,
    }),
  );
  expect(all.at(-1)).toMatchObject({ ...common, connected: false });
  expect(Number(all[0]?.timestamp) / 1e6).toBeGreaterThan(Date.now() - 600_000);
});

it("shows no tokens, and what cannot be read by its name alone", async () => {
  const path = join(dir, "trace");
  const file = await traced({ path });
  controllers.setEndpoints([controller.address]);
  await controller.channel();
  await expect.poll(() => controllers.all().length).toBe(1);
  const heartbeat = encodeControl(edgeCtrlPb.ApiSessionHeartbeatSchema, { tokens: ["hush-1", "hush-2"] });
  controllers.broadcast({ contentType: EdgeCtrlType.ApiSessionHeartbeat, body: heartbeat });
  controllers.broadcast({ contentType: ControlType.Unroute, body: Buffer.from([0xff]) });
  await file.close();
  expect((await readFile(path)).includes("hush")).toBe(false);
  const decoded = (await records(path)).flatMap((record) => ("contentType" in record ? [decodedOf(record)] : []));
  expect(decoded).toContainEqual({ __decoder__: "ctrl", __message__: "ApiSessionHeartbeat", tokens: "(not shown)" });
  expect(decoded).toContainEqual({ __decoder__: "ctrl", __message__: "Unroute" });
});

it("leaves records out on a full disk and goes on", async () => {
  const warn = vi.fn();
  // Every write to this device fails as on a full disk.
  const file = await traced({ path: "/dev/full", log: { ...silentLogger, warn } });
  controllers.setEndpoints([controller.address]);
  await controller.channel();
  await expect.poll(() => warn.mock.calls.length).toBeGreaterThan(0);
  expect(warn.mock.calls[0]?.[0]).toMatchObject({ path: "/dev/full", reason: expect.stringContaining("ENOSPC") });
  expect(controllers.all()).toHaveLength(1);
  await file.close();
});

it("keeps a bounded number of bytes for a slow disk", async () => {
  const path = join(dir, "trace");
  const warn = vi.fn();
  const log = { ...silentLogger, warn };
  const file = await traced({ path, log, maxWaiting: 1_000 });
  controllers.setEndpoints([controller.address]);
  await controller.channel();
  await expect.poll(() => controllers.all().length).toBe(1);
  // In one turn of the event loop nothing is written.
  for (let i = 0; i < 1_000; i++) controllers.broadcast({ contentType: ControlType.Metrics });
  await expect.poll(() => warn.mock.calls.length).toBeGreaterThan(0);
  await file.close();
  expect(await stat(path).then(({ mode, size }) => [mode & 0o777, size < 10_000])).toEqual([0o600, true]);
  expect((await records(path)).length).toBeGreaterThan(1);
});

it("cannot be made where nothing can be written", async () => {
  await expect(traced({ path: join(dir, "no", "trace") })).rejects.toThrow(/ENOENT/);
});
