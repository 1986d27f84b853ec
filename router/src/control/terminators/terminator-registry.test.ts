import {
  ControlHeader,
  ControlType,
  ctrlPb,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  Precedence,
} from "@sallyport/wire";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  type ControlIdentities,
  controlIdentities,
  type ScriptedControl,
  startScriptedControl,
} from "../../testing/scripted-control.ts";
import type { ScriptedController } from "../../testing/scripted-controller.ts";
import type { Control } from "../control.ts";

let identities: ControlIdentities;
let end: ScriptedControl;
let controller: ScriptedController;
let control: Control;

beforeAll(async () => {
  identities = await controlIdentities();
});

beforeEach(async () => {
  end = await startScriptedControl(identities);
  ({ controller, control } = end);
});

afterEach(async () => await end.close());

const connect = async () => await end.connect();
const terminator = (address: string) => ({
  address,
  sessionToken: "st",
  apiSessionToken: "at",
  fingerprints: ["ab"],
  peerData: new Map([[1003, Buffer.from("key")]]),
  cost: 7,
  precedence: Precedence.Required,
});
const created = (terminatorId: string, result: edgeCtrlPb.CreateTerminatorResult, msg = "") => ({
  contentType: EdgeCtrlType.CreateTerminatorV2Response,
  body: encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, { terminatorId, result, msg }),
});
const Result = edgeCtrlPb.CreateTerminatorResult;

describe("terminators", () => {
  it("are created with all they have, and updated", async () => {
    await connect();
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const sent = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      expect(sent).toMatchObject({ address: "t1", sessionToken: "st", cost: 7, precedence: 1 });
      channel.reply(message, created("t1", Result.Success));
    });
    expect(await control.createTerminator(terminator("t1"))).toMatchObject({ terminatorId: "t1", result: 0 });
    controller.on(EdgeCtrlType.UpdateTerminatorRequest, (message, channel) =>
      channel.reply(message, { contentType: EdgeCtrlType.UpdateTerminatorResponse }),
    );
    await control.updateTerminator({
      terminatorId: "t1",
      sessionToken: "st",
      apiSessionToken: "at",
      fingerprints: [],
      cost: 9,
    });
    const update = decodeControl(
      edgeCtrlPb.UpdateTerminatorRequestSchema,
      (await controller.next(EdgeCtrlType.UpdateTerminatorRequest)).body,
    );
    expect(update).toMatchObject({ updateCost: true, cost: 9, updatePrecedence: false });
  });

  it("wait for a controller, and are sent again when the first one is lost before it answered", async () => {
    const outcome = control.createTerminator(terminator("t1"));
    const channel = await connect();
    await controller.next(EdgeCtrlType.CreateTerminatorV2Request);
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, again) =>
      again.reply(message, created("t1", Result.Success)),
    );
    channel.close();
    expect((await outcome).result).toBe(0);
  }, 30_000);

  it("that a controller refuses are told", async () => {
    await connect();
    const lost: string[] = [];
    control.onTerminatorLost((id, outcome) => lost.push(`${id} ${outcome.message}`));
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) =>
      channel.reply(message, created("t1", Result.FailedInvalidSession, "invalid session")),
    );
    expect((await control.createTerminator(terminator("t1"))).result).toBe(4);
    expect(lost).toEqual(["t1 invalid session"]);
  });

  it("that go on under another session are asked for again: the new session is not taken on trust", async () => {
    await connect();
    const asked: string[] = [];
    controller.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const { sessionToken } = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      asked.push(sessionToken);
      const result = sessionToken === "forged" ? Result.FailedInvalidSession : Result.Success;
      channel.reply(message, created("t1", result));
    });
    const lost: string[] = [];
    control.onTerminatorLost((id) => lost.push(id));
    expect((await control.createTerminator(terminator("t1"))).result).toBe(0);
    expect((await control.createTerminator(terminator("t1"))).result).toBe(0);
    expect((await control.createTerminator({ ...terminator("t1"), sessionToken: "st2" })).result).toBe(0);
    expect((await control.createTerminator({ ...terminator("t1"), sessionToken: "forged" })).result).toBe(4);
    expect(asked).toEqual(["st", "st2", "forged"]);
    expect(lost).toEqual(["t1"]);
  });

  it("are removed in batches of 50, again when the controller is busy", async () => {
    await connect();
    let calls = 0;
    controller.on(ControlType.RemoveTerminatorsRequest, (message, channel) => {
      if (calls++ > 0) return channel.replyResult(message, true);
      const headers = new Headers().setBool(2, false).setU32(ControlHeader.RateLimited, 1);
      channel.reply(message, { contentType: 2, headers, body: Buffer.from("server too busy") });
    });
    control.removeTerminators(Array.from({ length: 60 }, (_, i) => `t${i}`));
    const batch = async () =>
      decodeControl(
        ctrlPb.RemoveTerminatorsRequestSchema,
        (await controller.next(ControlType.RemoveTerminatorsRequest)).body,
      ).terminatorIds.length;
    expect([await batch(), await batch(), await batch()]).toEqual([50, 50, 10]);
  }, 30_000);

  it("are validated by their binding, with the marker echoed", async () => {
    const channel = await connect();
    control.onValidateTerminators("edge", ({ id }) => (id === "t1" ? { valid: true } : { valid: false, reason: 1 }));
    const body = encodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, {
      terminators: [
        { id: "t1", binding: "edge", address: "t1", marker: 5n },
        { id: "t2", binding: "edge", address: "t2", marker: 6n },
        { id: "t3", binding: "carrier-pigeon", address: "t3", marker: 7n },
      ],
      fixInvalid: true,
    });
    const reply = await channel.request({ contentType: ControlType.ValidateTerminatorsV2Request, body });
    expect(reply.contentType).toBe(ControlType.ValidateTerminatorsV2Response);
    const { states } = decodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, reply.body);
    expect(states).toMatchObject({
      t1: { valid: true, marker: 5n },
      t2: { valid: false, reason: 1, marker: 6n },
      t3: { valid: false, reason: 0, marker: 7n },
    });
  });
});
