import { DestinationType } from "@sallyport/wire";
import type { Circuit, Forward } from "../forwarder/circuit.ts";
import { type Histogram, MeanSamples } from "./histogram.ts";

/**
 * The ways of payloads through a router: from (`rx`) and to (`tx`) the client that began a circuit here (`ingress`), the
 * host that it leads to here (`egress`), and other routers (`fabric`).
 */
const TRAFFIC_KINDS = ["ingress.rx", "ingress.tx", "egress.rx", "egress.tx", "fabric.rx", "fabric.tx"] as const;
export type TrafficKind = (typeof TRAFFIC_KINDS)[number];

/** The kinds that a direction of a circuit counts for: where its payloads come from, and where they go. */
export function kindsOf(circuit: Circuit, forward: Forward): readonly [from: TrafficKind, to: TrafficKind] {
  const back = circuit.forwards.find((other) => other.target === forward.source);
  return [`${sideOf(back?.leadsTo)}.rx`, `${sideOf(forward.leadsTo)}.tx`];
}

function sideOf(type: number | undefined): "ingress" | "egress" | "fabric" {
  if (type === DestinationType.Start) return "ingress";
  return type === DestinationType.End ? "egress" : "fabric";
}

const SIDES = ["ingress.rx", "ingress.tx", "egress.rx", "egress.tx"] as const;

interface Sum {
  payloads: number;
  bytes: number;
}

/** Sums over all circuits that there are and were, of payloads that passed for the first time. */
export class Traffic {
  readonly #circuits: () => Iterable<Circuit>;
  readonly #gone = sums();
  readonly #sizes = new Map(SIDES.map((side) => [side, new MeanSamples()] as const));

  constructor(circuits: () => Iterable<Circuit>) {
    this.#circuits = circuits;
  }

  /** A circuit is no longer among the circuits. */
  ended(circuit: Circuit): void {
    add(this.#gone, circuit);
  }

  /** Those of the local sides; what goes over links is counted by link. */
  *totals(): Iterable<readonly [name: string, total: number]> {
    const all = new Map([...this.#gone].map(([kind, sum]) => [kind, { ...sum }] as const));
    for (const circuit of this.#circuits()) add(all, circuit);
    for (const [side, sizes] of this.#sizes) {
      const { payloads, bytes } = all.get(side) ?? { payloads: 0, bytes: 0 };
      sizes.look(payloads, bytes);
      yield [`${side}.msgrate`, payloads];
      yield [`${side}.bytesrate`, bytes];
    }
  }

  *histograms(): Iterable<readonly [name: string, histogram: Histogram]> {
    for (const [side, { histogram }] of this.#sizes) yield [`${side}.msgsize`, histogram];
  }
}

function sums(): Map<TrafficKind, Sum> {
  return new Map(TRAFFIC_KINDS.map((kind) => [kind, { payloads: 0, bytes: 0 }]));
}

function add(all: ReadonlyMap<TrafficKind, Sum>, circuit: Circuit): void {
  for (const forward of circuit.forwards) {
    for (const kind of kindsOf(circuit, forward)) {
      const sum = all.get(kind);
      if (sum === undefined) continue;
      sum.payloads += forward.payloads;
      sum.bytes += forward.bytes;
    }
  }
}
