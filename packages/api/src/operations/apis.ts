/** The APIs: where each is served, its operations, and the versions that it names. */
import { authenticationOperations, certificateAuthorityOperations, revocationOperations } from "./authentication.ts";
import { clientOperations } from "./client.ts";
import { controllerSettingOperations, databaseOperations, fabricDatabaseOperations } from "./database.ts";
import { fabricOperations } from "./fabric.ts";
import { identityOperations, tracingOperations } from "./identities.ts";
import { mfaAdministration } from "./mfa.ts";
import { networkOperations, routerOperations } from "./network.ts";
import { policyOperations } from "./policies.ts";
import { postureOperations } from "./posture.ts";
import { sharedOperations } from "./shared.ts";

/** The Management API: what administrators call. Base path `/edge/management/v1`. */
export const managementOperations = {
  ...sharedOperations,
  ...identityOperations,
  ...databaseOperations,
  ...controllerSettingOperations,
  ...authenticationOperations,
  ...certificateAuthorityOperations,
  ...revocationOperations,
  ...networkOperations,
  ...policyOperations,
  ...postureOperations,
  ...mfaAdministration,
  ...routerOperations,
  ...tracingOperations,
};

/** Operations by API. An operation id is unique within its API; where several have one, its shapes may differ. */
export const operations = {
  client: clientOperations,
  management: managementOperations,
  fabric: { ...fabricOperations, ...fabricDatabaseOperations },
};

export type ApiName = keyof typeof operations;

export const BASE_PATHS: Readonly<Record<ApiName, string>> = {
  client: "/edge/client/v1",
  management: "/edge/management/v1",
  fabric: "/fabric/v1",
};

/**
 * Version of each API's description, and the one that the meta of its errors names. The edge descriptions keep the version of the specification, although they
 * have operations of later ones: a later number would promise what is answered 501. No known client reads it; those of OpenZiti 1.6 and 2.x look for the `v1`
 * of `/version` and compare its product version (`PROTOCOL_VERSION`).
 */
export const API_VERSIONS: Readonly<Record<ApiName, { readonly description: string; readonly meta: string }>> = {
  client: { description: "0.26.14", meta: "0.0.1" },
  management: { description: "0.26.14", meta: "0.0.1" },
  fabric: { description: "1.0.0", meta: "1.0.0" },
};
