import { join } from "node:path";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { cut, type Disturbance, exchangeUnder } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { declareService } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;

describe.each([{ host: "127.0.0.1" }, { host: "::1" }])("circuits in a triangle of routers over $host", ({ host }) => {
  const folder = makeScratch("reroute");
  const contexts: Context[] = [];
  let mesh: Mesh;
  let client: Context;

  const dial = async (): Promise<EdgeConnection> =>
    await client.dial("echo", { allowHalfOpen: true, timeoutMs: 20_000 });

  beforeAll(async () => {
    mesh = await startMesh(join(folder, "mesh"), {
      host,
      // The ways run in the process of this test: a shorter time is up when that is kept waiting.
      linkTimeout: "3s",
      pairs: [
        ["r1", "r2"],
        ["r1", "r3"],
        ["r3", "r2"],
      ],
    });
    const service = await declareService(mesh.network, { name: "echo" });
    const server = await Context.load(service.hostFile);
    client = await Context.load(service.clientFile);
    contexts.push(server, client);
    const listener = await server.listen("echo", { allowHalfOpen: true });
    listener.on("error", () => {});
    listener.on("connection", (connection) => {
      connection.on("error", () => {});
      connection.pipe(connection);
    });
    await eventually("a first echo", async () => {
      await exchange(await dial(), 1, 1000);
      return true;
    });
  });

  afterAll(async () => {
    await Promise.all(contexts.map((context) => context.close()));
    await mesh?.stop();
    removeScratch(folder);
  });

  it("lose nothing, double nothing and keep the order while one way after the other is cut", async () => {
    const direct = ["r1", "r2"] as const;
    const first = ["r1", "r3"] as const;
    const second = ["r3", "r2"] as const;
    const cuts: Disturbance[] = [
      cut(mesh, direct, "reset"),
      cut(mesh, first, "reset"),
      cut(mesh, direct, "swallow"),
      cut(mesh, second, "swallow"),
      cut(mesh, direct, "reset"),
      cut(mesh, second, "reset"),
      cut(mesh, direct, "swallow"),
      cut(mesh, first, "swallow"),
    ];
    // What is below TLS makes no difference to the later ones.
    if (host === "::1") await exchangeUnder(await dial(), 5, 16 * MIB, cuts.slice(0, 3));
    else await exchangeUnder(await dial(), 5, 256 * MIB, cuts);
  });

  it("end when a link breaks and there is no other path; new ones work as soon as there is one", async () => {
    const [open, ended] = [await dial(), Promise.withResolvers<void>()];
    open.on("error", () => {});
    open.once("close", () => ended.resolve());
    open.once("end", () => open.destroy());
    open.resume();
    const before = await mesh.linked("r1", "r3");
    mesh.way("r1", "r3").reset();
    await mesh.unlinked("r1", "r3", before);
    open.write("still there");
    await new Promise((resolve) => open.once("data", resolve));
    const last = await mesh.linked("r1", "r2");
    mesh.way("r1", "r2").reset();
    await mesh.unlinked("r1", "r2", last);
    await ended.promise;
    mesh.way("r1", "r2").heal();
    await mesh.linked("r1", "r2", last);
    await eventually("an echo again", async () => {
      await exchange(await dial(), 3, 1000);
      return true;
    });
    mesh.way("r1", "r3").heal();
    expect(await mesh.linked("r1", "r3", before)).toBeGreaterThan(before);
  });
});
