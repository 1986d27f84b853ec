import type { ManagedNetwork, NetworkResource } from "@sallyport/resources";
import { networkDefinition } from "@sallyport/resources/definitions";
import { admit } from "@sallyport/resources/testing/admit";
import { sample } from "@sallyport/resources/testing/samples";

/** A managed Network as the API server hands it out. */
export function managedNetwork(
  changes: Readonly<Record<string, unknown>> = {},
  annotations: Readonly<Record<string, string>> = {},
): { readonly resource: NetworkResource; readonly managed: ManagedNetwork } {
  const { object, problems } = admit(
    networkDefinition,
    sample("Network", { external: null, managed: changes }, "main"),
  );
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  const admitted = object as unknown as NetworkResource;
  const metadata = { ...admitted.metadata, uid: "u1", generation: 1, annotations };
  const resource = { ...admitted, metadata };
  if (resource.spec.managed === undefined) throw new Error("the sample is not managed");
  return { resource, managed: resource.spec.managed };
}
