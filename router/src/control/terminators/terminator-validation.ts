import { ControlType, ctrlPb, decodeControl, encodeControl, type Logger, type Message } from "@sallyport/wire";
import { CountedPool, type WorkPool } from "../../metrics/work-pool.ts";
import type { TerminatorValidator, TerminatorVerdict } from "../control-plane.ts";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";

export interface ValidationOptions {
  readonly controllers: Controllers;
  /** Called for each valid terminator: a controller has it. */
  readonly onConfirmed: (id: string) => void;
  readonly onUnknown: (ids: readonly string[]) => void;
  readonly log: Logger;
  readonly limitMs?: number;
}

const UNKNOWN_BINDING: TerminatorVerdict = { valid: false, reason: ctrlPb.TerminatorInvalidReason.UnknownBinding };

/**
 * Answers a controller's question which of its terminators this router really has (docs/protocol/control.md,
 * "Terminators"). Each binding judges its own; what is not judged in time is left out of the answer.
 */
export class TerminatorValidators {
  readonly #o: ValidationOptions;
  readonly #validators = new Map<string, TerminatorValidator>();
  readonly #pool = new CountedPool();

  constructor(options: ValidationOptions) {
    this.#o = options;
    options.controllers.handle(ControlType.ValidateTerminatorsV2Request, (message, controller) =>
      this.#pool.run(() => this.#validate(message, controller)),
    );
    options.controllers.handle(ControlType.ValidateTerminatorsRequest, (message) => this.#validateOld(message));
  }

  get pool(): WorkPool {
    return this.#pool;
  }

  register(binding: string, validator: TerminatorValidator): () => void {
    this.#validators.set(binding, validator);
    return () => {
      if (this.#validators.get(binding) === validator) this.#validators.delete(binding);
    };
  }

  async #validate(message: Message, controller: ControllerConnection): Promise<void> {
    const request = decodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, message.body);
    const states: Record<
      string,
      { valid: boolean; reason: ctrlPb.TerminatorInvalidReason; detail: string; marker: bigint }
    > = {};
    await Promise.all(
      request.terminators.map(async (terminator) => {
        const verdict = await this.#judge(terminator, request.fixInvalid);
        if (verdict === undefined) return;
        if (verdict.valid) this.#o.onConfirmed(terminator.id);
        states[terminator.id] = {
          valid: verdict.valid,
          reason: verdict.reason ?? ctrlPb.TerminatorInvalidReason.UnknownTerminator,
          detail: verdict.detail ?? (verdict.valid ? "valid" : "not known to the router"),
          marker: terminator.marker,
        };
      }),
    );
    if (controller.channel.isClosed) return;
    const body = encodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, { states });
    controller.channel.reply(message, { contentType: ControlType.ValidateTerminatorsV2Response, body });
  }

  async #validateOld(message: Message): Promise<void> {
    const { terminators } = decodeControl(ctrlPb.ValidateTerminatorsRequestSchema, message.body);
    const verdicts = await Promise.all(
      terminators.map(async (t) => ({ id: t.id, verdict: await this.#judge(t, true) })),
    );
    for (const { id, verdict } of verdicts) if (verdict?.valid === true) this.#o.onConfirmed(id);
    const unknown = verdicts.filter(({ verdict }) => verdict?.valid === false).map(({ id }) => id);
    if (unknown.length > 0) this.#o.onUnknown(unknown);
  }

  /** The verdict, or nothing when the binding did not come to one within the limit. */
  async #judge(terminator: ctrlPb.Terminator, fixInvalid: boolean): Promise<TerminatorVerdict | undefined> {
    const validator = this.#validators.get(terminator.binding);
    if (validator === undefined) return UNKNOWN_BINDING;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), this.#o.limitMs ?? 30_000);
    });
    try {
      const query = { id: terminator.id, binding: terminator.binding, address: terminator.address };
      return await Promise.race([validator(query, fixInvalid), limit]);
    } catch (error) {
      this.#o.log.warn({ terminatorId: terminator.id, err: error }, "a terminator could not be validated");
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }
}
