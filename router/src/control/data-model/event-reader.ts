import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { decodeControl, edgeCtrlPb } from "@sallyport/wire";

/**
 * Reads states and change sets of the data model event by event, in place: the objects of a whole state would take many times its bytes.
 * Source: docs/protocol/data-model.md, "Events".
 */

type EntityModel = Exclude<
  edgeCtrlPb.DataState_Event["model"],
  { case: "identity" } | { case: "servicePolicyChange" } | { case: undefined }
>;

/** The policy selects these entities, or no longer. At most {@link IDS_PER_EVENT}: a longer list becomes several events. */
export interface MembersEvent {
  readonly kind: "members";
  readonly policyId: string;
  /** A `DataState_RelatedEntityType`. */
  readonly related: number;
  readonly isAdded: boolean;
  readonly ids: readonly string[];
}

/** There are very many identities, so only what every decision asks for is read. */
export interface IdentityEvent {
  readonly kind: "identity";
  readonly id: string;
  readonly isGone: boolean;
  readonly isDisabled: boolean;
  /** The encoded identity, as latin1. */
  readonly bytes: string;
}

export interface EntityEvent {
  readonly kind: "entity";
  readonly isGone: boolean;
  readonly model: EntityModel;
}

/** A part of a long event was passed over: a place to pause. */
interface PassedEvent {
  readonly kind: "passed";
}

export type ModelEvent = MembersEvent | IdentityEvent | EntityEvent | PassedEvent;

const IDS_PER_EVENT = 1_000;

const STATE = { events: 1, endIndex: 2, timeline: 3 } as const;
const SET = { index: 1, isSynthetic: 2, events: 3, previousIndex: 5 } as const;
const EVENT = { action: 1, identity: 10, policyChange: 16 } as const;
const CHANGE = { policyId: 1, ids: 2, related: 3, isAdded: 4 } as const;
const IDENTITY = { id: 1, name: 2, isDisabled: 9 } as const;

/** The library's reader, which also gives texts without a view for each. */
class Cursor extends BinaryReader {
  readonly bytesOfBody: Buffer;

  constructor(body: Uint8Array) {
    super(body);
    this.bytesOfBody = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }
}

/** A whole state (20500). `index` and `timeline` are there when all events were read. */
export class StateReader {
  readonly #reader: Cursor;
  index = 0n;
  timeline = "";

  constructor(body: Uint8Array) {
    this.#reader = new Cursor(body);
  }

  /** @throws Error for bytes that are no state */
  *events(): Generator<ModelEvent> {
    const reader = this.#reader;
    while (reader.pos < reader.len) {
      const [field, wireType] = reader.tag();
      if (field === STATE.events) yield* readEvent(reader);
      else if (field === STATE.endIndex) this.index = BigInt(reader.uint64());
      else if (field === STATE.timeline) this.timeline = reader.string();
      else skip(reader, wireType);
    }
  }
}

/** A change set (20501): what it says of itself at once, then its events. */
export class ChangeSetReader {
  readonly #body: Uint8Array;
  readonly index: bigint;
  readonly isSynthetic: boolean;
  /** The index that the sender expects here; 0: it does not say. */
  readonly previousIndex: bigint;

  /** @throws Error for bytes that are no change set */
  constructor(body: Uint8Array) {
    this.#body = body;
    const reader = new Cursor(body);
    let [index, previousIndex, isSynthetic] = [0n, 0n, false];
    while (reader.pos < reader.len) {
      const [field, wireType] = reader.tag();
      if (field === SET.index) index = BigInt(reader.uint64());
      else if (field === SET.isSynthetic) isSynthetic = reader.bool();
      else if (field === SET.previousIndex) previousIndex = BigInt(reader.uint64());
      else skip(reader, wireType);
    }
    this.index = index;
    this.isSynthetic = isSynthetic;
    this.previousIndex = previousIndex;
  }

