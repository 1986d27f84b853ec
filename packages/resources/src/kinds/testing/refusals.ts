import { KINDS } from "../../group.ts";
import { type Manifest, sample } from "./samples.ts";

/** An object that the API server must refuse, and why. */
export interface Refusal {
  readonly kind: string;
  /** The schema node whose rule it is, such as `spec.tags`; empty: the whole object. */
  readonly at: string;
  /** `rule` for a rule in CEL; else the keyword of the schema, or `unknown` for a field that there isn't. */
  readonly rule: "rule" | keyof typeof MESSAGES;
  /** A part of the answer. */
  readonly message: string;
  readonly object: Manifest;
  /** What is stored, when it is an update that is refused; it is accepted itself. */
  readonly previous?: Manifest;
}

type Spec = Readonly<Record<string, unknown>>;

/** What an API server says of each keyword of the schema. */
const MESSAGES = {
  unknown: "unknown field",
  required: "Required value",
  type: "must be of type",
  enum: "Unsupported value",
  pattern: "should match",
  minimum: "should be greater than or equal to",
  maximum: "should be less than or equal to",
  minLength: "should be at least",
  maxLength: "Too long",
  minItems: "should have at least",
  maxItems: "must have at most",
  maxProperties: "must have at most",
  "x-kubernetes-list-type": "Duplicate value",
};

/** By a rule, whatever was there before. */
const rule = (kind: string, at: string, message: string, changes: Spec): Refusal => ({
  ...{ kind, at, rule: "rule", message, object: sample(kind, changes) },
});

/** By a rule, as a change of what was there before. */
const change = (kind: string, at: string, message: string, before: Spec, after: Spec): Refusal => ({
  ...rule(kind, at, message, after),
  previous: sample(kind, before),
});

/** By a rule about the name. */
const named = (kind: string, name: string, message: string, changes: Spec = {}): Refusal => ({
  ...rule(kind, "", message, {}),
  object: sample(kind, changes, name),
});

/** By the schema: a keyword, and the number of a limit. */
type Keyword = keyof typeof MESSAGES;
const bound = (
  kind: string,
  at: string,
  what: Keyword | `${"minimum" | "maximum"} ${number}`,
  changes: Spec,
): Refusal => {
  const [keyword, limit] = what.split(" ") as [Keyword, string?];
  return { ...rule(kind, at, [MESSAGES[keyword], limit].join(" ").trimEnd(), changes), rule: keyword };
};

const many = (count: number, text: string) => Array.from({ length: count }, (_, i) => `${text}${i}`);

/** What stands for an entity of a network. */
const ENTITIES = KINDS.map(({ kind }) => kind).filter((kind) => kind !== "Network");
const ATTRIBUTED = ["EdgeRouter", "Identity", "OverlayService", "PostureCheck"];
const SELECTORS: readonly (readonly [kind: string, fields: readonly string[]])[] = [
  ["ServicePolicy", ["identity", "service", "postureCheck"]],
  ["EdgeRouterPolicy", ["edgeRouter", "identity"]],
  ["ServiceEdgeRouterPolicy", ["edgeRouter", "service"]],
];

// biome-ignore format: a table
const ENTITY_REFUSALS = ENTITIES.flatMap((kind) => [
  change(kind, "spec.networkRef", "networkRef is immutable", {}, { networkRef: { name: "other" } }),
  change(kind, "", "the name in the network is immutable", {}, { name: "other" }),
  change(kind, "", "the name in the network is immutable", { name: "one" }, { name: "other" }),
  change(kind, "", "the name in the network is immutable", { name: "one" }, {}),
  change(kind, "spec", "importId may be set once", { importId: "a.1" }, { importId: "b.2" }),
  change(kind, "spec", "importId may be set once", { importId: "a.1" }, {}),
  rule(kind, "spec.tags", "sallyport- are reserved for the operator", { tags: { "sallyport-uid": "x" } }),
  bound(kind, "spec.networkRef", "required", { networkRef: null }),
  bound(kind, "spec.managementPolicy", "enum", { managementPolicy: "Own" }),
  bound(kind, "spec.deletionPolicy", "enum", { deletionPolicy: "Keep" }),
  bound(kind, "spec.name", "maxLength", { name: "n".repeat(257) }),
  bound(kind, "spec.importId", "pattern", { importId: "a b" }),
  bound(kind, "spec.tags", "maxProperties", { tags: Object.fromEntries(many(65, "t").map((key) => [key, ""])) }),
  bound(kind, "spec.tags.*", "type", { tags: { a: true } }),
  bound(kind, "spec.naem", "unknown", { naem: "x" }),
]);

