import { expect, test } from "vitest";
import { createLogger } from "./logging.ts";

function logged(fields: object, text = "said"): Record<string, unknown> & { readonly line: string } {
  const lines: string[] = [];
  createLogger("debug", { write: (line) => void lines.push(line) }).info(fields, text);
  return { ...(JSON.parse(lines[0] ?? "{}") as Record<string, unknown>), line: lines[0] ?? "" };
}

const JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJlLW9mLWl0";

test.each([
  ["a key in a text", { note: "-----BEGIN EC PRIVATE KEY-----\nsecret\n-----END EC PRIVATE KEY-----" }],
  ["a token in a text", { note: `enrolled with ${JWT}` }],
  ["a password in a URL", { url: "https://user:secret@ctrl.example/" }],
  ["a session", { header: "zt-session: secret" }],
  ["a field whose name says so", { credentials: { password: "secret" }, adminToken: "secret" }],
  ["the data of a Secret", { object: { kind: "Secret", data: { any: "c2VjcmV0" } } }],
  ["what hangs on an error", { err: Object.assign(new Error(`refused ${JWT}`), { body: "secret", token: "secret" }) }],
  ["the cause of an error", { err: new Error("outer", { cause: new Error("Bearer secret") }) }],
])("keeps %s to itself", (_what, fields) => {
  const { line } = logged(fields);
  for (const part of ["secret", "c2VjcmV0", "eyJ"]) expect(line).not.toContain(part);
});

test("tells errors by type, message, code and status, with their causes", () => {
  const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  const error = Object.assign(new TypeError("no answer", { cause }), { status: 503, reason: "Busy" });
  const { err } = logged({ err: error });
  expect(err).toMatchObject({ type: "TypeError", message: "no answer", status: 503, reason: "Busy" });
  expect(err).toMatchObject({ cause: { message: "connect ECONNREFUSED", code: "ECONNREFUSED" } });
});
