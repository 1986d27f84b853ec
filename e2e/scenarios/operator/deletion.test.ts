/** Deletion in every order, also when the controller is away, and that nothing is left: neither in the network nor in the cluster. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { healthOf } from "../../../operator/src/kube/status/kstatus.ts";
import { sample } from "../../../operator/src/resources/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { oneOfEach } from "../../operator/one-of-each.ts";
import { hasCluster, Stage } from "../stage.ts";
import { Management } from "./management.ts";

const PATIENCE_MS = 180_000;

describe.skipIf(!hasCluster)("deletion", { timeout: 600_000 }, () => {
  let stage: Stage;
  let management: Management;

  beforeAll(async () => {
    // What it deletes by hand ends: the controller is held away, and comes back.
    stage = await Stage.open("deletion", { restarts: true });
    management = new Management(stage);
    await declare();
    await stage.ready(300);
  }, 600_000);
  afterAll(async () => await stage?.close(), 300_000);

  /** Without a Network of a namespace: that is the manifest's. */
  async function declare(): Promise<void> {
    const network = sample("Network", { external: null, managed: {} }, "main");
    const all = [network, ...oneOfEach(stage.namespace, { drainSeconds: 0 })];
    await stage.apply(all.map(({ metadata: { name }, ...rest }) => ({ ...rest, metadata: { name } })));
  }
  const nameOf = (kind: string): string => `${stage.namespace}-${kind.toLowerCase()}`;
  const ALL = "overlayservices,serviceconfigs,identities,servicepolicies,edgerouterpolicies,serviceedgerouterpolicies";
  const OTHERS = `${ALL},authpolicies,posturechecks`;
  /** What the operator has made for routers; volumes too, as they go with their routers. */
  const left = async (selector: string): Promise<string[]> => {
    const kinds = "statefulset,service,configmap,secret,pod,pvc,serviceaccount,poddisruptionbudget";
    const names = await stage.kubectl("get", kinds, `--selector=${selector}`, "--output=name");
    return names.split("\n").filter((name) => name !== "");
  };
  const collected = async (selector: string): Promise<void> => {
    await stage.explain(
      eventually(
        `what ${selector} fits is gone`,
        async () => {
          expect(await left(selector)).toEqual([]);
          return true;
        },
        PATIENCE_MS,
      ),
    );
  };

  test("routers first: they leave the network, and their objects and volumes are collected", async () => {
    const { items } = JSON.parse(await stage.kubectl("get", "edgerouters", "--output=json")) as {
      items: { status: { routers: { id: string }[] } }[];
    };
    expect(items[0]?.status.routers).toHaveLength(1);
    expect((await left("app.kubernetes.io/name=edge-router")).length).toBeGreaterThan(5);
    await stage.explained("delete", "edgerouters", "--all", "--timeout=300s");
    await collected("app.kubernetes.io/name=edge-router");
    const kinds = (await management.owned()).map(({ kind }) => kind);
    expect(kinds).not.toContain("EdgeRouter");
    expect(kinds).toContain("OverlayService");
  });

  test("the controller is gone: each says so and how to get out, and force-orphan lets it go", async () => {
    const kinds = ["OverlayService", "Identity", "ServicePolicy"];
    const before = (await management.owned()).filter(({ kind }) => kinds.includes(kind)).map(({ id }) => id);
    expect(before).toHaveLength(3);
    await stage.kubectl("annotate", "network/main", "sallyport.dev/pause-reconciliation=true");
    await stage.wait("condition=ReconciliationPaused", "network/main", 300);
    await stage.kubectl("scale", "statefulset/main-controller", "--replicas=0");
    await stage.wait("delete", "pod/main-controller-0", 300);
    for (const kind of kinds) await stage.kubectl("delete", kind.toLowerCase(), nameOf(kind), "--wait=false");
    for (const kind of kinds) {
      const what = `${kind.toLowerCase()}/${nameOf(kind)}`;
      await stage.wait("condition=DeletionBlocked", what, 300);
      const found = await stage.get(kind.toLowerCase(), nameOf(kind));
      expect(healthOf(found).health, kind).toBe("Terminating");
      const { message = "" } = (await stage.condition(kind.toLowerCase(), nameOf(kind), "DeletionBlocked")) ?? {};
      // Literally as it advises.
      const advice = /kubectl (annotate \S+ \S+ -n \S+ \S+=true)/.exec(message)?.[1];
      expect(advice, message).toBeDefined();
      await stage.cluster.kubectl((advice ?? "").split(" "));
      await stage.wait("delete", what, 300);
    }
    await stage.kubectl("annotate", "network/main", "sallyport.dev/pause-reconciliation-");
    await stage.wait("condition=Ready=False", "network/main", 300);
    await stage.wait("condition=Ready", "network/main", 300);
    await stage.wait("condition=Ready", "pod/main-controller-0", 300);
    // They were left there, as asked; resources of the same names take them up again.
    const after = (await management.owned()).map(({ id }) => id);
    expect(after).toEqual(expect.arrayContaining(before));
    await declare();
    // Its Secret went with the Identity, and a credential that counts is never ended by itself.
    const isMissing = async () =>
      (await stage.condition("identity", nameOf("Identity"), "Ready"))?.reason === "CredentialsMissing";
    await stage.explain(eventually("the Identity says what is missing", isMissing, PATIENCE_MS));
    await stage.kubectl("annotate", "identity", nameOf("Identity"), "sallyport.dev/re-enroll=1");
    await stage.ready(300);
    const again = (await management.owned()).filter(({ kind }) => kinds.includes(kind)).map(({ id }) => id);
    expect(again.toSorted()).toEqual(before.toSorted());
  });

  test("the Network first: it waits for what refers to it, and goes on working for that; then all goes, but for what was to be kept", async () => {
    await stage.kubectl("delete", "network/main", "--wait=false");
    await stage.wait("condition=DeletionBlocked", "network/main", 300);
    expect(healthOf(await stage.get("network", "main")).health).toBe("Terminating");
    expect((await management.owned()).map(({ kind }) => kind)).toContain("EdgeRouter");
    await stage.explained("delete", `edgerouters,${OTHERS}`, "--all", "--timeout=300s");
    await stage.wait("delete", "network/main", 300);
    const kept = ["secret/main-controller-key", "secret/main-admin", "secret/main-operator"];
    await eventually(
      "the rest is collected",
      async () => {
        const names = await left("app.kubernetes.io/name=network-controller");
        expect(names.toSorted()).toEqual([...kept, "persistentvolumeclaim/main-controller-data"].toSorted());
        return true;
      },
      PATIENCE_MS,
    );
  });

  test("the namespace at once, with a network that was taken up again by the same name", async () => {
    await declare();
    await stage.wait("condition=Ready", "network/main", 300);
    // They were let go with their Network, whose data was kept: who they are is in it, their keys went with Secret and volume.
    const lost = [
      ["identity", nameOf("Identity"), "CredentialsMissing"],
      ["edgerouter", nameOf("EdgeRouter"), "IdentityLost"],
    ] as const;
    for (const [kind, name, reason] of lost) {
      const says = async () => {
        const ready = await stage.condition(kind, name, "Ready");
        return ready?.reason === reason && ready.message.includes("sallyport.dev/re-enroll");
      };
      await stage.explain(eventually(`${name} says how to go on`, says, PATIENCE_MS));
    }
    const [volume] = (
      await stage.kubectl("get", "pvc", "main-controller-data", "--output=jsonpath={.spec.volumeName}")
    ).split("\n");
    await stage.cluster.kubectl(["delete", "namespace", stage.namespace, "--timeout=300s"]);
    const { code, stderr } = await stage.cluster.attempt(["get", "namespace", stage.namespace]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("not found")]);
    const volumes = () => stage.cluster.kubectl(["get", "pv", "--output=name"]);
    await eventually("its volumes are gone", async () => !(await volumes()).includes(volume ?? "?"), PATIENCE_MS);
  });
});
