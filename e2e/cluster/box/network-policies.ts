/**
 * NetworkPolicies are kept to: as rules of the kernel's filter, which every packet from or to a pod passes. What the node
 * itself sends (probes) always comes in; what is connected stays connected when a policy changes; a new pod is open for
 * the moment until its address is known.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { type LabelSelector, type Labels, selects } from "./label-selector.ts";
import { type Found, keepUp } from "./rounds.ts";

interface Labelled extends KubeObject {
  readonly metadata: KubeObject["metadata"] & { readonly labels?: Labels };
}

export interface PolicyPod extends Labelled {
  readonly spec: {
    readonly hostNetwork?: boolean;
    readonly containers: readonly {
      readonly ports?: readonly {
        readonly name?: string;
        readonly containerPort: number;
        readonly protocol?: string;
      }[];
    }[];
  };
  readonly status?: { readonly podIP?: string; readonly phase?: string };
}

interface Port {
  readonly protocol?: string;
  readonly port?: number | string;
  readonly endPort?: number;
}

interface Peer {
  readonly podSelector?: LabelSelector;
  readonly namespaceSelector?: LabelSelector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

export interface Policy extends KubeObject {
  readonly spec: {
    readonly podSelector: LabelSelector;
    readonly policyTypes?: readonly string[];
    readonly ingress?: readonly { readonly from?: readonly Peer[]; readonly ports?: readonly Port[] }[];
    readonly egress?: readonly { readonly to?: readonly Peer[]; readonly ports?: readonly Port[] }[];
  };
}

export interface PolicyWorld {
  readonly policies: readonly Policy[];
  readonly pods: readonly PolicyPod[];
  readonly namespaces: readonly Labelled[];
}

const TABLE = "network-policies";

/** What `nft -f` is given: all rules at once, in place of the last ones. Pure. */
export function ruleset(world: PolicyWorld): string {
  const chains: string[] = [];
  const jumps = { saddr: [] as string[], daddr: [] as string[] };
  for (const pod of addressed(world.pods)) {
    for (const way of WAYS) {
      const policies = world.policies.filter(
        ({ metadata, spec }) =>
          metadata.namespace === pod.metadata.namespace &&
          spec.policyTypes?.includes(way.type) === true &&
          selects(spec.podSelector, pod.metadata.labels),
      );
      if (policies.length === 0) continue;
      const chain = `${way.type.toLowerCase()}-${pod.status.podIP}`;
      const allowed = policies.flatMap((policy) =>
        way.rules(policy).flatMap(({ peers, ports }) => permissions(world, policy, pod, way, peers, ports)),
      );
      // A pod is never cut off from itself.
      const rules = [`ip ${way.peer} ${pod.status.podIP}`, ...allowed].map((match) => `${match} return`.trim());
      chains.push(`  chain ${chain} {\n${[...rules, "drop"].map((rule) => `    ${rule}`).join("\n")}\n  }`);
      jumps[way.own].push(`${pod.status.podIP} : jump ${chain}`);
    }
  }
  const vmap = (address: "saddr" | "daddr"): string =>
    jumps[address].length === 0 ? "" : `    ip ${address} vmap { ${jumps[address].join(", ")} }\n`;
  const hook = (name: string, rules: string): string =>
    `  chain ${name} {\n    type filter hook ${name} priority 0; policy accept;\n    ct state established,related accept\n${rules}  }`;
  // What goes to a node, such as to the API server, is not forwarded.
  const hooks = [hook("forward", vmap("saddr") + vmap("daddr")), hook("input", vmap("saddr"))];
  return `table ip ${TABLE}\ndelete table ip ${TABLE}\ntable ip ${TABLE} {\n${[...chains, ...hooks].join("\n")}\n}\n`;
}

type Addressed = PolicyPod & { readonly status: { readonly podIP: string } };

/** The pods that have an address of their own. */
function addressed(pods: readonly PolicyPod[]): Addressed[] {
  const isOver = (phase = ""): boolean => phase === "Succeeded" || phase === "Failed";
  return pods.filter(
    (pod): pod is Addressed =>
      pod.status?.podIP !== undefined && pod.spec.hostNetwork !== true && !isOver(pod.status.phase),
  );
}

