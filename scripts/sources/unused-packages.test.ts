import { describe, expect, it } from "vitest";
import { unusedPackages } from "./unused-packages.ts";

describe("packages that are declared", () => {
  it("must be imported by some file, as a whole, in part, for its effect, or when needed", () => {
    const sources = [
      'import pg from "pg";\nimport "reflect-metadata";',
      'import { x } from "@sallyport/wire/testing";\nconst y = await import("koffi");',
    ];
    const declared = ["pg", "reflect-metadata", "@sallyport/wire", "koffi", "pkijs", "pg-pool"];
    expect(unusedPackages(declared, sources)).toEqual(["pkijs", "pg-pool"]);
  });
});
