import { type Collection, writable } from "../../entity/collection.ts";
import { OWNER_TAGS } from "../../entity/ownership.ts";
import { type EntityKind, type EntityResource, type FoundEntity, sameJson, sameSet } from "../../entity/plan.ts";
import {
  idsOf,
  type MissingReference,
  named,
  type Reference,
  type ResolvedReferences,
  scopedAttributes,
} from "../../entity/references.ts";
import type { Invitation } from "./invitation.ts";
import type { IdentitySpec } from "./schema.ts";

type Precedence = "default" | "required" | "failed";

export interface IdentityFields {
  readonly type: IdentitySpec["type"];
  readonly isAdmin: boolean;
  readonly roleAttributes: readonly string[];
  readonly authPolicyId: string;
  readonly externalId?: string;
  readonly defaultHostingCost: number;
  readonly defaultHostingPrecedence: Precedence;
  readonly serviceHostingCosts: Readonly<Record<string, number>>;
  readonly serviceHostingPrecedences: Readonly<Record<string, Precedence>>;
  readonly appData: Readonly<Record<string, unknown>>;
}

/** An invitation that was not used yet. */
interface FoundEnrollment {
  readonly id?: string | undefined;
  readonly jwt?: string | undefined;
  readonly expiresAt: string;
}

export interface FoundIdentity extends FoundEntity {
  readonly typeId: string;
  readonly isAdmin: boolean;
  readonly isDefaultAdmin: boolean;
  readonly roleAttributes?: readonly string[] | null | undefined;
  readonly authPolicyId: string;
  readonly externalId?: string | null | undefined;
  readonly defaultHostingCost: number;
  readonly defaultHostingPrecedence?: Precedence | undefined;
  readonly serviceHostingCosts?: Readonly<Record<string, number>> | null | undefined;
  readonly serviceHostingPrecedences?: Readonly<Record<string, Precedence>> | null | undefined;
  readonly appData?: Readonly<Record<string, unknown>> | null | undefined;
  /** Rights that others gave it: they stay. */
  readonly permissions?: readonly string[] | null | undefined;
  readonly disabled: boolean;
  readonly disabledUntil?: string | undefined;
  readonly hasEdgeRouterConnection: boolean;
  readonly authenticators: {
    readonly cert?: { readonly id: string; readonly fingerprint: string } | undefined;
    readonly updb?: { readonly id: string; readonly username: string } | undefined;
  };
  readonly enrollment: {
    readonly ott?: FoundEnrollment | undefined;
    readonly ottca?: FoundEnrollment | undefined;
    readonly updb?: FoundEnrollment | undefined;
  };
}

/** The auth policy that applies where no other is named. */
const USUAL_POLICY = "default";
/** Of the identity of a router's tunneler, which has the router's id. */
const ROUTER_TYPE = "Router";

const policies = ({ authPolicyRef }: IdentitySpec) =>
  named("AuthPolicy", authPolicyRef === undefined ? [] : [authPolicyRef]);

