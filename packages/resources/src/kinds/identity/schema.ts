import type { z } from "zod";
import { choice, duration, flag, freeForm, integer, list, struct, text, time } from "../../fields/bounded.ts";
import { atMostOne, type CelRule } from "../../fields/cel.ts";
import {
  entityFields,
  entityRules,
  entityStatusFields,
  idColumn,
  nameRule,
  roleAttributes,
} from "../../fields/entity.ts";
import { entityId, nameRef, objectName, secretKeyRef } from "../../fields/references.ts";
import { identityKind } from "../../group.ts";
import { defineKind, type Resource, shortName } from "../../kind-definition.ts";

const cost = (description: string) => integer(description, { max: 65_535 });
const precedence = (description: string) => choice(description, ["default", "required", "failed"]);

const once = (field: string): CelRule => ({
  rule: "self.all(a, self.exists_one(b, b.serviceRef.name == a.serviceRef.name))",
  message: `${field} names a service twice`,
});

const enrollment = struct(
  "How the identity gets its credentials. Default: a one-time token in a Secret, unless externalId is set.",
  {
    method: choice(
      "ott: a one-time token. ottca: a one-time token together with a certificate of a third-party authority. updb: a token to choose a password. none: nothing.",
      ["ott", "ottca", "updb", "none"],
    ).default("ott"),
    output: choice(
      "JwtSecret: the operator puts the token into a Secret, for an external device. IdentitySecret: the operator enrolls, keeps the identity in a Secret and renews it.",
      ["JwtSecret", "IdentitySecret"],
    ).default("JwtSecret"),
    secretName: objectName(
      "Name of that Secret. Default: metadata.name with -enrollment or -identity. Immutable.",
    ).optional(),
    renewBefore: duration(
      "How long before expiry a certificate is renewed. Default: the smaller of 30 days and a third of its life.",
      { min: "5m" },
    ).optional(),
    tokenLifetime: duration("Lifetime of tokens that the operator requests.", { min: "5m" }).optional(),
    caId: entityId("Id of the third-party authority of ottca.").optional(),
    username: text("User name of the password login.", { min: 4, max: 100 }).optional(),
    passwordSecretRef: secretKeyRef("Secret with the password, which the operator sets.").optional(),
  },
  [
    {
      rule: "self.output != 'IdentitySecret' || self.method == 'ott'",
      message: "output IdentitySecret needs method ott",
      fieldPath: ".output",
    },
    {
      rule: "has(self.caId) == (self.method == 'ottca')",
      message: "method ottca needs caId, the others have none",
      fieldPath: ".caId",
    },
    {
      rule: "self.method != 'updb' || has(self.username)",
      message: "method updb needs username",
      reason: "FieldValueRequired",
      fieldPath: ".username",
    },
    {
      rule: "!has(self.passwordSecretRef) || has(self.username)",
      message: "passwordSecretRef needs username",
      reason: "FieldValueRequired",
      fieldPath: ".username",
    },
  ],
);

const ofSecretName = (of: string): string =>
  `has(${of}.enrollment) && has(${of}.enrollment.secretName) ? ${of}.enrollment.secretName : ''`;

