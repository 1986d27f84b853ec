/** Renewal of identities in Secrets, and an operator that dies at every point of it: a fake API server, a real controller, the SDK as the client. */
import { AuthenticationError, enroll } from "@sallyport/sdk";
import { describe, expect, test } from "vitest";
import { authPolicy } from "../../controller/src/api/testing/auth-policy.ts";
import { identityReconciler } from "../../operator/src/kinds/identity/reconcile.ts";
import { conditionOf } from "../../operator/src/kube/conditions.ts";
import type { SecretObject } from "../../operator/src/kube/kinds.ts";
import { startApiServer, startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { condition, fileOf, logIn, look, secretOf, textOf } from "./identity-secrets.ts";
import { Mortal } from "./mortal-reconciler.ts";
import { OperatorScene } from "./operator-scene.ts";

const DAY = 86_400_000;
const scene = OperatorScene.ofThisFile();
const IDENTITY = { enrollment: { output: "IdentitySecret" } };

const called = async (name: string) =>
  (await scene.controller.admin("GET", `/identities?filter=${encodeURIComponent(`name="${name}"`)}`)).json.data;

/** A client that reads the Secret and logs in with the `identity.json` of a while ago, again and again, as from a volume. */
class Visitor {
  readonly failures: unknown[] = [];
  readonly #operator: TestOperator;
  readonly #secret: string;
  readonly #running: Promise<void>;
  #waiting: (() => void)[] = [];
  #isLeaving = false;
  #seen: SecretObject | undefined;

  constructor(operator: TestOperator, secret: string) {
    this.#operator = operator;
    this.#secret = secret;
    this.#running = this.#run();
  }

  /** Resolves after a login that began after this call. */
  async visit(): Promise<void> {
    for (let rounds = 0; rounds < 2; rounds++) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async leave(): Promise<void> {
    this.#isLeaving = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isLeaving) {
      // The one that was there a round ago: the kubelet brings the new one later.
      const before = this.#seen ?? secretOf(this.#operator, this.#secret);
      this.#seen = secretOf(this.#operator, this.#secret);
      await logIn(fileOf(before)).catch((error: unknown) => this.failures.push(error));
      for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }
}

describe("renewal", () => {
  test("puts a new certificate in the old one's place while both count, waits, ends the old one, and no client is ever refused", async () => {
    let offset = 0;
    const operator = await scene.start({ now: () => new Date(Date.now() + offset) });
    await operator.apply("Identity", "renewed", IDENTITY);
    await operator.ready("Identity", "renewed");
    const old = fileOf(secretOf(operator, "renewed-identity"));
    const visitor = new Visitor(operator, "renewed-identity");

    offset = 340 * DAY;
    await look(operator, "renewed");
    expect(condition(operator, "renewed", "CertificateValid")).toMatchObject({ status: "True", reason: "Renewing" });
    const staged = secretOf(operator, "renewed-identity");
    expect(fileOf(staged, "former-identity.json")).toEqual(old);
    const next = fileOf(staged);
    expect(next).not.toEqual(old);
    expect([await logIn(old), await logIn(next)]).toEqual(["renewed", "renewed"]);
    expect(await operator.writesOfAnotherLook()).toEqual([]);

    await visitor.visit();
    // The controller is away while both count: what was in order does not look broken.
    scene.way.reset();
    offset += 121_000;
    operator.operator.loops.resync();
    await operator.settled();
    expect(condition(operator, "renewed", "Ready")).toMatchObject({ status: "True" });
    expect(fileOf(secretOf(operator, "renewed-identity"), "former-identity.json")).toEqual(old);
    // Two minutes later the new one alone is in force, and by the clock of the network its life has just begun.
    const promoted = operator.server.changed(({ object }) => {
      const { metadata, data } = object as unknown as SecretObject;
      const isIt = metadata.name === "renewed-identity" && data?.["former-identity.json"] === undefined;
      if (isIt) offset = 0;
      return isIt;
    });
    scene.way.heal();
    await look(operator, "renewed");
    await promoted;
    const { status } = await operator.ready("Identity", "renewed");
    expect(status.lastRenewalTime).toEqual(expect.any(String));
    const secret = secretOf(operator, "renewed-identity");
    expect(fileOf(secret)).toEqual(next);
    expect(await logIn(next)).toBe("renewed");
    await expect(logIn(old)).rejects.toThrow(AuthenticationError);
    await visitor.visit();
    await visitor.leave();
    expect(visitor.failures).toEqual([]);
    expect(Object.keys(secret?.data ?? {}).sort()).toEqual(["ca.crt", "identity.json", "tls.crt", "tls.key"]);
    await operator.settled();
    expect(operator.events("Identity", "renewed")).toEqual(
      expect.arrayContaining(["CertificateIssued", "CertificateRenewed"]),
    );
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("that fails leaves the resource ready as long as its certificate is good", async () => {
    let offset = 0;
    const operator = await scene.start({ now: () => new Date(Date.now() + offset) });
    await operator.apply("Identity", "stuck", IDENTITY);
    await operator.ready("Identity", "stuck");
    const noCertificates = authPolicy("no-certificates", { cert: { allowed: false }, extJwt: { allowed: false } });
    const forbidding = await scene.controller.make("auth-policies", noCertificates);
    await operator.apply("Identity", "stuck", { ...IDENTITY, authPolicyId: forbidding });
    await operator.ready("Identity", "stuck");
    offset = 340 * DAY;
    operator.operator.loops.resync();
    await operator.until(
      "Identity",
      "stuck",
      ({ status }) => conditionOf(status.conditions, "CertificateValid")?.reason === "RenewalFailing",
    );
    expect(condition(operator, "stuck", "Ready")).toMatchObject({ status: "True" });
    await operator.settled();
    expect(operator.events("Identity", "stuck").filter((reason) => reason === "RenewalFailing")).toHaveLength(1);
    offset = 366 * DAY;
    operator.operator.loops.resync();
    await operator.ready("Identity", "stuck", "False", "CertificateExpired");
    expect(condition(operator, "stuck", "Stalled")?.message).toContain("sallyport.dev/re-enroll");
  });
});

/** An operator enrolls the Identity again and dies at that call; answers which one it was, or undefined when it was done before. */
async function reEnrollUntilDeath(
  server: Awaited<ReturnType<typeof startApiServer>>,
  name: string,
  dieAt: number,
): Promise<string | undefined> {
  const mortal = new Mortal(identityReconciler(), dieAt);
  const operator = await startOperator({ server, networks: { main: scene.network }, reconcilers: [mortal.reconciler] });
  const isDone = operator.until("Identity", name, ({ status }) => status.lastHandledReEnroll === "1");
  const where = await Promise.race([mortal.died, isDone.then(() => undefined)]);
  isDone.catch(() => {});
  await operator.close();
  return where;
}

describe("an operator that dies", () => {
  test("at any point of an enrollment that was asked for again ends with one that works", async () => {
    const points: string[] = [];
    const server = await startApiServer();
    for (let dieAt = 0; ; dieAt++) {
      const name = `again-${dieAt}`;
      const before = await startOperator({ server, networks: { main: scene.network } });
      await before.apply("Identity", name, IDENTITY);
      await before.ready("Identity", name);
      await before.stop();
      const old = fileOf(secretOf(before, `${name}-identity`));
      await before.annotate("Identity", name, { "sallyport.dev/re-enroll": "1" });
      await before.user.close();

      const where = await reEnrollUntilDeath(server, name, dieAt);
      if (where === undefined) break;
      points.push(where);

      const second = await startOperator({ server, networks: { main: scene.network } });
      await second.until("Identity", name, ({ status }) => status.lastHandledReEnroll === "1");
      await second.ready("Identity", name);
      expect(await logIn(fileOf(secretOf(second, `${name}-identity`)))).toBe(name);
      await expect(logIn(old)).rejects.toThrow(AuthenticationError);
      expect(await second.writesOfAnotherLook()).toEqual([]);
      await second.close();
    }
    await server.close();
    expect(points).toEqual([
      "before reEnrollAuthenticator",
      "after reEnrollAuthenticator",
      "before replace",
      "after replace",
      "before replace",
      "after replace",
    ]);
  }, 120_000);

  test("at any point of a token's replacement leaves one token, which is good", async () => {
    const points: string[] = [];
    const server = await startApiServer();
    for (let dieAt = 0; ; dieAt++) {
      const name = `token-${dieAt}`;
      const before = await startOperator({ server, networks: { main: scene.network } });
      await before.apply("Identity", name);
      await before.ready("Identity", name, "True", "TokenPublished");
      await before.stop();
      await before.annotate("Identity", name, { "sallyport.dev/re-enroll": "1" });
      await before.user.close();

      const where = await reEnrollUntilDeath(server, name, dieAt);
      if (where === undefined) break;
      points.push(where);

      const second = await startOperator({ server, networks: { main: scene.network } });
      await second.until("Identity", name, ({ status }) => status.lastHandledReEnroll === "1");
      await second.ready("Identity", name, "True", "TokenPublished");
      expect(await second.writesOfAnotherLook()).toEqual([]);
      const token = textOf(secretOf(second, `${name}-enrollment`), "enrollment.jwt") ?? "";
      expect(await logIn(await enroll(token))).toBe(name);
      await second.close();
    }
    await server.close();
    const calls = ["deleteEnrollment", "createEnrollment", "replace"];
    expect(points).toEqual(calls.flatMap((call) => [`before ${call}`, `after ${call}`]));
  }, 120_000);

  test("with a key that waits tells when another client used the token, and takes nothing from that client by itself", async () => {
    const server = await startApiServer();
    // After the Secret with the key was made.
    const mortal = new Mortal(identityReconciler(), 3);
    const first = await startOperator({ server, networks: { main: scene.network }, reconcilers: [mortal.reconciler] });
    await first.apply("Identity", "stolen", IDENTITY);
    expect(await mortal.died).toBe("after create");
    await first.close();
    const [{ enrollment }] = await called("stolen");
    const thief = await enroll(enrollment.ott.jwt);

    const second = await startOperator({ server, networks: { main: scene.network } });
    const { status } = await second.ready("Identity", "stolen", "False", "EnrolledElsewhere");
    expect(conditionOf(status.conditions, "Stalled")).toMatchObject({ status: "True" });
    expect(await logIn(thief)).toBe("stolen");
    await second.annotate("Identity", "stolen", { "sallyport.dev/re-enroll": "1" });
    await second.ready("Identity", "stolen");
    await expect(logIn(thief)).rejects.toThrow(AuthenticationError);
    expect(await logIn(fileOf(secretOf(second, "stolen-identity")))).toBe("stolen");
    await second.close();
    await server.close();
  });
});
