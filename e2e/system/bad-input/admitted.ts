import { randomBytes } from "node:crypto";
import { pause } from "@sallyport/async";
import { EdgeHeader, encodeMessage, Headers } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { helloOf, prefix } from "./frames.ts";
import { EDGE, MIB, residentBytes, type Site } from "./site.ts";

/** What an SDK may not do that has shown who it is. */
export function describeAdmitted(site: Site): void {
  describe("an SDK that was admitted", () => {
    it("is closed when it sends frames that are none, alone", async () => {
      const answer = await site.post("client", "/authenticate?method=cert", "{}", site.known);
      const token = site.keep("an SDK's session", (JSON.parse(answer.body) as { data: { token: string } }).data.token);
      const hello = helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token));
      for (const bytes of [prefix(0, 0xffff_ffff, 60_783), prefix(3, 0, 60_783), randomBytes(64)]) {
        const peer = await site.connect(EDGE);
        peer.write(hello);
        await eventually("it is admitted", () => peer.received.length > 0);
        const before = residentBytes(EDGE.program(site));
        peer.write(bytes).write(Buffer.alloc(100));
        await peer.closed;
        expect(residentBytes(EDGE.program(site)) - before).toBeLessThan(64 * MIB);
      }
    });

    it("costs what it sent, not what it announced, and unknown requests are answered or dropped", async () => {
      const answer = await site.post("client", "/authenticate?method=cert", "{}", site.known);
      const token = site.keep(
        "an SDK's other session",
        (JSON.parse(answer.body) as { data: { token: string } }).data.token,
      );
      const hello = helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token));
      const peers = await Promise.all(Array.from({ length: 20 }, () => site.connect(EDGE)));
      for (const peer of peers) peer.write(hello);
      await eventually("all are admitted", () => peers.every((peer) => peer.received.length > 0));
      const before = residentBytes(EDGE.program(site));
      for (const peer of peers) {
        peer.write(encodeMessage({ contentType: 4711, body: Buffer.from("?") }, 1));
        peer.write(encodeMessage({ contentType: 60_783, body: Buffer.from("no connection id") }, 2));
        peer.write(prefix(60_000, 15 * MIB, 60_786)).write(Buffer.alloc(1_000));
      }
      await pause(200);
      expect(residentBytes(EDGE.program(site)) - before).toBeLessThan(64 * MIB);
      expect(peers.filter((peer) => peer.socket.destroyed)).toEqual([]);
      for (const peer of peers) peer.destroy();
    });
  });
}
