/** What to do so that a network is as files declare it. The operator's planners decide (docs/operator/entities.md). */
import {
  type EdgeRouterResource,
  type EntityResource,
  type FoundEntity,
  type IdentityResource,
  missingText,
  type Owner,
  ofOrdinal,
  planEntity,
  type Surroundings,
  serviceConfigReferences,
  withDisablingMark,
} from "@sallyport/resources";
import { EntitySync } from "@sallyport/resources/sync";
import { wordHint } from "../errors.ts";
import { type Change, changesOf, fieldsOfNew, shown } from "./changes.ts";
import { DECLARED_KINDS } from "./declared-kinds.ts";
import type { Finding } from "./documents.ts";
import { type IdentitySteps, identityChanges, identitySteps } from "./identity-steps.ts";
import { type Declared, titleOf } from "./manifests.ts";
import { fileOwner } from "./marks.ts";
import type { NetworkState } from "./network-state.ts";
import { idToCome, References } from "./references.ts";

/** `kept`: as declared, but of another owner or of none. */
export type Outcome = "create" | "change" | "adopt" | "none" | "kept";

/** One entity, and what to do about it. */
export interface Step {
  readonly declared: Declared;
  /** Of an EdgeRouter: as it is for one of its routers. */
  readonly resource: EntityResource;
  readonly owner: Owner;
  readonly title: string;
  readonly outcome: Outcome;
  readonly found: FoundEntity | undefined;
  readonly changes: readonly Change[];
  /** Fields that are not as declared and stay so, since the resource only observes. */
  readonly differing: readonly string[];
  /** Of an identity: what is no part of the entity. */
  readonly identity?: IdentitySteps;
}

export interface PlanOptions {
  readonly roleScope: "Global" | "Namespaced";
  /** Take over entities without an owner. */
  readonly adopts: boolean;
}

export interface Plan {
  readonly steps: readonly Step[];
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
}

/** The kinds that have to be listed to plan these resources. */
export function kindsFor(declared: readonly Declared[]): Set<string> {
  const own = declared.map(({ kind }) => kind.kind);
  const inFiles = new Set(declared.map((each) => keyOf(each.resource.kind, each.resource)));
  const named = declared.flatMap((each) =>
    referencesOf(each).filter(
      ({ kind, name }) => !inFiles.has(keyOf(kind, { metadata: { ...each.resource.metadata, name } })),
    ),
  );
  return new Set([...own, ...named.map(({ kind }) => kind)]);
}

const keyOf = (kind: string, { metadata: { namespace, name } }: Pick<EntityResource, "metadata">): string =>
  `${kind}/${namespace}/${name}`;

export function referencesOf({ kind, resource }: Pick<Declared, "kind" | "resource">) {
  const { spec } = resource;
  const more = kind.kind === "Identity" ? serviceConfigReferences(spec as IdentityResource["spec"]) : [];
  return [...kind.entity.references(spec), ...more];
}

/** @throws ApiError, CommandError when the network is asked and does not answer */
export async function planAll(all: readonly Declared[], state: NetworkState, options: PlanOptions): Promise<Plan> {
  const references = new References(state, all);
  const steps: Step[] = [];
  const problems: Finding[] = [];
  const warnings: Finding[] = [];
  const ordered = DECLARED_KINDS.flatMap(({ kind }) => all.filter((each) => each.kind.kind === kind));
  for (const declared of ordered) {
    const resources = entitiesOf(declared, options);
    if (resources.length === 0) references.addNone(declared);
    for (const { resource, ordinal } of resources) {
      const planned = await planOne({ declared, resource, ordinal }, references, state, options);
      if ("problem" in planned) {
        problems.push({ place: declared.place, text: `${titleOf(declared)}: ${planned.problem}` });
        // What refers to it has no problem of its own.
        references.add(declared, idToCome(declared));
        continue;
      }
      steps.push(planned);
      const observed = planned.differing.join(", ");
      const notes = [
        planned.identity?.warning,
        observed === "" ? undefined : `not as declared, and only observed: ${observed}`,
      ];
      for (const note of notes)
        if (note !== undefined) warnings.push({ place: declared.place, text: `${planned.title}: ${note}` });
      references.add(declared, planned.found?.id ?? idToCome(declared));
    }
  }
  return { steps, problems: [...problems, ...sameEntities(steps)], warnings };
}

interface OneEntity {
  readonly declared: Declared;
  readonly resource: EntityResource;
  readonly ordinal: number | undefined;
}

function entitiesOf({ resource }: Declared, { adopts }: PlanOptions): Omit<OneEntity, "declared">[] {
  const { managementPolicy } = resource.spec;
  const policy = adopts && managementPolicy === "Manage" ? "Adopt" : managementPolicy;
  const wanted = { ...resource, spec: { ...resource.spec, managementPolicy: policy } } as const;
  if (resource.kind === "EdgeRouter") {
    const { replicas } = resource.spec as EdgeRouterResource["spec"];
    return Array.from({ length: replicas }, (_, ordinal) => ({
      resource: ofOrdinal(wanted as unknown as EdgeRouterResource, ordinal),
      ordinal,
    }));
  }
  const marked = resource.kind === "Identity" ? withDisablingMark(wanted as unknown as IdentityResource) : wanted;
  return [{ resource: marked, ordinal: undefined }];
}

