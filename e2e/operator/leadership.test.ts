/** An operator whose lease ends in the middle of its work, and that goes on beside the one that leads then: no credential is lost. */
import { EnrollmentError } from "@sallyport/sdk";
import { silentLogger } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { LoginGate } from "../../operator/src/controller-client/request-limits.ts";
import { identityReconciler } from "../../operator/src/kinds/identity/reconcile.ts";
import {
  confirmCertificate,
  extendCertificate,
  isLetIn,
  prepareEnrollment,
  redeemEnrollment,
} from "../../operator/src/kinds/identity/secret/certificate.ts";
import { makeOwnIdentity } from "../../operator/src/kinds/network/reconcile/operator-identity.ts";
import type { NetworkContext } from "../../operator/src/kinds/network/reconcile/use.ts";
import { childNames } from "../../operator/src/kinds/network/render/names.ts";
import { managedNetwork } from "../../operator/src/kinds/network/testing/managed.ts";
import { clusterAt } from "../../operator/src/kube/client/cluster.ts";
import { HttpKubeClient } from "../../operator/src/kube/client/http-client.ts";
import { LeadershipLostError, leaderCheck, leaderClient } from "../../operator/src/kube/election/elector.ts";
import { KINDS as KUBE } from "../../operator/src/kube/kinds.ts";
import type { KindReconciler } from "../../operator/src/loop/kind-reconciler.ts";
import { startApiServer, startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { KINDS } from "../../packages/resources/src/group.ts";
import { fileOf, logIn, look, secretOf, textOf } from "./identity-secrets.ts";
import { OperatorScene } from "./operator-scene.ts";

const DAY = 86_400_000;
const scene = OperatorScene.ofThisFile();
const IDENTITY = { enrollment: { output: "IdentitySecret" } };
/** Of the Secret of an identity that is enrolled, and nothing is under way. */
const KEYS = ["ca.crt", "identity.json", "tls.crt", "tls.key"];

/** A lease that is over when it was asked for so many times. */
class Lease {
  readonly over: Promise<"over">;
  /** How often it was asked. */
  asked = 0;
  readonly #times: number;
  readonly #end: (over: "over") => void;

  constructor(times: number) {
    const { promise, resolve } = Promise.withResolvers<"over">();
    this.over = promise;
    this.#end = resolve;
    this.#times = times;
  }

  readonly mayAct = (): boolean => {
    if (this.asked++ < this.#times) return true;
    this.#end("over");
    return false;
  };

  /** Leave as the operator gives it to its work. */
  get leave() {
    return { signal: AbortSignal.timeout(60_000), mayAct: leaderCheck(this.mayAct) };
  }
}

const forEver = (): Lease => new Lease(Number.POSITIVE_INFINITY);

const called = async (name: string) =>
  (await scene.controller.admin("GET", `/identities?filter=${encodeURIComponent(`name="${name}"`)}`)).json.data;

/** Makes the one that leads no longer work on everything once more, as far as it comes. */
async function goesOn({ operator, settled }: TestOperator): Promise<void> {
  operator.loops.resync();
  await settled();
}

describe("the steps of a credential ask for leave before they change something:", () => {
  test("a token is not used up", async () => {
    const id = await scene.controller.make("identities", {
      name: "born",
      type: "Default",
      isAdmin: false,
      enrollment: { ott: true },
    });
    const [{ enrollment }] = await called("born");
    const { enrolling, token } = await prepareEnrollment(enrollment.ott.jwt, forEver().leave.signal);
    await expect(redeemEnrollment(token, enrolling, new Lease(0).leave)).rejects.toThrow(LeadershipLostError);
    expect(enrolling.identityId).toBe(id);
    expect(await logIn(await redeemEnrollment(token, enrolling, forEver().leave))).toBe("born");
    await expect(redeemEnrollment(token, enrolling, forEver().leave)).rejects.toMatchObject({
      cause: expect.any(EnrollmentError),
    });
  });

  test("no certificate is asked for, and none is ended", async () => {
    await scene.controller.make("identities", {
      name: "extended",
      type: "Default",
      isAdmin: false,
      enrollment: { ott: true },
    });
    const [{ enrollment }] = await called("extended");
    const { enrolling, token } = await prepareEnrollment(enrollment.ott.jwt, forEver().leave.signal);
    const old = await redeemEnrollment(token, enrolling, forEver().leave);
    const [{ authenticators }] = await called("extended");
    const authenticator = async () =>
      (await scene.controller.admin("GET", `/authenticators/${authenticators.cert.id}`)).json.data;
    // The first login of a certificate is noted.
    await logIn(old);
    const before = await authenticator();

    // Before the login, and between the login and the request.
    for (const times of [0, 1]) {
      await expect(extendCertificate(old, before.id, new Lease(times).leave)).rejects.toThrow(LeadershipLostError);
      expect(await authenticator()).toEqual(before);
    }
    const next = await extendCertificate(old, before.id, forEver().leave);
    await expect(isLetIn(next, new Lease(0).leave)).rejects.toThrow(LeadershipLostError);
    for (const times of [0, 1]) {
      await expect(confirmCertificate(next, before.id, next, new Lease(times).leave)).rejects.toThrow(
        LeadershipLostError,
      );
      expect([await logIn(old), await logIn(next)]).toEqual(["extended", "extended"]);
    }
    await confirmCertificate(next, before.id, next, forEver().leave);
    expect(await logIn(next)).toBe("extended");
    expect(await isLetIn(old, forEver().leave)).toBe(false);
  });
});

describe("when the lease ends at any moment, and the one who had it goes on beside the next leader,", () => {
  test("an enrollment ends with one identity, which logs in", async () => {
    const server = await startApiServer();
    let moments = 0;
    for (; ; moments++) {
      const name = `born-${moments}`;
      const lease = new Lease(moments);
      const first = await startOperator({ server, networks: { main: scene.network }, mayAct: lease.mayAct });
      await first.apply("Identity", name, IDENTITY);
      const end = await Promise.race([lease.over, first.ready("Identity", name).then(() => first.settled())]);

      const begun = secretOf(first, `${name}-identity`);
      if (textOf(begun, "identity.json") !== undefined) expect(await logIn(fileOf(begun))).toBe(name);

      const second = await startOperator({ server, networks: { main: scene.network } });
      const { status } = await second.ready("Identity", name, "True", "Enrolled");
      expect(await second.writesOfAnotherLook()).toEqual([]);
      const secret = secretOf(second, `${name}-identity`);
      expect(Object.keys(secret?.data ?? {}).sort()).toEqual(KEYS);
      await goesOn(first);
      expect(secretOf(second, `${name}-identity`)).toEqual(secret);
      expect(await called(name)).toMatchObject([{ id: status.id }]);
      expect(await logIn(fileOf(secret))).toBe(name);
      await first.close();
      await second.close();
      if (end !== "over") break;
    }
    // Among them: login, entity, Secret, enrollment, Secret, status.
    expect(moments).toBeGreaterThanOrEqual(6);
    await server.close();
  }, 240_000);

  test("a renewal ends with one certificate, and what the Secret holds is let in all along", async () => {
    const server = await startApiServer();
    const name = "renewing";
    const of = () => secretOf({ server }, `${name}-identity`);
    const isRenewed = (due: string | undefined): boolean =>
      textOf(of(), "tls.crt") !== due && of()?.data?.["former-identity.json"] === undefined;
    // By the operator's clock the certificate is due until it was replaced, and confirmed.
    let due: string | undefined;
    const now = () => new Date(Date.now() + (due !== undefined && !isRenewed(due) ? 340 * DAY : 0));
    const reconcilers = [identityReconciler({ settleMs: 0 }) as unknown as KindReconciler];
    const start = async (lease: Lease) =>
      await startOperator({ server, networks: { main: scene.network }, reconcilers, now, mayAct: lease.mayAct });
    const enrolling = await start(forEver());
    await enrolling.apply("Identity", name, IDENTITY);
    await enrolling.ready("Identity", name);
    await enrolling.close();

    let moments = 0;
    for (; ; moments++) {
      due = textOf(of(), "tls.crt");
      const lease = new Lease(moments);
      const first = await start(lease);
      const renewed = first.until("Identity", name, () => isRenewed(due)).then(() => first.settled());
      const end = await Promise.race([lease.over, renewed]);
      renewed.catch(() => {});
      expect(await logIn(fileOf(of()))).toBe(name);

      const second = await start(forEver());
      await second.until("Identity", name, () => isRenewed(due));
      await second.ready("Identity", name);
      await second.settled();
      const secret = of();
      await goesOn(first);
      expect(of()).toEqual(secret);
      expect(await logIn(fileOf(secret))).toBe(name);
      expect(Object.keys(secret?.data ?? {}).sort()).toEqual(KEYS);
      await first.close();
      await second.close();
      if (end !== "over") break;
    }
    // Login to the network, login as the identity, the request, the login with its answer, Secret, login, the end of the old one, Secret, status.
    expect(moments).toBeGreaterThanOrEqual(8);
    await server.close();
  }, 240_000);

  test("a request for a certificate that comes late, when the next leader has one already, is made up for", async () => {
    let offset = 0;
    const operator = await scene.start({ now: () => new Date(Date.now() + offset) });
    const of = () => secretOf(operator, "late-identity");
    await operator.apply("Identity", "late", IDENTITY);
    await operator.ready("Identity", "late");
    const old = fileOf(of());
    const [{ authenticators }] = await called("late");
    offset = 340 * DAY;
    await look(operator, "late");
    expect(fileOf(of(), "former-identity.json")).toEqual(old);
    const staged = fileOf(of());
    await extendCertificate(old, authenticators.cert.id, forEver().leave);
    expect([await isLetIn(staged, forEver().leave), await isLetIn(old, forEver().leave)]).toEqual([false, true]);

    // The one of the Secret is of no use any more: that is found when it is to be confirmed, and another one is asked for.
    offset += 121_000;
    await look(operator, "late");
    await operator.until(
      "Identity",
      "late",
      () =>
        textOf(of(), "tls.crt") !== staged.id.cert.slice("pem:".length) &&
        of()?.data?.["former-identity.json"] !== undefined,
    );
    expect(fileOf(of(), "former-identity.json")).toEqual(old);
    expect([await logIn(fileOf(of())), await logIn(old)]).toEqual(["late", "late"]);
  });

  test("the operator has an administrator of its own in a network that it runs, whose certificate is in the Secret", async () => {
    const server = await startApiServer();
    const { resource } = managedNetwork();
    const { namespace } = resource.metadata;
    if (server.read({ kind: KUBE.Namespace, name: namespace }) === undefined) {
      server.put(KUBE.Namespace, { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    }
    const client = new HttpKubeClient(clusterAt(server.url), { kinds: KINDS });
    const { endpoint, ca } = scene.network;
    const place = { endpoints: [endpoint] as [string], ca, trust: "the test" };
    const admin = { method: "password", username: "admin", password: "admin" } as const;
    const make = async (lease: Lease) => {
      const { leave } = lease;
      const context = {
        ...{ cluster: "c", log: silentLogger, recordEvent: () => {} },
        ...{ ...leave, client: leaderClient(client, leave.mayAct) },
      } as unknown as NetworkContext;
      return await makeOwnIdentity(resource, place, admin, context, { gate: new LoginGate(1, true) });
    };
    const stored = () => {
      const secret = server.read<{ data?: Record<string, string> } & NonNullable<ReturnType<typeof secretOf>>>({
        kind: KUBE.Secret,
        namespace,
        name: childNames(resource).operator,
      });
      return textOf(secret, "tls.crt");
    };
    const mine = await make(forEver());
    for (let moments = 0; ; moments++) {
      const before = stored();
      const lease = new Lease(moments);
      const made = await make(lease).catch((error: unknown) => error);
      if (!(made instanceof LeadershipLostError)) {
        expect(made).toMatchObject({ method: "cert", cert: stored() });
        expect(stored()).not.toBe((mine as { cert?: string }).cert);
        // Login, the end of the one before, the new one, its enrollment, the Secret.
        expect(moments).toBe(5);
        break;
      }
      expect(stored()).toBe(before);
      // The next leader makes one that stays, whatever the former one had begun.
      const next = await make(forEver());
      expect(next).toMatchObject({ cert: stored() });
    }
    expect(await called(`Sallyport operator of ${namespace}/${resource.metadata.name}`)).toHaveLength(1);
    await client.close();
    await server.close();
  }, 120_000);
});
