import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const PRELOAD = join(import.meta.dirname, "first-process.ts");

/** Runs a script behind the preload, as a process that believes its number is 1 or not; says how it ended on SIGTERM. */
async function endOf(pid: number, script: string): Promise<{ code: number | null; signal: string | null }> {
  const number = `Object.defineProperty(process, "pid", { value: ${pid} });`;
  const child = spawn(
    process.execPath,
    [`--import=data:text/javascript,${encodeURIComponent(number)}`, `--import=${PRELOAD}`, "-e", script],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  const [code, signal] = await once(child, "exit");
  return { code, signal };
}

const WAITS = `setInterval(() => {}, 1000); console.log("ready");`;

describe("the first process of a container", () => {
  it("ends by a signal that its program does not handle, with the status that shells give that", async () => {
    expect(await endOf(1, WAITS)).toEqual({ code: 128 + 15, signal: null });
  });

  it("leaves a signal that its program handles to the program", async () => {
    const handles = `process.on("SIGTERM", () => setTimeout(() => process.exit(7), 50)); ${WAITS}`;
    expect(await endOf(1, handles)).toEqual({ code: 7, signal: null });
  });

  it("is as every process when it is not the first one", async () => {
    expect(await endOf(1234, WAITS)).toEqual({ code: null, signal: "SIGTERM" });
  });
});
