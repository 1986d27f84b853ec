/** Requests of OpenZiti's Terraform provider v2.1.0 as they were recorded with its own configurations and with one without lists. The names are ours. */

type Body = Readonly<Record<string, unknown>>;

/** What a request refers to. */
export interface Referred {
  /** An authority that invites. */
  readonly ca: string;
  readonly signer: string;
  readonly config: string;
  readonly certPem: string;
}

/** One kind of resource: every body says all that its configuration has. */
export interface Resource {
  readonly kind: string;
  readonly collection: string;
  readonly update: "PUT" | "PATCH";
  /** A configuration that uses every list. */
  readonly full: Body;
  /** One that has no list, where a second plan settles with v1.6.0, too. */
  readonly least?: Body;
  /** Fields that only a create has. */
  readonly onlyAtCreation?: readonly string[];
  /** What the provider has to read of fields that a configuration leaves out. */
  readonly absent?: Body;
  /** What it reads in the place of what it sends, by place, dots between the names; undefined: it does not read that. */
  readonly reads?: (sent: Body) => Body;
  /** The token that it waits for after a create. */
  readonly token?: string;
}

const TAGS = { tags: { owner: "ops" } };
const WITHOUT_TAGS = { tags: {} };

export function resources(referred: Referred): readonly Resource[] {
  return [...identities(referred), ...network(referred), ...configs(), ...policies(), ...checks(), ...access(referred)];
}

function identities({ ca }: Referred): Resource[] {
  const common = { authPolicyId: "default", defaultHostingPrecedence: "default", externalId: "", type: "Default" };
  const full = {
    ...{ ...common, ...TAGS, appData: { floor: "2", room: "7" }, defaultHostingCost: 65, isAdmin: true },
    roleAttributes: ["desk"],
  };
  const least = { ...common, defaultHostingCost: 0, isAdmin: false, roleAttributes: null };
  const resource = (kind: string, enrollment: Body, token?: string): Resource => ({
    ...{ kind, collection: "identities", update: "PUT", onlyAtCreation: ["enrollment"] },
    full: { ...full, ...enrollment },
    least: { ...least, ...enrollment },
    absent: { ...WITHOUT_TAGS, appData: {}, serviceHostingCosts: {}, serviceHostingPrecedences: {} },
    reads: ({ type }) => ({ enrollment: undefined, externalId: null, type: undefined, "type.name": type }),
    ...(token && { token }),
  });
  return [
    resource("identity", { enrollment: { ott: true } }, "enrollment.ott.jwt"),
    resource("identity_ca", { enrollment: { ottca: ca } }, "enrollment.ottca.jwt"),
    resource("identity_updb", { enrollment: { updb: "ada.l" } }, "enrollment.updb.jwt"),
    resource("identity_none", {}),
  ];
}

function network({ config }: Referred): Resource[] {
  const service = { encryptionRequired: true, terminatorStrategy: "smartrouting" };
  return [
    {
      ...{ kind: "edge_router", collection: "edge-routers", update: "PUT" },
      full: { ...TAGS, appData: { rack: "4" }, cost: 65, noTraversal: true, roleAttributes: ["edge"] },
      least: { cost: 0, isTunnelerEnabled: true, noTraversal: false, roleAttributes: null },
      absent: { ...WITHOUT_TAGS, appData: {}, isTunnelerEnabled: false },
      token: "enrollmentJwt",
    },
    {
      ...{ kind: "service", collection: "services", update: "PUT" },
      full: { ...TAGS, ...service, configs: [config], roleAttributes: ["web"] },
      least: { ...service, configs: null, roleAttributes: null },
      absent: { ...WITHOUT_TAGS, maxIdleTimeMillis: 0 },
    },
  ];
}

function configs(): Resource[] {
  const actions = [{ trigger: "fail", duration: "10s", consecutiveEvents: 1, action: "mark unhealthy" }];
  const check = { interval: "5s", timeout: "10s", actions };
  const http = { url: "https://app.example/health", method: "GET", expectStatus: 200, expectInBody: "fine", ...check };
  const forwarding = {
    ...{ forwardAddress: true, forwardPort: true, forwardProtocol: true, allowedAddresses: ["app.example"] },
    ...{ allowedPortRanges: [{ low: 80, high: 443 }], allowedProtocols: ["tcp", "udp"] },
    ...{ allowedSourceAddresses: ["192.0.2.1"], portChecks: [{ address: "app.example", ...check }] },
  };
  const simple = { address: "db.example", port: 5432, protocol: "tcp" };
  const options = { connectTimeout: "10s", precedence: "default" };
  const resource = (kind: string, configTypeId: string, full: Body, least?: Body): Resource => ({
    ...{ kind, collection: "configs", update: "PUT", onlyAtCreation: ["configTypeId"], absent: WITHOUT_TAGS },
    full: { configTypeId, data: full },
    ...(least && { least: { configTypeId, data: least } }),
  });
  const hostV1 = {
    ...{ ...forwarding, httpChecks: [{ ...http, body: "" }] },
    listenOptions: { ...options, cost: 0, maxConnections: 65_535 },
  };
  const hostV2 = { ...simple, ...forwarding, httpChecks: [http], listenOptions: options };
  return [
    resource("host_v1_config", "NH5p4FpGR", hostV1, simple),
    resource("host_v2_config", "host.v2", { terminators: [simple, hostV2] }, { terminators: [simple] }),
    resource("intercept_v1_config", "g7cIWbcGg", {
      ...{ addresses: ["app.example"], dialOptions: { connectTimeoutSeconds: 10, identity: "host" } },
      ...{ portRanges: [{ low: 80, high: 443 }], protocols: ["tcp", "udp"], sourceIp: "192.0.2.1" },
    }),
  ];
}

