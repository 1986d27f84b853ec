/** Entities as specs that declare them: what is as a resource has it without saying so is left out. */
import type {
  FoundAuthPolicy,
  FoundConfig,
  FoundEdgeRouter,
  FoundEdgeRouterPolicy,
  FoundEntity,
  FoundIdentity,
  FoundOverlayService,
  FoundPostureCheck,
  FoundServiceEdgeRouterPolicy,
  FoundServicePolicy,
} from "@sallyport/resources";
import type { Json } from "../json.ts";
import type { NetworkState } from "../network-state.ts";
import type { ExportedReferences, Selected } from "./exported-references.ts";

export interface SpecContext {
  readonly state: NetworkState;
  readonly references: ExportedReferences;
  readonly namespace: string;
  /** What the spec cannot say. */
  readonly warn: (text: string) => void;
}

type SpecOf = (found: FoundEntity, context: SpecContext) => Json | Promise<Json>;

const of = <Found extends FoundEntity>(spec: (found: Found, context: SpecContext) => Json | Promise<Json>): SpecOf =>
  spec as unknown as SpecOf;

/** Without lists, maps and texts that are empty, and without what is not there. */
function compact(fields: Json): Json {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => {
      if (value === undefined || value === null || value === "") return false;
      if (Array.isArray(value)) return value.length > 0;
      return typeof value !== "object" || Object.keys(value).length > 0;
    }),
  );
}

const sorted = (texts: readonly string[] | null | undefined): string[] => (texts ?? []).toSorted();

/** The fields of a selector. Routers are selected beside identities, by `edgeRouterRefs`. */
const selector = (field: string, { roles, refs, routerRefs, ids }: Selected): Json => ({
  [`${field}Roles`]: roles,
  [`${field}Refs`]: refs,
  ...(routerRefs.length > 0 && { edgeRouterRefs: routerRefs }),
  [`${field}Ids`]: ids,
});

function configs(found: { readonly configs?: readonly string[] | null | undefined }, context: SpecContext): Json {
  const { references, namespace } = context;
  const ids = sorted(found.configs);
  const refs = ids.flatMap((id) => references.refTo("ServiceConfig", id, namespace) ?? []);
  return {
    configRefs: refs.toSorted((left, right) => left.name.localeCompare(right.name)),
    configIds: ids.filter((id) => references.refTo("ServiceConfig", id, namespace) === undefined),
  };
}

export const SPECS: Readonly<Record<string, SpecOf>> = {
  ServiceConfig: of<FoundConfig>(({ configTypeId, data }, { state }) => ({
    type: state.nameOf(configTypeId) ?? configTypeId,
    data: data ?? {},
  })),

  AuthPolicy: of<FoundAuthPolicy>(({ primary, secondary }) => {
    const { cert, extJwt, updb } = primary;
    return {
      primary: {
        cert: { allowed: cert.allowed, allowExpiredCerts: cert.allowExpiredCerts },
        extJwt: compact({ allowed: extJwt.allowed, allowedSigners: sorted(extJwt.allowedSigners) }),
        updb: {
          allowed: updb.allowed,
          minPasswordLength: updb.minPasswordLength,
          requireSpecialChar: updb.requireSpecialChar,
          requireNumberChar: updb.requireNumberChar,
          requireMixedCase: updb.requireMixedCase,
          maxAttempts: updb.maxAttempts,
          lockoutDurationMinutes: updb.lockoutDurationMinutes,
        },
      },
      secondary: compact({
        requireTotp: secondary.requireTotp,
        requireExtJwtSigner: secondary.requireExtJwtSigner,
      }),
    };
  }),

  PostureCheck: of<FoundPostureCheck>((found) => ({
    ...compact({ roleAttributes: sorted(found.roleAttributes) }),
    ...postureVariant(found),
  })),

  OverlayService: of<FoundOverlayService>((found, context) =>
    compact({
      encryptionRequired: found.encryptionRequired === false ? false : undefined,
      roleAttributes: sorted(found.roleAttributes),
      ...configs(found, context),
      terminatorStrategy: found.terminatorStrategy === "smartrouting" ? undefined : found.terminatorStrategy,
      maxIdleTimeMillis: found.maxIdleTimeMillis || undefined,
    }),
  ),

  EdgeRouter: of<FoundEdgeRouter>((found, context) =>
    compact({
      roleAttributes: sorted(found.roleAttributes),
      cost: found.cost || undefined,
      noTraversal: found.noTraversal || undefined,
      disabled: found.disabled || undefined,
      ...configs(found, context),
      appData: found.appData,
      tunneler: found.isTunnelerEnabled === true ? { enabled: true } : undefined,
    }),
  ),

  Identity: of<FoundIdentity>(identitySpec),

  ServicePolicy: of<FoundServicePolicy>((found, { references, namespace }) =>
    compact({
      type: found.type,
      semantic: found.semantic,
      ...selector("identity", references.select("Identity", found.identityRoles, namespace)),
      ...selector("service", references.select("OverlayService", found.serviceRoles, namespace)),
      ...selector("postureCheck", references.select("PostureCheck", found.postureCheckRoles, namespace)),
    }),
  ),

  EdgeRouterPolicy: of<FoundEdgeRouterPolicy>((found, { references, namespace }) => {
    const { refs, routerRefs, ...identity } = references.select("Identity", found.identityRoles, namespace);
    // Here tunnelers have no field of their own.
    const routers = (found.identityRoles ?? []).filter((each) => isRouterOf(each, routerRefs, references));
    const ids = [...identity.ids, ...routers.map((each) => each.slice(1))].sort();
    return compact({
      semantic: found.semantic,
      ...selector("edgeRouter", references.select("EdgeRouter", found.edgeRouterRoles, namespace)),
      ...selector("identity", { ...identity, refs, routerRefs: [], ids }),
    });
  }),

  ServiceEdgeRouterPolicy: of<FoundServiceEdgeRouterPolicy>((found, { references, namespace }) =>
    compact({
      semantic: found.semantic,
      ...selector("edgeRouter", references.select("EdgeRouter", found.edgeRouterRoles, namespace)),
      ...selector("service", references.select("OverlayService", found.serviceRoles, namespace)),
    }),
  ),
};

