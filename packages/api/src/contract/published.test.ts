import { expect, test } from "vitest";
import { type ApiName, operations } from "../index.ts";
import { type Operation, pagingOf } from "../operation.ts";
import {
  ADDITIONS,
  DIFFERENCES,
  DIFFERENCES_21,
  type DifferenceAspect,
  operationKey as key,
  OWN_OPERATIONS,
  type PublishedOperation,
  publishedOperations,
} from "./published.ts";

const ours = new Map(
  (Object.keys(operations) as ApiName[]).flatMap((api) =>
    Object.entries<Operation>(operations[api]).map(
      ([id, operation]) => [key({ api, method: operation.method, path: operation.path }), { id, operation }] as const,
    ),
  ),
);
const unserved = [...ours].flatMap(([name, { operation }]) => (operation.unserved === undefined ? [] : [name]));
const own = OWN_OPERATIONS.map(({ operation }) => operation);
const published = publishedOperations("0.26.14");
const published21 = publishedOperations("2.1");

test("every published operation is in the table", () => {
  expect(published).toHaveLength(238);
  expect(published.map(key).filter((each) => !ours.has(each))).toEqual([]);
});

test("every operation that 2.1 describes is served, or answered with 501 and the reason", () => {
  expect(published21.filter(({ api }) => api !== "fabric")).toHaveLength(264);
  expect(published21.map(key).filter((each) => !ours.has(each))).toEqual([]);
  const known = new Set(published21.map(key));
  expect(unserved.filter((each) => !known.has(each))).toEqual([]);
  expect(unserved.filter((each) => published.map(key).includes(each))).toEqual([]);
});

test("what the table has beyond the specification's description is written down, with the client that needs it", () => {
  const known = new Set(published.map(key));
  const beyond = [...ours.keys()].filter((each) => !each.startsWith("fabric ") && !known.has(each));
  expect(beyond.filter((each) => !unserved.includes(each)).toSorted()).toEqual(
    [...ADDITIONS.map(({ operation }) => operation), ...own].toSorted(),
  );
});

test("the table has nothing beyond 2.1 but the Fabric API's description of itself, and Sallyport's own operations", () => {
  const known = new Set(published21.map(key));
  const beyond = [...ours.keys()].filter((each) => !known.has(each));
  expect(beyond.toSorted()).toEqual(["fabric GET /", ...own].toSorted());
});

test.each([
  { version: "the specification", theirs: published, written: DIFFERENCES },
  { version: "2.1", theirs: published21, written: DIFFERENCES_21 },
])(
  "auth, status, content type, parameters, body and errors are those of $version, but for the differences written down",
  ({ theirs, written }) => {
    const found = theirs.flatMap((each) => {
      const mine = ours.get(key(each));
      return mine === undefined
        ? []
        : differing(each, mine.id, mine.operation).map((aspect) => `${key(each)}: ${aspect}`);
    });
    expect(found.toSorted()).toEqual(written.map(({ operation, aspect }) => `${operation}: ${aspect}`).toSorted());
  },
);

function differing(theirs: PublishedOperation, id: string, operation: Operation): DifferenceAspect[] {
  const { auth, response, query, body, errors } = operation;
  const named = Object.keys(query.shape);
  const contentType = response.kind === "raw" ? response.contentTypes[0] : "application/json";
  const isServed = operation.unserved === undefined;
  const aspects: [DifferenceAspect, boolean][] = [
    ["operation id", id === theirs.operationId],
    ["auth", auth === theirs.auth],
    ["status", !isServed || response.status === theirs.status],
    ["content type", contentType === theirs.contentType],
    ["query", [...named].sort().join() === [...theirs.query].sort().join()],
    ["paging", !isServed || (pagingOf(response) !== undefined) === theirs.isPaged],
    ["body", !isServed || (body.kind === "text" || (body.kind === "json" && body.required)) === theirs.isBodyRequired],
    ["errors", !isServed || theirs.errors.every((status) => errors.includes(status))],
  ];
  return aspects.filter(([, isEqual]) => !isEqual).map(([aspect]) => aspect);
}
