/** Renders the kustomizations of the repository without kustomize: resources, and one namespace for all of them. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";

/** A kustomization asks for something that is not done here. */
export class KustomizationError extends Error {
  override name = "KustomizationError";
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string; readonly namespace?: string }[];
}

const KNOWN = ["apiVersion", "kind", "resources", "namespace"];
/** Kinds without a namespace, of those that the repository has. */
const CLUSTER_WIDE = ["Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"];

/**
 * The objects of a folder with a kustomization, as `kubectl kustomize` gives them but for their order: as they are listed.
 *
 * @throws KustomizationError
 */
export function renderKustomization(folder: string): Manifest[] {
  const path = join(folder, "kustomization.yaml");
  if (!existsSync(path)) throw new KustomizationError(`${path} is not there`);
  const asked = parse(readFileSync(path, "utf8")) as { resources?: string[]; namespace?: string };
  const unknown = Object.keys(asked).filter((key) => !KNOWN.includes(key));
  if (unknown.length > 0) throw new KustomizationError(`${path}: ${unknown.join(", ")} is not done here`);
  const objects = (asked.resources ?? []).flatMap((name) => {
    const resource = join(folder, name);
    return statSync(resource).isDirectory() ? renderKustomization(resource) : manifestsIn(resource);
  });
  const { namespace } = asked;
  return namespace === undefined ? objects : objects.map((object) => inNamespace(object, namespace, objects));
}

/** One file for `kubectl apply`. */
export function manifestFile(objects: readonly object[], title: string): string {
  const documents = objects.map(
    (object) => `---\n${stringify(object, { lineWidth: 0, aliasDuplicateObjects: false })}`,
  );
  return `# ${title}\n${documents.join("")}`;
}

function manifestsIn(path: string): Manifest[] {
  return parseAllDocuments(readFileSync(path, "utf8")).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw new KustomizationError(`${path}: ${error.message}`);
    return document.toJS() as Manifest;
  });
}

function inNamespace(object: Manifest, namespace: string, all: readonly Manifest[]): Manifest {
  const isOwn = (name: string) => all.some(({ kind, metadata }) => kind === "ServiceAccount" && metadata.name === name);
  const subjects = object.subjects?.map((each) =>
    each.kind === "ServiceAccount" && isOwn(each.name) ? { ...each, namespace } : each,
  );
  const metadata =
    object.kind === "Namespace"
      ? { ...object.metadata, name: namespace }
      : CLUSTER_WIDE.includes(object.kind)
        ? object.metadata
        : { ...object.metadata, namespace };
  return { ...object, metadata, ...(subjects === undefined ? {} : { subjects }) };
}
