import { expect, test } from "vitest";
import { operations } from "../index.ts";
import { type Operation, pagingOf } from "../operation.ts";
import {
  ADDITIONS,
  DIFFERENCES,
  type DifferenceAspect,
  type PublishedOperation,
  publishedOperations,
} from "./published.ts";

const published = publishedOperations();
const key = ({ api, method, path }: { api: string; method: string; path: string }) => `${api} ${method} ${path}`;
const ours = new Map(
  (["client", "management"] as const).flatMap((api) =>
    Object.entries<Operation>(operations[api]).map(
      ([id, operation]) => [key({ api, method: operation.method, path: operation.path }), { id, operation }] as const,
    ),
  ),
);

test("every published operation is in the table", () => {
  expect(published).toHaveLength(238);
  expect(published.map(key).filter((each) => !ours.has(each))).toEqual([]);
});

test("what the table has beyond them is written down, with the client that needs it", () => {
  const known = new Set(published.map(key));
  expect([...ours.keys()].filter((each) => !known.has(each)).toSorted()).toEqual(
    ADDITIONS.map(({ operation }) => operation).toSorted(),
  );
});

test("auth, status, content type, parameters, body and errors are the published ones, but for the differences written down", () => {
  const found = published.flatMap((each) => {
    const mine = ours.get(key(each));
    return mine === undefined
      ? []
      : differing(each, mine.id, mine.operation).map((aspect) => `${key(each)}: ${aspect}`);
  });
  expect(found.toSorted()).toEqual(DIFFERENCES.map(({ operation, aspect }) => `${operation}: ${aspect}`).toSorted());
});

function differing(theirs: PublishedOperation, id: string, { auth, response, query, body, errors }: Operation) {
  const named = Object.keys(query.shape);
  const contentType = response.kind === "raw" ? response.contentTypes[0] : "application/json";
  const aspects: [DifferenceAspect, boolean][] = [
    ["operation id", id === theirs.operationId],
    ["auth", auth === theirs.auth],
    ["status", response.status === theirs.status],
    ["content type", contentType === theirs.contentType],
    ["query", [...named].sort().join() === [...theirs.query].sort().join()],
    ["paging", (pagingOf(response) !== undefined) === theirs.isPaged],
    ["body", (body.kind === "text" || (body.kind === "json" && body.required)) === theirs.isBodyRequired],
    ["errors", theirs.errors.every((status) => errors.includes(status))],
  ];
  return aspects.filter(([, isEqual]) => !isEqual).map(([aspect]) => aspect);
}
