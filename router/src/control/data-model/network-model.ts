import { edgeCtrlPb, knownPrecedence } from "@sallyport/wire";
import { jsonObject, type TunnelerService, type TunnelIdentity } from "../tunnel/tunnel-identity.ts";

type Event = edgeCtrlPb.DataState_Event;
type ModelIdentity = edgeCtrlPb.DataState_Identity;

const { DataState_Action: Action, DataState_PolicyType: PolicyType } = edgeCtrlPb;
const { DataState_RelatedEntityType: Related } = edgeCtrlPb;

interface Policy {
  readonly type: edgeCtrlPb.DataState_PolicyType;
  /** Whether it selects the router's own identity. */
  selectsOwn: boolean;
  readonly services: Set<string>;
  readonly postureChecks: Set<string>;
}

/**
 * The part of the data model that a router stores: its own identity, and all services, configs and policies, because any
 * of them may become relevant. It stores no certificates, revocations and posture checks
 * (docs/protocol/data-model.md, "What it stores").
 */
export class NetworkModel {
  readonly #ownId: string;
  #index = 0n;
  #timeline = "";
  #own: ModelIdentity | undefined;
  readonly #configTypes = new Map<string, string>();
  readonly #configs = new Map<string, { readonly typeId: string; readonly dataJson: string }>();
  readonly #services = new Map<string, edgeCtrlPb.DataState_Service>();
  readonly #policies = new Map<string, Policy>();

  /** @param ownId id of the identity that the router tunnels as: the router's own */
  constructor(ownId: string) {
    this.#ownId = ownId;
  }

  /** Of the last state or change set; 0: nothing is known. */
  get index(): bigint {
    return this.#index;
  }

  get timeline(): string {
    return this.#timeline;
  }

