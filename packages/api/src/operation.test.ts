import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import type { Calls } from "./client/types.ts";
import type { Handlers, OperationHandler } from "./handlers.ts";
import { action, create, detail, emptyBody, json, list } from "./operation.ts";
import { patchOf, timeInput } from "./schema/scalars.ts";

interface Session {
  readonly who: string;
}
interface Request {
  readonly from: string;
}

const thing = z.strictObject({ id: z.string(), size: z.int() });
const fields = { name: z.string(), size: z.int().default(1), at: timeInput.optional() };
const table = {
  listThings: list("/things", "admin", thing, "", { query: { color: z.enum(["red", "blue"]) } }),
  createThing: create("/things", "full", json(z.object(fields)), ""),
  detailPart: detail("/things/{id}/parts/{partId}", "public", thing, ""),
  patchThing: action("PATCH", "/things/{id}", "full", json(patchOf(fields)), ""),
  deleteThing: action("DELETE", "/things/{id}", "full", emptyBody, ""),
};
type Table = typeof table;

const handlers: Handlers<Table, Session, Request> = {
  listThings: async ({ query, list: page }) => {
    expectTypeOf(query.color).toEqualTypeOf<"red" | "blue">();
    return { data: [], totalCount: page.limit };
  },
  createThing: async ({ body, session }) => {
    expectTypeOf(body).toEqualTypeOf<{ name: string; size: number; at?: Date | undefined }>();
    return { id: session.who };
  },
  detailPart: async ({ params, session }) => {
    expectTypeOf(session).toEqualTypeOf<Session | undefined>();
    return { data: { id: params.id + params.partId, size: 1 } };
  },
  patchThing: async ({ body, list: page }) => {
    expectTypeOf(body.size).toEqualTypeOf<number | undefined>();
    expectTypeOf(page).toEqualTypeOf<undefined>();
  },
  deleteThing: async () => {},
};

test("the compiler refuses handlers that are missing, unknown or of another shape", () => {
  const { listThings: _left, ...missing } = handlers;
  // @ts-expect-error listThings has no handler
  const incomplete: Handlers<Table, Session, Request> = missing;
  // @ts-expect-error there is no such operation
  const tooMany: Handlers<Table, Session, Request> = { ...handlers, renameThing: async () => {} };
  // @ts-expect-error size is missing
  const wrong: OperationHandler<Table["detailPart"], Session, Request> = async () => ({ data: { id: "a" } });
  expect([incomplete, tooMany, wrong]).toHaveLength(3);
});

test("the compiler refuses calls without what they need", () => {
  const calls = new Proxy({}, { get: () => () => undefined }) as Calls<Table>;
  void calls.deleteThing({ params: { id: "a" } });
  void calls.listThings({ query: { color: "red", limit: 5 } });
  // @ts-expect-error the path has an id
  void calls.deleteThing();
  // @ts-expect-error color is required
  void calls.listThings({ query: { limit: 5 } });
  // @ts-expect-error name is required
  void calls.createThing({ body: { size: 1 } });
  expectTypeOf<Awaited<ReturnType<Calls<Table>["listThings"]>>["data"]>().toEqualTypeOf<
    { id: string; size: number }[]
  >();
});

test("a patch has neither defaults nor requirements", () => {
  expect(patchOf(fields).parse({})).toEqual({});
  expect(patchOf(fields).parse({ size: 2 })).toEqual({ size: 2 });
});

test.each([
  ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"],
  ["2026-01-02T03:04:05.123456789+02:00", "2026-01-02T01:04:05.123Z"],
  ["2026-01-02T03:04:05.1-0130", "2026-01-02T04:34:05.100Z"],
  ["2026-01-02 03:04", "2026-01-02T03:04:00.000Z"],
  ["2026-01-02", "2026-01-02T00:00:00.000Z"],
  ["", "1970-01-01T00:00:00.000Z"],
])("the time %s is read as %s", (text, expected) => {
  expect(timeInput.parse(text).toISOString()).toBe(expected);
});

test.each(["tomorrow", "2026-13-01T00:00:00Z", "1767322800", "2026-01-02T25:00:00Z"])("%s is no time", (text) => {
  expect(timeInput.safeParse(text).success).toBe(false);
});
