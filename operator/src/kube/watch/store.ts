import type { KubeObject, ObjectKey } from "../kinds.ts";
import { keyOf } from "../kinds.ts";

/** What a reflector knows at this moment. Objects in it are shared: callers must not change them. */
export interface ReadonlyStore<T extends KubeObject> {
  get(key: ObjectKey): T | undefined;
  has(key: ObjectKey): boolean;
  values(): Iterable<T>;
  keys(): Iterable<ObjectKey>;
  readonly size: number;
}

/** A change of one object. `previous` is what the store held; it is absent for an object that is new, also for one that was recreated under an old name. */
export type Change<T> =
  | { readonly type: "set"; readonly object: T; readonly previous?: T }
  | { readonly type: "delete"; readonly object: T; readonly previous?: T };

/** The objects of a kind by key. Every method answers the changes that it made, in order; an object that did not change makes none. */
export class ObjectStore<T extends KubeObject> implements ReadonlyStore<T> {
  readonly #objects = new Map<ObjectKey, T>();

  get size(): number {
    return this.#objects.size;
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key);
  }

  has(key: ObjectKey): boolean {
    return this.#objects.has(key);
  }

  values(): Iterable<T> {
    return this.#objects.values();
  }

  keys(): Iterable<ObjectKey> {
    return this.#objects.keys();
  }

  /** The same name with another uid is another object: what was there is deleted first. */
  set(object: T): Change<T>[] {
    const key = keyOf(object);
    const previous = this.#objects.get(key);
    if (previous === undefined) {
      this.#objects.set(key, object);
      return [{ type: "set", object }];
    }
    if (previous.metadata.uid !== object.metadata.uid) {
      this.#objects.set(key, object);
      return [
        { type: "delete", object: previous, previous },
        { type: "set", object },
      ];
    }
    if (previous.metadata.resourceVersion === object.metadata.resourceVersion) return [];
    this.#objects.set(key, object);
    return [{ type: "set", object, previous }];
  }

  /** `object` is the last state of what was deleted; of another uid than the stored one it says nothing about that. */
  delete(object: T): Change<T>[] {
    const key = keyOf(object);
    const previous = this.#objects.get(key);
    if (previous === undefined || previous.metadata.uid !== object.metadata.uid) return [];
    this.#objects.delete(key);
    return [{ type: "delete", object, previous }];
  }

  /** Everything that there is in `namespace` (everywhere when absent): what is not among it has vanished. */
  replace(objects: readonly T[], namespace?: string): Change<T>[] {
    const kept = new Set(objects.map(keyOf));
    const changes: Change<T>[] = [];
    for (const [key, object] of this.#objects) {
      if (kept.has(key) || (namespace !== undefined && object.metadata.namespace !== namespace)) continue;
      this.#objects.delete(key);
      changes.push({ type: "delete", object, previous: object });
    }
    for (const object of objects) changes.push(...this.set(object));
    return changes;
  }
}
