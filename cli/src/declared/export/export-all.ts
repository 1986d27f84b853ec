/** A network as the resources that declare it. */
import { isDeepStrictEqual } from "node:util";
import { mapLimit } from "@sallyport/async";
import { API_VERSION, type FoundEntity, OWNER_TAGS } from "@sallyport/resources";
import { admitObject } from "@sallyport/resources/admission";
import { SCHEMAS } from "@sallyport/resources/schemas";
import { DECLARED_KINDS, type DeclaredKind } from "../declared-kinds.ts";
import { type Labels, markOf, STANDARD_NAMESPACE } from "../marks.ts";
import type { NetworkState } from "../network-state.ts";
import { matches } from "../selector.ts";
import type { ExportedName } from "./exported-names.ts";
import { ExportedReferences } from "./exported-references.ts";
import { SPECS } from "./specs.ts";

/** Identities are asked for their configs one by one. */
const AT_ONCE = 8;

export interface Export {
  readonly manifests: readonly object[];
  /** What is left out, and why. */
  readonly left: readonly string[];
}

export interface ExportOptions {
  readonly kinds: readonly DeclaredKind[];
  readonly networkRef: string;
  /** Only what was applied with these labels. */
  readonly selector?: Labels | undefined;
}

/** Entities that are one resource, by its name. */
interface Group {
  readonly kind: DeclaredKind;
  readonly exported: ExportedName;
  readonly entities: readonly [FoundEntity, ...FoundEntity[]];
}

/** Every kind has to be loaded: names are asked for of all. */
export async function exportAll(state: NetworkState, { kinds, networkRef, selector }: ExportOptions): Promise<Export> {
  const references = new ExportedReferences(
    state,
    kinds.map(({ kind }) => kind),
  );
  const left: string[] = [];
  const groups = DECLARED_KINDS.flatMap((kind) => {
    const isWanted = kinds.includes(kind);
    return groupsOf(kind, state, references, isWanted && selector === undefined ? left : []).filter(
      ({ entities: [{ tags }] }) =>
        isWanted && (selector === undefined || matches(markOf(tags)?.labels ?? {}, selector)),
    );
  });
  const manifests = await mapLimit(groups, AT_ONCE, async (group) => {
    const { manifest, warnings } = await manifestOf(group, state, references, networkRef);
    left.push(...warnings);
    return manifest;
  });
  return { manifests: manifests.filter((each) => each !== undefined), left };
}

function groupsOf(kind: DeclaredKind, state: NetworkState, references: ExportedReferences, left: string[]): Group[] {
  const names = references.namesOf(kind.kind);
  const byName = state.of(kind.kind).entities.toSorted((one, other) => one.name.localeCompare(other.name));
  const usable = byName.filter((entity) => {
    const fields = kind.collection.fieldsOf(entity);
    // Those of the network itself: they are there without being declared.
    return kind.entity.refusal?.({ ...entity, tags: OWNED }, fields) === undefined;
  });
  if (kind.kind !== "EdgeRouter")
    return usable.map((entity) => ({ kind, exported: names.add([entity], entity.name), entities: [entity] }));
  const routers = Map.groupBy(usable, ({ name }) => /^(.+)-\d+$/.exec(name)?.[1]);
  return [...routers].flatMap(([base, several]): Group[] => {
    const inOrder = several.toSorted((one, other) => ordinalOf(one) - ordinalOf(other));
    const [first, ...others] = inOrder;
    if (first === undefined) return [];
    const areAlike = others.every((each) =>
      isDeepStrictEqual(kind.collection.fieldsOf(each), kind.collection.fieldsOf(first)),
    );
    const areCounted = inOrder.every((each, at) => ordinalOf(each) === at);
    if (base !== undefined && areAlike && areCounted)
      return [{ kind, exported: names.add(inOrder, base), entities: [first, ...others] }];
    const why =
      base === undefined || !areCounted
        ? "the routers of an EdgeRouter are called NAME-0, NAME-1 and so on"
        : "the routers of an EdgeRouter are alike, and these are not";
    left.push(...inOrder.map(({ name }) => `edge router ${name}: ${why}`));
    return [];
  });
}

const ordinalOf = ({ name }: FoundEntity): number => Number(/-(\d+)$/.exec(name)?.[1]);

/** An administrator with an owner may lose the right; only those of the network itself are of interest here. */
const OWNED = { [OWNER_TAGS.uid]: "exported" };

async function manifestOf(
  { kind, exported, entities }: Group,
  state: NetworkState,
  references: ExportedReferences,
  networkRef: string,
): Promise<{ readonly manifest: object | undefined; readonly warnings: readonly string[] }> {
  const [first] = entities;
  const { name, namespace, entityName } = exported;
  const title = `${kind.entity.noun} ${first.name}`;
  const warnings: string[] = [];
  const warn = (text: string): void => void warnings.push(`${title}: ${text}`);
  const mark = markOf(first.tags);
  const spec = {
    networkRef: { name: networkRef },
    ...(entityName !== undefined && { name: entityName }),
    ...(mark?.isOrphaned === true && { deletionPolicy: "Orphan" }),
    ...(kind.kind === "EdgeRouter" && entities.length > 1 && { replicas: entities.length }),
    ...tagsOf(first),
    ...(await SPECS[kind.kind]?.(first, { state, references, namespace, warn })),
  };
  const labels = mark?.labels ?? {};
  const manifest = {
    apiVersion: API_VERSION,
    kind: kind.kind,
    metadata: {
      name,
      ...(namespace !== STANDARD_NAMESPACE && { namespace }),
      ...(Object.keys(labels).length > 0 && { labels }),
    },
    spec,
  };
  // A network may have what no resource can say, such as an attribute with a #.
  const [problem] = admitObject(SCHEMAS[kind.kind] ?? {}, manifest).problems;
  if (problem === undefined) return { manifest, warnings };
  const what = problem.expected === undefined ? problem.message : `expected ${problem.expected}`;
  return { manifest: undefined, warnings: [`${title}: ${problem.path.join(".")}: ${what}`] };
}

/** Those of users: a resource has only texts. */
function tagsOf({ tags }: FoundEntity): { readonly tags?: Labels } {
  const own = Object.entries(tags ?? {}).flatMap(([key, value]): [string, string][] =>
    typeof value === "string" && !key.startsWith("sallyport-") ? [[key, value]] : [],
  );
  return own.length === 0 ? {} : { tags: Object.fromEntries(own) };
}
