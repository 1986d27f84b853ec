import type { KubeObject, ObjectKey } from "../kube/kinds.ts";

/**
 * What this process wrote itself and the watch has not told yet: without it, a look that follows a write at once would see the state before the write and
 * repeat it.
 */
export class LatestObjects<T extends KubeObject> {
  readonly #written = new Map<ObjectKey, T>();

  /** `object` is the server's answer to a write of this process. */
  wrote(key: ObjectKey, object: T): void {
    // managedFields are most of an object, and the operator does not read them.
    const { managedFields: _, ...metadata } = object.metadata as T["metadata"] & { readonly managedFields?: unknown };
    this.#written.set(key, { ...object, metadata });
  }

  /** The watch told this state: what was written before it, or is the same, need not be kept any more. */
  watched(key: ObjectKey, watched: T): void {
    this.of(key, watched);
  }

  /** The newer one of what the watch told and what was written. */
  of(key: ObjectKey, watched: T): T {
    const written = this.#written.get(key);
    if (written === undefined) return watched;
    const isSame = written.metadata.uid === watched.metadata.uid;
    if (isSame && isNewer(written.metadata.resourceVersion, watched.metadata.resourceVersion)) return written;
    this.#written.delete(key);
    return watched;
  }

  /** Whether this state of the object is the one that was written last. */
  isOwn(key: ObjectKey, object: T): boolean {
    return this.#written.get(key)?.metadata.resourceVersion === object.metadata.resourceVersion;
  }

  forget(key: ObjectKey): void {
    this.#written.delete(key);
  }

  forgetWhere(isOver: (key: ObjectKey) => boolean): void {
    for (const key of this.#written.keys()) if (isOver(key)) this.#written.delete(key);
  }
}

const NUMBER = /^\d+$/;

/** Versions of one kind are numbers that grow; of a server where they are not, none is newer. */
export function isNewer(version: string | undefined, other: string | undefined): boolean {
  return NUMBER.test(version ?? "") && NUMBER.test(other ?? "") && BigInt(version ?? 0) > BigInt(other ?? 0);
}
