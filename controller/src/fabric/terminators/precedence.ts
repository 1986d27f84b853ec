import { ctrlPb } from "@sallyport/wire";
import type { Precedence } from "../ports.ts";

/** Precedence of a protobuf value; undefined for a number that is none. */
export function precedenceOf(value: number): Precedence | undefined {
  switch (value) {
    case ctrlPb.TerminatorPrecedence.Default:
      return "default";
    case ctrlPb.TerminatorPrecedence.Required:
      return "required";
    case ctrlPb.TerminatorPrecedence.Failed:
      return "failed";
    default:
      return undefined;
  }
}

/** The protobuf value of a precedence: the same numbers in fabric and edge messages. */
export function precedenceValue(precedence: Precedence): 0 | 1 | 2 {
  return { default: 0, required: 1, failed: 2 }[precedence] as 0 | 1 | 2;
}
