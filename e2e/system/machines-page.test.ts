/** The commands of docs/start/machines.md, followed line by line on free ports. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, expect, it } from "vitest";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const ROOT = join(import.meta.dirname, "../..");
const PAGE = "docs/start/machines.md";
const folder = makeScratch("machines-page");
let shell: Program | undefined;

afterAll(async () => {
  await shell?.stop();
  removeScratch(folder);
});

/** The page's shell commands. Programs that stay in the foreground there run in the background here. */
async function script(): Promise<string> {
  const page = readFileSync(join(ROOT, PAGE), "utf8");
  const blocks = [...page.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = ""]) => block.trim());
  const ports = new Map<string, number>();
  for (const port of ["1280", "3022", "8080", "8000"]) ports.set(port, await freePort());
  const lines = blocks
    .join("\n")
    .split("\n")
    .filter((line) => !line.startsWith("export PATH="))
    .map((line) => line.replaceAll(/\b(1280|3022|8080|8000)\b/g, (port) => String(ports.get(port))))
    .flatMap((line) => {
      if (line.startsWith("sallyport-controller init")) return [`${line} --api-port ${ports.get("1280")}`];
      if (line.startsWith("sallyport-router create-config"))
        return [line.replace(" >", ` --port ${ports.get("3022")} --link-port ${ports.get("3022")} >`)];
      const [, program] = /^sallyport-(controller|router) run /.exec(line) ?? [];
      if (program !== undefined) {
        const ready = program === "controller" ? "controller ready" : "the router is running";
        return [`${line} > ${program}.log &`, `until grep -q '${ready}' ${program}.log; do sleep 0.2; done`];
      }
      if (line.startsWith("sallyport login")) {
        const fingerprint =
          "sallyport-controller pki status ctrl/controller.yml | grep -o '\\([0-9A-F]\\{2\\}:\\)\\{31\\}[0-9A-F]\\{2\\}' | head -1";
        return [`${line} --password-file password --fingerprint "$(${fingerprint})"`];
      }
      // The page says that the answer is no, which is the exit status, too.
      if (line.startsWith("sallyport why")) return [`${line} || true`];
      return [line];
    });
  return ["set -euo pipefail", "trap 'kill $(jobs -p)' EXIT", ...lines, "sallyport why laptop web"].join("\n");
}

it("leads from nothing to a web server on the overlay, with the program's own command line", async () => {
  shell = new Program({
    name: "page",
    command: "bash",
    args: ["-c", `printf '%s\\n' "$SALLYPORT_ADMIN_PASSWORD" > password\n${await script()}`],
    cwd: folder,
    env: {
      PATH: `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}`,
      SALLYPORT_ADMIN_PASSWORD: "a-password-of-the-page",
      SALLYPORT_CONFIG_DIR: join(folder, "settings"),
    },
  });
  await shell.line(/^laptop cannot dial web$/);
  await shell.line(/hello from the overlay/);
  await shell.line(/^laptop can dial web$/);
  expect(await shell.exited).toBe(0);
}, 240_000);
