import type { Selectable } from "kysely";
import type { AuthPolicyTable } from "../../store/schema.ts";

/** How identities of a policy may authenticate. */
export type AuthPolicyRow = Selectable<AuthPolicyTable>;
