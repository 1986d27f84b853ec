/** The answer to "why not?" (docs/why.md) as text. */
import type { whyAnswer } from "@sallyport/api";
import { visible } from "../terminal/visible.ts";
import { table } from "./table.ts";

export type WhyAnswer = (typeof whyAnswer)["_output"];
type Check = WhyAnswer["checks"][number];

const MARKS: Readonly<Record<Check["status"], string>> = {
  ok: "ok",
  failed: "FAILED",
  warning: "warning",
  unknown: "unknown",
  skipped: "-",
};
const INDENT = "  ";

export interface WhyTextOptions {
  /** Every part of every check; otherwise only the parts of those that are not ok. */
  readonly isComplete: boolean;
  /** Of the terminal. */
  readonly width: number | undefined;
  readonly emphasis: (text: string) => string;
}

/** What stands in the way first, what fixes it, then all checks and the last failed dials. */
export async function whyText(answer: WhyAnswer, { isComplete, width, emphasis }: WhyTextOptions): Promise<string> {
  const { allowed, type, identity, service, firstProblem, lastFailedDials } = answer;
  const verb = `${allowed ? "can" : "cannot"} ${type === "Dial" ? "dial" : "host"}`;
  const lines = [emphasis(visible(`${identity.name} ${verb} ${service.name}`))];
  if (firstProblem !== undefined) {
    lines.push(`${INDENT}${visible(firstProblem.message)}`);
    for (const { text, command } of firstProblem.remedies ?? []) {
      lines.push(`${INDENT}- ${visible(text)}`);
      if (command !== undefined) lines.push(`${INDENT}${INDENT}${visible(command)}`);
    }
  }
  const rows = answer.checks.flatMap((check) => rowsOf(check, "", isComplete));
  const parts = [`${lines.join("\n")}\n`, await table(["CHECK", "", ""], rows, { width, heading: emphasis })];
  if (lastFailedDials.length > 0) {
    const dials = lastFailedDials.map(({ at, count, code, message }) => [at, String(count), code, message]);
    parts.push(await table(["LAST FAILED", "TIMES", "CODE", "MESSAGE"], dials, { width, heading: emphasis }));
  }
  return parts.join("\n");
}

function rowsOf(check: Check, indent: string, isComplete: boolean): string[][] {
  const { check: name, status, message, checks = [] } = check;
  const shown = isComplete || status !== "ok" ? checks : [];
  return [
    [`${indent}${name}`, MARKS[status], message],
    ...shown.flatMap((part) => rowsOf(part, `${indent}${INDENT}`, isComplete)),
  ];
}
