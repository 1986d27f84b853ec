/**
 * Whether an announced version is at least `since`. Development builds (0.0.0) are newer than everything, a pre-release is
 * older than its release, and what is no version is older than everything.
 */
export function isAtLeast(version: string, since: readonly [number, number, number]): boolean {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?$/.exec(version);
  if (match === null) return false;
  const numbers = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (numbers.every((n) => n === 0)) return true;
  for (const [i, wanted] of since.entries()) {
    const number = numbers[i] ?? 0;
    if (number !== wanted) return number > wanted;
  }
  return match[4] === undefined;
}
