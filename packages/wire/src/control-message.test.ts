import { describe, expect, it } from "vitest";
import { BaseHeader, BaseType } from "./catalogue/base.ts";
import {
  ControlHeader,
  ControlHello,
  ControlType,
  CreateCircuitHeader,
  EdgeCtrlHeader,
  EdgeCtrlType,
} from "./catalogue/control.ts";
import { EdgeErrorCode } from "./catalogue/edge.ts";
import { byteMap, decodeControl, encodeControl } from "./control-message.ts";
import { ProtocolError } from "./errors.ts";
import { Headers } from "./frame/headers.ts";
import { encodeMessage } from "./frame/message.ts";
import * as ctrlPb from "./generated/ctrl_pb.ts";
import * as edgeCtrlPb from "./generated/edge_ctrl_pb.ts";
import * as metricsPb from "./generated/metrics_pb.ts";

const hex = (text: string) => text.replace(/\s+/g, "");
const version = "v1.6.20|abc|2026-01-01|linux|amd64";

describe("control messages, byte for byte", () => {
  it("router hello with one listener", () => {
    const listeners = encodeControl(ctrlPb.ListenersSchema, {
      listeners: [{ address: "tls:r1.example:10080", protocol: "tls", groups: ["default"] }],
    });
    const metadata = encodeControl(ctrlPb.RouterMetadataSchema, {
      capabilities: [ctrlPb.RouterCapability.LinkManagement],
    });
    const headers = new Headers()
      .setString(ControlHello.Version, version)
      .set(ControlHello.Listeners, listeners)
      .set(ControlHello.RouterMetadata, metadata);
    const frame = encodeMessage({ contentType: BaseType.Hello, headers, body: Buffer.from("r1") }, -1);
    expect(frame.toString("hex")).toBe(
      hex(`
      03 06 09 0c 00 00 00 00 ff ff ff ff 63 00 00 00  02 00 00 00 04 00 00 00 22 00 00 00 76 31 2e 36
      2e 32 30 7c 61 62 63 7c 32 30 32 36 2d 30 31 2d  30 31 7c 6c 69 6e 75 78 7c 61 6d 64 36 34 0a 00
      00 00 26 00 00 00 0a 24 0a 14 74 6c 73 3a 72 31  2e 65 78 61 6d 70 6c 65 3a 31 30 30 38 30 12 03
      74 6c 73 22 07 64 65 66 61 75 6c 74 0b 00 00 00  03 00 00 00 0a 01 01 72 31`),
    );
  });

  it("controller's answer to it", () => {
    const headers = new Headers()
      .setBool(BaseHeader.ResultSuccess, true)
      .setString(ControlHello.Version, version)
      .set(ControlHello.Capabilities, Buffer.of(0x1e))
      .setString(BaseHeader.ConnectionId, "k1")
      .setString(BaseHeader.Id, "ctrl1")
      .setI32(BaseHeader.ReplyFor, -1);
    const frame = encodeMessage({ contentType: BaseType.Result, headers }, -1);
    expect(frame.toString("hex")).toBe(
      hex(`
      03 06 09 0c 02 00 00 00 ff ff ff ff 5f 00 00 00  00 00 00 00 02 00 00 00 01 00 00 00 01 04 00 00
      00 22 00 00 00 76 31 2e 36 2e 32 30 7c 61 62 63  7c 32 30 32 36 2d 30 31 2d 30 31 7c 6c 69 6e 75
      78 7c 61 6d 64 36 34 0c 00 00 00 01 00 00 00 1e  00 00 00 00 02 00 00 00 6b 31 08 00 00 00 05 00
      00 00 63 74 72 6c 31 01 00 00 00 04 00 00 00 ff  ff ff ff`),
    );
  });

  it("route", () => {
    const body = encodeControl(ctrlPb.RouteSchema, {
      circuitId: "c1",
      egress: { binding: "edge", address: "egr", destination: "term1" },
      forwards: [
        { srcAddress: "ing", dstAddress: "egr", dstType: ctrlPb.DestType.End },
        { srcAddress: "egr", dstAddress: "ing", dstType: ctrlPb.DestType.Start },
      ],
      timeout: 9_999_000_000n,
      tags: { serviceId: "s1" },
    });
    expect(encodeMessage({ contentType: ControlType.Route, body }, 7).toString("hex")).toBe(
      hex(`
      03 06 09 0c ed 03 00 00 07 00 00 00 00 00 00 00  49 00 00 00 0a 02 63 31 1a 12 0a 04 65 64 67 65
      12 03 65 67 72 1a 05 74 65 72 6d 31 22 0c 0a 03  69 6e 67 12 03 65 67 72 18 01 22 0a 0a 03 65 67
      72 12 03 69 6e 67 30 c0 c3 f2 9f 25 3a 0f 0a 09  73 65 72 76 69 63 65 49 64 12 02 73 31`),
    );
    const route = decodeControl(ctrlPb.RouteSchema, body);
    expect(route.timeout).toBe(9_999_000_000n);
    expect(route.attempt).toBe(0);
    expect(route.forwards[1]?.dstType).toBe(ctrlPb.DestType.Start);
  });

  it("route results", () => {
    const base = () => new Headers();
    const success = base()
      .set(ControlHeader.RouteResultAttempt, Buffer.alloc(4))
      .setBool(ControlHeader.RouteResultSuccess, true)
      .setI32(BaseHeader.ReplyFor, 7);
    expect(
      encodeMessage({ contentType: ControlType.RouteResult, headers: success, body: Buffer.from("c1") }, 12).toString(
        "hex",
      ),
    ).toBe(
      hex(`
      03 06 09 0c fe 03 00 00 0c 00 00 00 21 00 00 00  02 00 00 00 4d 04 00 00 04 00 00 00 00 00 00 00
      4e 04 00 00 01 00 00 00 01 01 00 00 00 04 00 00  00 07 00 00 00 63 31`),
    );
    const failure = base()
      .setU32(ControlHeader.RouteResultAttempt, 0)
      .setString(ControlHeader.RouteResultError, "x")
      .setByte(ControlHeader.RouteResultErrorCode, 1)
      .setI32(BaseHeader.ReplyFor, 7);
    expect(
      encodeMessage({ contentType: ControlType.RouteResult, headers: failure, body: Buffer.from("c1") }, 12).toString(
        "hex",
      ),
    ).toBe(
      hex(`
      03 06 09 0c fe 03 00 00 0c 00 00 00 2a 00 00 00  02 00 00 00 4d 04 00 00 04 00 00 00 00 00 00 00
      4f 04 00 00 01 00 00 00 78 50 04 00 00 01 00 00  00 01 01 00 00 00 04 00 00 00 07 00 00 00 63 31`),
    );
  });

  it("circuit request in headers, its answer and its refusal", () => {
    const fingerprint = "00112233445566778899aabbccddeeff00112233";
    const request = new Headers()
      .setString(CreateCircuitHeader.SessionToken, "tok")
      .setString(CreateCircuitHeader.ApiSessionToken, "api")
      .setStringList(CreateCircuitHeader.Fingerprints, [fingerprint])
      .setString(CreateCircuitHeader.TerminatorInstanceId, "")
      .setU32Map(CreateCircuitHeader.PeerData, new Map([[1008, Buffer.from("bob")]]));
    expect(
      encodeMessage({ contentType: EdgeCtrlType.CreateCircuitV2Request, headers: request }, 20).toString("hex"),
    ).toBe(
      hex(`
      03 06 09 0c fa 4e 00 00 14 00 00 00 6d 00 00 00  00 00 00 00 0b 00 00 00 03 00 00 00 74 6f 6b 0e
      00 00 00 03 00 00 00 61 70 69 0c 00 00 00 30 00  00 00 01 00 00 00 28 00 00 00 30 30 31 31 32 32
      33 33 34 34 35 35 36 36 37 37 38 38 39 39 61 61  62 62 63 63 64 64 65 65 66 66 30 30 31 31 32 32
      33 33 0d 00 00 00 00 00 00 00 0a 00 00 00 0f 00  00 00 01 00 00 00 f0 03 00 00 03 00 00 00 62 6f
      62`),
    );
    const response = new Headers()
      .setString(CreateCircuitHeader.ResponseCircuitId, "c1")
      .setString(CreateCircuitHeader.ResponseAddress, "ing")
      .setU32Map(CreateCircuitHeader.PeerData, new Map())
      .setStringMap(CreateCircuitHeader.ResponseTags, new Map([["serviceId", "s1"]]))
      .setI32(BaseHeader.ReplyFor, 20);
    expect(
      encodeMessage({ contentType: EdgeCtrlType.CreateCircuitV2Response, headers: response }, 31).toString("hex"),
    ).toBe(
      hex(`
      03 06 09 0c fb 4e 00 00 1f 00 00 00 48 00 00 00  00 00 00 00 0b 00 00 00 02 00 00 00 63 31 0c 00
      00 00 03 00 00 00 69 6e 67 0a 00 00 00 00 00 00  00 0d 00 00 00 17 00 00 00 01 00 00 00 09 00 00
      00 73 65 72 76 69 63 65 49 64 02 00 00 00 73 31  01 00 00 00 04 00 00 00 14 00 00 00`),
    );
    const refusal = new Headers()
      .setU32(EdgeCtrlHeader.ErrorCode, EdgeErrorCode.InvalidSession)
      .setI32(BaseHeader.ReplyFor, 20);
    expect(
      encodeMessage(
        { contentType: EdgeCtrlType.Error, headers: refusal, body: Buffer.from("invalid session") },
        32,
      ).toString("hex"),
    ).toBe(
      hex(`
      03 06 09 0c 22 4e 00 00 20 00 00 00 18 00 00 00  0f 00 00 00 f6 03 00 00 04 00 00 00 03 00 00 00
      01 00 00 00 04 00 00 00 14 00 00 00 69 6e 76 61  6c 69 64 20 73 65 73 73 69 6f 6e`),
    );
  });
});

