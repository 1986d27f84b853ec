/** Operators that are killed at random points of their work, on a real API server and a real controller: nothing is made twice, nothing forgotten. */
import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { eventually } from "../../network/eventually.ts";
import { Random } from "../../soak/random.ts";
import { hasCluster } from "../tools.ts";
import { type Found, PATIENCE_MS, readyOf, Scene } from "./scene.ts";

/** Where the entities of a kind are, and how many resources of it are declared. */
const DECLARED = {
  ServiceConfig: { path: "configs", count: 10 },
  OverlayService: { path: "services", count: 20 },
  Identity: { path: "identities", count: 15 },
  ServicePolicy: { path: "service-policies", count: 5 },
  EdgeRouterPolicy: { path: "edge-router-policies", count: 3 },
} as const;
type Kind = keyof typeof DECLARED;
const KINDS = Object.keys(DECLARED) as Kind[];
const ROUTERS = 2;

describe.skipIf(!hasCluster)("operators that are killed at random", () => {
  const seed = Number(process.env.SALLYPORT_SEED ?? randomInt(2 ** 31));
  const random = new Random(seed);
  let scene: Scene;
  let controller: TestController;

  beforeAll(async () => {
    console.info(`SALLYPORT_SEED=${seed}`);
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
  });
  afterEach(async () => await scene?.stopAll());
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
  });

  const nameOf = (namespace: string, kind: Kind, i: number): string => `${namespace}-${kind.toLowerCase()}-${i}`;
  async function place(namespace: string): Promise<void> {
    const { port, pki } = controller;
    await scene.place(namespace, { port, ca: pki.caBundlePem, password: "admin" });
  }
  async function declareAll(namespace: string): Promise<void> {
    const of = async (kind: Kind) => {
      for (let i = 0; i < DECLARED[kind].count; i++) {
        const configRefs = [{ name: nameOf(namespace, "ServiceConfig", i % DECLARED.ServiceConfig.count) }];
        await scene.declare(
          namespace,
          kind,
          nameOf(namespace, kind, i),
          kind === "OverlayService" ? { configRefs } : {},
        );
      }
    };
    const exposure = { type: "LoadBalancer", hostname: "r{ordinal}.localhost" };
    const router = scene.declare(namespace, "EdgeRouter", `${namespace}-router`, { replicas: ROUTERS, exposure });
    await Promise.all([...KINDS.map(of), router]);
  }
  const named = async (namespace: string, path: string): Promise<{ id: string; name: string }[]> => {
    const filter = encodeURIComponent(`name contains "${namespace}-" limit 500`);
    return (await controller.admin("GET", `/${path}?filter=${filter}`)).json.data;
  };
  async function count(namespace: string, fits: (found: Found) => boolean): Promise<number> {
    const lists = await Promise.all(KINDS.map((kind) => scene.all(namespace, kind)));
    return lists.flat().filter(fits).length;
  }
  const TOTAL = KINDS.reduce((sum, kind) => sum + DECLARED[kind].count, 0);
  const isReady = (found: Found): boolean => readyOf(found)?.status === "True";

  /** One entity for each resource and router, and each resource knows its own. */
  async function expectOneOfEach(namespace: string): Promise<void> {
    let waiting: unknown[] = [];
    await eventually(
      "everything is ready",
      async () => {
        const lists = await Promise.all([...KINDS, "Network"].map((kind) => scene.all(namespace, kind)));
        waiting = lists.flat().filter((found) => !isReady(found));
        return waiting.length === 0 && lists.flat().length === TOTAL + 1;
      },
      PATIENCE_MS,
    ).catch((error: Error) => {
      throw new Error(`${error.message}\n${JSON.stringify(waiting.slice(0, 3), undefined, 1)}`);
    });
    for (const kind of KINDS) {
      const entities = await named(namespace, DECLARED[kind].path);
      const ids = Object.fromEntries(entities.map(({ name, id }) => [name, id]));
      expect(entities, kind).toHaveLength(DECLARED[kind].count);
      for (const { metadata, status } of await scene.all(namespace, kind)) {
        expect(status.id, metadata.name).toBe(ids[metadata.name]);
      }
    }
    await scene.until(namespace, "EdgeRouter", `${namespace}-router`, ({ status }) => {
      const routers = (status.routers ?? []) as { id?: string }[];
      return routers.length === ROUTERS && routers.every(({ id }) => id !== undefined);
    });
    const routers = await named(namespace, "edge-routers");
    const { status } = (await scene.read(namespace, "EdgeRouter", `${namespace}-router`)) as Found;
    expect((status.routers as { id: string }[]).map(({ id }) => id).toSorted()).toEqual(
      routers.map(({ id }) => id).toSorted(),
    );
  }
  async function deleteAll(namespace: string): Promise<void> {
    for (const kind of [...KINDS, "EdgeRouter"]) {
      for (const { metadata } of await scene.all(namespace, kind)) await scene.delete(namespace, kind, metadata.name);
    }
  }
  async function expectNothingLeft(namespace: string): Promise<void> {
    const left = async () => (await count(namespace, () => true)) + (await scene.all(namespace, "EdgeRouter")).length;
    await eventually("every resource is gone", async () => (await left()) === 0, PATIENCE_MS);
    for (const path of [...KINDS.map((kind) => DECLARED[kind].path), "edge-routers"]) {
      expect(await named(namespace, path), path).toEqual([]);
    }
  }

  test("killed again and again, while things are made and while they go", { timeout: 400_000 }, async () => {
    const namespace = "again";
    await place(namespace);
    const killed = async (times: number): Promise<void> => {
      for (let i = 0; i < times; i++) {
        const { program } = await scene.begin(`operator-${i}`);
        const enough = random.between(0, 8);
        const isDone = () => program.tail.filter((line) => /"msg":"(ready|let go)"/.test(line)).length >= enough;
        // Of what is left there may be less.
        await eventually("it has done something", isDone, 10_000).catch(() => {});
        await delay(random.between(0, 30));
        program.signal("SIGKILL");
        await program.exited;
      }
    };
    await Promise.all([declareAll(namespace), killed(3)]);
    await scene.run("survivor");
    await expectOneOfEach(namespace);
    await scene.stopAll();
    await deleteAll(namespace);
    await killed(2);
    await scene.run("survivor");
    await expectNothingLeft(namespace);
  });
});
