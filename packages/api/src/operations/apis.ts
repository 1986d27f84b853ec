/** Both APIs: where each is served, and its operations. */
import { clientOperations } from "./client.ts";
import { identityOperations } from "./identities.ts";
import { networkOperations } from "./network.ts";
import { policyOperations } from "./policies.ts";
import { sharedOperations } from "./shared.ts";

/** The Management API: what administrators call. Base path `/edge/management/v1`. */
export const managementOperations = {
  ...sharedOperations,
  ...identityOperations,
  ...networkOperations,
  ...policyOperations,
};

/** Operations by API. An operation id is unique within its API; where both have one, its shapes may differ. */
export const operations = { client: clientOperations, management: managementOperations };

export type ApiName = keyof typeof operations;

export const BASE_PATHS: Readonly<Record<ApiName, string>> = {
  client: "/edge/client/v1",
  management: "/edge/management/v1",
};
