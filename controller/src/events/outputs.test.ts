import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FileOutput, StreamOutput } from "./outputs.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "events-"));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

const line = (n: number) => JSON.stringify({ n, text: "x".repeat(80) });
const numbers = (text: string) =>
  text
    .split("\n")
    .filter((row) => row !== "")
    .map((row) => (JSON.parse(row) as { n: number }).n);

describe("a file of events", () => {
  const output = (options: Partial<ConstructorParameters<typeof FileOutput>[0]> = {}) =>
    new FileOutput({
      path: join(folder, "events.json"),
      maxBytes: 1024 * 1024,
      maxBackups: 0,
      bufferSize: 100_000,
      log: silentLogger,
      ...options,
    });
  const content = (name = "events.json") => readFileSync(join(folder, name), "utf8");

  it("holds one object per line, in order, after what was there", async () => {
    writeFileSync(join(folder, "events.json"), `${line(0)}\n`);
    const file = output();
    for (let n = 1; n <= 5_000; n++) file.write("router", line(n));
    await file.flushed();
    expect(numbers(content())).toEqual(Array.from({ length: 5_001 }, (_, n) => n));
    await file.close();
    expect(file.dropped).toBe(0);
  });

  it("begins a new line behind one that was cut off", async () => {
    writeFileSync(join(folder, "events.json"), '{"n":0,"te');
    const file = output();
    file.write("router", line(1));
    await file.close();
    expect(content()).toBe(`{"n":0,"te\n${line(1)}\n`);
  });

  it("begins a new file when one is full, and keeps so many older ones", async () => {
    const file = output({ maxBytes: 1_000, maxBackups: 3 });
    writeFileSync(join(folder, "events-notes.json"), "mine");
    for (let n = 0; n < 100; n++) {
      file.write("router", line(n));
      await file.flushed();
    }
    await file.close();
    const names = readdirSync(folder).sort();
    const backups = names.filter((name) => /^events-\d{4}-\d\d-\d\dT[\d.-]+\.json$/.test(name));
    expect(backups).toHaveLength(3);
    expect(names).toContain("events-notes.json");
    const kept = [...backups, "events.json"].flatMap((name) => numbers(content(name)));
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, at) => 100 - kept.length + at));
    for (const name of [...backups, "events.json"]) expect(content(name).length).toBeLessThanOrEqual(1_000);
  });

  it("keeps older ones in order when the clock goes back", async () => {
    const file = output({ maxBytes: 100, maxBackups: 3 });
    const start = Date.now();
    for (let n = 0; n < 10; n++) {
      vi.spyOn(Date, "now").mockReturnValue(start - n * 60_000);
      file.write("router", line(n));
      await file.flushed();
    }
    await file.close();
    const names = readdirSync(folder).sort();
    expect(names.flatMap((name) => numbers(content(name)))).toEqual([6, 7, 8, 9]);
  });

  it("goes on in a new file when another program moves the present one away", async () => {
    const file = output();
    file.write("router", line(1));
    await file.flushed();
    renameSync(join(folder, "events.json"), join(folder, "moved.json"));
    await expect
      .poll(async () => {
        file.write("router", line(2));
        await file.flushed();
        return readdirSync(folder).includes("events.json");
      })
      .toBe(true);
    await file.close();
    expect(numbers(content("moved.json"))[0]).toBe(1);
  });

  it("drops what it has no room for, and never waits", async () => {
    const file = output({ bufferSize: 10 });
    for (let n = 0; n < 1_000; n++) file.write("router", line(n));
    await file.close();
    expect(file.dropped).toBe(990);
    expect(numbers(content())).toHaveLength(10);
  });

  it("counts what a full disk or a missing folder costs, and goes on when that is over", async () => {
    const path = join(folder, "later", "events.json");
    const file = output({ path });
    file.write("router", line(1));
    await expect.poll(() => file.dropped).toBe(1);
    const full = new FileOutput({
      path: "/dev/full",
      maxBytes: 1_000,
      maxBackups: 0,
      bufferSize: 10,
      log: silentLogger,
    });
    full.write("router", line(1));
    await expect.poll(() => full.dropped).toBe(1);
    await full.close();
    await file.close();
  });
});

describe("a stream of events", () => {
  it("gets whole lines, as fast as it takes them", async () => {
    const stream = new PassThrough();
    const output = new StreamOutput({ name: "test", stream, bufferSize: 10_000, log: silentLogger });
    for (let n = 0; n < 1_000; n++) output.write("router", line(n));
    let text = "";
    stream.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    await expect.poll(() => numbers(text).length).toBe(1_000);
    await output.close();
  });

  it("holds a bounded number of events for one that takes nothing", async () => {
    const stuck = new Writable({ highWaterMark: 10, write: () => {} });
    const output = new StreamOutput({ name: "test", stream: stuck, bufferSize: 100, log: silentLogger });
    for (let n = 0; n < 1_000; n++) {
      output.write("router", line(n));
      if (n === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(output.dropped).toBe(899);
    await output.close();
    stuck.destroy();
  });
});
