import { describe, expect, it } from "vitest";
import { wrongWords } from "./check-words.ts";

const found = (file: string, text: string) => wrongWords(file, text).map(({ line, found }) => [line, found]);

describe("words that are not used", () => {
  it("are found in prose, comments, strings and names, with their line", () => {
    expect(found("page.md", "One line.\nNobody knows.\n")).toEqual([[2, "Nobody"]]);
    expect(found("a.ts", '/** For whoever asks. */\nexport const theBeholder = "somebody";\n')).toEqual([
      [1, "whoever"],
      [2, "Beholder"],
      [2, "somebody"],
    ]);
  });

  it("are not looked for in the code of a page", () => {
    expect(found("page.md", "```sh\necho nobody\n```\n\n    nobody\n\n`nobody`, then anew\n")).toEqual([[7, "anew"]]);
  });

  it("are right where they are names of something else", () => {
    expect(found("a.ts", 'const user = "nobody";')).toEqual([]);
    expect(found("page.md", "See Troubleshooting. The peer of a TLS connection.")).toEqual([]);
  });

  it("name OpenZiti where it is meant", () => {
    const [wrong] = wrongWords("page.md", "The peer's CLI works.");
    expect(wrong?.word.instead).toBe("OpenZiti's");
  });
});
