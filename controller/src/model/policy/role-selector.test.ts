import { ApiError } from "@sallyport/api";
import { describe, expect, it } from "vitest";
import type { RoleSelector } from "../../policy/selector.ts";
import { displayRoles, formatRoles, parseRoles, resolveSelector, roleAttributes } from "./role-selector.ts";

describe("role selectors", () => {
  it("are taken apart, sorted and without duplicates", () => {
    expect(parseRoles("f", ["@b", "#z", "#a", "@b", "#z"])).toEqual({ all: false, attrs: ["a", "z"], ids: ["b"] });
    expect(parseRoles("f", ["#all"])).toEqual({ all: true, attrs: [], ids: [] });
    expect(parseRoles("f", null)).toEqual({ all: false, attrs: [], ids: [] });
    expect(formatRoles({ all: false, attrs: ["a"], ids: ["b"] })).toEqual(["#a", "@b"]);
  });

  it.each([[["#all", "#a"]], [["a"]], [[""]]])("refuse %j, naming the field", (roles) => {
    const error = caught(() => parseRoles("serviceRoles", roles));
    expect([error.status, error.cause?.field]).toEqual([400, "serviceRoles"]);
  });

  it("names behind @ become ids, an id wins over an equal name", () => {
    const found = [
      { id: "id-1", name: "one" },
      { id: "one", name: "other" },
    ];
    const selector: RoleSelector = { all: false, attrs: [], ids: ["one"] };
    expect(resolveSelector("f", "services", selector, found).ids).toEqual(["one"]);
    expect(resolveSelector("f", "services", selector, found.slice(0, 1)).ids).toEqual(["id-1"]);
    expect(caught(() => resolveSelector("f", "services", selector, [])).cause?.reason).toBe(
      "no services found with the given ids",
    );
  });

  it("are displayed by name where the name is known", () => {
    const selector: RoleSelector = { all: false, attrs: ["a"], ids: ["1", "2"] };
    expect(displayRoles(selector, new Map([["1", "one"]]))).toEqual([
      { role: "#a", name: "#a" },
      { role: "@1", name: "@one" },
      { role: "@2", name: "@2" },
    ]);
  });

  it("attributes carry no prefix and are sorted bytewise", () => {
    expect(roleAttributes(["b", "é", "a", "B", "b"])).toEqual(["B", "a", "b", "é"]);
    for (const bad of ["#x", "@x"]) expect(caught(() => roleAttributes([bad])).cause?.field).toBe("roleAttributes");
  });
});

function caught(work: () => unknown): ApiError {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error("expected an ApiError");
}
