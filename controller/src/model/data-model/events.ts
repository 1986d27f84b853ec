import type { X509Certificate } from "node:crypto";
import { createHash } from "node:crypto";
import { postureType, storedFields } from "@sallyport/posture";
import { edgeCtrlPb, encodeControl, type Permission, type PrecedenceName, precedenceOf } from "@sallyport/wire";
import type { RevocationType } from "../../store/session-tables.ts";

/**
 * The entities of the network as routers get them: an encoded event for each. An event is kept as a string of its bytes (latin1), without action and
 * so a creation: 100,000 of them as buffers would take ten times their content. Source: docs/protocol/data-model.md, "Events".
 */
export type EncodedEvent = string;

const { DataState_EventSchema, DataState_PolicyType, DataState_RelatedEntityType } = edgeCtrlPb;

type EventModel = NonNullable<Parameters<typeof encodeControl<typeof DataState_EventSchema>>[1]["model"]>;

function encoded(model: EventModel, isSynthetic = false): EncodedEvent {
  return encodeControl(DataState_EventSchema, { model, isSynthetic }).toString("latin1");
}

/** The event with another action: its field stands in front, where readers take the last one of a field. */
export const asUpdate = (event: EncodedEvent): EncodedEvent => `\x08\x01${event}`;
export const asDelete = (event: EncodedEvent): EncodedEvent => `\x08\x02${event}`;

export interface IdentityFacts {
  readonly id: string;
  readonly name: string;
  readonly defaultHostingPrecedence: PrecedenceName;
  readonly defaultHostingCost: number;
  readonly serviceHostingPrecedences: Readonly<Record<string, PrecedenceName>>;
  readonly serviceHostingCosts: Readonly<Record<string, number>>;
  readonly appData: Readonly<Record<string, unknown>>;
  /** Service, config type, config. */
  readonly serviceConfigs: readonly (readonly [string, string, string])[];
  readonly isDisabled: boolean;
}

export function identityEvent(identity: IdentityFacts): EncodedEvent {
  const configs: Record<string, { configs: Record<string, string> }> = {};
  for (const [serviceId, typeId, configId] of identity.serviceConfigs) {
    configs[serviceId] ??= { configs: {} };
    configs[serviceId].configs[typeId] = configId;
  }
  const precedences = Object.entries(identity.serviceHostingPrecedences);
  const value = {
    id: identity.id,
    name: identity.name,
    defaultHostingPrecedence: precedenceOf(identity.defaultHostingPrecedence),
    defaultHostingCost: identity.defaultHostingCost,
    serviceHostingPrecedences: Object.fromEntries(precedences.map(([id, p]) => [id, precedenceOf(p)])),
    serviceHostingCosts: { ...identity.serviceHostingCosts },
    appDataJson: Buffer.from(JSON.stringify(identity.appData)),
    serviceConfigs: configs,
    disabled: identity.isDisabled,
  };
  return encoded({ case: "identity", value });
}

export function serviceEvent(service: {
  readonly id: string;
  readonly name: string;
  readonly encryptionRequired: boolean;
  readonly configs: readonly string[];
}): EncodedEvent {
  return encoded({ case: "service", value: { ...service, configs: [...service.configs] } });
}

export function configTypeEvent(type: {
  readonly id: string;
  readonly name: string;
  readonly target: string;
}): EncodedEvent {
  return encoded({ case: "configType", value: { id: type.id, name: type.name, target: type.target } });
}

export function configEvent(config: {
  readonly id: string;
  readonly name: string;
  readonly typeId: string;
  readonly data: unknown;
}): EncodedEvent {
  const { id, name, typeId, data } = config;
  return encoded({ case: "config", value: { id, name, typeId, dataJson: JSON.stringify(data) } });
}

