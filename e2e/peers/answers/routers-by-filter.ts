import { expect, it } from "vitest";
import type { Both } from "./ask.ts";

/** Edge routers selected by every operator of the filter language, on both sides. */
export function filteredRouters(both: () => Both): void {
  it.each(FILTERS)("selects by %s", async (filter) => {
    const { theirs, ours } = await both().ask({
      method: "GET",
      path: `/edge-routers?filter=${encodeURIComponent(filter)}`,
    });
    const view = ({ status, json }: typeof ours) => {
      const { data, error, meta } = json as {
        data?: { name: string }[];
        error?: { code: string };
        meta?: { pagination?: { totalCount: number } };
      };
      const names = data?.map(({ name }) => name);
      return {
        ...{ status, code: error?.code, total: meta?.pagination?.totalCount },
        names: filter.includes("sort by") ? names : names?.toSorted(),
      };
    };
    expect(view(ours)).toEqual(view(theirs));
  });
}

export const ROUTERS = [
  { name: "Alpha_1", roleAttributes: ["x", "y"], cost: 1, disabled: true, tags: { k: "v" } },
  { name: "beta%20", roleAttributes: ["y"], cost: 2, tags: { k: "w" } },
  { name: "GAMMA \\ Ü", roleAttributes: [], cost: 3, disabled: true, tags: { k: null } },
  { name: "delta", roleAttributes: ["x-long"], cost: 4 },
  { name: "5", roleAttributes: ["x", "y", "z"], cost: 55, disabled: true, tags: { k: "v" } },
];

const FILTERS = [
  ...["true", "false", "disabled", "not disabled", "disabled = false", "isSystem = false", "connected = false"],
  ...['name = "Alpha_1"', 'name != "Alpha_1"', 'name < "a"', "name = 5", "name < 6", "name in [5]"],
  ...["disabled and cost = 2 or cost = 4", "not disabled and cost = 1", "cost=1 or cost=2 and cost=3", "((cost = 1))"],
  ...["cost = 2.0", "cost > 1.5 and cost < 4", "cost between 2 and 4", "cost not between 2 and 4", "cost in [1,4]"],
  ...["cost not in [1,4]", 'cost in ["55"]', "cost contains 5", 'name contains "_1"', 'name contains "ALPHA"'],
  ...['name icontains "ALPHA"', 'name not contains "ta"', 'name icontains "ü"', "name contains 20"],
  ...["createdAt > datetime(2020-01-01T00:00:00Z)", "fingerprint = null", "fingerprint != null", 'fingerprint != "x"'],
  ...['fingerprint not in ["x"]', 'fingerprint not contains "x"', 'not (fingerprint = "x")', 'not name != "delta"'],
  ...['anyOf(roleAttributes) = "y"', 'anyOf(roleAttributes) contains "long"', 'anyOf(roleAttributes) not in ["x"]'],
  ...['allOf(roleAttributes) = "y"', 'allOf(roleAttributes) != "y"', 'allOf(roleAttributes) not in ["x"]'],
  ...["isEmpty(roleAttributes)", "count(roleAttributes) = 2", "count(roleAttributes) between 1 and 3"],
  ...['tags.k = "v"', 'tags.k != "v"', "tags.k = null", "tags.k != null", 'tags.k in ["v","w"]'],
  ...["sort by name", "sort by name desc", "sort by cost desc limit 2", "sort by disabled, cost desc"],
  ...["true sort by name skip 1 limit 2", "cost >= 2 sort by cost desc skip 1 limit 2", "TRUE"],
  // refused by both
  ...['roleAttributes = "x"', 'anyOf(name) = "x"', "bogus = 1", 'cost = "1"', "name", "name = true", "a2=1", "a='x'"],
  ...['name contains"x"', 'name="x"and disabled', "cost in []", "limit 5 skip 1", "count = 1", " ", "true and"],
  ...['cost not  in ["x"]', "name between 1 and 9", "name > null", 'name in ["delta", 5]', "sort by roleAttributes"],
];
