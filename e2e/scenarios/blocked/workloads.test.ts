/** What keeps pods from running: each is told with its cause by a condition and an event, and passes when the user fixes it, without any cleaning up. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { healthOf } from "../../../operator/src/kube/conditions.ts";
import { sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { hasCluster, Stage } from "../stage.ts";

const PATIENCE_MS = 180_000;
type Spec = Readonly<Record<string, unknown>>;

interface StorageClasses {
  readonly items: readonly {
    readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
    readonly provisioner: string;
    readonly volumeBindingMode?: string;
    readonly parameters?: object;
  }[];
}

describe.skipIf(!hasCluster)("pods that can't be", { timeout: 600_000 }, () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open("blocked");
    await declare("Network", "main", { external: null, managed: {} });
    await stage.ready(300);
  }, 600_000);
  afterAll(async () => {
    try {
      await stage?.close();
    } finally {
      if (stage) await stage.cluster.kubectl(["delete", "storageclass", stage.namespace, "--ignore-not-found"]);
    }
  }, 300_000);

  const declare = async (kind: string, name: string, spec: Spec = {}): Promise<void> =>
    await stage.apply({ ...sample(kind, spec, name), metadata: { name } });
  const router = async (name: string, spec: Spec = {}): Promise<void> =>
    await declare("EdgeRouter", name, { drainSeconds: 0, ...spec });

  /** Until the condition Ready of a resource, and a Warning about it, name the cause. */
  async function told(kind: string, name: string, reason: string, cause: RegExp): Promise<void> {
    await stage.explain(
      eventually(
        `${kind} ${name} says why`,
        async () => {
          const ready = await stage.condition(kind, name, "Ready");
          expect(ready).toMatchObject({ status: "False", reason, message: expect.stringMatching(cause) });
          return true;
        },
        PATIENCE_MS,
      ),
    );
    const { metadata } = await stage.get(kind, name);
    const about = `--field-selector=type=Warning,involvedObject.uid=${metadata.uid}`;
    const events = () => stage.kubectl("get", "events", about, "--output=jsonpath={.items[*].message}");
    await stage.explain(
      eventually(`an event about ${name} says why`, async () => cause.test(await events()), PATIENCE_MS),
    );
  }
  /** Until it is ready, and as tools see it. */
  async function repaired(kind: string, name: string): Promise<void> {
    await stage.wait("condition=Ready", `${kind}.sallyport.dev/${name}`, 300);
    expect(healthOf(await stage.get(`${kind}.sallyport.dev`, name)).health).toBe("Current");
  }

  test("an image that can't be pulled, until it is replaced", async () => {
    await router("image", { image: "registry.invalid/router:none" });
    await told(
      "edgerouter",
      "image",
      "PodFailing",
      /router image-0 .*container enroll: .*registry\.invalid\/router:none/,
    );
    await router("image");
    await repaired("edgerouter", "image");
  });

  test("a volume of a storage class that is not there, until an administrator makes the class", async () => {
    const storageClassName = stage.namespace;
    await router("volume", { storage: { storageClassName } });
    await declare("Network", "stored", {
      external: null,
      managed: { database: { embedded: { size: "1Gi", storageClassName } } },
    });
    const cause = new RegExp(`data.* can't be had: .*"${storageClassName}" not found`);
    await told("edgerouter", "volume", "PodFailing", cause);
    await told("network", "stored", "ControllerFailing", cause);
    const { items } = JSON.parse(
      await stage.cluster.kubectl(["get", "storageclasses", "--output=json"]),
    ) as StorageClasses;
    const usual = items.find(
      ({ metadata }) => metadata.annotations?.["storageclass.kubernetes.io/is-default-class"] === "true",
    );
    if (usual === undefined) throw new Error("the cluster has no default storage class");
    const { provisioner, parameters, volumeBindingMode } = usual;
    const like = { provisioner, volumeBindingMode, ...(parameters && { parameters }) };
    const made = {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: storageClassName },
      ...like,
    };
    await stage.cluster.apply(JSON.stringify(made));
    await repaired("edgerouter", "volume");
    await repaired("network", "stored");
    await stage.kubectl("delete", "network/stored", "edgerouter/volume", "--timeout=300s");
  });

  test("a quota that is used up, until it is raised", async () => {
    // Of the test before.
    await stage.wait("delete", "pod/stored-controller-0", 300);
    const count = (await stage.kubectl("get", "pods", "--output=name")).trim().split("\n").length;
    const quota = (pods: number) =>
      stage.apply({
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { name: "pods" },
        spec: { hard: { pods: String(pods) } },
      });
    await quota(count);
    await stage.wait(`jsonpath={.status.used.pods}=${count}`, "resourcequota/pods", 300);
    await router("quota");
    await told("edgerouter", "quota", "PodFailing", /router quota-0 .*no pod .*exceeded quota: pods/);
    await quota(count + 10);
    await repaired("edgerouter", "quota");
  });

  test("a namespace that forbids the pod, until it lets it be: a new router, and one that was there", async () => {
    await router("old");
    await repaired("edgerouter", "old");
    const tunneler = { enabled: true, mode: "tproxy" };
    await router("new", { tunneler });
    await router("old", { tunneler });
    await told("edgerouter", "new", "PodFailing", /router new-0 .*no pod .*violates PodSecurity "restricted/);
    await told("edgerouter", "old", "PodRefused", /router old-0: .*violates PodSecurity "restricted/);
    const level = "pod-security.kubernetes.io/enforce=privileged";
    await stage.cluster.kubectl(["label", "--overwrite", "namespace", stage.namespace, level]);
    await repaired("edgerouter", "new");
    await repaired("edgerouter", "old");
  });
});
