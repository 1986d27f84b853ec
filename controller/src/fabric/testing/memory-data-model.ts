import { Listeners } from "@sallyport/async";
import type { DataModelChange, DataModelSource, PlacedState, StateOptions } from "../data-model/data-model-source.ts";

/** A data model that a test fills with whole messages. */
export class MemoryDataModel implements DataModelSource {
  index = 1n;
  timeline = "timeline";
  body = Buffer.from("state");
  /** What completes a state. */
  rest: readonly Buffer[] = [];
  users = 0;
  /** Changes after this index are kept. */
  keptFrom = 1n;
  readonly changes: DataModelChange[] = [];
  /** How states were asked for. */
  readonly wanted: StateOptions[] = [];
  /** Resolves before the model is ready. */
  loading: Promise<void> = Promise.resolve();
  readonly #listeners = new Listeners();

  async reach(): Promise<void> {}

  acquire(): void {
    this.users += 1;
  }

  release(): void {
    this.users -= 1;
  }

  async ready(): Promise<void> {
    await this.loading;
  }

  /** Adds a change and notifies the listeners. */
  change(text: string): void {
    this.index += 1n;
    this.changes.push({ index: this.index, body: Buffer.from(text) });
    this.#listeners.emit();
  }

  continues(timeline: string, index: bigint): boolean {
    return timeline === this.timeline || (timeline === `${this.timeline}/parts` && index >= 3n);
  }

  changesAfter(index: bigint): readonly DataModelChange[] | undefined {
    if (index < this.keptFrom || index > this.index) return undefined;
    return this.changes.filter((change) => change.index > index);
  }

  async state({ timeline = this.timeline, isWhole = false }: StateOptions = {}): Promise<PlacedState> {
    this.wanted.push({ timeline, isWhole });
    return {
      index: this.index,
      timeline: this.timeline,
      body: Buffer.concat([this.body, Buffer.from(` ${timeline}`)]),
      rest: this.rest,
    };
  }

  async validationRequest(fix: boolean): Promise<Buffer> {
    return Buffer.from(`validate ${fix}`);
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }
}
