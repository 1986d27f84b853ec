import { once } from "node:events";
import { text } from "node:stream/consumers";
import { loadRouterConfig } from "@sallyport/router-config";
import type { Context, EdgeConnection } from "@sallyport/sdk";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Router, startRouter } from "../../../router/src/router.ts";
import { exchange, receive } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { type BytesScene, KIB, MIB } from "./scene.ts";

/** How connections end, and that nothing of them is left. */
export function describeEnds(scene: BytesScene, idle: () => EdgeConnection): void {
  describe("ends of connections", () => {
    let client: Context;
    beforeAll(async () => {
      client = await scene.load(scene.service("secret").clientFile);
    });

    it("a dialer that destroys its connection ends the host's", async () => {
      const socket = await scene.dial(client, "secret", "silent");
      const end = await scene.hostEnd("silent");
      const ended = once(end.resume(), "end");
      socket.destroy();
      await ended;
      end.destroy();
      expect(end.errored).toBeNull();
    });

    it("a host that hangs up: its last words arrive, then the end, and writing fails", async () => {
      const socket = await scene.dial(client, "secret", "hang-up");
      expect(await text(socket)).toBe("goodbye");
      await eventually("the other direction is closed", () => !socket.writable);
      socket.on("error", () => {});
      const failure = await new Promise((resolve) => socket.write("are you there?", resolve));
      expect(failure).toBeInstanceOf(Error);
    });

    it("what was written before end() arrives whole, however quickly the connection is closed after it", async () => {
      for (let i = 0; i < 20; i++) {
        const socket = await scene.dial(client, "secret", "silent");
        const end = await scene.hostEnd("silent");
        const received = receive(end);
        socket.write(Buffer.alloc(300 * KIB, i));
        socket.destroySoon();
        expect((await received).length).toBe(300 * KIB);
        end.destroy();
      }
    });

    it("server.close() takes the service back at once; connections that exist go on", async () => {
      const { server, context } = await scene.host("unhosted");
      const dialing = await scene.load(scene.service("unhosted").clientFile);
      const socket = await scene.dial(dialing, "unhosted", "echo");
      const { id } = scene.service("unhosted");
      const terminators = async () =>
        (await scene.network.management.listServiceTerminators({ params: { id } })).data.length;
      expect(await terminators()).toBe(1);
      await server.close();
      expect(server.listening).toBe(false);
      await eventually("the controller has no terminator", async () => (await terminators()) === 0);
      await expect(dialing.dial("unhosted")).rejects.toMatchObject({ code: "DIAL_REFUSED" });
      await exchange(socket, 4, 4 * MIB);

      const again = await context.listen("unhosted", { allowHalfOpen: true });
      again.on("connection", (connection) => void connection.on("error", () => {}).pipe(connection));
      await exchange(await scene.dial(dialing, "unhosted", "echo"), 5, MIB);
      await again.close();
    });
  });

  describe("what routers and controller remember of circuits", () => {
    let router: Router;
    afterAll(async () => await router?.close());

    it("is nothing when they have ended, by either end and in any way", async () => {
      const file = await scene.network.enrollRouter("r3");
      const { config } = await loadRouterConfig(file);
      router = await startRouter({
        config,
        configFile: file,
        baseDir: scene.folder,
        log: silentLogger,
        version: "0.0.0",
      });
      await router.online;
      const { data } = await scene.network.management.listEdgeRouterPolicies({
        query: { filter: 'name = "churn-client"' },
      });
      await scene.network.management.patchEdgeRouterPolicy({
        params: { id: data[0]!.id },
        body: { edgeRouterRoles: ["#r3"] },
      });
      await eventually("the new router is linked", () => router.links.links().length >= 2);
      await scene.host("churn");
      const client = await scene.load(scene.service("churn").clientFile);
      await eventually("a dial through the new router", async () => {
        await exchange(await scene.dial(client, "churn", "echo"), 0, KIB);
        return true;
      });
      for (let round = 0; round < 10; round++) {
        await Promise.all(
          Array.from({ length: 20 }, async (_, i) => {
            const behaviour = (["echo", "drain", "hang-up"] as const)[i % 3]!;
            const socket = await scene.dial(client, "churn", behaviour);
            if (behaviour === "echo") await exchange(socket, i, 20 * KIB);
            else if (behaviour === "hang-up") await text(socket);
            socket.destroy();
          }),
        );
      }
      await eventually("no circuit is left in the router", () => router.forwarder.circuitIds().length === 0, 30_000);
      // Every circuit of this file is gone but the one that idles on purpose.
      await eventually("nor in the controller", () => String(scene.openCircuits()) === idle().circuitId, 30_000);
      await eventually("no host holds an end", () => ![...scene.hosted.values()].includes("drain"));
    }, 60_000);
  });
}
