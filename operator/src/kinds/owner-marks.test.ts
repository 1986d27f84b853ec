/** No tool that deletes what is not declared any more takes an object of the operator for one of its own. */

import type { IdentityResource } from "@sallyport/resources";
import { identityDefinition } from "@sallyport/resources/definitions";
import { admit } from "@sallyport/resources/testing/admit";
import { sample } from "@sallyport/resources/testing/samples";
import { describe, expect, test } from "vitest";
import { withIntent } from "../children/intent.ts";
import { INSTANCE, missingMarks, ownerByLabels } from "../children/owner-marks.ts";
import type { FoundStatefulSet } from "../children/workload.ts";
import { KINDS, type KubeObject } from "../kube/kinds.ts";
import { workloadOf } from "./edge-router/plan/step.ts";
import {
  disruptionBudget,
  edgeService,
  headlessService,
  networkPolicy,
  serviceAccount,
  serviceMonitor,
} from "./edge-router/render/objects.ts";
import { configMap, enrollmentSecret } from "./edge-router/render/workload.ts";
import { edgeRouter } from "./edge-router/testing/edge-router.ts";
import { secretWith } from "./identity/secret/identity-secret.ts";
import {
  renderCaBundle,
  renderCertificate,
  renderClaim,
  renderConfigMap,
  renderDisruptionBudget,
  renderReplicaService,
  renderService,
} from "./network/render/children.ts";
import { childNames, isChild, keptMetadata } from "./network/render/names.ts";
import { renderStatefulSet } from "./network/render/pod.ts";
import { managedNetwork } from "./network/testing/managed.ts";

const TRACKING_ID = "argocd.argoproj.io/tracking-id";

/** Argo CD: an object without an owner is an Application's by the label or by the annotation, as the installation is set up. */
function applicationOf({ metadata }: KubeObject): string | undefined {
  if ((metadata.ownerReferences ?? []).length > 0) return undefined;
  return metadata.labels?.[INSTANCE] ?? metadata.annotations?.[TRACKING_ID]?.split(":")[0];
}

/** Marks that Argo CD puts on what stands in Git: our resources themselves. */
const TRACKED = {
  labels: { [INSTANCE]: "overlay" },
  annotations: { [TRACKING_ID]: "overlay:sallyport.dev/x:edge/eu" },
};

const issuerRef = { name: "ca", kind: "Issuer" };
const { resource: plain, managed } = managedNetwork({ certificates: { issuerRef } });
const network = { ...plain, metadata: { ...plain.metadata, ...TRACKED, namespace: "edge" } };
const router = edgeRouter(
  { replicas: 2, networkPolicy: { enabled: true }, serviceMonitor: { enabled: true }, exposure: { type: "ClusterIP" } },
  TRACKED,
);
const admitted = admit(identityDefinition, sample("Identity", { deletionPolicy: "Orphan" }, "bot"));
const bot = admitted.object as unknown as IdentityResource;
const identity: IdentityResource = { ...bot, metadata: { ...bot.metadata, ...TRACKED, uid: "u1" } };

const workload = (found?: FoundStatefulSet): FoundStatefulSet =>
  workloadOf(router, {
    ordinal: 0,
    id: "r-0",
    configHash: "abc",
    image: "router:1",
    controllers: { endpoints: [], areChosen: false },
    statefulSet: found,
  }) as FoundStatefulSet;

/** The claim that Kubernetes makes for a pod of a StatefulSet: the labels of the template, and those of the selector. */
function claimOf({ metadata: { name, namespace = "" }, spec }: FoundStatefulSet): KubeObject {
  const { labels, annotations = {}, name: volume } = spec?.volumeClaimTemplates?.[0]?.metadata ?? { name: "" };
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: `${volume}-${name}-0`,
      namespace,
      labels: { ...labels, ...spec?.selector?.matchLabels },
      annotations,
    },
  };
}

const secretOf = (name: string): KubeObject => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: keptMetadata(network, name),
});
const names = childNames(network);
const inputs = { image: "controller:1", configHash: "abc", hasCertificate: true };

