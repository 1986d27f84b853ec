import { expect, it } from "vitest";
import { outsideDates, tlsErrorText } from "./certificate-times.ts";

const now = new Date("2026-01-31T10:00:00Z");
const at = (text: string) => new Date(text);
const early = Object.assign(new Error("certificate is not yet valid"), { code: "CERT_NOT_YET_VALID" });
const late = Object.assign(new Error("certificate has expired"), { code: "CERT_HAS_EXPIRED" });
const leaf = { validFromDate: at("2026-02-01T00:00:00Z"), validToDate: at("2026-02-08T00:00:00Z") };
const old = { validFromDate: at("2025-02-01T00:00:00Z"), validToDate: at("2025-02-08T00:00:00Z") };
const good = { validFromDate: at("2025-02-01T00:00:00Z"), validToDate: at("2027-02-08T00:00:00Z") };

it.each([
  [
    early,
    leaf,
    "the certificate is valid from 2026-02-01T00:00:00.000Z on, and the clock of this machine shows 2026-01",
  ],
  [early, good, "a certificate is not yet valid, and the clock of this machine shows 2026-01-31T10:00:00.000Z"],
  [early, undefined, "a certificate is not yet valid, and the clock of this machine shows"],
  [
    late,
    old,
    "the certificate was valid until 2025-02-08T00:00:00.000Z, and the clock of this machine shows 2026-01-31",
  ],
  [late, good, "a certificate of the chain has expired, and the clock of this machine shows 2026-01-31T10:00:00.000Z"],
  [new Error("connect ECONNREFUSED"), undefined, "connect ECONNREFUSED"],
  ["a text", undefined, "a text"],
])("%s with %o is told with both times", (error, presented, text) => {
  expect(tlsErrorText(error, presented, now)).toContain(text);
});

it("a certificate is valid, or told with both times and what its owner can do", () => {
  const how = { name: "its certificate", renewal: "enroll again", now };
  const clock = "and the clock of this machine shows 2026-01-31T10:00:00.000Z";
  expect(outsideDates(good, how)).toBeUndefined();
  expect(outsideDates(leaf, how)).toBe(
    `its certificate is valid from 2026-02-01T00:00:00.000Z on, ${clock}: correct the clock that is wrong`,
  );
  expect(outsideDates(old, how)).toBe(
    `its certificate was valid until 2025-02-08T00:00:00.000Z, ${clock}: enroll again, or correct the clock`,
  );
});
