import { setTimeout as delay } from "node:timers/promises";
import { describe, it } from "vitest";
import { CODE_STEP_MS, oneTimeCode } from "../../network/login/one-time-code.ts";
import { type Both, CLIENT, type Step } from "./ask.ts";

const PASSWORD = "correct horse";
const MFA = `${CLIENT}/current-identity/mfa`;

const NOT_STARTED = {
  ...{ status: 404, code: "MFA_ENROLLMENT_NOT_STARTED" },
  because: "later versions of OpenZiti say so; v1.6.0 says NOT_FOUND",
};

/** The life of a second factor by one-time codes. */
export function mfaAnswers(both: () => Both): void {
  describe("one-time codes", () => {
    it("are set up, asked for, renewed and taken away", async () => {
      const asked = both();
      const own = (method: string, path: string, body?: Step["body"], more: Partial<Step> = {}): Step => ({
        ...{ method, path: `${CLIENT}${path}`, session: "{mfaSession}" },
        ...(body !== undefined && { body }),
        ...more,
      });
      const login: Step = {
        ...{ method: "POST", path: `${CLIENT}/authenticate?method=password`, session: null },
        body: { username: "mfa-user", password: PASSWORD },
        keep: { mfaSession: "token" },
      };
      const person = { name: "mfa-person", type: "Device", isAdmin: false };
      await asked.expectSame(
        { method: "POST", path: "/identities", body: person, keep: { mfaPerson: "id" } },
        {
          method: "POST",
          path: "/authenticators",
          body: { identityId: "{mfaPerson}", method: "updb", username: "mfa-user", password: PASSWORD },
        },
        login,
        own("GET", "/current-identity/mfa"),
        own("GET", "/current-identity/mfa/qr-code"),
        own("GET", "/current-identity/mfa/recovery-codes"),
        own("POST", "/current-identity/mfa/verify", { code: "123456" }, { ours: NOT_STARTED }),
        own("DELETE", "/current-identity/mfa"),
        own("POST", "/authenticate/mfa", { code: "123456" }),
        own("POST", "/current-identity/mfa", {}),
        own("POST", "/current-identity/mfa", {}),
        own("GET", "/current-identity/mfa"),
        own("GET", "/current-identity/mfa/qr-code"),
        own("POST", "/current-identity/mfa/verify", { code: "000000" }),
        own("POST", "/current-identity/mfa/verify", {}),
        own("GET", "/current-identity/mfa/recovery-codes"),
      );
      const { theirs, ours } = await asked.ask({ method: "GET", path: MFA, session: "{mfaSession}" });
      // The oldest code is as old as one may be: it has to be used before the next step. A timer may be early.
      const left = CODE_STEP_MS - (Date.now() % CODE_STEP_MS);
      if (left < 10_000) await delay(left + 100);
      for (const [side, { json }] of [["theirs", theirs] as const, ["ours", ours] as const]) {
        const { provisioningUrl, recoveryCodes } = json.data as { provisioningUrl: string; recoveryCodes: string[] };
        const secret = new URL(provisioningUrl).searchParams.get("secret") ?? "";
        // Ours takes no code twice, and none that is older than one it took.
        for (const step of [-2, -1, 0, 1, 2]) asked.keep(side, `code${step + 2}`, oneTimeCode(secret, step));
        for (const [index, code] of recoveryCodes.entries()) asked.keep(side, `recovery${index}`, code);
      }
      await asked.expectSame(
        own("POST", "/current-identity/mfa/verify", { code: "{recovery0}" }),
        own("POST", "/current-identity/mfa/verify", { code: "{code0}" }),
        own("POST", "/current-identity/mfa/verify", { code: "{code0}" }, { ours: NOT_STARTED }),
        own("GET", "/current-identity/mfa"),
        own("GET", "/current-identity/mfa/qr-code"),
        own("GET", "/current-api-session"),
        login,
        own("GET", "/current-api-session"),
        own("GET", "/services"),
        own("GET", "/current-identity"),
        own("POST", "/authenticate/mfa", { code: "000000" }),
        own("POST", "/authenticate/mfa", { code: "{recovery1}" }),
        own("GET", "/services"),
        login,
        own("POST", "/authenticate/mfa", { code: "{recovery1}" }),
        own("POST", "/authenticate/mfa", { code: "{code1}" }),
        own("GET", "/current-identity/mfa/recovery-codes", undefined, { headers: { "mfa-validation-code": "000000" } }),
        own("GET", "/current-identity/mfa/recovery-codes", undefined, {
          headers: { "mfa-validation-code": "{code2}" },
        }),
        own("POST", "/current-identity/mfa/recovery-codes", { code: "000000" }),
        own("POST", "/current-identity/mfa/recovery-codes", { code: "{code3}" }),
        own("DELETE", "/current-identity/mfa", undefined, { headers: { "mfa-validation-code": "000000" } }),
        own("DELETE", "/current-identity/mfa", undefined, { headers: { "mfa-validation-code": "{code4}" } }),
        own("GET", "/current-identity/mfa"),
        own("POST", "/current-identity/mfa", {}),
        { method: "GET", path: "/identities/{mfaPerson}" },
        { method: "DELETE", path: "/identities/{mfaPerson}/mfa" },
        { method: "DELETE", path: "/identities/{mfaPerson}/mfa" },
        {
          ...{ method: "DELETE", path: "/identities/nowhere/mfa" },
          ours: { status: 404, code: "NOT_FOUND", because: "there is no such identity; OpenZiti answers 200" },
        },
        own("GET", "/current-identity/mfa"),
      );
    });
  });
}
