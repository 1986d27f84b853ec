import type { z } from "zod";
import { flag, integer, list, struct } from "../../resources/fields/bounded.ts";
import { entityFields, entityRules, entityStatusFields, idColumn, nameRule } from "../../resources/fields/entity.ts";
import { entityId } from "../../resources/fields/object-reference.ts";
import { defineKind, type Resource } from "../../resources/kind-definition.ts";
import { authPolicyKind } from "../../resources/own-kinds.ts";

const allowed = (what: string) => flag(`Whether ${what} is accepted.`).optional();

const spec = struct(
  "How identities may log in. Without primary every way is open; values that are left out are the usual ones of a network.",
  {
    ...entityFields,
    primary: struct(
      "The first step of a login; one way that is allowed is enough. When one is named, those that are left out are closed.",
      {
        cert: struct("Login by client certificate.", {
          allowed: allowed("a client certificate"),
          allowExpiredCerts: flag("Whether a certificate is good after its end, too.").optional(),
        }).optional(),
        extJwt: struct("Login by a token of an outside issuer.", {
          allowed: allowed("a token of an outside issuer"),
          allowedSigners: list("Ids of the issuers; none means all that are enabled.", entityId("One id."), {
            type: "set",
            max: 64,
          }).optional(),
        }).optional(),
        updb: struct("Login by name and password.", {
          allowed: allowed("a password"),
          minPasswordLength: integer("Shortest password.", { min: 5, max: 100 }).optional(),
          requireSpecialChar: flag("Whether a password needs a character that is neither letter nor digit.").optional(),
          requireNumberChar: flag("Whether it needs a digit.").optional(),
          requireMixedCase: flag("Whether it needs capital and small letters.").optional(),
          maxAttempts: integer("Failures in a row that lock the identity; 0: without limit.", { max: 1000 }).optional(),
          lockoutDurationMinutes: integer("For how long; 0: until an administrator enables it.", {
            max: 1_000_000,
          }).optional(),
        }).optional(),
      },
    ).optional(),
    secondary: struct("What is asked for in addition.", {
      requireTotp: flag("Whether a one-time code is needed.").optional(),
      requireExtJwtSigner: entityId("Id of the outside issuer of whom a token is needed, too.").optional(),
    }).optional(),
  },
  entityRules,
);

const status = struct("What the operator found and did.", { ...entityStatusFields });

export const authPolicyDefinition = defineKind({
  ...authPolicyKind,
  shortNames: ["oap"],
  description: "An authentication policy of a network: how the identities that have it may log in.",
  spec,
  status,
  rules: [nameRule],
  columns: [idColumn],
});

export type AuthPolicySpec = z.output<typeof spec>;
export type AuthPolicyStatus = z.output<typeof status>;
export type AuthPolicyResource = Resource<AuthPolicySpec, AuthPolicyStatus>;
