/** The cluster's admission changes what the operator writes: nothing is written over and over, and changes still arrive. */
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { KINDS as KUBE, type KubeObject } from "../../../operator/src/kube/kinds.ts";
import { eventually } from "../../network/eventually.ts";
import { hasCluster } from "../tools.ts";
import { PATIENCE_MS, Scene } from "./scene.ts";

const NAMESPACE = "admitted";
const MIRROR = "mirror.example/";
const PART_OF = "app.kubernetes.io/part-of";

interface Container {
  readonly image: string;
}
interface Admitted extends KubeObject {
  readonly spec: {
    readonly template?: {
      readonly spec: {
        readonly terminationGracePeriodSeconds?: number;
        readonly containers: readonly Container[];
        readonly initContainers?: readonly Container[];
      };
    };
  };
}
interface Review {
  readonly request: { readonly uid: string; readonly object: Admitted };
}

/** As a policy for images and a mesh do: images come from a mirror, a label of the operator gets another value, an annotation is added. */
function patchOf({ metadata, spec }: Admitted): object[] {
  const ofContainers = (["initContainers", "containers"] as const).flatMap((list) =>
    (spec.template?.spec[list] ?? []).map(({ image }, place) => ({
      op: "replace",
      path: `/spec/template/spec/${list}/${place}/image`,
      value: image.startsWith(MIRROR) ? image : `${MIRROR}${image}`,
    })),
  );
  const escaped = PART_OF.replaceAll("/", "~1");
  return [
    ...ofContainers,
    { op: "add", path: `/metadata/labels/${escaped}`, value: "mesh" },
    ...(metadata.annotations === undefined ? [] : [{ op: "add", path: "/metadata/annotations/mesh", value: "on" }]),
  ];
}

/** Admits everything, changed. */
class Webhook {
  /** Names of what was asked about, in order. */
  readonly asked: string[] = [];
  readonly #server: Server;

