/** Posture: what policies ask of a device before they grant anything, and what devices report (`docs/api.md`, "Posture"). */
import { z } from "zod";
import { base } from "./entity.ts";
import { names, namesOrNull, patchOf, semantic, tags } from "./scalars.ts";

/** The types of posture checks, as they are stored and answered. */
export const POSTURE_CHECK_TYPES = ["OS", "PROCESS", "DOMAIN", "MAC", "PROCESS_MULTI", "MFA"] as const;
export type PostureCheckType = (typeof POSTURE_CHECK_TYPES)[number];

/** The part of a type's definition names, which the specification uses in `typeId`; clients send the short names. */
const DEFINITIONS = {
  OS: "OperatingSystem",
  PROCESS: "Process",
  DOMAIN: "Domain",
  MAC: "MacAddress",
  PROCESS_MULTI: "ProcessMulti",
  MFA: "Mfa",
} as const satisfies Record<PostureCheckType, string>;

/** `typeId` of one type in a request: its short name, or the definition name that fits the operation. */
function typeId<T extends PostureCheckType, Operation extends "Create" | "Update" | "Patch">(
  type: T,
  operation: Operation,
) {
  return z.enum([type, `postureCheck${DEFINITIONS[type]}${operation}`] as const);
}

const SHORT_NAMES = new Map<string, PostureCheckType>(
  POSTURE_CHECK_TYPES.flatMap((type) => [
    [type, type] as const,
    ...["Create", "Update", "Patch"].map((each) => [`postureCheck${DEFINITIONS[type]}${each}`, type] as const),
  ]),
);

/** The type that a `typeId` of a request means; undefined for an empty or unknown one. */
export function postureCheckType(given: string | undefined): PostureCheckType | undefined {
  return given === undefined ? undefined : SHORT_NAMES.get(given);
}

export const osType = z.enum(["Windows", "WindowsServer", "Android", "iOS", "Linux", "macOS"]);
/** `versions` are ranges of semantic versions such as `>=10.0.0 <11.0.0`; none = any version. */
export const operatingSystem = z.object({ type: osType, versions: z.array(z.string().max(256)).default([]) });
/** Hashes are SHA-512, the signer's fingerprint SHA-1, both in hex. */
export const process = z.object({
  osType,
  path: z.string().min(1),
  hashes: names.default([]),
  signerFingerprint: z.string().optional(),
});
export const processMulti = z.object({
  osType,
  path: z.string().min(1),
  hashes: names.default([]),
  signerFingerprints: names.default([]),
});

const common = { name: z.string(), roleAttributes: names.default([]), tags: tags.default({}) };
const mfaFields = {
  timeoutSeconds: z.int().optional(),
  promptOnWake: z.boolean().optional(),
  promptOnUnlock: z.boolean().optional(),
  ignoreLegacyEndpoints: z.boolean().optional(),
};
/** What each type has besides the common fields; all of it is required on create and replace but for `MFA`. */
const shapes = {
  OS: { ...common, operatingSystems: z.array(operatingSystem).min(1) },
  PROCESS: { ...common, process },
  DOMAIN: { ...common, domains: names.min(1) },
  MAC: { ...common, macAddresses: names.min(1) },
  PROCESS_MULTI: { ...common, semantic, processes: z.array(processMulti).min(1) },
  MFA: { ...common, ...mfaFields },
};

export const postureCheckCreate = z.discriminatedUnion("typeId", [
  z.object({ typeId: typeId("OS", "Create"), ...shapes.OS }),
  z.object({ typeId: typeId("PROCESS", "Create"), ...shapes.PROCESS }),
  z.object({ typeId: typeId("DOMAIN", "Create"), ...shapes.DOMAIN }),
  z.object({ typeId: typeId("MAC", "Create"), ...shapes.MAC }),
  z.object({ typeId: typeId("PROCESS_MULTI", "Create"), ...shapes.PROCESS_MULTI }),
  z.object({ typeId: typeId("MFA", "Create"), ...shapes.MFA }),
]);

/** Without `typeId` the stored type counts, and what it requires is looked at then. */
export const postureCheckUpdate = z.discriminatedUnion("typeId", [
  z.object({ typeId: typeId("OS", "Update"), ...shapes.OS }),
  z.object({ typeId: typeId("PROCESS", "Update"), ...shapes.PROCESS }),
  z.object({ typeId: typeId("DOMAIN", "Update"), ...shapes.DOMAIN }),
  z.object({ typeId: typeId("MAC", "Update"), ...shapes.MAC }),
  z.object({ typeId: typeId("PROCESS_MULTI", "Update"), ...shapes.PROCESS_MULTI }),
  z.object({ typeId: typeId("MFA", "Update"), ...shapes.MFA }),
  z.object({
    typeId: z.literal("").optional(),
    ...common,
    operatingSystems: shapes.OS.operatingSystems.optional(),
    process: process.optional(),
    domains: shapes.DOMAIN.domains.optional(),
    macAddresses: shapes.MAC.macAddresses.optional(),
    semantic: semantic.optional(),
    processes: shapes.PROCESS_MULTI.processes.optional(),
    ...mfaFields,
  }),
]);

