import { describe, expect, test } from "vitest";
import { edgeRouter } from "../testing/edge-router.ts";
import {
  type AddressResult,
  addressOf,
  addressText,
  type FoundService,
  hostOf,
  NODE_ADDRESS,
  nextAdvertised,
} from "./address.ts";

const service = (more: object): FoundService => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "eu-1-edge" },
  ...more,
});
const balanced = (...ingress: object[]) => service({ status: { loadBalancer: { ingress } } });
const known = (host: string, port: number): AddressResult => ({ state: "known", address: { host, port } });

describe("the address of a router", () => {
  // biome-ignore format: a table
  test.each<[string, object, FoundService | undefined, AddressResult | { state: string; reason: string }]>([
    ["in the cluster", {}, undefined, known("eu-1-edge.edge.svc", 3022)],
    ["in a cluster with a name", { clusterDomain: "cluster.local" }, undefined, known("eu-1-edge.edge.svc.cluster.local", 3022)],
    ["in the cluster under a name and port of the spec", { hostname: "{name}-{ordinal}.{namespace}.example", port: 443 }, undefined,
      known("eu-1.edge.example", 443)],
    ["of a load balancer with a name", { type: "LoadBalancer" }, balanced({ hostname: "lb.example", ip: "192.0.2.1" }), known("lb.example", 3022)],
    ["of a load balancer with an address", { type: "LoadBalancer", port: 443 }, balanced({ hostname: "", ip: "192.0.2.1" }), known("192.0.2.1", 443)],
    ["of a load balancer that is not there yet", { type: "LoadBalancer" }, balanced(), { state: "waiting", reason: "WaitingForLoadBalancer" }],
    ["of a load balancer whose Service is not there yet", { type: "LoadBalancer" }, undefined,
      { state: "waiting", reason: "WaitingForLoadBalancer" }],
    ["of a load balancer, named by the spec: nothing is waited for", { type: "LoadBalancer", hostname: "eu-{ordinal}.example" }, undefined,
      known("eu-1.example", 3022)],
    ["at the nodes, by the port that the cluster gave", { type: "NodePort", hostname: "nodes.example" },
      service({ spec: { ports: [{ name: "edge", nodePort: 31_000 }] } }), known("nodes.example", 31_000)],
    ["at the nodes, by the port of the spec", { type: "NodePort", hostname: "nodes.example", nodePort: 30_000 }, undefined,
      known("nodes.example", 30_001)],
    ["at the nodes, behind something else", { type: "NodePort", hostname: "nodes.example", port: 443 }, undefined, known("nodes.example", 443)],
    ["at the nodes, before there is a port", { type: "NodePort", hostname: "nodes.example" }, service({}),
      { state: "waiting", reason: "WaitingForNodePort" }],
    ["of the node, which the pod knows", { type: "HostPort" }, undefined, known(NODE_ADDRESS, 3022)],
    ["of the node under a name", { type: "HostPort", hostname: "n{ordinal}.example", port: 443 }, undefined, known("n1.example", 443)],
    ["of one that no client dials", { type: "None" }, undefined, { state: "none" }],
  ])("%s", (_name, exposure, found, wanted) => {
    expect(addressOf(edgeRouter({ exposure }), 1, found)).toMatchObject(wanted);
  });

  test("is written with brackets where it is IPv6", () => {
    for (const host of ["a.example", "192.0.2.1", "2001:db8::1"])
      expect(hostOf(addressText({ host, port: 1 }))).toBe(host);
    expect(addressText({ host: "2001:db8::1", port: 443 })).toBe("[2001:db8::1]:443");
  });
});

describe("a change of the address", () => {
  const target = { host: "new.example", port: 443 };
  const at = (host: string, port: number, ...hosts: string[]) => ({
    address: { host, port },
    hosts,
    isChanging: host !== target.host,
  });
  // biome-ignore format: a table
  test.each<[string, string | undefined, readonly string[] | undefined, object]>([
    ["before the first start: at once", undefined, [], at("new.example", 443, "new.example")],
    ["before it is enrolled: at once", "old.example:3022", undefined, at("new.example", 443, "new.example")],
    ["of the port alone: at once", "new.example:3022", [], at("new.example", 443, "new.example")],
    ["of the host: first the name", "old.example:3022", ["old.example", "localhost"], at("old.example", 3022, "old.example", "new.example")],
    ["of an IPv6 address", "[2001:db8::1]:3022", ["2001:db8::1"], at("2001:db8::1", 3022, "2001:db8::1", "new.example")],
    ["of the host, once the certificate has the name", "old.example:3022", ["old.example", "NEW.example"], at("new.example", 443, "new.example")],
    ["from an address of the node, which the pod has put into its certificate", `${NODE_ADDRESS}:3022`, [], at("new.example", 443, "new.example")],
  ])("%s", (_name, current, names, wanted) => expect(nextAdvertised(target, current, names)).toEqual(wanted));

  test("comes to an end, and there stays", () => {
    const first = nextAdvertised(target, "old.example:3022", ["old.example"]);
    const second = nextAdvertised(target, addressText(first.address), [...first.hosts]);
    expect(second.isChanging).toBe(false);
    expect(nextAdvertised(target, addressText(second.address), [...first.hosts])).toEqual(second);
  });
});
