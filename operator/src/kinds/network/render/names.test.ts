import { describe, expect, test } from "vitest";
import { managedNetwork } from "../testing/managed.ts";
import { advertisedAddress, type FoundService, servicePort } from "./names.ts";

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
