import type { z } from "zod";
import { choice, flag, integer, list, struct, text } from "../../fields/bounded.ts";
import { type CelRule, exactlyOne } from "../../fields/cel.ts";
import {
  entityFields,
  entityRules,
  entityStatusFields,
  idColumn,
  nameRule,
  roleAttributes,
} from "../../fields/entity.ts";
import { postureCheckKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const osType = (description: string) =>
  choice(description, ["Windows", "WindowsServer", "Android", "iOS", "Linux", "macOS"]);
const path = text("Path of the program.", { min: 1, max: 1024 });
const hashes = list(
  "SHA-512 hashes of the program, hex; one must match. None: any.",
  text("One hash.", { min: 1, max: 128, pattern: /^[0-9A-Fa-f]+$/ }),
  { type: "set", max: 64 },
).optional();
const fingerprint = (description: string) =>
  text(description, { min: 1, max: 128, pattern: /^[0-9A-Fa-f]+(:[0-9A-Fa-f]+)*$/ });

/** One field for each type of check; a resource has exactly one of them. */
const variants = {
  domain: struct("The device is a member of one of the Windows domains.", {
    domains: list("The domains.", text("One domain.", { min: 1, max: 255 }), { type: "set", min: 1, max: 128 }),
  }).optional(),
  operatingSystem: struct("The device runs one of the operating systems.", {
    operatingSystems: list(
      "The operating systems.",
      struct("One operating system.", {
        type: osType("Which one."),
        versions: list("Version ranges, such as >=10.0.0; none: any.", text("One range.", { min: 1, max: 256 }), {
          type: "set",
          max: 32,
        }).optional(),
      }),
      { type: "map", keys: ["type"], min: 1, max: 16 },
    ),
  }).optional(),
  process: struct("A program runs on the device.", {
    osType: osType("Operating system that the program is for."),
    path,
    hashes,
    signerFingerprint: fingerprint("SHA-1 fingerprint of the certificate that signed the program, hex.").optional(),
  }).optional(),
  processMulti: struct("Programs run on the device.", {
    semantic: choice("AllOf: all of them. AnyOf: one of them.", ["AllOf", "AnyOf"]),
    processes: list(
      "The programs.",
      struct("One program.", {
        osType: osType("Operating system that the program is for."),
        path,
        hashes,
        signerFingerprints: list(
          "SHA-1 fingerprints of certificates of which one must have signed it, hex.",
          fingerprint("One fingerprint."),
          { type: "set", max: 64 },
        ).optional(),
      }),
      { type: "map", keys: ["osType", "path"], min: 1, max: 32 },
    ),
  }).optional(),
  mac: struct("The device has one of the hardware addresses.", {
    macAddresses: list(
      "The addresses.",
      text("One address, such as 00:1b:44:11:3a:b7.", {
        max: 23,
        pattern: /^([0-9A-Fa-f]{2}[-:.]?){5,7}[0-9A-Fa-f]{2}$/,
      }),
      { type: "set", min: 1, max: 256 },
    ),
  }).optional(),
  mfa: struct("The user has given a one-time code.", {
    timeoutSeconds: integer("How long a code is valid; 0: for the whole login.", { max: 31_536_000 }).optional(),
    promptOnWake: flag("Whether a code is required after the device wakes up.").optional(),
    promptOnUnlock: flag("Whether a code is required after the device is unlocked.").optional(),
    ignoreLegacyEndpoints: flag("Whether clients that cannot report this pass.").optional(),
  }).optional(),
};
const VARIANTS = Object.keys(variants) as (keyof typeof variants)[];

const sameVariant: CelRule = {
  rule: VARIANTS.map((name) => `has(self.${name}) == has(oldSelf.${name})`).join(" && "),
  message: "the kind of check is immutable: delete the resource and create it again",
};

const spec = struct(
  "What is asked of a device. Exactly one kind of check.",
  {
    ...entityFields,
    roleAttributes: roleAttributes("the check").optional(),
    ...variants,
  },
  [...entityRules, exactlyOne(...VARIANTS), sameVariant],
);

const status = struct("What the operator found and did.", { ...entityStatusFields });

export const postureCheckDefinition = defineKind({
  ...postureCheckKind,
  shortNames: ["opc"],
  description: "A posture check of a network: a condition on the device for policies that name the check.",
  spec,
  status,
  rules: [nameRule],
  columns: [idColumn],
});

export type PostureCheckSpec = z.output<typeof spec>;
type PostureCheckStatus = z.output<typeof status>;
export type PostureCheckResource = Resource<PostureCheckSpec, PostureCheckStatus>;
