import type { ObjectKey } from "../kube/kinds.ts";

/** Names one of our resources in the whole cluster. */
export interface Place {
  readonly kind: string;
  readonly key: ObjectKey;
}

const textOf = ({ kind, key }: Place): string => `${kind} ${key}`;

function placeOf(text: string): Place {
  const space = text.indexOf(" ");
  return { kind: text.slice(0, space), key: text.slice(space + 1) };
}

/** Who refers to whom, to be asked in both directions. What is referred to need not exist. */
export class ReferenceIndex {
  readonly #targets = new Map<string, ReadonlySet<string>>();
  readonly #sources = new Map<string, Set<string>>();

  /** `source` refers to exactly these from now on. */
  set(source: Place, targets: readonly Place[]): void {
    const from = textOf(source);
    const wanted = new Set(targets.map(textOf));
    for (const target of this.#targets.get(from) ?? []) if (!wanted.has(target)) this.#drop(target, from);
    for (const target of wanted) {
      const sources = this.#sources.get(target) ?? new Set();
      this.#sources.set(target, sources.add(from));
    }
    if (wanted.size === 0) this.#targets.delete(from);
    else this.#targets.set(from, wanted);
  }

  /** Who refers to it. */
  sourcesOf(target: Place): Place[] {
    return [...(this.#sources.get(textOf(target)) ?? [])].map(placeOf);
  }

  /** What it refers to. */
  targetsOf(source: Place): Place[] {
    return [...(this.#targets.get(textOf(source)) ?? [])].map(placeOf);
  }

  #drop(target: string, source: string): void {
    const sources = this.#sources.get(target);
    sources?.delete(source);
    if (sources?.size === 0) this.#sources.delete(target);
  }
}
