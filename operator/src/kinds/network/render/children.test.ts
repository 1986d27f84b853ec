import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../../kube/kinds.ts";
import { managedNetwork } from "../testing/managed.ts";
import {
  renderCertificate,
  renderClaim,
  renderConfigMap,
  renderDisruptionBudget,
  renderReplicaService,
  renderService,
} from "./children.ts";
import { isChild } from "./names.ts";

type Json = Readonly<Record<string, unknown>>;
const specOf = (object: KubeObject | undefined): Json => (object as unknown as { readonly spec: Json }).spec;

describe("the other objects of a managed Network", () => {
  const { resource, managed } = managedNetwork();

  test("go with it, but for the volume", () => {
    for (const object of [renderService(resource, managed), renderConfigMap(resource, { "controller.yml": "v: 1" })]) {
      expect(object.metadata.ownerReferences).toEqual([
        expect.objectContaining({ kind: "Network", name: "main", uid: "u1", controller: true }),
      ]);
      expect(isChild(object, resource)).toBe(true);
    }
    const claim = renderClaim(resource, managed);
    expect(claim?.metadata.ownerReferences).toBeUndefined();
    expect(claim?.metadata.labels).not.toHaveProperty(["app.kubernetes.io/instance"]);
    expect(claim !== undefined && isChild(claim, resource)).toBe(true);
  });

  test("what another client has made is no child", () => {
    const owner = { apiVersion: "v1", kind: "Network", name: "main", uid: "other", controller: true };
    const object = (metadata: object) => ({ apiVersion: "v1", kind: "Secret", metadata: { name: "a", ...metadata } });
    const { labels } = renderConfigMap(resource, {}).metadata;
    expect(isChild(object({}), resource)).toBe(false);
    expect(isChild(object({ labels, ownerReferences: [owner] }), resource)).toBe(false);
    expect(isChild(object({ labels: { ...labels, "sallyport.dev/owner-name": "x" } }), resource)).toBe(false);
    expect(isChild(object({ labels }), resource)).toBe(true);
  });

  test("the Service has what the exposure says", () => {
    const given = managedNetwork({
      exposure: { type: "LoadBalancer", port: 443, annotations: { a: "b" }, externalTrafficPolicy: "Local" },
    });
    const service = renderService(given.resource, given.managed);
    expect(service.metadata.annotations).toEqual({ a: "b" });
    expect(specOf(service)).toMatchObject({
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      ports: [{ name: "api", port: 443, targetPort: "api" }],
    });
  });

  test("a certificate is asked for where an issuer is named", () => {
    expect(renderCertificate(resource, managed, "c.example")).toBeUndefined();
    const given = managedNetwork({ certificates: { issuerRef: { name: "le", kind: "ClusterIssuer" } } });
    expect(specOf(renderCertificate(given.resource, given.managed, "c.example"))).toMatchObject({
      secretName: "main-controller-certificate",
      dnsNames: ["c.example"],
      issuerRef: { name: "le", kind: "ClusterIssuer", group: "cert-manager.io" },
      privateKey: { rotationPolicy: "Never" },
    });
    expect(specOf(renderCertificate(given.resource, given.managed, "192.0.2.1"))).toMatchObject({
      ipAddresses: ["192.0.2.1"],
    });
  });
});

describe("the objects of several controllers", () => {
  const several = (exposure: object = {}, replicas = 3) =>
    managedNetwork({ replicas, database: { urlSecretRef: { name: "db", key: "uri" } }, exposure });

  test("a Service leads to one of them, ready or not", () => {
    const { resource, managed } = several({ type: "NodePort", hostname: "n.example", nodePort: 30_000 });
    const service = renderReplicaService(resource, managed, 1);
    expect(service.metadata.name).toBe("main-controller-1");
    expect(isChild(service, resource)).toBe(true);
    expect(specOf(service)).toMatchObject({
      type: "NodePort",
      publishNotReadyAddresses: true,
      selector: {
        "app.kubernetes.io/instance": "main",
        "statefulset.kubernetes.io/pod-name": "main-controller-1",
      },
      ports: [{ name: "api", port: 1280, targetPort: "api", nodePort: 30_002 }],
    });
    expect(specOf(renderService(resource, managed))).toMatchObject({ ports: [{ nodePort: 30_000 }] });
  });

  test("annotations with the shared name get the controller's own", () => {
    const annotations = { "external-dns.alpha.kubernetes.io/hostname": "main.example", "example.com/internal": "true" };
    const { resource, managed } = several({
      ...{ type: "LoadBalancer", hostname: "{name}.example", replicaHostname: "{name}-{ordinal}.example" },
      annotations,
    });
    expect(renderService(resource, managed).metadata.annotations).toEqual(annotations);
    expect(renderReplicaService(resource, managed, 0).metadata.annotations).toEqual({
      "external-dns.alpha.kubernetes.io/hostname": "main-0.example",
      "example.com/internal": "true",
    });
  });

  test("nodes are drained of one at a time; one alone keeps no node", () => {
    const { resource, managed } = several();
    expect(specOf(renderDisruptionBudget(resource, managed))).toMatchObject({
      maxUnavailable: 1,
      selector: { matchLabels: { "app.kubernetes.io/instance": "main" } },
    });
    const one = several({}, 1);
    expect(renderDisruptionBudget(one.resource, one.managed)).toBeUndefined();
  });
});
