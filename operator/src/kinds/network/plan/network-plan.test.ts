import type { ExternalNetwork } from "@sallyport/resources";
import { TestAuthority } from "@sallyport/wire/testing";
import { beforeAll, describe, expect, test } from "vitest";
import { type FoundPod, type FoundStatefulSet, isRolledOut } from "../../../children/workload.ts";
import { serverVersion } from "../reconcile/use.ts";
import { accessSources, caBundleOf, credentialsOf, namedValue, tokenAudience, type ValueHolder } from "./access.ts";
import { nextReconcileMs, passing, rolloutProblem, stalled } from "./problem.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const secretOf = (data: Readonly<Record<string, string>>): ValueHolder => ({
  data: Object.fromEntries(Object.entries(data).map(([key, value]) => [key, base64(value)])),
});
const reasonOf = (found: object): string | undefined =>
  (found as { readonly problem?: { readonly reason: string } }).problem?.reason;

describe("a value of a Secret or ConfigMap", () => {
  const of = (kind: "Secret" | "ConfigMap") => ({ kind, name: "n", key: "k", use: "the thing" });
  test.each<[string, "Secret" | "ConfigMap", ValueHolder | undefined, string | undefined, string | undefined]>([
    ["a Secret's", "Secret", secretOf({ k: "v" }), "v", undefined],
    ["a ConfigMap's", "ConfigMap", { data: { k: "v" } }, "v", undefined],
    ["no Secret", "Secret", undefined, undefined, "SecretNotFound"],
    ["no ConfigMap", "ConfigMap", undefined, undefined, "ConfigMapNotFound"],
    ["no key", "Secret", secretOf({ other: "geheim" }), undefined, "SecretKeyMissing"],
    ["no data", "ConfigMap", {}, undefined, "ConfigMapKeyMissing"],
    ["nothing under the key", "Secret", { data: { k: "" } }, undefined, "SecretKeyMissing"],
  ])("%s", (_name, kind, holder, value, reason) => {
    const found = namedValue(holder, of(kind));
    expect("value" in found ? found.value : undefined).toBe(value);
    expect(reasonOf(found)).toBe(reason);
    expect(JSON.stringify(found)).not.toContain("geheim");
  });
});

describe("how an external Network is entered", () => {
  let pair: { certPem: string; keyPem: string };
  let other: { certPem: string; keyPem: string };
  beforeAll(async () => {
    const authority = await TestAuthority.create();
    pair = await authority.issue({ dns: ["a"] });
    other = await authority.issue({ dns: ["b"] });
  });

  test("by password, without the line's end that editors leave", () => {
    const found = credentialsOf("n", "password", secretOf({ username: "admin\n", password: "a b \n" }));
    expect(found).toEqual({ value: { method: "password", username: "admin", password: "a b " } });
  });

  test("by a token of the operator's account that is good for this Network alone, whatever is asked for", () => {
    const network = { namespace: "a", name: "main" };
    expect(tokenAudience(network, "sallyport://a/main")).toEqual({ value: "sallyport://a/main" });
    for (const audience of [
      "https://kubernetes.default.svc.cluster.local",
      "https://kubernetes.default.svc",
      "overlay",
      "vault",
      "sallyport://b/main",
      "sallyport://a/main/",
    ]) {
      expect(tokenAudience(network, audience), audience).toMatchObject({
        problem: { reason: "AudienceNotAllowed", isStalled: true },
      });
    }
  });

  test("by certificate", () => {
    const of = (cert: string, key: string) => credentialsOf("n", "cert", secretOf({ "tls.crt": cert, "tls.key": key }));
    expect(of(pair.certPem, pair.keyPem)).toMatchObject({ value: { method: "cert", cert: pair.certPem } });
    expect(of("x", pair.keyPem)).toMatchObject({ problem: { reason: "InvalidCredentials", isStalled: true } });
    expect(of(pair.certPem, "x")).toMatchObject({
      problem: { message: expect.stringContaining("tls.key is no private key") },
    });
    expect(of(pair.certPem, other.keyPem)).toMatchObject({
      problem: { message: expect.stringContaining("belongs to another certificate") },
    });
    expect(reasonOf(credentialsOf("n", "cert", secretOf({ "tls.crt": pair.certPem })))).toBe("SecretKeyMissing");
  });

  test("trusting what the spec, a Secret or a ConfigMap has", () => {
    const external = (caBundle: object) => ({ caBundle, endpoints: [], auth: {} }) as unknown as ExternalNetwork;
    const ref = { name: "n", key: "ca.crt" };
    expect(caBundleOf(external({ inline: pair.certPem }), undefined)).toEqual({ value: pair.certPem });
    expect(caBundleOf(external({ secretRef: ref }), secretOf({ "ca.crt": pair.certPem }))).toEqual({
      value: pair.certPem,
    });
    expect(reasonOf(caBundleOf(external({ configMapRef: ref }), undefined))).toBe("ConfigMapNotFound");
    expect(reasonOf(caBundleOf(external({ inline: "nothing" }), undefined))).toBe("InvalidCaBundle");
    const broken = pair.certPem.replace(/\n.{20}/, "\n");
    expect(reasonOf(caBundleOf(external({ inline: broken }), undefined))).toBe("InvalidCaBundle");
    expect(accessSources({ ...external({ configMapRef: ref }), auth: { passwordSecretRef: { name: "p" } } })).toEqual({
      caBundle: { kind: "ConfigMap", name: "n" },
      credentials: "p",
    });
  });
});

