import type { AccessFacts, RouterSide, ServicePolicyRef, Terminator } from "../facts.ts";

export const AT = Date.UTC(2026, 10, 29, 12);
const HOUR = 3_600_000;

export const router = { id: "r1", name: "router-1" };
const side: RouterSide = { policies: [{ id: "p1", name: "all-routers" }], routers: [router], disabled: [] };

export const terminator: Terminator = {
  id: "t1",
  router: { ...router, isOnline: true },
  host: { id: "i2", name: "backend" },
  instanceId: "",
  precedence: "default",
  cost: 0,
  sendsPublicKey: true,
};

export function servicePolicy(
  name: string,
  selects: { readonly identities?: readonly string[]; readonly services?: readonly string[] },
  semantic: "AllOf" | "AnyOf" = "AnyOf",
): ServicePolicyRef {
  const selector = (attrs: readonly string[] = []) => ({ all: false, attrs, ids: [] });
  return {
    ...{ id: `id-${name}`, name, semantic },
    identities: selector(selects.identities),
    services: selector(selects.services),
  };
}

/** An identity `laptop` that dials a service `web` without any problem. */
export const WORKING: AccessFacts = {
  at: AT,
  type: "Dial",
  identity: { id: "i1", name: "laptop", attrs: ["staff"], isAdmin: false, isRouter: false },
  service: { id: "s1", name: "web", attrs: ["intranet"], encryptionRequired: true },
  authentication: {
    policy: { id: "default", name: "Default", requiresTotp: false },
    authenticators: [{ id: "a1", method: "cert", endsAt: AT + HOUR }],
    isProvedByOthers: false,
    enrollments: [],
    isTotpEnrolled: false,
    apiSessions: [{ id: "as1", isTotpOpen: false, since: AT - HOUR }],
  },
  policies: {
    granting: [{ id: "sp1", name: "dial-web" }],
    ofOtherType: [],
    missingIdentity: [],
    missingService: [],
    isKeptAlive: false,
  },
  posture: { asking: 0, failures: [], isDecidedByRouters: false },
  routers: { ofIdentity: side, ofService: side, common: [{ ...router, isOnline: true, hasListener: true }] },
  hosting: {
    terminators: [terminator],
    routes: [{ from: "r1", terminatorId: "t1", via: ["r1"] }],
    isDrawn: false,
    bindPolicies: [],
    mayHost: [],
  },
  dials: { failed: [], hasSucceededSince: false },
};

type Parts<T> = { readonly [K in keyof T]?: T[K] extends readonly unknown[] ? T[K] : Partial<T[K]> };

/** {@link WORKING} with some parts replaced, each field by field. */
export function facts(parts: Parts<AccessFacts>): AccessFacts {
  const merged: Record<string, unknown> = { ...WORKING };
  for (const [key, value] of Object.entries(parts)) {
    const before = merged[key];
    merged[key] = typeof before === "object" ? { ...before, ...(value as object) } : value;
  }
  return merged as unknown as AccessFacts;
}
