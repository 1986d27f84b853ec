import type { EdgeRouterResource } from "@sallyport/resources";
import { edgeRouterDefinition } from "@sallyport/resources/definitions";
import { admit } from "@sallyport/resources/testing/admit";
import { sample } from "@sallyport/resources/testing/samples";

/** EdgeRouter `eu` of the namespace `edge` as the API server stores it. Sections that the schema would refuse are put in past it: not every server checks. */
export function edgeRouter(spec: object = {}, metadata: object = {}): EdgeRouterResource {
  const { object } = admit(edgeRouterDefinition, sample("EdgeRouter", spec as Record<string, unknown>, "eu"));
  const resource = object as unknown as EdgeRouterResource;
  return {
    ...resource,
    metadata: {
      ...{ name: "eu", namespace: "edge", uid: "uid-eu", resourceVersion: "1", generation: 1 },
      ...{ creationTimestamp: "2026-11-02T10:00:00Z", ...metadata },
    },
  };
}