function isRouterOf(role: string, routerRefs: Selected["routerRefs"], references: ExportedReferences): boolean {
  const exported = role.startsWith("@") ? references.namesOf("EdgeRouter").of(role.slice(1)) : undefined;
  return exported !== undefined && routerRefs.some(({ name }) => name === exported.name);
}

async function identitySpec(found: FoundIdentity, { state, references, namespace, warn }: SpecContext): Promise<Json> {
  const { client, signal } = state;
  const service = (id: string) => references.refTo("OverlayService", id, namespace);
  const costs = found.serviceHostingCosts ?? {};
  const precedences = found.serviceHostingPrecedences ?? {};
  const hosted = [...new Set([...Object.keys(costs), ...Object.keys(precedences)])].flatMap((id) => {
    const serviceRef = service(id);
    if (serviceRef === undefined) warn(`cost and precedence for the service ${id}, which no resource stands for`);
    return serviceRef === undefined ? [] : [compact({ serviceRef, cost: costs[id], precedence: precedences[id] })];
  });
  const given = (await client.listIdentitysServiceConfigs({ params: { id: found.id } }, { signal })).data;
  const serviceConfigs = given.flatMap(({ serviceId, configId }) => {
    const [serviceRef, configRef] = [service(serviceId), references.refTo("ServiceConfig", configId, namespace)];
    if (serviceRef !== undefined && configRef !== undefined) return [{ serviceRef, configRef }];
    warn(`the config ${configId} for the service ${serviceId}: no resource stands for one of them`);
    return [];
  });
  const policy = found.authPolicyId === "default" ? undefined : found.authPolicyId;
  const authPolicyRef = policy === undefined ? undefined : references.refTo("AuthPolicy", policy, namespace);
  const isLocked = found.disabled && found.disabledUntil === undefined;
  return compact({
    type: found.typeId === "Default" ? undefined : found.typeId,
    isAdmin: found.isAdmin || undefined,
    roleAttributes: sorted(found.roleAttributes),
    authPolicyRef,
    authPolicyId: authPolicyRef === undefined ? policy : undefined,
    externalId: found.externalId,
    defaultHostingCost: found.defaultHostingCost || undefined,
    defaultHostingPrecedence: found.defaultHostingPrecedence === "default" ? undefined : found.defaultHostingPrecedence,
    serviceHosting: hosted,
    serviceConfigs,
    appData: found.appData,
    disabled: isLocked || undefined,
    enrollment: found.externalId ? undefined : enrollmentOf(found),
  });
}

/** How another network would invite it. Who has a certificate gets a one-time token there. */
function enrollmentOf({ authenticators, enrollment }: FoundIdentity): Json | undefined {
  const { updb, cert } = authenticators;
  if (updb !== undefined) return { method: "updb", username: updb.username };
  const isInvited = cert !== undefined || enrollment.ott !== undefined;
  return isInvited ? undefined : { method: "none" };
}

const MFA_DEFAULTS = { promptOnWake: false, promptOnUnlock: false, ignoreLegacyEndpoints: false };

function postureVariant(found: FoundPostureCheck): Json {
  switch (found.typeId) {
    case "OS":
      return {
        operatingSystem: {
          operatingSystems: (found.operatingSystems ?? []).map(({ type, versions }) =>
            compact({ type, versions: versions ?? [] }),
          ),
        },
      };
    case "PROCESS":
      return { process: found.process && processOf(found.process) };
    case "PROCESS_MULTI":
      return { processMulti: { semantic: found.semantic, processes: (found.processes ?? []).map(processOf) } };
    case "DOMAIN":
      return { domain: { domains: found.domains ?? [] } };
    case "MAC":
      return { mac: { macAddresses: found.macAddresses ?? [] } };
    default: {
      const { timeoutSeconds = 0, promptOnWake, promptOnUnlock, ignoreLegacyEndpoints } = found;
      const given = Object.entries({ promptOnWake, promptOnUnlock, ignoreLegacyEndpoints });
      const differing = given.filter(([key, value]) => value !== MFA_DEFAULTS[key as keyof typeof MFA_DEFAULTS]);
      return { mfa: { ...compact(Object.fromEntries(differing)), ...(timeoutSeconds > 0 && { timeoutSeconds }) } };
    }
  }
}

const processOf = ({
  osType,
  path,
  hashes,
  signerFingerprint,
  signerFingerprints,
}: NonNullable<FoundPostureCheck["process"]>) =>
  compact({ osType, path, hashes, signerFingerprint, signerFingerprints });
