/** A namespace that is marked as a tenant's: its resources reach nothing beyond it, whatever the scope of their Network is. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { KINDS } from "../../../operator/src/kube/kinds.ts";
import { startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const scene = OperatorScene.ofThisFile();
let operator: TestOperator;
beforeEach(async () => {
  operator = await startOperator();
  mark("true");
  await operator.apply("Network", "main", { external: scene.asExternal(operator.server) });
  await operator.ready("Network", "main");
});
afterEach(async () => await operator?.close());

const mark = (tenant: string): void => {
  const metadata = { name: "default", labels: { "sallyport.dev/tenant": tenant } };
  operator.server.change({ kind: KINDS.Namespace, name: "default" }, { metadata });
};
const policies = async (): Promise<unknown[]> =>
  (await scene.controller.admin("GET", "/service-policies?limit=100")).json.data as unknown[];

test("selectors and attributes are refused until the mark is gone, references are not", async () => {
  await operator.apply("ServicePolicy", "dial-all", { identityRoles: ["#all"], serviceRoles: ["#all"] });
  await operator.apply("OverlayService", "web", { roleAttributes: ["everyone"] });
  await operator.apply("Identity", "host", { roleAttributes: ["admins"] });
  for (const [kind, name, field] of [
    ["ServicePolicy", "dial-all", "identityRoles"],
    ["OverlayService", "web", "roleAttributes"],
    ["Identity", "host", "roleAttributes"],
  ] as const) {
    const { status } = await operator.ready(kind, name, "False", "OutsideNamespace");
    const stalled = status.conditions?.find(({ type }) => type === "Stalled");
    expect(stalled?.message).toMatch(new RegExp(`the namespace default is a tenant's.*spec\\.${field} reaches`));
  }
  expect(await policies()).toEqual([]);

  await operator.apply("OverlayService", "api", {});
  await operator.apply("Identity", "guest", {});
  await operator.apply("ServicePolicy", "own", { identityRefs: [{ name: "guest" }], serviceRefs: [{ name: "api" }] });
  await operator.ready("ServicePolicy", "own");

  mark("false");
  await operator.annotate("Network", "main", { "sallyport.dev/reconcile-requested-at": "now" });
  await operator.ready("ServicePolicy", "dial-all");
  await operator.ready("OverlayService", "web");
  expect(await policies()).toHaveLength(2);
});

test("the Secret by which the Network gets in serves no config, and no password", async () => {
  await operator.apply("ServiceConfig", "leak", {
    data: null,
    dataFrom: { secretRef: { name: "admin", key: "password" } },
  });
  const config = await operator.ready("ServiceConfig", "leak", "False", "SecretNotAllowed");
  expect(JSON.stringify(config.status)).toContain("the Secret admin is for the Network main alone");
  const enrollment = { username: "thief", passwordSecretRef: { name: "admin", key: "password" } };
  await operator.apply("Identity", "thief", { enrollment: { ...enrollment, methods: ["updb"] } });
  await operator.until("Identity", "thief", ({ status }) =>
    JSON.stringify(status).includes("for the Network main alone"),
  );
});
