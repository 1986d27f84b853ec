import { ControlHeader, ControlType, ctrlPb, encodeControl, silentLogger } from "@sallyport/wire";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { RouteResult } from "../forwarder/route-processor.ts";
import {
  type ControlIdentities,
  controlIdentities,
  type ScriptedControl,
  startScriptedControl,
} from "../testing/scripted-control.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { handleRoutes } from "./routes.ts";

let identities: ControlIdentities;
let end: ScriptedControl;
let controllers: Controllers;

beforeAll(async () => {
  identities = await controlIdentities();
});

beforeEach(async () => {
  end = await startScriptedControl(identities);
  ({ controllers } = end);
});

afterEach(async () => await end.close());

const connect = async () => await end.connect();

describe("routes", () => {
  const route = (circuitId: string) => ({
    contentType: ControlType.Route,
    body: encodeControl(ctrlPb.RouteSchema, { circuitId, attempt: 3, timeout: 1_000_000_000n }),
  });
  const forwarder = (outcome: RouteResult) =>
    ({ route: () => Promise.resolve(outcome), unroute: () => {} }) as unknown as Forwarder;

  it("are answered with the success header and the terminating side's data", async () => {
    handleRoutes(controllers, forwarder({ ok: true, peerData: new Map([[1003, Buffer.from("k")]]) }), silentLogger);
    const channel = await connect();
    const reply = await channel.request(route("c1"));
    expect([reply.contentType, reply.body.toString()]).toEqual([ControlType.RouteResult, "c1"]);
    expect(reply.headers.getU32(ControlHeader.RouteResultAttempt)).toBe(3);
    expect(reply.headers.getBool(ControlHeader.RouteResultSuccess)).toBe(true);
    expect(reply.headers.has(ControlHeader.RouteResultErrorCode)).toBe(false);
    expect(reply.headers.getString(1003)).toBe("k");
  });

  it("that fail for a reason of any length are answered", async () => {
    const error = "x".repeat(100_000);
    handleRoutes(controllers, forwarder({ ok: false, error, errorCode: 1, peerData: new Map() }), silentLogger);
    const reply = await (await connect()).request(route("c1"), { timeoutMs: 5_000 });
    expect(reply.headers.getString(ControlHeader.RouteResultError)).toBe("x".repeat(1_024));
  });

  it("that fail carry text and code and no success header at all", async () => {
    handleRoutes(controllers, forwarder({ ok: false, error: "x", errorCode: 1, peerData: new Map() }), silentLogger);
    const channel = await connect();
    const reply = await channel.request(route("c1"));
    expect(reply.headers.has(ControlHeader.RouteResultSuccess)).toBe(false);
    expect(reply.headers.getString(ControlHeader.RouteResultError)).toBe("x");
    expect(reply.headers.getByte(ControlHeader.RouteResultErrorCode)).toBe(1);
  });
});
