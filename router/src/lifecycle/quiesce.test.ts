import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlType, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Controllers } from "../control/controllers/controllers.ts";
import { ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import { Quiesce } from "./quiesce.ts";

let dir: string;
let controller: ScriptedController;
let controllers: Controllers;
let refusal: string | undefined;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-quiesce-"));
  refusal = undefined;
  const authority = await TestAuthority.create();
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
  for (const type of [ControlType.QuiesceRouter, ControlType.DequiesceRouter]) {
    controller.on(type, (message, channel) => channel.replyResult(message, refusal === undefined, refusal));
  }
  controllers = testControllers(await authority.identity("r1"));
  const connected = new Promise<void>((resolve) => controllers.onConnected(() => resolve()));
  controllers.setEndpoints([controller.address]);
  await connected;
});

afterEach(async () => {
  controllers.stop();
  await controller.close();
  await rm(dir, { recursive: true });
});

const marker = () => join(dir, "marker");
const made = (at = marker()) => new Quiesce({ controllers, marker: at, log: silentLogger });
const asked = () => controller.received.map(({ contentType }) => contentType);

describe("avoiding a router", () => {
  it("is asked for at a stop, remembered, and taken back by the next start only", async () => {
    const stopping = made();
    expect(await stopping.begin()).toBe(true);
    expect(existsSync(marker())).toBe(true);
    await stopping.end();
    expect(asked()).toEqual([ControlType.QuiesceRouter]);
    await made().end();
    expect(asked()).toEqual([ControlType.QuiesceRouter, ControlType.DequiesceRouter]);
    expect(existsSync(marker())).toBe(false);
    await made().end();
    expect(asked()).toHaveLength(2);
  });

  it("is not remembered when no controller did it; taking it back is tried until one does", async () => {
    refusal = "no";
    expect(await made().begin()).toBe(false);
    expect(existsSync(marker())).toBe(false);
    await writeFile(marker(), "");
    await made().end();
    expect(existsSync(marker())).toBe(true);
    controllers.stop();
    await expect.poll(() => controllers.all()).toEqual([]);
    expect(await made().begin()).toBe(false);
  });

  it("is not asked for when it could not be remembered", async () => {
    expect(await made(join(dir, "no", "where")).begin()).toBe(false);
    expect(asked()).toEqual([]);
  });
});