describe("decodeControl", () => {
  it("throws the protocol error for bytes that are no such message", () => {
    expect(() => decodeControl(ctrlPb.RouteSchema, Buffer.from("0aff", "hex"))).toThrow(ProtocolError);
    expect(() => decodeControl(ctrlPb.RouteSchema, Buffer.from("ffffffffffffffffffffff", "hex"))).toThrow(
      ProtocolError,
    );
  });

  it("keeps maps with number keys and 64-bit numbers", () => {
    const body = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, {
      address: "t1",
      peerData: { 1003: Buffer.from("aabb", "hex") },
    });
    const decoded = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, body);
    expect([...byteMap(decoded.peerData)]).toEqual([[1003, Buffer.from("aabb", "hex")]]);
    const confirmation = encodeControl(ctrlPb.CircuitConfirmationSchema, { idleTimes: { c1: 60_000_000_000n } });
    expect(decodeControl(ctrlPb.CircuitConfirmationSchema, confirmation).idleTimes).toEqual({ c1: 60_000_000_000n });
  });

  it.each([
    ["fields", ctrlPb.CircuitConfirmationSchema, { circuitIds: Array(50).fill("") }],
    ["empty messages", ctrlPb.RouterLinksSchema, { links: Array(50).fill({}) }],
    [
      "fields of nested messages",
      ctrlPb.RouterLinksSchema,
      { links: [{ connState: { conns: Array(50).fill({ type: "t" }) } }] },
    ],
    [
      "fields of messages in maps",
      metricsPb.MetricsMessageSchema,
      {
        intervalCounters: {
          usage: { buckets: [{ values: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [i, 1n])) }] },
        },
      },
    ],
  ] as const)("refuses more %s than are allowed", (_, schema, fields) => {
    const body = encodeControl(schema as typeof ctrlPb.RouterLinksSchema, fields as object);
    expect(() => decodeControl(schema, body, 40)).toThrow(expect.objectContaining({ code: "TOO_MANY_FIELDS" }));
    expect(decodeControl(schema, body, 200)).toMatchObject(fields);
  });

  it.each([
    ["a group", "fb07fc07", "0a00", "BODY_UNREADABLE"],
    ["an over-long length", "fa078080808080808080807f", "0a00", "TOO_MANY_FIELDS"],
    ["a text that reaches beyond its message", "0a020a027a7e", "0a00", "BODY_UNREADABLE"],
    ["a number declared as bytes", "0acb0132c801", "2200", "BODY_UNREADABLE"],
  ])("is not led past a count of fields by %s", (_, prefix, field, code) => {
    const fields = Buffer.alloc(200, Buffer.from(field, "hex"));
    const body = Buffer.concat([Buffer.from(prefix, "hex"), fields]);
    expect(() => decodeControl(ctrlPb.RouterLinksSchema, body, 40)).toThrow(expect.objectContaining({ code }));
  });

  it("counts the elements of packed lists", () => {
    const body = encodeControl(ctrlPb.RouterMetadataSchema, { capabilities: Array(50).fill(1) });
    expect(() => decodeControl(ctrlPb.RouterMetadataSchema, body, 40)).toThrow(
      expect.objectContaining({ code: "TOO_MANY_FIELDS" }),
    );
    expect(decodeControl(ctrlPb.RouterMetadataSchema, body, 51).capabilities).toHaveLength(50);
  });

  it("counts no bytes of texts as fields", () => {
    const body = encodeControl(ctrlPb.CircuitConfirmationSchema, { circuitIds: ["c".repeat(1_000)] });
    expect(decodeControl(ctrlPb.CircuitConfirmationSchema, body, 1).circuitIds[0]).toHaveLength(1_000);
  });

  it("ignores fields of later versions", () => {
    const body = Buffer.concat([
      encodeControl(ctrlPb.UnrouteSchema, { circuitId: "c1", now: true }),
      Buffer.from("9a0603616263", "hex"),
    ]);
    expect(decodeControl(ctrlPb.UnrouteSchema, body)).toMatchObject({ circuitId: "c1", now: true });
  });
});
