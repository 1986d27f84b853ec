/**
 * Posture: what policies ask of a device before they grant anything, and what devices report (`docs/api.md`, "Posture").
 * A new type has its fields in a file beside this one and an entry in {@link POSTURE_TYPES}; all schemas below follow from the tables.
 */
import { z } from "zod";
import { base } from "../entity.ts";
import { dialBind, patchOf, time } from "../scalars.ts";
import { sdkInfo } from "../session.ts";
import { domain, domainReport } from "./domain.ts";
import { mac, macReport } from "./mac.ts";
import { endpointStateReport, mfa } from "./mfa.ts";
import { os, osReport, systemDetail } from "./os.ts";
import { commonFields } from "./posture-type.ts";
import { process, processMulti, processReport } from "./process.ts";

/** The types of posture checks by their short names. */
export const POSTURE_TYPES = {
  OS: os,
  PROCESS: process,
  DOMAIN: domain,
  MAC: mac,
  PROCESS_MULTI: processMulti,
  MFA: mfa,
};
export type { OsType } from "./posture-type.ts";
export type PostureCheckType = keyof typeof POSTURE_TYPES;

/** The types of reports by their short names. */
export const POSTURE_REPORTS = {
  DOMAIN: domainReport,
  MAC: macReport,
  OS: osReport,
  PROCESS: processReport,
  ENDPOINT_STATE: endpointStateReport,
};
export type PostureReportType = keyof typeof POSTURE_REPORTS;

type TypeParts<T extends PostureCheckType> = (typeof POSTURE_TYPES)[T]["parts"];
type Given<T extends PostureCheckType> = z.output<z.ZodObject<TypeParts<T>["fields"]>>;
/** A type's own fields, all of them given, as they are stored. */
export type PostureFields<T extends PostureCheckType> = T extends T
  ? { readonly [Name in keyof Given<T>]-?: Exclude<Given<T>[Name], undefined> }
  : never;
/** A type's own fields as an answer shows them. */
export type PostureDetail<T extends PostureCheckType> = T extends T
  ? z.input<z.ZodObject<TypeParts<T>["detail"]>>
  : never;
/** What a failed check of a type wanted, and what was known of the device. */
export type PostureFailure<T extends PostureCheckType> = T extends T
  ? z.input<z.ZodObject<TypeParts<T>["failure"]>>
  : never;

export type PostureReport<T extends PostureReportType = PostureReportType> = z.output<
  (typeof POSTURE_REPORTS)[T]["create"]
>;
/** What `posture-data` shows of a type of report. */
export type PostureReportData<T extends PostureReportType> = T extends T
  ? z.input<z.ZodObject<(typeof POSTURE_REPORTS)[T]["data"]>>
  : never;

const TYPES_BY_ID = byTypeId<PostureCheckType>(POSTURE_TYPES);
const REPORTS_BY_ID = byTypeId<PostureReportType>(POSTURE_REPORTS);

/** The type that a `typeId` of a request means; undefined for an empty or unknown one. */
export function postureCheckType(typeId: string | undefined): PostureCheckType | undefined {
  return typeId === undefined ? undefined : TYPES_BY_ID.get(typeId);
}

/** The type of a report. @throws Error for a `typeId` that the schema does not take */
export function postureReportType(typeId: string): PostureReportType {
  const type = REPORTS_BY_ID.get(typeId);
  if (type === undefined) throw new Error(`posture report of the unknown type ${typeId}`);
  return type;
}

function byTypeId<Name extends string>(table: Readonly<Record<Name, { readonly typeIds: readonly string[] }>>) {
  return new Map<string, Name>(
    (Object.keys(table) as Name[]).flatMap((name) => table[name].typeIds.map((id) => [id, name] as const)),
  );
}