  /** Whether everything up to the index is here: large states come in parts, under a timeline that names the last index. */
  get isComplete(): boolean {
    const parts = /\/parts\/(\d+)$/.exec(this.#timeline);
    return parts === null || this.#index >= BigInt(parts[1] ?? 0);
  }

  /** Takes a whole state in place of what was known. */
  replace(state: edgeCtrlPb.DataState): void {
    this.#own = undefined;
    for (const table of [this.#configTypes, this.#configs, this.#services, this.#policies]) table.clear();
    this.#index = state.endIndex;
    this.#timeline = state.timelineId;
    for (const event of state.events) this.#apply(event);
  }

  /**
   * Takes changes. Those up to the index that is known already are not looked at; synthetic ones always count and leave
   * the index alone.
   *
   * @returns whether they were taken
   */
  change(set: edgeCtrlPb.DataState_ChangeSet): boolean {
    if (!set.isSynthetic) {
      if (set.index <= this.#index) return false;
      this.#index = set.index;
    }
    for (const event of set.changes) this.#apply(event);
    return true;
  }

  /** The router's own identity with what it may dial and host; undefined when there is none, or it is disabled. */
  own(): TunnelIdentity | undefined {
    const own = this.#own;
    if (own === undefined || own.disabled) return undefined;
    const dialed = this.#selected(PolicyType.DialPolicy);
    const bound = this.#selected(PolicyType.BindPolicy);
    const services = new Map<string, TunnelerService>();
    for (const id of new Set([...dialed, ...bound])) {
      const service = this.#services.get(id);
      if (service === undefined) continue;
      const precedence = own.serviceHostingPrecedences[id];
      services.set(id, {
        id,
        name: service.name,
        canDial: dialed.has(id),
        canBind: bound.has(id),
        isEncrypted: service.encryptionRequired,
        configs: this.#configsOf(service, own.serviceConfigs[id]?.configs ?? {}),
        cost: own.serviceHostingCosts[id],
        precedence: precedence === undefined ? undefined : knownPrecedence(precedence),
      });
    }
    return {
      id: own.id,
      name: own.name,
      appData: jsonObject(own.appDataJson),
      defaultCost: own.defaultHostingCost,
      defaultPrecedence: knownPrecedence(own.defaultHostingPrecedence),
      services,
    };
  }

  /** Everything kept, by kind and id, as comparable text. */
  describe(): Map<string, Map<string, string>> {
    const own = this.#own;
    const text = (values: unknown): string =>
      JSON.stringify(values, (_key, value: unknown) =>
        value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : isPlain(value) ? sorted(value) : value,
      );
    const entries = <V>(table: ReadonlyMap<string, V>, of: (value: V) => unknown): Map<string, string> =>
      new Map([...table].map(([id, value]) => [id, text(of(value))]));
    return new Map([
      ["config-type", entries(this.#configTypes, (name) => name)],
      ["config", entries(this.#configs, ({ typeId, dataJson }) => [typeId, dataJson])],
      ["identity", entries(own === undefined ? new Map<string, ModelIdentity>() : new Map([[own.id, own]]), fieldsOf)],
      ["service", entries(this.#services, (s) => [s.name, s.encryptionRequired, [...s.configs].sort()])],
      [
        "service-policy",
        entries(this.#policies, (p) => [p.type, p.selectsOwn, [...p.services].sort(), [...p.postureChecks].sort()]),
      ],
    ]);
  }

  #apply(event: Event): void {
    const { model } = event;
    const isGone = event.action === Action.Delete;
    switch (model.case) {
      case "identity":
        if (model.value.id === this.#ownId) this.#own = isGone ? undefined : model.value;
        return;
      case "service":
        if (isGone) this.#services.delete(model.value.id);
        else this.#services.set(model.value.id, model.value);
        return;
      case "servicePolicy":
        this.#policy(model.value, isGone);
        return;
      case "servicePolicyChange":
        this.#member(model.value);
        return;
      case "configType":
        if (isGone) this.#configTypes.delete(model.value.id);
        else this.#configTypes.set(model.value.id, model.value.name);
        return;
      case "config": {
        const { id, typeId, dataJson } = model.value;
        if (isGone) this.#configs.delete(id);
        else this.#configs.set(id, { typeId, dataJson });
        return;
      }
      default:
      // Certificates, revocations, posture checks, and kinds that are yet to be thought of.
    }
  }

  #policy(policy: edgeCtrlPb.DataState_ServicePolicy, isGone: boolean): void {
    const known = this.#policies.get(policy.id);
    if (isGone) {
      this.#policies.delete(policy.id);
      return;
    }
    // A changed policy keeps its members: they come in messages of their own.
    this.#policies.set(policy.id, {
      type: policy.policyType,
      selectsOwn: known?.selectsOwn ?? false,
      services: known?.services ?? new Set(),
      postureChecks: known?.postureChecks ?? new Set(),
    });
  }

  #member(change: edgeCtrlPb.DataState_ServicePolicyChange): void {
    const policy = this.#policies.get(change.policyId);
    if (policy === undefined) return;
    if (change.relatedEntityType === Related.RelatedIdentity) {
      if (change.relatedEntityIds.includes(this.#ownId)) policy.selectsOwn = change.add;
      return;
    }
    if (change.relatedEntityType === Related.InvalidEntityType) return;
    const members = change.relatedEntityType === Related.RelatedService ? policy.services : policy.postureChecks;
    for (const id of change.relatedEntityIds) {
      if (change.add) members.add(id);
      else members.delete(id);
    }
  }

  /** Services that policies of this type give to the own identity. A policy that asks for posture gives none: a router reports no posture. */
  #selected(type: edgeCtrlPb.DataState_PolicyType): Set<string> {
    const ids = new Set<string>();
    for (const policy of this.#policies.values()) {
      if (policy.type !== type || !policy.selectsOwn || policy.postureChecks.size > 0) continue;
      for (const id of policy.services) ids.add(id);
    }
    return ids;
  }

  /** @param ownConfigs config ids by config type id, which the identity has instead of the service's */
  #configsOf(
    service: edgeCtrlPb.DataState_Service,
    ownConfigs: Readonly<Record<string, string>>,
  ): Map<string, unknown> {
    const byType = new Map<string, unknown>();
    for (const id of [...service.configs, ...Object.values(ownConfigs)]) {
      const config = this.#configs.get(id);
      const type = config === undefined ? undefined : this.#configTypes.get(config.typeId);
      if (config !== undefined && type !== undefined) byType.set(type, jsonObject(config.dataJson));
    }
    return byType;
  }
}

function fieldsOf({ $typeName: _type, $unknown: _unknown, ...fields }: ModelIdentity): object {
  const serviceConfigs = Object.fromEntries(
    Object.entries(fields.serviceConfigs).map(([id, { configs }]) => [id, configs]),
  );
  return { ...fields, serviceConfigs };
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sorted(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** In the words of the wire (20504). */
interface ModelComparison {
  /** Entities by kind: of the model that was sent, and of the one here. */
  readonly origEntityCounts: Record<string, number>;
  readonly copyEntityCounts: Record<string, number>;
  readonly diffs: { entityType: string; entityId: string; diffType: string; detail: string }[];
}

/** What is different here from what a controller says it should be; of kinds and entities that Sallyport's routers keep. */
export function compareModels(expected: NetworkModel, actual: NetworkModel): ModelComparison {
  const comparison: ModelComparison = { origEntityCounts: {}, copyEntityCounts: {}, diffs: [] };
  const here = actual.describe();
  for (const [entityType, wanted] of expected.describe()) {
    const found = here.get(entityType) ?? new Map<string, string>();
    comparison.origEntityCounts[entityType] = wanted.size;
    comparison.copyEntityCounts[entityType] = found.size;
    const differs = (entityId: string, diffType: string, detail: string): void => {
      comparison.diffs.push({ entityType, entityId, diffType, detail });
    };
    for (const [id, text] of wanted) {
      const own = found.get(id);
      if (own === undefined) differs(id, "missing", "the router does not have it");
      else if (own !== text) differs(id, "different", `expected ${text}, the router has ${own}`);
    }
    for (const id of found.keys()) if (!wanted.has(id)) differs(id, "extra", "only the router has it");
  }
  return comparison;
}
