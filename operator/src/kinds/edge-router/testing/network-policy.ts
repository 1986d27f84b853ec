import { BlockList, isIP } from "node:net";

/** One connection of a pod that the policy selects. */
export interface Flow {
  readonly direction: "in" | "out";
  readonly protocol: "TCP" | "UDP";
  readonly port: number;
  /** The other end: an address outside of the cluster, or a pod of it. */
  readonly peer:
    | string
    | { readonly namespace: Readonly<Record<string, string>>; readonly pod: Readonly<Record<string, string>> };
}

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
}

interface Peer {
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
  readonly namespaceSelector?: Selector;
  readonly podSelector?: Selector;
}

interface Rule {
  readonly from?: readonly Peer[];
  readonly to?: readonly Peer[];
  readonly ports?: readonly { readonly protocol: string; readonly port: number | string }[];
}

export interface Policy {
  readonly policyTypes: readonly string[];
  readonly ingress?: readonly Rule[];
  readonly egress?: readonly Rule[];
}

/**
 * Whether a policy, which is the only one that selects the pod, lets a connection pass; as Kubernetes defines it. `named`: the ports of the pod that have a
 * name.
 */
export function passes(policy: Policy, flow: Flow, named: Readonly<Record<string, number>> = {}): boolean {
  const type = flow.direction === "in" ? "Ingress" : "Egress";
  if (!policy.policyTypes.includes(type)) return true;
  const rules = (flow.direction === "in" ? policy.ingress : policy.egress) ?? [];
  return rules.some(({ from, to, ports }) => {
    const peers = flow.direction === "in" ? from : to;
    const isPort =
      ports === undefined ||
      ports.some(({ protocol, port }) => protocol === flow.protocol && (named[port] ?? port) === flow.port);
    return isPort && (peers === undefined || peers.some((peer) => isPeer(peer, flow.peer)));
  });
}

function isPeer({ ipBlock, namespaceSelector, podSelector }: Peer, peer: Flow["peer"]): boolean {
  if (typeof peer === "string") {
    if (ipBlock === undefined) return false;
    return isIn(peer, ipBlock.cidr) && !(ipBlock.except ?? []).some((cidr) => isIn(peer, cidr));
  }
  if (ipBlock !== undefined) return false;
  return fits(namespaceSelector, peer.namespace) && fits(podSelector, peer.pod);
}

const fits = (selector: Selector | undefined, labels: Readonly<Record<string, string>>): boolean =>
  Object.entries(selector?.matchLabels ?? {}).every(([key, value]) => labels[key] === value);

function isIn(address: string, cidr: string): boolean {
  const [net = "", bits = ""] = cidr.split("/");
  const family = (text: string) => (isIP(text) === 6 ? "ipv6" : "ipv4");
  if (family(address) !== family(net)) return false;
  const list = new BlockList();
  list.addSubnet(net, Number(bits), family(net));
  return list.check(address, family(address));
}
