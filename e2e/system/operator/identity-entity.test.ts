/** What an Identity is besides its Secret: a fake API server on one side, a real controller on the other. */
import { AuthenticationError, Context } from "@sallyport/sdk";
import { describe, expect, test } from "vitest";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS as KUBE } from "../../../operator/src/kube/kinds.ts";
import { condition, fileOf, logIn, look, secretOf, secretRef } from "../../operator/identity-secrets.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const scene = OperatorScene.ofThisFile();
const IDENTITY = { enrollment: { output: "IdentitySecret" } };
describe("an Identity", () => {
  test("of an outside issuer has no credentials of the network", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "sso", { externalId: "me@example" });
    await operator.ready("Identity", "sso");
    expect(condition(operator, "sso", "Enrolled")).toMatchObject({ status: "True", reason: "ExternalId" });
    expect(await scene.identity(operator, "sso")).toMatchObject({
      externalId: "me@example",
      enrollment: {},
      authenticators: {},
    });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("that administers is refused unless the Network allows it", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "root", { isAdmin: true });
    await operator.ready("Identity", "root", "False", "AdminNotAllowed");
    expect(condition(operator, "root", "Stalled")?.message).toContain("allowAdminIdentities");
    expect((await scene.controller.admin("GET", '/identities?filter=name="root"')).json.data).toEqual([]);
    const allowing = await scene.start({
      networks: { main: { ...scene.network, settings: { allowAdminIdentities: true } } },
    });
    await allowing.apply("Identity", "root", { isAdmin: true });
    await allowing.ready("Identity", "root");
    expect(await scene.identity(allowing, "root")).toMatchObject({ isAdmin: true });
  });

  test("is locked out and let in by its spec, and not let in when others locked it out", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "locked", { ...IDENTITY, disabled: true });
    await operator.ready("Identity", "locked", "True", "Disabled");
    expect((await scene.identity(operator, "locked")).disabled).toBe(true);
    await expect(logIn(fileOf(secretOf(operator, "locked-identity")))).rejects.toThrow(AuthenticationError);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.apply("Identity", "locked", { ...IDENTITY, disabled: false });
    await operator.ready("Identity", "locked", "True", "Enrolled");
    expect(await logIn(fileOf(secretOf(operator, "locked-identity")))).toBe("locked");

    const { id } = await scene.identity(operator, "locked");
    await scene.controller.admin("POST", `/identities/${id}/disable`, { durationMinutes: 10 });
    await look(operator, "locked");
    const { status } = await operator.ready("Identity", "locked", "False", "LockedOut");
    expect(conditionOf(status.conditions, "Ready")?.message).toMatch(/until 20/);
    expect((await scene.identity(operator, "locked")).disabled).toBe(true);
    await scene.controller.admin("POST", `/identities/${id}/enable`);
    await look(operator, "locked");
    await operator.ready("Identity", "locked");
  });

  test("has the configs and hosting of its spec, and its auth policy", async () => {
    const operator = await scene.start();
    await operator.apply("AuthPolicy", "strict", {});
    await operator.apply("ServiceConfig", "own", { data: { protocol: "tcp", address: "localhost", port: 81 } });
    await operator.apply("OverlayService", "web", {});
    const serviceRef = { name: "web" };
    await operator.apply("Identity", "host", {
      authPolicyRef: { name: "strict" },
      serviceHosting: [{ serviceRef, cost: 7, precedence: "required" }],
      serviceConfigs: [{ serviceRef, configRef: { name: "own" } }],
    });
    await operator.ready("Identity", "host");
    const [policyId, configId, serviceId] = [
      ["AuthPolicy", "strict"],
      ["ServiceConfig", "own"],
      ["OverlayService", "web"],
    ].map(([kind, name]) => operator.read(kind ?? "", name ?? "")?.status.id as string);
    const found = await scene.identity(operator, "host");
    expect(found).toMatchObject({
      authPolicyId: policyId,
      serviceHostingCosts: { [serviceId ?? ""]: 7 },
      serviceHostingPrecedences: { [serviceId ?? ""]: "required" },
    });
    const configs = async () =>
      (await scene.controller.admin("GET", `/identities/${found.id}/service-configs`)).json.data;
    expect(await configs()).toMatchObject([{ serviceId, configId }]);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.apply("Identity", "host", {});
    await operator.ready("Identity", "host");
    expect(await configs()).toEqual([]);
    expect(await scene.identity(operator, "host")).toMatchObject({ authPolicyId: "default", serviceHostingCosts: {} });
  });

  test("logs in by the password of a Secret, and by the next one when that changes", async () => {
    const operator = await scene.start();
    const passwordSecretRef = { name: "simple-password", key: "password" };
    await operator.apply("Identity", "simple", {
      enrollment: { method: "updb", username: "simple", passwordSecretRef },
    });
    await operator.ready("Identity", "simple", "False", "SecretNotFound");
    const secret = (password: string) => ({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "simple-password", namespace: "default" },
      data: { password: Buffer.from(password).toString("base64") },
    });
    operator.server.put(KUBE.Secret, secret("first-Passw0rd"));
    await operator.ready("Identity", "simple");
    const logInByPassword = async (password: string) => {
      const credentials = { controller: scene.network.endpoint, ca: scene.network.ca, username: "simple", password };
      await using context = await Context.login(credentials);
      return (await context.identity()).name;
    };
    expect(await logInByPassword("first-Passw0rd")).toBe("simple");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    operator.server.change(secretRef("simple-password"), secret("second-Passw0rd"));
    await operator.settled();
    expect(await logInByPassword("second-Passw0rd")).toBe("simple");
    await expect(logInByPassword("first-Passw0rd")).rejects.toThrow(AuthenticationError);
    expect(operator.logged()).not.toContain("Passw0rd");
  });

  test("takes no password from a Secret that the operator has made", async () => {
    const operator = await scene.start();
    await operator.apply("Identity", "other", {});
    await operator.ready("Identity", "other");
    const passwordSecretRef = { name: "other-enrollment", key: "enrollment.jwt" };
    await operator.apply("Identity", "thief", {
      enrollment: { method: "none", username: "thief", passwordSecretRef },
    });
    const { status } = await operator.ready("Identity", "thief", "False", "SecretNotAllowed");
    expect(status.conditions).toContainEqual(expect.objectContaining({ type: "Stalled", status: "True" }));
  });

  test("that only observes gets nothing and is reported", async () => {
    const operator = await scene.start();
    const id = await scene.controller.make("identities", {
      name: "seen",
      type: "User",
      isAdmin: false,
      enrollment: { ott: true },
    });
    await operator.apply("Identity", "seen", { managementPolicy: "Observe", roleAttributes: ["x"] });
    const { status } = await operator.ready("Identity", "seen", "True", "Observed");
    expect(status).toMatchObject({ id, enrolled: false });
    expect(secretOf(operator, "seen-enrollment")).toBeUndefined();
    expect(await scene.identity(operator, "seen")).toMatchObject({ roleAttributes: null, tags: {} });
  });

  test("that only observed is not taken over by way of a spec that is refused", async () => {
    const operator = await scene.start();
    const id = await scene.controller.make("identities", { name: "mine", type: "Default", isAdmin: false });
    await operator.apply("Identity", "mine", { managementPolicy: "Observe" });
    await operator.until("Identity", "mine", ({ status }) => status.id === id);
    await operator.apply("Identity", "mine", { managementPolicy: "Manage", isAdmin: true });
    await operator.ready("Identity", "mine", "False", "AdminNotAllowed");
    await operator.apply("Identity", "mine", { managementPolicy: "Manage", isAdmin: false, roleAttributes: ["taken"] });
    await operator.ready("Identity", "mine", "False", "NameConflict");
    // Nor with the next look.
    expect(operator.read("Identity", "mine")?.status.id).toBeUndefined();
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    const { json } = await scene.controller.admin("GET", `/identities/${id}`);
    expect(json.data).toMatchObject({ tags: {}, roleAttributes: null });
  });
});
