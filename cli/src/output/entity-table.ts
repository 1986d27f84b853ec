/** Tables of entities. */
import type { CommandContext } from "../context.ts";
import type { Entity } from "../entities/entity.ts";
import { columnsOf } from "../kinds/columns.ts";
import type { Kind } from "../kinds/kind.ts";
import { bold, hasColours, widthOf } from "../terminal/screen.ts";
import { cell, wordsOfPath } from "./cell.ts";
import { table } from "./table.ts";

export interface EntityTableOptions {
  readonly isWide: boolean;
  readonly hasHeading: boolean;
}

export async function entityTable(
  kind: Kind,
  entities: readonly Entity[],
  { isWide, hasHeading }: EntityTableOptions,
  { stdout, env }: CommandContext,
): Promise<string> {
  const columns = columnsOf(kind, isWide);
  return await table(
    columns.map(headingOf),
    entities.map((entity) => columns.map((path) => cell(entity, path))),
    {
      // Wide tables are as wide as they are.
      width: isWide ? undefined : widthOf(stdout),
      heading: (line) => bold(line, hasColours(stdout, env)),
      hasHeading,
    },
  );
}

/** `isOnline` is `ONLINE`, `primary.cert.allowed` is `CERT`. */
function headingOf(path: string): string {
  if (path === "edgeRouterConnectionStatus") return "STATUS";
  return wordsOfPath(path)
    .replace(/^is /, "")
    .replace(/^(primary|secondary) (require )?/, "")
    .replace(/ allowed$/, "")
    .toUpperCase();
}
