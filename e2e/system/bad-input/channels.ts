import { randomBytes, randomUUID } from "node:crypto";
import { EdgeHeader, encodeMessage, Headers, LinkHello } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import { helloOf, prefix } from "./frames.ts";
import { CTRL, EDGE, EVERYWHERE, LINK, MIB, residentBytes, type Site } from "./site.ts";

const UNKNOWN_VERSION = "0306090a020000000100000002000000";

/** Bytes that are no hello, and hellos of another client. */
export function describeHellos(site: Site): void {
  describe.each(EVERYWHERE)("$name", (target) => {
    it("closes a connection without a client certificate, without a word", async () => {
      const peer = await site.connect(target, {});
      peer.write(helloOf("any-client"));
      expect((await peer.closed).length).toBe(0);
      expect(await site.loggedOnce(target, peer)).toContain("NO_CLIENT_CERTIFICATE");
    });

    it("answers another version with the versions it could speak, in 16 bytes", async () => {
      const peer = await site.connect(target);
      peer.write(Buffer.concat([Buffer.from("0306090d", "hex"), randomBytes(40)]));
      expect((await peer.closed).toString("hex")).toBe(UNKNOWN_VERSION);
      expect(await site.loggedOnce(target, peer)).toContain("BAD_MAGIC");
    });

    it("does the same with HTTP that lost its way", async () => {
      const peer = await site.connect(target);
      peer.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      expect((await peer.closed).toString("hex")).toBe(UNKNOWN_VERSION);
      await site.loggedOnce(target, peer);
    });

    it.each([
      ["headers over the limit of a hello", prefix(16_385, 5), "FRAME_TOO_LARGE"],
      ["a body over the limit of a hello", prefix(0, 4_193), "FRAME_TOO_LARGE"],
      ["lengths of 4 GiB", prefix(0xffff_ffff, 0xffff_ffff), "FRAME_TOO_LARGE"],
      [
        "a header longer than its block",
        Buffer.concat([prefix(12, 0), Buffer.from("ea030000ff0000007f7f7f7f", "hex")]),
        "BAD_HEADERS",
      ],
      ["another message than a hello", encodeMessage({ contentType: 2 }, 1), "NOT_A_HELLO"],
    ])("closes at once: %s", async (_, bytes, code) => {
      const peer = await site.connect(target);
      peer.write(bytes);
      expect((await peer.closed).length).toBe(0);
      expect(await site.loggedOnce(target, peer)).toContain(code);
    });

    it("closes when a hello ends before its end", async () => {
      const peer = await site.connect(target);
      peer.write(helloOf("a-client").subarray(0, 23)).end();
      expect((await peer.closed).length).toBe(0);
      expect(await site.loggedOnce(target, peer)).toContain("CLOSED_BY_PEER");
    });

    it("holds bytes that come, not those that are announced", async () => {
      const before = residentBytes(target.program(site));
      const peers = await Promise.all(Array.from({ length: 40 }, () => site.connect(target)));
      for (const peer of peers) peer.write(prefix(16_384, 4_192)).write(Buffer.alloc(64));
      await Promise.all(peers.map((peer) => peer.destroy() ?? peer.closed));
      expect(residentBytes(target.program(site)) - before).toBeLessThan(64 * MIB);
    });
  });

  describe("a hello of another client", () => {
    it("on the control channel: an unknown authority's certificate for a router's id", async () => {
      const peer = await site.connect(CTRL, site.untrusted);
      peer.write(helloOf(site.routerId));
      expect((await peer.closed).length).toBe(0);
      expect(await site.loggedOnce(CTRL, peer)).toContain("untrusted-certificate");
    });

    it("on the control channel: an identity's certificate for a router's id, and a router that does not exist", async () => {
      const peer = await site.connect(CTRL);
      peer.write(helloOf(site.routerId));
      expect((await peer.closed).length).toBe(0);
      expect(await site.loggedOnce(CTRL, peer)).toContain("fingerprint-mismatch");
      const other = await site.connect(CTRL);
      other.write(helloOf("no-such-router"));
      expect((await other.closed).length).toBe(0);
      expect(await site.loggedOnce(CTRL, other)).toContain("unknown-router");
    });

    it.each([
      ["an unknown authority's certificate", () => site.untrusted, "another-router"],
      ["an identity's certificate", () => site.known, "another-router"],
      ["an identity's certificate for a router that exists", () => site.known, () => site.linkedRouterId],
    ])("on the link listener: %s", async (_, certificate, claimed) => {
      const peer = await site.connect(LINK, certificate());
      const id = typeof claimed === "string" ? claimed : claimed();
      const headers = new Headers().setString(LinkHello.RouterId, id).setString(LinkHello.RouterVersion, "v1.6.20");
      peer.write(helloOf("linkid", headers));
      expect((await peer.closed).length).toBe(0);
      await site.loggedOnce(LINK, peer);
    });

    it("on the edge: no token, and a token that was never issued", async () => {
      const peer = await site.connect(EDGE);
      peer.write(helloOf("someone"));
      await peer.closed;
      expect(await site.loggedOnce(EDGE, peer)).toContain("SDK not admitted");
      const other = await site.connect(EDGE);
      const token = site.keep("a token that was never issued", randomUUID());
      other.write(helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token)));
      await other.closed;
      expect(await site.loggedOnce(EDGE, other)).toContain("SDK not admitted");
    });

    it("on the edge: a good token with another identity's certificate", async () => {
      const { data } = await site.network.management.listAPISessions({ query: { limit: 100 } });
      const token = data.map((session) => session.token).find((candidate) => candidate.length > 0)!;
      const peer = await site.connect(EDGE, site.untrusted);
      peer.write(helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token)));
      await peer.closed;
      expect(await site.loggedOnce(EDGE, peer)).toContain("SDK not admitted");
    });
  });
}
