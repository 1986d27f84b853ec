import { once } from "node:events";
import { join } from "node:path";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { cut, type Disturbance, exchangeUnder } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { declareService } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { TRIANGLE } from "../network/triangle.ts";

const MIB = 1024 * 1024;
/** The promise is five seconds on a machine that does nothing else. */
const KILLED_MS = 50_000;
const folder = makeScratch("mesh-outages");
const contexts: Context[] = [];
let mesh: Mesh;

async function load(file: string): Promise<Context> {
  const context = await Context.load(file, { refreshIntervalMs: 500 });
  contexts.push(context);
  return context;
}

const dial = (context: Context, name: string, timeoutMs = 20_000): Promise<EdgeConnection> =>
  context.dial(name, { allowHalfOpen: true, timeoutMs });

/** Milliseconds until a dial brings an echo. */
async function untilEcho(context: Context, name: string, since = performance.now()): Promise<number> {
  await eventually(
    `an echo of ${name}`,
    async () => {
      await exchange(await dial(context, name, 2_000), 1, 1000);
      return true;
    },
    120_000,
  );
  return performance.now() - since;
}

async function allLinked(): Promise<void> {
  for (const [one, other] of TRIANGLE) await mesh.linked(one, other);
}

beforeAll(async () => {
  mesh = await startMesh(join(folder, "mesh"), { linkTimeout: "5s", withControlWay: true, pairs: TRIANGLE });
});
afterAll(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  await mesh?.stop();
  removeScratch(folder);
});

describe("a controller that goes away and comes back", () => {
  let client: Context;

  beforeAll(async () => {
    const service = await declareService(mesh.network, { name: "steady" });
    await hostEcho(await load(service.hostFile), "steady");
    client = await load(service.clientFile);
    await untilEcho(client, "steady");
  });

  const partition = async (during: () => Promise<void>): Promise<void> => {
    mesh.controlWay?.reset();
    await during();
    mesh.controlWay?.heal();
    await eventually("all routers are back", async () => {
      const { data } = await mesh.network.management.listEdgeRouters();
      return data.every((router) => router.isOnline);
    });
  };

  it("is missed by no circuit, also not when a way breaks meanwhile: it moves when the controller is back", async () => {
    const direct = ["r1", "r2"] as const;
    const restart: Disturbance = () => mesh.network.restartController("SIGKILL");
    const breaks: Disturbance = async () => {
      const before = await mesh.linked(...direct);
      await partition(async () => {
        mesh.way(...direct).reset();
        await new Promise((resolve) => setTimeout(resolve, 300));
      });
      await mesh.unlinked(...direct, before);
      mesh.way(...direct).heal();
      await mesh.linked(...direct, before);
    };
    // Only a controller that knows the circuit again can move it after its restart.
    await exchangeUnder(await dial(client, "steady"), 3, 48 * MIB, [
      ...[breaks, cut(mesh, direct, "reset"), restart],
      ...[cut(mesh, direct, "reset"), cut(mesh, ["r1", "r3"], "reset")],
    ]);
  });

  it("a dial waits for it as long as it may, and is served when it is back", async () => {
    const { network } = mesh;
    await untilEcho(client, "steady");
    await network.stopProgram("controller", "SIGKILL");
    const patient = dial(client, "steady", 60_000);
    patient.catch(() => {});
    const started = performance.now();
    const refusal = await dial(client, "steady", 1_500).then(
      () => undefined,
      (error: Error & { code?: string }) => error,
    );
    const waited = performance.now() - started;
    await network.startController();
    expect(refusal?.message).toMatch(/controller/);
    expect(waited).toBeGreaterThan(1_400);
    // Whichever router is back first: the controller waits for the others and their links.
    await exchange(await patient, 4, 1000);
    await untilEcho(client, "steady");
  });
});

describe("a router that is gone in a moment", () => {
  it("while the client uses it: the client dials over another router within seconds", async () => {
    const service = await declareService(mesh.network, { name: "roaming", clientRouters: ["r1", "r3"] });
    await hostEcho(await load(service.hostFile), "roaming");
    const client = await load(service.clientFile);
    await untilEcho(client, "roaming");
    for (const name of ["r1", "r3"]) {
      const since = performance.now();
      await mesh.network.stopProgram(name, "SIGKILL");
      const took = await untilEcho(client, "roaming", since);
      console.info(`${name} killed: an echo over another router after ${Math.round(took)} ms`);
      expect(took).toBeLessThan(KILLED_MS);
      await mesh.network.startRouter(name);
      await untilEcho(client, "roaming");
      await allLinked();
    }
  });

  it("while the host uses it: dials reach the host over another router within seconds", async () => {
    const service = await declareService(mesh.network, { name: "hosted", hostRouters: ["r2", "r3"] });
    const host = await load(service.hostFile);
    await hostEcho(host, "hosted");
    const client = await load(service.clientFile);
    await untilEcho(client, "hosted");
    const { data } = await mesh.network.management.listServiceTerminators({ params: { id: service.id } });
    const at = data[0]?.router.name ?? "";
    const since = performance.now();
    await mesh.network.stopProgram(at, "SIGKILL");
    const took = await untilEcho(client, "hosted", since);
    console.info(`${at} killed, where the service was hosted: an echo after ${Math.round(took)} ms`);
    expect(took).toBeLessThan(KILLED_MS);
    await mesh.network.startRouter(at);
  });

  it("and was on the way: its circuits go on over what is left", async () => {
    const service = await declareService(mesh.network, { name: "through" });
    await hostEcho(await load(service.hostFile), "through");
    const client = await load(service.clientFile);
    await untilEcho(client, "through");
    await allLinked();
    const detour: Disturbance = async () => {
      const before = await mesh.linked("r1", "r2");
      mesh.way("r1", "r2").reset();
      await mesh.unlinked("r1", "r2", before);
    };
    const kill: Disturbance = async () => {
      mesh.way("r1", "r2").heal();
      await mesh.linked("r1", "r2");
      await mesh.network.restartRouter("r3", "SIGKILL");
    };
    await exchangeUnder(await dial(client, "through"), 6, 32 * MIB, [detour, kill]);
  });
});

describe("a router that says nothing more, though its connections stand", () => {
  // docs/router.md, "When something goes away": 20 s until an SDK knows, 5 s for a new circuit.
  it("is left by its clients and its circuits when its time is over", async () => {
    const service = await declareService(mesh.network, { name: "silent", clientRouters: ["r1", "r3"] });
    await hostEcho(await load(service.hostFile), "silent");
    const client = await load(service.clientFile);
    const socket = await dial(client, "silent");
    socket.on("error", () => {});
    socket.write("x");
    await once(socket, "data");
    const { data } = await mesh.fabric.listCircuits({ query: { limit: 100 } });
    const first = data.find(({ id }) => id === socket.circuitId)?.path.nodes[0]?.name ?? "";
    const since = performance.now();
    mesh.network.program(first).signal("SIGSTOP");
    try {
      const took = await untilEcho(client, "silent", since);
      console.info(`${first} silent: an echo over another router after ${Math.round(took)} ms`);
      expect(took).toBeLessThan(25_000);
    } finally {
      mesh.network.program(first).signal("SIGCONT");
      socket.destroy();
    }
  });
});
