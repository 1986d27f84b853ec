/** Deletion on a real API server with its garbage collector: in every order, and with either way of cascading. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { KINDS as KUBE, type KubeObject, type ResourceKind } from "../../../operator/src/kube/kinds.ts";
import { CHILD_KINDS } from "../../../operator/src/render/edge-router/names.ts";
import type { RouterStatus } from "../../../operator/src/resources/edge-router.ts";
import { eventually } from "../../network/eventually.ts";
import { ENTITY_PATHS } from "../../operator/entity-paths.ts";
import { oneOfEach } from "../../operator/one-of-each.ts";
import { Random } from "../../soak/random.ts";
import { hasCluster } from "../tools.ts";
import { type Found, PATIENCE_MS, Scene } from "./scene.ts";

const KINDS = Object.keys(ENTITY_PATHS);
const SEED = Number(process.env.SALLYPORT_SEED ?? Date.now() % 2 ** 31);

describe.skipIf(!hasCluster)(`deletion, seed ${SEED}`, { timeout: 240_000 }, () => {
  const random = new Random(SEED);
  let scene: Scene;
  let controller: TestController;

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
    await scene.run();
  });
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
  });

  async function place(namespace: string): Promise<void> {
    await scene.place(namespace, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
    await scene.ready(namespace, "Network", "main");
  }
  /** One of each kind, all of which hang together; names are the network's, so they begin with the namespace. */
  async function declareAll(namespace: string): Promise<void> {
    const exposure = { type: "LoadBalancer", hostname: "localhost" };
    for (const { kind, metadata, spec } of oneOfEach(namespace, { exposure }))
      await scene.declare(namespace, kind, metadata.name, spec);
    const name = (kind: string) => `${namespace}-${kind.toLowerCase()}`;
    await Promise.all(
      KINDS.map(async (kind) => {
        if (kind !== "EdgeRouter") return await scene.ready(namespace, kind, name(kind));
        const isMade = ({ status }: Found) => ((status.routers ?? []) as RouterStatus[])[0]?.id !== undefined;
        return await scene.until(namespace, kind, name(kind), isMade);
      }),
    );
  }
  const entities = async (namespace: string): Promise<string[]> => {
    const filter = encodeURIComponent(`name contains "${namespace}-" limit 500`);
    const lists = await Promise.all(
      KINDS.map(
        async (kind) =>
          (await controller.admin("GET", `/${ENTITY_PATHS[kind]}?filter=${filter}`)).json.data as { name: string }[],
      ),
    );
    return lists.flat().map(({ name }) => name);
  };
  const children = async (namespace: string): Promise<string[]> => {
    const kinds: ResourceKind[] = [
      ...CHILD_KINDS.filter(({ group }) => !group.includes("coreos")),
      KUBE.Secret,
      KUBE.Pod,
    ];
    const lists = await Promise.all(
      kinds.map(async (kind) =>
        (
          await scene.client.list<KubeObject>(kind, namespace, {
            labelSelector: "app.kubernetes.io/managed-by=sallyport",
          })
        ).items.map(({ metadata }) => `${kind.kind}/${metadata.name}`),
      ),
    );
    return lists.flat();
  };
  /** A router has its id before its parts are made. */
  const made = async (namespace: string, parts: readonly string[]): Promise<void> => {
    const areMade = async () => {
      const found = await children(namespace);
      return parts.every((part) => found.includes(part));
    };
    await eventually(`${parts.join(", ")} in ${namespace}`, areMade, PATIENCE_MS);
  };
  const nothingLeft = async (namespace: string): Promise<void> => {
    for (const kind of KINDS) {
      await eventually(
        `every ${kind} is gone`,
        async () => (await scene.all(namespace, kind)).length === 0,
        PATIENCE_MS,
      );
    }
    expect(await entities(namespace)).toEqual([]);
    // What has an owner goes by the garbage collector.
    await eventually("the children are collected", async () => (await children(namespace)).length === 0, PATIENCE_MS);
  };

  test("of resources that hang together, one after the other in random orders, and all at once with their Network", async () => {
    await place("orders");
    for (const round of [1, 2]) {
      await declareAll("orders");
      await made("orders", ["StatefulSet/orders-edgerouter-0"]);
      const order = KINDS.map((kind) => ({ kind, at: random.next() })).toSorted((a, b) => a.at - b.at);
      for (const { kind } of order) await scene.delete("orders", kind, `orders-${kind.toLowerCase()}`);
      if (round === 2) await scene.delete("orders", "Network", "main");
      await nothingLeft("orders");
    }
    await scene.gone("orders", "Network", "main");
  });

  test("in the foreground and with orphaned children, as users of kubectl may ask", async () => {
    await place("cascade");
    const exposure = { type: "LoadBalancer", hostname: "localhost" };
    const isMade = ({ status }: Found) => ((status.routers ?? []) as RouterStatus[])[0]?.id !== undefined;
    await scene.declare("cascade", "EdgeRouter", "cascade-fore", { exposure });
    await scene.until("cascade", "EdgeRouter", "cascade-fore", isMade);
    const args = ["delete", "edgerouter", "--namespace", "cascade", "--timeout=90s"];
    await scene.cluster.kubectl([...args, "cascade-fore", "--cascade=foreground"]);
    expect(await entities("cascade")).toEqual([]);
    await eventually("the children are gone", async () => (await children("cascade")).length === 0, PATIENCE_MS);
    await scene.declare("cascade", "EdgeRouter", "cascade-orphan", { exposure });
    const parts = ["StatefulSet/cascade-orphan-0", "Pod/cascade-orphan-0-0", "ConfigMap/cascade-orphan-0-config"];
    await made("cascade", parts);
    await scene.cluster.kubectl([...args, "cascade-orphan", "--cascade=orphan"]);
    expect(await entities("cascade")).toEqual([]);
    expect(await children("cascade")).toEqual(expect.arrayContaining(parts));
  });
});
