import { once } from "node:events";
import { createServer, request } from "node:http";
import { text } from "node:stream/consumers";
import type { Context } from "@sallyport/sdk";
import { beforeAll, describe, expect, it } from "vitest";
import { exchange, receive, sendPseudoRandom } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { type BytesScene, KIB, MIB } from "./scene.ts";

/** Bytes in both directions, plain and through `node:http`, and a reader that stops. */
export function describeStreams(scene: BytesScene): void {
  describe.each([
    { name: "secret", words: "encrypted end to end" },
    { name: "plain", words: "without end-to-end encryption" },
  ])("bytes over both routers, $words", ({ name }) => {
    let client: Context;
    beforeAll(async () => {
      client = await scene.load(scene.service(name).clientFile);
    });

    it("32 MiB there and back at once; the dialer ends first", async () => {
      const socket = await scene.dial(client, name, "echo");
      expect(socket.isEncrypted).toBe(name === "secret");
      await exchange(socket, 1, 32 * MIB);
    });

    it("32 MiB from the host, which ends first, then 32 MiB from the dialer", async () => {
      const socket = await scene.dial(client, name, "host-first");
      const end = await scene.hostEnd("host-first");
      expect((await receive(socket)).length).toBe(32 * MIB);
      expect(socket.writable).toBe(true);
      const [sent, received] = await Promise.all([sendPseudoRandom(socket, 2, 32 * MIB), receive(end)]);
      expect(received).toEqual({ length: 32 * MIB, sha256: sent });
      await Promise.all([socket, end].map((each) => each.destroyed || once(each, "close")));
    });

    it("50 circuits at once", async () => {
      await Promise.all(
        Array.from({ length: 50 }, async (_, i) => exchange(await scene.dial(client, name, "echo"), i, 256 * KIB + i)),
      );
    });
  });

  describe("node:http over the overlay", () => {
    it("pages and uploads, through an agent that keeps connections", async () => {
      const context = await scene.load(scene.service("web").hostFile);
      const listener = await context.listen("web", { allowHalfOpen: true });
      let connections = 0;
      const server = createServer(async (incoming, answer) => {
        const body = await text(incoming);
        answer.end(`${incoming.method} ${incoming.url} ${body.length}`);
      });
      listener.on("connection", (connection) => {
        connections++;
        server.emit("connection", connection);
      });
      const client = await scene.load(scene.service("web").clientFile);
      const agent = client.httpAgent({ maxSockets: 4 });
      const fetchText = async (path: string, body?: string): Promise<string> => {
        const call = request(`http://web${path}`, { agent, method: body === undefined ? "GET" : "POST" });
        call.end(body);
        const [response] = await once(call, "response");
        return await text(response);
      };
      for (let i = 0; i < 10; i++) expect(await fetchText(`/${i}`)).toBe(`GET /${i} 0`);
      expect(connections).toBe(1);
      expect(await fetchText("/upload", "x".repeat(MIB))).toBe(`POST /upload ${MIB}`);
      await Promise.all(
        Array.from({ length: 40 }, async (_, i) => expect(await fetchText(`/p${i}`)).toBe(`GET /p${i} 0`)),
      );
      expect(connections).toBeLessThanOrEqual(5);
      const nowhere = request("http://no-such-service/", { agent }).end();
      expect((await once(nowhere, "error"))[0]).toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
      agent.destroy();
      await listener.close();
      server.close();
    });
  });

  describe("a reader that does not read", () => {
    it("stops its own sender, and no other circuit over the same routers and link", async () => {
      await scene.host("slow");
      const stuck = await scene.dial(await scene.load(scene.service("slow").clientFile), "slow", "flood");
      const sender = await scene.hostEnd("flood");
      let written = -1;
      await eventually("the sender waits", () => {
        const isStill = sender.bytesWritten > MIB && sender.bytesWritten === written;
        written = sender.bytesWritten;
        return isStill && sender.writableNeedDrain;
      });
      const [other, plain] = [
        await scene.load(scene.service("secret").clientFile),
        await scene.load(scene.service("plain").clientFile),
      ];
      await exchange(await scene.dial(other, "secret", "echo"), 1, 8 * MIB);
      await exchange(await scene.dial(plain, "plain", "echo"), 2, 8 * MIB);
      // What all queues of the way together hold is far less than what is to be sent.
      expect(sender.bytesWritten).toBeLessThan(48 * MIB);

      expect((await receive(stuck)).length).toBe(64 * MIB);
      stuck.destroy();
    });

    it("which holds little stops not even circuits of its own process", async () => {
      const client = await scene.load(scene.service("plain").clientFile);
      const slow = await scene.dial(client, "plain", "echo");
      slow.write(Buffer.alloc(MIB));
      let waiting = 0;
      await eventually("the echo waits to be read", () => {
        const isStill = slow.readableLength > 0 && slow.readableLength === waiting;
        waiting = slow.readableLength;
        return isStill;
      });
      await exchange(await scene.dial(client, "plain", "echo"), 3, 8 * MIB);
      slow.destroy();
    });
  });
}
