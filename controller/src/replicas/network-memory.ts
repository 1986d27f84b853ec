import type { Permission } from "@sallyport/wire";
import { z } from "zod";
import type { MemoryView } from "../api/dependencies.ts";
import { type DialMemory, type FailedDials, joinedDials } from "../model/fabric/failed-dials.ts";
import type { Trace, Traces, TraceWish } from "../model/identity/traces.ts";
import { type FailedRequest, type FailedRequests, joinedRequests } from "../model/posture/failed-requests.ts";
import type { DialFacts } from "../policy/why/facts.ts";
import type { Call } from "./calls.ts";
import type { ReplicaCalls } from "./replica-calls.ts";

interface DialQuestion {
  readonly identityId: string;
  readonly serviceId: string;
  readonly type: Permission;
}

/** What the asked replica remembers of dials, or binds, of a service by an identity. */
const DIALS: Call<DialQuestion, DialMemory> = {
  name: "failed dials",
  question: z.object({ identityId: z.string(), serviceId: z.string(), type: z.enum(["Dial", "Bind"]) }),
  answer: z.object({
    failed: z.array(
      z.object({
        ...{ at: z.number(), code: z.string(), message: z.string(), count: z.number() },
        routerId: z.string().exactOptional(),
      }),
    ),
    succeededAt: z.number().exactOptional(),
  }),
};

/** The failed requests of an identity that the asked replica remembers. */
const REQUESTS: Call<{ identityId: string }, null, FailedRequest> = {
  name: "failed requests",
  question: z.object({ identityId: z.string() }),
  answer: z.null(),
  // A replica of another version may know more of it.
  item: z.looseObject({ when: z.string() }) as unknown as z.ZodType<FailedRequest>,
};

interface TraceQuestion {
  readonly identityId: string;
  /** Absent: it is not traced any more. `until`: milliseconds since 1970. */
  readonly trace?: { readonly traceId: string; readonly until: number; readonly channelMask: number };
}

/** Has the circuits of an identity traced that the asked replica makes, or no longer. */
const TRACE: Call<TraceQuestion, boolean> = {
  name: "trace identity",
  question: z.object({
    identityId: z.string(),
    trace: z.object({ traceId: z.string(), until: z.number(), channelMask: z.number() }).exactOptional(),
  }),
  answer: z.boolean(),
};

interface RememberingModel {
  readonly failedDials: Pick<FailedDials, "recent">;
  readonly posture: { readonly failedRequests: Pick<FailedRequests, "of"> };
  readonly traces: Pick<Traces, "enable" | "set" | "own" | "disable">;
}

/**
 * What each replica keeps in memory about identities, for administrators: whichever is asked asks the others, and tells them which identities are traced. One
 * that does not answer in time, or does not know the call, is left out. Source: docs/protocol/replicas.md, "Calls".
 */
export class NetworkMemory implements MemoryView {
  readonly #model: RememberingModel;
  readonly #calls: ReplicaCalls | undefined;

  /** @param calls undefined for a process that has no others */
  constructor(model: RememberingModel, calls?: ReplicaCalls) {
    this.#model = model;
    this.#calls = calls;
    calls?.serve(DIALS, async ({ identityId, serviceId, type }) => ({
      value: model.failedDials.recent(identityId, serviceId, type),
      items: [],
    }));
    calls?.serve(REQUESTS, async ({ identityId }) => ({
      value: null,
      items: model.posture.failedRequests.of(identityId),
    }));
    calls?.serve(TRACE, async ({ identityId, trace }) => {
      if (trace === undefined) model.traces.disable(identityId);
      else model.traces.set(identityId, { ...trace, until: new Date(trace.until) });
      return { value: true, items: [] };
    });
    // A controller that starts while an identity is traced has to know of it.
    calls?.keepConnected(() => model.traces.own().length > 0);
    calls?.onConnected((replicaId) => {
      for (const { identityId, trace } of model.traces.own()) {
        calls.ask(replicaId, TRACE, questionOf(identityId, trace)).catch(() => undefined);
      }
    });
  }

  async dials(identityId: string, serviceId: string, type: Permission): Promise<DialFacts> {
    const own = this.#model.failedDials.recent(identityId, serviceId, type);
    const answers = (await this.#calls?.askAll(DIALS, { identityId, serviceId, type }))?.answers ?? [];
    return joinedDials([own, ...answers.map(({ value }) => value)], type);
  }

  async failedRequests(identityId: string): Promise<FailedRequest[]> {
    const own = this.#model.posture.failedRequests.of(identityId);
    const answers = (await this.#calls?.askAll(REQUESTS, { identityId }))?.answers ?? [];
    return joinedRequests([own, ...answers.map(({ items }) => items)]);
  }

  async enableTrace(identityId: string, wish: TraceWish): Promise<Trace> {
    const trace = this.#model.traces.enable(identityId, wish);
    this.#calls?.look();
    await this.#calls?.askAll(TRACE, questionOf(identityId, trace));
    return trace;
  }

  async disableTrace(identityId: string): Promise<void> {
    this.#model.traces.disable(identityId);
    await this.#calls?.askAll(TRACE, { identityId });
  }
}

function questionOf(identityId: string, { traceId, until, channelMask }: Trace): TraceQuestion {
  return { identityId, trace: { traceId, until: until.getTime(), channelMask } };
}