interface Way {
  readonly type: "Ingress" | "Egress";
  /** The address of a packet that is the pod's, and that of its peer. */
  readonly own: "saddr" | "daddr";
  readonly peer: "saddr" | "daddr";
  rules(policy: Policy): readonly { readonly peers: readonly Peer[]; readonly ports: readonly Port[] }[];
}

const WAYS: readonly Way[] = [
  {
    type: "Egress",
    own: "saddr",
    peer: "daddr",
    rules: ({ spec }) => (spec.egress ?? []).map(({ to = [], ports = [] }) => ({ peers: to, ports })),
  },
  {
    type: "Ingress",
    own: "daddr",
    peer: "saddr",
    rules: ({ spec }) => (spec.ingress ?? []).map(({ from = [], ports = [] }) => ({ peers: from, ports })),
  },
];

/** What packets one rule of a policy lets through, as matches of nft. */
function permissions(
  world: PolicyWorld,
  policy: Policy,
  pod: Addressed,
  way: Way,
  peers: readonly Peer[],
  ports: readonly Port[],
): string[] {
  const targets: { readonly match: string; readonly pod?: PolicyPod }[] =
    peers.length === 0 ? [{ match: "" }] : peers.flatMap((peer) => targetsOf(world, policy, way, peer));
  return targets.flatMap(({ match, pod: peer }) => {
    // A port is one of the pod that is connected to, and so is its name.
    const server = way.type === "Ingress" ? pod : peer;
    const matches = ports.length === 0 ? [""] : ports.flatMap((port) => portMatches(port, server));
    return matches.map((port) => `${match} ${port}`.trim());
  });
}

function targetsOf(world: PolicyWorld, policy: Policy, way: Way, peer: Peer) {
  if (peer.ipBlock !== undefined) {
    const { cidr, except = [] } = peer.ipBlock;
    const without = except.length === 0 ? "" : ` ip ${way.peer} != { ${except.join(", ")} }`;
    return [{ match: `ip ${way.peer} ${cidr}${without}` }];
  }
  const { namespaceSelector, podSelector = {} } = peer;
  const isIn = (namespace: string | undefined): boolean =>
    namespaceSelector === undefined
      ? namespace === policy.metadata.namespace
      : world.namespaces.some(
          ({ metadata }) => metadata.name === namespace && selects(namespaceSelector, metadata.labels),
        );
  return addressed(world.pods)
    .filter(({ metadata }) => isIn(metadata.namespace) && selects(podSelector, metadata.labels))
    .map((pod) => ({ match: `ip ${way.peer} ${pod.status.podIP}`, pod }));
}

function portMatches({ protocol = "TCP", port, endPort }: Port, server: PolicyPod | undefined): string[] {
  const of = protocol.toLowerCase();
  if (port === undefined) return [`meta l4proto ${of}`];
  if (typeof port === "number") return [`${of} dport ${endPort === undefined ? port : `${port}-${endPort}`}`];
  return (server?.spec.containers ?? [])
    .flatMap(({ ports = [] }) => ports)
    .filter((each) => each.name === port && (each.protocol ?? "TCP") === protocol)
    .map((each) => `${of} dport ${each.containerPort}`);
}

/** Keeps the rules as policies want them, until the signal. */
export async function keepPolicies(api: KubeApi, signal: AbortSignal): Promise<void> {
  let last = "";
  const collections = {
    policies: "/apis/networking.k8s.io/v1/networkpolicies",
    pods: "/api/v1/pods",
    namespaces: "/api/v1/namespaces",
  };
  type Kinds = { policies: Policy; pods: PolicyPod; namespaces: Labelled };
  const round = async (world: Found<Kinds>): Promise<void> => {
    const rules = ruleset(world);
    if (rules === last) return;
    await load(rules);
    last = rules;
  };
  await keepUp<Kinds>("network policies", api, collections, round, signal);
}

async function load(rules: string): Promise<void> {
  const nft = spawn("nft", ["-f", "-"], { stdio: ["pipe", "ignore", "pipe"] });
  let words = "";
  nft.stderr.setEncoding("utf8").on("data", (text: string) => {
    words += text;
  });
  nft.stdin.on("error", () => {});
  nft.stdin.end(rules);
  const [code] = await once(nft, "close");
  if (code !== 0) throw new Error(`nft refused the rules of the policies: ${words}\n${rules}`);
}
