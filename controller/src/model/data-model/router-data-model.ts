import { Listeners, SerialQueue } from "@sallyport/async";
import {
  type DataModelChange,
  type DataModelSource,
  type DataModelState,
  DataModelTooLargeError,
  MAX_WHOLE_STATE,
  type PlacedState,
  type StateOptions,
} from "../../fabric/data-model/data-model-source.ts";
import type { ChangeRow } from "../../store/change-log-reads.ts";
import type { ModelContext } from "../context.ts";
import { encodeChangeSet, encodeState, encodeValidation, isOnTimeline, MAX_STATE_BYTES } from "./encoding.ts";
import type { EncodedEvent } from "./events.ts";
import { DataModelImage, IMAGE_KINDS, type NetworkCertificates } from "./image.ts";
import { advancePosition, type Position, storePosition, withUnlogged } from "./position.ts";

const KINDS: ReadonlySet<string> = new Set(IMAGE_KINDS);
/** Changes that are kept for routers that come back. */
const MAX_CHANGES = 10_000;
const MAX_CHANGE_BYTES = 32 * 1024 * 1024;
/** Rows that wait to be worked on; with more, everything is loaded again. */
const MAX_ROWS = 50_000;
/** How long the image outlives its last user: routers that reconnect find it. */
const LINGER_MS = 10 * 60_000;
const UPKEEP_MS = 5_000;
/** Longest state that goes out in one message, to be compared with a router's: half of what may wait for a router. */
const MAX_TO_COMPARE = 16 * 1024 * 1024;
/** How often the position is stored although nothing of it has changed: so far back the log is read after a crash. */
const CHECKPOINT_MS = 5 * 60_000;

/**
 * The model of the network for routers. It follows the change log while any router asks for it, and costs nothing otherwise.
 *
 * The index counts transactions. It is stored, with its snapshot, before any router gets it: a router that has an index has everything up to it, also after
 * this process was killed. Source: docs/protocol/data-model.md, "Index".
 */
export class RouterDataModel implements DataModelSource {
  readonly #ctx: ModelContext;
  readonly #certificates: () => NetworkCertificates;
  readonly #listeners = new Listeners();
  #users = 0;
  #loaded: Promise<void> | undefined;
  #image: DataModelImage | undefined;
  #position: Position = { timeline: "", index: 0n, snapshot: "", unlogged: "" };
  #changes: DataModelChange[] = [];
  #changeBytes = 0;
  /** The changes after this index are kept. */
  #changesFrom = 0n;
  #states: { readonly index: bigint; readonly encoded: Map<number, Promise<DataModelState>> } | undefined;
  #rows: ChangeRow[] = [];
  #snapshot = "";
  /** One after the other: loading, applying, encoding. */
  readonly #work = new SerialQueue();
  #isDraining = false;
  #checkpointAt = 0;
  readonly #stops: (() => void)[] = [];
  #linger: NodeJS.Timeout | undefined;

  constructor(ctx: ModelContext, certificates: () => NetworkCertificates) {
    this.#ctx = ctx;
    this.#certificates = certificates;
  }

  get index(): bigint {
    return this.#position.index;
  }

  get timeline(): string {
    return this.#position.timeline;
  }

  acquire(): void {
    this.#users += 1;
    clearTimeout(this.#linger);
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => void this.close(), LINGER_MS).unref();
  }

  continues(timeline: string, index: bigint): boolean {
    return isOnTimeline(this.timeline, timeline, index);
  }