describe("the version of a controller", () => {
  const apiVersions = { "edge-management": { v1: { version: "0.0.1" } } };
  test.each<[string, object, string | undefined]>([
    ["v1.6.20", apiVersions, undefined],
    ["v1.5.0", apiVersions, undefined],
    ["v2.0.1", apiVersions, undefined],
    ["v0.0.0", apiVersions, undefined],
    ["dev", apiVersions, undefined],
    ["v1.4.9", apiVersions, "UnsupportedVersion"],
    ["v0.34.0", apiVersions, "UnsupportedVersion"],
    ["v1.6.20", { edge: { v1: {} } }, "UnsupportedVersion"],
  ])("%s %j: %s", (version, apis, reason) => {
    const found = serverVersion({ version, apiVersions: apis as typeof apiVersions });
    expect(found.problem?.reason).toBe(reason);
    expect(found.serverVersion).toBe(version);
  });
});

describe("when a Network is looked at again", () => {
  test.each<[string, Parameters<typeof nextReconcileMs>[0], number, number | undefined]>([
    ["ready", undefined, 0, 30_000],
    ["away, at first", passing("ControllerUnavailable", ""), 0, 1_000],
    ["away, for a while", passing("ControllerUnavailable", ""), 40_000, 10_000],
    ["away, for long", passing("ControllerUnavailable", ""), 3_600_000, 60_000],
    ["limited", { ...passing("RateLimited", ""), retryAfterMs: 7_000 }, 0, 7_100],
    ["refused once", { ...passing("NetworkUnauthorized", ""), retryAfterMs: 60_000 }, 0, 60_100],
    ["refused for good", stalled("NetworkUnauthorized", ""), 0, undefined],
    ["not trusted", stalled("UntrustedCertificate", ""), 5, 60_000],
    ["without its Secret", passing("SecretNotFound", ""), 5, undefined],
    ["without cert-manager", { ...stalled("CertManagerMissing", ""), retryAfterMs: 60_000 }, 0, 60_100],
  ])("%s", (_name, problem, awayForMs, expected) => expect(nextReconcileMs(problem, awayForMs)).toBe(expected));
});

