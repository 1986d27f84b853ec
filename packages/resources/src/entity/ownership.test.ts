import { describe, expect, test } from "vitest";
import {
  isOurs,
  mergedTags,
  OWNER_TAGS,
  ownerFilter,
  ownershipOf,
  releasedTags,
  sameTags,
  tagsOf,
} from "./ownership.ts";
import { OWNER } from "./testing/surroundings.ts";

describe("whose an entity is", () => {
  test.each([
    ["without tags", null, "unowned"],
    ["with the tags of others", { team: "a" }, "unowned"],
    ["with a uid of null", { [OWNER_TAGS.uid]: null }, "unowned"],
    ["with our tags", tagsOf(OWNER), "ours"],
    ["after the operator got another instance id", tagsOf({ ...OWNER, cluster: "c-0" }), "ours"],
    ["of a resource of the same place that is gone", tagsOf({ ...OWNER, uid: "u-0" }), "predecessor"],
    ["of the same place in another cluster", tagsOf({ ...OWNER, uid: "u-0", cluster: "c-2" }), "foreign"],
    ["of another resource", tagsOf({ ...OWNER, uid: "u-2", name: "other" }), "foreign"],
    ["of another kind", tagsOf({ ...OWNER, uid: "u-2", kind: "Other" }), "foreign"],
    ["of another ordinal", tagsOf({ ...OWNER, ordinal: 1 }), "foreign"],
  ])("%s", (_what, tags, expected) => {
    expect(ownershipOf(tags, OWNER).kind).toBe(expected);
    expect(isOurs({ tags }, OWNER)).toBe(expected === "ours");
  });

  test("an ordinal is the owner's only with its number", () => {
    const first = { ...OWNER, ordinal: 0 };
    expect(ownershipOf(tagsOf(first), first).kind).toBe("ours");
    expect(ownershipOf(tagsOf(OWNER), first).kind).toBe("foreign");
    expect(ownershipOf(tagsOf({ ...first, uid: "u-0" }), first).kind).toBe("predecessor");
    expect(ownerFilter(first)).toBe('tags.sallyport-uid = "u-1" and tags.sallyport-ordinal = "0"');
  });

  test("names the owner of what another resource has", () => {
    const other = ownershipOf(tagsOf({ ...OWNER, uid: "u-2", name: "other", cluster: "c-2" }), OWNER);
    expect(other).toEqual({ kind: "foreign", owner: "Sample default/other of cluster c-2" });
  });
});

describe("tags", () => {
  test("keys have letters and hyphens only, which filters know", () => {
    for (const key of Object.values(OWNER_TAGS)) expect(key).toMatch(/^[a-z-]+$/);
  });

  test("of others stay, also when they look like ours from afar", () => {
    expect(mergedTags({ team: "a", sallyport: true, count: null }, OWNER)).toEqual({
      team: "a",
      sallyport: true,
      count: null,
      ...tagsOf(OWNER),
    });
  });

  test("of the user go when they leave the spec", () => {
    const before = mergedTags({ team: "a" }, OWNER, { tier: "1", stage: "test" });
    expect(before).toMatchObject({ team: "a", tier: "1", stage: "test" });
    const after = mergedTags(before, OWNER, { stage: "live" });
    expect(after).toMatchObject({ team: "a", stage: "live" });
    expect(after).not.toHaveProperty("tier");
    expect(mergedTags(after, OWNER)).toEqual({ team: "a", ...tagsOf(OWNER) });
  });

  test("that list the user's tags wrongly take nothing away", () => {
    for (const value of ["", "{", "3", '{"team":1}', true]) {
      expect(mergedTags({ team: "a", [OWNER_TAGS.userTags]: value }, OWNER)).toMatchObject({ team: "a" });
    }
  });

  test("of the ownership go when the entity is let go, the user's stay", () => {
    const tags = mergedTags({ team: "a" }, { ...OWNER, ordinal: 3 }, { tier: "1" });
    expect(releasedTags(tags)).toEqual({ team: "a", tier: "1" });
    expect(releasedTags(null)).toEqual({});
  });

  test("are the same whether null stands there or nothing", () => {
    expect(sameTags({}, null)).toBe(true);
    expect(sameTags({ a: null }, {})).toBe(true);
    expect(sameTags({ a: "1" }, { a: "1", b: null })).toBe(true);
    expect(sameTags({ a: "1" }, { a: "1", b: "2" })).toBe(false);
    expect(sameTags({ a: "1" }, { a: true })).toBe(false);
  });
});
