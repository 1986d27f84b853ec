import { describe, expect, it } from "vitest";
import { parseCommandLine, UsageError } from "./command-line.ts";

describe("the command line", () => {
  it.each<[string, object]>([
    ["", { command: "help" }],
    ["--help", { command: "help" }],
    ["init --help", { command: "help" }],
    ["--version", { command: "version" }],
    ["run c.yml", { command: "run", file: "c.yml", replica: {} }],
    [
      "run c.yml --replica-id c1 --replica-ctrl-bind=:1",
      { command: "run", file: "c.yml", replica: { "replica-id": "c1", "replica-ctrl-bind": ":1" } },
    ],
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
    ["run --fast", /--fast/],
    ["run c.yml --replica-id", /--replica-id/],
    ["run --replica-id c1", /exactly one configuration file/],
    ["init", /--dir DIR/],
    ["init --config c.yml --host h", /--host can't stand beside --config/],
    ["init --config c.yml --dir d", /--dir can't stand beside --config/],
    ["init --dir d extra", /extra/],
    ["init --dir d --what x", /--what/],
    ["init --dir d --api-port 0", /--api-port must be a port/],
    ["init --dir d --key-type dsa", /--key-type must be ec or rsa, found dsa/],
    ["init --dir d --ctrl-port x", /--ctrl-port must be a port/],
    ["init --dir d --host a/b", /--host must be/],
    ["init --dir d --database-url mysql://x", /--database-url must be a PostgreSQL URL/],
    ["init --dir d --database-url postgres://h1,h2:x/d", /--database-url must be .*: port 2 is none/],
  ])("%s is refused", (line, message) => {
    const parse = () => parseCommandLine(line.split(" "));
    expect(parse).toThrow(UsageError);
    expect(parse).toThrow(message);
  });
});

describe("admin reset", () => {
  it("is read from the command line", () => {
    expect(parseCommandLine(["admin", "reset", "c.yml"])).toEqual({
      command: "admin",
      action: "reset",
      file: "c.yml",
      isGenerated: false,
      hasOwnPolicy: false,
    });
    const args = ["admin", "reset", "--identity", "x", "--username", "root", "--generate", "--own-policy", "c.yml"];
    expect(parseCommandLine(args)).toMatchObject({
      identity: "x",
      username: "root",
      isGenerated: true,
      hasOwnPolicy: true,
    });
  });

  it.each([
    [["admin"], "expected reset, found nothing"],
    [["admin", "remove", "c.yml"], "expected reset, found remove"],
    [["admin", "reset"], "exactly one configuration file"],
    [["admin", "reset", "a.yml", "b.yml"], "exactly one configuration file"],
    [["admin", "reset", "c.yml", "--password", "x"], "Unknown option '--password'"],
    [["admin", "reset", "c.yml", "--username", "abc"], "4 to 100 characters"],
    [["admin", "reset", "c.yml", "--identity", ""], "--identity needs"],
  ])("%j is refused", (args, reason) => {
    expect(() => parseCommandLine(args)).toThrow(UsageError);
    expect(() => parseCommandLine(args)).toThrow(reason);
  });
});

describe("pki", () => {
  it.each([
    ["status f", { action: "status" }],
    ["rotate f", { action: "rotate", newKeys: false }],
    ["rotate f --new-keys", { action: "rotate", newKeys: true }],
    [
      "rotate f --ca-cert c --ca-key k",
      { action: "rotate", newKeys: false, imported: { certFile: "c", keyFile: "k" } },
    ],
    ["rotate --retire f", { action: "retire", isForced: false }],
    ["rotate f --retire --force", { action: "retire", isForced: true }],
    ["rotate f --tokens", { action: "rotate-tokens", atOnce: false }],
    ["rotate --tokens --at-once f", { action: "rotate-tokens", atOnce: true }],
  ])("%s", (line, expected) => {
    expect(parseCommandLine(["pki", ...line.split(" ")])).toEqual({ command: "pki", file: "f", ...expected });
  });

  it.each([
    "",
    "explode f",
    "rotate",
    "status f g",
    "status f --retire",
    "rotate f --force",
    "rotate f --ca-key k",
    "rotate f --retire --new-keys",
    "rotate f --unknown",
    "rotate f --at-once",
    "rotate f --tokens --new-keys",
    "rotate f --tokens --retire",
    "status f --tokens",
  ])("refuses: pki %s", (line) => {
    expect(() => parseCommandLine(["pki", ...line.split(" ").filter(Boolean)])).toThrow(UsageError);
  });
});
