/** Identities of the operator: a fake API server on one side, a real controller on the other, the SDK as the client that reads the Secrets. */
import { AuthenticationError, enroll } from "@sallyport/sdk";
import { describe, expect, test } from "vitest";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS as KUBE } from "../../../operator/src/kube/kinds.ts";
import { condition, fileOf, logIn, look, secretOf, secretRef, textOf } from "../../operator/identity-secrets.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const scene = OperatorScene.ofThisFile();
const IDENTITY = { enrollment: { output: "IdentitySecret" } };
describe("a token in a Secret", () => {
  test("is published, used by a device, and then leaves", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "phone", { roleAttributes: ["staff"], type: "Device" });
    const ready = await operator.ready("Identity", "phone", "True", "TokenPublished");
    expect(ready.status).toMatchObject({
      secretName: "phone-enrollment",
      enrolled: false,
      enrollment: { method: "ott" },
    });
    expect(condition(operator, "phone", "Enrolled")).toMatchObject({ status: "False", reason: "WaitingForDevice" });
    expect(await scene.identity(operator, "phone")).toMatchObject({ name: "phone", roleAttributes: ["staff"] });
    const secret = secretOf(operator, "phone-enrollment");
    expect(secret).toMatchObject({
      type: "Opaque",
      metadata: { ownerReferences: [{ kind: "Identity", controller: true }] },
    });
    expect(Object.keys(secret?.data ?? {})).toEqual(["enrollment.jwt"]);
    expect(await operator.writesOfAnotherLook()).toEqual([]);

    const file = await enroll(textOf(secret, "enrollment.jwt") ?? "");
    await look(operator, "phone");
    await operator.ready("Identity", "phone", "True", "Enrolled");
    expect(secretOf(operator, "phone-enrollment")).toBeUndefined();
    const { status } = operator.read("Identity", "phone") ?? {};
    expect(status).toMatchObject({
      enrolled: true,
      authenticators: [{ method: "cert", notAfter: expect.any(String) }],
    });
    expect(status?.enrollment).toBeUndefined();
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect(await logIn(file)).toBe("phone");
    await operator.settled();
    expect(operator.events("Identity", "phone")).toEqual(
      expect.arrayContaining(["Created", "TokenPublished", "Enrolled"]),
    );
  });

  test("comes back when a user deletes its Secret, or changes what is in it", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "stubborn");
    await operator.ready("Identity", "stubborn");
    const token = textOf(secretOf(operator, "stubborn-enrollment"), "enrollment.jwt");
    operator.server.remove(secretRef("stubborn-enrollment"));
    await operator.settled();
    expect(textOf(secretOf(operator, "stubborn-enrollment"), "enrollment.jwt")).toBe(token);
    operator.server.change(secretRef("stubborn-enrollment"), { data: { "enrollment.jwt": "eA==", theirs: "eQ==" } });
    await operator.settled();
    const secret = secretOf(operator, "stubborn-enrollment");
    expect(textOf(secret, "enrollment.jwt")).toBe(token);
    expect(textOf(secret, "theirs")).toBe("y");
  });

  test("is replaced when the annotation asks, and taken back when the spec wants none", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "changing");
    await operator.ready("Identity", "changing");
    const first = textOf(secretOf(operator, "changing-enrollment"), "enrollment.jwt") ?? "";
    await operator.annotate("Identity", "changing", { "sallyport.dev/re-enroll": "1" });
    await operator.until("Identity", "changing", ({ status }) => status.lastHandledReEnroll === "1");
    const second = textOf(secretOf(operator, "changing-enrollment"), "enrollment.jwt") ?? "";
    expect(second).not.toBe(first);
    await expect(enroll(first)).rejects.toMatchObject({ code: "ENROLLMENT_REFUSED" });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.apply("Identity", "changing", { enrollment: { method: "none" } });
    await operator.ready("Identity", "changing");
    expect(secretOf(operator, "changing-enrollment")).toBeUndefined();
    await expect(enroll(second)).rejects.toMatchObject({ code: "ENROLLMENT_REFUSED" });
    expect(operator.read("Identity", "changing")?.status.secretName).toBeUndefined();
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });
});

