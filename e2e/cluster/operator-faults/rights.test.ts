/** An operator that lacks one right says which, goes on with everything else, and with that as soon as it gets it; on a real API server. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS, type KubeObject, type ObjectRef } from "../../../operator/src/kube/kinds.ts";
import { eventually } from "../../network/eventually.ts";
import { hasCluster } from "../tools.ts";
import { healthy, PATIENCE_MS, type Running, readyOf, Scene } from "./scene.ts";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}
interface Role extends KubeObject {
  readonly rules: readonly Rule[];
}

const CLUSTER_ROLE = {
  group: "rbac.authorization.k8s.io",
  version: "v1",
  plural: "clusterroles",
  kind: "ClusterRole",
  namespaced: false,
};
const LEASES = { ...CLUSTER_ROLE, plural: "roles", kind: "Role", namespaced: true };
const OPERATOR: ObjectRef = { kind: CLUSTER_ROLE, name: "sallyport-operator" };

/** A right without which a resource cannot be brought about, and what is declared: each way of reading and writing once. */
const NEEDED: readonly {
  readonly verbs: readonly string[];
  readonly resource: string;
  readonly kind: string;
  readonly spec?: Readonly<Record<string, unknown>>;
}[] = [
  {
    verbs: ["get"],
    resource: "secrets",
    kind: "ServiceConfig",
    spec: { data: null, dataFrom: { secretRef: { name: "config", key: "config.json" } } },
  },
  { verbs: ["create", "patch", "update"], resource: "secrets", kind: "Identity" },
  { verbs: ["patch"], resource: "overlayservices", kind: "OverlayService" },
  { verbs: ["create", "patch"], resource: "statefulsets", kind: "EdgeRouter" },
  { verbs: ["create", "patch"], resource: "poddisruptionbudgets", kind: "EdgeRouter", spec: { replicas: 2 } },
];
/** Without these a kind is not even seen. */
const WATCHED = ["identities", "pods"];

