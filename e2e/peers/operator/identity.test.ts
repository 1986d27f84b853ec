/** The operator's identities on a controller of OpenZiti: a fake API server on the other side, our SDK as the client that reads the Secrets. */

import { createClient } from "@sallyport/api";
import { AuthenticationError, enroll } from "@sallyport/sdk";
import { x509 } from "@sallyport/wire";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { type StartOptions, startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { type PeerController, startPeerController } from "../../network/openziti/peer-network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { fileOf, logIn, logInByEither, look, secretOf, secretRef, textOf } from "../../operator/identity-secrets.ts";
import { peer as program } from "../peer.ts";

const DAY = 86_400_000;
const running: TestOperator[] = [];
let folder = "";
let peer: PeerController;
let ca: string;

describe.skipIf(program.isMissing)("identities on a controller of OpenZiti", () => {
  beforeAll(async () => {
    folder = makeScratch("operator-peer");
    peer = await startPeerController(program.path, folder);
    // On this machine its own bundle is taken on first use.
    const anonymous = createClient("client", {
      baseUrl: `https://localhost:${peer.port}`,
      tls: { rejectUnauthorized: false },
    });
    const { data } = await anonymous.listWellKnownCas();
    anonymous.close();
    const bundle = new x509.X509Certificates(Buffer.from(data.toString("latin1"), "base64"));
    ca = bundle.map((certificate) => certificate.toString("pem")).join("\n");
  }, 60_000);
  afterEach(async () => {
    for (const operator of running.splice(0)) await operator.close();
  });
  afterAll(async () => {
    await peer?.controller.stop();
    removeScratch(folder);
  });

  async function start(o: StartOptions = {}): Promise<TestOperator> {
    const endpoint = `https://localhost:${peer.port}`;
    const operator = await startOperator({ networks: { main: { endpoint, ca } }, ...o });
    running.push(operator);
    return operator;
  }

  const IDENTITY = { enrollment: { output: "IdentitySecret" } };

  test("a token is published, replaced, used, and leaves", async () => {
    const operator = await start();
    await operator.apply("Identity", "phone", { roleAttributes: ["b", "a"], type: "Device", appData: { level: 2 } });
    await operator.ready("Identity", "phone", "True", "TokenPublished");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    const first = textOf(secretOf(operator, "phone-enrollment"), "enrollment.jwt") ?? "";
    await operator.annotate("Identity", "phone", { "sallyport.dev/re-enroll": "1" });
    await operator.until("Identity", "phone", ({ status }) => status.lastHandledReEnroll === "1");
    const second = textOf(secretOf(operator, "phone-enrollment"), "enrollment.jwt") ?? "";
    await expect(enroll(first)).rejects.toMatchObject({ code: "ENROLLMENT_REFUSED" });
    const file = await enroll(second);
    await look(operator, "phone");
    await operator.ready("Identity", "phone", "True", "Enrolled");
    expect(secretOf(operator, "phone-enrollment")).toBeUndefined();
    expect(await logIn(file)).toBe("phone");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("an identity is enrolled, renewed, and enrolled again when an administrator asks", async () => {
    let offset = 0;
    const operator = await start({ now: () => new Date(Date.now() + offset) });
    await operator.apply("Identity", "bot", IDENTITY);
    await operator.ready("Identity", "bot", "True", "Enrolled");
    const old = fileOf(secretOf(operator, "bot-identity"));
    expect(await logIn(old)).toBe("bot");
    expect(await operator.writesOfAnotherLook()).toEqual([]);

    offset = 340 * DAY;
    await look(operator, "bot");
    const message = conditionOf(operator.read("Identity", "bot")?.status.conditions, "CertificateValid")?.message;
    expect(message).toContain("a new certificate is in the Secret");
    const next = fileOf(secretOf(operator, "bot-identity"), "next-identity.json");
    expect(await logInByEither(secretOf(operator, "bot-identity"))).toBe("identity.json");
    await expect(logIn(next)).rejects.toThrow(AuthenticationError);
    offset += 121_000;
    const promoted = operator.server.changed(({ object }) => {
      const { metadata, data } = object as unknown as { metadata: { name: string }; data?: Record<string, string> };
      const isIt = metadata.name === "bot-identity" && data?.["next-identity.json"] === undefined;
      if (isIt) offset = 0;
      return isIt;
    });
    await look(operator, "bot");
    await promoted;
    await operator.ready("Identity", "bot");
    expect(await logIn(next)).toBe("bot");
    await expect(logIn(old)).rejects.toThrow(AuthenticationError);
    expect(await operator.writesOfAnotherLook()).toEqual([]);

    operator.server.remove(secretRef("bot-identity"));
    await operator.ready("Identity", "bot", "False", "CredentialsMissing");
    await operator.annotate("Identity", "bot", { "sallyport.dev/re-enroll": "1" });
    await operator.ready("Identity", "bot");
    expect(await logIn(fileOf(secretOf(operator, "bot-identity")))).toBe("bot");
    await expect(logIn(next)).rejects.toThrow(AuthenticationError);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("an identity is locked out and let in, changed, and goes", async () => {
    const operator = await start();
    await operator.apply("OverlayService", "web");
    await operator.apply("ServiceConfig", "own", { data: { protocol: "tcp", address: "localhost", port: 81 } });
    const serviceRef = { name: "web" };
    await operator.apply("Identity", "host", {
      ...IDENTITY,
      disabled: true,
      serviceHosting: [{ serviceRef, cost: 7, precedence: "required" }],
      serviceConfigs: [{ serviceRef, configRef: { name: "own" } }],
      tags: { team: "a" },
    });
    await operator.ready("Identity", "host", "True", "Disabled");
    await expect(logIn(fileOf(secretOf(operator, "host-identity")))).rejects.toThrow(AuthenticationError);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.apply("Identity", "host", { ...IDENTITY, roleAttributes: ["x"] });
    await operator.ready("Identity", "host", "True", "Enrolled");
    expect(await logIn(fileOf(secretOf(operator, "host-identity")))).toBe("host");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.delete("Identity", "host");
    await operator.gone("Identity", "host");
  });

  test("an identity logs in by the password of a Secret", async () => {
    const operator = await start();
    const secret = (password: string) => ({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "simple-password", namespace: "default" },
      data: { password: Buffer.from(password).toString("base64") },
    });
    operator.server.put({ ...secretRef("").kind }, secret("first-Passw0rd"));
    const passwordSecretRef = { name: "simple-password", key: "password" };
    await operator.apply("Identity", "simple", {
      enrollment: { method: "updb", username: "simple", passwordSecretRef },
    });
    await operator.ready("Identity", "simple", "True", "Enrolled");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });
});
