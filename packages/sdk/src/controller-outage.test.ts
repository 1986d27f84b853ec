import { ApiError, createClient } from "@sallyport/api/client";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { expect, it } from "vitest";
import { AuthenticationError } from "./errors.ts";
import { ControllerOutage } from "./service-dialer.ts";

const never = new AbortController().signal;

it("asks a controller that is away again until it answers", async () => {
  const api = createClient("client", { baseUrl: `https://127.0.0.1:${await freePort()}` });
  const outage = new ControllerOutage(never);
  let asked = 0;
  const answer = await outage.outlast(async () => {
    asked += 1;
    if (asked === 3) {
      expect(outage.reason).toContain("ECONNREFUSED");
      return "here";
    }
    await api.listVersion().catch((error: unknown) => {
      throw asked === 1
        ? error
        : new AuthenticationError("CONTROLLER_UNREACHABLE", "no login: ECONNREFUSED", { cause: error });
    });
    throw new Error("something listens");
  });
  expect([answer, asked, outage.reason]).toEqual(["here", 3, undefined]);
});

it("waits for a store that comes back", async () => {
  const answers = [new ApiError(503, "UNAVAILABLE", "later", undefined), undefined];
  const outage = new ControllerOutage(never);
  await outage.outlast(async () => {
    const error = answers.shift();
    if (error !== undefined) throw error;
  });
  expect(answers).toEqual([]);
});

it.each([
  ["a refusal", new ApiError(401, "UNAUTHORIZED", "who?", undefined)],
  ["a failure of the SDK", new TypeError("undefined is not a function")],
])("takes %s for an answer", async (_name, error) => {
  const outage = new ControllerOutage(never);
  await expect(outage.outlast(() => Promise.reject(error))).rejects.toBe(error);
  expect(outage.reason).toBeUndefined();
});

it("ends with its signal, and knows why it waited", async () => {
  const api = createClient("client", { baseUrl: `https://127.0.0.1:${await freePort()}` });
  const abort = new AbortController();
  const outage = new ControllerOutage(abort.signal);
  let asked = 0;
  const waiting = outage.outlast(() => {
    asked += 1;
    if (asked === 2) setImmediate(() => abort.abort(new Error("enough")));
    return api.listVersion();
  });
  await expect(waiting).rejects.toThrow("enough");
  expect(outage.reason).toContain("ECONNREFUSED");
});