export const postureCheckPatch = z.discriminatedUnion("typeId", [
  patchOf(shapes.OS).extend({ typeId: typeId("OS", "Patch") }),
  patchOf(shapes.PROCESS).extend({ typeId: typeId("PROCESS", "Patch") }),
  patchOf(shapes.DOMAIN).extend({ typeId: typeId("DOMAIN", "Patch") }),
  patchOf(shapes.MAC).extend({ typeId: typeId("MAC", "Patch") }),
  patchOf(shapes.PROCESS_MULTI).extend({ typeId: typeId("PROCESS_MULTI", "Patch") }),
  patchOf(shapes.MFA).extend({ typeId: typeId("MFA", "Patch") }),
]);

const detail = { ...base, name: z.string(), roleAttributes: names, version: z.int() };
const osDetail = z.strictObject({ type: osType, versions: namesOrNull });
const processDetail = z.strictObject({
  osType,
  path: z.string(),
  hashes: namesOrNull,
  signerFingerprint: z.string().optional(),
});
const processMultiDetail = z.strictObject({ osType, path: z.string(), hashes: names, signerFingerprints: names });

export const postureCheckDetail = z.discriminatedUnion("typeId", [
  z.strictObject({ ...detail, typeId: z.literal("OS"), operatingSystems: z.array(osDetail) }),
  z.strictObject({ ...detail, typeId: z.literal("PROCESS"), process: processDetail }),
  z.strictObject({ ...detail, typeId: z.literal("DOMAIN"), domains: names }),
  z.strictObject({ ...detail, typeId: z.literal("MAC"), macAddresses: names }),
  z.strictObject({
    ...detail,
    typeId: z.literal("PROCESS_MULTI"),
    semantic,
    processes: z.array(processMultiDetail),
  }),
  z.strictObject({
    ...detail,
    typeId: z.literal("MFA"),
    timeoutSeconds: z.int(),
    promptOnWake: z.boolean(),
    promptOnUnlock: z.boolean(),
    ignoreLegacyEndpoints: z.boolean(),
  }),
]);

export const postureCheckTypeDetail = z.strictObject({
  ...base,
  name: z.string(),
  operatingSystems: z.array(osDetail),
  version: z.string(),
});

/** No report of a device is longer than this: everything of it is kept in memory. */
const MOST_CHARACTERS = 1024;
const MOST_VALUES = 100;
const value = z.string().max(MOST_CHARACTERS);
const values = z.array(value).max(MOST_VALUES);
const response = { id: value };

/** What a client reports about its device. `id` is that of the posture check (any text for `ENDPOINT_STATE`). */
export const postureResponseCreate = z.discriminatedUnion("typeId", [
  z.object({ ...response, typeId: z.enum(["DOMAIN", "postureResponseDomainCreate"]), domain: value }),
  z.object({
    ...response,
    typeId: z.enum(["MAC", "postureResponseMacAddressCreate"]),
    macAddresses: z.array(z.string().max(64)).max(MOST_VALUES),
  }),
  z.object({
    ...response,
    typeId: z.enum(["OS", "postureResponseOperatingSystemCreate"]),
    type: value,
    version: value,
    build: value.optional(),
  }),
  z.object({
    ...response,
    typeId: z.enum(["PROCESS", "postureResponseProcessCreate"]),
    path: value.optional(),
    isRunning: z.boolean().optional(),
    hash: value.optional(),
    signerFingerprints: values.optional(),
  }),
  z.object({
    ...response,
    typeId: z.enum(["ENDPOINT_STATE", "postureResponseEndpointStateCreate"]),
    woken: z.boolean().optional(),
    unlocked: z.boolean().optional(),
  }),
]);

/** Far more than is kept of a device: 64 processes, and one report of each other kind. */
const MOST_RESPONSES = 500;
export const postureResponses = z.array(postureResponseCreate).max(MOST_RESPONSES);

const affectedService = z.strictObject({
  id: z.string(),
  name: z.string(),
  postureQueryType: z.string(),
  timeout: z.int(),
  timeoutRemaining: z.int(),
});
export const postureResponse = z.strictObject({ services: z.array(affectedService) });
