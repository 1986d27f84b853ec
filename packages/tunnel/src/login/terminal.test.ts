import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { oneTimeCodeOf, TerminalUser } from "./terminal.ts";

const QUERY = { minLength: 6, maxLength: 8, isRepeated: false };

/** A terminal whose keys and screen are streams. */
function terminal(isTTY: boolean) {
  const keys = new PassThrough();
  const screen = new PassThrough({ encoding: "utf8" });
  const input = Object.assign(keys, { isTTY }) as unknown as NodeJS.ReadStream;
  return { keys, screen, user: new TerminalUser(input, screen) };
}

const never = new AbortController().signal;

test("a code is asked for with the name of the identity, and again when it was wrong", async () => {
  const { keys, screen, user } = terminal(true);
  const codeFor = oneTimeCodeOf(user, "me.json", never);
  const first = codeFor(QUERY);
  keys.write(" 123456 \n");
  expect(await first).toBe("123456");
  const second = codeFor({ ...QUERY, isRepeated: true });
  keys.write("654321\n");
  expect(await second).toBe("654321");
  expect(screen.read()).toBe("One-time code for me.json: This code was wrong. One-time code for me.json: ");
});

test("one identity is asked for after the other", async () => {
  const { keys, screen, user } = terminal(true);
  const both = Promise.all(["a.json", "b.json"].map((file) => oneTimeCodeOf(user, file, never)(QUERY)));
  const shown: string[] = [];
  screen.on("data", (text: string) => {
    shown.push(text);
    keys.write(`${shown.length}\n`);
  });
  expect(await both).toEqual(["1", "2"]);
  expect(shown).toEqual(["One-time code for a.json: ", "One-time code for b.json: "]);
});

test("an empty line is no attempt", async () => {
  const { keys, screen, user } = terminal(true);
  const code = oneTimeCodeOf(user, "me.json", never)(QUERY);
  const lines = ["\n", "123456\n"];
  screen.on("data", () => void keys.write(lines.shift() ?? ""));
  expect(await code).toBe("123456");
});

test("an input that ends is an answer, too", async () => {
  const { keys, user } = terminal(true);
  const code = oneTimeCodeOf(user, "me.json", never)(QUERY);
  keys.end();
  await expect(code).rejects.toMatchObject({ code: "SECOND_FACTOR_REQUIRED", message: expect.stringMatching(/ended/) });
});

test("without a terminal the login fails with what can be done", async () => {
  const { screen, user } = terminal(false);
  await expect(oneTimeCodeOf(user, "me.json", never)(QUERY)).rejects.toMatchObject({
    code: "SECOND_FACTOR_REQUIRED",
    message: expect.stringMatching(/one-time code for me\.json, and there is no terminal/),
  });
  expect(screen.read()).toBeNull();
});

test("a question ends with the program", async () => {
  const { user } = terminal(true);
  const stop = new AbortController();
  const asked = oneTimeCodeOf(user, "me.json", stop.signal)(QUERY);
  stop.abort(new Error("SIGTERM was received"));
  await expect(asked).rejects.toThrow();
});

test("what a provider says does not move the cursor", () => {
  const { screen, user } = terminal(false);
  user.tell("the code \u001b[2JABC\r\n\u009b31mDEF\u202eGHI");
  expect(screen.read()).toBe("the code [2JABC31mDEFGHI\n");
});