const RENDERED = [
  renderConfigMap(network, {}),
  renderCaBundle(network, ""),
  renderService(network, managed),
  renderReplicaService(network, managed, 1),
  renderDisruptionBudget(network, { ...managed, replicas: 2 }),
  renderClaim(network, managed),
  renderStatefulSet(network, managed, inputs),
  renderCertificate(network, managed, "ctrl.example"),
  ...[names.key, names.admin, names.operator].map(secretOf),
  configMap(router, 0, ""),
  enrollmentSecret(router, 0, "token"),
  headlessService(router),
  edgeService(router, 0),
  serviceAccount(router),
  disruptionBudget(router),
  networkPolicy(router),
  serviceMonitor(router),
  workload(),
  claimOf(workload()),
  secretWith({ token: "t" }, undefined, identity, "bot-identity"),
].map((object) => {
  if (object === undefined) throw new Error("a sample asks for too little");
  return withIntent(object);
});

test.each(RENDERED.map((object) => [object.kind, object.metadata.name, object] as const))(
  "%s %s belongs to no Application",
  (_kind, _name, object) => expect(applicationOf(object)).toBeUndefined(),
);

describe("what has no owner and holds data", () => {
  const lasting = RENDERED.filter(({ kind, metadata }) => {
    const isVolume = kind === "PersistentVolumeClaim";
    return isVolume || [names.key, names.admin, names.operator].includes(metadata.name);
  });

  test.each(lasting.map((object) => [object.metadata.name, object] as const))(
    "%s is marked as to be kept",
    (_name, object) => {
      expect(object.metadata.ownerReferences ?? []).toEqual([]);
      expect(object.metadata.annotations).toMatchObject({
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        "helm.sh/resource-policy": "keep",
      });
      const owner = ownerByLabels(object.metadata);
      expect(owner === undefined ? "nobody's" : missingMarks(object.metadata, owner)).toBeUndefined();
    },
  );
});

describe("an object of an earlier version", () => {
  const former = { "app.kubernetes.io/name": "network-controller", [INSTANCE]: "main" };
  const labels = {
    ...former,
    "app.kubernetes.io/component": "controller",
    "app.kubernetes.io/part-of": "overlay",
    "app.kubernetes.io/managed-by": "sallyport",
    "sallyport.dev/owner-kind": "Network",
  };
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "main-controller-key", namespace: "edge", labels },
  };

  test("is its Network's still, and gets the marks", () => {
    expect(applicationOf(secret)).toBe("main");
    expect(isChild(secret, network)).toBe(true);
    expect(missingMarks(secret.metadata, { kind: "Network", name: "main" })).toEqual({
      labels: { [INSTANCE]: null, "sallyport.dev/owner-name": "main" },
      annotations: keptMetadata(network, "x").annotations,
    });
  });

  test.each([
    ["of another Network", { ...labels, [INSTANCE]: "other" }],
    ["of another kind", { ...labels, "sallyport.dev/owner-kind": "EdgeRouter" }],
    ["another owner's", former],
  ])("%s is not taken for ours", (_whose, others) => {
    expect(isChild({ ...secret, metadata: { ...secret.metadata, labels: others } }, network)).toBe(false);
  });

  test("that is a StatefulSet keeps what can't be changed of it", () => {
    const selector = { "app.kubernetes.io/name": "edge-router", [INSTANCE]: "eu", "sallyport.dev/ordinal": "0" };
    const metadata = { name: "data", labels: { ...labels, ...selector }, creationTimestamp: null };
    const found = {
      ...workload(),
      spec: { selector: { matchLabels: selector }, volumeClaimTemplates: [{ metadata }] },
    };
    const wanted = workload(found as unknown as FoundStatefulSet);
    expect(wanted.spec?.selector).toEqual({ matchLabels: selector });
    expect(wanted.spec?.volumeClaimTemplates?.[0]?.metadata).toEqual({ name: "data", labels: metadata.labels });
    const pod = wanted.spec?.template?.metadata as { labels?: Record<string, string> } | undefined;
    expect(pod?.labels).toMatchObject(selector);
    expect(pod?.labels).toMatchObject(workload().spec?.selector?.matchLabels ?? {});
  });
});

test("a claim as Kubernetes makes it is found by its labels", () => {
  expect(ownerByLabels(claimOf(workload()).metadata)).toEqual({ kind: "EdgeRouter", name: "eu" });
  expect(KINDS.PersistentVolumeClaim.kind).toBe(claimOf(workload()).kind);
});
