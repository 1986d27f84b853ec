/** Resources in documents, checked as the API server of a cluster checks them. */
import { nearestName } from "@sallyport/config-file/nearest-name";
import { API_VERSION, type EntityResource, GROUP, KINDS } from "@sallyport/resources";
import { admitObject, type Problem } from "@sallyport/resources/admission";
import { SCHEMAS } from "@sallyport/resources/schemas";
import { wordHint } from "../errors.ts";
import { clusterOnlyFields } from "./cluster-only.ts";
import { DECLARED_KINDS, type DeclaredKind } from "./declared-kinds.ts";
import type { DeclaredDocument, Finding, Path } from "./documents.ts";
import { isObject, type Json } from "./json.ts";
import { type Labels, STANDARD_NAMESPACE } from "./marks.ts";
import { readMetadata } from "./metadata.ts";

/** A resource that a file declares, with the defaults of its schema. */
export interface Declared {
  readonly kind: DeclaredKind;
  readonly resource: EntityResource;
  readonly labels: Labels;
  readonly place: string;
}

export interface Manifests {
  readonly declared: readonly Declared[];
  /** Why nothing can be done. */
  readonly problems: readonly Finding[];
  /** What has no effect here. */
  readonly warnings: readonly Finding[];
  /** Documents that only a cluster can have: leaving them out is the user's to say. */
  readonly clusterOnly: readonly Finding[];
}

/** The network's name where a file leaves it out: the network is the one that is logged in to. */
const THIS_NETWORK = "network";

export function readManifests(documents: readonly DeclaredDocument[]): Manifests {
  const declared: Declared[] = [];
  const problems: Finding[] = [];
  const warnings = new Map<string, { readonly finding: Finding; count: number }>();
  const clusterOnly: Finding[] = [];
  for (const document of documents) {
    const read = readManifest(document);
    if ("clusterOnly" in read) clusterOnly.push(read.clusterOnly);
    else if ("problems" in read) problems.push(...read.problems);
    else {
      declared.push(read.declared);
      // A hundred routers have the same fields: of each the first is named.
      for (const { key, ...finding } of read.warnings) {
        const known = warnings.get(key);
        if (known === undefined) warnings.set(key, { finding, count: 1 });
        else known.count++;
      }
    }
  }
  return {
    declared,
    problems: [...problems, ...doubled(declared), ...otherNetworks(declared)],
    warnings: [...warnings.values()].map(({ finding: { place, text }, count }) => ({
      place,
      text: count === 1 ? text : `${text} (${count} times)`,
    })),
    clusterOnly,
  };
}

type Read =
  | { readonly declared: Declared; readonly warnings: readonly (Finding & { readonly key: string })[] }
  | { readonly problems: readonly Finding[] }
  | { readonly clusterOnly: Finding };

function readManifest({ value, placeOf, ambiguous }: DeclaredDocument): Read {
  const place = placeOf([]);
  if (!isObject(value)) return { problems: [{ place, text: "expected a resource with apiVersion, kind and spec" }] };
  const what = kindIn(value, placeOf);
  if (!("kind" in what)) return what;
  const { kind } = what;
  // What a cluster wrote is no declaration.
  const { status: _, ...object } = value;
  const metadata = readMetadata(object.metadata, placeOf);
  const { spec } = object;
  const given =
    isObject(spec) && spec.networkRef === undefined ? { networkRef: { name: THIS_NETWORK }, ...spec } : spec;
  const { problems: refused, object: admitted } = admitObject(SCHEMAS[kind.kind] ?? {}, {
    ...object,
    ...(given !== undefined && { spec: given }),
  });
  const fields = isObject(spec) ? clusterOnlyFields(kind.kind, spec) : [];
  const problems = [
    ...ambiguous,
    ...metadata.problems,
    ...refused.map((problem) => ({
      place: placeOf(problem.path, problem.rule === "unknown" ? "key" : "value"),
      text: problemText(problem, kind.kind, value),
    })),
    ...fields.flatMap(({ path, effect, why }) =>
      effect === "refused" ? [{ place: placeOf(path, "key"), text: `${path.join(".")}: ${why}` }] : [],
    ),
  ];
  if (problems.length > 0) return { problems };
  const { name, namespace = STANDARD_NAMESPACE, labels } = metadata;
  const resource = { kind: kind.kind, metadata: { namespace, name, uid: "" }, spec: admitted.spec };
  const ignored = [...metadata.ignored, ...fields.filter(({ effect }) => effect === "ignored")];
  return {
    declared: { kind, resource: resource as EntityResource, labels, place },
    warnings: ignored.map(({ path, why }) => ({
      key: `${kind.kind} ${path.join(".")}`,
      place: placeOf(path, "key"),
      text: `${path.join(".")} has no effect here: ${why}`,
    })),
  };
}