export const identityEntity: EntityKind<IdentitySpec, IdentityFields, FoundIdentity> = {
  noun: "identity",
  references: (spec) => [
    ...policies(spec),
    ...named(
      "OverlayService",
      spec.serviceHosting?.map(({ serviceRef }) => serviceRef),
    ),
  ],
  desired(spec, { scope, references }) {
    const policy = idsOf(policies(spec), references);
    const missing: MissingReference[] = [...policy.missing];
    const costs: Record<string, number> = {};
    const precedences: Record<string, Precedence> = {};
    for (const { serviceRef, cost, precedence } of spec.serviceHosting ?? []) {
      const service = idsOf(named("OverlayService", [serviceRef]), references);
      missing.push(...service.missing);
      for (const id of service.ids) {
        if (cost !== undefined) costs[id] = cost;
        if (precedence !== undefined) precedences[id] = precedence;
      }
    }
    return {
      fields: {
        type: spec.type,
        isAdmin: spec.isAdmin,
        roleAttributes: scopedAttributes(spec.roleAttributes, scope),
        authPolicyId: spec.authPolicyId ?? policy.ids[0] ?? USUAL_POLICY,
        ...(spec.externalId === undefined ? {} : { externalId: spec.externalId }),
        defaultHostingCost: spec.defaultHostingCost ?? 0,
        defaultHostingPrecedence: spec.defaultHostingPrecedence ?? "default",
        serviceHostingCosts: costs,
        serviceHostingPrecedences: precedences,
        appData: spec.appData ?? {},
      },
      missing,
      // The standard policy may let in whom the missing one would not.
      whileMissing: ({ authPolicyId }) => (policy.missing.length === 0 ? {} : { authPolicyId }),
    };
  },
  same: {
    // Some servers keep Default for all of them.
    type: (wanted, found) => wanted === found.typeId || found.typeId === "Default",
    isAdmin: (wanted, found) => wanted === found.isAdmin,
    roleAttributes: (wanted, found) => sameSet(wanted, found.roleAttributes),
    authPolicyId: (wanted, found) => wanted === found.authPolicyId,
    externalId: (wanted, found) => (wanted ?? "") === (found.externalId ?? ""),
    defaultHostingCost: (wanted, found) => wanted === found.defaultHostingCost,
    defaultHostingPrecedence: (wanted, found) => wanted === (found.defaultHostingPrecedence ?? "default"),
    serviceHostingCosts: (wanted, found) => sameJson(wanted, found.serviceHostingCosts ?? {}),
    serviceHostingPrecedences: (wanted, found) => sameJson(wanted, found.serviceHostingPrecedences ?? {}),
    appData: (wanted, found) => sameJson(wanted, found.appData ?? {}),
  },
  refusal(found, fields) {
    if (found.typeId === ROUTER_TYPE) {
      return "belongs to the router of the same id: select it in policies by edgeRouterRefs, or choose another name";
    }
    if (found.isDefaultAdmin) return "is the network's first administrator, which no resource may take over";
    const isUnowned = (found.tags?.[OWNER_TAGS.uid] ?? undefined) === undefined;
    if (found.isAdmin && !fields.isAdmin && isUnowned) {
      return "is an administrator, and would not be one any more: set spec.isAdmin, or take the right away first";
    }
    return undefined;
  },
};

/** Condition of an identity that the spec locks out. */
export const DISABLED = "Disabled";

/** Tag of an identity that the spec locks out: the lock is the resource's own, and the resource may take it away. */
const MARK = "sallyport-disabled";

/** The resource with the tag among those that its identity is to have. */
export function withDisablingMark<R extends EntityResource<IdentitySpec>>(resource: R): R {
  const { spec } = resource;
  return spec.disabled ? { ...resource, spec: { ...spec, tags: { ...spec.tags, [MARK]: "true" } } } : resource;
}

export const hasDisablingMark = ({ tags }: Pick<FoundIdentity, "tags">): boolean => tags?.[MARK] === "true";

export type DisablingPlan =
  | { readonly action: "none" }
  | { readonly action: "disable" | "enable" }
  /** Others locked it out: an administrator, or the network after too many wrong passwords. That stays. */
  | { readonly action: "leave"; readonly message: string };

/**
 * Whether to lock an identity out or let it in. Only what the resource locked out is let in again by it: else it would undo the protection
 * against guessed passwords, and what an administrator does in an emergency.
 * @param isOurs the resource locked it out before
 */
export function planDisabling(
  wanted: boolean,
  { disabled, disabledUntil }: Pick<FoundIdentity, "disabled" | "disabledUntil">,
  isOurs: boolean,
): DisablingPlan {
  if (wanted) return disabled && disabledUntil === undefined ? { action: "none" } : { action: "disable" };
  if (!disabled) return { action: "none" };
  // With an end it is not ours: the spec knows none.
  if (isOurs && disabledUntil === undefined) return { action: "enable" };
  const until = disabledUntil === undefined ? "" : ` until ${disabledUntil}`;
  const message = `the identity is locked out in the network${until}, by an administrator or after wrong passwords: let it in there, or set spec.disabled to true and then to false`;
  return { action: "leave", message };
}

