import type { PrecedenceName } from "@sallyport/wire";
import type { IdentityInfo } from "../api-session.ts";

/** Cost and precedence of a host that names none. */
export interface HostingDefaults {
  /** 0 to 65535. */
  readonly cost: number;
  readonly precedence: PrecedenceName;
}

/** What administrators gave the identity for a service, and where they gave nothing for it, for all services (docs/sdk.md "Hosting"). */
export function hostingDefaults(identity: IdentityInfo, serviceId: string): HostingDefaults {
  return {
    cost: identity.serviceHostingCosts[serviceId] ?? identity.defaultHostingCost,
    precedence: identity.serviceHostingPrecedences[serviceId] ?? identity.defaultHostingPrecedence,
  };
}
