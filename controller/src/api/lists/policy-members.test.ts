import { type Operation, operations } from "@sallyport/api";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

test("service policies are selected by what they select: by #all, by attributes with both semantics, by id", async () => {
  const service = (name: string, ...roleAttributes: string[]) =>
    c.make("services", { name, encryptionRequired: true, roleAttributes });
  const [one, two] = [await service("one", "a", "b"), await service("two", "a")];
  const person = await c.make("identities", { name: "person", type: "User", isAdmin: false });
  const policy = (name: string, semantic: string, serviceRoles: string[], identityRoles: string[] = []) =>
    c.make("service-policies", { name, type: "Dial", semantic, serviceRoles, identityRoles });
  await policy("all", "AllOf", ["#all"], [`@${person}`]);
  await policy("any", "AnyOf", ["#b", "#c"]);
  await policy("both", "AllOf", ["#a", "#b"]);
  await policy("named", "AllOf", [`@${two}`]);
  await policy("none", "AllOf", []);
  const names = async (filter: string): Promise<string[]> => {
    const path = `/service-policies?filter=${encodeURIComponent(`${filter} sort by name`)}`;
    return (await c.admin("GET", path)).json.data.map(({ name }: { name: string }) => name);
  };
  expect(await names(`anyOf(services) = "${one}"`)).toEqual(["all", "any", "both"]);
  expect(await names(`anyOf(services) = "${two}"`)).toEqual(["all", "named"]);
  expect(await names(`anyOf(identities) = "${person}"`)).toEqual(["all"]);
  expect(await names("isEmpty(services)")).toEqual(["none"]);
  expect(await names("count(services) = 2")).toEqual(["all"]);
});

/** Operations that list what belongs to one entity. */
const SUB_LISTS = Object.values<Operation>(operations.management).filter(
  ({ method, path, response }) => method === "GET" && path.includes("{") && response.kind === "list",
);

test("nothing belongs to what there is not, whatever policies select everything", async () => {
  await c.make("services", { name: "three", encryptionRequired: true });
  await c.make("edge-routers", { name: "router" });
  await c.make("posture-checks", { typeId: "MFA", name: "check" });
  const all = { name: "everything", semantic: "AnyOf" };
  const roles = { identityRoles: ["#all"], serviceRoles: ["#all"], edgeRouterRoles: ["#all"] };
  await c.make("service-policies", { ...all, ...roles, type: "Dial", postureCheckRoles: ["#all"] });
  await c.make("edge-router-policies", { ...all, ...roles });
  await c.make("service-edge-router-policies", { ...all, ...roles });
  const found: Record<string, unknown> = {};
  for (const { path } of SUB_LISTS) {
    const { status, json } = await c.admin("GET", path.replaceAll(/\{\w+\}/g, "undefined"));
    if (status === 200) found[path] = [json.data, json.meta.pagination.totalCount];
    else expect([path, status]).toEqual([path, 404]);
  }
  expect(found).toMatchObject({ "/services/{id}/service-policies": [[], 0] });
  expect(found).toEqual(Object.fromEntries(Object.keys(found).map((path) => [path, [[], 0]])));
  expect(Object.keys(found).length).toBeGreaterThan(20);
});