  *events(): Generator<ModelEvent> {
    const reader = new Cursor(this.#body);
    while (reader.pos < reader.len) {
      const [field, wireType] = reader.tag();
      if (field === SET.events) yield* readEvent(reader);
      else skip(reader, wireType);
    }
  }
}

/** Reads one event, whose length comes first. Kinds that are not known yet are passed over. */
function* readEvent(reader: Cursor): Generator<ModelEvent> {
  const end = endOf(reader, reader.len);
  const start = reader.pos;
  let action: number = edgeCtrlPb.DataState_Action.Create;
  let model = { field: 0, start: 0, end: 0 };
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (field === EVENT.action) {
      action = reader.int32();
    } else if (wireType === WireType.LengthDelimited) {
      const modelEnd = endOf(reader, end);
      model = { field, start: reader.pos, end: modelEnd };
      reader.pos = modelEnd;
    } else {
      skip(reader, wireType);
    }
  }
  const isGone = action === edgeCtrlPb.DataState_Action.Delete;
  if (model.field === EVENT.policyChange) {
    yield* readMembers(reader, model);
  } else if (model.field === EVENT.identity) {
    yield { kind: "identity", isGone, ...readIdentity(reader, model) };
  } else {
    const event = decodeControl(edgeCtrlPb.DataState_EventSchema, reader.bytesOfBody.subarray(start, end));
    const { model } = event;
    if (model.case !== undefined && model.case !== "identity" && model.case !== "servicePolicyChange")
      yield { kind: "entity", isGone, model };
  }
  reader.pos = end;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

function readIdentity(reader: Cursor, { start, end }: Span): Pick<IdentityEvent, "id" | "isDisabled" | "bytes"> {
  let [id, isDisabled] = ["", false];
  reader.pos = start;
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (field === IDENTITY.id) id = textOf(reader, end);
    else if (field === IDENTITY.isDisabled) isDisabled = reader.bool();
    else skip(reader, wireType);
  }
  return { id, isDisabled, bytes: reader.bytesOfBody.toString("latin1", start, end) };
}

/** The name of an encoded identity, without decoding the rest of it. */
export function identityNameOf(bytes: Buffer): string {
  const reader = new Cursor(bytes);
  let name = "";
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === IDENTITY.name) name = textOf(reader, reader.len);
    else skip(reader, wireType);
  }
  return name;
}

/** What the change says follows its ids, so it is gone through twice. */
function* readMembers(reader: Cursor, { start, end }: Span): Generator<MembersEvent | PassedEvent> {
  let policyId = "";
  let related: number = edgeCtrlPb.DataState_RelatedEntityType.InvalidEntityType;
  let isAdded = false;
  let passed = 0;
  reader.pos = start;
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (field === CHANGE.policyId) policyId = textOf(reader, end);
    else if (field === CHANGE.related) related = reader.int32();
    else if (field === CHANGE.isAdded) isAdded = reader.bool();
    else skip(reader, wireType);
    passed += 1;
    if (passed % IDS_PER_EVENT === 0) yield { kind: "passed" };
  }
  let ids: string[] = [];
  let at = start;
  while (at < end) {
    reader.pos = at;
    const [field, wireType] = reader.tag();
    if (field === CHANGE.ids) ids.push(textOf(reader, end));
    else skip(reader, wireType);
    at = reader.pos;
    if (ids.length === IDS_PER_EVENT || (at >= end && ids.length > 0)) {
      yield { kind: "members", policyId, related, isAdded, ids };
      ids = [];
    }
  }
}

function textOf(reader: Cursor, outerEnd: number): string {
  const end = endOf(reader, outerEnd);
  const text = reader.bytesOfBody.toString("utf8", reader.pos, end);
  reader.pos = end;
  return text;
}

/** Where the value ends whose length comes next. */
function endOf(reader: Cursor, outerEnd: number): number {
  const length = reader.uint32();
  const end = reader.pos + length;
  if (end > outerEnd) throw new RangeError(`${length} bytes do not fit into the message around them`);
  return end;
}

/** Other than the library's, makes no view of what it passes over. */
function skip(reader: Cursor, wireType: WireType): void {
  if (wireType === WireType.LengthDelimited) reader.pos = endOf(reader, reader.len);
  else reader.skip(wireType);
}
