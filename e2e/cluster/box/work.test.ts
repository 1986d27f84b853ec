/** What the small controllers of the cluster do, as tables; cluster.test.ts sees them do it. */
import { describe, expect, test } from "vitest";
import { balancerWork, type Service } from "./load-balancers.ts";
import { type Policy, type PolicyPod, ruleset } from "./network-policies.ts";
import { type Claim, type Volume, volumeWork } from "./volumes.ts";

describe("volumes", () => {
  const claim = (changes: { annotations?: Record<string, string>; spec?: object }): Claim => ({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: "data",
      namespace: "web",
      uid: "u1",
      annotations: changes.annotations ?? { "volume.kubernetes.io/selected-node": "node2" },
    },
    spec: {
      storageClassName: "standard",
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "1Gi" } },
      ...changes.spec,
    },
  });
  const made = (claims: Claim[], volumes: Volume[] = []) => volumeWork(claims, volumes, "/volumes").make;

  test("one is made where the pod will be, for that claim alone", () => {
    expect(made([claim({})])).toMatchObject([
      {
        metadata: { name: "pvc-u1" },
        spec: {
          capacity: { storage: "1Gi" },
          claimRef: { name: "data", namespace: "web", uid: "u1" },
          local: { path: "/volumes/pvc-u1" },
          nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ values: ["node2"] }] }] } },
        },
      },
    ]);
  });

  test("one is made for a user's class of the same provisioner", () => {
    const annotations = {
      "volume.kubernetes.io/selected-node": "node2",
      "volume.kubernetes.io/storage-provisioner": "cluster.sallyport.test/folders",
    };
    const volumes = made([claim({ annotations, spec: { storageClassName: "fast" } })]);
    expect(volumes).toMatchObject([{ spec: { storageClassName: "fast" } }]);
  });

  test.each([
    ["no pod wants it yet", claim({ annotations: {} })],
    ["it has a volume", claim({ spec: { volumeName: "other" } })],
    ["it is another's class", claim({ spec: { storageClassName: "fast" } })],
  ])("none is made when %s", (_, it) => {
    expect(made([it])).toEqual([]);
  });

  test.each([
    ["grows with its claim", "Bound", "512Mi", true],
    ["that is large enough stays", "Bound", "1Gi", false],
    ["stays until it is bound", "Pending", "512Mi", false],
  ])("one %s", (_, phase, has, isGrown) => {
    const [volume] = made([claim({})]);
    if (volume === undefined) throw new Error("expected a volume");
    const bound = { ...claim({ spec: { volumeName: "pvc-u1" } }), status: { phase, capacity: { storage: has } } };
    expect(volumeWork([bound], [volume], "/volumes").grow).toEqual(isGrown ? [[bound, volume]] : []);
  });

  test("one that is there is not made again, and is removed once its claim is gone, unless another provisioner made it", () => {
    const [volume] = made([claim({})]);
    if (volume === undefined) throw new Error("expected a volume");
    expect(made([claim({})], [volume])).toEqual([]);
    const released = { ...volume, status: { phase: "Released" } };
    const foreign = { ...released, metadata: { name: "foreign" } };
    expect(volumeWork([], [released, foreign, { ...volume, status: { phase: "Bound" } }], "/volumes").remove).toEqual([
      released,
    ]);
  });
});

describe("load balancers", () => {
  const service = (name: string, type: string, ip?: string): Service => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { type },
    ...(ip !== undefined && { status: { loadBalancer: { ingress: [{ ip }] } } }),
  });
  const work = (...services: Service[]) =>
    balancerWork(services, ["a", "b"]).map(([{ metadata }, address]) => [metadata.name, address]);

  test("each gets an address that no other has", () => {
    expect(work(service("has", "LoadBalancer", "a"), service("wants", "LoadBalancer"))).toEqual([["wants", "b"]]);
    expect(work(service("one", "LoadBalancer"), service("two", "LoadBalancer"))).toEqual([
      ["one", "a"],
      ["two", "b"],
    ]);
  });

  test("who is none any more gives it back, and others are left alone", () => {
    expect(work(service("was", "ClusterIP", "a"), service("never", "NodePort"))).toEqual([["was", undefined]]);
  });
});

describe("network policies", () => {
  const pod = (name: string, ip: string, phase = "Running"): PolicyPod => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "web", labels: { app: name } },
    spec: { containers: [{ ports: [{ name: "http", containerPort: 8080 }] }] },
    status: { podIP: ip, phase },
  });
  const pods = [pod("server", "10.0.0.1"), pod("client", "10.0.0.2"), pod("over", "10.0.0.3", "Succeeded")];
  const namespaces = [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "web", labels: { site: "here" } } }];
  const rules = (spec: Partial<Policy["spec"]>): string => {
    const policies = [
      {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: "policy", namespace: "web" },
        spec: { podSelector: { matchLabels: { app: "server" } }, policyTypes: ["Ingress"], ...spec },
      },
    ];
    const text = ruleset({ policies, pods, namespaces });
    return /chain ingress-10\.0\.0\.1 \{\n([\s\S]*?)^ {2}\}/m.exec(text)?.[1]?.replaceAll(/^ +/gm, "") ?? text;
  };
  const always = "ip saddr 10.0.0.1 return\n";

  test.each<[what: string, spec: Partial<Policy["spec"]>, expected: string]>([
    ["nothing", { ingress: [] }, "drop\n"],
    ["everything", { ingress: [{}] }, "return\ndrop\n"],
    [
      "pods of its own namespace",
      { ingress: [{ from: [{ podSelector: {} }] }] },
      "ip saddr 10.0.0.1 return\nip saddr 10.0.0.2 return\ndrop\n",
    ],
    ["a named port", { ingress: [{ ports: [{ port: "http" }] }] }, "tcp dport 8080 return\ndrop\n"],
    ["a name that no port has", { ingress: [{ ports: [{ port: "dns" }] }] }, "drop\n"],
    [
      "a range of ports",
      { ingress: [{ ports: [{ port: 10, endPort: 20, protocol: "UDP" }] }] },
      "udp dport 10-20 return\ndrop\n",
    ],
    ["a protocol", { ingress: [{ ports: [{ protocol: "SCTP" }] }] }, "meta l4proto sctp return\ndrop\n"],
    [
      "a block with a hole",
      { ingress: [{ from: [{ ipBlock: { cidr: "192.0.2.0/24", except: ["192.0.2.128/25"] } }] }] },
      "ip saddr 192.0.2.0/24 ip saddr != { 192.0.2.128/25 } return\ndrop\n",
    ],
    [
      "certain pods of certain namespaces",
      {
        ingress: [
          {
            from: [
              {
                namespaceSelector: { matchLabels: { site: "here" } },
                podSelector: { matchLabels: { app: "client" } },
              },
            ],
          },
        ],
      },
      "ip saddr 10.0.0.2 return\ndrop\n",
    ],
    [
      "pods of namespaces that there aren't",
      { ingress: [{ from: [{ namespaceSelector: { matchLabels: { site: "elsewhere" } } }] }] },
      "drop\n",
    ],
  ])("let in %s", (_, spec, expected) => {
    expect(rules(spec)).toBe(always + expected);
  });

  test("a pod that no policy selects is open", () => {
    expect(rules({ podSelector: { matchLabels: { app: "nobody" } } })).not.toContain("vmap");
  });
});
