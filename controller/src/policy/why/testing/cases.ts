import type { AccessFacts } from "../facts.ts";
import { AT, facts, router, servicePolicy, terminator, WORKING } from "./facts.ts";

const HOUR = 3_600_000;
export const none = { policies: [], routers: [], disabled: [] };
const some = { policies: [{ id: "p1", name: "all-routers" }], routers: [], disabled: [] };
const session = { id: "as1", isTotpOpen: false, since: AT - HOUR };

const authentication = (parts: Partial<AccessFacts["authentication"]>) => facts({ authentication: parts });
export const noPolicy = (parts: Partial<AccessFacts["policies"]>) => facts({ policies: { granting: [], ...parts } });
const unhosted = (parts: Partial<AccessFacts["hosting"]>) =>
  facts({ hosting: { terminators: [], routes: [{ from: "r1", cause: "NO_TERMINATORS", message: "none" }], ...parts } });
const failingCheck = {
  ...{ id: "c1", name: "linux-only", typeId: "OS" as const },
  ...{ actual: { type: "windows" }, expected: [{ type: "linux" }] },
};
const failing = (check: object) => [
  { policy: { id: "sp1", name: "dial-web" }, checks: [{ ...failingCheck, ...check }] },
];
export const dialled = (code: string, hasSucceededSince = false) =>
  facts({
    dials: { failed: [{ at: AT - 1_000, code, message: "connect ECONNREFUSED", count: 1 }], hasSucceededSince },
  });

export interface Case {
  readonly what: string;
  readonly given: AccessFacts;
  readonly code: string;
  readonly allowed?: boolean;
  /** A part of the message. */
  readonly says?: string;
  readonly command?: string;
  /** How its first remedy begins. */
  readonly advises?: string;
}

