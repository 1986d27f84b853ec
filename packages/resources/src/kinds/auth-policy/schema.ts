import type { z } from "zod";
import { flag, integer, list, struct } from "../../fields/bounded.ts";
import { entityFields, entityRules, entityStatusFields, idColumn, nameRule } from "../../fields/entity.ts";
import { entityId } from "../../fields/references.ts";
import { authPolicyKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const allowed = (what: string) => flag(`Whether ${what} is accepted.`).optional();

const spec = struct(
  "How identities may log in. Without primary every way is open; values that are left out are the usual ones of a network.",
  {
    ...entityFields,
    primary: struct(
      "The first step of a login; one allowed method is enough. If you set one method, the others are closed.",
      {
        cert: struct("Login by client certificate.", {
          allowed: allowed("a client certificate"),
          allowExpiredCerts: flag("Whether an expired certificate is accepted.").optional(),
        }).optional(),
        extJwt: struct("Login by a token of an external JWT signer.", {
          allowed: allowed("a token of an external JWT signer"),
          allowedSigners: list("Ids of the external JWT signers; none means all enabled ones.", entityId("One id."), {
            type: "set",
            max: 64,
          }).optional(),
        }).optional(),
        updb: struct("Login by name and password.", {
          allowed: allowed("a password"),
          minPasswordLength: integer("Minimum length of a password.", { min: 5, max: 100 }).optional(),
          requireSpecialChar: flag("Whether a password needs a character that is neither letter nor digit.").optional(),
          requireNumberChar: flag("Whether it needs a digit.").optional(),
          requireMixedCase: flag("Whether it needs capital and small letters.").optional(),
          maxAttempts: integer("Failures in a row that lock the identity; 0: no limit.", { max: 1000 }).optional(),
          lockoutDurationMinutes: integer("Duration of the lock; 0: until an administrator enables the identity.", {
            max: 1_000_000,
          }).optional(),
        }).optional(),
      },
    ).optional(),
    secondary: struct("Second factors.", {
      requireTotp: flag("Whether a one-time code is required.").optional(),
      requireExtJwtSigner: entityId("Id of the external JWT signer whose token is required, too.").optional(),
    }).optional(),
  },
  entityRules,
);

const status = struct("What the operator found and did.", { ...entityStatusFields });

export const authPolicyDefinition = defineKind({
  ...authPolicyKind,
  shortNames: ["oap"],
  description: "An authentication policy of a network: how its identities may log in.",
  spec,
  status,
  rules: [nameRule],
  columns: [idColumn],
});

export type AuthPolicySpec = z.output<typeof spec>;
type AuthPolicyStatus = z.output<typeof status>;
export type AuthPolicyResource = Resource<AuthPolicySpec, AuthPolicyStatus>;
