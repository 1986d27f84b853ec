import { describe, expect, test } from "vitest";
import { edgeRouter } from "../testing/edge-router.ts";
import { type Flow, type Policy, passes } from "../testing/network-policy.ts";
import {
  disruptionBudget,
  edgeService,
  headlessService,
  networkPolicy,
  serviceAccount,
  serviceMonitor,
} from "./objects.ts";
import { statefulSet } from "./workload.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
type Any = any;

describe("the NetworkPolicy", () => {
  const rendered = (spec: object) =>
    (networkPolicy(edgeRouter({ networkPolicy: { enabled: true }, ...spec })) as unknown as { spec: Policy }).spec;
  /** The ports with names of the pods of a spec. */
  const portsOf = (spec: object): Record<string, number> => {
    const input = { ordinal: 0, id: "r", configHash: "h", image: "i", areControllersChosen: false, restart: undefined };
    const workload: Any = statefulSet(edgeRouter(spec), input);
    const ports: Any[] = workload.spec.template.spec.containers[0].ports;
    return Object.fromEntries(ports.flatMap(({ name, containerPort }) => (name ? [[name, containerPort]] : [])));
  };
  const pod = { namespace: { "kubernetes.io/metadata.name": "any" }, pod: { app: "any" } };
  const come = (port: number, peer: Flow["peer"] = pod, protocol: Flow["protocol"] = "TCP"): Flow => ({
    direction: "in",
    protocol,
    port,
    peer,
  });
  const go = (port: number, peer: Flow["peer"], protocol: Flow["protocol"] = "TCP"): Flow => ({
    direction: "out",
    protocol,
    port,
    peer,
  });
  // biome-ignore format: a table
  test.each<[string, object, Flow, boolean]>([
    ["clients of the cluster come in", {}, come(3022), true],
    ["clients from outside come in", {}, come(3022, "203.0.113.9"), true],
    ["by IPv6, too", {}, come(3022, "2001:db8::9"), true],
    ["to the port of the spec", { edge: { port: 4000 } }, come(4000), true],
    ["and no other", { edge: { port: 4000 } }, come(3022), false],
    ["no client comes to a router that is not exposed", { exposure: { type: "None" } }, come(3022), false],
    ["no client reads the health", {}, come(8081), false],
    ["nor the metrics from outside", { serviceMonitor: { enabled: true } }, come(8081, "203.0.113.9"), false],
    ["who scrapes comes from within", { serviceMonitor: { enabled: true } }, come(8081), true],
    ["clients of an offered service come in", { tunneler: { enabled: true, mode: "proxy", proxyServices: ["a:80", "b:53:udp"] } },
      come(53, pod, "UDP"), true],
    ["by its protocol only", { tunneler: { enabled: true, mode: "proxy", proxyServices: ["a:80", "b:53:udp"] } }, come(53), false],
    ["an offer without a tunneler opens nothing", { tunneler: { enabled: false, mode: "proxy", proxyServices: ["a:80"] } }, come(80), false],
    ["controllers and routers outside are dialled", {}, go(1280, "198.51.100.1"), true],
    ["also in the cluster", {}, go(1280, pod), true],
    ["by IPv6, too, out", {}, go(1280, "2001:db8::1"), true],
    ["services outside are reached", {}, go(5432, "10.0.0.7", "TCP"), true],
    ["datagrams as well", {}, go(514, "10.0.0.7", "UDP"), true],
    ["names are asked for at pods", {}, go(53, pod, "UDP"), true],
    ["and at the resolver of the node", {}, go(53, "169.254.20.10", "UDP"), true],
    ["the cloud's metadata is out of reach", {}, go(80, "169.254.169.254"), false],
    ["by IPv6, too, it is", {}, go(80, "fe80::a9fe:a9fe"), false],
  ])("%s", (_name, spec, flow, wanted) => expect(passes(rendered(spec), flow, portsOf(spec))).toBe(wanted));

  test("of a port that is being changed lets in who comes to pods of either template", () => {
    const [old, next] = [{}, { edge: { port: 4000 } }];
    expect(passes(rendered(next), come(3022), portsOf(old))).toBe(true);
    expect(passes(rendered(next), come(4000), portsOf(next))).toBe(true);
  });

  test("selects the pods of this EdgeRouter, and is there only when it is asked for", () => {
    expect(networkPolicy(edgeRouter())).toBeUndefined();
    expect(rendered({})).toMatchObject({
      podSelector: { matchLabels: { "app.kubernetes.io/instance": "eu", "app.kubernetes.io/name": "edge-router" } },
    });
  });
});

describe("Services", () => {
  const service = (exposure: object): Any => edgeService(edgeRouter({ exposure }), 1);
  // biome-ignore format: a table
  test.each<[string, object, object | undefined]>([
    ["ClusterIP", {}, { type: "ClusterIP", ports: [{ name: "edge", port: 3022, targetPort: "edge", protocol: "TCP" }] }],
    [
      "LoadBalancer",
      { type: "LoadBalancer", port: 443, externalTrafficPolicy: "Local", loadBalancerClass: "x/y", loadBalancerSourceRanges: ["192.0.2.0/24"] },
      {
        type: "LoadBalancer",
        ports: [{ port: 443 }],
        externalTrafficPolicy: "Local",
        loadBalancerClass: "x/y",
        loadBalancerSourceRanges: ["192.0.2.0/24"],
      },
    ],
    ["NodePort", { type: "NodePort", hostname: "x", nodePort: 30_000 }, { type: "NodePort", ports: [{ nodePort: 30_001 }] }],
    ["HostPort", { type: "HostPort" }, undefined],
    ["None", { type: "None" }, undefined],
  ])("%s", (_name, exposure, spec) => {
    const made = service(exposure);
    if (spec === undefined) expect(made).toBeUndefined();
    else
      expect(made).toMatchObject({
        metadata: { name: "eu-1-edge" },
        spec: { ...spec, selector: { "sallyport.dev/ordinal": "1" } },
      });
  });

  test("carry the annotations of the spec; the one of all pods names them before they are ready", () => {
    expect(service({ annotations: { a: "b" } }).metadata.annotations).toEqual({ a: "b" });
    expect(headlessService(edgeRouter())).toMatchObject({
      metadata: { name: "eu" },
      spec: { clusterIP: "None", publishNotReadyAddresses: true },
    });
  });
});

describe("other children", () => {
  test("are there when they are of use", () => {
    expect(serviceAccount(edgeRouter())).toMatchObject({ automountServiceAccountToken: false });
    expect(serviceAccount(edgeRouter({ template: { spec: { serviceAccountName: "x" } } }))).toBeUndefined();
    expect(disruptionBudget(edgeRouter())).toBeUndefined();
    expect(disruptionBudget(edgeRouter({ replicas: 2, podDisruptionBudget: { enabled: false } }))).toBeUndefined();
    expect(disruptionBudget(edgeRouter({ replicas: 2 }))).toMatchObject({
      spec: { maxUnavailable: 1, selector: { matchLabels: { "app.kubernetes.io/instance": "eu" } } },
    });
    expect(serviceMonitor(edgeRouter())).toBeUndefined();
    expect(
      serviceMonitor(edgeRouter({ serviceMonitor: { enabled: true, interval: "30s", labels: { release: "p" } } })),
    ).toMatchObject({
      metadata: { labels: { release: "p", "app.kubernetes.io/managed-by": "sallyport" } },
      spec: { endpoints: [{ port: "health", path: "/metrics", scheme: "https", interval: "30s" }] },
    });
  });
});
