import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  PostureCheckType,
  PostureDetail,
  PostureFailure,
  PostureFields,
  PostureReport,
  PostureReportData,
  PostureReportType,
} from "@sallyport/api";
import type { edgeCtrlPb } from "@sallyport/wire";

/**
 * What one type of posture check is, and what all types share. One file per type; `types.ts` collects them.
 * Source: docs/protocol/posture.md.
 */

/** A stored check as it is evaluated. */
export type CheckOf<T extends PostureCheckType> = T extends T
  ? PostureFields<T> & {
      readonly typeId: T;
      readonly id: string;
      readonly name: string;
      readonly createdAt: Date;
      readonly updatedAt: Date;
    }
  : never;

/** When a device reported something, and for which check. */
export interface DeviceReport {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly checkId: string;
}

/** What belongs to one API session. Times are milliseconds since 1970; absent = it has not happened. */
export interface SessionPosture {
  readonly mfaPassedAt?: number;
  readonly wokenAt?: number;
  readonly unlockedAt?: number;
}

/** What is known of a device and of one API session. */
export interface KnownPosture<Device> {
  readonly device: Device;
  readonly session: SessionPosture;
}

/** What clients see of a check besides whether it passes. */
interface QueryFields {
  readonly process?: { readonly osType: string; readonly path: string };
  readonly processes?: { readonly osType: string; readonly path: string }[];
  /** The event after which clients report or prompt again, in milliseconds since 1970. */
  readonly promptedAt?: number | undefined;
  /** Seconds for which the check stays passed, and what is left of them; absent = no limit. */
  readonly timeout?: number;
  readonly timeoutRemaining?: number;
}

type Subtype = NonNullable<MessageInitShape<typeof edgeCtrlPb.DataState_PostureCheckSchema>["subtype"]>;

/** The type's own part of a check as routers get it. */
type WireSubtype = edgeCtrlPb.DataState_PostureCheck["subtype"];

/** All of it is pure, and moments are milliseconds since 1970. `Device` is the part of what devices report that the type looks at. */
export interface PostureType<T extends PostureCheckType, Device = unknown> {
  /** The type's own fields where the store has none; their names are the names that the store keeps. */
  readonly defaults: PostureFields<T>;
  /** Does the device report what the check asks for? Otherwise it belongs to the API session. */
  readonly isReported: boolean;
  /** Why the controller must not store the fields, when the schema alone cannot tell. */
  problem?(
    given: Partial<PostureFields<T>>,
  ): { readonly field: string; readonly reason: string; readonly value: unknown } | undefined;
  /** The fields as the store keeps them, when this differs from what requests give. */
  normalized?(given: Partial<PostureFields<T>>): Partial<PostureFields<T>>;
  /** Does the check pass? What was never reported fails, and never throws. */
  passes(check: CheckOf<T>, known: KnownPosture<Device>, now: number): boolean;
  /** Can the check come to fail by time alone? */
  isTimed(check: CheckOf<T>): boolean;
  /** The fields as answers show them. */
  detail(fields: PostureFields<T>): PostureDetail<T>;
  /** What the check wanted, and what was known then. */
  failure(check: CheckOf<T>, known: KnownPosture<Device>, now: number): PostureFailure<T>;
  query(check: CheckOf<T>, session: SessionPosture, now: number): QueryFields;
  /** What routers get of the check. Source: docs/protocol/data-model.md, "Posture checks". */
  subtype(fields: PostureFields<T>): Subtype;
  /** The fields that `subtype` was made of; undefined for the form of another type, and for one whose meaning is unknown. */
  ofWire(subtype: WireSubtype): PostureFields<T> | undefined;
}

/** One type of report: what it changes of what is known, and what administrators see of it. */
export interface ReportType<T extends PostureReportType, Device = unknown> {
  take(
    report: PostureReport<T>,
    at: number,
    before: Device,
  ): { readonly device: Partial<Device> } | { readonly session: SessionPosture };
  data(device: Device): PostureReportData<T>;
}

/** The fields that administrators see of every report. */
export function reportData(report: DeviceReport | undefined) {
  return { lastUpdatedAt: timeOrNull(report?.at), postureCheckId: report?.checkId ?? "", timedOut: false };
}

/** A moment as the API writes it; null for one that has not come. */
export function timeOrNull(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString();
}

/** Hex digits in lower case, without the colons, dashes and other separators between them. */
export function hexDigits(text: string): string {
  return text.toLowerCase().replaceAll(/[^0-9a-f]/g, "");
}

export function isKnownHex(known: ReadonlySet<string>, text: string): boolean {
  const digits = hexDigits(text);
  return digits !== "" && known.has(digits);
}