export const postureCheckCreate = z.discriminatedUnion("typeId", each(POSTURE_TYPES, "create"));
/** Without `typeId` the stored type counts, and the controller then checks that its required fields are there. */
export const postureCheckUpdate = z.discriminatedUnion("typeId", [
  ...each(POSTURE_TYPES, "update"),
  z.object({
    typeId: z.literal("").optional(),
    ...commonFields,
    ...patchOf(merged(each(POSTURE_TYPES, "parts").map(({ fields }) => fields))).shape,
  }),
]);
export const postureCheckPatch = z.discriminatedUnion("typeId", each(POSTURE_TYPES, "patch"));
export const postureCheckDetail = z.discriminatedUnion("typeId", each(POSTURE_TYPES, "detail"));
/** A check that failed: what it wanted, and what was known of the device then. */
export const postureCheckFailure = z.discriminatedUnion("postureCheckType", each(POSTURE_TYPES, "failure"));

export const postureCheckTypeDetail = z.strictObject({
  ...base,
  name: z.string(),
  operatingSystems: z.array(systemDetail),
  version: z.string(),
});

export const postureResponseCreate = z.discriminatedUnion("typeId", each(POSTURE_REPORTS, "create"));
/** Far more than the controller keeps of a device: 64 processes, and one report of each other type. */
const MAX_RESPONSES = 500;
export const postureResponses = z.array(postureResponseCreate).max(MAX_RESPONSES);

const affectedService = z.strictObject({
  id: z.string(),
  name: z.string(),
  postureQueryType: z.string(),
  timeout: z.int(),
  timeoutRemaining: z.int(),
});
export const postureResponse = z.strictObject({ services: z.array(affectedService) });

const queriedProcess = z.strictObject({ osType: z.string().optional(), path: z.string().optional() });
const postureQuery = z.strictObject({
  ...base,
  isPassing: z.boolean(),
  process: queriedProcess.optional(),
  processes: z.array(queriedProcess).nullable(),
  promptGracePeriodSeconds: z.int().optional(),
  promptOnUnlock: z.boolean().optional(),
  promptOnWake: z.boolean().optional(),
  queryType: z.enum(Object.keys(POSTURE_TYPES) as PostureCheckType[]),
  timeout: z.int(),
  timeoutAt: time.nullable().optional(),
  timeoutRemaining: z.int(),
});
/** The checks of one policy that links a client to a service, and whether they pass. */
export const postureQueries = z.strictObject({
  isPassing: z.boolean(),
  policyId: z.string(),
  policyType: dialBind.optional(),
  postureQueries: z.array(postureQuery),
});

/** What administrators see of the devices of an identity, and of its API sessions. */
export const postureData = z.strictObject({
  apiSessionPostureData: z.record(
    z.string(),
    z.strictObject({
      endpointState: z.strictObject({ unlockedAt: time.nullable(), wokenAt: time.nullable() }).optional(),
      mfa: z.strictObject({
        apiSessionId: z.string(),
        passedAt: time.nullable(),
        passedMfa: z.boolean(),
        passedOnUnlock: z.boolean(),
        passedOnWake: z.boolean(),
      }),
      sdkInfo: sdkInfo.optional(),
    }),
  ),
  ...merged(each(POSTURE_REPORTS, "data")),
});

/** A session request that posture checks refused. */
export const failedServiceRequest = z.strictObject({
  apiSessionId: z.string(),
  policyFailures: z.array(
    z.strictObject({ checks: z.array(postureCheckFailure), policyId: z.string(), policyName: z.string() }),
  ),
  serviceId: z.string(),
  serviceName: z.string(),
  sessionType: dialBind,
  when: time,
});

/** One part of every entry of a table. */
function each<Entry, Part extends keyof Entry>(
  table: Readonly<Record<string, Entry>>,
  part: Part,
): [Entry[Part], ...Entry[Part][]] {
  return Object.values(table).map((entry) => entry[part]) as [Entry[Part], ...Entry[Part][]];
}

type Intersection<Union> = (Union extends unknown ? (member: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** The fields of all shapes in one; no two types share a name. */
function merged<Shape extends object>(shapes: readonly Shape[]): Intersection<Shape> {
  return Object.assign({}, ...shapes) as Intersection<Shape>;
}
