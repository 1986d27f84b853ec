import { expect, it } from "vitest";
import { createLogger } from "./logging.ts";
import { readable } from "./readable-log.ts";

function shown(colours: boolean, log: (logger: ReturnType<typeof createLogger>) => void): string {
  const parts: string[] = [];
  log(
    createLogger(
      "debug",
      readable((part) => void parts.push(part), { colours }),
    ),
  );
  return parts.join("").replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
}

it("is one line for people: time, level, message, fields", () => {
  expect(shown(false, (log) => log.info({ port: 1280, host: "a b", list: [1, "x"] }, "controller ready"))).toBe(
    'TIME INFO  controller ready port=1280 host="a b" list=[1,"x"]\n',
  );
});

it("paints levels on a terminal only", () => {
  expect(shown(true, (log) => log.warn({}, "x"))).toBe("\x1b[2mTIME\x1b[0m \x1b[33mWARN \x1b[0m x\n");
});

it("shows a stack below its line", () => {
  const text = shown(false, (log) => log.error({ error: new Error("it broke") }, "failed"));
  expect(text).toMatch(/^TIME ERROR failed error="it broke"\n {4}Error: it broke\n {4}at .*readable-log.test/);
});

it("hides secrets, and what would steer the terminal", () => {
  const text = shown(false, (log) => log.info({ token: "geheim", peer: "a\x1b[2Jb", line: "a\nb" }, "m\x1b]0;x\x07n"));
  expect(text).toBe('TIME INFO  m?]0;x?n token=[redacted] peer=a?[2Jb line="a b"\n');
});
