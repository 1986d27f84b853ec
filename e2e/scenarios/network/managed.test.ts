/** A Network that the operator runs, restarted and grown; and the same one used as an external Network from another namespace. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Found, hasCluster, Stage } from "../stage.ts";
import { declare } from "./every-kind.ts";

const PATIENCE = { timeout: 300_000, interval: 1_000 };

interface Managed extends Found {
  readonly status: NonNullable<Found["status"]> & { readonly configHash?: string; readonly id?: string };
}

describe.skipIf(!hasCluster)("a managed Network", () => {
  let stage: Stage;
  let tenant: Stage;

  beforeAll(async () => {
    [stage, tenant] = await Promise.all([Stage.open("managed"), Stage.open("tenant")]);
  });
  afterAll(async () => {
    // Its entities are taken out of the network, for which the controller has to be there.
    await tenant?.close();
    await stage?.close();
  });

  const network = (managed: object = {}) => declare(stage, "Network", "main", { external: null, managed });
  const ready = (what: string) => stage.wait("condition=Ready", what);
  const read = (kind: string, name: string) => stage.get<Managed>(kind, name);

  test("is ready from one manifest, by kubectl wait, where pods are restricted", async () => {
    await network();
    await ready("network/main");
    const address = `main-controller\\.${stage.namespace}\\.svc`;
    expect(await stage.kubectl("get", "onet", "--output=wide")).toMatch(
      new RegExp(`main +True +Ready +v1\\.6\\.20 +Sallyport operator of ${stage.namespace}/main +tls:${address}:1280`),
    );
    const objects = await stage.kubectl("get", "secret,configmap,pvc", "--output=name");
    expect(objects.split("\n")).toEqual(
      expect.arrayContaining([
        "secret/main-admin",
        "secret/main-controller-key",
        "secret/main-operator",
        "configmap/main-ca",
        "persistentvolumeclaim/main-controller-data",
      ]),
    );
  });

  test("is an external Network for another namespace, with resources and a router of that one", async () => {
    const admin = await stage.get<{ data: object }>("secret", "main-admin");
    await tenant.apply({ apiVersion: "v1", kind: "Secret", metadata: { name: "overlay-admin" }, data: admin.data });
    const inline = await stage.kubectl("get", "configmap", "main-ca", "--output=jsonpath={.data.ca\\.crt}");
    const external = {
      endpoints: [`https://main-controller.${stage.namespace}.svc:1280/edge/management/v1`],
      caBundle: { inline, configMapRef: null },
      auth: { passwordSecretRef: { name: "overlay-admin" }, certificateSecretRef: null },
    };
    await declare(tenant, "Network", "shared", { external });
    const networkRef = { name: "shared" };
    await declare(stage, "OverlayService", "web");
    await ready("overlayservice/web");
    await declare(tenant, "OverlayService", "api", { networkRef });
    await declare(tenant, "EdgeRouter", "branch", { networkRef });
    await tenant.ready();
    expect(await tenant.kubectl("get", "oer")).toMatch(/branch +True +Online +1 +1 /);
    // Both see one network, and whose each thing in it is.
    await declare(tenant, "OverlayService", "taken", { networkRef, name: "web" });
    await tenant.wait("condition=Stalled", "overlayservice/taken");
    const conflict = await tenant.condition("overlayservice", "taken", "Ready");
    expect(conflict).toMatchObject({ reason: "NameConflict" });
    expect(conflict?.message).toContain(`belongs to OverlayService ${stage.namespace}/web`);
  });

  test("comes back with everything when its pod is killed; who uses it from elsewhere, too", async () => {
    const before = await read("overlayservice", "web");
    const uid = "--output=jsonpath={.metadata.uid}";
    const killed = await stage.kubectl("get", "pod/main-controller-0", uid);
    await stage.kubectl("delete", "pod/main-controller-0", "--grace-period=0", "--force");
    const isAnother = async () => {
      const found = await stage.kubectl("get", "pod/main-controller-0", "--ignore-not-found", uid);
      return found !== "" && found !== killed;
    };
    await stage.explain(expect.poll(isAnother, PATIENCE).toBe(true));
    await ready("pod/main-controller-0");
    for (const [at, name] of [
      [stage, "main"],
      [tenant, "shared"],
    ] as const) {
      await at.kubectl("annotate", `network/${name}`, "sallyport.dev/reconcile-requested-at=k");
      await at.wait("jsonpath={.status.lastHandledReconcileAt}=k", `network/${name}`);
      await at.wait("condition=Ready", `network/${name}`);
    }
    await ready("overlayservice/web");
    expect((await read("overlayservice", "web")).status.id).toBe(before.status.id);
    await tenant.wait("condition=Ready", "edgerouter/branch");
  });

  test("gets a larger volume, and nothing is restarted for it", async () => {
    const before = await read("network", "main");
    await network({ database: { embedded: { size: "2Gi" } } });
    await stage.wait("jsonpath={.status.capacity.storage}=2Gi", "pvc/main-controller-data");
    await ready("network/main");
    expect((await read("network", "main")).status.configHash).toBe(before.status.configHash);
  });
});
