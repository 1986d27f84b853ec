import { describe, expect, it } from "vitest";
import { Headers } from "../frame/headers.ts";
import { encodeMessage } from "../frame/message.ts";
import { BaseHeader, BaseType } from "./base.ts";
import { EdgeFlag, EdgeHeader, EdgeType, FIRST_ROUTER_CONN_ID } from "./edge.ts";

const hex = (text: string) => text.replace(/\s+/g, "");
const frame = (contentType: number, sequence: number, headers: Headers, body?: Buffer) =>
  encodeMessage({ contentType, headers, ...(body === undefined ? {} : { body }) }, sequence).toString("hex");
const connId = (id: number) => new Headers().setU32(EdgeHeader.ConnId, id);

const dialerKey = Buffer.from("07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c", "hex");
const hostKey = Buffer.from("64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466", "hex");

describe("edge messages, byte for byte", () => {
  it("hello of an SDK and its result", () => {
    const hello = new Headers()
      .setString(EdgeHeader.SessionToken, "11111111-2222-3333-4444-555555555555")
      .setBool(EdgeHeader.SupportsInspect, true);
    expect(frame(BaseType.Hello, 1, hello, Buffer.from("ziti-sdk-c[0]@vm"))).toBe(
      hex(`0306090c 00000000 01000000 35000000 10000000
      ea030000 24000000 31313131313131312d323232322d333333332d343434342d353535353535353535353535
      ff030000 01000000 01 7a6974692d73646b2d635b305d40766d`),
    );
    const result = new Headers()
      .setString(BaseHeader.ConnectionId, "conn-1")
      .setI32(BaseHeader.ReplyFor, 1)
      .setBool(BaseHeader.ResultSuccess, true)
      .setString(BaseHeader.Id, "rout1")
      .setBool(EdgeHeader.SupportsBindSuccess, true);
    expect(frame(BaseType.Result, -1, result)).toBe(
      hex(`0306090c 02000000 ffffffff 39000000 00000000
      00000000 06000000 636f6e6e2d31 01000000 04000000 01000000 02000000 01000000 01
      08000000 05000000 726f757431 00040000 01000000 01`),
    );
  });

  it("bind and its answer", () => {
    const bind = connId(0)
      .setU32(EdgeHeader.Seq, 0)
      .set(
        EdgeHeader.ListenerId,
        Buffer.from("9b9d8657ab0c7f0c3bffd9c42309d5b64e0b30a0328579cbae93898af13f234f", "hex"),
      )
      .setBool(EdgeHeader.SupportsInspect, true)
      .setBool(EdgeHeader.RouterProvidedConnId, true)
      .set(
        EdgeHeader.PublicKey,
        Buffer.from("688362f8f460f009afce5be50fdaa060c6b297992be94abd3a00ca7f79676b6a", "hex"),
      );
    expect(frame(EdgeType.Bind, 2, bind, Buffer.from("tok-bind-0000-0000-000000000000"))).toBe(
      hex(`0306090c 76ed0000 02000000 7a000000 1f000000
      e8030000 04000000 00000000 e9030000 04000000 00000000
      fd030000 20000000 9b9d8657ab0c7f0c3bffd9c42309d5b64e0b30a0328579cbae93898af13f234f
      ff030000 01000000 01 f4030000 01000000 01
      eb030000 20000000 688362f8f460f009afce5be50fdaa060c6b297992be94abd3a00ca7f79676b6a
      746f6b2d62696e642d303030302d303030302d303030303030303030303030`),
    );
    const answer = new Headers()
      .setI32(BaseHeader.ReplyFor, 2)
      .setU32(EdgeHeader.ConnId, 0)
      .setBool(EdgeHeader.RouterProvidedConnId, true);
    expect(frame(EdgeType.StateConnected, 1, answer)).toBe(
      hex(`0306090c 70ed0000 01000000 21000000 00000000
      01000000 04000000 02000000 e8030000 04000000 00000000 f4030000 01000000 01`),
    );
  });

  it("connect, its success and its refusal", () => {
    const connect = connId(1)
      .set(EdgeHeader.PublicKey, dialerKey)
      .setString(EdgeHeader.CallerId, "alice")
      .setByte(EdgeHeader.CryptoMethod, 0)
      .setString(EdgeHeader.ConnectionMarker, "q0Zt3xWm");
    expect(frame(EdgeType.Connect, 1, connect, Buffer.from("9f3c1c1e-6a0a-4d5e-8d1b-0c1d2e3f4a5b"))).toBe(
      hex(`0306090c 6fed0000 01000000 5a000000 24000000
      e8030000 04000000 01000000
      eb030000 20000000 07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c
      f0030000 05000000 616c696365 f1030000 01000000 00 01040000 08000000 71305a743378576d
      39663363316331652d366130612d346435652d386431622d306331643265336634613562`),
    );
    const connected = new Headers()
      .setI32(BaseHeader.ReplyFor, 1)
      .setU32(EdgeHeader.ConnId, 1)
      .set(EdgeHeader.PublicKey, hostKey)
      .setString(EdgeHeader.CircuitId, "aBcDeFgHi");
    expect(frame(EdgeType.StateConnected, 9, connected)).toBe(
      hex(`0306090c 70ed0000 09000000 51000000 00000000
      01000000 04000000 01000000 e8030000 04000000 01000000
      eb030000 20000000 64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466
      02040000 09000000 614263446546674869`),
    );
    const refused = new Headers().setI32(BaseHeader.ReplyFor, 1).setU32(EdgeHeader.ConnId, 1);
    expect(frame(EdgeType.StateClosed, 9, refused, Buffer.from("Invalid Session"))).toBe(
      hex(`0306090c 71ed0000 09000000 18000000 0f000000 01000000 04000000 01000000
      e8030000 04000000 01000000 496e76616c69642053657373696f6e`),
    );
  });

  it("dial and its success", () => {
    const dial = connId(1)
      .set(EdgeHeader.PublicKey, dialerKey)
      .setString(EdgeHeader.CallerId, "alice")
      .setU32(EdgeHeader.RouterProvidedConnId, FIRST_ROUTER_CONN_ID)
      .setString(EdgeHeader.ConnectionMarker, "q0Zt3xWm")
      .setString(EdgeHeader.CircuitId, "aBcDeFgHi");
    expect(frame(EdgeType.Dial, 7, dial, Buffer.from("0b3f2f58-1f0e-4c55-a0a4-5f2f0f0b9a11"))).toBe(
      hex(`0306090c 73ed0000 07000000 6e000000 24000000
      e8030000 04000000 01000000
      eb030000 20000000 07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c
      f0030000 05000000 616c696365 f4030000 04000000 00000080
      01040000 08000000 71305a743378576d 02040000 09000000 614263446546674869
      30623366326635382d316630652d346335352d613061342d356632663066306239613131`),
    );
    const success = new Headers().setI32(BaseHeader.ReplyFor, 7).setU32(EdgeHeader.ConnId, 1);
    expect(frame(EdgeType.DialSuccess, 5, success, Buffer.from("00000080", "hex"))).toBe(
      hex(`0306090c 74ed0000 05000000 18000000 04000000 01000000 04000000 07000000
      e8030000 04000000 01000000 00000080`),
    );
  });

  it("data, half close and close", () => {
    const header = Buffer.from(Array.from({ length: 24 }, (_, index) => 0xa0 + index));
    expect(frame(EdgeType.Data, 2, connId(1).setU32(EdgeHeader.Flags, EdgeFlag.Multipart), header)).toBe(
      hex(`0306090c 72ed0000 02000000 18000000 18000000 e8030000 04000000 01000000 f2030000 04000000 04000000
      a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7`),
    );
    const cipher = Buffer.from("8695ee070bdb1f24746f883889f7630f2982d5c4b911", "hex");
    expect(frame(EdgeType.Data, 3, connId(1), cipher)).toBe(
      hex(`0306090c 72ed0000 03000000 0c000000 16000000 e8030000 04000000 01000000
      86 95ee070bdb 1f24746f883889f7630f2982d5c4b911`),
    );
    expect(frame(EdgeType.Data, 4, connId(1).setU32(EdgeHeader.Flags, EdgeFlag.Fin))).toBe(
      hex(`0306090c 72ed0000 04000000 18000000 00000000 e8030000 04000000 01000000 f2030000 04000000 01000000`),
    );
    expect(frame(EdgeType.StateClosed, 5, connId(1).setU32(EdgeHeader.Seq, 0))).toBe(
      hex(`0306090c 71ed0000 05000000 18000000 00000000 e8030000 04000000 01000000 e9030000 04000000 00000000`),
    );
  });
});
