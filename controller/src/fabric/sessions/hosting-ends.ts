import { EdgeCtrlType, edgeCtrlPb, encodeControl, type Logger, RouterCapability } from "@sallyport/wire";
import type { AccessQuestion } from "../change-port.ts";
import type { Mesh } from "../links/mesh.ts";
import type { FabricModel, TerminatorRecord } from "../ports.ts";
import { isSignedToken } from "../token-names.ts";

/** Wait before a failed look-up is repeated. */
const RETRY_MS = 5_000;
/** Identities and services that are looked up in one statement. */
const BATCH = 500;

interface HostingEndsParts {
  readonly mesh: Mesh;
  readonly model: Pick<FabricModel, "hostedWithoutSession" | "deleteUnchanged">;
  readonly log: Logger;
}

/**
 * Ends what an identity hosts when its last session for that has ended. Routers close what they host under an opaque token, those of OpenZiti 1.6 nothing that
 * is hosted under a signed one. They are answered as if they had asked for the terminator now: then they drop it and tell its host, which asks for a new session.
 * Source: docs/protocol/fabric.md, "Access".
 */
export class HostingEnds {
  readonly #parts: HostingEndsParts;
  readonly #due = new Map<string, AccessQuestion>();
  #isRunning = false;
  #isClosed = false;

  constructor(parts: HostingEndsParts) {
    this.#parts = parts;
  }

  sessionRemoved(token: string, session?: AccessQuestion): void {
    if (session?.type !== "Bind" || !isSignedToken(token)) return;
    this.#due.set(`${session.identityId} ${session.serviceId}`, session);
    void this.#run();
  }

  close(): void {
    this.#isClosed = true;
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      while (this.#due.size > 0 && !this.#isClosed) {
        const some = [...this.#due].slice(0, BATCH);
        for (const [key] of some) this.#due.delete(key);
        try {
          await this.#end(some.map(([, question]) => question));
        } catch (err) {
          this.#parts.log.error({ err }, "what is hosted without a session could not be ended; trying again");
          const again = () => {
            for (const [key, question] of some) this.#due.set(key, question);
            void this.#run();
          };
          setTimeout(again, RETRY_MS).unref();
        }
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #end(questions: readonly AccessQuestion[]): Promise<void> {
    const { mesh, model, log } = this.#parts;
    const hosted = await model.hostedWithoutSession(questions);
    for (const [routerId, terminators] of Map.groupBy(hosted, (terminator) => terminator.routerId)) {
      const router = mesh.router(routerId);
      if (router?.can(RouterCapability.MultiChannel) === false) {
        for (const terminator of terminators) router.send(sessionInvalid(terminator));
      }
      // One that is hosted again meanwhile, under a new session, stays; its router says whether it has it.
      const terminatorIds = await model.deleteUnchanged(routerId, terminators);
      log.info({ routerId, terminatorIds }, "terminators ended with the session of their host");
    }
  }
}

function sessionInvalid({ id: terminatorId }: TerminatorRecord) {
  const result = edgeCtrlPb.CreateTerminatorResult.FailedInvalidSession;
  const body = encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, {
    ...{ terminatorId, result, msg: "session ended" },
  });
  return { contentType: EdgeCtrlType.CreateTerminatorV2Response, body };
}
