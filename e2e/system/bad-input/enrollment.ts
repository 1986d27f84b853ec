import { createPrivateKey, randomUUID, sign } from "node:crypto";
import { Context, enroll } from "@sallyport/sdk";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { pem } from "../../network/login/identity-file.ts";
import type { RawAnswer } from "../../network/raw-peer.ts";
import { errorOf, valuesOf } from "./requests.ts";
import type { Site } from "./site.ts";

/** Tokens and requests for certificates that are not what they should be. */
export function describeEnrollment(site: Site): void {
  describe("enrollment tokens", () => {
    let count = 0;

    async function identity(enrollment: object = { enrollment: { ott: true } }): Promise<{ id: string; jwt: string }> {
      const { data } = await site.network.management.createIdentity({
        body: { name: `enrolling-${++count}`, type: "Device", isAdmin: false, ...enrollment },
      });
      const detail = await site.network.management.detailIdentity({ params: { id: data.id } });
      const { jwt = "", token = "" } = detail.data.enrollment.ott ?? {};
      if (jwt !== "") site.keep(`enrollment token ${count}`, jwt);
      if (token !== "") site.keep(`jti ${count}`, token);
      return { id: data.id, jwt };
    }

    const claimsOf = (jwt: string) =>
      JSON.parse(Buffer.from(jwt.split(".")[1]!, "base64url").toString()) as Record<string, string | number>;

    async function enrollRaw(jwt: string, contentType: string): Promise<RawAnswer> {
      const { sub, jti, em } = claimsOf(jwt);
      const { keyPem } = await createKeyPair();
      site.keep(`a key made for ${String(jti)}`, keyPem);
      const csr = await createCsr({ commonName: String(sub), subject: {}, keyPem });
      return await site.post("client", `/enroll?method=${em}&token=${jti}`, csr, {
        headers: { "Content-Type": contentType, Accept: "application/json" },
      });
    }

    it.each(["application/x-pem-file", "text/plain"])(
      "the answer to a request in %s has the exact headers that SDKs compare, and the second try none",
      async (contentType) => {
        const { jwt } = await identity();
        const answer = await enrollRaw(jwt, contentType);
        expect(answer.status).toBe(200);
        expect(valuesOf(answer, "content-type")).toEqual(["application/json"]);
        expect(JSON.parse(answer.body)).toMatchObject({ data: { cert: expect.stringContaining("BEGIN CERTIFICATE") } });
        const again = await enrollRaw(jwt, contentType);
        expect([again.status, errorOf(again).code]).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
        expect(valuesOf(again, "content-type")).toEqual(["application/json"]);
      },
    );

    it("used a second time: refused, and the first identity stays", async () => {
      const { jwt } = await identity();
      const file = await enroll(jwt);
      site.keep("an enrolled key", pem(file.id.key));
      await expect(enroll(jwt)).rejects.toMatchObject({
        name: "EnrollmentError",
        code: "ENROLLMENT_REFUSED",
        message: expect.stringContaining("INVALID_ENROLLMENT_TOKEN"),
      });
      await (await Context.load(file)).close();
    });

    it("used by two at the same time: one wins", async () => {
      const { jwt } = await identity();
      const outcomes = await Promise.allSettled([enroll(jwt), enroll(jwt), enroll(jwt)]);
      expect(outcomes.map((outcome) => outcome.status).toSorted()).toEqual(["fulfilled", "rejected", "rejected"]);
      for (const outcome of outcomes)
        if (outcome.status === "fulfilled") site.keep("a winner's key", pem(outcome.value.id.key));
    });

    it("signed by another authority, unsigned, or without an owner: refused before anything is sent, or by the controller", async () => {
      const { jwt } = await identity();
      const [header = "", claims = "", signature = ""] = jwt.split(".");
      const forged = sign("sha256", Buffer.from(`${header}.${claims}`), {
        key: createPrivateKey(site.untrusted.key),
        dsaEncoding: "ieee-p1363",
      }).toString("base64url");
      await expect(enroll(`${header}.${claims}.${forged}`)).rejects.toMatchObject({ code: "TOKEN_FORGED" });
      const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString("base64url");
      await expect(enroll(`${none}.${claims}.${signature}`)).rejects.toMatchObject({ code: "TOKEN_MALFORMED" });
      await expect(enroll(`${none}.${claims}.`)).rejects.toMatchObject({ code: "TOKEN_MALFORMED" });
      const foreign = await site.post(
        "client",
        `/enroll?method=ott&token=${site.keep("a foreign jti", randomUUID())}`,
        "csr",
        {
          headers: { "Content-Type": "application/x-pem-file" },
        },
      );
      expect([foreign.status, errorOf(foreign).code]).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
      await (await Context.load(await enroll(jwt))).close();
    });

    it("of another kind, and with a request that is none: refused, and still good afterwards", async () => {
      const { jwt } = await identity();
      const { jti } = claimsOf(jwt);
      const method = await site.post(
        "client",
        `/enroll?method=erott&token=${jti}`,
        '{"certCsr":"a","serverCertCsr":"b"}',
      );
      expect([method.status, errorOf(method).code]).toEqual([400, "INVALID_ENROLL_METHOD"]);
      const csr = await site.post("client", `/enroll?method=ott&token=${jti}`, "-----BEGIN NONSENSE-----", {
        headers: { "Content-Type": "application/x-pem-file" },
      });
      expect([csr.status, errorOf(csr).code]).toEqual([400, "COULD_NOT_PROCESS_CSR"]);
      await (await Context.load(await enroll(jwt))).close();
    });

    it("that have expired: the SDK says so, and so does the controller", async () => {
      const { id } = await identity({});
      const expiresAt = new Date(Date.now() + 6_000);
      const { data } = await site.network.management.createEnrollment({
        body: { identityId: id, method: "ott", expiresAt: expiresAt.toISOString() },
      });
      const detail = await site.network.management.detailEnrollment({ params: { id: data.id } });
      const jwt = site.keep("an expired token", detail.data.jwt ?? "");
      site.keep("the jti of an expired token", String(claimsOf(jwt).jti));
      await eventually("its time is over", () => Date.now() > expiresAt.getTime() + 1_000);
      await expect(enroll(jwt)).rejects.toMatchObject({ code: "TOKEN_EXPIRED" });
      const answer = await enrollRaw(jwt, "text/plain");
      expect([answer.status, errorOf(answer).code]).toEqual([400, "ENROLLMENT_EXPIRED"]);
    });
  });
}
