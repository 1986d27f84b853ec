import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { type Disturbance, exchangeUnder } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import type { Mesh, Pair } from "../network/mesh.ts";
import { declareService } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { type EchoTriangle, startEchoTriangle } from "../network/triangle.ts";
import { hasNamespaces, Site } from "./network-namespace.ts";

const MIB = 1024 * 1024;

describe.skipIf(!hasNamespaces)("links whose packets are dropped by a packet filter", () => {
  const folder = makeScratch("mesh-packets");
  const site = new Site();
  const contexts: Context[] = [];
  let triangle: EchoTriangle;
  let mesh: Mesh;

  beforeAll(async () => {
    triangle = await startEchoTriangle(join(folder, "mesh"), { linkTimeout: "5s" });
    mesh = triangle.mesh;
  }, 300_000);

  afterAll(async () => {
    await Promise.all(contexts.map((context) => context.close()));
    await triangle?.stop();
    await site.close();
    removeScratch(folder);
  });

  it("and a client's router that vanishes without a word: the client dials over another, and what ran there ends", {
    timeout: 600_000,
  }, async () => {
    const service = await declareService(mesh.network, { name: "roaming", clientRouters: ["r1", "r3"] });
    const [host, roaming] = [await Context.load(service.hostFile), await Context.load(service.clientFile)];
    contexts.push(host, roaming);
    await hostEcho(host, "roaming");
    const echo = async () => {
      await exchange(await roaming.dial("roaming", { allowHalfOpen: true, timeoutMs: 5_000 }), 2, 1000);
      return true;
    };
    await eventually("a first echo", echo, 60_000);
    const open = await roaming.dial("roaming", { allowHalfOpen: true });
    const broken = new Promise<void>((resolve) => open.once("close", resolve));
    open.on("error", () => {});
    open.resume();
    open.write("x");
    const circuits = await mesh.fabric.listCircuits({ query: { limit: 100 } });
    const at = circuits.data.find(({ id }) => id === open.circuitId)?.path.nodes[0]?.name ?? "";
    const routers = await mesh.network.management.listEdgeRouters({ query: { filter: `name = "${at}"` } });
    const address = Object.values(routers.data[0]?.supportedProtocols ?? {})[0] ?? "";
    // Neither end is told: both have half a connection.
    const loss = await site.here().lose({ protocol: "tcp", port: Number(address.split(":").at(-1)) });
    await eventually(`an echo without ${at}`, echo, 120_000);
    await broken;
    await loss.end();
    await eventually(
      "the router has let go of it, too",
      async () =>
        !(await mesh.fabric.listCircuits({ query: { limit: 100 } })).data.some((c) => c.id === open.circuitId),
      180_000,
    );
  });

  /** Every packet of a pair's way is dropped until the link is given up. */
  const drop =
    ([one, other]: Pair): Disturbance =>
    async () => {
      const before = await mesh.linked(one, other);
      const loss = await site.here().lose({ protocol: "tcp", port: mesh.way(one, other).port });
      await mesh.unlinked(one, other, before);
      await loss.end();
      await mesh.linked(one, other, before);
    };

  it("carry their circuits on over what is left, and come back", { timeout: 600_000 }, async () => {
    const shortly: Disturbance = async () => {
      const before = await mesh.linked("r1", "r2");
      const loss = await site.here().lose({ protocol: "tcp", port: mesh.way("r1", "r2").port });
      await delay(500);
      await loss.end();
      // TCP repairs what is short: the link is the one it was.
      expect(await mesh.linked("r1", "r2")).toBe(before);
    };
    await exchangeUnder(await triangle.dial(), 4, 64 * MIB, [
      drop(["r1", "r2"]),
      drop(["r1", "r3"]),
      shortly,
      drop(["r1", "r2"]),
      drop(["r3", "r2"]),
    ]);
  });
});
