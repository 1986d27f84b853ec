/** Makes a network as it is declared. Whatever ends it, the next run goes on: what is done already is found done. */
import { ApiError } from "@sallyport/api/client";
import { errorText, mapLimit } from "@sallyport/async";
import { type EntityResource, type IdentityResource, invitationOf, nameOf } from "@sallyport/resources";
import { EntitySync, identityCollection } from "@sallyport/resources/sync";
import { CommandError, ExitStatus } from "../errors.ts";
import type { AnyCollection } from "./declared-kinds.ts";
import type { Deletion } from "./deletions.ts";
import { finishIdentity, identitySteps, letIn } from "./identity-steps.ts";
import { fileOwner } from "./marks.ts";
import type { NetworkState } from "./network-state.ts";
import { NOTHING_KNOWN, type PlanOptions, referencesOf, type Step, surroundingsOf } from "./plan.ts";
import { References } from "./references.ts";

/** The controller is away, or the session has ended. */
const ENDING: ReadonlySet<ExitStatus> = new Set([ExitStatus.Unreachable, ExitStatus.LoggedOut]);

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
          this.#reports.done(step.title, await this.#applyOne(step));
        } catch (error) {
          this.#failed(step.title, error);
        }
      });
    }
  }

  /** @throws the error when no other resource would fare better */
  #failed(title: string, error: unknown): void {
    this.#state.signal.throwIfAborted();
    const isOfAll = error instanceof CommandError && ENDING.has(error.status);
    if (isOfAll) throw error;
    this.#reports.failed(title, errorText(error));
  }

  /** @returns what was done, in a word */
  async #applyOne(step: Step): Promise<string> {
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
    // The replacement writes all fields: those that no file declares are taken as they are now, not as they were when everything was listed.
    if (found !== undefined) there.changed(found.id);
    const sync = new EntitySync(declared.kind.entity, collectionFor(step), there);
    const onIdentified = async () => {};
    const carryOut = () => sync.sync(client, resource, NOTHING_KNOWN, around, { signal, onIdentified });
    const result = await carryOut().catch((error: unknown) => {
      if (found !== undefined || !isNameTaken(error)) throw error;
      // Perhaps another run of the same files has made it meanwhile: now the network is asked.
      there.outdated(nameOf(resource));
      return carryOut();
    });
    if (!("id" in result)) throw new Error(result.message);
    if (found === undefined) this.#references.add(declared, result.id);
    if (identity !== undefined) await finishIdentity(result.id, identity, this.#state);
    const isMadeByOther = step.outcome === "create" && result.found !== undefined;
    return isMadeByOther ? "made by another run" : DONE[step.outcome];
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
          this.#failed(title, error);
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

const isNameTaken = (error: unknown): boolean => error instanceof ApiError && error.cause?.field === "name";

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
