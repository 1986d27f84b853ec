/** A value for every field of every body that makes or changes an entity, other than the field's value in the base. */
import { authPolicy } from "./auth-policy.ts";

type Body = Readonly<Record<string, unknown>>;

/** What a field is set to, and what of the answer shows it, when that is not the field itself with the same value. */
export interface Sample {
  readonly value: unknown;
  readonly at?: string;
  /** Any value will do there. */
  readonly isPresent?: true;
  /** Fields that have to come along. */
  readonly with?: Body;
}

export interface EntityKind {
  readonly api: "management" | "fabric";
  readonly collection: string;
  /** Distinguishes kinds that share a collection. */
  readonly variant?: string;
  /** A body with a name of its own that makes an entity. */
  base(name: string): Body;
  /** What a PATCH always has to say. */
  readonly patch?: Body;
  /** Fields of the base that a PUT does not take. */
  readonly onlyAtCreation?: readonly string[];
  /** By the field's place, dots between the names. */
  readonly samples: Readonly<Record<string, Sample>>;
  /** Fields without an effect that shows, in all operations or in those named, and why that is right. */
  readonly without?: readonly { readonly field: string; readonly methods?: readonly string[]; readonly why: string }[];
}

/** What samples refer to: ids of entities that are there. */
export interface SampleReferences {
  readonly policy: string;
  readonly signer: string;
  readonly ca: string;
  readonly identity: string;
  readonly service: string;
  readonly otherService: string;
  readonly config: string;
  readonly routerConfig: string;
  readonly router: string;
  readonly otherRouter: string;
  readonly check: string;
  /** A certificate of another authority with each call. */
  certificate(): string;
  /** SHA-1 digests that no router has. */
  fingerprint(): string;
}

const TAGS = { tags: { value: { k: "v" } } };
const NAME = { name: { value: "renamed" } };
const ATTRIBUTES = { roleAttributes: { value: ["sample"] } };
const ROUTER = { cost: { value: 7 }, disabled: { value: true }, noTraversal: { value: true } };
const LISTENERS = { ctrlChanListeners: { value: { "tls:1.2.3.4:6262": ["east"] } } };
const COST = { cost: { value: 9 }, precedence: { value: "required" } };
const MILLIS = { maxIdleTimeMillis: { value: 4_000 } };

export function entityKinds(s: SampleReferences): readonly EntityKind[] {
  return [...network(s), ...policies(s), ...postureChecks(s), ...authentication(s), ...fabric(s)];
}

function network(s: SampleReferences): EntityKind[] {
  const routerConfigs = { configs: { value: [s.routerConfig] } };
  const transit = (collection: string): EntityKind => ({
    api: "management",
    collection,
    base: (name) => ({ name }),
    samples: { ...NAME, ...TAGS, ...ROUTER, ...LISTENERS, ...routerConfigs },
  });
  return [
    {
      api: "management",
      collection: "identities",
      base: (name) => ({ name, type: "Default", isAdmin: false }),
      onlyAtCreation: ["enrollment"],
      samples: {
        ...{ ...NAME, ...TAGS, ...ATTRIBUTES },
        type: { value: "Device", at: "typeId" },
        isAdmin: { value: true },
        appData: { value: { team: { name: "x" } } },
        authPolicyId: { value: s.policy },
        defaultHostingCost: { value: 5 },
        defaultHostingPrecedence: { value: "required" },
        externalId: { value: "outside" },
        permissions: { value: ["sample"] },
        serviceHostingCosts: { value: { [s.service]: 3 } },
        serviceHostingPrecedences: { value: { [s.service]: "failed" } },
        "enrollment.ott": { value: true, at: "enrollment.ott.token", isPresent: true },
        "enrollment.ottca": { value: s.ca, at: "enrollment.ottca.caId" },
        "enrollment.updb": { value: "sampleuser", at: "enrollment.updb.token", isPresent: true },
      },
    },
    {
      api: "management",
      collection: "services",
      base: (name) => ({ name, encryptionRequired: true }),
      samples: {
        ...{ ...NAME, ...TAGS, ...ATTRIBUTES, ...MILLIS },
        configs: { value: [s.config] },
        terminatorStrategy: { value: "weighted" },
        encryptionRequired: { value: false },
      },
      without: [
        { field: "encryptionRequired", methods: ["PUT", "PATCH"], why: "whether a service is encrypted never changes" },
      ],
    },
    {
      api: "management",
      collection: "edge-routers",
      base: (name) => ({ name }),
      samples: {
        ...{ ...NAME, ...TAGS, ...ATTRIBUTES, ...ROUTER, ...LISTENERS, ...routerConfigs },
        appData: { value: { team: { name: "x" } } },
        isTunnelerEnabled: { value: true },
      },
    },
    transit("routers"),
    transit("transit-routers"),
    {
      api: "management",
      collection: "config-types",
      base: (name) => ({ name }),
      samples: {
        ...{ ...NAME, ...TAGS },
        schema: { value: { type: "object", title: "sample" } },
        target: { value: "router" },
      },
      without: [
        { field: "target", methods: ["PUT", "PATCH"], why: "what a type is for never changes: another value is 400" },
      ],
    },
    {
      api: "management",
      collection: "configs",
      base: (name) => ({ name, configTypeId: "NH5p4FpGR", data: { protocol: "tcp", address: "a", port: 1 } }),
      onlyAtCreation: ["configTypeId"],
      samples: {
        ...{ ...NAME, ...TAGS },
        data: { value: { protocol: "tcp", address: "b", port: 2 } },
        configTypeId: {
          value: "f2dd2df0-9c04-4b84-a91e-71437ac229f1",
          with: { data: { hostname: "a", port: 1 } },
        },
      },
    },
    {
      api: "management",
      collection: "terminators",
      ...terminator(s),
      onlyAtCreation: ["identity", "identitySecret"],
      samples: {
        ...terminator(s).samples,
        identity: { value: "instance" },
      },
      without: [
        { field: "service", methods: ["PUT", "PATCH"], why: "a terminator stays with its service: another is refused" },
        { field: "identitySecret", why: "a secret is not shown; terminators of one instance need the same one" },
      ],
    },
  ];
}

