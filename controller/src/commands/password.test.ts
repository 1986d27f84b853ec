import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { askPassword, NoPasswordError } from "./password.ts";

describe("a password", () => {
  const nowhere = () => undefined;
  const from = (...chunks: string[]) => {
    const input = new PassThrough();
    for (const chunk of chunks) input.write(chunk);
    input.end();
    return input;
  };

  test.each([
    [["secret\n"], "secret"],
    [["sec", "ret\r\n", "more\n"], "secret"],
    [["with spaces "], "with spaces "],
  ])("is the first line of what is piped in: %j", async (chunks, password) => {
    expect(await askPassword(from(...chunks), nowhere)).toBe(password);
  });

  test("that is not there is an error", async () => {
    await expect(askPassword(from(), nowhere)).rejects.toThrow(NoPasswordError);
    await expect(askPassword(from("\n"), nowhere)).rejects.toThrow("holds no password");
  });

  const typed = async (text: string) => {
    const input = Object.assign(from(text), { isTTY: true, setRawMode: () => input });
    const shown: string[] = [];
    const password = await askPassword(input as never, (each) => shown.push(each)).catch(
      (error: Error) => error.message,
    );
    return { password, shown: shown.join("") };
  };

  test("is typed twice at a terminal, and not shown", async () => {
    expect(await typed("secret\nsecret\n")).toEqual({
      password: "secret",
      shown: "New password: \nThe same again: \n",
    });
    expect((await typed("secret\nsecrets\n")).password).toContain("differ");
    expect((await typed("\n")).password).toContain("no password was typed");
    expect((await typed("")).password).toContain("no password was typed");
  });
});