const ATTRIBUTE_REFUSALS = ATTRIBUTED.flatMap((kind) => [
  rule(kind, "spec.roleAttributes", "without # or @", { roleAttributes: ["web", "#web"] }),
  rule(kind, "spec.roleAttributes", "without # or @", { roleAttributes: ["@web"] }),
  bound(kind, "spec.roleAttributes", "x-kubernetes-list-type", { roleAttributes: ["a", "a"] }),
  bound(kind, "spec.roleAttributes", "maxItems", { roleAttributes: many(129, "a") }),
]);

const SELECTOR_REFUSALS = SELECTORS.flatMap(([kind, fields]) =>
  // biome-ignore format: a table
  fields.flatMap((field) => [
    rule(kind, `spec.${field}Roles`, "a selector begins with #", { [`${field}Roles`]: ["web"] }),
    rule(kind, `spec.${field}Roles`, "a selector begins with #", { [`${field}Roles`]: ["@Kq3x.Zb1t"] }),
    rule(kind, `spec.${field}Roles`, "it stands alone", { [`${field}Roles`]: ["#all", "#web"] }),
    rule(kind, "spec", `leave ${field}Refs`, { [`${field}Roles`]: ["#all"], [`${field}Refs`]: [{ name: "a" }] }),
    rule(kind, "spec", `leave ${field}Refs`, { [`${field}Roles`]: ["#all"], [`${field}Ids`]: ["a.1"] }),
    bound(kind, `spec.${field}Refs`, "x-kubernetes-list-type", { [`${field}Refs`]: [{ name: "a" }, { name: "a" }] }),
  ]),
);

/** The spec of a Network that the operator runs. */
const managed = (changes: Spec): Spec => ({ external: null, managed: changes });
/** The same with several controllers on a database of the user's. */
const replicated = (replicas: number, exposure: Spec = {}): Spec =>
  managed({ replicas, database: { urlSecretRef: { name: "db", key: "url" } }, exposure });
const embedded = (size: string): Spec => managed({ database: { embedded: { size } } });

