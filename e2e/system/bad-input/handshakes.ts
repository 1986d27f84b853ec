import { describe, expect, it } from "vitest";
import { type HandshakeRefused, RawPeer } from "../../network/raw-peer.ts";
import { helloOf } from "./frames.ts";
import { CTRL, EDGE, type Site } from "./site.ts";

/** Handshakes that fail, and those that take their time. */
export function describeHandshakes(site: Site): void {
  describe("connections that never become one", () => {
    it("an ALPN name that no protocol has", async () => {
      for (const target of [CTRL, EDGE]) {
        const failed = await RawPeer.connect(target.port(site), { ...site.known, alpn: "no-such-protocol" }).then(
          () => expect.fail("the handshake was done"),
          (error: HandshakeRefused) => error,
        );
        expect(await site.loggedOnce(target, failed)).toContain("TLS handshake failed");
      }
    });

    it("no TLS at all", async () => {
      for (const target of [CTRL, EDGE]) {
        const peer = await RawPeer.connect(target.port(site), { isPlain: true });
        peer.write("GET / HTTP/1.0\r\n\r\n");
        await peer.closed;
        expect(await site.loggedOnce(target, peer)).toContain("TLS handshake failed");
      }
    });

    it("those that take their time: no handshake, no hello, a hello by the drop, a request by the drop", async () => {
      const slow = async (peer: RawPeer, bytes?: Buffer): Promise<RawPeer> => {
        let at = 0;
        const timer = setInterval(() => {
          if (bytes !== undefined && at < bytes.length && peer.socket.writable) peer.write(bytes.subarray(at, ++at));
        }, 500);
        await peer.closed;
        clearInterval(timer);
        return peer;
      };
      const hello = helloOf("a-slow-client");
      const channels = [CTRL, EDGE].flatMap((target) => [
        (async () => ({ target, peer: await slow(await RawPeer.connect(target.port(site), { isPlain: true })) }))(),
        (async () => ({ target, peer: await slow(await site.connect(target)) }))(),
        (async () => ({ target, peer: await slow(await site.connect(target), hello) }))(),
      ]);
      const requests = [
        slow(await RawPeer.connect(site.network.port, {}), Buffer.from("GET /version HTTP/1.1\r\nHost: a\r\n\r\n")),
      ];
      for (const { target, peer } of await Promise.all(channels)) {
        expect(peer.received.length).toBe(0);
        await site.loggedOnce(target, peer);
      }
      for (const peer of await Promise.all(requests)) await site.loggedOnce(CTRL, peer);
    }, 40_000);
  });
}
