import { describe, expect, test } from "vitest";
import { planEntity } from "../../entity/plan.ts";
import { surroundings } from "../../entity/testing/surroundings.ts";
import { admit } from "../../testing/admit.ts";
import { sample } from "../testing/samples.ts";
import { edgeRouter, type FoundEdgeRouter, ofOrdinal } from "./entity.ts";
import { type EdgeRouterResource, edgeRouterDefinition } from "./schema.ts";

function resource(spec: object): EdgeRouterResource {
  const { object } = admit(edgeRouterDefinition, sample("EdgeRouter", spec as Record<string, unknown>, "eu"));
  return object as unknown as EdgeRouterResource;
}

const found = (more: Partial<FoundEdgeRouter>): FoundEdgeRouter => ({ id: "r-0", name: "eu-0", ...more });

const LINK = { configRefs: [{ name: "link" }] };

describe("configs of a router", () => {
  const plan = (
    spec: object,
    entity?: Partial<FoundEdgeRouter>,
    references: Parameters<typeof surroundings>[0] = { "ServiceConfig/link": "c1" },
    roleScope?: "Global" | "Namespaced",
  ) => {
    const observed = entity === undefined ? undefined : ({ entity: found(entity), by: "id" } as const);
    return planEntity(edgeRouter, ofOrdinal(resource(spec), 0), surroundings(references, roleScope), observed);
  };
  const configs = (planned: ReturnType<typeof plan>) =>
    planned.action === "patch"
      ? planned.body.configs
      : planned.action === "create"
        ? planned.body.configs
        : planned.action;

  test("are those of its resources and ids, and none when the spec has none", () => {
    expect(configs(plan({ ...LINK, configIds: ["a0"] }))).toEqual(["a0", "c1"]);
    expect(configs(plan({ ...LINK, configIds: ["a0"] }, { configs: ["c1"] }))).toEqual(["a0", "c1"]);
    expect(configs(plan({}, { configs: ["c1"] }))).toEqual([]);
    expect(plan({ ...LINK }, { configs: ["c1"] })).toMatchObject({
      action: "patch",
      body: { tags: expect.anything() },
    });
    expect(plan({ ...LINK }, { configs: ["c1"] })).not.toHaveProperty("body.configs");
    expect(plan({}, { configs: null })).not.toHaveProperty("body.configs");
  });

  test("are waited for by a new router; one that exists keeps what it has until all are there", () => {
    expect(plan(LINK, undefined, {})).toMatchObject({ action: "wait", reason: "ReferenceNotFound" });
    const missing = [{ kind: "ServiceConfig", name: "link", problem: "NotFound" }];
    const kept = plan({ ...LINK, cost: 7 }, { configs: ["old"] }, {});
    expect(kept).toMatchObject({ action: "patch", body: { cost: 7 }, whole: { configs: ["old"] }, missing });
    expect(kept).not.toHaveProperty("body.configs");
  });

  test("are refused where the network has none of routers, and where namespaces are kept apart by id", () => {
    expect(plan(LINK, {})).toMatchObject({
      action: "conflict",
      reason: "ImmutableDifference",
      message: expect.stringContaining("leave spec.configRefs and spec.configIds out"),
    });
    expect(plan({}, {})).not.toMatchObject({ action: "conflict" });
    expect(plan({ configIds: ["a0"] }, undefined, {}, "Namespaced")).toMatchObject({ reason: "OutsideNamespace" });
    expect(configs(plan(LINK, undefined, undefined, "Namespaced"))).toEqual(["c1"]);
  });
});
