import { expect, it } from "vitest";
import { randomEntityId, timeOrderedId } from "./ids.ts";

it("entity ids are 12 characters that need no quoting", () => {
  const ids = Array.from({ length: 5_000 }, randomEntityId);
  expect(new Set(ids).size).toBe(5_000);
  for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{11}$/);
});

it("time-ordered ids grow as text, within a millisecond and when the clock is set back", () => {
  const now = Date.now();
  const ids = [
    ...Array.from({ length: 50_000 }, () => timeOrderedId(now)),
    ...Array.from({ length: 10 }, () => timeOrderedId(now - 60_000)),
    timeOrderedId(now + 2),
    timeOrderedId(now + 3),
  ];
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids.slice(-20)) expect(id).toMatch(/^c[a-z0-9]{24}$/);
});