describe.skipIf(!hasCluster)("an operator that lacks a right", { timeout: 240_000 }, () => {
  const NAMESPACE = "rights";
  let scene: Scene;
  let controller: TestController;
  let rules: readonly Rule[];

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
    const { port, pki } = controller;
    await scene.place(NAMESPACE, { port, ca: pki.caBundlePem, password: "admin" });
    const metadata = { name: "config", namespace: NAMESPACE };
    const stringData = { "config.json": '{"protocol":"tcp","address":"localhost","port":80}' };
    await scene.client.create({ apiVersion: "v1", kind: "Secret", metadata, stringData } as KubeObject);
    rules = (await scene.client.get<Role>(OPERATOR))?.rules ?? [];
  });
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
  });

  /** Takes verbs of a resource away. */
  const without = async (resource: string, verbs: readonly string[]): Promise<void> => {
    const changed = rules.flatMap((rule) => {
      if (!rule.resources.includes(resource)) return [rule];
      const rest = { ...rule, resources: rule.resources.filter((each) => each !== resource) };
      const poorer = { ...rule, resources: [resource], verbs: rule.verbs.filter((verb) => !verbs.includes(verb)) };
      return [...(rest.resources.length > 0 ? [rest] : []), ...(poorer.verbs.length > 0 ? [poorer] : [])];
    });
    expect(changed, `an account has ${verbs} of ${resource}`).not.toEqual(rules);
    await scene.client.patch(OPERATOR, { rules: changed });
    await allowed(resource, verbs[0] ?? "", false);
  };
  const restore = async (): Promise<void> => void (await scene.client.patch(OPERATOR, { rules }));
  const allowed = async (resource: string, verb: string, answer: boolean): Promise<void> => {
    const [group = ""] = rules.find(({ resources }) => resources.includes(resource))?.apiGroups ?? [];
    await scene.allowed(resource === "namespaces" ? undefined : NAMESPACE, { group, resource, verb }, answer);
  };

  describe("to bring a resource about", () => {
    let operator: Running;
    beforeAll(async () => {
      operator = await scene.run();
      await scene.ready(NAMESPACE, "Network", "main");
    });
    afterEach(restore);
    afterAll(async () => await scene.stopAll());

    test.each(NEEDED)("$verbs of $resource, for $kind", async ({ verbs, resource, kind, spec }) => {
      await without(resource, verbs);
      const name = `lacks-${resource}`;
      const routed = { exposure: { type: "LoadBalancer", hostname: "r{ordinal}.localhost" } };
      await scene.declare(NAMESPACE, kind, name, { ...(kind === "EdgeRouter" ? routed : {}), ...spec });
      const stalled = await scene.until(
        NAMESPACE,
        kind,
        name,
        ({ status }) => conditionOf(status.conditions, "Stalled") !== undefined,
      );
      expect(healthy(stalled)).toBe("Failed");
      expect(readyOf(stalled)).toMatchObject({ status: "False", reason: "MissingPermission" });
      expect(readyOf(stalled)?.message).toMatch(new RegExp(`cannot (${verbs.join("|")}) resource "${resource}"`));
      expect(readyOf(stalled)?.message).toContain("sallyport-operator");
      await eventually("an event says so", async () =>
        (await scene.events(NAMESPACE, kind, name)).includes("MissingPermission"),
      );
      // Others go on.
      await scene.declare(NAMESPACE, "AuthPolicy", name);
      await scene.ready(NAMESPACE, "AuthPolicy", name);
      await restore();
      await scene.until(NAMESPACE, kind, name, (found) => readyOf(found)?.reason !== "MissingPermission");
      if (kind !== "EdgeRouter") await scene.ready(NAMESPACE, kind, name);
      await scene.delete(NAMESPACE, kind, name);
      await scene.gone(NAMESPACE, kind, name);
      expect(operator.program.isRunning).toBe(true);
    });

    test("what no right would help is another matter, and followed nowhere", async () => {
      const name = "odd";
      const exposure = { type: "LoadBalancer", hostname: "r{ordinal}.localhost" };
      const refused = { ...exposure, loadBalancerSourceRanges: ["nowhere"] };
      await scene.declare(NAMESPACE, "EdgeRouter", name, { exposure: refused });
      const stalled = await scene.until(
        NAMESPACE,
        "EdgeRouter",
        name,
        ({ status }) => conditionOf(status.conditions, "Stalled") !== undefined,
      );
      expect(readyOf(stalled)).toMatchObject({ status: "False", reason: "ObjectRefused" });
      expect(readyOf(stalled)?.message).toMatch(/loadBalancerSourceRanges/i);
      const inNetwork = async () =>
        (await controller.admin("GET", `/edge-routers?filter=${encodeURIComponent('name = "odd-0"')}`)).json.data;
      expect(await inNetwork()).toEqual([]);
      for (const kind of [KINDS.ConfigMap, KINDS.Service, KINDS.StatefulSet, KINDS.Secret]) {
        const { items } = await scene.client.list(kind, NAMESPACE, {
          labelSelector: `app.kubernetes.io/instance=${name}`,
        });
        expect(items, kind.kind).toEqual([]);
      }
      await scene.declare(NAMESPACE, "EdgeRouter", name, { exposure });
      await scene.until(NAMESPACE, "EdgeRouter", name, (found) => readyOf(found)?.reason !== "ObjectRefused");
      await eventually("the network has it", async () => (await inNetwork()).length === 1);
      await scene.delete(NAMESPACE, "EdgeRouter", name);
      await scene.gone(NAMESPACE, "EdgeRouter", name);
    });

    test("to write a status: an event and the log say so", async () => {
      await without("overlayservices/status", ["patch"]);
      await scene.declare(NAMESPACE, "OverlayService", "mute");
      await eventually("an event says so", async () =>
        (await scene.events(NAMESPACE, "OverlayService", "mute")).includes("MissingPermission"),
      );
      await restore();
      await scene.ready(NAMESPACE, "OverlayService", "mute");
      const { data } = (await controller.admin("GET", `/services?filter=${encodeURIComponent('name = "mute"')}`)).json;
      expect(data).toHaveLength(1);
    });

    test("to write events: everything else works, and the log says so", async () => {
      await without("events", ["create", "patch"]);
      const said = operator.program.nextLine(/cannot create resource \\"events\\"/);
      await scene.declare(NAMESPACE, "OverlayService", "unsung");
      await scene.ready(NAMESPACE, "OverlayService", "unsung");
      await said;
    });
  });

  describe("that it needs from the beginning", () => {
    afterEach(async () => {
      await scene.stopAll();
      await restore();
    });

    test.each(WATCHED)("to list %s: it is not ready, and says so", async (resource) => {
      await without(resource, ["list", "watch"]);
      const operator = await scene.begin();
      await eventually(
        "it says so",
        async () => new RegExp(`cannot list resource "${resource}"`).test(await operator.page("/readyz")),
        PATIENCE_MS,
      );
      await restore();
      await operator.ready(PATIENCE_MS);
    });

    test("to watch what it may list: it is not ready, and says so", async () => {
      await without("overlayservices", ["watch"]);
      const operator = await scene.begin();
      const told = /cannot watch resource "overlayservices"/;
      await eventually("it says so", async () => told.test(await operator.page("/readyz")), PATIENCE_MS);
      await restore();
      await operator.ready(PATIENCE_MS);
    });

    test("for its Lease", async () => {
      const ref = { kind: LEASES, namespace: "sallyport-system", name: "sallyport-operator-leases" };
      const role = await scene.client.get<Role>(ref);
      await scene.client.patch(ref, { rules: [] });
      const { program } = await scene.begin("leaderless", { elects: true });
      await program.line(/cannot get resource \\"leases\\"/);
      await scene.client.patch(ref, { rules: role?.rules });
      await program.line(/"leads"/);
    });
  });

  beforeEach(async () => await restore());
});
