import { describe, expect, it } from "vitest";
import { findFiles, readText } from "../repository.ts";
import { MEANT_COPIES, secondCopies } from "./second-copies.ts";

const FILE = "router/src/link/link.ts";
const usesOf = (source: string, file = FILE): string[] => secondCopies(file, source).map(({ use }) => use);

describe("a second copy of the small machinery", () => {
  it.each([
    ["errorText", "const text = error instanceof Error ? error.message : String(error);"],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: source text
    ["errorText", "say(`${cause instanceof Error ? cause.message : cause}`);"],
    ["pause", "await new Promise((resolve) => setTimeout(resolve, 50));"],
    ["pause", "return new Promise<void>((resolve) => {\n  setTimeout(resolve, ms);\n});"],
    ["Backoff", "this.#pause = Math.min(this.#pause * 2, LONGEST_MS);"],
    ["Backoff", "for (let wait = 1; ; wait = Math.min(2 * wait, MAX_MS)) {}"],
    ["backoffDelay", "const delay = Math.min(first * 2 ** failures, MAX_MS);"],
    ["SerialQueue", "this.#work = this.#work.then(work);"],
    ["SerialQueue", "this.#work = this.#work\n      .then(() => this.#step())"],
    ["BoundedMap", "const oldest = this.#sets.size > MAX ? this.#sets.keys().next().value : undefined;"],
    ["BoundedMap", "if (this.#sets.size > MAX && oldest !== undefined) this.#sets.delete(oldest);"],
    ["Listeners", "readonly #listeners = new Set<(link: Link) => void>();"],
  ])("is found: %s in %s", (use, source) => {
    expect(usesOf(`\n${source}`)).toEqual([use]);
    expect(secondCopies(FILE, `\n${source}`)[0]?.line).toBe(2);
  });

  it.each([
    ["const reason = error instanceof ApiError ? error.message : String(error);"],
    ["const timer = setTimeout(resolve, 50);"],
    ["const size = Math.min(count * 2, MAX);"],
    ["this.#done = this.#work.then(work);"],
    ["readonly #links = new Set<Link>();"],
  ])("is nothing like %s", (source) => {
    expect(usesOf(source)).toEqual([]);
  });

  it("may stand in packages/async, in tests, and where it is meant", () => {
    const source = "this.#ms = Math.min(2 * this.#ms, MAX);";
    const places = ["packages/async/src/backoff.ts", "router/src/link/link.test.ts"];
    expect(places.flatMap((file) => usesOf(source, file))).toEqual([]);
    expect(usesOf(source, "packages/wire/src/xgress/send/sender.ts")).toEqual([]);
    expect(usesOf(source, "packages/wire/src/xgress/receive.ts")).toEqual(["Backoff"]);
  });

  it("is still there in every place where it is meant", () => {
    const idle = MEANT_COPIES.filter(({ under, use }) => {
      const files = findFiles(under.endsWith("/") ? `${under}**/*.ts` : under);
      return !files.some((file) => secondCopies(file, readText(file), []).some((copy) => copy.use === use));
    });
    expect(idle).toEqual([]);
  });
});
