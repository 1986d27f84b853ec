/** Schemas of the contract as JSON Schema, as far as the tables of `sallyport` need it. */
import { z } from "zod";
import type { BodySpec } from "../../packages/api/src/index.ts";

export interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly additionalProperties?: Schema | boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** Of an answer. */
export function answerSchema(shape: z.ZodType): Schema {
  return z.toJSONSchema(shape, { io: "output", unrepresentable: "any" }) as Schema;
}

/** Of a request's JSON body; undefined when it has none. */
export function bodySchema(body: BodySpec | undefined): Schema | undefined {
  if (body === undefined || body.kind === "none" || body.kind === "text") return undefined;
  const override = ({
    zodSchema,
    jsonSchema,
  }: {
    zodSchema: unknown;
    jsonSchema: { type?: unknown; format?: unknown };
  }) => {
    // Times are texts that a handler gets as dates.
    if (zodSchema instanceof z.ZodPipe && jsonSchema.type === "string") jsonSchema.format = "date-time";
  };
  return z.toJSONSchema(body.schema, { io: "input", unrepresentable: "any", override }) as Schema;
}
