/**
 * What a field does besides being shown again: the test that shows it, as `file: title`, or after `shown: ` why there is nothing to show. By name, or by collection and
 * name where collections differ.
 */
export const FIELD_EFFECTS: Readonly<Record<string, string>> = {
  tags: "shown: notes of their owners, which nothing of the network reads",
  name: "shown: for people and filters",
  roleAttributes: "api/management.test.ts: select by attribute, by id and by name, and are shown with names",
  "posture-checks roleAttributes":
    "api/posture/checks.test.ts: find checks by role, by their symbols, and the attributes in use",
  appData: "shown: applications read it from their identity or router",

  "identities type": "shown: a word for people; Router is refused (management-identities.test.ts)",
  isAdmin: "api/credentials/proxied-login.test.ts: is never that of the router, nor of an administrator",
  authPolicyId: "auth/certificates.test.ts: allowed",
  defaultHostingCost: "fabric/routers/routers.test.ts: gets an API session with its hosting defaults",
  defaultHostingPrecedence: "fabric/routers/routers.test.ts: gets an API session with its hosting defaults",
  externalId:
    "api/credentials/certificate-login.test.ts: names an identity by its claim, without an authenticator; another claim ends those sessions",
  permissions: "api/credentials/enrollment-tokens.test.ts: is in no answer to an identity that may only read",
  serviceHostingCosts: "shown: clients read it and apply it when they host",
  serviceHostingPrecedences: "shown: clients read it and apply it when they host",
  "enrollment.ott": "api/credentials/enrollment.test.ts: works once, also when many come with it at the same moment",
  "enrollment.ottca": "api/credentials/enrollment.test.ts: ottca: an identity that exists, by an empty body",
  "enrollment.updb":
    "api/credentials/enrollment.test.ts: sets the name that the administrator chose, whatever the request says",

  "services name": "fabric/routers/routers.test.ts: dials by service name and hosts",
  configs: "api/management.test.ts: configs are checked against their type's schema and shown in services by type name",
  target: "api/network/router-configs.test.ts: a service takes configs for services, a router those for routers",
  "edge-routers configs": "api/network/router-configs.test.ts: are shown, one of each type, and change with the router",
  "routers configs": "api/network/router-configs.test.ts: are shown, one of each type, and change with the router",
  "transit-routers configs":
    "api/network/router-configs.test.ts: are shown, one of each type, and change with the router",
  terminatorStrategy: "fabric/terminators/terminator-choice.test.ts: terminator choice",
  encryptionRequired: "fabric/circuits/circuit-messages.test.ts: a circuit over two routers",
  maxIdleTimeMillis:
    "fabric/circuits/circuit-end.test.ts: confirmation: unknown and foreign circuits are unrouted, idle ones removed",
  schema: "api/management.test.ts: configs are checked against their type's schema and shown in services by type name",
  data: "api/management.test.ts: configs are checked against their type's schema and shown in services by type name",
  configTypeId:
    "api/management.test.ts: configs are checked against their type's schema and shown in services by type name",

  cost: "fabric/circuits/path.test.ts: path finding",
  noTraversal: "fabric/circuits/path.test.ts: path finding",
  disabled: "fabric/routers/admission.test.ts: a disabled router",
  ctrlChanListeners: "shown: kept for controllers of OpenZiti, which may dial routers there; ours does not",
  isTunnelerEnabled:
    "api/management.test.ts: with a tunneler have an identity of their own and a system policy, renamed and removed with them",

  "terminators cost": "fabric/terminators/terminator-choice.test.ts: cost against distance",
  precedence: "fabric/terminators/terminator-choice.test.ts: terminator choice",
  address:
    "fabric/circuits/circuit-messages.test.ts: is built from both routes and answered with address, tags and peer data",
  binding:
    "fabric/circuits/circuit-messages.test.ts: is built from both routes and answered with address, tags and peer data",
  router: "fabric/terminators/terminator-choice.test.ts: the nearer terminator",
  service: "model/fabric/circuit-facts.test.ts: terminators count as they are now, whichever process changed them",
  identity: "api/network/interleaved.test.ts: is shared over the API with its secret only",
  instanceId: "fabric/terminators/terminator-choice.test.ts: only those of the instance",
  hostId: "api/network/interleaved.test.ts: without a secret belongs to its host",

  semantic: "model/policy/selection-sql.test.ts: an entity is selected in SQL as it is in memory, for any selector",
  edgeRouterRoles:
    "api/client/client-services.test.ts: are those that policy allows, online or not: at most 25 with a session, those that are online first",
  identityRoles:
    "api/client/client-services.test.ts: shows granted services only, makes one session per service and type, and takes it away with the policy",
  serviceRoles:
    "api/client/client-services.test.ts: shows granted services only, makes one session per service and type, and takes it away with the policy",
  "edge-router-policies identityRoles": "policy/policy-index.test.ts: finds the routers both may use",
  "service-edge-router-policies serviceRoles": "policy/policy-index.test.ts: finds the routers both may use",
  "service-policies type":
    "model/session/lost-access.test.ts: and its terminators with it, when its router does not see to that",
  postureCheckRoles:
    "api/posture/posture.test.ts: gives no session while it fails, one when it passes, and takes it away when it fails again",

  operatingSystems: "../../packages/posture/src/posture.test.ts: OS",
  domains: "../../packages/posture/src/posture.test.ts: DOMAIN and MAC",
  macAddresses: "../../packages/posture/src/posture.test.ts: DOMAIN and MAC",
  "process.osType": "../../packages/posture/src/posture.test.ts: PROCESS",
  "process.path": "../../packages/posture/src/posture.test.ts: PROCESS",
  "process.hashes": "../../packages/posture/src/posture.test.ts: PROCESS",
  "process.signerFingerprint": "../../packages/posture/src/posture.test.ts: PROCESS",
  "posture-checks semantic": "../../packages/posture/src/posture.test.ts: PROCESS_MULTI",
  processes: "../../packages/posture/src/posture.test.ts: PROCESS_MULTI",
  timeoutSeconds:
    "api/posture/one-time-codes.test.ts: passes for a while after a code was given in the session, and then ends its sessions",
  promptOnWake:
    "api/posture/one-time-codes.test.ts: wants a code again within five minutes after the device woke up or was unlocked",
  promptOnUnlock:
    "api/posture/one-time-codes.test.ts: wants a code again within five minutes after the device woke up or was unlocked",
  ignoreLegacyEndpoints:
    "api/posture/one-time-codes.test.ts: reports no timeout to clients that do not know it, when it is told so",

  "primary.cert.allowed": "auth/certificates.test.ts: allowed",
  "primary.cert.allowExpiredCerts": "auth/certificates.test.ts: allowExpiredCerts",
  "primary.extJwt.allowed": "auth/external-tokens.test.ts: allowed, and allowedSigners of which none means any",
  "primary.extJwt.allowedSigners": "auth/external-tokens.test.ts: allowed, and allowedSigners of which none means any",
  "primary.updb.allowed":
    "auth/passwords.test.ts: and unknown names, disabled identities and policies without passwords look alike",
  "primary.updb.lockoutDurationMinutes":
    "auth/passwords.test.ts: more in a row than maxAttempts disable the identity for the lockout, and end its sessions",
  "primary.updb.maxAttempts":
    "auth/passwords.test.ts: more in a row than maxAttempts disable the identity for the lockout, and end its sessions",
  "primary.updb.minPasswordLength":
    "auth/passwords.test.ts: 5.6: the rules of a policy hold wherever a password is set",
  "primary.updb.requireMixedCase": "auth/passwords.test.ts: 5.6: the rules of a policy hold wherever a password is set",
  "primary.updb.requireNumberChar":
    "auth/passwords.test.ts: 5.6: the rules of a policy hold wherever a password is set",
  "primary.updb.requireSpecialChar":
    "auth/passwords.test.ts: 5.6: the rules of a policy hold wherever a password is set",
  "secondary.requireExtJwtSigner":
    "auth/external-tokens.test.ts: a required signer is asked for in authQueries, and every request has to prove it again",
  "secondary.requireTotp":
    "auth/external-tokens.test.ts: requireTotp leaves the session partial until the code is given, whether or not there is an enrollment",

  audience: "auth/external-tokens.test.ts: the audience may be one of several",
  certPem: "auth/external-tokens.test.ts: with a certificate checks with its key, named by kid or fingerprint",
  kid: "auth/external-tokens.test.ts: with a certificate checks with its key, named by kid or fingerprint",
  claimsProperty: "auth/external-tokens.test.ts: names the claim, and whether it is the external id",
  useExternalId: "auth/external-tokens.test.ts: names the claim, and whether it is the external id",
  enabled: "auth/external-tokens.test.ts: that is disabled takes no token, and the sessions of its tokens end",
  issuer: "auth/external-tokens.test.ts: a token of an external signer",
  jwksEndpoint:
    "auth/external-tokens.test.ts: whose key set cannot be fetched, here for its certificate, takes no token",
  enrollAttributeClaimsSelector:
    "api/credentials/token-enrollment.test.ts: makes an identity that authenticates by tokens, and is told where",
  enrollNameClaimsSelector:
    "api/credentials/token-enrollment.test.ts: makes an identity that authenticates by tokens, and is told where",
  enrollAuthPolicyId:
    "api/credentials/token-enrollment.test.ts: gives the auth policy of the signer, which stays while the signer names it",
  enrollToCertEnabled:
    "api/credentials/token-enrollment.test.ts: a signer that is disabled, or allows only the other kind",
  enrollToTokenEnabled:
    "api/credentials/token-enrollment.test.ts: a signer that is disabled, or allows only the other kind",
  clientId:
    "auth/ext-jwt-signers.test.ts: are listed to clients without a session: the enabled ones, and of them what a login needs",
  externalAuthUrl:
    "auth/ext-jwt-signers.test.ts: are listed to clients without a session: the enabled ones, and of them what a login needs",
  scopes:
    "auth/ext-jwt-signers.test.ts: are listed to clients without a session: the enabled ones, and of them what a login needs",
  targetToken:
    "auth/ext-jwt-signers.test.ts: are listed to clients without a session: the enabled ones, and of them what a login needs",

  "cas certPem":
    "api/credentials/cas.test.ts: is created unverified, verified by a certificate that names its token, replaced, changed and deleted",
  "cas name": "api/credentials/enrollment.test.ts: ca: makes an identity, named by the authority's format",
  "cas identityRoles": "api/credentials/enrollment.test.ts: ca: makes an identity, named by the authority's format",
  identityNameFormat: "api/credentials/enrollment.test.ts: ca: makes an identity, named by the authority's format",
  isAuthEnabled:
    "api/credentials/certificate-login.test.ts: counts only while its authority is verified and may authenticate, and is bound to the one it came through",
  isAutoCaEnrollmentEnabled:
    "api/credentials/enrollment.test.ts: ca: makes an identity, named by the authority's format",
  isOttCaEnrollmentEnabled: "api/credentials/enrollment.test.ts: ottca: an identity that exists, by an empty body",
  "externalIdClaim.index": "pki/external-id-claim.test.ts: a claim selects",
  "externalIdClaim.location": "pki/external-id-claim.test.ts: a claim selects",
  "externalIdClaim.matcher": "pki/external-id-claim.test.ts: a claim selects",
  "externalIdClaim.matcherCriteria": "pki/external-id-claim.test.ts: a claim selects",
  "externalIdClaim.parser": "pki/external-id-claim.test.ts: a claim selects",
  "externalIdClaim.parserCriteria": "pki/external-id-claim.test.ts: a claim selects",

  "routers id": "api/fabric/fabric-api.test.ts: are made with the certificate that they have",
  fingerprint: "api/fabric/fabric-api.test.ts: with another certificate have to connect again",
};
