import { EdgeCtrlHeader, RetryHint } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, expect, test } from "vitest";
import { DenialCode } from "./ports.ts";
import { EdgeRefusal, edgeError } from "./requests.ts";
import { ROUTER_LINES } from "./routers/router-connection.ts";
import { dial, dialHeaders } from "./testing/circuit-mesh.ts";
import { TestFabric } from "./testing/test-fabric.ts";

let net: TestFabric | undefined;
afterEach(() => net?.stop());

test.each([
  [RetryHint.Default, [DenialCode.Internal, DenialCode.PostureCheckFailed]],
  [
    RetryHint.StartOver,
    [
      ...[DenialCode.InvalidApiSession, DenialCode.InvalidSession, DenialCode.WrongSessionType],
      DenialCode.InvalidEdgeRouterForSession,
    ],
  ],
  [
    RetryHint.NotRetriable,
    [
      ...[DenialCode.InvalidService, DenialCode.TunnelingNotEnabled, DenialCode.InvalidTerminator],
      ...[DenialCode.InvalidPrecedence, DenialCode.InvalidCost, DenialCode.EncryptionDataMissing],
      DenialCode.AccessDenied,
    ],
  ],
])("a refusal says by hint %i what its client may do", (hint, codes) => {
  for (const code of codes) {
    expect(edgeError(new EdgeRefusal(code)).headers?.getU32(EdgeCtrlHeader.RetryHint)).toBe(hint);
  }
});

test("a refusal of a controller that is too busy says so by its hint", () => {
  expect(edgeError(EdgeRefusal.busy()).headers?.getU32(EdgeCtrlHeader.RetryHint)).toBe(RetryHint.TooBusy);
});

test("dials that are refused, over and over, leave a few lines in the log", async () => {
  const log = new RecordingLogger();
  net = await TestFabric.start({}, log);
  const router = await net.connect("r1");
  for (let i = 0; i < 2 * ROUTER_LINES.perReason; i++) await dial(router, dialHeaders("unknown"));
  const lines = log.entries.filter(({ level, msg }) => level !== "debug" && msg === "a router's request was refused");
  expect(lines).toHaveLength(ROUTER_LINES.perReason);
});