/** What terminators have in common in both APIs. */
function terminator(s: SampleReferences) {
  return {
    base: () => ({ service: s.service, router: s.router, binding: "transport", address: "tcp:a:1" }),
    samples: {
      ...{ ...TAGS, ...COST },
      address: { value: "tcp:b:2" },
      binding: { value: "edge_transport" },
      router: { value: s.otherRouter, at: "routerId" },
      service: { value: s.otherService, at: "serviceId" },
    },
  };
}

function policies(s: SampleReferences): EntityKind[] {
  const SEMANTIC = { semantic: { value: "AllOf" } };
  const routers = { edgeRouterRoles: { value: [`@${s.router}`] } };
  const identities = { identityRoles: { value: [`@${s.identity}`] } };
  const services = { serviceRoles: { value: [`@${s.service}`] } };
  const common = { ...NAME, ...TAGS, ...SEMANTIC };
  const base = (name: string) => ({ name, semantic: "AnyOf" });
  const api = "management";
  return [
    { api, collection: "edge-router-policies", base, samples: { ...common, ...routers, ...identities } },
    { api, collection: "service-edge-router-policies", base, samples: { ...common, ...routers, ...services } },
    {
      ...{ api, collection: "service-policies" },
      base: (name) => ({ ...base(name), type: "Dial" }),
      samples: {
        ...{ ...common, ...identities, ...services },
        type: { value: "Bind" },
        postureCheckRoles: { value: [`@${s.check}`] },
      },
    },
  ];
}

function postureChecks(s: SampleReferences): EntityKind[] {
  const kind = (variant: string, own: Body, samples: EntityKind["samples"]): EntityKind => ({
    ...{ api: "management", collection: "posture-checks", variant, patch: { typeId: variant } },
    base: (name) => ({ name, typeId: variant, ...own }),
    samples: { ...NAME, ...TAGS, ...ATTRIBUTES, ...samples },
    without: [{ field: "typeId", why: "it says which check it is, and never changes" }],
  });
  const process = { osType: "Linux", path: "/bin/a" };
  const hash = "ab".repeat(64);
  return [
    kind(
      "OS",
      { operatingSystems: [{ type: "Linux" }] },
      {
        operatingSystems: { value: [{ type: "Windows", versions: [">=10.0.0"] }] },
      },
    ),
    kind("DOMAIN", { domains: ["a.example"] }, { domains: { value: ["b.example"] } }),
    kind("MAC", { macAddresses: ["020000000001"] }, { macAddresses: { value: ["020000000002"] } }),
    kind(
      "PROCESS",
      { process },
      {
        "process.osType": { value: "macOS", with: { process } },
        "process.path": { value: "/bin/b", with: { process } },
        "process.hashes": { value: [hash], with: { process } },
        "process.signerFingerprint": { value: s.fingerprint(), with: { process } },
      },
    ),
    kind(
      "PROCESS_MULTI",
      { semantic: "AllOf", processes: [process] },
      {
        semantic: { value: "AnyOf" },
        processes: {
          value: [{ osType: "macOS", path: "/bin/b", hashes: [hash], signerFingerprints: [s.fingerprint()] }],
        },
      },
    ),
    kind(
      "MFA",
      {},
      {
        timeoutSeconds: { value: 60 },
        promptOnWake: { value: true },
        promptOnUnlock: { value: true },
        ignoreLegacyEndpoints: { value: true },
      },
    ),
  ];
}