function policies(): Resource[] {
  const resource = (kind: string, collection: string, lists: readonly string[], more: Body = {}): Resource => {
    const common = { ...more, semantic: "AnyOf" };
    const all = (value: unknown) => Object.fromEntries(lists.map((list) => [list, value]));
    return {
      ...{ kind, collection, update: "PUT", absent: WITHOUT_TAGS },
      full: { ...TAGS, ...common, ...all(["#all"]) },
      least: { ...common, ...all(null) },
    };
  };
  const services = ["identityRoles", "postureCheckRoles", "serviceRoles"];
  return [
    resource("service_policy", "service-policies", services, { type: "Dial" }),
    resource("edge_router_policy", "edge-router-policies", ["edgeRouterRoles", "identityRoles"]),
    resource("service_edge_router_policy", "service-edge-router-policies", ["edgeRouterRoles", "serviceRoles"]),
  ];
}

/** Always with role attributes: a list of none is `[]` in the answers of v1.6.0, too, and no plan settles. */
function checks(): Resource[] {
  const resource = (kind: string, typeId: string, what: Body): Resource => ({
    ...{ kind, collection: "posture-checks", update: "PATCH", absent: WITHOUT_TAGS },
    full: { roleAttributes: ["laptop"], typeId, ...what },
  });
  const process = { path: "/usr/bin/agent", osType: "Linux", hashes: ["aa"] };
  const other = { ...process, osType: "macOS" };
  return [
    resource("posture_check_domains", "DOMAIN", { domains: ["corp.example"] }),
    resource("posture_check_mac_addresses", "MAC", { macAddresses: ["00:1a:2b:3c:4d:5e"] }),
    resource("posture_check_mfa", "MFA", { promptOnUnlock: true, promptOnWake: true, timeoutSeconds: -1 }),
    resource("posture_check_multi_process", "PROCESS_MULTI", {
      semantic: "AnyOf",
      processes: [process, other].map((each) => ({ ...each, signerFingerprints: ["bb"] })),
    }),
    resource("posture_check_os", "OS", { operatingSystems: [{ type: "Linux", versions: [">=1.1.1 <=1.1.1"] }] }),
    resource("posture_check_process", "PROCESS", { process: { ...process, signerFingerprint: "bb" } }),
  ];
}

function access({ certPem, signer }: Referred): Resource[] {
  const external = {
    ...{ issuer: "https://issuer.example", audience: "us", claimsProperty: "sub", useExternalId: false, clientId: "" },
    ...{ externalAuthUrl: "", targetToken: "ACCESS", certPem, enabled: false },
  };
  const updb = {
    ...{ allowed: true, lockoutDurationMinutes: 10, maxAttempts: 5, minPasswordLength: 5 },
    ...{ requireMixedCase: false, requireNumberChar: false, requireSpecialChar: false },
  };
  return [
    {
      ...{ kind: "external_jwt_signer", collection: "external-jwt-signers", update: "PUT" },
      full: { ...TAGS, ...external, scopes: ["openid"], kid: "k" },
      least: { ...external, scopes: null, kid: "" },
      absent: { ...WITHOUT_TAGS, jwksEndpoint: null },
      reads: ({ kid }) => ({ clientId: null, externalAuthUrl: null, kid: kid === "" ? null : kid }),
    },
    // Always with roles: a request without roles is refused, by v1.6.0 too.
    {
      ...{ kind: "certificate_authority", collection: "cas", update: "PUT", onlyAtCreation: ["certPem"] },
      full: {
        ...{ ...TAGS, certPem, identityNameFormat: "[caName]-[commonName]", identityRoles: ["enrolled"] },
        ...{ isAuthEnabled: false, isAutoCaEnrollmentEnabled: true, isOttCaEnrollmentEnabled: false },
        externalIdClaim: {
          ...{ index: 10, location: "COMMON_NAME", matcher: "ALL", matcherCriteria: "a" },
          ...{ parser: "NONE", parserCriteria: "b" },
        },
      },
      absent: WITHOUT_TAGS,
    },
    {
      ...{ kind: "auth_policy", collection: "auth-policies", update: "PUT", absent: WITHOUT_TAGS },
      full: {
        ...TAGS,
        primary: {
          cert: { allowExpiredCerts: true, allowed: true },
          extJwt: { allowed: true, allowedSigners: [signer] },
          updb,
        },
        secondary: { requireExtJwtSigner: signer, requireTotp: true },
      },
    },
  ];
}
