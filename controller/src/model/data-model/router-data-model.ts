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
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { ModelContext } from "../context.ts";
import { encodeChangeSet, encodeState, encodeValidation, isOnTimeline, MAX_STATE_BYTES } from "./encoding.ts";
import type { EncodedEvent } from "./events.ts";
import { DataModelImage, IMAGE_KINDS, type NetworkCertificates } from "./image.ts";
import { KeptChanges } from "./kept-changes.ts";
import { advancePosition, type Position, readPosition, withUnlogged } from "./position.ts";
import {
  leadersPosition,
  MODEL_CHANGE,
  pruneSharedChanges,
  sharedChanges,
  storeChange,
  UnsharedEvents,
} from "./shared-changes.ts";

const KINDS: ReadonlySet<string> = new Set(IMAGE_KINDS);
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
  readonly #changes = new KeptChanges();
  /** Does this process make the changes? Otherwise it takes those of the leader. */
  #makes: boolean;
  /** Of a process that takes the leader's: the newest index that the log has told of, and what its image holds that may be in no change of the leader's. */
  #toldOf = 0n;
  readonly #unshared = new UnsharedEvents();
  #isLeading = false;
  #states: { readonly index: bigint; readonly encoded: Map<number, Promise<DataModelState>> } | undefined;
  #rows: ChangeRow[] = [];
  #snapshot = "";
  /** One after the other: loading, applying, encoding. */
  readonly #work = new SerialQueue();
  #isDraining = false;
  #checkpointAt = 0;
  readonly #stops: (() => void)[] = [];
  readonly #unlead: () => void;
  #linger: NodeJS.Timeout | undefined;

  constructor(ctx: ModelContext, certificates: () => NetworkCertificates) {
    this.#ctx = ctx;
    this.#certificates = certificates;
    const { replica } = ctx.store;
    this.#makes = !replica.isShared;
    this.#unlead = replica.onLeadership(() => this.#leadershipChanged());
    if (replica.isShared) this.#leadershipChanged();
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
    this.#linger = setTimeout(() => void this.#unload(), LINGER_MS).unref();
  }

  continues(timeline: string, index: bigint): boolean {
    return isOnTimeline(this.timeline, timeline, index);
  }

  async reach(index: bigint): Promise<void> {
    if (index <= this.index || !this.#ctx.store.replica.isShared) return;
    // From the database: no one waits until all know a change of the model.
    await this.#ctx.store.changes.wake();
    await this.#work.idle();
  }

  changesAfter(index: bigint): readonly DataModelChange[] | undefined {
    return this.#image === undefined || index > this.index ? undefined : this.#changes.after(index);
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

  /** Stops following. */
  async close(): Promise<void> {
    this.#unlead();
    await this.#unload();
  }

  /** Forgets the image and stops following. It is loaded again at the next use. */
  async #unload(): Promise<void> {
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
    const makes = this.#makes;
    const known = makes ? undefined : await leadersPosition(this.#ctx.store.db);
    const { stored, position } = await this.#ctx.store.db
      .transaction()
      .setIsolationLevel("repeatable read")
      .execute(async (trx) => {
        const now = known && ((await readPosition(trx)) ?? known);
        const at = now ? { stored: undefined, now } : await advancePosition(trx);
        await image.read(trx);
        return { ...at, position: makes ? withUnlogged(at.now, image.unlogged()) : at.now };
      });
    await image.select();
    if (makes) await storeChange(this.#ctx.store, position, stored, undefined);
    this.#image = image;
    this.#position = position;
    this.#unshared.clear();
    this.#changes.restart(position.index);
    this.#states = undefined;
    this.#checkpointAt = performance.now();
    this.#listeners.emit();
  }

  #forget(): void {
    this.#loaded = undefined;
    this.#image = undefined;
    this.#rows = [];
    this.#unshared.clear();
    this.#changes.restart(this.index);
    this.#states = undefined;
  }

  /** The leader always has the model: another process may have routers that need its changes. */
  #leadershipChanged(): void {
    const { isLeader } = this.#ctx.store.replica;
    if (isLeader === this.#isLeading) return;
    this.#isLeading = isLeader;
    if (isLeader) this.acquire();
    else this.release();
    void this.#work
      .run(async () => {
        this.#makes = isLeader;
        if (isLeader && this.#image !== undefined) await this.#takeOver();
      })
      .catch((error: unknown) => {
        this.#ctx.log.warn(
          { error: String(error) },
          "the router data model could not be taken over; it is loaded again",
        );
        this.#reset();
      })
      .then(() => (isLeader ? this.ready() : undefined))
      .catch(() => undefined);
  }

  /** Goes on where the former leader ended: what it made is taken first, and what it did not make of the log comes next. */
  async #takeOver(): Promise<void> {
    const { db, changes } = this.#ctx.store;
    await changes.wake();
    await this.#applyRows();
    await this.#take();
    const stored = await readPosition(db);
    const isKnown = stored?.timeline === this.timeline && stored.index === this.index;
    // What changes without a row of the log is not among what is unshared.
    if (!isKnown || stored.unlogged !== this.#loadedImage().unlogged()) return this.#load();
    const { events, count } = this.#unshared.takeAll();
    await this.#advance(events, this.#snapshot, count);
  }

  /** Takes the changes of the leader up to an index. */
  async #take(until?: bigint): Promise<void> {
    if (until !== undefined && until <= this.index) return;
    const made = await sharedChanges(this.#ctx.store.db, this.index, until);
    for (const { position, previous, body } of made) {
      const follows = position.timeline === this.timeline && previous === this.index;
      if (follows && body !== undefined) this.#changes.add({ index: position.index, body });
      else this.#changes.restart(position.index);
      this.#position = position;
      this.#unshared.shared(position.snapshot);
    }
    if (made.length === 0) return;
    this.#states = undefined;
    this.#listeners.emit();
  }

  /** Applies the rows that wait. @returns the events, and what they were made of */
  async #applyRows(): Promise<{
    readonly events: EncodedEvent[];
    readonly snapshot: string;
    readonly transactions: bigint;
  }> {
    const rows = this.#rows;
    const snapshot = this.#snapshot;
    this.#rows = [];
    const events = rows.length === 0 ? [] : await this.#loadedImage().apply(rows);
    const transactions = BigInt(new Set(rows.map((row) => row.xid)).size);
    if (!this.#makes) this.#unshared.add(events, snapshot);
    return { events, snapshot, transactions };
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
    const made = rows.findLast((row) => row.kind === MODEL_CHANGE);
    if (made !== undefined) this.#toldOf = BigInt(made.key);
    if (relevant.length === 0 && (made === undefined || this.#makes)) return;
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
        // Of what is told of later, the image does not hold everything yet.
        const toldOf = this.#toldOf;
        if (this.#image === undefined) {
          this.#rows = [];
          return;
        }
        const { events, snapshot, transactions } = await this.#applyRows();
        if (this.#makes) await this.#advance(events, snapshot, transactions);
        else await this.#take(toldOf);
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
    const change = { index: position.index, body: encodeChangeSet(events, position.index) };
    await storeChange(this.#ctx.store, position, this.#position, change.body);
    this.#position = position;
    this.#states = undefined;
    this.#changes.add(change);
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
        // The leader makes the same of it.
        if (!this.#makes) return;
        await this.#advance(events, "", 1n);
        if (performance.now() - this.#checkpointAt > CHECKPOINT_MS) await this.#checkpoint();
      })
      .catch((error: unknown) => {
        this.#ctx.log.warn({ error: String(error) }, "the upkeep of the router data model failed; it is loaded again");
        // The image may hold changes that were not sent to routers.
        this.#reset();
      });
  }

  /** Nothing that concerns routers lies between the position and the newest snapshot once every row is worked on. */
  async #checkpoint(): Promise<void> {
    this.#checkpointAt = performance.now();
    if (!this.#makes) return;
    if (this.#rows.length > 0 || this.#snapshot === "") return;
    const position = { ...this.#position, snapshot: this.#snapshot };
    await storeChange(this.#ctx.store, position, this.#position, undefined);
    if (this.#ctx.store.replica.isShared) await pruneSharedChanges(this.#ctx.store.replica.leaderDb, this.index);
    this.#position = position;
  }
}