async function planOne(
  { declared, resource, ordinal }: OneEntity,
  references: References,
  state: NetworkState,
  options: PlanOptions,
): Promise<Step | { readonly problem: string }> {
  const around = surroundingsOf({ declared, resource, ordinal }, references, state, options);
  if ("problem" in around) return around;
  const { entity, collection } = declared.kind;
  const { client, signal } = state;
  const there = state.of(declared.kind.kind);
  const sync = new EntitySync(entity, collection, there);
  const { plan, observed } = await sync.look(client, resource, NOTHING_KNOWN, around, signal);
  const found = observed?.entity;
  const title = ordinal === undefined ? titleOf(declared) : `${titleOf(declared)}-${ordinal}`;
  const differing = plan.action === "none" ? plan.differences : [];
  const step = { declared, resource, owner: around.owner, title, found, differing };
  if (
    plan.action === "conflict" &&
    found !== undefined &&
    (await isAsDeclared(declared, resource, around, found, state))
  )
    return { ...step, outcome: "kept", changes: [] };
  if (plan.action === "conflict") return { problem: conflictText(plan.message) };
  if (plan.action === "wait") return { problem: plan.message };
  if (plan.action !== "create" && plan.missing.length > 0) return { problem: missingText(plan.missing) };
  const outcome = OUTCOMES[plan.action];
  const before =
    found === undefined ? {} : shown({ ...collection.fieldsOf(found), name: found.name, tags: found.tags });
  const changes =
    plan.action === "create"
      ? fieldsOfNew(plan.body as Readonly<Record<string, unknown>>)
      : plan.action === "none"
        ? []
        : changesOf(shown(plan.body as Readonly<Record<string, unknown>>), before);
  if (declared.kind.kind !== "Identity") return { ...step, outcome, changes };
  const identity = await identitySteps(resource, found, around.references, state);
  const more = identityChanges(identity);
  return {
    ...step,
    outcome: outcome === "none" && more.length > 0 ? "change" : outcome,
    changes: [...changes, ...more],
    identity,
  };
}

const OUTCOMES = { create: "create", patch: "change", adopt: "adopt", none: "none" } as const;

export const NOTHING_KNOWN = { id: undefined, wasObserved: false };

/** What the planner looks at besides the resource. */
export function surroundingsOf(
  { declared, resource, ordinal }: OneEntity,
  references: References,
  state: NetworkState,
  { roleScope }: PlanOptions,
): (Surroundings & object) | { readonly problem: string } {
  const { kind, metadata, spec } = declared.resource;
  const { namespace, name } = metadata;
  const { deletionPolicy } = spec;
  const { serviceConfigs = [] } = spec as { readonly serviceConfigs?: readonly unknown[] };
  const remembered = { labels: declared.labels, deletionPolicy, hasServiceConfigs: serviceConfigs.length > 0 };
  const base = {
    owner: fileOwner({ kind, namespace, name }, remembered, ordinal),
    scope: { roleScope, namespace },
    references: references.resolve(namespace, referencesOf({ kind: declared.kind, resource })),
  };
  if (kind !== "ServiceConfig") return base;
  const { type, data = {} } = spec as unknown as { readonly type: string; readonly data?: object };
  const configTypeId = state.configTypes.get(type);
  const more = { configTypeId, data };
  if (configTypeId !== undefined) return { ...base, ...more };
  const hint = wordHint(type, [...state.configTypes.keys()], "'sallyport get config-types' lists them");
  return { problem: `spec.type: the network has no config type '${type}': ${hint}` };
}

/** Whether an entity of another owner, or of none, has all that the resource asks for: then there is nothing to refuse. */
async function isAsDeclared(
  declared: Declared,
  resource: EntityResource,
  around: Surroundings & object,
  found: FoundEntity,
  state: NetworkState,
): Promise<boolean> {
  const observing = { ...resource, spec: { ...resource.spec, managementPolicy: "Observe" as const } };
  const plan = planEntity(declared.kind.entity, observing, around, { entity: found, by: "name" });
  const hasTags = Object.entries(declared.resource.spec.tags ?? {}).every(
    ([key, value]) => found.tags?.[key] === value,
  );
  if (plan.action !== "none" || plan.differences.length > 0 || plan.missing.length > 0 || !hasTags) return false;
  if (declared.kind.kind !== "Identity") return true;
  return identityChanges(await identitySteps(resource, found, around.references, state)).length === 0;
}

/** The planner's words are for those who write to a cluster. */
function conflictText(message: string): string {
  return message.replace(
    /: set spec\.importId to its id or spec\.managementPolicy to Adopt to take it over, or /,
    ": add --adopt to take it over, or ",
  );
}

/** Two resources that would be the same entity. */
function sameEntities(steps: readonly Step[]): Finding[] {
  const seen = new Map<string, Step>();
  return steps.flatMap((step) => {
    const { kind, spec, metadata } = step.resource;
    const name = spec.name ?? metadata.name;
    const key = `${kind} ${name}`;
    const before = seen.get(key);
    if (before === undefined) seen.set(key, step);
    const { place } = step.declared;
    const noun = step.declared.kind.entity.noun;
    return before === undefined
      ? []
      : [
          {
            place,
            text: `${step.title} is the ${noun} ${name} of the network, and so is ${before.title} (${before.declared.place})`,
          },
        ];
  });
}
