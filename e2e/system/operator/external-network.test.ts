/** Networks that exist already: our real controller, and everything that can be wrong on the way to it, each put right without a restart of the operator. */
import { X509Certificate } from "node:crypto";
import { enroll } from "@sallyport/sdk";
import { splitPem } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import {
  answer,
  FakeController,
  refusal,
  session,
} from "../../../operator/src/controller-client/testing/fake-controller.ts";
import { networkReconciler } from "../../../operator/src/kinds/network/reconcile.ts";
import { overlayServiceReconciler } from "../../../operator/src/kinds/overlay-service/reconcile.ts";
import { type Condition, conditionOf, healthOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS } from "../../../operator/src/kube/kinds.ts";
import type { KindReconciler } from "../../../operator/src/loop/kind-reconciler.ts";
import { startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { pem } from "../../network/login/identity-file.ts";
import { TcpWay } from "../../network/tcp-way.ts";

let controller: TestController;
let t: TestOperator;
let base: string;
const closing: (() => Promise<unknown>)[] = [];

const times = { refusedLoginMs: 200, limitedMs: 50 };
/** The audiences of the tokens that were made of the operator's service account. */
const audiences: string[] = [];
const serviceAccountToken = async (audience: string): Promise<string> => {
  audiences.push(audience);
  return "of-the-operator";
};
const reconcilers = [
  networkReconciler({ controllerImage: "unused", times, serviceAccountToken }),
  overlayServiceReconciler,
] as unknown as KindReconciler[];

beforeAll(async () => {
  controller = await startTestController();
  base = `https://localhost:${controller.port}/edge/management/v1`;
  t = await startOperator({ reconcilers, patienceMs: 60_000 });
  putSecret("admin", { username: "admin", password: "admin" });
  putBundle("ca", controller.pki.caBundlePem);
}, 120_000);

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

afterAll(async () => {
  await t?.close();
  await controller?.close();
});

function putSecret(name: string, data: Readonly<Record<string, string>>): void {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  const metadata = { name, namespace: "default" };
  t.server.put(KINDS.Secret, { apiVersion: "v1", kind: "Secret", metadata, data: Object.fromEntries(encoded) });
}

function putBundle(name: string, pem: string): void {
  const metadata = { name, namespace: "default" };
  t.server.put(KINDS.ConfigMap, { apiVersion: "v1", kind: "ConfigMap", metadata, data: { "ca.crt": pem } });
}

const external = (changes: object = {}) => ({
  external: {
    endpoints: [base],
    caBundle: { configMapRef: { name: "ca", key: "ca.crt" } },
    auth: { certificateSecretRef: null, passwordSecretRef: { name: "admin" } },
    ...changes,
  },
});
const password = (name: string) => ({ auth: { certificateSecretRef: null, passwordSecretRef: { name } } });
const bundle = (name: string) => ({ caBundle: { configMapRef: { name, key: "ca.crt" } } });
const failing = (name: string, reason: string) => t.ready("Network", name, "False", reason);
const statuses = (conditions: readonly Condition[] | undefined) =>
  Object.fromEntries((conditions ?? []).map(({ type, status }) => [type, status]));

describe("a Network that exists", { timeout: 120_000 }, () => {
  test("is reached by password; shows what it is; another look writes nothing", async () => {
    await t.apply("Network", "plain", external());
    const { status } = await t.ready("Network", "plain");
    expect(status).toMatchObject({ serverVersion: "v1.6.20", sessionIdentity: "Default Admin" });
    expect(statuses(status.conditions)).toEqual({
      Connected: "True",
      VersionSupported: "True",
      Authenticated: "True",
      Ready: "True",
    });
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("is reached by certificate", async () => {
    const id = await controller.make("identities", {
      name: "operator",
      type: "Default",
      isAdmin: true,
      enrollment: { ott: true },
    });
    const detail = await controller.admin("GET", `/identities/${id}`);
    const { id: identity } = await enroll(detail.json.data.enrollment.ott.jwt);
    putSecret("certificate", { "tls.crt": pem(identity.cert), "tls.key": pem(identity.key) });
    const auth = { auth: { certificateSecretRef: { name: "certificate" } } };
    await t.apply("Network", "certified", external(auth));
    expect((await t.ready("Network", "certified")).status.sessionIdentity).toBe("operator");
  });

  test("gets tokens of the operator that are good for this Network, and for nothing else", async () => {
    const byToken = (audience: string) => external({ auth: { certificateSecretRef: null, extJwt: { audience } } });
    for (const audience of ["https://kubernetes.default.svc", "sallyport://other/token", "sallyport://default/main"]) {
      await t.apply("Network", "token", byToken(audience));
      const refused = await failing("token", "AudienceNotAllowed");
      expect(conditionOf(refused.status.conditions, "Stalled")?.message).toContain("sallyport://default/token");
      await t.delete("Network", "token");
      await t.gone("Network", "token");
    }
    expect(audiences).toEqual([]);
    await t.apply("Network", "token", byToken("sallyport://default/token"));
    await failing("token", "NetworkUnauthorized");
    expect(new Set(audiences)).toEqual(new Set(["sallyport://default/token"]));
    await t.delete("Network", "token");
    await t.gone("Network", "token");
  });

  test("is trusted by the fingerprint of its authority, and by no other", async () => {
    const [authority = ""] = splitPem(controller.pki.caBundlePem);
    const { fingerprint256 } = new X509Certificate(authority);
    const pinned = (fingerprint: string) => external({ caBundle: null, bootstrapTrust: { fingerprint } });
    await t.apply("Network", "pinned", pinned("00".repeat(32)));
    const wrong = await failing("pinned", "UntrustedCertificate");
    expect(conditionOf(wrong.status.conditions, "Stalled")?.message).toContain(fingerprint256);
    await t.apply("Network", "pinned", pinned(fingerprint256.toLowerCase()));
    await t.ready("Network", "pinned");
  });

  test("waits for its Secret and for the key in it", async () => {
    await t.apply("Network", "late", external(password("late")));
    const missing = await failing("late", "SecretNotFound");
    expect(statuses(missing.status.conditions)).toMatchObject({ Connected: "False", Reconciling: "True" });
    putSecret("late", { username: "admin" });
    const keyless = await failing("late", "SecretKeyMissing");
    expect(conditionOf(keyless.status.conditions, "Ready")?.message).toMatch(/not the key password.*it has username/);
    putSecret("late", { username: "admin", password: "admin\n" });
    await t.ready("Network", "late");
  });

  test("waits for its CA bundle, and says what is wrong with it", async () => {
    await t.apply("Network", "bundled", external(bundle("bundled")));
    await failing("bundled", "ConfigMapNotFound");
    putBundle("bundled", "no certificate");
    await failing("bundled", "InvalidCaBundle");
    putBundle("bundled", (await TestAuthority.create()).certPem);
    const untrusted = await failing("bundled", "UntrustedCertificate");
    expect(statuses(untrusted.status.conditions)).toMatchObject({ Stalled: "True", Authenticated: "Unknown" });
    putBundle("bundled", controller.pki.caBundlePem);
    await t.ready("Network", "bundled");
  });

  test("refuses a wrong password: tried twice, then not before the Secret changes", async () => {
    putSecret("wrong", { username: "admin", password: "wrong-and-secret" });
    await t.apply("Network", "refused", external(password("wrong")));
    await t.until("Network", "refused", ({ status }) => {
      const stalled = conditionOf(status.conditions, "Stalled");
      return stalled?.reason === "NetworkUnauthorized" && stalled.message.includes("not tried again");
    });
    await t.writesOfAnotherLook();
    const refusals = t
      .logged()
      .split("\n")
      .filter((line) => line.includes("the network refused the login") && line.includes("default/refused"));
    expect(refusals.length).toBe(2);
    expect(t.logged()).not.toContain("wrong-and-secret");
    putSecret("wrong", { username: "admin", password: "admin" });
    await t.ready("Network", "refused");
  });

  test("needs an administrator", async () => {
    const identity = { name: "reader", type: "Default", isAdmin: false };
    const identityId = await controller.make("identities", identity);
    await controller.make("authenticators", { method: "updb", identityId, username: "reader", password: "reader-1" });
    putSecret("reader", { username: "reader", password: "reader-1" });
    await t.apply("Network", "read", external(password("reader")));
    const refused = await failing("read", "NotAdministrator");
    expect(conditionOf(refused.status.conditions, "Stalled")?.message).toContain("the identity reader");
    await controller.admin("PATCH", `/identities/${identityId}`, { isAdmin: true });
    await t.annotate("Network", "read", { "sallyport.dev/reconcile-requested-at": "1" });
    expect((await t.ready("Network", "read")).status.lastHandledReconcileAt).toBe("1");
  });

  test("that is away is asked again, its resources stay as they are, and nothing has to be restarted", async () => {
    const way = await TcpWay.start(controller.port);
    closing.push(() => way.close());
    await t.apply("Network", "relayed", external({ endpoints: [`https://localhost:${way.port}`] }));
    await t.ready("Network", "relayed");
    await t.apply("OverlayService", "relayed", { networkRef: { name: "relayed" } });
    const service = await t.ready("OverlayService", "relayed");

    way.reset();
    t.operator.loops.resync();
    const away = await failing("relayed", "ControllerUnavailable");
    expect(statuses(away.status.conditions)).toMatchObject({ Connected: "False", Reconciling: "True" });
    expect(away.status.serverVersion).toBe("v1.6.20");
    expect(t.read("OverlayService", "relayed")?.status).toEqual(service.status);
    await t.apply("OverlayService", "later", { networkRef: { name: "relayed" } });
    const later = await t.ready("OverlayService", "later", "False", "ControllerUnavailable");
    expect(healthOf(later)).toMatchObject({ health: "InProgress" });

    way.heal();
    await t.ready("Network", "relayed");
    await t.ready("OverlayService", "later");
  });

  test("is reached under a name that its certificate has", async () => {
    // This is the same machine, and in no certificate.
    const way = await TcpWay.start(controller.port, "0.0.0.0");
    closing.push(() => way.close());
    await t.apply("Network", "misnamed", external({ endpoints: [`https://127.0.0.2:${way.port}`] }));
    await failing("misnamed", "WrongCertificateName");
    await t.apply("Network", "misnamed", external());
    await t.ready("Network", "misnamed");
  });

  test("that asks to be left alone is, until it does no more", async () => {
    let isLimited = true;
    const server = await FakeController.start(({ path }) => {
      if (isLimited) return refusal(429, "RATE_LIMITED");
      if (path.startsWith("/authenticate")) return session("token");
      if (path.startsWith("/current-identity")) return answer({ name: "operator", isAdmin: true });
      return answer([], { pagination: { totalCount: 0, limit: 1, offset: 0 } });
    });
    closing.push(() => server.close());
    putBundle("fake", server.ca);
    await t.apply("Network", "limited", external({ endpoints: [server.url], ...bundle("fake") }));
    await failing("limited", "RateLimited");
    isLimited = false;
    await t.ready("Network", "limited");
  });

  test("goes on being ready when one of several controllers behind its address ends", { timeout: 60_000 }, async () => {
    let cuts = 0;
    const list = (data: readonly object[]) =>
      answer(data, { pagination: { totalCount: data.length, limit: 500, offset: 0 } });
    const server = await FakeController.start(({ path }) => {
      if (cuts > 0 && cuts--) return undefined;
      if (path.startsWith("/authenticate")) return session("token");
      if (path.startsWith("/current-identity")) return answer({ name: "operator", isAdmin: true });
      return list(path.startsWith("/controllers") ? ["a", "b"].map((name) => ({ id: name, name })) : []);
    });
    closing.push(() => server.close());
    putBundle("two", server.ca);
    await t.apply("Network", "two", external({ endpoints: [server.url], ...bundle("two") }));
    await t.until("Network", "two", ({ status }) => (status.controllers as object[] | undefined)?.length === 2);
    await t.settled();
    const states: (string | undefined)[] = [];
    const stop = t.server.store.history.onChange(({ object }) => {
      const { metadata, status } = object as unknown as {
        readonly metadata: { readonly name: string };
        readonly status?: { readonly conditions?: readonly Condition[] };
      };
      if (metadata.name === "two") states.push(conditionOf(status?.conditions, "Ready")?.status);
    });
    closing.push(async () => stop());
    cuts = 2;
    await t.annotate("Network", "two", { "sallyport.dev/reconcile-requested-at": "cut" });
    await t.until("Network", "two", ({ status }) => status.lastHandledReconcileAt === "cut");
    expect(cuts).toBe(0);
    expect(new Set(states)).toEqual(new Set(["True"]));
  });
});
