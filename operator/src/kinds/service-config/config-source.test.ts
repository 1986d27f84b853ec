import { expect, test } from "vitest";
import { LookUpProblem } from "../../entity/reconcile.ts";
import type { SecretObject } from "../../kube/kinds.ts";
import { configOf } from "./config-source.ts";

const secret = (labels: Readonly<Record<string, string>> = {}): SecretObject => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { namespace: "edge", name: "s", labels },
  data: { "identity.json": Buffer.from('{"id": {"key": "pem:swordfish"}}').toString("base64") },
});
const from = { name: "s", key: "identity.json" };

test("a config comes from a Secret that a user made, and never from one of the operator's own", () => {
  expect(configOf(secret(), from)).toEqual({ id: { key: "pem:swordfish" } });
  const refused = configOf(secret({ "app.kubernetes.io/managed-by": "sallyport" }), from);
  expect(refused).toBeInstanceOf(LookUpProblem);
  expect(refused).toMatchObject({ reason: "SecretNotAllowed", isStalled: true });
  expect(JSON.stringify(refused)).not.toContain("swordfish");
});
