import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { EndToEnd, KEY_BYTES, loadSodium, type Sodium } from "@sallyport/sdk";
import type { OverlayHandler } from "@sallyport/tunnel";
import { PeerData, Xgress, xgressDefaults } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { CircuitConnection } from "./circuit-connection.ts";
import { edgeTransport } from "./egress.ts";

const MIB = 1024 * 1024;

let network: TestNetwork;
let a: TestRouter;
let sodium: Sodium;
let server: Server;

beforeEach(async () => {
  sodium = await loadSodium();
  network = await TestNetwork.create();
  a = await network.addRouter("rA");
  const b = await network.addRouter("rB");
  await network.link(a, b);
  const options = { xgress: xgressDefaults, connectTimeoutMs: 0, mtu: 0, identity: () => b.identity };
  b.forwarder.registerEgress("edge_transport", await edgeTransport(b.forwarder, options));
  server = createServer({ allowHalfOpen: true }, (socket) => void socket.on("error", () => {}).pipe(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  network.addTerminator({
    service: "svc",
    routerId: "rB",
    binding: "edge_transport",
    address: `tcp:127.0.0.1:${port}`,
  });
});

afterEach(async () => {
  server.close();
  await network.close();
});

/** A dialling end at rA. */
async function dial(publicKey?: Buffer) {
  const peerData = new Map(publicKey === undefined ? [] : [[PeerData.PublicKey, publicKey] as const]);
  const sessionToken = network.session("svc", "Dial");
  return await network.createCircuit("rA", {
    sessionToken,
    apiSessionToken: "",
    fingerprints: [],
    timeoutMs: 30_000,
    peerData,
  });
}

it.each([true, false])(
  "bytes both ways and half close; encrypted when the dialling end has a key (%s)",
  async (isEncrypted) => {
    const own = isEncrypted ? sodium.createKeyPair() : undefined;
    const { circuitId, address, peerData } = await dial(own?.publicKey);
    const peerKey = peerData.get(PeerData.PublicKey);
    expect(peerKey?.length).toBe(isEncrypted ? KEY_BYTES : undefined);
    expect(peerData.get(PeerData.TerminatorRemoteAddress)?.toString()).toContain("127.0.0.1:");
    const endToEnd =
      own && peerKey ? new EndToEnd({ sodium, keys: sodium.sessionKeys("client", own, peerKey) }) : undefined;
    const connection = new CircuitConnection({
      ...{ circuitId, kind: "stream", endToEnd, mtu: 0, hopType: "test", onEnd: () => {} },
    });
    const { port } = connection;
    const xgress = new Xgress({
      ...{ fabric: a.forwarder, circuitId, address, side: "initiator", port, options: xgressDefaults },
    });
    xgress.start();
    connection.join(xgress);

    const sent = randomBytes(5 * MIB);
    const received = createHash("sha256");
    const ended = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<Error | undefined>();
    let room = Promise.withResolvers<void>();
    const handler: OverlayHandler = {
      data: (buffer, start, end) => {
        received.update(buffer.subarray(start, end));
        return true;
      },
      endOfData: () => ended.resolve(),
      writable: () => room.resolve(),
      closed: (error) => closed.resolve(error),
    };
    connection.start(handler);
    for (let at = 0; at < sent.length; at += 100_000) {
      room = Promise.withResolvers<void>();
      if (!connection.write(sent, at, Math.min(sent.length, at + 100_000))) await room.promise;
    }
    connection.endWriting();
    await ended.promise;
    expect(received.digest("hex")).toBe(createHash("sha256").update(sent).digest("hex"));
    expect(await closed.promise).toBeUndefined();
    await expect.poll(() => network.faults.length).toBe(2);
  },
);

it("a key that is none fails the dial; nothing is connected to", async () => {
  let connections = 0;
  server.on("connection", () => connections++);
  await expect(dial(Buffer.alloc(5))).rejects.toThrow(`expected a public key of ${KEY_BYTES} bytes`);
  expect(connections).toBe(0);
});
