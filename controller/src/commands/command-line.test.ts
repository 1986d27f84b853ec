import { describe, expect, it } from "vitest";
import { parseCommandLine, UsageError } from "./command-line.ts";

describe("the command line", () => {
  it.each<[string, object]>([
    ["", { command: "help" }],
    ["--help", { command: "help" }],
    ["init --help", { command: "help" }],
    ["--version", { command: "version" }],
    ["run c.yml", { command: "run", file: "c.yml" }],
    ["init --dir d", { command: "init", place: { dir: "d", host: "localhost", apiPort: 1280, ctrlPort: 1280 } }],
    [
      "init --dir d --api-port 2000",
      { command: "init", place: { dir: "d", host: "localhost", apiPort: 2000, ctrlPort: 2000 } },
    ],
    ["init --config c.yml --key-type rsa", { command: "init", place: { file: "c.yml" }, keyType: "rsa" }],
    ["init --config c.yml", { command: "init", place: { file: "c.yml" } }],
    [
      "init --config c.yml --ca-cert a --ca-key b",
      { command: "init", place: { file: "c.yml" }, imported: { certFile: "a", keyFile: "b" } },
    ],
    [
      "init --dir=d --host [::1] --ctrl-port=3 --database-url postgres://u:p@h/d",
      {
        command: "init",
        place: { dir: "d", host: "::1", apiPort: 1280, ctrlPort: 3, databaseUrl: "postgres://u:p@h/d" },
      },
    ],
  ])("%s", (line, expected) => expect(parseCommandLine(line.split(" ").filter(Boolean))).toEqual(expected));

  it.each<[string, RegExp]>([
    ["start", /unknown command start/],
    ["run", /exactly one configuration file/],
    ["run a b", /exactly one configuration file/],
    ["run --fast", /exactly one configuration file/],
    ["init", /--dir DIR/],
    ["init --config c.yml --host h", /--host can't stand beside --config/],
    ["init --config c.yml --dir d", /--dir can't stand beside --config/],
    ["init --dir d extra", /extra/],
    ["init --dir d --what x", /--what/],
    ["init --dir d --api-port 0", /--api-port must be a port/],
    ["init --dir d --key-type dsa", /--key-type must be ec or rsa, found dsa/],
    ["init --dir d --ctrl-port x", /--ctrl-port must be a port/],
    ["init --dir d --host a/b", /--host must be/],
    ["init --dir d --database-url mysql://x", /--database-url must have the form/],
  ])("%s is refused", (line, message) => {
    const parse = () => parseCommandLine(line.split(" "));
    expect(parse).toThrow(UsageError);
    expect(parse).toThrow(message);
  });
});
