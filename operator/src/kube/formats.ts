/** Times as Leases and Events want them: exactly six digits after the second. The JavaScript form has three and is refused. */
export function microTime(date = new Date()): string {
  return date.toISOString().replace("Z", "000Z");
}

/** Times as everything else has them: whole seconds. */
export function secondTime(date = new Date()): string {
  return date.toISOString().replace(/\.\d+Z$/, "Z");
}
