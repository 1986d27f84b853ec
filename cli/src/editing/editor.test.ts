import { expect, it } from "vitest";
import { testContext } from "../testing/test-context.ts";
import { editorOf } from "./editor.ts";

it("the editor is that of VISUAL or EDITOR; the usual one needs a terminal", () => {
  expect(editorOf(testContext({ VISUAL: "code --wait", EDITOR: "ed" }))).toBe("code --wait");
  expect(editorOf(testContext({ VISUAL: "", EDITOR: "ed" }))).toBe("ed");
  expect(() => editorOf(testContext())).toThrow("no terminal for an editor: change fields with 'sallyport patch'");
});
