import { describe, expect, test } from "vitest";
import { object, plannedActions, pod, router, settled, unowned } from "../testing/routers.ts";
import type { SurplusRouter } from "./router-plan.ts";

describe("routers that are to go", () => {
  const objects = ["StatefulSet", "Service", "ConfigMap"].map((kind) =>
    object(kind, `eu-1`, kind === "StatefulSet" ? { apiVersion: "apps/v1" } : {}),
  );
  const surplusRouter = (more: Partial<SurplusRouter> = {}): SurplusRouter => ({
    ordinal: 1,
    entity: { id: "r-1", name: "eu-1", noTraversal: false },
    before: undefined,
    objects,
    pod: pod(),
    claim: object("PersistentVolumeClaim", "data-eu-1-0"),
    ...more,
  });
  const rest = objects.slice(1);
  // biome-ignore format: a table
  test.each<[string, SurplusRouter[], object, string[]]>([
    ["circuits go around it, then its pod ends", [surplusRouter()], {}, ["stopTraversal 1", "delete StatefulSet eu-1"]],
    ["its pod is waited for", [surplusRouter({ objects: rest })], {}, []],
    ["then its entity goes", [surplusRouter({ objects: rest, pod: undefined })], {}, ["removeEntity 1"]],
    ["then what is left", [surplusRouter({ objects: rest, pod: undefined, entity: undefined })], {},
      ["delete Service eu-1", "delete ConfigMap eu-1", "delete PersistentVolumeClaim data-eu-1-0"]],
    ["a volume may stay", [surplusRouter({ objects: rest, pod: undefined, entity: undefined })], { storage: { retention: "Retain" } },
      ["delete Service eu-1", "delete ConfigMap eu-1"]],
    ["an entity that is let go is not changed before", [surplusRouter()], { deletionPolicy: "Orphan" }, ["delete StatefulSet eu-1"]],
    ["what stays in the network keeps its volume", [surplusRouter({ objects: rest, pod: undefined, entity: undefined })], { deletionPolicy: "Orphan" },
      ["delete Service eu-1", "delete ConfigMap eu-1"]],
    ["the highest first", [surplusRouter(), surplusRouter({ ordinal: 2, objects: [] })], {}, []],
    ["several at a time where that is allowed", [surplusRouter(), surplusRouter({ ordinal: 2, objects: [], pod: undefined })],
      { updateStrategy: { maxUnavailable: 2 } }, ["removeEntity 2", "stopTraversal 1", "delete StatefulSet eu-1"]],
    [
      "the pod and the volume of a workload that was left behind stay",
      [surplusRouter({ objects: [object("StatefulSet", "eu-1", { apiVersion: "apps/v1", metadata: { ownerReferences: [] } }),...rest] })],
      {},
      ["removeEntity 1"],
    ],
    ["what is another owner's stays", [surplusRouter({ pod: undefined, entity: undefined, claim: undefined, objects: [unowned("ConfigMap", "eu-1")] })],
      {}, []],
  ])("%s", (_name, surplus, spec, wanted) => {
    const given = settled([router()], { spec, surplus });
    expect(plannedActions(given).filter((each) => /1|2/.test(each))).toEqual(wanted);
  });
});
