import { describe, expect, it } from "vitest";
import { parseCommandLine } from "./initdb-command-line.ts";

const nothing = { input: undefined, output: undefined, errorsToOutput: false };

describe("a command line of initdb", () => {
  it.each([
    ['"/opt/bin/postgres" -V', { ...nothing, program: "/opt/bin/postgres", args: ["-V"] }],
    [
      '"/opt/bin/postgres" --check -F -c log_checkpoints=false -c max_connections=100 -c dynamic_shared_memory_type=posix < "/dev/null" > "/dev/null" 2>&1',
      {
        program: "/opt/bin/postgres",
        args: [
          ...["--check", "-F", "-c", "log_checkpoints=false", "-c", "max_connections=100"],
          ...["-c", "dynamic_shared_memory_type=posix"],
        ],
        input: "/dev/null",
        output: "/dev/null",
        errorsToOutput: true,
      },
    ],
    [
      '"/opt/bin/postgres" --single -F -O -j -c search_path=pg_catalog template1 >/dev/null',
      {
        ...nothing,
        program: "/opt/bin/postgres",
        args: ["--single", "-F", "-O", "-j", "-c", "search_path=pg_catalog", "template1"],
        output: "/dev/null",
      },
    ],
    ['"/with space/postgres" -X 16777216', { ...nothing, program: "/with space/postgres", args: ["-X", "16777216"] }],
    ["  postgres  ", { ...nothing, program: "postgres", args: [] }],
    ['a"b c"d ""', { ...nothing, program: "ab cd", args: [""] }],
  ])("%s is understood", (text, command) => {
    expect(parseCommandLine(text)).toEqual(command);
  });

  it.each([
    "",
    "  ",
    "postgres; id",
    "postgres && id",
    "postgres | id",
    "postgres & id",
    "postgres\nid",
    '"postgres\nid"',
    "postgres $HOME",
    "postgres `id`",
    "postgres $(id)",
    '"$HOME/postgres"',
    '"`id`"',
    "postgres 'a'",
    "postgres \\a",
    "postgres *",
    "postgres ~",
    "postgres >> file",
    "postgres 2> file",
    "postgres >&2",
    "postgres <",
    "postgres > < a",
    "postgres << a",
    '"postgres',
    "(postgres)",
    "postgres # comment",
  ])("%o is refused", (text) => {
    expect(parseCommandLine(text)).toBeUndefined();
  });
});
