/**
 * Which names and addresses a cluster has. Each has a slot of its own: twenty bits of 198.18.0.0/15, the range that is kept
 * for measuring networks and that no machine has a route to. A pure function of the slot, so that several never meet.
 *
 * | within the /20 | what |
 * |---|---|
 * | .0.1, .0.2 | the two ends of the cable between the machine and the cluster |
 * | .0.10 | the API server |
 * | .0.11 … .0.18 | the nodes |
 * | .1.0/24 | the containers of an engine, where the cluster is in one |
 * | .3.0/24 | what Services of the type LoadBalancer are given |
 * | .4.0/22 | Services; .4.1 is the API server's, .4.10 that of the name server |
 * | .8.0/24 … .15.0/24 | the pods of each node |
 */
export const SLOTS = 32;
export const MAX_NODES = 8;

export interface Addresses {
  readonly slot: number;
  /** The machine's end of the cable: what pods reach the test by. */
  readonly machine: string;
  readonly box: string;
  /** All of it, as CIDR. */
  readonly network: string;
  /** The containers of an engine, as CIDR. */
  readonly containers: string;
  readonly controlPlane: string;
  readonly services: string;
  /** The addresses for Services of the type LoadBalancer. */
  readonly balanced: readonly string[];
  readonly kubernetesService: string;
  readonly nameServer: string;
  readonly pods: string;
  /** Address of the node with this number, from 1 on. */
  node(number: number): string;
  /** The pods of the node with this number, as CIDR. */
  podsOf(number: number): string;
}

export function addressesOf(slot: number): Addresses {
  if (!Number.isInteger(slot) || slot < 0 || slot >= SLOTS)
    throw new RangeError(`expected a slot of 0 to ${SLOTS - 1}, got ${slot}`);
  const at = (offset: number): string => `198.${18 + (slot >> 4)}.${(slot & 15) * 16 + (offset >> 8)}.${offset & 255}`;
  const numbered = (number: number): number => {
    if (!Number.isInteger(number) || number < 1 || number > MAX_NODES)
      throw new RangeError(`expected a node of 1 to ${MAX_NODES}, got ${number}`);
    return number;
  };
  return {
    slot,
    machine: at(1),
    box: at(2),
    network: `${at(0)}/20`,
    containers: `${at(256)}/24`,
    controlPlane: at(10),
    balanced: Array.from({ length: 250 }, (_, i) => at(3 * 256 + 1 + i)),
    services: `${at(4 * 256)}/22`,
    kubernetesService: at(4 * 256 + 1),
    nameServer: at(4 * 256 + 10),
    pods: `${at(8 * 256)}/21`,
    node: (number) => at(10 + numbered(number)),
    podsOf: (number) => `${at((7 + numbered(number)) * 256)}/24`,
  };
}