/** A config that replaces a service's own one for an identity. */
interface ServiceConfigPair {
  readonly serviceId: string;
  readonly configId: string;
}

interface ServiceConfigPlan {
  readonly assign: readonly ServiceConfigPair[];
  readonly remove: readonly ServiceConfigPair[];
  readonly missing: readonly MissingReference[];
}

export const serviceConfigReferences = ({ serviceConfigs }: IdentitySpec): Reference[] =>
  (serviceConfigs ?? []).flatMap(({ serviceRef, configRef }) => [
    ...named("OverlayService", [serviceRef]),
    ...named("ServiceConfig", [configRef]),
  ]);

/** What to change so that an identity has the configs of the spec. While some are missing, none is taken away. */
export function planServiceConfigs(
  spec: IdentitySpec,
  references: ResolvedReferences,
  found: readonly ServiceConfigPair[],
): ServiceConfigPlan {
  const missing: MissingReference[] = [];
  const wanted: ServiceConfigPair[] = [];
  for (const { serviceRef, configRef } of spec.serviceConfigs ?? []) {
    const service = idsOf(named("OverlayService", [serviceRef]), references);
    const config = idsOf(named("ServiceConfig", [configRef]), references);
    missing.push(...service.missing, ...config.missing);
    const [serviceId] = service.ids;
    const [configId] = config.ids;
    if (serviceId !== undefined && configId !== undefined) wanted.push({ serviceId, configId });
  }
  const has = (pairs: readonly ServiceConfigPair[], pair: ServiceConfigPair): boolean =>
    pairs.some(({ serviceId, configId }) => serviceId === pair.serviceId && configId === pair.configId);
  return {
    assign: wanted.filter((pair) => !has(found, pair)),
    remove: missing.length > 0 ? [] : found.filter((pair) => !has(wanted, pair)),
    missing,
  };
}

/** What a new identity is invited by, as the API takes it together with the identity. */
type EnrollmentOfCreate = { readonly ott: true } | { readonly ottca: string } | { readonly updb: string };

function enrollmentOfCreate(invitation: Invitation): EnrollmentOfCreate {
  switch (invitation.method) {
    case "ott":
      return { ott: true };
    case "ottca":
      return { ottca: invitation.caId };
    case "updb":
      return { updb: invitation.username };
  }
}

/** The calls for identities. One that is created is invited at once by `invitation`; its token lives as long as the network's do. */
export function identityCollection(invitation: Invitation | undefined): Collection<IdentityFields, FoundIdentity> {
  const enrollment = invitation === undefined ? {} : { enrollment: enrollmentOfCreate(invitation) };
  return {
    list: (client, query, call) => client.listIdentities({ query }, call),
    detail: (client, id, call) => client.detailIdentity({ params: { id } }, call),
    create: async (client, fields, call) =>
      (await client.createIdentity({ body: writable({ ...fields, ...enrollment }) }, call)).data.id,
    replace: (client, { id, permissions }, body, call) =>
      client.updateIdentity({ params: { id }, body: writable({ ...body, permissions: permissions ?? [] }) }, call),
    fieldsOf: (found) => ({
      type: found.typeId as "Default",
      isAdmin: found.isAdmin,
      roleAttributes: found.roleAttributes ?? [],
      authPolicyId: found.authPolicyId,
      ...(found.externalId ? { externalId: found.externalId } : {}),
      defaultHostingCost: found.defaultHostingCost,
      defaultHostingPrecedence: found.defaultHostingPrecedence ?? "default",
      serviceHostingCosts: found.serviceHostingCosts ?? {},
      serviceHostingPrecedences: found.serviceHostingPrecedences ?? {},
      appData: found.appData ?? {},
    }),
    delete: (client, id, call) => client.deleteIdentity({ params: { id } }, call),
  };
}
