import { describe, expect, test } from "vitest";
import { managedNetwork } from "../testing/managed.ts";
import { advertisedAddress, areAssigned, type FoundService, replicaAddress, servicePort } from "./address.ts";

type Case = readonly [name: string, changes: object, service: FoundService | undefined, expected: object];

const lb = (ingress: object): FoundService => ({ status: { loadBalancer: { ingress: [ingress] } } });
const known = (host: string, port: number) => ({ address: { host, port } });
const waiting = (reason: string) => ({ waiting: expect.objectContaining({ reason }) });

// biome-ignore format: a table
const CASES: readonly Case[] = [
  ["the Service's name", {}, undefined, known("main-controller.default.svc", 1280)],
  ["with the cluster's domain", { exposure: { clusterDomain: "cluster.local" } }, undefined,
    known("main-controller.default.svc.cluster.local", 1280)],
  ["another port", { port: 6262 }, undefined, known("main-controller.default.svc", 6262)],
  ["an advertised port", { exposure: { port: 443 } }, undefined, known("main-controller.default.svc", 443)],
  ["a name of one's own", { exposure: { hostname: "{name}.{namespace}.example" } }, undefined, known("main.default.example", 1280)],
  ["a load balancer that is to come", { exposure: { type: "LoadBalancer" } }, {}, waiting("WaitingForLoadBalancer")],
  ["a load balancer's name", { exposure: { type: "LoadBalancer" } }, lb({ hostname: "lb.example", ip: "" }), known("lb.example", 1280)],
  ["a load balancer's address", { exposure: { type: "LoadBalancer" } }, lb({ ip: "192.0.2.1" }), known("192.0.2.1", 1280)],
  ["a load balancer under a name of one's own", { exposure: { type: "LoadBalancer", hostname: "c.example" } }, undefined, known("c.example", 1280)],
  ["a node port that is to come", { exposure: { type: "NodePort", hostname: "n.example" } }, undefined, waiting("WaitingForNodePort")],
  ["a node port that was given", { exposure: { type: "NodePort", hostname: "n.example" } }, { spec: { ports: [{ name: "api", nodePort: 30_001 }] } },
    known("n.example", 30_001)],
  ["a node port that was asked for", { exposure: { type: "NodePort", hostname: "n.example", nodePort: 30_002 } }, undefined,
    known("n.example", 30_002)],
];

describe("the advertised address", () => {
  test.each(CASES)("%s", (_name, changes, service, expected) => {
    const { resource, managed } = managedNetwork(changes as Readonly<Record<string, unknown>>);
    expect(advertisedAddress(resource, managed, service)).toEqual(expected);
  });

  test("the Service listens where clients dial, but behind a node port", () => {
    expect(servicePort(managedNetwork({ exposure: { port: 443 } }).managed)).toBe(443);
    const nodePort = { exposure: { type: "NodePort", hostname: "n.example", port: 443 } };
    expect(servicePort(managedNetwork(nodePort).managed)).toBe(1280);
  });
});

const replicas = (exposure: object) =>
  managedNetwork({ replicas: 3, database: { urlSecretRef: { name: "db", key: "uri" } }, exposure });

// biome-ignore format: a table
const REPLICA_CASES: readonly (readonly [...Case, isAssigned?: boolean])[] = [
  ["the name of its Service", {}, undefined, known("main-controller-2.default.svc", 1280)],
  ["with the cluster's domain", { clusterDomain: "cluster.local" }, undefined, known("main-controller-2.default.svc.cluster.local", 1280)],
  ["a name of one's own", { replicaHostname: "{name}-{ordinal}.{namespace}.example", port: 443 }, undefined, known("main-2.default.example", 443)],
  ["a load balancer that is to come", { type: "LoadBalancer" }, {}, waiting("WaitingForLoadBalancer"), true],
  ["a load balancer's name", { type: "LoadBalancer" }, lb({ hostname: "lb-2.example" }), known("lb-2.example", 1280), true],
  ["a load balancer under a name of one's own", { type: "LoadBalancer", hostname: "c.example", replicaHostname: "c-{ordinal}.example" }, undefined, known("c-2.example", 1280)],
  ["a node port that is to come", { type: "NodePort", hostname: "n.example" }, undefined, waiting("WaitingForNodePort"), true],
  ["a node port that was given", { type: "NodePort", hostname: "n.example" }, { spec: { ports: [{ name: "api", nodePort: 30_007 }] } },
    known("n.example", 30_007), true],
  ["a node port that was asked for", { type: "NodePort", hostname: "n.example", nodePort: 30_002 }, undefined, known("n.example", 30_005)],
  ["a node under a name for each", { type: "NodePort", hostname: "n.example", replicaHostname: "n-{ordinal}.example", port: 443 }, undefined,
    known("n-2.example", 443)],
];

describe("the address of one of several controllers", () => {
  test.each(REPLICA_CASES.map((each) => [each[0], each] as const))("%s", (_name, given) => {
    const [, exposure, service, expected, isAssigned = false] = given;
    const { resource, managed } = replicas(exposure);
    expect(replicaAddress(resource, managed, 2, service)).toEqual(expected);
    expect(areAssigned(managed)).toBe(isAssigned);
  });
});