function authentication(s: SampleReferences): EntityKind[] {
  const claim = {
    externalIdClaim: {
      ...{ index: 0, location: "COMMON_NAME", matcher: "ALL", matcherCriteria: "a" },
      ...{ parser: "NONE", parserCriteria: "b" },
    },
  };
  return [
    {
      ...{ api: "management", collection: "auth-policies" },
      base: (name) => authPolicy(name),
      samples: {
        ...{ ...NAME, ...TAGS },
        "primary.cert.allowed": { value: false },
        "primary.cert.allowExpiredCerts": { value: true },
        "primary.extJwt.allowed": { value: false },
        "primary.extJwt.allowedSigners": { value: [s.signer] },
        "primary.updb.allowed": { value: false },
        "primary.updb.lockoutDurationMinutes": { value: 3 },
        "primary.updb.maxAttempts": { value: 4 },
        "primary.updb.minPasswordLength": { value: 9 },
        "primary.updb.requireMixedCase": { value: true },
        "primary.updb.requireNumberChar": { value: true },
        "primary.updb.requireSpecialChar": { value: true },
        "secondary.requireExtJwtSigner": { value: s.signer },
        "secondary.requireTotp": { value: true },
      },
    },
    {
      ...{ api: "management", collection: "external-jwt-signers" },
      base: (name) => ({
        ...{ name, issuer: `https://${name.replaceAll(" ", "-")}.example`, audience: "us", enabled: true },
        jwksEndpoint: "https://issuer.example/jwks",
      }),
      samples: {
        ...{ ...NAME, ...TAGS },
        audience: { value: "them" },
        certPem: { value: s.certificate(), with: { kid: "k", jwksEndpoint: "" } },
        kid: { value: "k2", with: { certPem: s.certificate(), jwksEndpoint: "" } },
        claimsProperty: { value: "email" },
        clientId: { value: "client" },
        enabled: { value: false },
        enrollAttributeClaimsSelector: { value: "/groups" },
        enrollAuthPolicyId: { value: s.policy },
        enrollNameClaimsSelector: { value: "/email" },
        enrollToCertEnabled: { value: true, with: { useExternalId: true } },
        enrollToTokenEnabled: { value: true, with: { useExternalId: true } },
        externalAuthUrl: { value: "https://login.example" },
        issuer: { value: "https://changed.example" },
        jwksEndpoint: { value: "https://changed.example/jwks" },
        scopes: { value: ["openid"] },
        targetToken: { value: "ID" },
        useExternalId: { value: true },
      },
    },
    {
      ...{ api: "management", collection: "cas" },
      base: (name) => ({
        ...{ name, certPem: s.certificate(), identityRoles: [], identityNameFormat: "[caName]" },
        ...{ isAuthEnabled: false, isAutoCaEnrollmentEnabled: false, isOttCaEnrollmentEnabled: false },
        ...claim,
      }),
      onlyAtCreation: ["certPem"],
      samples: {
        ...{ ...NAME, ...TAGS },
        certPem: { value: s.certificate() },
        identityRoles: { value: ["sample"] },
        identityNameFormat: { value: "[commonName]" },
        isAuthEnabled: { value: true },
        isAutoCaEnrollmentEnabled: { value: true },
        isOttCaEnrollmentEnabled: { value: true },
        "externalIdClaim.index": { value: 1 },
        "externalIdClaim.location": { value: "SAN_EMAIL" },
        "externalIdClaim.matcher": { value: "PREFIX" },
        "externalIdClaim.matcherCriteria": { value: "c" },
        "externalIdClaim.parser": { value: "SPLIT" },
        "externalIdClaim.parserCriteria": { value: "d" },
      },
    },
  ];
}

function fabric(s: SampleReferences): EntityKind[] {
  return [
    {
      ...{ api: "fabric", collection: "services" },
      base: (name) => ({ name }),
      samples: { ...NAME, ...TAGS, ...MILLIS, terminatorStrategy: { value: "weighted" } },
    },
    {
      ...{ api: "fabric", collection: "routers" },
      base: (name) => ({ id: name.replaceAll(" ", "-"), name, fingerprint: s.fingerprint() }),
      onlyAtCreation: ["id"],
      samples: {
        ...{ ...NAME, ...TAGS, ...ROUTER },
        id: { value: "chosen" },
        fingerprint: { value: s.fingerprint() },
      },
    },
    {
      ...{ api: "fabric", collection: "terminators" },
      ...terminator(s),
      onlyAtCreation: ["instanceId", "instanceSecret"],
      samples: {
        ...terminator(s).samples,
        hostId: { value: "host" },
        instanceId: { value: "instance" },
      },
      without: [
        { field: "service", methods: ["PUT", "PATCH"], why: "a terminator stays with its service: another is refused" },
        { field: "instanceSecret", why: "a secret is not shown; terminators of one instance need the same one" },
      ],
    },
  ];
}
