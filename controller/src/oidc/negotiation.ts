/** Which form of answer a caller wants: programs get JSON, browsers a page. */
import { ApiError, JSON_TYPE } from "@sallyport/api";

export const TEXT_TYPE = "text/plain; charset=utf-8";

export type AnswerForm = "json" | "page";

/**
 * A page when the header prefers HTML to JSON, else JSON; also without a header.
 * @throws ApiError 406 for a header that takes neither JSON, HTML nor plain text
 */
export function answerForm(accept: string | undefined): AnswerForm {
  if (accept === undefined || accept.trim() === "") return "json";
  const ranges = accept.split(",").map(readRange);
  const [json, html, text] = [JSON_TYPE, "text/html", "text/plain"].map((type) => weightOf(type, ranges));
  if (!json && !html && !text) {
    throw new ApiError(406, "NOT_ACCEPTABLE", `accept ${JSON_TYPE} or text/html`);
  }
  return (html ?? 0) > (json ?? 0) ? "page" : "json";
}

interface MediaRange {
  readonly name: string;
  readonly weight: number;
}

function readRange(text: string): MediaRange {
  const [name = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const q = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
  const weight = q === undefined ? 1 : Number(q);
  return { name, weight: weight >= 0 && weight <= 1 ? weight : 0 };
}

/** The most exact range of a header decides about a type (RFC 9110, section 12.5.1); 0 when none fits. */
function weightOf(type: string, ranges: readonly MediaRange[]): number {
  const family = `${type.split("/", 1)[0]}/*`;
  for (const wanted of [type, family, "*/*"]) {
    const found = ranges.find(({ name }) => name === wanted);
    if (found !== undefined) return found.weight;
  }
  return 0;
}
