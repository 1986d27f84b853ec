/** The chart helm/sallyport-network, as its tests use it. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { API_VERSION } from "../../packages/resources/src/group.ts";
import type { Manifest } from "../../packages/resources/src/kinds/testing/samples.ts";
import { NETWORK_CHART_MAPS } from "../../scripts/charts/network-schema.ts";
import { helm } from "./helm.ts";

export const CHART = "helm/sallyport-network";
export const EXAMPLES = readdirSync(join(import.meta.dirname, "..", "..", CHART, "examples")).sort();
export const exampleFile = (name: string) => `${CHART}/examples/${name}`;

type Values = Readonly<Record<string, unknown>>;

export const documents = (text: string): Manifest[] =>
  parseAllDocuments(text)
    .map((each) => each.toJS() as Manifest | null)
    .filter((each) => each !== null);

/** What a release is made of, with values as an object or from a file. */
export async function rendered(values: Values | string, namespace = "quickstart"): Promise<Manifest[]> {
  const isFile = typeof values === "string";
  const args = ["template", "main", CHART, "--namespace", namespace, "--values", isFile ? values : "-"];
  return documents(await helm(args, isFile ? {} : { stdin: JSON.stringify(values) }));
}

export const ownResources = (manifests: readonly Manifest[]): Manifest[] =>
  manifests.filter(({ apiVersion }) => apiVersion === API_VERSION);

/** Specs by kind and name. */
export const specsOf = (manifests: readonly Manifest[]): Record<string, unknown> =>
  Object.fromEntries(ownResources(manifests).map(({ kind, metadata, spec }) => [`${kind}/${metadata.name}`, spec]));

/** The values that a release of these resources is made by; of the Network there is one at most. */
export function valuesOf(manifests: readonly Manifest[]): Values {
  const values: Record<string, Record<string, unknown>> = { network: { create: false } };
  for (const { kind, metadata, spec } of manifests) {
    const map = NETWORK_CHART_MAPS[kind];
    if (map === undefined) {
      values.network = { name: metadata.name, spec };
      continue;
    }
    const { networkRef: _, ...rest } = spec;
    values[map] = { ...values[map], [metadata.name]: rest };
  }
  return values;
}
