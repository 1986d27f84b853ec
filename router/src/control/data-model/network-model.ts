import { TimeSlice } from "@sallyport/async";
import { checkOfWire, type PostureCheck } from "@sallyport/posture";
import { decodeControl, edgeCtrlPb, knownPrecedence, type Permission } from "@sallyport/wire";
import { jsonObject, type TunnelerService, type TunnelIdentity } from "../tunnel/tunnel-identity.ts";
import {
  type ChangeSetReader,
  type EntityEvent,
  type IdentityEvent,
  identityNameOf,
  type MembersEvent,
  type ModelEvent,
  StateReader,
} from "./event-reader.ts";
import { type ModelPolicy, PolicyMembers, Slots } from "./policy-members.ts";

const { DataState_PolicyType: PolicyType, DataState_RelatedEntityType: Related } = edgeCtrlPb;

/** What a policy of a type grants. */
const PERMISSIONS: ReadonlyMap<number, Permission> = new Map([
  [PolicyType.DialPolicy, "Dial"],
  [PolicyType.BindPolicy, "Bind"],
]);

interface ModelIdentity {
  readonly slot: number;
  readonly isDisabled: boolean;
  /** The encoded identity, as latin1: decoded where it is used, since there are very many. */
  readonly bytes: string;
}

interface ModelService {
  readonly slot: number;
  readonly id: string;
  readonly name: string;
  readonly isEncrypted: boolean;
  readonly configIds: readonly string[];
}

interface ModelConfig {
  readonly typeId: string;
  readonly typeName: string;
  readonly dataJson: string;
}

/** Times are milliseconds since 1970. `type`: `JTI`, `API_SESSION`, `IDENTITY`; empty from a controller that does not say. */
export interface Revocation {
  readonly id: string;
  readonly type: string;
  readonly expiresAt: number;
  readonly issuedBefore: number | undefined;
}

/** What changes concern. */
export interface Touched {
  identities: Set<string> | "all";
  /** API sessions that were revoked. */
  readonly sessions: Set<string>;
  haveKeysChanged: boolean;
}

/** Of more identities than this, all are taken as concerned. */
const MAX_TOUCHED = 1_000;

/** Routers accept tokens for this long after their end, so revocations count that long, too. */
export const CLOCK_LEEWAY_MS = 30_000;

/**
 * A revocation is held for at least this long by the steady clock, and for as long as it had left when it came. So a system clock that jumps ahead
 * and back revives no revoked token. Access tokens live half as long by default.
 */
export const MIN_REVOCATION_HOLD_MS = 3_600_000;

/** The network as a controller describes it to a router. Source: docs/protocol/data-model.md, "Sallyport's router". */
export class NetworkModel {
  /** Of the last state or change set; 0: nothing is known. */
  index = 0n;
  timeline = "";
  readonly configTypes = new Map<string, string>();
  readonly configs = new Map<string, { readonly typeId: string; readonly dataJson: string }>();
  readonly identities = new Map<string, ModelIdentity>();
  readonly services = new Map<string, ModelService>();
  readonly policies = new PolicyMembers();
  readonly checks = new Map<string, PostureCheck>();
  readonly publicKeys = new Map<string, edgeCtrlPb.DataState_PublicKey>();
  readonly revocations = new Map<string, Revocation>();
  /** By the steady clock, in milliseconds: revocations are not forgotten before. */
  readonly #heldUntil = new Map<string, number>();
  readonly identitySlots = new Slots();
  readonly serviceSlots = new Slots();
  readonly #servicesByName = new Map<string, ModelService>();
  readonly #routerConfigs = new Map<string, ReadonlySet<string>>();
  #touched = nothing();

  /** Whether everything up to the index is here: large states come in parts, under a timeline that names the last index. */
  get isComplete(): boolean {
    const parts = /\/parts\/(\d+)$/.exec(this.timeline);
    return parts === null || this.index >= BigInt(parts[1] ?? 0);
  }

  /** What was concerned since the last call. */
  takeTouched(): Touched {
    const touched = this.#touched;
    this.#touched = nothing();
    return touched;
  }

  apply(event: ModelEvent): void {
    if (event.kind === "members") this.#members(event);
    else if (event.kind === "identity") this.#identity(event);
    else if (event.kind === "entity") this.#entity(event);
  }