describe("the rollout of a controller", () => {
  const workload = (status: object): FoundStatefulSet => ({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "main-controller", generation: 2 },
    spec: { replicas: 1 },
    status,
  });
  test.each<[object, boolean]>([
    [{ observedGeneration: 2, readyReplicas: 1, updatedReplicas: 1 }, true],
    [{ observedGeneration: 2, readyReplicas: 1, currentRevision: "a", updateRevision: "a" }, true],
    [{ observedGeneration: 1, readyReplicas: 1, updatedReplicas: 1 }, false],
    [{ observedGeneration: 2, readyReplicas: 1, currentRevision: "a", updateRevision: "b" }, false],
    [{ observedGeneration: 2, updatedReplicas: 1 }, false],
    [{}, false],
  ])("%j is finished: %s", (status, expected) => expect(isRolledOut(workload(status))).toBe(expected));

  const pod = (status: object, metadata: object = {}): FoundPod => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "main-controller-0", ...metadata },
    status,
  });
  const waiting = (reason: string, more: object = {}) => ({
    name: "controller",
    state: { waiting: { reason } },
    ...more,
  });
  const ended = (exitCode: number) => ({ terminated: { exitCode } });
  test.each<[string, FoundPod[], string, RegExp]>([
    ["no pod", [], "ControllerStarting", /its pod is being made/],
    ["a new pod", [pod({})], "ControllerStarting", /main-controller-0 is starting/],
    ["a pod that ends", [pod({}, { deletionTimestamp: "t" })], "ControllerStarting", /being made/],
    [
      "no node",
      [pod({ conditions: [{ type: "PodScheduled", status: "False", message: "0/3 nodes" }] })],
      "ControllerStarting",
      /no node yet: 0\/3 nodes/,
    ],
    ["no image", [pod({ containerStatuses: [waiting("ImagePullBackOff")] })], "ControllerFailing", /ImagePullBackOff/],
    [
      "a bad file",
      [pod({ initContainerStatuses: [waiting("CrashLoopBackOff", { lastState: ended(3) })] })],
      "ControllerFailing",
      /status 3 \(its configuration can't be used\); see kubectl logs main-controller-0 -c controller/,
    ],
    [
      "a first failure",
      [pod({ initContainerStatuses: [{ name: "init", state: ended(4) }] })],
      "ControllerStarting",
      /status 4 \(the database belongs to another controller\)/,
    ],
    [
      "what it said last",
      [
        pod({
          initContainerStatuses: [
            {
              name: "init",
              state: { terminated: { exitCode: 1, message: "starting\ncontroller: no such host db\n" } },
            },
          ],
        }),
      ],
      "ControllerStarting",
      /ended with status 1: controller: no such host db and is started again/,
    ],
    [
      "an init container that is done",
      [
        pod({
          initContainerStatuses: [{ name: "init", state: ended(0) }],
          containerStatuses: [{ name: "controller" }],
        }),
      ],
      "ControllerStarting",
      /is starting/,
    ],
  ])("%s", (_name, pods, reason, message) => {
    const problem = rolloutProblem(workload({}), pods);
    expect(problem?.reason).toBe(reason);
    expect(problem?.message).toMatch(message);
  });

  test("what is in the way of a pod counts before what the pod says, and not any more when it is ready", () => {
    const blockedReason = { reason: "VolumePending", message: "the volume can't be had" } as const;
    const expected = { reason: "ControllerFailing", message: blockedReason.message, isStalled: true };
    expect(rolloutProblem(workload({}), [pod({})], blockedReason)).toEqual(expected);
    const done = workload({ observedGeneration: 2, readyReplicas: 1, updatedReplicas: 1 });
    expect(rolloutProblem(done, [pod({})], blockedReason)).toBeUndefined();
  });

  test("a ready pod is enough, whatever it went through", () => {
    const done = workload({ observedGeneration: 2, readyReplicas: 1, updatedReplicas: 1 });
    expect(rolloutProblem(done, [pod({ containerStatuses: [waiting("CrashLoopBackOff")] })])).toBeUndefined();
  });
});