export function postureCheckEvent(check: {
  readonly id: string;
  readonly name: string;
  readonly typeId: string;
  readonly data: Readonly<Record<string, unknown>>;
}): EncodedEvent {
  const { id, name, typeId, data } = check;
  const subtype = postureType(typeId).subtype(storedFields(typeId, data));
  return encoded({ case: "postureCheck", value: { id, name, typeId, subtype } });
}

export function policyEvent(policy: {
  readonly id: string;
  readonly name: string;
  readonly type: Permission;
}): EncodedEvent {
  const policyType = policy.type === "Dial" ? DataState_PolicyType.DialPolicy : DataState_PolicyType.BindPolicy;
  return encoded({ case: "servicePolicy", value: { id: policy.id, name: policy.name, policyType } });
}

/** A certificate that routers check with: of a CA whose clients are let in, or of the controller, which signs tokens as well. */
export function publicKeyEvent(
  certificate: Pick<X509Certificate, "raw">,
  usages: readonly edgeCtrlPb.DataState_PublicKey_Usage[],
): { readonly kid: string; readonly event: EncodedEvent } {
  const kid = createHash("sha1").update(certificate.raw).digest("hex");
  return {
    kid,
    event: encoded({ case: "publicKey", value: { data: certificate.raw, kid, usages: [...usages] } }, true),
  };
}

/** Tokens that routers refuse before their end. */
export function revocationEvent(revocation: {
  readonly id: string;
  readonly type: RevocationType;
  readonly expiresAt: Date;
  readonly issuedBefore: Date | null;
}): EncodedEvent {
  const { id, type, expiresAt, issuedBefore } = revocation;
  const value = {
    id,
    type,
    expiresAt: timestamp(expiresAt),
    ...(issuedBefore && { issuedBefore: timestamp(issuedBefore) }),
  };
  return encoded({ case: "revocation", value });
}

function timestamp(at: Date): { seconds: bigint; nanos: number } {
  const ms = at.getTime();
  return { seconds: BigInt(Math.floor(ms / 1_000)), nanos: (ms % 1_000) * 1_000_000 };
}

const RELATED = {
  service: DataState_RelatedEntityType.RelatedService,
  identity: DataState_RelatedEntityType.RelatedIdentity,
  posture_check: DataState_RelatedEntityType.RelatedPostureCheck,
} as const;
export type RelatedKind = keyof typeof RELATED;

/** Ids in one event: encoding more of them at once would hold everything else up. */
const IDS_PER_EVENT = 1_000;

/** The policy selects these entities, or does not any more. */
export function* policyChangeEvents(change: {
  readonly policyId: string;
  readonly kind: RelatedKind;
  readonly ids: Iterable<string>;
  readonly isMember: boolean;
}): Generator<EncodedEvent> {
  let ids: string[] = [];
  for (const id of change.ids) {
    if (ids.push(id) < IDS_PER_EVENT) continue;
    yield policyChangeEvent(change, ids);
    ids = [];
  }
  if (ids.length > 0) yield policyChangeEvent(change, ids);
}

/** Written by hand: a large network has millions of these ids, and the library takes twenty times as long for them. */
function policyChangeEvent(
  { policyId, kind, isMember }: { policyId: string; kind: RelatedKind; isMember: boolean },
  ids: readonly string[],
): EncodedEvent {
  let body = field("\x0a", bytesOf(policyId));
  for (const id of ids) body += field("\x12", bytesOf(id));
  body += `\x18${String.fromCharCode(RELATED[kind])}${isMember ? "\x20\x01" : ""}`;
  return field("\x82\x01", body);
}

/** A length-delimited field; `tag` and `value` are bytes, as is the answer. */
function field(tag: string, value: string): string {
  let length = "";
  let rest = value.length;
  for (; rest > 0x7f; rest >>>= 7) length += String.fromCharCode((rest & 0x7f) | 0x80);
  return tag + length + String.fromCharCode(rest) + value;
}

function bytesOf(text: string): string {
  return isAscii(text) ? text : Buffer.from(text, "utf8").toString("latin1");
}

function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}
