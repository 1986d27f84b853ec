/** The `Accept` header of a request. */

export const JSON_TYPE = "application/json";

interface Range {
  readonly name: string;
  readonly isRefused: boolean;
}

/** Whether an `Accept` header allows a type; without the header everything is allowed. */
export function accepts(accept: string | undefined, type: string): boolean {
  if (accept === undefined || accept.trim() === "") return true;
  const [family] = type.split("/", 1);
  return rangesOf(accept).some(
    ({ name, isRefused }) => !isRefused && (name === "*/*" || name === type || name === `${family}/*`),
  );
}

/** Whether an `Accept` header asks for exactly this type, and does not just allow everything. */
export function asksFor(accept: string | undefined, type: string): boolean {
  return accept !== undefined && rangesOf(accept).some(({ name, isRefused }) => !isRefused && name === type);
}

function rangesOf(accept: string): Range[] {
  return accept.split(",").map((range) => {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return { name, isRefused: parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter)) };
  });
}