describe("an identity in a Secret", () => {
  test("logs in, and rests", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "bot", IDENTITY);
    const { status } = await operator.ready("Identity", "bot", "True", "Enrolled");
    const secret = secretOf(operator, "bot-identity");
    expect(Object.keys(secret?.data ?? {}).sort()).toEqual(["ca.crt", "identity.json", "tls.crt", "tls.key"]);
    expect(await logIn(fileOf(secret))).toBe("bot");
    const notAfter = secret?.metadata.annotations?.["sallyport.dev/certificate-not-after"];
    expect(status).toMatchObject({ enrolled: true, secretName: "bot-identity", certificateNotAfter: notAfter });
    expect(condition(operator, "bot", "CertificateValid")).toMatchObject({ status: "True", reason: "Valid" });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("and nothing else holds its key, or a token", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "quiet", IDENTITY);
    await operator.apply("Identity", "quiet-token");
    await operator.ready("Identity", "quiet");
    await operator.ready("Identity", "quiet-token");
    await operator.settled();
    const secrets = ["quiet-identity", "quiet-token-enrollment"].map((name) => secretOf(operator, name));
    const [key, token] = [textOf(secrets[0], "tls.key"), textOf(secrets[1], "enrollment.jwt")];
    const parts = [...(key ?? "").split("\n").filter((line) => !line.startsWith("-") && line.length > 20), token ?? ""];
    expect(parts.length).toBeGreaterThan(2);
    const elsewhere = [
      operator.logged(),
      ...operator.server.requests
        .filter(({ path }) => !path.includes("/secrets"))
        .map(({ body }) => JSON.stringify(body)),
    ].join("\n");
    for (const part of parts) {
      expect(elsewhere).not.toContain(part);
      expect(elsewhere).not.toContain(Buffer.from(part).toString("base64"));
    }
  });

  test("never takes the place of a Secret of another owner, and comes when that is gone", async () => {
    const operator = await scene.start();
    const theirs = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "taken-identity", namespace: "default" },
      data: { a: "Yg==" },
    };
    operator.server.put(KUBE.Secret, theirs);
    await operator.apply("Identity", "taken", IDENTITY);
    await operator.ready("Identity", "taken", "False", "SecretConflict");
    expect(condition(operator, "taken", "Stalled")).toMatchObject({ status: "True", reason: "SecretConflict" });
    expect(secretOf(operator, "taken-identity")).toMatchObject({ data: { a: "Yg==" } });
    expect(secretOf(operator, "taken-identity")?.metadata.ownerReferences).toBeUndefined();
    expect((await scene.identity(operator, "taken")).authenticators).toEqual({});
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    operator.server.remove(secretRef("taken-identity"));
    await operator.ready("Identity", "taken");
    expect(await logIn(fileOf(secretOf(operator, "taken-identity")))).toBe("taken");
  });

  test("that was deleted by hand says what to do, and comes back when it is asked for", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "lost", IDENTITY);
    await operator.ready("Identity", "lost");
    const before = fileOf(secretOf(operator, "lost-identity"));
    operator.server.remove(secretRef("lost-identity"));
    const { status } = await operator.ready("Identity", "lost", "False", "CredentialsMissing");
    expect(conditionOf(status.conditions, "Ready")?.message).toContain("sallyport.dev/re-enroll");
    expect(conditionOf(status.conditions, "CertificateValid")).toMatchObject({ status: "False" });
    // A client that still has it goes on.
    expect(await logIn(before)).toBe("lost");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.annotate("Identity", "lost", { "sallyport.dev/re-enroll": "1" });
    const back = await operator.ready("Identity", "lost");
    expect(back.status.lastHandledReEnroll).toBe("1");
    expect(await logIn(fileOf(secretOf(operator, "lost-identity")))).toBe("lost");
    await expect(logIn(before)).rejects.toThrow(AuthenticationError);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("whose certificate an administrator took away stays out until a user asks", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "banned", IDENTITY);
    await operator.ready("Identity", "banned");
    await scene.controller.admin(
      "DELETE",
      `/authenticators/${(await scene.identity(operator, "banned")).authenticators.cert.id}`,
    );
    await look(operator, "banned");
    await operator.ready("Identity", "banned", "False", "CredentialsRevoked");
    expect((await scene.identity(operator, "banned")).enrollment).toEqual({});
    await operator.annotate("Identity", "banned", { "sallyport.dev/re-enroll": "again" });
    await operator.ready("Identity", "banned");
    expect(await logIn(fileOf(secretOf(operator, "banned-identity")))).toBe("banned");
  });

  test("is enrolled again when the identity itself was deleted", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "phoenix", IDENTITY);
    const { status } = await operator.ready("Identity", "phoenix");
    await scene.controller.admin("DELETE", `/identities/${status.id}`);
    await look(operator, "phoenix");
    const again = await operator.ready("Identity", "phoenix");
    expect(again.status.id).not.toBe(status.id);
    expect(await logIn(fileOf(secretOf(operator, "phoenix-identity")))).toBe("phoenix");
    await operator.settled();
    expect(operator.events("Identity", "phoenix")).toContain("DeletedExternally");
  });

  test("goes with its resource, or stays whole and is taken up again", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "going", IDENTITY);
    await operator.apply("Identity", "staying", IDENTITY);
    const going = await operator.ready("Identity", "going");
    const staying = await operator.ready("Identity", "staying");
    await operator.delete("Identity", "going");
    await operator.gone("Identity", "going");
    expect((await scene.controller.admin("GET", `/identities/${going.status.id}`)).status).toBe(404);
    // People change their minds at the last moment.
    await operator.apply("Identity", "staying", { ...IDENTITY, deletionPolicy: "Orphan" });
    await operator.delete("Identity", "staying");
    await operator.gone("Identity", "staying");
    operator.server.store.collectGarbage();
    expect(secretOf(operator, "going-identity")).toBeUndefined();
    const kept = fileOf(secretOf(operator, "staying-identity"));
    expect(await logIn(kept)).toBe("staying");
    await operator.apply("Identity", "staying", { ...IDENTITY, managementPolicy: "Adopt" });
    const adopted = await operator.ready("Identity", "staying");
    expect(adopted.status.id).toBe(staying.status.id);
    expect(fileOf(secretOf(operator, "staying-identity"))).toEqual(kept);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });
});
