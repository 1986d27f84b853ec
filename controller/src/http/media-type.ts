/** Content types of requests. */
import { API_ERRORS, type ApiError, type BodySpec, ApiError as Failure, fieldCause, JSON_TYPE } from "@sallyport/api";

/** A body whose type is not said. */
const UNTYPED = "application/octet-stream";

/** The media type of a `Content-Type` header, without parameters, in lower case; undefined when absent or empty. */
export function mediaType(header: string | undefined): string | undefined {
  const type = header?.split(";", 1)[0]?.trim().toLowerCase();
  return type === "" ? undefined : type;
}

/** What a body sent with this type is read as; undefined where the operation does not take the type. */
export function bodyFormat(body: BodySpec, type: string | undefined): "json" | "text" | undefined {
  if (body.kind === "none") return "text";
  if (body.kind === "text") return type !== undefined && body.textTypes.includes(type) ? "text" : undefined;
  if (type === JSON_TYPE) return "json";
  if (body.kind === "json") return undefined;
  return type === undefined || body.textTypes.includes(type) ? "text" : undefined;
}

/** 415, naming what the operation takes. */
export function unsupportedType(body: BodySpec, type: string | undefined): ApiError {
  const texts = body.kind === "json-or-text" || body.kind === "text" ? body.textTypes : [];
  const allowed = [...(body.kind === "text" ? [] : [JSON_TYPE]), ...texts].join(" ");
  const reason = `unsupported media type "${type ?? UNTYPED}", only [${allowed}] are allowed`;
  return new Failure(
    415,
    "COULD_NOT_VALIDATE",
    API_ERRORS.COULD_NOT_VALIDATE.message,
    fieldCause("Content-Type", reason, type ?? UNTYPED),
  );
}

/** 406, naming what the operation produces. */
export function notAcceptable(accept: string, produces: readonly string[]): ApiError {
  const reason = `unsupported media type requested, only [${produces.join(" ")}] are available`;
  const cause = fieldCause("Accept", reason, accept);
  return new Failure(406, "COULD_NOT_VALIDATE", API_ERRORS.COULD_NOT_VALIDATE.message, cause);
}
