import { ApiError, ApiTransportError, apiError, fieldError, notFound } from "@sallyport/api/client";
import { expect, test } from "vitest";
import { failureOf, NetworkNotReadyError, OperationForbiddenError } from "./errors.ts";

// biome-ignore format: a table
test.each([
  ["a taken name", fieldError("name", "name must be unique", "web"), "NameConflict", true, "resync"],
  ["a taken name, in the peer's words", fieldError("name", "duplicate value 'web' in unique index on services store", "web"), "NameConflict", true,
    "resync"],
  ["another bad name", fieldError("name", "name is required", ""), "InvalidSpec", true, "resync"],
  ["a bad field", fieldError("identityRoles", "no identities found", "@x"), "InvalidSpec", true, "resync"],
  ["a refused session", apiError("UNAUTHORIZED"), "NetworkUnauthorized", false, "backoff"],
  ["a missing right", new OperationForbiddenError("listServices", undefined), "Forbidden", true, "resync"],
  ["403", new ApiError(403, "FORBIDDEN", "no"), "Forbidden", true, "resync"],
  ["an unknown reference", notFound("config", "c1"), "ReferenceNotFound", false, "reference"],
  ["an unknown reference by its code", apiError("REFERENCED_ENTITY_NOT_FOUND"), "ReferenceNotFound", false, "reference"],
  ["an enrollment that exists", apiError("ENROLLMENT_EXISTS"), "EnrollmentExists", false, "immediate"],
  ["what others use", apiError("CAN_NOT_DELETE_REFERENCED_ENTITY"), "InUse", false, "backoff"],
  ["too many requests", apiError("SERVER_TOO_MANY_REQUESTS"), "RateLimited", false, "connection"],
  ["a database that is away", apiError("TIMEOUT"), "ControllerUnavailable", false, "backoff"],
  ["a fault of the controller", apiError("UNHANDLED"), "ControllerUnavailable", false, "backoff"],
  ["no answer", new ApiTransportError("connect ECONNREFUSED"), "ControllerUnavailable", false, "backoff"],
  ["a network that is not ready", new NetworkNotReadyError("NetworkNotReady", "no pod yet"), "NetworkNotReady", false, "connection"],
])("%s", (_what, error, reason, isStalled, retry) => {
  expect(failureOf(error)).toMatchObject({ reason, isStalled, retry });
});

test("shows the field and what is wrong with it", () => {
  const text = failureOf(
    new ApiError(400, "COULD_NOT_VALIDATE", "see cause: data.port: must be integer", {
      field: "data.port",
      reason: "must be integer",
    }),
  );
  expect(text?.message).toBe("the network refuses data.port: must be integer (COULD_NOT_VALIDATE)");
});

test("takes the time that a controller asks for", () => {
  expect(failureOf(apiError("RATE_LIMITED", undefined, { headers: { "retry-after": "7" } }))?.afterMs).toBe(7_000);
  expect(failureOf(apiError("RATE_LIMITED"))?.afterMs).toBeUndefined();
});

test("explains no fault of the program", () => {
  expect(failureOf(new TypeError("undefined is not a function"))).toBeUndefined();
});