const spec = struct(
  "Who takes part in a network.",
  {
    ...entityFields,
    type: choice(
      "Kind of the identity. A Sallyport controller stores it; OpenZiti's controllers show Default for all of these.",
      ["User", "Device", "Service", "Default"],
    ).default("Default"),
    isAdmin: flag("Whether it is an administrator of the network; refused unless the Network allows it.").default(
      false,
    ),
    roleAttributes: roleAttributes("the identity").optional(),
    authPolicyRef: nameRef(
      "How the identity may log in. Default: the network's default policy.",
      "the AuthPolicy",
    ).optional(),
    authPolicyId: entityId("Id of the policy in the network.").optional(),
    externalId: text("Name in tokens of an external JWT signer, with which the identity logs in without enrollment.", {
      min: 1,
      max: 512,
    }).optional(),
    defaultHostingCost: cost("Cost of its hosted services; lower is preferred.").optional(),
    defaultHostingPrecedence: precedence(
      "Precedence of its hosted services: required before default before failed.",
    ).optional(),
    serviceHosting: list(
      "Cost and precedence for single services.",
      struct("One service.", {
        serviceRef: nameRef("The service.", "the OverlayService"),
        cost: cost("Cost as a host of the service.").optional(),
        precedence: precedence("Precedence as a host of the service.").optional(),
      }),
      { type: "atomic", max: 64, rules: [once("serviceHosting")] },
    ).optional(),
    serviceConfigs: list(
      "Configs that replace a service's own for this identity.",
      struct("One config of one service.", {
        serviceRef: nameRef("The service.", "the OverlayService"),
        configRef: nameRef("The config.", "the ServiceConfig"),
      }),
      {
        type: "atomic",
        max: 64,
        rules: [
          {
            rule: "self.all(a, self.exists_one(b, b.serviceRef.name == a.serviceRef.name && b.configRef.name == a.configRef.name))",
            message: "serviceConfigs names a pair of service and config twice",
          },
        ],
      },
    ).optional(),
    appData: freeForm("Application data of the identity: text, numbers and booleans.", { max: 64 }).optional(),
    disabled: flag("Whether the identity is disabled; its sessions end.").default(false),
    enrollment: enrollment.optional(),
  },
  [
    ...entityRules,
    atMostOne("authPolicyRef", "authPolicyId"),
    {
      rule: "!has(self.externalId) || !has(self.enrollment)",
      message: "externalId logs in without enrollment: remove one of the two",
      fieldPath: ".externalId",
    },
    {
      // Also when the whole of enrollment comes or goes.
      rule: `has(self.externalId) || has(oldSelf.externalId) || (${ofSecretName("self")}) == (${ofSecretName("oldSelf")})`,
      message: "enrollment.secretName is immutable: delete the resource and create it again",
      fieldPath: ".enrollment",
    },
  ],
);

const status = struct("What the operator found and did.", {
  ...entityStatusFields,
  typeId: text("Type in the network.", { max: 64 }).optional(),
  enrolled: flag("Whether it has credentials.").optional(),
  enrollment: struct("The unused token.", {
    id: text("Id of the enrollment.", { max: 64 }).optional(),
    method: text("Its method.", { max: 64 }).optional(),
    expiresAt: time("Expiry of the token.").optional(),
  }).optional(),
  authenticators: list(
    "Its credentials.",
    struct("One credential.", {
      id: text("Id of the authenticator.", { max: 64 }),
      method: text("cert or updb.", { max: 64 }).optional(),
      notAfter: time("Expiry of its certificate.").optional(),
    }),
    { type: "map", keys: ["id"], max: 64 },
  ).optional(),
  secretName: text("The Secret with the token or the identity.", { max: 253 }).optional(),
  online: flag("Whether it is connected to an edge router; checked every few minutes.").optional(),
  lastRenewalTime: time("Time of the last renewal by the operator.").optional(),
  certificateNotAfter: time("Expiry of the certificate in the Secret.").optional(),
  lastHandledReEnroll: text("The last value of the annotation sallyport.dev/re-enroll acted on.", {
    max: 256,
  }).optional(),
});

export const identityDefinition = defineKind({
  ...identityKind,
  shortNames: ["oid"],
  description: "An identity of a network: a device, a user or a program that dials and hosts services.",
  spec,
  status,
  rules: [nameRule, shortName(240)],
  columns: [
    { name: "Type", type: "string", description: "Kind of the identity.", jsonPath: ".spec.type" },
    { name: "Enrolled", type: "boolean", description: "Whether it has credentials.", jsonPath: ".status.enrolled" },
    {
      name: "Expires",
      type: "string",
      description: "Expiry of the certificate in its Secret.",
      jsonPath: ".status.certificateNotAfter",
    },
    {
      name: "Online",
      type: "boolean",
      description: "Whether it is connected to an edge router.",
      jsonPath: ".status.online",
      priority: 1,
    },
    {
      name: "Secret",
      type: "string",
      description: "The Secret with the token or the identity.",
      jsonPath: ".status.secretName",
      priority: 1,
    },
    idColumn,
  ],
});

export type IdentitySpec = z.output<typeof spec>;
export type IdentityStatus = z.output<typeof status>;
export type IdentityResource = Resource<IdentitySpec, IdentityStatus>;
