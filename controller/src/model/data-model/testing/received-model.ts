import { decodeControl, edgeCtrlPb } from "@sallyport/wire";

const { DataState_Action: Action } = edgeCtrlPb;

/**
 * What a router makes of the messages it gets: strict where routers count on an order. With `mayRepeat` it takes, as routers do, what is known already or gone
 * again: a whole model of one of several controllers may be newer than its index (docs/protocol/replicas.md, "Data model").
 */
export class ReceivedModel {
  index: bigint;
  readonly identities = new Map<string, edgeCtrlPb.DataState_Identity>();
  readonly keys = new Map<string, edgeCtrlPb.DataState_PublicKey>();
  readonly revocations = new Map<string, edgeCtrlPb.DataState_Revocation>();
  readonly #entities = new Map<string, object>();
  readonly #members = new Map<string, Set<string>>();

  readonly timeline: string;

  readonly #mayRepeat: boolean;

  constructor(state: Buffer, { mayRepeat = false }: { readonly mayRepeat?: boolean } = {}) {
    this.#mayRepeat = mayRepeat;
    const { events, endIndex, timelineId } = decodeControl(edgeCtrlPb.DataStateSchema, state);
    for (const event of events) this.#apply(event, true);
    this.index = endIndex;
    this.timeline = timelineId;
  }

  get services(): string[] {
    return [...this.#entities.keys()].flatMap((key) => (key.startsWith("service ") ? key.slice(8) : []));
  }

  /** @throws Error for an index that does not grow, and for events that do not fit what was received before */
  change(body: Buffer): void {
    const { index, changes, isSynthetic } = decodeControl(edgeCtrlPb.DataState_ChangeSetSchema, body);
    if (index <= this.index) throw new Error(`change set ${index} after ${this.index}`);
    for (const event of changes) this.#apply(event, false);
    if (!isSynthetic) this.index = index;
  }

  /** Everything, comparable. */
  content(): object {
    const members = [...this.#members].map(([key, ids]) => [key, [...ids].sort()] as const);
    return {
      entities: Object.fromEntries([...this.#entities].sort()),
      members: Object.fromEntries(members.filter(([, ids]) => ids.length > 0).sort()),
    };
  }

  #apply({ action, model }: edgeCtrlPb.DataState_Event, isState: boolean): void {
    switch (model.case) {
      case undefined:
        throw new Error(`an event of the model ${model.case}`);
      case "servicePolicyChange":
        this.#relate(model.value);
        return;
      case "publicKey":
        if (action === Action.Delete) this.keys.delete(model.value.kid);
        else this.keys.set(model.value.kid, model.value);
        this.#put(`publicKey ${model.value.kid}`, action, { ...model.value, data: model.value.data.length }, isState);
        return;
      case "revocation":
        if (action === Action.Delete) this.revocations.delete(model.value.id);
        else this.revocations.set(model.value.id, model.value);
        break;
      case "identity":
        if (action === Action.Delete) this.identities.delete(model.value.id);
        else this.identities.set(model.value.id, model.value);
    }
    const { value } = model;
    this.#put(`${model.case} ${value.id}`, action, value, isState);
    if (model.case !== "service" || action === Action.Delete) return;
    for (const id of model.value.configs) this.#isThere(`config ${id}`, value);
  }

  #put(key: string, action: edgeCtrlPb.DataState_Action, value: object, isState: boolean): void {
    const isKnown = this.#entities.has(key);
    if (isState && action !== Action.Create) throw new Error(`${key} is no creation in a state`);
    if (!this.#mayRepeat && isKnown === (action === Action.Create))
      throw new Error(`action ${action} of ${key}, known: ${isKnown}`);
    if (action !== Action.Delete) {
      this.#entities.set(key, value);
      return;
    }
    this.#entities.delete(key);
    for (const [of, ids] of this.#members) {
      const [, policyId = "", kind = ""] = of.split(" ");
      const id = key.slice(key.indexOf(" ") + 1);
      if (ids.size > 0 && (key === `servicePolicy ${policyId}` || (key.startsWith(`${kind} `) && ids.has(id)))) {
        throw new Error(`${key} is deleted while ${of} has it`);
      }
    }
  }

  #relate(change: edgeCtrlPb.DataState_ServicePolicyChange): void {
    const kind = { 1: "service", 2: "identity", 3: "postureCheck" }[change.relatedEntityType as 1] ?? "unknown";
    if (!this.#isThere(`servicePolicy ${change.policyId}`, change)) return;
    const key = `policy ${change.policyId} ${kind}`;
    const ids = this.#members.get(key) ?? new Set();
    this.#members.set(key, ids);
    for (const id of change.relatedEntityIds) {
      if (!this.#isThere(`${kind} ${id}`, change)) continue;
      if (!this.#mayRepeat && ids.has(id) === change.add)
        throw new Error(`${key}: ${id} is ${change.add ? "in" : "not in"} it already`);
      if (change.add) ids.add(id);
      else ids.delete(id);
    }
  }

  #isThere(key: string, by: object): boolean {
    if (this.#entities.has(key)) return true;
    if (this.#mayRepeat) return false;
    throw new Error(`${key} is named by ${JSON.stringify(by, bigints)} and unknown`);
  }
}

const bigints = (_: string, value: unknown) => (typeof value === "bigint" ? value.toString() : value);