  /** Forgets revocations that no token can meet any more. @param now milliseconds since 1970 @param steady by the steady clock */
  sweepRevocations(now: number, steady = performance.now()): void {
    for (const { id, expiresAt } of this.revocations.values()) {
      if (expiresAt + CLOCK_LEEWAY_MS > now || (this.#heldUntil.get(id) ?? 0) > steady) continue;
      this.revocations.delete(id);
      this.#heldUntil.delete(id);
    }
  }

  identity(id: string): edgeCtrlPb.DataState_Identity | undefined {
    const known = this.identities.get(id);
    if (known === undefined) return undefined;
    return decodeControl(edgeCtrlPb.DataState_IdentitySchema, Buffer.from(known.bytes, "latin1"));
  }

  identityName(id: string): string | undefined {
    const known = this.identities.get(id);
    return known === undefined ? undefined : identityNameOf(Buffer.from(known.bytes, "latin1"));
  }

  serviceNamed(name: string): ModelService | undefined {
    return this.#servicesByName.get(name);
  }

  /** The policies of the type that select both, whatever posture they ask for. */
  *granting(identityId: string, serviceId: string, type: Permission): Generator<ModelPolicy> {
    const [identity, service] = [this.identities.get(identityId), this.services.get(serviceId)];
    if (identity === undefined || service === undefined) return;
    for (const policy of this.policies.selecting(identity.slot, service.slot)) {
      if (policy.type === type) yield policy;
    }
  }

  /** The policies that select the identity. */
  policiesOf(identityId: string): Iterable<ModelPolicy> {
    const identity = this.identities.get(identityId);
    return identity === undefined ? [] : this.policies.ofIdentity(identity.slot);
  }

  *servicesOf(policy: ModelPolicy): Generator<ModelService> {
    for (const slot of policy.services) {
      const service = this.services.get(this.serviceSlots.idOf(slot) ?? "");
      if (service !== undefined) yield service;
    }
  }

  /** The configs of a service for an identity, one of a type: its own before those of the service. */
  configsOf(service: ModelService, identity: edgeCtrlPb.DataState_Identity): ModelConfig[] {
    const own = Object.values(identity.serviceConfigs[service.id]?.configs ?? {});
    const byType = new Map<string, ModelConfig>();
    for (const id of [...service.configIds, ...own]) {
      const config = this.configs.get(id);
      const typeName = config === undefined ? undefined : this.configTypes.get(config.typeId);
      if (config !== undefined && typeName !== undefined) byType.set(config.typeId, { ...config, typeName });
    }
    return [...byType.values()];
  }

  /**
   * The identity that the router tunnels as, with what it may dial and host; undefined when there is none, or it is disabled. A policy that asks
   * for posture grants nothing: a router reports none.
   */
  tunnelIdentity(id: string): TunnelIdentity | undefined {
    const own = this.identity(id);
    if (own === undefined || own.disabled) return undefined;
    const granted = new Map<ModelService, Set<Permission>>();
    for (const policy of this.policiesOf(id)) {
      if (policy.type === undefined || policy.checkIds.size > 0) continue;
      for (const service of this.servicesOf(policy)) {
        granted.getOrInsertComputed(service, () => new Set<Permission>()).add(policy.type);
      }
    }
    const services = new Map<string, TunnelerService>();
    for (const [service, permissions] of granted) {
      const precedence = own.serviceHostingPrecedences[service.id];
      services.set(service.id, {
        id: service.id,
        name: service.name,
        canDial: permissions.has("Dial"),
        canBind: permissions.has("Bind"),
        isEncrypted: service.isEncrypted,
        configs: new Map(this.configsOf(service, own).map((each) => [each.typeName, jsonObject(each.dataJson)])),
        cost: own.serviceHostingCosts[service.id],
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

  #touch(identityId: string): void {
    const { identities } = this.#touched;
    if (identities === "all") return;
    identities.add(identityId);
    if (identities.size > MAX_TOUCHED) this.#touched.identities = "all";
  }

  /** All identities that the policy selects. */
  #touchPolicy({ identities }: ModelPolicy): void {
    for (const slot of identities) {
      if (this.#touched.identities === "all") return;
      const id = this.identitySlots.idOf(slot);
      if (id !== undefined) this.#touch(id);
    }
  }

  #touchService({ slot }: ModelService): void {
    for (const policy of this.policies.all()) {
      if (this.#touched.identities === "all") return;
      if (policy.services.has(slot)) this.#touchPolicy(policy);
    }
  }

  #members({ policyId, related, isAdded, ids }: MembersEvent): void {
    const policy = this.policies.get(policyId);
    if (policy === undefined) return;
    if (related === Related.RelatedIdentity) {
      for (const id of ids) {
        const identity = this.identities.get(id);
        if (identity === undefined) continue;
        policy.identities.set(identity.slot, isAdded);
        this.#touch(id);
      }
      return;
    }
    for (const id of ids) {
      const service = related === Related.RelatedService ? this.services.get(id) : undefined;
      if (service !== undefined) policy.services.set(service.slot, isAdded);
      else if (related === Related.RelatedPostureCheck) this.policies.setCheck(policyId, id, isAdded);
    }
    this.#touchPolicy(policy);
  }

  #identity({ id, isGone, isDisabled, bytes }: IdentityEvent): void {
    const known = this.identities.get(id);
    this.#touch(id);
    if (!isGone) {
      this.identities.set(id, { slot: known?.slot ?? this.identitySlots.take(id), isDisabled, bytes });
    } else if (known !== undefined) {
      this.policies.forget("identities", known.slot);
      this.identitySlots.release(known.slot);
      this.identities.delete(id);
    }
  }

  #entity({ isGone, model }: EntityEvent): void {
    switch (model.case) {
      case "service":
        this.#service(model.value, isGone);
        return;
      case "servicePolicy":
        this.#policy(model.value, isGone);
        return;
      case "configType":
        this.#touched.identities = "all";
        if (isGone) this.configTypes.delete(model.value.id);
        else this.configTypes.set(model.value.id, model.value.name);
        return;
      case "config": {
        const { id, typeId, dataJson } = model.value;
        this.#touched.identities = "all";
        if (isGone) this.configs.delete(id);
        else this.configs.set(id, { typeId, dataJson });
        return;
      }
      case "postureCheck": {
        const { id } = model.value;
        if (isGone) this.checks.delete(id);
        else this.checks.set(id, checkOfWire(model.value));
        for (const policy of this.policies.all()) if (policy.checkIds.has(id)) this.#touchPolicy(policy);
        return;
      }
      case "publicKey":
        this.#touched.haveKeysChanged = true;
        if (isGone) this.publicKeys.delete(model.value.kid);
        else this.publicKeys.set(model.value.kid, model.value);
        return;
      case "revocation":
        this.#revocation(model.value, isGone);
        return;
      case "router": {
        // A router's configs come with it; one that it names no longer is not mentioned again.
        const { id, configs } = model.value;
        const named = new Set(isGone ? [] : configs);
        for (const before of this.#routerConfigs.get(id) ?? []) if (!named.has(before)) this.configs.delete(before);
        if (isGone) this.#routerConfigs.delete(id);
        else this.#routerConfigs.set(id, named);
        return;
      }
      default:
      // Of later versions.
    }
  }

  #service({ id, name, encryptionRequired, configs }: edgeCtrlPb.DataState_Service, isGone: boolean): void {
    const known = this.services.get(id);
    if (known !== undefined) {
      this.#touchService(known);
      if (this.#servicesByName.get(known.name) === known) this.#servicesByName.delete(known.name);
    }
    if (!isGone) {
      const slot = known?.slot ?? this.serviceSlots.take(id);
      const service = { slot, id, name, isEncrypted: encryptionRequired, configIds: configs };
      this.services.set(id, service);
      this.#servicesByName.set(name, service);
    } else if (known !== undefined) {
      this.policies.forget("services", known.slot);
      this.serviceSlots.release(known.slot);
      this.services.delete(id);
    }
  }

  #policy({ id, policyType }: edgeCtrlPb.DataState_ServicePolicy, isGone: boolean): void {
    const known = this.policies.get(id);
    if (known !== undefined) this.#touchPolicy(known);
    if (isGone) {
      this.policies.delete(id);
      return;
    }
    this.policies.put({ id, type: PERMISSIONS.get(policyType) });
  }

  #revocation({ id, type, expiresAt, issuedBefore }: edgeCtrlPb.DataState_Revocation, isGone: boolean): void {
    // A controller forgets a revocation when the token has ended: here tokens are good for a while longer. The sweep removes it.
    if (isGone) return;
    const until = expiresAt === undefined ? Number.POSITIVE_INFINITY : Number(expiresAt.seconds) * 1000;
    const before = issuedBefore === undefined ? undefined : Number(issuedBefore.seconds) * 1000;
    const leftMs = until + CLOCK_LEEWAY_MS - Date.now();
    this.#heldUntil.set(id, performance.now() + Math.max(leftMs, MIN_REVOCATION_HOLD_MS));
    this.revocations.set(id, { id, type, expiresAt: until, issuedBefore: before });
    if (type === "API_SESSION") this.#touched.sessions.add(id);
    else if (type === "IDENTITY") this.#touch(id);
    else this.#touched.identities = "all";
  }
}

function nothing(): Touched {
  return { identities: new Set(), sessions: new Set(), haveKeysChanged: false };
}

/** The model that a whole state describes, built in slices of time. @throws Error for bytes that are no state */
export async function modelOf(body: Uint8Array): Promise<NetworkModel> {
  const model = new NetworkModel();
  const reader = new StateReader(body);
  await applyAll(model, reader.events());
  model.index = reader.index;
  model.timeline = reader.timeline;
  return model;
}

/**
 * Takes changes. Those up to the index that is known already are not looked at; synthetic ones always count and leave the index alone. `gap`: changes
 * before them are missing, so they were not taken.
 */
export async function applyChanges(model: NetworkModel, set: ChangeSetReader): Promise<"taken" | "known" | "gap"> {
  if (!set.isSynthetic) {
    if (set.index <= model.index) return "known";
    if (set.previousIndex > 0n && model.index > 0n && set.previousIndex !== model.index) return "gap";
  }
  await applyAll(model, set.events());
  if (!set.isSynthetic) model.index = set.index;
  return "taken";
}

async function applyAll(model: NetworkModel, events: Iterable<ModelEvent>): Promise<void> {
  const slice = new TimeSlice();
  for (const event of events) {
    model.apply(event);
    // An entity that many policies select is a long step.
    if (slice.isOver) await slice.pause();
  }
}
