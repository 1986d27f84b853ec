/** Every container that the operator makes says what it asks for and may use. */
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../kube/kinds.ts";
import { statefulSet } from "./edge-router/render/workload.ts";
import { edgeRouter } from "./edge-router/testing/edge-router.ts";
import { renderStatefulSet } from "./network/render/pod.ts";
import { managedNetwork } from "./network/testing/managed.ts";

interface Container {
  readonly name: string;
  readonly resources?: { readonly requests?: object; readonly limits?: object };
}

function containersOf(object: KubeObject): Container[] {
  const { spec } = object as unknown as {
    readonly spec: {
      readonly template: {
        readonly spec: { readonly containers: Container[]; readonly initContainers: Container[] };
      };
    };
  };
  return [...spec.template.spec.initContainers, ...spec.template.spec.containers];
}

const ROUTER = { ordinal: 0, id: "r", configHash: "h", image: "i", areControllersChosen: false, restart: undefined };
const routers = (template: object) => containersOf(statefulSet(edgeRouter({ template }), ROUTER));
const controllers = (template: object) => {
  const { resource, managed } = managedNetwork({ template });
  const inputs = { image: "i", configHash: "h", hasCertificate: false };
  return containersOf(renderStatefulSet(resource, managed, inputs));
};

describe.each([
  ["a router", ["enroll", "router"], routers],
  ["a controller", ["init", "controller"], controllers],
] as const)("%s", (_what, names, rendered) => {
  test("has amounts of its own, all that a quota can ask for", () => {
    const containers = rendered({});
    expect(containers.map(({ name }) => name)).toEqual(names);
    const amounts = { cpu: expect.any(String), memory: expect.any(String) };
    for (const { resources } of containers) expect(resources).toEqual({ requests: amounts, limits: amounts });
  });

  test("has those of the spec and no others, if there are any", () => {
    const resources = { requests: { memory: "64Mi" } };
    for (const container of rendered({ spec: { resources } })) expect(container.resources).toEqual(resources);
  });
});