// biome-ignore format: a table
const NETWORK_REFUSALS: readonly Refusal[] = [
  rule("Network", "spec", "exactly one of external, managed", { external: null }),
  rule("Network", "spec", "exactly one of external, managed", { managed: {} }),
  change("Network", "spec", "external and managed cannot be exchanged", {}, { external: null, managed: {} }),
  change("Network", "spec", "roleScope is immutable", {}, { roleScope: "Namespaced" }),
  rule("Network", "spec.external", "caBundle or bootstrapTrust is needed", { external: { caBundle: null } }),
  rule("Network", "spec.external.caBundle", "exactly one of configMapRef", { external: { caBundle: { inline: "PEM" } } }),
  rule("Network", "spec.external.caBundle", "exactly one of configMapRef", { external: { caBundle: { configMapRef: null } } }),
  rule("Network", "spec.external.auth", "exactly one of passwordSecretRef", { external: { auth: { certificateSecretRef: null } } }),
  rule("Network", "spec.external.auth", "exactly one of passwordSecretRef", { external: { auth: { passwordSecretRef: { name: "password" } } } }),
  ...(["5m", "25h"] as const).map((serviceAccountTokenLifetime, i) =>
    rule("Network", "spec.external.auth.extJwt.serviceAccountTokenLifetime", ["at least 10m", "at most 24h"][i] ?? "", {
      external: { auth: { certificateSecretRef: null, extJwt: { audience: "overlay", serviceAccountTokenLifetime } } },
    }),
  ),
  bound("Network", "spec.external.endpoints[]", "pattern", { external: { endpoints: ["http://ctrl.example"] } }),
  bound("Network", "spec.external.endpoints", "minItems", { external: { endpoints: [] } }),
  bound("Network", "spec.external.ctrlEndpoints[]", "pattern", { external: { ctrlEndpoints: ["ctrl.example:1280"] } }),
  bound("Network", "spec.external.bootstrapTrust.fingerprint", "pattern", { external: { bootstrapTrust: { fingerprint: "ab:cd" } } }),
  rule("Network", "spec.requestTimeout", "must be at least 1s", { requestTimeout: "10ms" }),
  rule("Network", "spec.requestTimeout", "must be at most 5m", { requestTimeout: "6m" }),
  bound("Network", "spec.requestTimeout", "pattern", { requestTimeout: "15" }),
  bound("Network", "spec.maxRequestsPerSecond", "minimum 1", { maxRequestsPerSecond: 0 }),
  rule("Network", "spec.managed", "the embedded database belongs to one controller", managed({ replicas: 2 })),
  bound("Network", "spec.managed.replicas", "minimum 1", replicated(0)),
  bound("Network", "spec.managed.replicas", "maximum 5", replicated(6)),
  rule("Network", "spec.managed", "with exposure.hostname need exposure.replicaHostname", replicated(2, { hostname: "ctrl.example.com" })),
  rule("Network", "spec.managed", "otherwise all of them have one address", replicated(2, { type: "NodePort", hostname: "nodes.example.com", port: 443 })),
  rule("Network", "spec.managed", "leaves no room for the ports", replicated(3, { type: "NodePort", hostname: "nodes.example.com", nodePort: 65_533 })),
  rule("Network", "spec.managed.exposure", "replicaHostname needs {ordinal}", replicated(2, { hostname: "ctrl.example.com", replicaHostname: "ctrl-{name}.example.com" })),
  bound("Network", "spec.managed.exposure.replicaHostname", "pattern", replicated(2, { replicaHostname: "{ordinals}.example.com" })),
  rule("Network", "spec.managed.database", "exactly one of embedded, urlSecretRef", managed({ database: {} })),
  rule("Network", "spec.managed.database", "exactly one of embedded, urlSecretRef", managed({
    database: { embedded: {}, urlSecretRef: { name: "db", key: "url" } },
  })),
  rule("Network", "spec.managed.exposure", "type NodePort needs hostname", managed({ exposure: { type: "NodePort" } })),
  rule("Network", "spec.managed.exposure", "nodePort belongs to type NodePort", managed({ exposure: { nodePort: 30_000 } })),
  rule("Network", "spec.managed.exposure", "belong to type LoadBalancer", managed({ exposure: { loadBalancerClass: "example.com/lb" } })),
  rule("Network", "spec.managed.exposure", "externalTrafficPolicy belongs to", managed({ exposure: { externalTrafficPolicy: "Local" } })),
  bound("Network", "spec.managed.exposure.hostname", "pattern", managed({ exposure: { hostname: "{name}-{ordinal}.example.com" } })),
  bound("Network", "spec.managed.exposure.type", "enum", managed({ exposure: { type: "HostPort" } })),
  bound("Network", "spec.managed.port", "minimum 1024", managed({ port: 443 })),
  change("Network", "spec.managed.database", "the kind of database is immutable", managed({}), managed({ database: { urlSecretRef: { name: "db", key: "url" } } })),
  change("Network", "spec.managed.database.embedded.size", "a volume can grow, not shrink", embedded("2Gi"), embedded("1500Mi")),
  change("Network", "spec.managed.database.embedded", "storageClassName is immutable", managed({}), managed({ database: { embedded: { storageClassName: "fast" } } })),
  change("Network", "spec.managed", "adminSecretName is immutable", managed({}), managed({ adminSecretName: "other" })),
  change("Network", "spec.managed", "keyType is immutable", managed({}), managed({ keyType: "rsa" })),
  bound("Network", "spec.managed.keyType", "enum", managed({ keyType: "dsa" })),
  bound("Network", "spec.managed.allowedOrigins[]", "pattern", managed({ allowedOrigins: ["https://*.example"] })),
  bound("Network", "spec.managed.oidc.hosts[]", "pattern", managed({ oidc: { hosts: ["https://a.example"] } })),
  bound("Network", "spec.managed.oidc.redirectUris[]", "pattern", managed({ oidc: { redirectUris: ["/auth/callback"] } })),
  ...(
    [["accessToken", "1m", "59s", "24h"], ["idToken", "1m", "59s", "24h"], ["refreshToken", "2m", "119s", "2160h"], ["keyLife", "24h", "23h", "87600h"]] as const
  ).flatMap(([field, least, less, most]) => [
    rule("Network", `spec.managed.oidc.${field}`, `must be at least ${least}`, managed({ oidc: { [field]: less } })),
    rule("Network", `spec.managed.oidc.${field}`, `must be at most ${most}`, managed({ oidc: { [field]: `${most}1s` } })),
  ]),
];

