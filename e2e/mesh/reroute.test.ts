import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { cut, type Disturbance, exchangeUnder, silenceOne } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import type { Mesh } from "../network/mesh.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { type EchoTriangle, startEchoTriangle } from "../network/triangle.ts";

const MIB = 1024 * 1024;

describe.each([{ host: "127.0.0.1" }, { host: "::1" }])("circuits in a triangle of routers over $host", ({ host }) => {
  const folder = makeScratch("reroute");
  let triangle: EchoTriangle;
  let mesh: Mesh;

  beforeAll(async () => {
    // The ways run in the process of this test: a shorter time is up when that is kept waiting.
    triangle = await startEchoTriangle(join(folder, "mesh"), { host, linkTimeout: "5s" });
    mesh = triangle.mesh;
  });

  afterAll(async () => {
    await triangle?.stop();
    removeScratch(folder);
  });

  it("lose nothing, double nothing and keep the order while one way after the other is cut", async () => {
    const direct = ["r1", "r2"] as const;
    const first = ["r1", "r3"] as const;
    const second = ["r3", "r2"] as const;
    const cuts: Disturbance[] = [
      cut(mesh, direct, "reset"),
      cut(mesh, first, "garble"),
      cut(mesh, direct, "swallow"),
      cut(mesh, second, "swallow"),
      cut(mesh, direct, "garble"),
      cut(mesh, second, "reset"),
      cut(mesh, direct, "swallow"),
      cut(mesh, first, "swallow"),
    ];
    // What is below TLS makes no difference to the later ones.
    if (host === "::1") await exchangeUnder(await triangle.dial(), 5, 16 * MIB, cuts.slice(0, 3));
    else await exchangeUnder(await triangle.dial(), 5, 256 * MIB, cuts);
  });

  it("stay where they are, whole, while one connection of their link after the other falls silent", async () => {
    // The link has four: each of those that it began with, and one that replaced another.
    const all = Array.from({ length: 5 }, () => silenceOne(mesh, ["r1", "r2"]));
    await exchangeUnder(await triangle.dial(), 6, 32 * MIB, host === "::1" ? all.slice(0, 2) : all);
  });

  it("end when a link breaks and there is no other path; new ones work as soon as there is one", async () => {
    const [open, ended] = [await triangle.dial(), Promise.withResolvers<void>()];
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
      await exchange(await triangle.dial(), 3, 1000);
      return true;
    });
    mesh.way("r1", "r3").heal();
    expect(await mesh.linked("r1", "r3", before)).toBeGreaterThan(before);
  });
});
