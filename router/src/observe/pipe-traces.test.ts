import {
  BaseHeader,
  BaseType,
  type Channel,
  ControlType,
  ctrlPb,
  decodeControl,
  encodeControl,
  type Message,
  mgmtPb,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Controllers } from "../control/controllers/controllers.ts";
import { ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import { PipeTraces } from "./pipe-traces.ts";

let controller: ScriptedController;
let controllers: Controllers;
let traces: PipeTraces;
let channel: Channel;

beforeEach(async () => {
  const authority = await TestAuthority.create();
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
  controllers = testControllers(await authority.identity("r1"));
  traces = new PipeTraces({ routerId: "r1", controllers, pipes: () => [], log: silentLogger });
  controllers.setEndpoints([controller.address]);
  channel = await controller.channel();
  await expect.poll(() => controllers.all().length).toBe(1);
});

afterEach(async () => {
  traces.close();
  controllers.stop();
  await controller.close();
});

type Toggle = { enable: boolean; verbosity?: ctrlPb.TraceToggleVerbosity; appRegex?: string; pipeRegex?: string };

function toggle(fields: Toggle): Promise<Message> {
  const body = encodeControl(ctrlPb.TogglePipeTracesRequestSchema, fields);
  return channel.request({ contentType: ControlType.TogglePipeTracesRequest, body });
}

/** The next event that is not of a heartbeat: those come when it is their time. */
async function event(): Promise<mgmtPb.TraceEvent> {
  for (;;) {
    const told = decodeControl(mgmtPb.TraceEventSchema, (await controller.next(ControlType.TraceEvent)).body);
    if (told.contentType !== BaseType.Heartbeat) return told;
  }
}

it("tells who asked of every message but the telling itself, until it is switched off", async () => {
  const answer = await toggle({ enable: true, verbosity: ctrlPb.TraceToggleVerbosity.ReportAll, pipeRegex: "ctrl.*" });
  expect(answer.headers.getBool(BaseHeader.ResultSuccess)).toBe(true);
  expect(answer.body.toString()).toBe("ctrl/ctrl1: traced\ntracing of 1 of 1 channels is on");
  expect(await event()).toMatchObject({
    ...{ identity: "r1", channel: "ctrl/ctrl1" },
    contentType: BaseType.Result,
    isRx: false,
  });
  await channel.request({ contentType: BaseType.Ping });
  expect(await event()).toMatchObject({ contentType: BaseType.Ping, isRx: true, length: 0 });
  expect(await event()).toMatchObject({ contentType: BaseType.Result, isRx: false });
  controllers.broadcast({ contentType: ControlType.Metrics, body: Buffer.from("12345") });
  const metrics = await event();
  expect(metrics).toMatchObject({ contentType: ControlType.Metrics, length: 5, replyFor: -1 });
  expect(JSON.parse(Buffer.from(metrics.decode).toString())).toEqual({ __decoder__: "ctrl", __message__: "Metrics" });

  expect((await toggle({ enable: false })).body.toString()).toBe("tracing of 1 of 1 channels is off");
  const before = controller.received.length;
  controllers.broadcast({ contentType: ControlType.Metrics });
  await channel.request({ contentType: BaseType.Ping });
  const since = controller.received.slice(before).map(({ contentType }) => contentType);
  expect(since.filter((type) => type === ControlType.TraceEvent).length).toBeLessThanOrEqual(1);
  expect(controllers.all()[0]?.channel.observer).toBeUndefined();
});

it("answers at once when another router is meant, no channel is, or an expression is wrong", async () => {
  const { ReportAll } = ctrlPb.TraceToggleVerbosity;
  expect((await toggle({ enable: true, appRegex: "^other$" })).body.toString()).toMatch(/not meant/);
  expect(controllers.all()[0]?.channel.observer).toBeUndefined();
  const missed = await toggle({ enable: true, verbosity: ReportAll, pipeRegex: "link" });
  expect(missed.body.toString()).toBe("ctrl/ctrl1: not meant\ntracing of 0 of 1 channels is on");
  for (const pipeRegex of ["(", "x".repeat(1_001)]) {
    const refused = await toggle({ enable: true, pipeRegex });
    expect(refused.headers.getBool(BaseHeader.ResultSuccess)).toBe(false);
    expect(refused.body.toString()).toMatch(/^the expression cannot be used: /);
  }
});

it("traces a controller that comes back only when it asks again", async () => {
  await toggle({ enable: true });
  await event();
  channel.close();
  await controller.connections(2);
  await expect.poll(() => controllers.all().length).toBe(1);
  expect(controllers.all()[0]?.channel.observer).toBeUndefined();
});