// biome-ignore format: a table
const ROUTER_REFUSALS: readonly Refusal[] = [
  rule("EdgeRouter", "spec", "importId names one router", { importId: "a.1", replicas: 2 }),
  rule("EdgeRouter", "spec", "exposure.hostname needs {ordinal}", { replicas: 2, exposure: { type: "LoadBalancer", hostname: "edge.example.com" } }),
  change(
    "EdgeRouter",
    "spec",
    "exposure.hostname needs {ordinal}",
    { exposure: { type: "LoadBalancer", hostname: "edge.example.com" } },
    { replicas: 2, exposure: { type: "LoadBalancer", hostname: "edge.example.com" } },
  ),
  rule("EdgeRouter", "spec", "leaves no room for the ports", { replicas: 2, exposure: { type: "NodePort", hostname: "edge.example.com", nodePort: 65_535 } }),
  rule("EdgeRouter", "spec.exposure", "type NodePort needs hostname", { exposure: { type: "NodePort" } }),
  rule("EdgeRouter", "spec.exposure", "nodePort belongs to type NodePort", { exposure: { nodePort: 30_000 } }),
  rule("EdgeRouter", "spec.exposure", "belong to type LoadBalancer", { exposure: { loadBalancerSourceRanges: ["192.0.2.0/24"] } }),
  rule("EdgeRouter", "spec.exposure", "externalTrafficPolicy belongs to", { exposure: { type: "HostPort", externalTrafficPolicy: "Local" } }),
  rule("EdgeRouter", "spec.tunneler", "resolver belongs to mode tproxy", { tunneler: { resolver: "udp://127.0.0.1:53" } }),
  rule("EdgeRouter", "spec.tunneler", "dnsSvcIpRange belongs to mode tproxy", { tunneler: { mode: "proxy", dnsSvcIpRange: "100.64.0.1/10" } }),
  rule("EdgeRouter", "spec.tunneler", "proxyServices belongs to mode proxy", { tunneler: { mode: "tproxy", proxyServices: ["web:8080"] } }),
  change("EdgeRouter", "spec.storage.size", "a volume can grow, not shrink", { storage: { size: "1Gi" } }, { storage: { size: "1000Mi" } }),
  change("EdgeRouter", "spec.storage", "storageClassName is immutable", {}, { storage: { storageClassName: "fast" } }),
  change("EdgeRouter", "spec.storage.accessModes", "accessModes is immutable", {}, { storage: { accessModes: ["ReadWriteMany"] } }),
  ...["eu.west", "1eu"].map((name) => named("EdgeRouter", name, "a Service is named after it")),
  named("Network", "main.net", "a Service is named after it", managed({})),
  named("EdgeRouter", "r".repeat(41), "at most 40 characters"),
  named("Network", "n".repeat(41), "at most 40 characters"),
  bound("EdgeRouter", "spec.replicas", "maximum 50", { replicas: 51 }),
  bound("EdgeRouter", "spec.replicas", "minimum 0", { replicas: -1 }),
  bound("EdgeRouter", "spec.cost", "maximum 65535", { cost: 65_536 }),
  bound("EdgeRouter", "spec.edge.port", "minimum 1024", { edge: { port: 443 } }),
  bound("EdgeRouter", "spec.exposure.type", "enum", { exposure: { type: "Ingress" } }),
  ...["Edge Host", "{nmae}-{ordinal}.example.com", "a..b", "{name}.example.com."].map((hostname) =>
    bound("EdgeRouter", "spec.exposure.hostname", "pattern", { exposure: { hostname } }),
  ),
  bound("EdgeRouter", "spec.forwarder.xgressDialWorkerCount", "maximum 10000", { forwarder: { xgressDialWorkerCount: 10_001 } }),
  bound("EdgeRouter", "spec.forwarder.rateLimitedWorkerCount", "minimum 1", { forwarder: { rateLimitedWorkerCount: 0 } }),
  bound("EdgeRouter", "spec.forwarder.xgresDialWorkerCount", "unknown", { forwarder: { xgresDialWorkerCount: 5 } }),
  rule("EdgeRouter", "spec.forwarder.unresponsiveLinkTimeout", "must be at least 5s", { forwarder: { unresponsiveLinkTimeout: "4s" } }),
  rule("EdgeRouter", "spec.metrics.reportInterval", "must be at least 1ms", { metrics: { reportInterval: "0s" } }),
  bound("EdgeRouter", "spec.metrics.intervalAgeThreshold", "pattern", { metrics: { intervalAgeThreshold: "-1s" } }),
  ...["ctrlPingCheck.interval", "ctrlPingCheck.timeout", "linkCheck.interval"].map((key) => {
    const [check = "", field = ""] = key.split(".");
    return rule("EdgeRouter", `spec.healthChecks.${key}`, "must be at least 1ms", {
      healthChecks: { [check]: { [field]: "0s" } },
    });
  }),
  rule("EdgeRouter", "spec.serviceMonitor.interval", "must be at least 1s", { serviceMonitor: { interval: "100ms" } }),
  bound("EdgeRouter", "spec.storage.size", "pattern", { storage: { size: "50 MB" } }),
  bound("EdgeRouter", "spec.template.spec.resources.requests.*", "pattern", { template: { spec: { resources: { requests: { cpu: "much" } } } } }),
  bound("EdgeRouter", "spec.template.spec.nodeselector", "unknown", { template: { spec: { nodeselector: {} } } }),
  bound("EdgeRouter", "spec.template.spec.containers[].name", "required", { template: { spec: { containers: [{ image: "example.com/sidecar" }] } } }),
  bound("EdgeRouter", "spec.updateStrategy.maxUnavailable", "minimum 1", { updateStrategy: { maxUnavailable: 0 } }),
];

