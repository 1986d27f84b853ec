import type { DataModelChange } from "../../fabric/data-model/data-model-source.ts";

const MAX_CHANGES = 10_000;
const MAX_CHANGE_BYTES = 32 * 1024 * 1024;

/** The newest changes of the model, kept for routers that come back. */
export class KeptChanges {
  #changes: DataModelChange[] = [];
  #bytes = 0;
  /** The changes after this index are kept. */
  #from = 0n;

  /** Forgets everything: only changes after `index` will be known. */
  restart(index: bigint): void {
    this.#changes = [];
    this.#bytes = 0;
    this.#from = index;
  }

  add(change: DataModelChange): void {
    this.#changes.push(change);
    this.#bytes += change.body.length;
    while (this.#changes.length > MAX_CHANGES || this.#bytes > MAX_CHANGE_BYTES) {
      const oldest = this.#changes.shift();
      if (oldest === undefined) break;
      this.#from = oldest.index;
      this.#bytes -= oldest.body.length;
    }
  }

  /** Oldest first; undefined when they are not all kept. */
  after(index: bigint): readonly DataModelChange[] | undefined {
    if (index < this.#from) return undefined;
    const known = this.#changes.findLastIndex((change) => change.index <= index);
    return this.#changes.slice(known + 1);
  }
}
