import { Listeners } from "@sallyport/async";
import type { ResourceKind } from "../kinds.ts";
import type { JsonMap } from "./json.ts";

/** One change in the history. */
export interface Change {
  readonly version: number;
  readonly kind: ResourceKind;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: JsonMap;
  readonly previous?: JsonMap;
}

/** Changes that are remembered; watches of older versions get 410. */
const HISTORY_LIMIT = 20_000;

/** What has changed in a fake API server, under one version that grows with every change. */
export class ChangeHistory {
  readonly #listeners = new Listeners<[change: Change]>();
  #changes: Change[] = [];
  #version = 1;
  #compacted = 0;

  /** Of the newest change. */
  get version(): number {
    return this.#version;
  }

  /** Versions up to this one are forgotten. */
  get compacted(): number {
    return this.#compacted;
  }

  add(change: Change): void {
    this.#version = change.version;
    this.#changes.push(change);
    if (this.#changes.length > HISTORY_LIMIT) this.#forget(HISTORY_LIMIT / 2);
    this.#listeners.emit(change);
  }

  /** Answers how to end it. */
  onChange(listener: (change: Change) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Changes after the version; undefined when they are forgotten. */
  since(version: number): readonly Change[] | undefined {
    return version < this.#compacted ? undefined : this.#changes.filter((change) => change.version > version);
  }

  /** Forgets everything. */
  compact(): void {
    this.#compacted = this.#version;
    this.#changes = [];
  }

  #forget(count: number): void {
    this.#compacted = this.#changes[count - 1]?.version ?? this.#compacted;
    this.#changes = this.#changes.slice(count);
  }
}
