import { expect, it } from "vitest";
import { sourcePlaces } from "./check-pages.ts";

it("places in the source are paths, with a name when it follows directly; what stands for several files is none", () => {
  const page = "`a/b.ts` `made`: then `c/d` and `name`. `kinds/<kind>/plan.ts`\n```sh\n`no/file.ts`\n```\n";
  expect(sourcePlaces(page)).toEqual([{ file: "a/b.ts", name: "made" }, { file: "c/d" }]);
});