  private constructor(certificate: { readonly certPem: string; readonly keyPem: string }) {
    this.#server = createServer({ cert: certificate.certPem, key: certificate.keyPem }, (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { uid, object } = (JSON.parse(Buffer.concat(chunks).toString()) as Review).request;
        this.asked.push(`${object.kind} ${object.metadata.name}`);
        const patch = Buffer.from(JSON.stringify(patchOf(object))).toString("base64");
        const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" };
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ ...review, response: { uid, allowed: true, patchType: "JSONPatch", patch } }));
      });
    });
  }

  static async start(scene: Scene): Promise<Webhook> {
    const address = scene.cluster.machineAddress;
    const authority = await TestAuthority.create();
    const webhook = new Webhook(await authority.issue({ ip: [address] }));
    webhook.#server.listen(0, address);
    await once(webhook.#server, "listening");
    const { port } = webhook.#server.address() as AddressInfo;
    const rules = [
      { apiGroups: ["apps"], apiVersions: ["v1"], resources: ["statefulsets"], operations: ["CREATE", "UPDATE"] },
      { apiGroups: [""], apiVersions: ["v1"], resources: ["services"], operations: ["CREATE", "UPDATE"] },
    ];
    const url = `https://${address}:${port}/`;
    await scene.cluster.apply(
      JSON.stringify({
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "MutatingWebhookConfiguration",
        metadata: { name: "mirror" },
        webhooks: [
          {
            name: "mirror.example.com",
            clientConfig: { url, caBundle: Buffer.from(authority.certPem).toString("base64") },
            ...{ rules, sideEffects: "None", admissionReviewVersions: ["v1"] },
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": NAMESPACE } },
          },
        ],
      }),
    );
    return webhook;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

describe.skipIf(!hasCluster)("an admission that changes what the operator writes", { timeout: 240_000 }, () => {
  let scene: Scene;
  let controller: TestController;
  let webhook: Webhook;

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
    await scene.place(NAMESPACE, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
    webhook = await Webhook.start(scene);
    const probe = { kind: KUBE.Service, namespace: NAMESPACE, name: "probe" };
    await eventually("the API server asks the webhook", async () => {
      const metadata = { name: probe.name, namespace: NAMESPACE, labels: { a: "b" } };
      const spec = { ports: [{ port: 1 }] };
      const answer = await scene.client.apply({ apiVersion: "v1", kind: "Service", metadata, spec } as KubeObject);
      await scene.client.delete(probe);
      return answer.metadata.labels?.[PART_OF] === "mesh";
    });
    await scene.run();
  });
  afterAll(async () => {
    await scene?.close();
    await webhook?.close();
    await controller?.close();
  });

  const workload = (name: string) => scene.client.get<Admitted>({ kind: KUBE.StatefulSet, namespace: NAMESPACE, name });
  const podOf = async (name: string) => (await workload(name))?.spec.template?.spec;
  /** Objects that were written once nothing was left to do, by looks at the resource that find nothing. */
  const writesOfAnotherLook = async (kind: string, name: string): Promise<string[]> => {
    await eventually(
      "nothing is written any more",
      async () => {
        const before = webhook.asked.length;
        await scene.lookAgain(NAMESPACE, kind, name);
        return webhook.asked.length === before;
      },
      PATIENCE_MS,
    ).catch(() => undefined);
    const from = webhook.asked.length;
    await scene.lookAgain(NAMESPACE, kind, name);
    return webhook.asked.slice(from);
  };

  test.each([
    ["EdgeRouter", "eu", ["eu-0", "eu-1"], { replicas: 2, exposure: { type: "ClusterIP" } }, { drainSeconds: 7 }],
    [
      "Network",
      "own",
      ["own-controller"],
      { external: null, managed: {} },
      { managed: { template: { spec: { priorityClassName: "system-cluster-critical" } } } },
    ],
  ])(
    "the objects of an %s are written once, and again when they change",
    async (kind, name, workloads, spec, change) => {
      await scene.declare(NAMESPACE, kind, name, spec);
      for (const each of workloads) {
        const pod = await eventually(`${each} is made`, () => podOf(each), PATIENCE_MS);
        for (const { image } of [...pod.containers, ...(pod.initContainers ?? [])]) expect(image).toContain(MIRROR);
      }
      expect(await writesOfAnotherLook(kind, name)).toEqual([]);

      const generations = async () =>
        await Promise.all(workloads.map(async (each) => (await workload(each))?.metadata.generation));
      const before = await generations();
      await scene.declare(NAMESPACE, kind, name, {
        ...spec,
        ...change,
        ...("managed" in change ? { external: null } : {}),
      });
      await eventually(
        "the change is in every workload",
        async () => (await generations()).every((each, place) => (each ?? 0) > (before[place] ?? 0)),
        PATIENCE_MS,
      );
      expect(await writesOfAnotherLook(kind, name)).toEqual([]);

      const [first = ""] = workloads;
      const image = (await podOf(first))?.containers[0]?.image;
      const containers = (await podOf(first))?.containers.map((each) => ({ ...each, image: "evil.example/x:1" }));
      const ref = { kind: KUBE.StatefulSet, namespace: NAMESPACE, name: first };
      await scene.client.patch(ref, { spec: { template: { spec: { containers } } } });
      await eventually(
        "a change by another client is put right",
        async () => (await podOf(first))?.containers[0]?.image === image,
        PATIENCE_MS,
      );
      expect(await writesOfAnotherLook(kind, name)).toEqual([]);
    },
  );

  test("a namespace with a quota of everything takes the pods of routers and controllers", async () => {
    const hard = Object.fromEntries(
      ["requests.cpu", "requests.memory", "limits.cpu", "limits.memory"].map((name) => [
        name,
        name.endsWith("cpu") ? "20" : "20Gi",
      ]),
    );
    const namespace = "quota";
    await scene.place(namespace, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
    await scene.cluster.apply(
      JSON.stringify({ apiVersion: "v1", kind: "ResourceQuota", metadata: { name: "all", namespace }, spec: { hard } }),
    );
    await scene.declare(namespace, "EdgeRouter", "limited", { exposure: { type: "ClusterIP" } });
    await scene.declare(namespace, "Network", "own", { external: null, managed: {} });
    for (const name of ["limited-0-0", "own-controller-0"]) {
      const made = async () => await scene.client.get({ kind: KUBE.Pod, namespace, name });
      await eventually(`the pod ${name} is made`, made, PATIENCE_MS);
    }
  });
});
