import { describe, expect, test } from "vitest";
import { LineReader } from "./watch.ts";

function read(chunks: readonly (string | Buffer)[], limit?: number): unknown[] {
  const reader = new LineReader(limit);
  const values = chunks.flatMap((chunk) => [...reader.push(Buffer.from(chunk))]);
  reader.end();
  return values;
}

describe("a reader of lines", () => {
  test("gives one value a line, however the bytes are cut", () => {
    const text = '{"a":1}\n\n{"b":"ü\\n€"}\r\n[2]\n';
    const bytes = Buffer.from(text);
    for (let size = 1; size <= bytes.length; size += 1) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
        bytes.subarray(i * size, (i + 1) * size),
      );
      expect(read(chunks)).toEqual([{ a: 1 }, { b: "ü\n€" }, [2]]);
    }
  });

  test("does not keep a view of a chunk that the socket uses again", () => {
    const reader = new LineReader();
    const chunk = Buffer.from('{"a":');
    expect([...reader.push(chunk)]).toEqual([]);
    chunk.fill(0);
    expect([...reader.push(Buffer.from("1}\n"))]).toEqual([{ a: 1 }]);
  });

  test.each([
    ["no JSON", ["{a}\n"], /a line is no JSON/],
    ["an end within a line", ['{"a":1}\n{"b"'], /ended within a line, after 4 bytes/],
    ["a line that is too long", ["x".repeat(60), "y".repeat(60)], /more than 100 bytes/],
    ["a line that is too long at once", [`"${"x".repeat(200)}"\n`], /more than 100 bytes/],
  ])("refuses %s", (_, chunks, message) => {
    expect(() => read(chunks, 100)).toThrow(message);
  });
});
