import type { z } from "zod";
import { choice, duration, flag, freeForm, integer, list, struct, text, time } from "../../resources/fields/bounded.ts";
import { atMostOne, type CelRule } from "../../resources/fields/cel.ts";
import {
  entityFields,
  entityRules,
  entityStatusFields,
  idColumn,
  nameRule,
  roleAttributes,
} from "../../resources/fields/entity.ts";
import { entityId, nameRef, objectName, secretKeyRef } from "../../resources/fields/object-reference.ts";
import { defineKind, type Resource, shortName } from "../../resources/kind-definition.ts";
import { identityKind } from "../../resources/own-kinds.ts";

const cost = (description: string) => integer(description, { max: 65_535 });
const precedence = (description: string) => choice(description, ["default", "required", "failed"]);

const once = (field: string): CelRule => ({
  rule: "self.all(a, self.exists_one(b, b.serviceRef.name == a.serviceRef.name))",
  message: `${field} names a service twice`,
});

const enrollment = struct(
  "How the identity gets its credentials. Left out: a one-time token in a Secret, unless externalId is given.",
  {
    method: choice(
      "ott: a one-time token. ottca: a one-time token together with a certificate of a third authority. updb: a token to choose a password. none: nothing.",
      ["ott", "ottca", "updb", "none"],
    ).default("ott"),
    output: choice(
      "JwtSecret: the token is put into a Secret, for a device outside. IdentitySecret: the operator enrolls, keeps the identity in a Secret and renews it.",
      ["JwtSecret", "IdentitySecret"],
    ).default("JwtSecret"),
    secretName: objectName(
      "Name of that Secret: metadata.name with -enrollment or -identity when left out. Immutable.",
    ).optional(),
    renewBefore: duration(
      "How long before its end a certificate is renewed; the smaller of 30 days and a third of its life when left out.",
      { min: "5m" },
    ).optional(),
    tokenLifetime: duration("How long a token that the operator asks for is good.", { min: "5m" }).optional(),
    caId: entityId("Id of the third authority of ottca.").optional(),
    username: text("Name of the login by password.", { min: 4, max: 100 }).optional(),
    passwordSecretRef: secretKeyRef("Password of that login; the operator sets it.").optional(),
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
      "What the identity stands for. A Sallyport controller keeps it; those of OpenZiti show Default for all of these.",
      ["User", "Device", "Service", "Default"],
    ).default("Default"),
    isAdmin: flag("Whether it may administer the network; refused unless the Network allows it.").default(false),
    roleAttributes: roleAttributes("the identity").optional(),
    authPolicyRef: nameRef("How it may log in; the network's standard when left out.", "the AuthPolicy").optional(),
    authPolicyId: entityId("The same by its id in the network.").optional(),
    externalId: text("Name in tokens of an outside issuer, by which it logs in without enrollment.", {
      min: 1,
      max: 512,
    }).optional(),
    defaultHostingCost: cost("Cost of what it hosts: less is preferred.").optional(),
    defaultHostingPrecedence: precedence(
      "Precedence of what it hosts: required before default before failed.",
    ).optional(),
    serviceHosting: list(
      "Cost and precedence for single services.",
      struct("One service.", {
        serviceRef: nameRef("The service.", "the OverlayService"),
        cost: cost("Cost as a host of it.").optional(),
        precedence: precedence("Precedence as a host of it.").optional(),
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
    appData: freeForm("What applications keep with the identity: text, numbers and booleans.", { max: 64 }).optional(),
    disabled: flag("Whether it is locked out; its sessions end.").default(false),
    enrollment: enrollment.optional(),
  },
  [
    ...entityRules,
    atMostOne("authPolicyRef", "authPolicyId"),
    {
      rule: "!has(self.externalId) || !has(self.enrollment)",
      message: "externalId logs in without enrollment: leave one of the two out",
      fieldPath: ".externalId",
    },
    {
      // Also when the whole of enrollment comes or goes.
      rule: `has(self.externalId) || has(oldSelf.externalId) || (${ofSecretName("self")}) == (${ofSecretName("oldSelf")})`,
      message: "enrollment.secretName is immutable: delete the resource and create it anew",
      fieldPath: ".enrollment",
    },
  ],
);

const status = struct("What the operator found and did.", {
  ...entityStatusFields,
  typeId: text("Type as the network has it.", { max: 64 }).optional(),
  enrolled: flag("Whether it has credentials.").optional(),
  enrollment: struct("The token that waits to be used.", {
    id: text("Id of the enrollment.", { max: 64 }).optional(),
    method: text("Its method.", { max: 64 }).optional(),
    expiresAt: time("When the token ends.").optional(),
  }).optional(),
  authenticators: list(
    "Credentials that it has.",
    struct("One credential.", {
      id: text("Id of the authenticator.", { max: 64 }),
      method: text("cert or updb.", { max: 64 }).optional(),
      notAfter: time("When its certificate ends.").optional(),
    }),
    { type: "map", keys: ["id"], max: 64 },
  ).optional(),
  secretName: text("The Secret with the token or the identity.", { max: 253 }).optional(),
  online: flag("Whether it is connected to an edge router; looked at every few minutes.").optional(),
  lastRenewalTime: time("When the operator renewed the certificate last.").optional(),
  certificateNotAfter: time("When the certificate in the Secret ends.").optional(),
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
    { name: "Type", type: "string", description: "What it stands for.", jsonPath: ".spec.type" },
    { name: "Enrolled", type: "boolean", description: "Whether it has credentials.", jsonPath: ".status.enrolled" },
    {
      name: "Expires",
      type: "string",
      description: "When the certificate in its Secret ends.",
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

export type IdentityEnrollment = z.output<typeof enrollment>;
export type IdentitySpec = z.output<typeof spec>;
export type IdentityStatus = z.output<typeof status>;
export type IdentityResource = Resource<IdentitySpec, IdentityStatus>;
