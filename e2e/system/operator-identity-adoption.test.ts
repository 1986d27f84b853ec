/** Whose an identity is: that of a person or another tool is taken over only where the spec asks for that, whatever was asked for before. */
import { expect, test } from "vitest";
import { OperatorScene } from "../operator/operator-scene.ts";

const scene = OperatorScene.ofThisFile();

test("an identity that was only looked at is not taken over by way of a spec that is refused", {
  timeout: 60_000,
}, async () => {
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
  await scene.controller.admin("DELETE", `/identities/${id}`);
});