function kindIn(
  value: Json,
  placeOf: DeclaredDocument["placeOf"],
): Exclude<Read, { declared: Declared }> | { readonly kind: DeclaredKind } {
  const { apiVersion, kind } = value;
  const refuse = (path: Path, text: string) => ({ problems: [{ place: placeOf(path), text }] });
  if (typeof apiVersion !== "string") return refuse(["apiVersion"], `expected apiVersion: ${API_VERSION}`);
  if (typeof kind !== "string") return refuse(["kind"], `expected kind: one of ${names(DECLARED_KINDS)}`);
  const [group = ""] = apiVersion.split("/");
  if (group !== GROUP) {
    const nearest = nearestName(group, [GROUP]);
    if (nearest !== undefined)
      return refuse(["apiVersion"], `unknown apiVersion '${apiVersion}': did you mean '${API_VERSION}'?`);
    return { clusterOnly: { place: placeOf([]), text: `${kind} of ${apiVersion} is an object of a cluster` } };
  }
  if (apiVersion !== API_VERSION)
    return refuse(["apiVersion"], `unknown apiVersion '${apiVersion}': expected ${API_VERSION}`);
  const found = DECLARED_KINDS.find((each) => each.kind === kind);
  if (found !== undefined) return { kind: found };
  // A Network is no entity.
  if (KINDS.some((each) => each.kind === kind)) {
    const isApart = isObject(value.spec) && value.spec.roleScope === "Namespaced";
    const scope = isApart ? " (its roleScope needs --role-scope Namespaced)" : "";
    return { clusterOnly: { place: placeOf([]), text: `${kind} is for the operator${scope}` } };
  }
  const known = KINDS.map((each) => each.kind);
  const hint = wordHint(kind, known, `expected one of ${names(DECLARED_KINDS)}`);
  return refuse(["kind"], `unknown kind '${kind}': ${hint}`);
}

const names = (kinds: readonly { readonly kind: string }[]): string => kinds.map(({ kind }) => kind).join(", ");

function problemText({ at, path, rule, message, expected, known }: Problem, kind: string, object: unknown): string {
  const field = path.reduce<string>(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : text === "" ? part : `${text}.${part}`),
    "",
  );
  const found = path.reduce<unknown>(
    (value, part) => (value as Record<string | number, unknown> | undefined)?.[part],
    object,
  );
  const last = String(path.at(-1) ?? "");
  const nearest = known && nearestName(rule === "unknown" ? last : String(found), known);
  const hint = nearest === undefined ? "" : `: did you mean '${nearest}'?`;
  switch (rule) {
    case "unknown":
      return `${field}: ${at.startsWith("spec.") ? kind : "a resource"} has no such field${hint}`;
    case "required":
      return `${field} is missing${expected === undefined ? "" : `: expected ${expected}`}`;
    case "rule":
      return `${field}: ${message}`;
    default:
      return `${field}: expected ${expected ?? message}, found ${shortened(found)}${hint}`;
  }
}

const MAX_SHOWN = 60;

function shortened(value: unknown): string {
  const text = value === undefined ? "nothing" : JSON.stringify(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

/** Two resources of one name, in whatever files. */
function doubled(declared: readonly Declared[]): Finding[] {
  const seen = new Map<string, Declared>();
  return declared.flatMap((each) => {
    const { kind, metadata } = each.resource;
    const key = `${kind} ${metadata.namespace}/${metadata.name}`;
    const before = seen.get(key);
    if (before === undefined) seen.set(key, each);
    return before === undefined
      ? []
      : [{ place: each.place, text: `${titleOf(each)} is declared twice: first at ${before.place}` }];
  });
}

/** All files of a command are for one network. */
function otherNetworks(declared: readonly Declared[]): Finding[] {
  const named = declared.filter(({ resource }) => resource.spec.networkRef.name !== THIS_NETWORK);
  const [first, ...others] = named;
  const other = others.find(({ resource }) => resource.spec.networkRef.name !== first?.resource.spec.networkRef.name);
  if (first === undefined || other === undefined) return [];
  const text = `spec.networkRef names ${other.resource.spec.networkRef.name}, but ${first.place} names ${first.resource.spec.networkRef.name}: apply the files of each network by themselves`;
  return [{ place: other.place, text }];
}

/** How messages call a resource: `OverlayService/web`. */
export function titleOf({ resource: { kind, metadata } }: Pick<Declared, "resource">): string {
  const { namespace, name } = metadata;
  return namespace === STANDARD_NAMESPACE ? `${kind}/${name}` : `${kind}/${namespace}/${name}`;
}