/** One fact after another in the way, and what the answer names first. */
export const CASES: readonly Case[] = [
  {
    what: "a disabled identity, until a time",
    given: authentication({ disabled: { since: AT - HOUR, until: AT + HOUR }, apiSessions: [] }),
    code: "IDENTITY_DISABLED",
    says: "until 2026-11-29T13:00:00.000Z",
  },
  {
    what: "a disabled identity, without end",
    given: authentication({ disabled: { since: AT - HOUR }, apiSessions: [] }),
    code: "IDENTITY_DISABLED",
    says: "until an administrator enables it",
  },
  {
    what: "an identity that has nothing to enroll with",
    given: authentication({ authenticators: [], apiSessions: [] }),
    code: "NO_CREDENTIAL",
  },
  {
    what: "an identity that has not enrolled",
    given: authentication({
      authenticators: [],
      apiSessions: [],
      enrollments: [{ method: "ott", expiresAt: AT + HOUR }],
    }),
    code: "NOT_ENROLLED",
    says: "valid until 2026-11-29T13:00:00.000Z",
  },
  {
    what: "an enrollment that has expired",
    given: authentication({
      authenticators: [],
      apiSessions: [],
      enrollments: [{ method: "ott", expiresAt: AT - HOUR }],
    }),
    code: "ENROLLMENT_EXPIRED",
  },
  {
    what: "an expired certificate",
    given: authentication({
      authenticators: [{ id: "a1", method: "cert", endsAt: AT - HOUR, refusal: "expired" }],
      apiSessions: [],
    }),
    code: "CERTIFICATE_NOT_VALID",
    says: "expired at 2026-11-29T11:00:00.000Z; the controller's clock shows 2026-11-29T12:00:00.000Z",
  },
  {
    what: "an expired certificate of another authority",
    given: authentication({
      authenticators: [
        { id: "a1", method: "cert", endsAt: AT - HOUR, authority: { id: "ca1", name: "plant" }, refusal: "expired" },
      ],
      apiSessions: [],
    }),
    code: "CERTIFICATE_NOT_VALID",
    advises: 'Have the certificate authority "plant" issue a new certificate',
  },
  {
    what: "a certificate that is not valid yet",
    given: authentication({
      authenticators: [
        { id: "a1", method: "cert", startsAt: AT + HOUR, endsAt: AT + 2 * HOUR, refusal: "not yet valid" },
      ],
      apiSessions: [],
    }),
    code: "CERTIFICATE_NOT_VALID",
    says: "is not valid before 2026-11-29T13:00:00.000Z: check clocks; the controller's clock shows 2026-11-29T12:00:00.000Z",
    advises: "Correct the clock",
  },
  {
    what: "an authentication policy without the method",
    given: authentication({ authenticators: [{ id: "a1", method: "updb", refusal: "forbidden" }], apiSessions: [] }),
    code: "METHOD_NOT_ALLOWED",
    says: "a login by password",
  },
  {
    what: "a certificate that expired while its session goes on",
    given: authentication({ authenticators: [{ id: "a1", method: "cert", endsAt: AT - HOUR, refusal: "expired" }] }),
    code: "CERTIFICATE_NOT_VALID",
    allowed: true,
  },
  {
    what: "a policy that wants a one-time code, and no authenticator app",
    given: authentication({ apiSessions: [], policy: { ...WORKING.authentication.policy, requiresTotp: true } }),
    code: "SECOND_FACTOR_NOT_ENROLLED",
  },
  {
    what: "a login without a one-time code, and no authenticator app",
    given: authentication({
      apiSessions: [{ ...session, isTotpOpen: true }],
      policy: { ...WORKING.authentication.policy, requiresTotp: true },
    }),
    code: "SECOND_FACTOR_NOT_ENROLLED",
  },
  { what: "no API session", given: authentication({ apiSessions: [] }), code: "NOT_LOGGED_IN", allowed: true },
  {
    what: "a missing one-time code",
    given: authentication({ apiSessions: [{ ...session, isTotpOpen: true }], isTotpEnrolled: true }),
    code: "SECOND_FACTOR_MISSING",
  },
  {
    what: "no policy at all",
    given: noPolicy({}),
    code: "NO_SERVICE_POLICY",
    command:
      "sallyport create service-policy dial-web --type Dial --identity-roles '@laptop' --service-roles '@web' --semantic AnyOf",
  },
  {
    what: "an attribute that the identity lacks",
    given: noPolicy({ missingIdentity: [servicePolicy("sales-web", { identities: ["sales"] })] }),
    code: "IDENTITY_NOT_SELECTED",
    says: '"sales-web" wants the role attribute "#sales"',
    command: "sallyport patch identity laptop --role-attributes staff,sales",
  },
  {
    what: "one of two attributes of AllOf",
    given: noPolicy({ missingIdentity: [servicePolicy("both", { identities: ["staff", "sales"] }, "AllOf")] }),
    code: "IDENTITY_NOT_SELECTED",
    says: 'role attribute "#sales"',
  },
  {
    what: "a policy for the service by ids",
    given: noPolicy({ missingIdentity: [servicePolicy("by-id", {})] }),
    code: "IDENTITY_NOT_SELECTED",
    command:
      "sallyport create service-policy dial-web --type Dial --identity-roles '@laptop' --service-roles '@web' --semantic AnyOf",
  },
  {
    what: "an attribute that the service lacks",
    given: noPolicy({ missingService: [servicePolicy("staff", { services: ["apps"] })] }),
    code: "SERVICE_NOT_SELECTED",
    says: 'role attribute "#apps"',
  },
  {
    what: "a policy of the other type",
    given: noPolicy({ ofOtherType: [{ id: "sp2", name: "host-web" }] }),
    code: "OTHER_TYPE_ONLY",
    says: "of type Bind",
  },
  {
    what: "a posture check that fails",
    given: facts({ posture: { asking: 1, failures: failing({ reportedAt: AT - HOUR }) } }),
    code: "POSTURE_DIFFERS",
    says: "by the report of 2026-11-29T11:00:00.000Z",
  },
  {
    what: "a posture check without a report",
    given: facts({ posture: { asking: 1, failures: failing({}) } }),
    code: "POSTURE_NOT_REPORTED",
  },
  {
    what: "posture that only routers know",
    given: facts({ posture: { asking: 1, failures: failing({}), isDecidedByRouters: true } }),
    code: "POSTURE_AT_ROUTERS",
    allowed: true,
  },
  {
    what: "posture of a tunneling router",
    given: facts({ identity: { isRouter: true }, posture: { asking: 1, failures: failing({}) } }),
    code: "POSTURE_NOT_FOR_ROUTERS",
  },
  {
    what: "no edge router policy",
    given: facts({ routers: { ofIdentity: none, common: [] } }),
    code: "NO_EDGE_ROUTER_POLICY",
    command:
      "sallyport create edge-router-policy routers-of-laptop --identity-roles '@laptop' --edge-router-roles '@router-1' --semantic AnyOf",
  },
  {
    what: "an edge router policy without routers",
    given: facts({ routers: { ofIdentity: some, common: [] } }),
    code: "EDGE_ROUTER_POLICY_EMPTY",
  },
  {
    what: "disabled routers only",
    given: facts({ routers: { ofIdentity: { ...some, disabled: [router] }, common: [] } }),
    code: "EDGE_ROUTERS_DISABLED",
    command: "sallyport patch edge-router router-1 --disabled false",
  },
  {
    what: "no service edge router policy",
    given: facts({ routers: { ofService: none, common: [] } }),
    code: "NO_SERVICE_EDGE_ROUTER_POLICY",
    command:
      "sallyport create service-edge-router-policy routers-of-web --service-roles '@web' --edge-router-roles '@router-1' --semantic AnyOf",
  },
  {
    what: "routers on both sides, and none in common",
    given: facts({
      routers: { ofService: { ...some, routers: [{ id: "r2", name: "router-2" }] }, common: [] },
    }),
    code: "NO_COMMON_EDGE_ROUTER",
    says: 'the identity may use "router-1", the service "router-2"',
  },
  {
    what: "a tunneling router that the service may not use",
    given: facts({ identity: { isRouter: true }, routers: { common: [] } }),
    code: "ROUTER_NOT_FOR_SERVICE",
  },
  {
    what: "an offline router",
    given: facts({
      routers: { common: [{ ...router, isOnline: false, hasListener: false }] },
      hosting: { routes: [] },
    }),
    code: "EDGE_ROUTER_OFFLINE",
  },
  {
    what: "a router without a listener for applications",
    given: facts({ routers: { common: [{ ...router, isOnline: true, hasListener: false }] }, hosting: { routes: [] } }),
    code: "NO_EDGE_LISTENER",
  },
  {
    what: "no host, and no right to host",
    given: unhosted({}),
    code: "NO_BIND_POLICY",
    command:
      "sallyport create service-policy bind-web --type Bind --identity-roles '#web-hosts' --service-roles '@web' --semantic AnyOf",
  },
  {
    what: "a bind policy that selects no identity",
    given: unhosted({ bindPolicies: [{ id: "sp3", name: "host-web" }] }),
    code: "NO_IDENTITY_MAY_HOST",
  },
  {
    what: "a host that is away",
    given: unhosted({
      bindPolicies: [{ id: "sp3", name: "host-web" }],
      mayHost: [{ id: "i2", name: "backend", connection: "offline" }],
    }),
    code: "NOT_HOSTED",
    says: '"backend" (offline)',
    command: "sallyport why backend web --type bind",
  },
  {
    what: "terminators that need an instance id",
    given: facts({
      hosting: {
        terminators: [{ ...terminator, instanceId: "printer-1" }],
        routes: [{ from: "r1", cause: "NO_TERMINATORS", message: "none" }],
      },
    }),
    code: "INSTANCE_ID_NEEDED",
    says: '"printer-1"',
  },
  {
    what: "a host over an offline router",
    given: facts({
      hosting: {
        terminators: [{ ...terminator, router: { id: "r2", name: "router-2", isOnline: false } }],
        routes: [{ from: "r1", cause: "NO_ONLINE_TERMINATORS", message: "none" }],
      },
    }),
    code: "HOST_ROUTERS_OFFLINE",
    says: '"router-2"',
  },
  {
    what: "routers without a link",
    given: facts({ hosting: { routes: [{ from: "r1", cause: "NO_PATH", message: "no path" }] } }),
    code: "NO_PATH",
  },
  {
    what: "a path from one of two routers",
    given: facts({
      hosting: {
        routes: [
          { from: "r1", terminatorId: "t1", via: ["r1"] },
          { from: "r2", cause: "NO_PATH", message: "no path" },
        ],
      },
    }),
    code: "NO_PATH_FROM_SOME",
    allowed: true,
  },
  {
    what: "an unknown strategy",
    given: facts({ hosting: { routes: [{ from: "r1", cause: "INVALID_STRATEGY", message: "unknown" }] } }),
    code: "INVALID_STRATEGY",
  },
  {
    what: "terminators that have failed",
    given: facts({ hosting: { terminators: [{ ...terminator, precedence: "failed" }] } }),
    code: "TERMINATORS_FAILED",
    allowed: true,
  },
  {
    what: "a host that does not encrypt",
    given: facts({ hosting: { terminators: [{ ...terminator, sendsPublicKey: false }] } }),
    code: "HOST_DOES_NOT_ENCRYPT",
  },
  {
    what: "the host that dials come to, which does not encrypt, beside one that does",
    given: facts({
      hosting: {
        terminators: [
          { ...terminator, sendsPublicKey: false },
          { ...terminator, id: "t2" },
        ],
      },
    }),
    code: "HOST_DOES_NOT_ENCRYPT",
    says: "the host that dials come to",
  },
  {
    what: "hosts that are drawn, of which one does not encrypt",
    given: facts({
      hosting: {
        terminators: [
          { ...terminator, sendsPublicKey: false },
          { ...terminator, id: "t2" },
        ],
        isDrawn: true,
      },
    }),
    code: "SOME_HOSTS_DO_NOT_ENCRYPT",
    allowed: true,
  },
  {
    what: "one of two hosts that does not encrypt",
    given: facts({ hosting: { terminators: [terminator, { ...terminator, id: "t2", sendsPublicKey: false }] } }),
    code: "SOME_HOSTS_DO_NOT_ENCRYPT",
    allowed: true,
  },
  {
    what: "an identity that may host and does not",
    given: facts({ type: "Bind", hosting: { terminators: [], routes: [] } }),
    code: "DOES_NOT_HOST",
    allowed: true,
  },
  {
    what: "a host's server that refuses",
    given: dialled("ROUTER_ERR_CONN_REFUSED"),
    code: "ROUTER_ERR_CONN_REFUSED",
    allowed: true,
    says: "connect ECONNREFUSED",
  },
];
