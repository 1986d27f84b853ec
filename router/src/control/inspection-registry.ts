import { errorText } from "@sallyport/async";
import { ControlType, ctrlPb, decodeControl, encodeControl, type Logger } from "@sallyport/wire";
import { stackText } from "@sallyport/wire/agent/runtime";
import type { Controllers } from "./controllers/controllers.ts";

/** Text as it is, anything else as JSON; `undefined`: no such thing. `name` is the key as requested, in lower case. */
export type InspectionSource = (name: string) => unknown;

/** Answers an operator's questions about the router, relayed by a controller (docs/protocol/control.md, "Inspect"). */
export class InspectionRegistry {
  readonly #exact = new Map<string, InspectionSource>();
  readonly #prefixes = new Map<string, InspectionSource>();

  constructor(controllers: Controllers, log: Logger) {
    this.register("stackdump", stackText);
    controllers.handle(ControlType.InspectRequest, (message, controller) => {
      const values: { name: string; value: string }[] = [];
      const errors: string[] = [];
      let requested: readonly string[] = [];
      try {
        requested = decodeControl(ctrlPb.InspectRequestSchema, message.body).requestedValues;
      } catch (error) {
        errors.push(errorText(error));
      }
      for (const name of requested) {
        try {
          const value = this.value(name);
          if (value !== undefined) values.push({ name, value });
        } catch (error) {
          errors.push(`${name}: ${errorText(error)}`);
          log.warn({ name, err: error }, "an inspection failed");
        }
      }
      const body = encodeControl(ctrlPb.InspectResponseSchema, { success: errors.length === 0, errors, values });
      controller.channel.reply(message, { contentType: ControlType.InspectResponse, body });
    });
  }

  /** `name` in lower case; ending in `*` it stands for everything that begins with it. */
  register(name: string, source: InspectionSource): void {
    if (name.endsWith("*")) this.#prefixes.set(name.slice(0, -1), source);
    else this.#exact.set(name, source);
  }

  value(requested: string): string | undefined {
    const name = requested.toLowerCase();
    const prefix = [...this.#prefixes].find(([start]) => name.startsWith(start));
    // Ids are case sensitive: a source by prefix gets the name as it was sent.
    const value = this.#exact.get(name)?.(name) ?? prefix?.[1](requested);
    if (value === undefined) return undefined;
    return typeof value === "string"
      ? value
      : JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? item.toString() : item));
  }
}