// biome-ignore format: a table
const IDENTITY_REFUSALS: readonly Refusal[] = [
  named("Identity", "i".repeat(241), "at most 240 characters"),
  rule("Identity", "spec", "only one of authPolicyRef, authPolicyId", { authPolicyRef: { name: "strict" }, authPolicyId: "a.1" }),
  rule("Identity", "spec", "externalId logs in without enrollment", { externalId: "me@example.com", enrollment: {} }),
  rule("Identity", "spec.serviceHosting", "serviceHosting names a service twice", {
    serviceHosting: [{ serviceRef: { name: "web" } }, { serviceRef: { name: "web" }, cost: 5 }],
  }),
  rule("Identity", "spec.serviceConfigs", "names a pair of service and config twice", {
    serviceConfigs: [
      { serviceRef: { name: "web" }, configRef: { name: "a" } },
      { serviceRef: { name: "web" }, configRef: { name: "a" } },
    ],
  }),
  rule("Identity", "spec.enrollment", "output IdentitySecret needs method ott", { enrollment: { method: "none", output: "IdentitySecret" } }),
  rule("Identity", "spec.enrollment", "method ottca needs caId", { enrollment: { method: "ottca" } }),
  rule("Identity", "spec.enrollment", "method ottca needs caId", { enrollment: { caId: "a.1" } }),
  rule("Identity", "spec.enrollment", "method updb needs username", { enrollment: { method: "updb" } }),
  rule("Identity", "spec.enrollment", "passwordSecretRef needs username", {
    enrollment: { method: "none", passwordSecretRef: { name: "password", key: "password" } },
  }),
  change("Identity", "spec", "secretName is immutable", { enrollment: { secretName: "one" } }, { enrollment: { secretName: "other" } }),
  change("Identity", "spec", "secretName is immutable", { enrollment: { secretName: "one" } }, {}),
  rule("Identity", "spec.enrollment.renewBefore", "must be at least 5m", { enrollment: { renewBefore: "1m" } }),
  rule("Identity", "spec.enrollment.tokenLifetime", "must be at least 5m", { enrollment: { tokenLifetime: "1m" } }),
  bound("Identity", "spec.type", "enum", { type: "Router" }),
  bound("Identity", "spec.defaultHostingCost", "maximum 65535", { defaultHostingCost: 65_536 }),
  bound("Identity", "spec.defaultHostingPrecedence", "enum", { defaultHostingPrecedence: "best" }),
];

