/** What metadata says of a resource without a cluster: its name, its namespace and its labels. */
import { nearestName } from "@sallyport/config-file/nearest-name";
import { GROUP } from "@sallyport/resources";
import type { DeclaredDocument, Finding, Path } from "./documents.ts";
import type { Labels } from "./marks.ts";
import { LABEL_KEY, LABEL_VALUE } from "./selector.ts";

interface Metadata {
  readonly name: string;
  readonly namespace: string | undefined;
  readonly labels: Labels;
  readonly problems: readonly Finding[];
  readonly ignored: readonly { readonly path: Path; readonly why: string }[];
}

/** What a cluster adds when it is asked for an object. */
const OF_CLUSTER = [
  ...["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"],
  ...["managedFields", "ownerReferences", "finalizers", "selfLink"],
];
const FIELDS = ["name", "namespace", "labels", "annotations", "generateName", ...OF_CLUSTER];

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const MAX_NAME = 253;

export function readMetadata(given: unknown, placeOf: DeclaredDocument["placeOf"]): Metadata {
  const problems: Finding[] = [];
  const refuse = (path: Path, text: string, at?: "key"): void => {
    problems.push({ place: placeOf(["metadata", ...path], at), text: `${["metadata", ...path].join(".")}${text}` });
  };
  const metadata = (typeof given === "object" && given !== null ? given : {}) as Readonly<Record<string, unknown>>;
  for (const field of Object.keys(metadata)) {
    const nearest = FIELDS.includes(field) ? undefined : nearestName(field, FIELDS);
    const hint = nearest === undefined ? "" : `: did you mean '${nearest}'?`;
    if (!FIELDS.includes(field)) refuse([field], `: a resource has no such field${hint}`, "key");
  }
  const { name, namespace, labels = {}, annotations } = metadata;
  if (name === undefined || name === null) refuse(["name"], " is missing: expected the name of the resource");
  else if (typeof name !== "string" || name.length > MAX_NAME || !NAME.test(name)) {
    const hint = "; the network's own name of it may have any, in spec.name";
    refuse(["name"], `: expected small letters, digits, - and ., found ${JSON.stringify(name)}${hint}`);
  }
  if (namespace !== undefined && (typeof namespace !== "string" || !NAMESPACE.test(namespace)))
    refuse(["namespace"], `: expected small letters, digits and -, found ${JSON.stringify(namespace)}`);
  if (typeof labels !== "object" || labels === null || Array.isArray(labels))
    refuse(["labels"], `: expected keys with values, found ${JSON.stringify(labels)}`);
  else
    for (const [key, value] of Object.entries(labels)) {
      if (!LABEL_KEY.test(key)) refuse(["labels", key], ": a label's key has letters, digits, -, _ and .", "key");
      else if (typeof value !== "string" || !LABEL_VALUE.test(value))
        refuse(["labels", key], `: expected text of letters, digits, -, _ and ., found ${JSON.stringify(value)}`);
    }
  return {
    name: String(name),
    namespace: typeof namespace === "string" ? namespace : undefined,
    labels: labels as Labels,
    problems,
    ignored: ignoredAnnotations(annotations),
  };
}

/** Those of others are for others. */
function ignoredAnnotations(annotations: unknown): Metadata["ignored"] {
  const own = Object.keys(annotations ?? {}).filter((key) => key.startsWith(`${GROUP}/`));
  return own.map((key) => ({ path: ["metadata", "annotations", key], why: "only the operator follows it" }));
}
