import { execFileSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { librariesOf } from "./libraries.ts";

describe.runIf(process.platform === "linux")("the libraries of a program", () => {
  it("are those that the dynamic loader finds, and the loader", () => {
    const listed = execFileSync("ldd", [process.execPath], { encoding: "utf8" });
    const expected = [...listed.matchAll(/^\t(?:\S+ => )?(\/\S+) \(/gm)].map((match) => match[1] ?? "");
    const found = librariesOf([process.execPath]);
    expect(found.map(({ path }) => basename(path)).sort()).toEqual(expected.map((path) => basename(path)).sort());
    expect(found.map(({ source }) => source).sort()).toEqual(expected.map((path) => realpathSync(path)).sort());
  });

  it("lie where every system has a folder and no link, but for the loader, which is found by its own path", () => {
    for (const { path } of librariesOf([process.execPath])) expect(path).toMatch(/^(\/usr\/lib|\/lib\d*\/ld-)/);
  });
});
