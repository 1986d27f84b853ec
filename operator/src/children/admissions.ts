import type { KubeObject } from "../kube/kinds.ts";
import { type IsThere, isAsIntended, partOf } from "./intent.ts";
import { hashOf } from "./json-value.ts";

/** Hashes of one object each. What is forgotten costs one write that changes nothing. */
const MOST = 10_000;

/** By hashes: nothing of a Secret is kept. */
interface Known {
  readonly intended: string;
  readonly got: string;
}

/**
 * Remembers what admission made of our writes, such as images from another registry. That result counts as intended until it or the intent changes.
 * Without this the operator would write the object at every look, and a rollout would never end.
 */
export class Admissions {
  readonly #known = new Map<string, Known>();
  readonly #most: number;

  constructor(most = MOST) {
    this.#most = most;
  }

  readonly isThere: IsThere = (found, intended) => {
    if (found === undefined) return false;
    if (isAsIntended(found, intended)) return true;
    const known = this.#known.get(nameOf(intended));
    return known !== undefined && known.intended === hashOf(intended) && known.got === hashOf(partOf(found, intended));
  };

  /** `answer` is what the server made of a write of `intended`. True: this is news, and something else than was asked for. */
  wrote(intended: KubeObject, answer: KubeObject): boolean {
    const name = nameOf(intended);
    const before = this.#known.get(name);
    this.#known.delete(name);
    if (isAsIntended(answer, intended)) return false;
    const known = { intended: hashOf(intended), got: hashOf(partOf(answer, intended)) };
    this.#known.set(name, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > this.#most && oldest !== undefined) this.#known.delete(oldest);
    return before?.got !== known.got;
  }
}

const nameOf = ({ apiVersion, kind, metadata: { namespace, name } }: KubeObject): string =>
  `${apiVersion} ${kind} ${namespace}/${name}`;
