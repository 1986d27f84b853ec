import { isDeepStrictEqual } from "node:util";
import type { BaseStatus, Resource } from "@sallyport/resources";
import { conditionOf } from "../kube/conditions.ts";
import type { ObjectKey } from "../kube/kinds.ts";

type Looked = Resource<object, BaseStatus>;

/**
 * Whether a change of a resource is one that its own reconcile has to look at: everything but its status, which we write. A status that
 * another client changed counts, too: `isOwn` tells those apart.
 */
export function concernsItself(previous: Looked | undefined, next: Looked, isOwn: boolean): boolean {
  if (previous === undefined) return true;
  const [before, after] = [previous.metadata, next.metadata];
  if (before.generation !== after.generation || before.deletionTimestamp !== after.deletionTimestamp) return true;
  if (!isDeepStrictEqual(before.annotations, after.annotations)) return true;
  if (!isDeepStrictEqual(before.finalizers, after.finalizers)) return !isOwn;
  return !isOwn && !isDeepStrictEqual(previous.status, next.status);
}

/** Whether a change of a resource matters to those that refer to it: that it goes, its ids in the network, and of a Network whether it can be used. */
export function concernsReferrers(previous: Looked | undefined, next: Looked): boolean {
  if (previous === undefined) return true;
  if (previous.metadata.deletionTimestamp !== next.metadata.deletionTimestamp) return true;
  if (next.kind === "Network") {
    return previous.metadata.generation !== next.metadata.generation || readyOf(previous) !== readyOf(next);
  }
  return !isDeepStrictEqual(idsOf(previous), idsOf(next));
}

function readyOf({ status }: Looked): string {
  const ready = conditionOf(status.conditions, "Ready");
  return `${ready?.status} ${ready?.reason}`;
}

function idsOf({ status }: Looked): readonly (string | undefined)[] {
  const { id, routers = [] } = status as { id?: string; routers?: readonly { id?: string }[] };
  return [id, ...routers.map((router) => router.id)];
}

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
