/** The `Accept` header of a request. */

export const JSON_TYPE = "application/json";

/** Whether an `Accept` header allows a type; without the header everything is allowed. */
export function accepts(accept: string | undefined, type: string): boolean {
  if (accept === undefined || accept.trim() === "") return true;
  const [family] = type.split("/", 1);
  return allowedIn(accept).some((range) => range === "*/*" || range === type || range === `${family}/*`);
}

/** Whether an `Accept` header asks for exactly this type, and does not just allow everything. */
export function asksFor(accept: string | undefined, type: string): boolean {
  return accept !== undefined && allowedIn(accept).includes(type);
}

/** The ranges of a header that it does not refuse by `q=0`. */
function allowedIn(accept: string): string[] {
  return accept.split(",").flatMap((range) => {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter)) ? [] : [name];
  });
}
