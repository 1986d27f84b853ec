import { describe, expect, it } from "vitest";
import { type PresenceChange, type PresenceSeen, presenceProblems } from "./presence.ts";

const UNKNOWN = Number.POSITIVE_INFINITY;
const begin = (began: number, ended: number): PresenceChange => ({ key: "k", kind: "begin", began, ended, by: "c" });
const end = (began: number, ended: number): PresenceChange => ({ key: "k", kind: "end", began, ended, by: "c" });
const saw = (isPresent: boolean, began: number, ended: number): PresenceSeen => ({
  ...{ key: "k", isPresent, began, ended, by: "s" },
});

describe("what is seen of a thing", () => {
  it.each<[string, PresenceChange[], PresenceSeen[]]>([
    [
      "before, during and after its begin",
      [begin(1, 4)],
      [saw(false, 0, 1), saw(true, 2, 3), saw(false, 2, 5), saw(true, 5, 6)],
    ],
    [
      "during and after its end",
      [begin(0, 1), end(4, 7)],
      [saw(true, 2, 3), saw(false, 5, 6), saw(true, 6, 8), saw(false, 8, 9)],
    ],
    ["after a begin of unknown outcome", [begin(0, UNKNOWN)], [saw(false, 5, 6), saw(true, 7, 8), saw(false, 9, 10)]],
    ["after an end of unknown outcome", [begin(0, 1), end(2, UNKNOWN)], [saw(true, 5, 6), saw(false, 7, 8)]],
    ["after a second try of an end", [begin(0, 1), end(2, UNKNOWN), end(4, 5)], [saw(true, 3, 4), saw(false, 6, 7)]],
  ])("%s is right", (_, changes, seen) => {
    expect(presenceProblems(changes, seen)).toEqual([]);
  });

  it.each<[string, PresenceChange[], PresenceSeen[], string]>([
    [
      "it is missing after its begin was answered",
      [begin(0, 1)],
      [saw(false, 2, 3)],
      "1.0 ms after its begin was answered",
    ],
    ["it is missing before its end was asked for", [begin(0, 1), end(4, 5)], [saw(false, 2, 3)], "did not see k"],
    [
      "it is there after its end was answered",
      [begin(0, 1), end(2, 3)],
      [saw(true, 5, 6)],
      "2.0 ms after its end was answered",
    ],
    [
      "it is there after the second try of its end",
      [begin(0, 1), end(2, UNKNOWN), end(3, 4)],
      [saw(true, 5, 6)],
      "saw k",
    ],
    ["it is there before its begin", [begin(5, 6)], [saw(true, 0, 1)], "had not begun"],
    ["it is there and never began", [], [saw(true, 0, 1)], "had not begun"],
  ])("is found to be wrong when %s", (_, changes, seen, problem) => {
    expect(presenceProblems(changes, seen)).toEqual([expect.stringContaining(problem)]);
  });

  it("takes a key for one life only", () => {
    expect(() => presenceProblems([begin(0, 1), begin(2, 3)], [])).toThrow("began twice");
  });
});