// biome-ignore format: a table
const OTHER_REFUSALS: readonly Refusal[] = [
  change("OverlayService", "spec.encryptionRequired", "encryptionRequired is immutable", {}, { encryptionRequired: false }),
  bound("OverlayService", "spec.terminatorStrategy", "enum", { terminatorStrategy: "best" }),
  change("ServiceConfig", "spec.type", "type is immutable", {}, { type: "host.v2" }),
  rule("ServiceConfig", "spec", "exactly one of data, dataFrom", { data: null }),
  rule("ServiceConfig", "spec", "exactly one of data, dataFrom", { dataFrom: { secretRef: { name: "config", key: "config.json" } } }),
  bound("ServicePolicy", "spec.type", "enum", { type: "Host" }),
  bound("ServicePolicy", "spec.semantic", "required", { semantic: null }),
  rule("ServicePolicy", "spec", "edgeRouterRefs out", { identityRoles: ["#all"], edgeRouterRefs: [{ name: "eu" }] }),
  bound("AuthPolicy", "spec.primary.updb.minPasswordLength", "minimum 5", { primary: { updb: { minPasswordLength: 4 } } }),
  rule("PostureCheck", "spec", "exactly one of domain", { mfa: null }),
  rule("PostureCheck", "spec", "exactly one of domain", { domain: { domains: ["corp"] } }),
  change("PostureCheck", "spec", "the kind of check is immutable", {}, { mfa: null, domain: { domains: ["corp"] } }),
  bound("PostureCheck", "spec.operatingSystem.operatingSystems[].type", "enum", { mfa: null, operatingSystem: { operatingSystems: [{ type: "BeOS" }] } }),
  bound("PostureCheck", "spec.mac.macAddresses[]", "pattern", { mfa: null, mac: { macAddresses: ["router"] } }),
  bound("PostureCheck", "spec.domain.domains", "minItems", { mfa: null, domain: { domains: [] } }),
];

/** Objects that must be refused; every rule of every kind has at least one. The cluster suite puts them to an API server. */
export const REFUSALS: readonly Refusal[] = [
  ...ENTITY_REFUSALS,
  ...ATTRIBUTE_REFUSALS,
  ...SELECTOR_REFUSALS,
  ...NETWORK_REFUSALS,
  ...ROUTER_REFUSALS,
  ...IDENTITY_REFUSALS,
  ...OTHER_REFUSALS,
];