  changesAfter(index: bigint): readonly DataModelChange[] | undefined {
    if (this.#image === undefined || index < this.#changesFrom || index > this.index) return undefined;
    const known = this.#changes.findLastIndex((change) => change.index <= index);
    return this.#changes.slice(known + 1);
  }

  async state({ timeline: own, isWhole = false }: StateOptions = {}): Promise<PlacedState> {
    const maxBytes = isWhole ? MAX_WHOLE_STATE : MAX_STATE_BYTES;
    return this.#work.run(async () => {
      const { index, timeline } = this;
      const encode = (on: string) => encodeState(this.#loadedImage().events(), index, on, maxBytes);
      if (own !== undefined) return { ...(await encode(own)), timeline };
      if (this.#states?.index !== index) this.#states = { index, encoded: new Map() };
      const state = await this.#states.encoded.getOrInsertComputed(maxBytes, () => encode(timeline));
      return { ...state, timeline };
    });
  }

  async validationRequest(fix: boolean): Promise<Buffer> {
    const events = () => this.#loadedImage().events();
    const { body, rest } = await this.#work.run(() => encodeState(events(), this.index, this.timeline, MAX_TO_COMPARE));
    if (rest.length === 0) return encodeValidation(body, fix);
    throw new DataModelTooLargeError(
      `the model of this network has more than ${MAX_TO_COMPARE} bytes; routers are sent no more to compare theirs with`,
    );
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The certificates for routers may be others: who uses the model hears of it at once, and not only with the next look. */
  certificatesChanged(): void {
    if (this.#image !== undefined) this.#upkeep();
  }

  /** Forgets the image and stops following. It is loaded again at the next use. */
  async close(): Promise<void> {
    clearTimeout(this.#linger);
    for (const stop of this.#stops.splice(0)) stop();
    await this.#work.run(async () => {
      if (this.#image !== undefined) await this.#checkpoint().catch(() => undefined);
      this.#forget();
    });
  }

  async ready(): Promise<void> {
    if (this.#stops.length === 0) {
      const { changes } = this.#ctx.store;
      this.#stops.push(
        changes.subscribe({
          name: "router data model",
          onChanges: (rows, snapshot) => this.#arrived(rows, snapshot),
          onReset: () => this.#reset(),
        }),
      );
      const upkeep = setInterval(() => this.#upkeep(), UPKEEP_MS).unref();
      this.#stops.push(() => clearInterval(upkeep));
    }
    this.#loaded ??= this.#loading();
    await this.#loaded;
  }

  /** Loads everything in its turn; while that fails there is nothing to ask for. */
  #loading(): Promise<void> {
    const loading: Promise<void> = this.#work
      .run(() => this.#load())
      .catch((error: unknown) => {
        if (this.#loaded === loading) {
          this.#loaded = undefined;
          this.#image = undefined;
        }
        throw error;
      });
    return loading;
  }

  #loadedImage(): DataModelImage {
    if (this.#image !== undefined) return this.#image;
    throw new Error("the router data model was asked for its content and is not loaded");
  }

  async #load(): Promise<void> {
    const image = new DataModelImage(this.#ctx, this.#certificates);
    const { stored, position } = await this.#ctx.store.db
      .transaction()
      .setIsolationLevel("repeatable read")
      .execute(async (trx) => {
        const { stored, now } = await advancePosition(trx);
        await image.read(trx);
        return { stored, position: withUnlogged(now, image.unlogged()) };
      });
    await image.select();
    await storePosition(this.#ctx.store.db, position, stored);
    this.#image = image;
    this.#position = position;
    this.#changesFrom = position.index;
    this.#forgetEncoded();
    this.#checkpointAt = Date.now();
    this.#listeners.emit();
  }

  #forget(): void {
    this.#loaded = undefined;
    this.#image = undefined;
    this.#rows = [];
    this.#forgetEncoded();
  }

  #forgetEncoded(): void {
    this.#changes = [];
    this.#changeBytes = 0;
    this.#states = undefined;
  }

  /** Everything may have changed. Who has the model goes on with what it knows until it is loaded again. */
  #reset(): void {
    this.#rows = [];
    this.#snapshot = "";
    if (this.#loaded === undefined) return;
    this.#loaded = this.#loading();
    this.#loaded.catch((error: unknown) => {
      this.#ctx.log.error(
        { error: String(error) },
        "the router data model could not be loaded; it will be tried again",
      );
    });
  }

  #arrived(rows: readonly ChangeRow[], snapshot: string): void {
    this.#snapshot = snapshot;
    const relevant = rows.filter((row) => KINDS.has(row.kind));
    if (relevant.length === 0) return;
    this.#rows.push(...relevant);
    if (this.#rows.length > MAX_ROWS) this.#reset();
    else this.#drain();
  }

  #drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    // What arrives while it waits for its turn goes along.
    void this.#work
      .run(async () => {
        this.#isDraining = false;
        const rows = this.#rows;
        const snapshot = this.#snapshot;
        this.#rows = [];
        if (rows.length === 0 || this.#image === undefined) return;
        const transactions = new Set(rows.map((row) => row.xid)).size;
        await this.#advance(await this.#image.apply(rows), snapshot, BigInt(transactions));
      })
      .catch((error: unknown) => {
        this.#isDraining = false;
        const message = "a change could not be given to routers; the model is loaded again";
        this.#ctx.log.error({ error: String(error) }, message);
        this.#reset();
      });
  }

  /** Stores the new position first, then notifies the listeners. */
  async #advance(events: readonly EncodedEvent[], snapshot: string, transactions: bigint): Promise<void> {
    if (events.length === 0) return;
    const position = {
      ...this.#position,
      index: this.index + transactions,
      snapshot: snapshot || this.#position.snapshot,
      unlogged: this.#loadedImage().unlogged(),
    };
    await storePosition(this.#ctx.store.db, position, this.#position);
    const change = { index: position.index, body: encodeChangeSet(events, position.index) };
    this.#position = position;
    this.#states = undefined;
    this.#changes.push(change);
    this.#changeBytes += change.body.length;
    while (this.#changes.length > MAX_CHANGES || this.#changeBytes > MAX_CHANGE_BYTES) {
      const oldest = this.#changes.shift();
      if (oldest === undefined) break;
      this.#changesFrom = oldest.index;
      this.#changeBytes -= oldest.body.length;
    }
    this.#listeners.emit();
  }

  /** What changes without a row of the log: certificates of the controller, and the end of a time. */
  #upkeep(): void {
    if (this.#users > 0 && this.#loaded === undefined) {
      void this.ready().catch(() => undefined);
      return;
    }
    void this.#work
      .run(async () => {
        const image = this.#image;
        if (image === undefined) return;
        // Routers that come together share one state; it is not kept for those that come much later.
        this.#states = undefined;
        const enabled = image.enabledAgain(this.#ctx.now()).map((key) => ({ kind: "identity", key }));
        const events = [...(enabled.length === 0 ? [] : await image.apply(enabled)), ...(await image.refreshKeys())];
        await this.#advance(events, "", 1n);
        if (Date.now() - this.#checkpointAt > CHECKPOINT_MS) await this.#checkpoint();
      })
      .catch((error: unknown) => {
        this.#ctx.log.warn({ error: String(error) }, "the upkeep of the router data model failed; it is loaded again");
        // The image may hold changes that were not sent to routers.
        this.#reset();
      });
  }

  /** Nothing that concerns routers lies between the position and the newest snapshot once every row is worked on. */
  async #checkpoint(): Promise<void> {
    this.#checkpointAt = Date.now();
    if (this.#rows.length > 0 || this.#snapshot === "") return;
    const position = { ...this.#position, snapshot: this.#snapshot };
    await storePosition(this.#ctx.store.db, position, this.#position);
    this.#position = position;
  }
}
