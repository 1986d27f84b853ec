/** Answers as bytes: envelopes around results and errors, and the check of both against the contract. */
import { Buffer } from "node:buffer";
import { randomFillSync } from "node:crypto";
import {
  API_ERRORS,
  API_VERSIONS,
  type ApiError,
  type ApiName,
  type CreateResult,
  createLocation,
  type currentApiSessionDetail,
  type DetailResult,
  errorEnvelope,
  JSON_TYPE,
  type ListQuery,
  type ListResult,
  meta,
  type Operation,
  type RawResult,
} from "@sallyport/api";
import { z } from "zod";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON stays text: a copy as bytes outside the heap would make memory grow under load. */
  readonly body: Uint8Array | string;
}

export interface FailureAnswer extends Answer {
  readonly body: Buffer;
}

/** A handler's result that does not have the shape the contract promises. */
export class ContractViolationError extends Error {
  override readonly name = "ContractViolationError";
}

/**
 * The answer to a call that went well.
 * @param validate compare with the contract; throws {@link ContractViolationError} where they differ
 */
export function success(operation: Operation, result: unknown, list: ListQuery | undefined, validate: boolean): Answer {
  const { response } = operation;
  if (response.kind === "raw") {
    const { body, contentType } = result as RawResult;
    const type = contentType ?? response.contentTypes[0];
    if (validate && !response.contentTypes.includes(type)) throw new ContractViolationError(`content type ${type}`);
    return { status: 200, headers: { "content-type": type, ...response.headers }, body: Buffer.from(body) };
  }
  if (response.kind === "bare") {
    const { data, headers } = result as DetailResult<unknown>;
    const body = JSON.stringify(data);
    if (validate) checkShape(operation, response.data, JSON.parse(body));
    return { status: 200, headers: { "content-type": JSON_TYPE, ...headers }, body };
  }
  const { text } = result === undefined ? {} : (result as Partial<DetailResult<unknown>>);
  if (response.kind === "detail" && text !== undefined) {
    if (validate && !response.textTypes?.includes(text.contentType)) {
      throw new ContractViolationError(`content type ${text.contentType}`);
    }
    return { status: response.status, headers: { "content-type": text.contentType }, body: Buffer.from(text.body) };
  }
  const { data, metadata, headers } = envelope(operation, result, list);
  if (validate) check(operation, data, metadata);
  return {
    status: response.status,
    headers: { "content-type": JSON_TYPE, ...sessionHeaders(operation, data), ...headers },
    body: JSON.stringify({ data, meta: metadata }),
  };
}

interface Envelope {
  readonly data: unknown;
  readonly metadata: object;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

function envelope({ response }: Operation, result: unknown, list: ListQuery | undefined): Envelope {
  switch (response.kind) {
    case "list": {
      const { data, totalCount, filterableFields, headers } = result as ListResult<unknown>;
      const { limit, offset } = list ?? { limit: data.length, offset: 0 };
      const pagination = { limit, offset, totalCount: totalCount ?? data.length };
      return { data, metadata: { filterableFields, pagination }, headers };
    }
    case "create": {
      const { id } = result as CreateResult;
      const href = `./${response.collection}/${id}`;
      return { data: { _links: { self: { href } }, id }, metadata: {} };
    }
    case "detail": {
      const { data, headers, pagination } = result as DetailResult<unknown>;
      return { data, metadata: pagination === undefined ? {} : { pagination }, headers };
    }
    default:
      return { data: {}, metadata: {} };
  }
}

/** A new session's token under both names of the header: clients of OpenZiti read the first, the specification the second. */
function sessionHeaders(operation: Operation, data: unknown): Record<string, string> {
  if (operation.issuesSession === undefined) return {};
  const { token, expirationSeconds, expiresAt } = data as z.output<typeof currentApiSessionDetail>;
  return {
    "zt-session": token,
    "svc-session": token,
    ...expiryHeaders({ expirationSeconds, expiresAt: new Date(expiresAt) }),
  };
}

/** The headers about the inactivity timeout, on every answer to a request with a session. */
export function expiryHeaders(session: {
  readonly expirationSeconds: number;
  readonly expiresAt: Date;
}): Record<string, string> {
  return { "expiration-seconds": String(session.expirationSeconds), "expires-at": headerTime(session.expiresAt) };
}

function check(operation: Operation, data: unknown, metadata: object): void {
  const { response } = operation;
  let schema: z.ZodType = z.strictObject({});
  if (response.kind === "list") schema = z.array(response.item);
  if (response.kind === "create") schema = createLocation;
  if (response.kind === "detail") schema = response.data;
  // JSON leaves out keys that are undefined.
  const sent: unknown = JSON.parse(JSON.stringify({ data, meta: metadata }));
  checkShape(operation, z.strictObject({ data: schema, meta }), sent);
}

function checkShape({ path }: Operation, schema: z.ZodType, sent: unknown): void {
  const parsed = schema.safeParse(sent);
  if (!parsed.success) throw new ContractViolationError(`${path}: ${z.prettifyError(parsed.error)}`);
}

/** The answer to a call that failed. `api` decides on the versions that the envelope names. */
export function failure(error: ApiError, requestId: string, api: ApiName, validate = false): FailureAnswer {
  const version = API_VERSIONS[api].meta;
  const { code, message, cause } = error;
  const body = {
    error: { code, message, requestId, cause },
    meta: { apiEnrollmentVersion: version, apiVersion: version },
  };
  if (validate) errorEnvelope.parse(body);
  return {
    status: error.status,
    headers: { "content-type": JSON_TYPE, ...error.headers },
    body: Buffer.from(JSON.stringify(body)),
  };
}

/** A failure before the request is understood: the bare error, and the connection ends. */
export function bareFailure(code: keyof typeof API_ERRORS, status: number = API_ERRORS[code].status): FailureAnswer {
  const body = Buffer.from(JSON.stringify({ code, message: API_ERRORS[code].message }));
  return { status, headers: { "content-type": JSON_TYPE, connection: "close" }, body };
}

/** An answer as it goes out on a bare socket. */
export function bareResponse({ status, headers, body }: FailureAnswer, reason: string): Buffer {
  const all = { ...headers, "content-length": String(body.byteLength) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} ${reason}\r\n${lines.join("")}\r\n`), body]);
}

const ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-";

const ID_LENGTH = 9;
const POOL = Buffer.alloc(ID_LENGTH * 128);
let taken = POOL.length;

/** A short random id: it ties a caller's error to the line in the log. */
export function newRequestId(): string {
  if (taken === POOL.length) {
    randomFillSync(POOL);
    taken = 0;
  }
  let id = "";
  for (const end = taken + ID_LENGTH; taken < end; taken++) id += ID_ALPHABET[(POOL[taken] ?? 0) % 64];
  return id;
}

/** A time as the `expires-at` header writes it, for example `2026-01-02 15:04:05.123 +0000 UTC`. */
function headerTime(at: Date): string {
  return `${at.toISOString().replace("T", " ").slice(0, -1)} +0000 UTC`;
}
