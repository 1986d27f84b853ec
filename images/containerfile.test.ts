import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { configOf } from "./build.ts";
import { PROGRAM_IMAGES } from "./programs.ts";

interface Instruction {
  readonly name: string;
  readonly value: string;
}

/** Instructions behind the last FROM. */
function lastStage(text: string): Instruction[] {
  const lines = text.replaceAll("\\\n", " ").split("\n");
  const instructions = lines
    .filter((line) => /^[A-Z]+ /.test(line))
    .map((line) => ({ name: line.split(" ", 1)[0] ?? "", value: line.slice(line.indexOf(" ") + 1).trim() }));
  return instructions.slice(instructions.findLastIndex(({ name }) => name === "FROM"));
}

function pairs(text: string): Record<string, string> {
  return Object.fromEntries([...text.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S+))/g)].map((m) => [m[1], m[2] ?? m[3]]));
}

describe.each(Object.values(PROGRAM_IMAGES))("the Containerfile of the $program", (image) => {
  const text = readFileSync(join(import.meta.dirname, image.program, "Containerfile"), "utf8");
  const stage = lastStage(text);
  const values = (name: string) => stage.filter((each) => each.name === name).map((each) => each.value);

  it("starts the program as the image that is made without a tool does", () => {
    const config = configOf(image, { version: "1.2.3", license: "Apache-2.0" });
    expect(values("USER")).toEqual([config.user]);
    expect(values("WORKDIR")).toEqual([config.workingDir]);
    expect(values("STOPSIGNAL")).toEqual([config.stopSignal]);
    expect(values("VOLUME").map((value) => JSON.parse(value))).toEqual([config.volumes]);
    expect(values("EXPOSE")).toEqual(config.ports);
    expect(values("ENTRYPOINT").map((value) => JSON.parse(value))).toEqual([config.entrypoint]);
    expect(values("CMD").map((value) => JSON.parse(value))).toEqual([config.command]);
    expect(pairs(values("ENV").join(" "))).toEqual(config.env);
    expect(
      pairs(
        values("LABEL")
          .join(" ")
          .replace(/\$\{VERSION\}/, "1.2.3"),
      ),
    ).toEqual(config.labels);
  });

  it("installs what it takes from the system in the stage that takes it, and nothing in the image", () => {
    expect(text.includes("nftables iproute2")).toBe(image.tools.length > 0);
    expect(stage.map(({ name }) => name)).not.toContain("RUN");
    expect(text).toContain(`--folder /image --on "\${BASE}" ${image.program}\n`);
  });
});
