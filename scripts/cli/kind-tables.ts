/** Files of `cli/src/kinds/generated`. */
import type { Kind } from "../../cli/src/kinds/kind.ts";
import { contractFields } from "./contract-fields.ts";
import { contractKinds } from "./contract-kinds.ts";

const HEAD = "// Made from the contract of the APIs: `npm run generate`.\n";

/** By name, the texts of the files. */
export function kindTables(): ReadonlyMap<string, string> {
  const kinds = contractKinds();
  const bare = kinds.map(({ api: _api, operations: _operations, shown: _shown, ...kind }): Kind => kind);
  const rows = bare.map((kind) => `  ${JSON.stringify(kind)},\n`).join("");
  const fields = Object.entries(contractFields(kinds)).map(
    ([kind, each]) =>
      `  ${JSON.stringify(kind)}: [\n${each.map((field) => `    ${JSON.stringify(field)},\n`).join("")}  ],\n`,
  );
  return new Map([
    [
      "kinds.ts",
      `${HEAD}import type { Kind } from "../kind.ts";\n\n/** Every kind. */\nexport const KINDS: readonly Kind[] = [\n${rows}];\n`,
    ],
    [
      "fields.ts",
      `${HEAD}import type { Field } from "../kind.ts";\n\n/** The fields of each kind. */\nexport const FIELDS: Readonly<Record<string, readonly Field[]>> = {\n${fields.join("")}};\n`,
    ],
  ]);
}
