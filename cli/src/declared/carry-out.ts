/** Makes a network as it is declared. Whatever ends it, the next run goes on: what is done already is found done. */
import { errorText, mapLimit } from "@sallyport/async";
import { type EntityResource, type IdentityResource, invitationOf } from "@sallyport/resources";
import { EntitySync, identityCollection } from "@sallyport/resources/sync";
import type { AnyCollection } from "./declared-kinds.ts";
import type { Deletion } from "./deletions.ts";
import { finishIdentity, identitySteps, letIn } from "./identity-steps.ts";
import { fileOwner } from "./marks.ts";
import type { KindState, NetworkState } from "./network-state.ts";
import { NOTHING_KNOWN, type PlanOptions, referencesOf, type Step, surroundingsOf } from "./plan.ts";
import { References } from "./references.ts";

/** Requests under way at the same time. */
const AT_ONCE = 8;

export interface Reports {
  readonly done: (title: string, what: string) => void;
  readonly failed: (title: string, why: string) => void;
}

export class Carrier {
  readonly #state: NetworkState;
  readonly #options: PlanOptions;
  readonly #reports: Reports;
  readonly #references: References;
  readonly #steps: readonly Step[];

  constructor(steps: readonly Step[], state: NetworkState, options: PlanOptions, reports: Reports) {
    this.#steps = steps;
    this.#state = state;
    this.#options = options;
    this.#reports = reports;
    const declared = [...new Set(steps.map((step) => step.declared))];
    this.#references = new References(state, declared);
    for (const step of steps) if (step.found !== undefined) this.#references.add(step.declared, step.found.id);
  }

  /** Creates and changes, stage by stage: what is referred to is there before what refers to it. @throws when the user interrupts */
  async apply(): Promise<void> {
    const stages = Map.groupBy(this.#steps.filter(hasWork), ({ declared }) => declared.kind.stage);
    for (const [, steps] of [...stages].sort(([left], [right]) => left - right)) {
      await mapLimit(steps, AT_ONCE, async (step) => {
        try {
          await this.#applyOne(step);
          this.#reports.done(step.title, DONE[step.outcome]);
        } catch (error) {
          this.#state.signal.throwIfAborted();
          this.#reports.failed(step.title, errorText(error));
        }
      });
    }
  }

  async #applyOne(step: Step): Promise<void> {
    const { declared, resource, found } = step;
    const isIdentity = declared.kind.kind === "Identity";
    const { namespace } = resource.metadata;
    const failed = referencesOf({ kind: declared.kind, resource }).find((each) => {
      const [resolution] = this.#references.resolve(namespace, [each]).values();
      return resolution !== undefined && "problem" in resolution;
    });
    if (failed !== undefined) throw new Error(`it refers to ${failed.kind} ${failed.name}, which is not there`);
    const ordinal = step.owner.ordinal;
    const around = surroundingsOf({ declared, resource, ordinal }, this.#references, this.#state, this.#options);
    if ("problem" in around) throw new Error(around.problem);
    const { client, signal } = this.#state;
    const there = this.#state.of(declared.kind.kind);
    // Planned with ids that were still to come.
    const identity = isIdentity ? await identitySteps(resource, found, around.references, this.#state) : undefined;
    if (found !== undefined && identity !== undefined) await letIn(found.id, identity, this.#state);
    const sync = new EntitySync(declared.kind.entity, noting(collectionFor(step), there), there);
    const onIdentified = async () => {};
    const result = await sync.sync(client, resource, NOTHING_KNOWN, around, { signal, onIdentified });
    if (!("id" in result)) throw new Error(result.message);
    if (found === undefined) this.#references.add(declared, result.id);
    if (identity !== undefined) await finishIdentity(result.id, identity, this.#state);
  }

  /** @param deletions in the order in which they may go */
  async delete(deletions: readonly Deletion[]): Promise<void> {
    const stages = Map.groupBy(deletions, ({ kind }) => kind.kind.stage);
    for (const [, several] of stages) {
      await mapLimit(several, AT_ONCE, async ({ kind, entity, mark, title }) => {
        try {
          const sync = new EntitySync(kind.kind.entity, kind.kind.collection, kind);
          const { client, signal } = this.#state;
          const known = { id: entity.id, wasObserved: false };
          const resource = removed(mark.kind, mark.isOrphaned);
          const owner = fileOwner(mark, {}, mark.ordinal);
          const result = await sync.remove(client, resource, known, owner, signal);
          if (result.state === "blocked") throw new Error(`the network keeps it: ${result.message}`);
          this.#reports.done(title, result.state === "gone" ? "deleted" : "let go (deletionPolicy Orphan)");
        } catch (error) {
          this.#state.signal.throwIfAborted();
          this.#reports.failed(title, errorText(error));
        }
      });
    }
  }
}

const DONE = { create: "created", change: "changed", adopt: "taken over", none: "unchanged", kept: "unchanged" };

export const hasWork = ({ outcome }: Pick<Step, "outcome">): boolean => outcome !== "none" && outcome !== "kept";

function collectionFor({ declared, resource }: Step): AnyCollection {
  if (declared.kind.kind !== "Identity") return declared.kind.collection;
  return identityCollection(invitationOf(resource.spec as IdentityResource["spec"])) as unknown as AnyCollection;
}

/** What was listed is no longer true of what is changed. */
function noting(collection: AnyCollection, there: KindState): AnyCollection {
  return {
    ...collection,
    async replace(client, found, body, call) {
      there.changed(found.id);
      return await collection.replace(client, found, body, call);
    },
  };
}

/** Of what is gone from the files as much as its deletion needs. */
function removed(kind: string, isOrphaned: boolean): EntityResource {
  return {
    kind,
    metadata: { namespace: "", name: "", uid: "" },
    spec: {
      networkRef: { name: "" },
      managementPolicy: "Manage",
      deletionPolicy: isOrphaned ? "Orphan" : "Delete",
    },
  };
}
