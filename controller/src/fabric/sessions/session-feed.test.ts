import { decodeControl, edgeCtrlPb, encodeControl } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { protocolUrls } from "./session-feed.ts";

const { ClientHelloSchema } = edgeCtrlPb;
const hello = (fields: Parameters<typeof encodeControl<typeof ClientHelloSchema>>[1]) =>
  protocolUrls(decodeControl(ClientHelloSchema, encodeControl(ClientHelloSchema, fields)));

describe("URLs of a router's listeners", () => {
  const listener = (hostname: string) => ({
    address: { value: "", protocol: "tls", hostname: "::", port: 3022 },
    advertise: { value: "", protocol: "tls", hostname, port: 3022 },
  });

  test("an IPv6 host stands in brackets, whether the router wrote them or not", () => {
    for (const host of ["::1", "[::1]"]) {
      expect(hello({ listeners: [listener(host)] })).toEqual({ tls: "tls://[::1]:3022" });
      expect(hello({ hostname: host, protocols: ["tls"], protocolPorts: ["3022"] })).toEqual({
        tls: "tls://[::1]:3022",
      });
    }
  });

  test("names and IPv4 stand as they are", () => {
    expect(hello({ listeners: [listener("r1.example")] })).toEqual({ tls: "tls://r1.example:3022" });
    expect(hello({ listeners: [listener("192.0.2.7")] })).toEqual({ tls: "tls://192.0.2.7:3022" });
  });

  test("what every client would be shown is bounded in number and length", () => {
    const many = Array.from({ length: 100 }, (_, i) => ({ advertise: { protocol: `p${i}`, hostname: "h", port: 1 } }));
    expect(Object.keys(hello({ listeners: many }))).toHaveLength(64);
    const long = "h".repeat(257);
    expect(hello({ listeners: [listener(long), listener("r1.example")] })).toEqual({ tls: "tls://r1.example:3022" });
    expect(hello({ hostname: "h", protocols: [long, "tls"], protocolPorts: ["1", long] })).toEqual({});
  });
});
