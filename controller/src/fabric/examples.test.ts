import { BaseHeader, encodeMessage, Headers, type Outgoing } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { circuitV2 } from "./circuits/circuit-messages.ts";
import { planRoutes, routeMessage } from "./circuits/route-exchange.ts";
import { DenialCode } from "./ports.ts";
import { certificateAnswer, EdgeRefusal, edgeError } from "./requests.ts";
import { apiSessionsRemoved, sessionsAdded } from "./sessions/session-feed.ts";
import { syncStateJson } from "./sessions/session-sync.ts";

const hex = (text: string) => text.replaceAll(/\s/g, "");
const frame = (out: Outgoing, sequence: number) => encodeMessage(out, sequence).toString("hex");
/** As the channel answers: the sequence of the request in header 1, last. */
const answer = (out: Outgoing, replyFor: number): Outgoing => ({
  ...out,
  headers: (out.headers ?? new Headers()).setI32(BaseHeader.ReplyFor, replyFor),
});

describe("frames, byte for byte (docs/protocol/fabric.md, Examples)", () => {
  test("a route of one router, attempt 0", () => {
    const route = { routers: ["r1"], links: [], ingressId: "ing", egressId: "egr" };
    const [planned] = planRoutes(route);
    const out = routeMessage(
      {
        circuitId: "c1",
        attempt: 0,
        route,
        egress: { binding: "edge", destination: "term1", peerData: new Map() },
        tags: { serviceId: "s1" },
        dialTimeoutMs: 9_999,
      },
      planned!,
    );
    expect(frame(out, 7)).toBe(
      hex(`0306090c ed030000 07000000 00000000 49000000
        0a02 6331 1a12 0a04 65646765 1203 656772 1a05 7465726d31
        220c 0a03 696e67 1203 656772 1801  220a 0a03 656772 1203 696e67
        30c0c3f29f25 3a0f 0a09 736572766963654964 1202 7331`),
    );
  });

  test("a deadline that has passed is 0, which protobuf leaves out", () => {
    const route = { routers: ["r1"], links: [], ingressId: "i", egressId: "e" };
    const [planned] = planRoutes(route);
    const order = { circuitId: "c", attempt: 1, route, tags: {} };
    expect(routeMessage({ ...order, dialTimeoutMs: -5 }, planned!)).toEqual(
      routeMessage({ ...order, dialTimeoutMs: 0 }, planned!),
    );
  });

  test("the answer to a circuit request", () => {
    const route = { routers: ["a"], links: [], ingressId: "ing", egressId: "egr" };
    const out = circuitV2({ id: "c1", route, peerData: new Map(), tags: { serviceId: "s1" } });
    expect(frame(answer(out, 20), 31)).toBe(
      hex(`0306090c fb4e0000 1f000000 48000000 00000000
        0b000000 02000000 6331  0c000000 03000000 696e67  0a000000 00000000
        0d000000 17000000 01000000 09000000 736572766963654964 02000000 7331
        01000000 04000000 14000000`),
    );
  });

  test("an edge error", () => {
    const out = edgeError(new EdgeRefusal(DenialCode.InvalidSession));
    expect(frame(answer(out, 20), 32)).toBe(
      hex(`0306090c 224e0000 20000000 24000000 0f000000
        f6030000 04000000 03000000  12000000 04000000 02000000  01000000 04000000 14000000
        696e76616c69642073657373696f6e`),
    );
  });

  test("a verified certificate is answered with an empty error", () => {
    expect(certificateAnswer()).toMatchObject({ contentType: 20002, body: Buffer.alloc(0) });
    const out = certificateAnswer({ code: "VERIFY_ERROR", message: "m" });
    expect(Buffer.from(out.body!).toString("hex")).toBe(hex(`0a0c 5645524946595f4552524f52 1201 6d`));
  });

  test("the last, empty chunk of a synchronisation", () => {
    const state = syncStateJson("s1", { sequence: 0, isLast: true });
    const out = sessionsAdded({ isFullState: true, sessions: [], state });
    const json = Buffer.from('{"id":"s1","isLast":true,"sequence":0}').toString("hex");
    expect(frame(out, 3)).toBe(
      hex(`0306090c e84e0000 03000000 3d000000 02000000
        f5030000 07000000 696e7374616e74  f6030000 26000000 ${json} 0801`),
    );
  });

  test("an announced session and its removal", () => {
    const session = { id: "a1", token: "t", identityId: "i", certFingerprints: ["f"] };
    expect(frame(sessionsAdded({ isFullState: false, sessions: [session], state: "" }), 4)).toBe(
      hex(`0306090c e84e0000 04000000 17000000 0f000000
        f5030000 07000000 696e7374616e74  f6030000 00000000
        120d 0a01 74 1201 66 1a02 6131 2201 69`),
    );
    expect(Buffer.from(apiSessionsRemoved(["t"], ["a1"]).body!).toString("hex")).toBe(hex(`0a01 74 1202 6131`));
  });
});
