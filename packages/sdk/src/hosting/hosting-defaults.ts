import type { IdentityInfo } from "../api-session.ts";

export type HostPrecedence = IdentityInfo["defaultHostingPrecedence"];

/** Cost and precedence of a host that names none. */
export interface HostingDefaults {
  /** 0 to 65535. */
  readonly cost: number;
  readonly precedence: HostPrecedence;
}

/** What administrators gave the identity for a service, and where they gave nothing for it, for all services (docs/sdk.md "Hosting"). */
export function hostingDefaults(identity: IdentityInfo, serviceId: string): HostingDefaults {
  return {
    cost: identity.serviceHostingCosts[serviceId] ?? identity.defaultHostingCost,
    precedence: identity.serviceHostingPrecedences[serviceId] ?? identity.defaultHostingPrecedence,
  };
}
