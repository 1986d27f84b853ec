import type { ManagementClient } from "@sallyport/api/client";
import { expect, test } from "vitest";
import { TerminatorCounts } from "./reconcile.ts";

const { signal } = new AbortController();

/** A network whose services have these numbers of terminators; `asked` are its requests. */
function network(counts: Readonly<Record<string, number>>) {
  const asked: string[] = [];
  const page = (ids: readonly string[], limit: number) => {
    const all = ids.flatMap((serviceId) => Array.from({ length: counts[serviceId] ?? 0 }, () => ({ serviceId })));
    return { data: all.slice(0, limit), meta: { pagination: { totalCount: all.length } } };
  };
  const client = {
    async listServiceTerminators({
      params: { id },
      query: { limit },
    }: {
      params: { id: string };
      query: { limit: number };
    }) {
      asked.push(id);
      return page([id], limit);
    },
    async listTerminators({ query: { filter, limit } }: { query: { filter: string; limit: number } }) {
      asked.push(filter);
      return page(JSON.parse(filter.replace("service in ", "")), limit);
    },
  } as unknown as ManagementClient;
  return { asked, client };
}

test("one request counts the terminators of many services", async () => {
  const { asked, client } = network({ web: 2, ssh: 1 });
  const counts = new TerminatorCounts();
  expect(await Promise.all(["web", "mail", "ssh"].map((id) => counts.of(client, id, signal)))).toEqual([2, 0, 1]);
  expect(asked).toEqual(['service in ["web","mail","ssh"]']);
  expect(await counts.of(client, "web", signal)).toBe(2);
  expect(asked.at(-1)).toBe("web");
});

test("services that have more terminators than a page holds are counted one by one", async () => {
  const { asked, client } = network({ web: 501, ssh: 1 });
  const counts = new TerminatorCounts();
  expect(await Promise.all(["web", "ssh"].map((id) => counts.of(client, id, signal)))).toEqual([501, 1]);
  expect(asked).toEqual(['service in ["web","ssh"]', "web", "ssh"]);
});
