import { setImmediate } from "node:timers/promises";
import { ApiError } from "@sallyport/api/client";
import { describe, expect, test } from "vitest";
import { RequestBatch } from "./request-batch.ts";

const { signal } = new AbortController();

/** Answers are given when the test says so. */
function scene() {
  const asked: { questions: readonly string[]; answer: () => void; refuse: (error: unknown) => void }[] = [];
  const request = (questions: readonly string[]): Promise<string[]> => {
    const { promise, resolve, reject } = Promise.withResolvers<string[]>();
    asked.push({ questions, answer: () => resolve(questions.map((each) => `${each}!`)), refuse: reject });
    return promise;
  };
  const batch = new RequestBatch<string, string>({
    one: async (question) => (await request([question]))[0] ?? "",
    many: request,
    lengthOf: (question) => question.length,
  });
  /** What is due goes out with the next turn; it may have become due just after this was asked for. */
  const turn = async (): Promise<void> => {
    await setImmediate();
    await setImmediate();
  };
  return { asked, batch, turn };
}

const badFilter = new ApiError(400, "INVALID_FILTER", "no");

describe("a batch of requests", () => {
  test("asks a single question by itself, and what comes while it is under way with one request", async () => {
    const { asked, batch, turn } = scene();
    const first = batch.ask("a", signal);
    await turn();
    const rest = ["c", "d", "e"].map((each) => batch.ask(each, signal));
    await turn();
    expect(asked.map(({ questions }) => questions)).toEqual([["a"]]);
    asked[0]?.answer();
    expect(await first).toBe("a!");
    await turn();
    expect(asked[1]?.questions).toEqual(["c", "d", "e"]);
    asked[1]?.answer();
    expect(await Promise.all(rest)).toEqual(["c!", "d!", "e!"]);
  });

  test("never joins a request that is on its way already", async () => {
    const { asked, batch, turn } = scene();
    const first = batch.ask("a", signal);
    await turn();
    const second = batch.ask("a", signal);
    asked[0]?.answer();
    await first;
    await turn();
    expect(asked).toHaveLength(2);
    asked[1]?.answer();
    expect(await second).toBe("a!");
  });

  test("asks what one request can't hold with the next one", async () => {
    const { asked, batch, turn } = scene();
    const many = Array.from({ length: 150 }, (_, index) => batch.ask(`q${index}`, signal));
    await turn();
    asked[0]?.answer();
    await turn();
    asked[1]?.answer();
    expect((await Promise.all(many)).at(-1)).toBe("q149!");
    const long = [batch.ask("x".repeat(4_000), signal), batch.ask("y".repeat(4_000), signal)];
    await turn();
    asked[2]?.answer();
    await turn();
    asked[3]?.answer();
    await Promise.all(long);
    expect(asked.map(({ questions }) => questions.length)).toEqual([100, 50, 1, 1]);
  });

  test("asks one by one where the server does not take them together, so that only the bad one fails", async () => {
    const { asked, batch, turn } = scene();
    const answers = Promise.allSettled(["a", "b"].map((each) => batch.ask(each, signal)));
    await turn();
    asked[0]?.refuse(badFilter);
    await turn();
    expect(asked.slice(1).map(({ questions }) => questions)).toEqual([["a"], ["b"]]);
    asked[1]?.answer();
    asked[2]?.refuse(badFilter);
    expect(await answers).toEqual([
      { status: "fulfilled", value: "a!" },
      { status: "rejected", reason: badFilter },
    ]);
  });

  test("fails for all of them with what the request failed with, and goes on", async () => {
    const { asked, batch, turn } = scene();
    const answers = Promise.allSettled(["a", "b"].map((each) => batch.ask(each, signal)));
    await turn();
    asked[0]?.refuse(new Error("away"));
    expect((await answers).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const next = batch.ask("c", signal);
    await turn();
    asked[1]?.answer();
    expect(await next).toBe("c!");
  });

  test("lets a caller go that gives up, and does not ask for it any more", async () => {
    const { asked, batch, turn } = scene();
    void batch.ask("a", signal);
    await turn();
    const giving = new AbortController();
    const given = batch.ask("c", giving.signal);
    giving.abort(new Error("stopped"));
    await expect(given).rejects.toThrow("stopped");
    const last = batch.ask("d", signal);
    asked[0]?.answer();
    await turn();
    expect(asked[1]?.questions).toEqual(["d"]);
    asked[1]?.answer();
    expect(await last).toBe("d!");
    await expect(batch.ask("e", giving.signal)).rejects.toThrow("stopped");
  });
});
