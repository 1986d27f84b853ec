import { describe, expect, it } from "vitest";
import { UsageError } from "./command.ts";
import { parseCommandLine } from "./command-line.ts";

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
  ])("refuses: pki %s", (line) => {
    expect(() => parseCommandLine(["pki", ...line.split(" ").filter(Boolean)])).toThrow(UsageError);
  });
});
